//! Programs that are agents themselves: found, started once a turn with our tools, and judged by what they report.
//!
//! What differs between them is a [`Dialect`](dialect::Dialect), which is pure: what a turn is started with, as data, and what
//! the program's lines mean. Nothing of the user's configuration is changed: what is ours is given by flags and by the
//! environment ([`bridge`]), or in a private home where there is no other way; the login is the user's own ([`login`]).

pub(crate) mod bridge;
pub(crate) mod conversation;
pub(crate) mod dialect;
pub(crate) mod failure;
mod find;
pub(crate) mod login;
pub(crate) mod override_file;
mod prepare;
pub(crate) mod report;
#[cfg(test)]
pub(crate) mod testing;

pub use prepare::LEDGER;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::claude::Claude;
use super::codex::Codex;
use super::cursor::Cursor;
use super::gemini::Gemini;
use super::opencode::Opencode;
use super::{Backend, BackendEvent, BackendOutcome, Events, Failure, Seat, Turn, TurnVerdict, Usage, Why, over_limit};
use crate::file::{self, AgentProgram};
use crate::process::{self, Finished, How, Limits, NotStarted, Program, Stream};
use crate::sandbox::Sandbox;
use bridge::Bridge;
use conversation::Conversation;
use dialect::{Asked, Dialect, Start, Walls};
use report::{Heard, ReportedEnd, one_line};

/// From this attempt on a new conversation is begun: the old one may be what fails, for example because it is too long.
const FRESH: u32 = 3;
/// How much a program may tell of one turn before it is ended. It passes on all that its tools bring, so that a turn of an hour
/// tells a lot; none of it is kept in memory.
const TOLD_BYTES: u64 = 256 << 20;

/// An agent that is a program.
#[derive(Debug)]
pub(super) struct ProgramAgent {
    seat: Seat,
    dialect: Box<dyn Dialect>,
    path: PathBuf,
    bridge: Option<Bridge>,
    sandbox: Option<Arc<Sandbox>>,
    walls: Walls,
    /// For its login, from the runner's own environment.
    login: super::Environment,
}

impl ProgramAgent {
    /// Fails if the program is not there, or cannot do what the file wants of it.
    pub(super) fn open(program: AgentProgram, seat: &Seat) -> Result<ProgramAgent, Failure> {
        if program == AgentProgram::Cursor && seat.allowed.as_ref().is_some_and(|tools| !tools.is_empty()) {
            return Err(unlimited());
        }
        let ours = surroundings();
        let at = |name: &str| seat.env.0.get(name).or_else(|| ours.get(name)).cloned();
        let path = find::find(program, &OsString::from(at("PATH").unwrap_or_default()))?;
        let home = at("HOME").map(PathBuf::from);
        let dialect: Box<dyn Dialect> = match program {
            AgentProgram::Claude => Box::new(Claude),
            AgentProgram::Codex => Box::new(Codex::load(codex_home(at("CODEX_HOME"), home.as_deref()).as_deref())),
            AgentProgram::Cursor => Box::new(Cursor),
            AgentProgram::Opencode => Box::new(Opencode),
            AgentProgram::Gemini => Box::new(Gemini::load(home.as_deref())),
        };
        let login = login::variables(program, dialect.variables(), &ours);
        let sandbox = sandbox(program, dialect.as_ref(), seat, &login)?;
        let has_tools = seat.allowed.as_ref().is_none_or(|tools| !tools.is_empty());
        let variables = || {
            // In a sandbox the gate proves who speaks, and there is no key to hand on.
            seat.identity().into_keys().filter(|name| sandbox.is_none() || name != "ROOKERY_SESSION").collect()
        };
        let bridge = has_tools.then(|| Bridge::new(&seat.program, &seat.project, variables()));
        let walls = match sandbox {
            None if seat.sandbox != file::Sandbox::Off => Walls::ItsOwn,
            _ => Walls::NotItsOwn,
        };
        let login = super::Environment(login);
        Ok(ProgramAgent { seat: seat.clone(), dialect, path, bridge, sandbox, walls, login })
    }

    async fn run(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        self.sandbox.iter().for_each(|sandbox| sandbox.tell(events));
        let absent = self.sandbox.as_ref().map(|sandbox| sandbox.absent_settings()).unwrap_or_default();
        let ended = self.run_watched(turn, events).await;
        if let Some(sandbox) = &self.sandbox {
            sandbox.tell_traps(events).await;
        }
        let name = self.dialect.program().as_str();
        for path in absent.iter().filter(|path| std::fs::symlink_metadata(path).is_ok()) {
            let path = path.display();
            let note =
                format!("{path} was made in this turn, and your own {name} goes by it: look at it before you use that");
            events.tell(BackendEvent::Note(note));
        }
        ended
    }

    async fn run_watched(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        let kept = turn.conversation.as_deref().filter(|_| turn.attempt < FRESH);
        let resumes = Conversation::resumed(kept, &turn.system);
        let can_forget = resumes.is_some();
        let (ended, forgot) = self.attempt(turn, resumes, events).await;
        if !(can_forget && forgot) {
            return ended;
        }
        let name = self.dialect.program().as_str();
        events.tell(BackendEvent::Note(format!("{name} does not know its conversation any more and begins a new one")));
        self.attempt(turn, None, events).await.0
    }

    /// Tells besides whether the program did not know the conversation that it was to go on with.
    async fn attempt(&self, turn: &Turn, resumes: Option<Conversation>, events: &Events) -> (BackendOutcome, bool) {
        let asked = Asked {
            system: &turn.system,
            prompt: &turn.prompt,
            model: self.seat.model.as_deref(),
            resumes,
            bridge: self.bridge.as_ref(),
            allowed: self.seat.allowed.as_deref(),
            walls: self.walls,
            folder: &self.seat.folder,
            state: &self.seat.state,
        };
        let start = self.dialect.start(&asked);
        let transcript = self.seat.state.join("transcript.txt");
        let prepared = match prepare::prepare(&self.seat, &start).await {
            Ok(prepared) => prepared,
            Err(failure) => return (not_run(failure), false),
        };
        let (heard, finished) = self.follow(turn, &asked, &start, &transcript, events).await;
        prepared.undo(events).await;
        let forgot = !heard.worked && self.forgot(&heard, finished.as_ref().ok());
        let used = asked.used();
        let kept = heard.conversation.clone().or_else(|| asked.resumes.as_ref().map(|kept| kept.id.clone()));
        let conversation = kept.map(|id| Conversation::kept(id, &turn.system, used, heard.usage));
        let usage = heard.usage;
        let verdict = self.judge(heard, finished, turn);
        (BackendOutcome { verdict, conversation, usage, transcript: Some(transcript) }, forgot)
    }

    async fn follow(
        &self,
        turn: &Turn,
        asked: &Asked<'_>,
        start: &Start,
        transcript: &Path,
        events: &Events,
    ) -> (Heard, Result<Finished, NotStarted>) {
        // Ends by itself also if what is heard leaves no hope.
        let cancel = turn.cancel.child_token();
        let (mut heard, mut reader) = (Heard::default(), self.dialect.reader(asked));
        let limits = Limits { timeout: turn.timeout, idle: None, output_bytes: TOLD_BYTES };
        let mut hear = |stream: Stream, line: &str| {
            match (stream, serde_json::from_str::<Value>(line)) {
                (Stream::Stdout, Ok(event)) if event.is_object() => {
                    reader.hear(&event, &mut heard).into_iter().for_each(|event| events.tell(event));
                }
                (Stream::Stdout, _) => {}
                (Stream::Stderr, _) => reader.overhear(line, &mut heard),
            }
            if heard.hopeless {
                cancel.cancel();
            }
        };
        let finished = process::run(&self.program(turn, start), limits, transcript, &cancel, &mut hear).await;
        (heard, finished)
    }

    fn program(&self, turn: &Turn, start: &Start) -> Program {
        let argv = std::iter::once(self.path.clone().into_os_string()).chain(start.args.iter().map(OsString::from));
        let mut program = self.seat.starts(argv).sandbox(self.sandbox.clone());
        // What the file says wins, but for what the program cannot do without.
        for (name, value) in self.login.0.iter().chain(&start.usual) {
            program.env.entry(name.into()).or_insert_with(|| value.into());
        }
        program.envs(&start.fixed).env("ROOKERY_TURN", &turn.id).stdin(start.stdin.clone())
    }

    fn forgot(&self, heard: &Heard, finished: Option<&Finished>) -> bool {
        let failed = match &heard.end {
            Some(ReportedEnd::Failed(failure)) => failure.reason.as_str(),
            Some(ReportedEnd::Done) => return false,
            None => "",
        };
        let tail = finished.map_or("", |finished| finished.stderr_tail.as_str());
        self.dialect.forgot().iter().any(|word| failed.contains(word) || tail.contains(word))
    }

    /// What it reported counts. How the process ended only says why it reported nothing.
    fn judge(&self, heard: Heard, finished: Result<Finished, NotStarted>, turn: &Turn) -> TurnVerdict {
        let name = self.dialect.program().as_str();
        let failed = |why: Why, reason: String| TurnVerdict::Failed(Failure { why, reason, hint: None });
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => return failed(Why::Hopeless, format!("{name} was not started: {error}")),
        };
        match (heard.end, finished.how) {
            (Some(ReportedEnd::Failed(failure)), _) if heard.hopeless => TurnVerdict::Failed(failure),
            (_, How::OverLimit(excess)) => TurnVerdict::Failed(over_limit(&self.seat, excess)),
            (_, How::Cancelled) => failed(Why::Cancelled, "it was asked to stop".to_owned()),
            (Some(ReportedEnd::Failed(failure)), _) => TurnVerdict::Failed(failure),
            (Some(ReportedEnd::Done), _) => TurnVerdict::Done { said: heard.said, worked: heard.worked },
            (None, How::TimedOut | How::Idle) => {
                failed(Why::TimedOut, format!("{name} took longer than {} s", turn.timeout.as_secs_f64()))
            }
            (None, How::Flooded) => failed(Why::Fault, format!("{name} wrote more than {TOLD_BYTES} bytes")),
            (None, how) => self.without_an_end(how, &finished.stderr_tail),
        }
    }

    fn without_an_end(&self, how: How, stderr: &str) -> TurnVerdict {
        let program = self.dialect.program();
        let mut failure = failure::failure(program, None, stderr);
        let last = stderr.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(": {}", one_line(line, 300))).unwrap_or_default();
        failure.reason = format!("{} did not finish its turn, {how}{last}", program.as_str());
        TurnVerdict::Failed(failure)
    }
}

impl Backend for ProgramAgent {
    fn turn<'a>(&'a self, turn: &'a Turn, events: &'a Events) -> BoxFuture<'a, BackendOutcome> {
        Box::pin(self.run(turn, events))
    }

    fn account(&self) -> String {
        self.dialect.program().as_str().to_owned()
    }
}

fn not_run(failure: Failure) -> BackendOutcome {
    BackendOutcome {
        verdict: TurnVerdict::Failed(failure),
        conversation: None,
        usage: Usage::default(),
        transcript: None,
    }
}

fn unlimited() -> Failure {
    Failure {
        why: Why::Hopeless,
        reason: "Cursor cannot be limited to some of our tools".to_owned(),
        hint: Some("take `tools` away from this agent, or make it `[]` so that it gets none".to_owned()),
    }
}

fn codex_home(said: Option<String>, home: Option<&Path>) -> Option<PathBuf> {
    said.map(PathBuf::from).or_else(|| home.map(|home| home.join(".codex")))
}

/// Fails if the program is not on the `PATH` of the environment that it would have.
pub(super) fn foresee(program: AgentProgram, env: &BTreeMap<String, String>) -> Result<(), Failure> {
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    find::find(program, path.as_ref()).map(drop)
}

/// The runner's own environment, as far as it is text.
fn surroundings() -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// Shows the program what it has in the person's home, and lets it reach its model wherever that is.
fn sandbox(
    program: AgentProgram,
    dialect: &dyn Dialect,
    seat: &Seat,
    login: &BTreeMap<String, String>,
) -> Result<Option<Arc<Sandbox>>, Failure> {
    let mut env = login.clone();
    env.extend(seat.env.0.clone());
    let mut with_home = surroundings();
    with_home.extend(env.clone());
    // Addresses that its own configuration names are as good as those in its environment.
    let named = dialect.addresses().iter().enumerate().map(|(at, url)| (format!("{at}_BASE_URL"), url.clone()));
    env.extend(named);
    let sandbox = Sandbox::of(seat, Some(program), &env, &login::folders(program, &with_home))?;
    if sandbox.is_some() {
        login::copy(program, &with_home, &seat.state.join("home"));
    }
    Ok(sandbox)
}
