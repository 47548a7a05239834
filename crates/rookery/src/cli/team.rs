//! Running a team from the command line: signals, the screen, the result and its exit code; and doing it in the background.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use rookery_client::Client;
use rookery_client::teams::{Mode, Team};
use rookery_core::SiteId;
use rookery_runner::file::{Blocker, Ready};
use rookery_runner::screen::{self, Look, Manner};
use rookery_runner::team::{
    self, Interrupt, InterruptKind, Leftovers, Order, Reports, RunOutcome, RunSummary, TeamError,
};
use tokio::signal::unix::{SignalKind, signal};

use super::context::Context;
use super::failure::{Exit, Failure};
use super::output::Format;
use crate::process;
use crate::project::{Project, host_name};

/// How long a runner waits for a daemon that is away: as long as it takes.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// How long a team in the background may take until it is there.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);
/// How long its setup commands are waited for then. They may take longer, but most that fail do so at once.
const SETS_UP_WITHIN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);
/// How much of a log is read to say why nothing began.
const LOG_TAIL_BYTES: u64 = 16 << 10;

/// What to run.
#[derive(Debug)]
pub struct TeamRunOptions {
    pub ready: Ready,
    pub mode: Mode,
    pub verbose: bool,
    pub timeout: Option<Duration>,
    pub leftovers: Leftovers,
}

/// A duration on the command line.
pub fn duration(text: &str) -> Result<Duration, String> {
    rookery_runner::file::parse_duration(text)
        .ok_or_else(|| "must be a number with its unit, such as 30s, 5m or 2h".to_owned())
}

/// Refuses what cannot be run, with everything that keeps it from being.
pub fn hindered(hindrances: &[Blocker]) -> anyhow::Result<()> {
    if hindrances.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = hindrances.iter().map(ToString::to_string).collect();
    Err(Failure::usage(all.join("; ")).hint("`rookery check FILE` shows what the file needs and would do").into())
}

/// Runs the team in this process until it is over, and shows what came of it.
pub async fn drive(context: &Context, wanted: TeamRunOptions) -> anyhow::Result<()> {
    let (mode, verbose) = (wanted.mode, wanted.verbose);
    let order = order(context, wanted).await?;
    let interrupt = interrupted_by_signals()?;
    let (reports, told) = Reports::channel();
    let look = look(context, verbose);
    let drawing = tokio::spawn(async move { screen::show(told, look, &mut std::io::stderr()).await });
    let ended = team::run(order, reports, interrupt).await;
    // The screen ends when nobody is left to tell it anything.
    drawing.await?;
    match ended {
        Ok(summary) => finish(context, mode, &summary),
        Err(TeamError::Interrupted | TeamError::Suspended) => {
            Err(Failure::interrupted("interrupted before it began").hint("start it again when you like").into())
        }
        Err(TeamError::Stopped) if mode != Mode::Run => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

async fn order(context: &Context, wanted: TeamRunOptions) -> anyhow::Result<Order> {
    let project = context.project()?;
    let client: Client = context.client().await?.with_retry_timeout(RETRY_TIMEOUT);
    Ok(Order {
        project: project.root().to_path_buf(),
        program: std::env::current_exe()?,
        client,
        host: host_name(),
        site: Some(site(&project)?.to_string()),
        ready: wanted.ready,
        mode: wanted.mode,
        timeout: wanted.timeout,
        leftovers: wanted.leftovers,
    })
}

/// The daemon has given this folder its id when it started here.
fn site(project: &Project) -> anyhow::Result<SiteId> {
    Ok(project.site(|| SiteId::from(host_name().as_str()))?)
}

fn look(context: &Context, verbose: bool) -> Look {
    let terminal = std::io::stderr().is_terminal();
    let manner = match context.out.format() {
        Format::Json => Manner::Quiet,
        Format::Human if context.out.is_quiet() => Manner::Quiet,
        Format::Human if terminal => Manner::Live { size: terminal_size },
        Format::Human => Manner::Plain,
    };
    Look { manner, verbose, colour: terminal && context.out.has_colour() }
}

fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    // Some terminals do not know.
    Some((size.ws_col, size.ws_row)).filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

/// Told by Ctrl-C that the team ends, and by a machine that goes down or a terminal that is closed that it goes on later. A
/// second signal does not wait: what runs dies with this process.
fn interrupted_by_signals() -> anyhow::Result<Interrupt> {
    let interrupt = Interrupt::default();
    let mut by_person = signal(SignalKind::interrupt())?;
    let mut by_machine = [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
    let asked = interrupt.clone();
    tokio::spawn(async move {
        loop {
            let [terminated, hung_up] = &mut by_machine;
            let ending = tokio::select! {
                _ = by_person.recv() => InterruptKind::Stop,
                _ = terminated.recv() => InterruptKind::Suspend,
                _ = hung_up.recv() => InterruptKind::Suspend,
            };
            if !asked.request(ending) {
                std::process::exit(Exit::Interrupted as i32);
            }
        }
    });
    Ok(interrupt)
}

/// The result on stdout, and the exit code.
fn finish(context: &Context, mode: Mode, summary: &RunSummary) -> anyhow::Result<()> {
    match context.out.format() {
        Format::Json => context.out.json(summary)?,
        Format::Human => {
            if let Some(document) = summary.document.as_ref().filter(|_| mode == Mode::Run) {
                context.out.text(&document.text)?;
            }
        }
    }
    let reason = summary.reason.clone().unwrap_or_else(|| format!("{} {}", summary.team, summary.outcome));
    match summary.ended {
        RunOutcome::Completed => Ok(()),
        RunOutcome::Stopped if mode != Mode::Run => Ok(()),
        RunOutcome::Stopped => {
            Err(Failure::new(format!("it was stopped: {reason}")).hint(look_at(&summary.team)).into())
        }
        RunOutcome::Failed => Err(Failure::new(reason).hint(look_at(&summary.team)).into()),
        RunOutcome::Interrupted => {
            Err(Failure::interrupted("interrupted").hint("what is unread stays so; run it again to begin anew").into())
        }
        RunOutcome::Suspended => {
            let hint = format!("start it again to go on; `rookery stop {}` ends it", summary.team);
            Err(Failure::interrupted("its process was told to end").hint(hint).into())
        }
    }
}

fn look_at(team: &str) -> String {
    let instance = team.strip_prefix('@').unwrap_or("default");
    format!("`rookery context read --instance {instance}` shows what was said, `rookery deliveries` what was given up")
}

fn failed(error: TeamError) -> anyhow::Error {
    // What the daemon refuses has its own code and exit.
    if let TeamError::Daemon(error) = error {
        return error.into();
    }
    let (hint, lines) = (error.hint(), last_lines(&error));
    let mut message = anyhow::Error::from(error).chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    lines.iter().for_each(|line| message.push_str(&format!("\n  {line}")));
    Failure::new(message).hint(hint).into()
}

/// What a setup command wrote last.
fn last_lines(error: &TeamError) -> Vec<String> {
    match error {
        TeamError::Setup(rookery_runner::setup::SetupError::Failed { lines, .. }) => lines.clone(),
        _ => Vec::new(),
    }
}

/// Starts this program again with these arguments, without a terminal, and returns when its team is there.
pub async fn background(context: &Context, wanted: &TeamRunOptions, arguments: Vec<OsString>) -> anyhow::Result<()> {
    let project = context.project()?;
    let client = context.client().await?;
    let team = team::team_of(&wanted.ready, wanted.mode);
    let folder = team::state_folder(project.root(), &team);
    let log = folder.join("runner.log");
    let before = std::fs::metadata(&log).map_or(0, |log| log.len());
    let mut child = process::spawn_runner(&project, &log, &arguments)?;
    let mut until = async |is_there: fn(&Team) -> bool| {
        loop {
            if child.try_wait()?.is_some() {
                return Err(did_not_begin(&log, before));
            }
            if let Ok(found) = client.team(team.as_str()).await
                && found.live
                && found.runner.as_ref().is_some_and(|runner| runner.pid == child.id())
                && is_there(&found)
            {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(BEGINS_WITHIN, until(|_| true)).await {
        Ok(began) => began?,
        Err(_) => {
            let message = format!("{team} did not begin within {} s", BEGINS_WITHIN.as_secs());
            return Err(Failure::new(message).hint(format!("read {}", log.display())).into());
        }
    }
    match tokio::time::timeout(SETS_UP_WITHIN, until(|team| team.kicked_off)).await {
        Ok(set_up) => set_up?,
        Err(_) if client.team(team.as_str()).await.is_ok_and(|team| !team.live) => {
            // It came to nothing already, and its process is about to say why.
            if let Ok(ended) = tokio::time::timeout(BEGINS_WITHIN, until(|_| false)).await {
                ended?;
            }
        }
        Err(_) => context.out.note("its setup commands still run"),
    }
    let answer = serde_json::json!({"team": team, "pid": child.id(), "log": log});
    context.out.done_each(&answer, started(team.as_str(), child.id(), &log).into_iter())
}

fn started(team: &str, pid: u32, log: &Path) -> [String; 3] {
    [
        format!("{team} runs in the background (process {pid})"),
        format!("  look:  rookery list, rookery peek, or {}", log.display()),
        format!("  stop:  rookery stop {team}"),
    ]
}

/// Why a runner in the background ended at once, in the words that it left in its log.
fn did_not_begin(log: &Path, before: u64) -> anyhow::Error {
    let said = tail(log, before).unwrap_or_default();
    let last = |prefix: &str| said.lines().rev().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
    let reason = last("error: ").or_else(|| said.lines().last().map(str::to_owned));
    let hint = last("hint: ").unwrap_or_else(|| format!("read {}", log.display()));
    Failure::new(reason.unwrap_or_else(|| "it ended and left no message".to_owned())).hint(hint).into()
}

fn tail(log: &Path, before: u64) -> std::io::Result<String> {
    let mut log = std::fs::File::open(log)?;
    let end = log.metadata()?.len();
    log.seek(SeekFrom::Start(before.max(end.saturating_sub(LOG_TAIL_BYTES)).min(end)))?;
    let mut bytes = Vec::new();
    log.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
