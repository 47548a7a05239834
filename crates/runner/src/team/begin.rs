//! Starts a team: takes the lock, registers the team with the daemon, configures the context, registers the agents, runs the
//! setup commands and sends the kickoff. Skips steps that an earlier runner of the team has completed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rookery_client::ClientError;
use rookery_client::teams::{Mode, Recruit, Runner, StartTeam, Started, Team, TeamEndOutcome};
use rookery_client::turns::{Turn, TurnEndOutcome};
use rookery_core::model::context_settings::Provider;
use rookery_core::{AgentId, TeamId};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::archive::{Leftovers, archive};
use super::board::Board;
use super::clock::TeamClock;
use super::crew::Crew;
use super::decide::alarm::RunnerAlarm;
use super::decide::attempts::Attempts;
use super::decide::budget::Spent;
use super::interrupt::{Interrupt, InterruptKind};
use super::ledger::Ledger;
use super::lock::{self, LockError, TeamLock};
use super::member::{Member, RetryTurn};
use super::report::{Began, Level, MemberInfo, Report, Reports, UsageTotals};
use super::seats::{self, SeatContext};
use super::turn::LIMITED;
use super::{Order, TeamError, runner};
use crate::backend::{self, Seat, Usage};
use crate::file::{Agent, Ready, cost_limit_warning};
use crate::process::{self, ExecShim};
use crate::sandbox;
use crate::setup::{self, SetupContext, SetupProgress};
use crate::steps;
use crate::turn::{KickoffMessage, system};

/// Number of latest turns in which an agent's attempts are counted after a restart.
const TURNS_BACK: u32 = 50;
/// Interval for checking whether the team was asked to stop before it has begun.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A team whose agents are ready to work.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) crew: Arc<Crew>,
    pub(super) members: Vec<Member>,
    /// The position in the log from which to follow.
    pub(super) position: Option<String>,
    /// The lock, held until the team has ended.
    pub(super) held: TeamLock,
    pub(super) resumed: bool,
}

/// Starts the team or takes it over. If that fails, the team has ended when this returns.
pub(super) async fn begin(order: &Order, reports: &Reports, interrupt: &Interrupt) -> Result<Begun, TeamError> {
    let (team, clock) = (order.team(), TeamClock::start());
    let held = hold(order, &team)?;
    check_backends(order)?;
    end_orphans(&held, reports).await?;
    restore_overrides(order, reports)?;
    let (started, before) = start(order, &team, &held).await?;
    let row = order.client.team(team.as_str()).await?;
    report_began(order, &team, &started, reports);
    if let Some(missing) = sandbox::missing_warning(&order.ready.workflow.agents) {
        reports.note(None, Level::Warning, missing);
    }
    if let Some(warning) = cost_limit_warning(&order.ready) {
        reports.note(None, Level::Warning, warning);
    }
    let prepared = Preparing {
        order,
        team: &team,
        started: &started,
        before: before.as_ref(),
        row: &row,
        held: &held,
        reports,
        clock,
        interrupt,
    };
    match prepared.prepare().await {
        Ok((crew, members)) => {
            let position = row.started_seq.filter(|_| counts_from_its_start(order)).map(|seq| seq.to_string());
            Ok(Begun { crew, members, position, held, resumed: started.resumed })
        }
        Err(error) => {
            give_up(order, &team, &started, &error).await;
            Err(error)
        }
    }
}

/// Whether to read all events since the team began, in order to count its messages. A team without such a limit may run for
/// months and need not.
fn counts_from_its_start(order: &Order) -> bool {
    order.mode == Mode::Run || order.ready.workflow.limits.max_messages.is_some()
}

fn hold(order: &Order, team: &TeamId) -> Result<TeamLock, TeamError> {
    let folder = lock::state_folder(&order.project, team);
    lock::hold(folder.clone()).map_err(|not_held| match not_held {
        LockError::HeldBy { pid } => TeamError::Running { team: team.clone(), pid },
        LockError::Io(source) => TeamError::State { path: folder, source },
    })
}

/// Fails before anything is started or resumed if a backend cannot work.
fn check_backends(order: &Order) -> Result<(), TeamError> {
    let Ready { workflow, variables, .. } = &order.ready;
    workflow.agents.iter().try_for_each(|agent| backend::preflight(agent, variables)).map_err(TeamError::Backend)
}

/// Ends programs that an earlier runner left behind.
async fn end_orphans(held: &TeamLock, reports: &Reports) -> Result<(), TeamError> {
    let records = held.records();
    let orphans = process::end_orphans(&records).await;
    for orphan in orphans.map_err(|source| TeamError::State { path: records, source })? {
        reports.note(None, Level::Info, format!("ended `{}`, left over from before", orphan.program));
    }
    Ok(())
}

/// Restores files of the project that were overridden when a runner died, whichever team it ran.
fn restore_overrides(order: &Order, reports: &Reports) -> Result<(), TeamError> {
    let ledger = order.project.join(backend::LEDGER);
    let files = backend::restore_all(&ledger).map_err(|source| TeamError::State { path: ledger, source })?;
    for file in files {
        reports.note(None, Level::Info, format!("restored {}, overridden before a crash", file.display()));
    }
    Ok(())
}

/// Registers this process as the team's runner. Takes over a team that is live according to the log: the lock proves that
/// its runner on this machine is gone. Whether a runner on another machine is gone cannot be known here. Returns the team as it
/// was before, too.
async fn start(order: &Order, team: &TeamId, held: &TeamLock) -> Result<(Started, Option<Team>), TeamError> {
    let this = runner::this(&order.host, order.site.as_deref());
    let before = match order.client.team(team.as_str()).await {
        Ok(before) => Some(before),
        Err(ClientError::Refused { status: 404, .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(before) = before.as_ref().filter(|before| before.live) {
        ensure_resumable(order, before, &this, held)?;
    }
    let recruit = |agent: &Agent| Recruit {
        name: agent.name.value.clone(),
        backend: agent.backend.as_str().to_owned(),
        model: agent.model.as_ref().map(|model| order.ready.variables.fill(model)),
    };
    let start = StartTeam {
        workflow: order.ready.name.clone(),
        file: Some(order.ready.file.clone()).filter(|_| order.mode != Mode::Standalone),
        mode: order.mode,
        agents: order.ready.workflow.agents.iter().map(recruit).collect(),
        runner: this,
        takeover: true,
    };
    Ok((order.client.start_team(team.as_str(), &start).await?, before))
}

/// Fails unless this runner may resume a team that is live according to the log. With another workflow or other parameters,
/// the user would wait for a kickoff that is never sent.
fn ensure_resumable(order: &Order, before: &Team, this: &Runner, held: &TeamLock) -> Result<(), TeamError> {
    let team = order.team();
    if let Some(other) = before.runner.as_ref().filter(|other| !is_here(other, this)) {
        return Err(TeamError::Elsewhere { team, host: other.host.clone(), pid: other.pid });
    }
    if order.mode == Mode::Standalone {
        return Ok(());
    }
    if before.workflow != order.ready.name {
        return Err(TeamError::OfAnotherFile { team, workflow: before.workflow.clone() });
    }
    let names = setup::changed_params(&order.ready.variables, &held.folder, before.generation);
    if before.kicked_off && !names.is_empty() {
        return Err(TeamError::ParamsChanged { team, names });
    }
    Ok(())
}

/// Whether a runner is or was one of this checkout.
fn is_here(other: &Runner, this: &Runner) -> bool {
    match (&other.site, &this.site) {
        (Some(other), Some(this)) => other == this,
        _ => other.host == this.host,
    }
}

fn report_began(order: &Order, team: &TeamId, started: &Started, reports: &Reports) {
    let shown = |agent: &Agent| MemberInfo {
        name: agent.name.value.clone(),
        backend: agent.backend.as_str(),
        model: agent.model.as_ref().map(|model| order.ready.variables.fill(model)),
    };
    reports.send(Report::Began(Began {
        team: team.to_string(),
        workflow: order.ready.name.clone(),
        instance: order.ready.variables.instance.name().to_owned(),
        resumed: started.resumed,
        agents: order.ready.workflow.agents.iter().map(shown).collect(),
    }));
}

/// Ends a team that could not begin as failed, and unregisters its agents. A resumed team stays unchanged unless it was asked
/// to end, so that it can resume without another kickoff once the cause is fixed.
async fn give_up(order: &Order, team: &TeamId, started: &Started, error: &TeamError) {
    let outcome = match error {
        TeamError::Suspended => return,
        TeamError::Interrupted => TeamEndOutcome::Interrupted,
        TeamError::Stopped => TeamEndOutcome::Stopped,
        TeamError::TimedOut { .. } => TeamEndOutcome::Failed,
        _ if started.kicked_off => return,
        _ => TeamEndOutcome::Failed,
    };
    let (generation, reason) = (started.generation, error.to_string());
    let ending = async {
        // Errors are ignored here: the user needs the reason why the team could not begin.
        order.client.end_team(team.as_str(), generation, outcome, Some(&reason)).await.ok();
        for (id, _) in order.ids() {
            seats::leave(&order.client, &id).await.ok();
        }
    };
    tokio::time::timeout(super::turn::SHUTDOWN_GRACE, ending).await.ok();
}

/// Prepares a team between its registration and the first turn.
struct Preparing<'a> {
    order: &'a Order,
    team: &'a TeamId,
    started: &'a Started,
    /// The team as it was before it was started.
    before: Option<&'a Team>,
    row: &'a Team,
    held: &'a TeamLock,
    reports: &'a Reports,
    clock: TeamClock,
    interrupt: &'a Interrupt,
}

impl Preparing<'_> {
    async fn prepare(&self) -> Result<(Arc<Crew>, Vec<Member>), TeamError> {
        let cancel = CancellationToken::new();
        let preparing = self.prepare_unless(&cancel);
        tokio::pin!(preparing);
        let error = tokio::select! {
            biased;
            prepared = &mut preparing => return prepared,
            error = self.wait_for_abort() => error,
        };
        cancel.cancel();
        // Setup ends its own commands; all other steps can stop anywhere.
        match tokio::time::timeout(super::turn::SHUTDOWN_GRACE, preparing).await {
            // The supervisor notices the same reason and ends the team.
            Ok(Ok(prepared)) => Ok(prepared),
            Ok(Err(_)) | Err(_) => Err(error),
        }
    }

    /// Returns the reason once the team must not begin any more.
    async fn wait_for_abort(&self) -> TeamError {
        let timed_out = async {
            match self.order.timeout {
                Some(timeout) => {
                    tokio::time::sleep(timeout.saturating_sub(self.clock.now())).await;
                    timeout
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ending = self.interrupt.wait() => match ending {
                InterruptKind::Stop => TeamError::Interrupted,
                InterruptKind::Suspend => TeamError::Suspended,
            },
            after = timed_out => TeamError::TimedOut { after },
            () = self.wait_for_stop_request() => TeamError::Stopped,
        }
    }

    /// Returns when the team was asked to stop.
    async fn wait_for_stop_request(&self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.order.client.team(self.team.as_str()).await.is_ok_and(|team| team.stop_requested) {
                return;
            }
        }
    }

    async fn prepare_unless(&self, cancel: &CancellationToken) -> Result<(Arc<Crew>, Vec<Member>), TeamError> {
        self.archive_leftovers().await?;
        self.configure().await?;
        let folders = self.register().await?;
        let ready = self.set_up(cancel).await?;
        let crew = Arc::new(self.crew(ready.clone()));
        let mut members = Vec::new();
        for (agent, folder) in ready.workflow.agents.iter().zip(&folders) {
            members.push(self.member(&crew, &ready, agent, folder).await?);
        }
        self.kick_off(&ready).await?;
        Ok((crew, members))
    }

    /// Archives the documents and the channel of an earlier run, unless this run continues it or keeps them.
    async fn archive_leftovers(&self) -> Result<(), TeamError> {
        let is_first = self.started.generation <= 1;
        if is_first || self.started.kicked_off || self.order.leftovers == Leftovers::Keep {
            return Ok(());
        }
        let instance = &self.order.ready.variables.instance;
        let listed = self.order.ready.context.documents.clone().unwrap_or_default();
        let agents: Vec<AgentId> = self.order.ids().map(|(id, _)| id).collect();
        if let Some(archive) = archive(&self.order.client, instance, &listed, &agents).await? {
            // A team that is still live was started by a runner that died before the kickoff.
            let file = self.before.filter(|before| !before.live).and_then(|before| before.file.as_deref());
            let file = file.map_or_else(|| "an earlier run".to_owned(), |file| self.shown_path(file));
            let text = format!("archived what {file} left in {instance} as {archive}; --continue keeps it in place");
            self.reports.note(None, Level::Info, text);
        }
        Ok(())
    }

    fn shown_path(&self, file: &str) -> String {
        let file = Path::new(file);
        file.strip_prefix(&self.order.project).unwrap_or(file).display().to_string()
    }

    /// Configures the context, and registers the step contracts of the workflow.
    async fn configure(&self) -> Result<(), TeamError> {
        let Order { ready, client, mode, .. } = self.order;
        // A standalone agent uses the context as it is.
        if *mode != Mode::Standalone {
            let settings = &ready.context;
            let wanted = json!({
                "provider": settings.provider.map(Provider::as_str),
                "dir": settings.dir,
                "channel": settings.channel,
                "document": settings.document,
                "documents": settings.documents,
            });
            client.put(&["contexts", ready.variables.instance.name()], &wanted).await?;
        }
        if ready.workflow.steps.is_empty() {
            return Ok(());
        }
        let steps: Vec<_> = ready.workflow.steps.iter().map(|step| step_rule(&step.rule)).collect();
        let rules = json!({"workflow": ready.name, "steps": steps});
        client.put(&["clutch", "v0", "step-contracts", &ready.name], &rules).await?;
        Ok(())
    }

    /// Registers every agent, and returns their working folders.
    async fn register(&self) -> Result<Vec<PathBuf>, TeamError> {
        let mut folders = Vec::new();
        for agent in &self.order.ready.workflow.agents {
            let id = self.id_of(agent);
            seats::register(self.order, self.started.generation, agent, &id, &self.order.project).await?;
            let folder = seats::folder(self.order, agent, &id).await?;
            if folder != self.order.project {
                seats::register(self.order, self.started.generation, agent, &id, &folder).await?;
                let text = format!("works in {}", folder.display());
                self.reports.note(Some(&agent.name.value), Level::Info, text);
            }
            folders.push(folder);
        }
        Ok(folders)
    }

    /// Returns the workflow with the output of its setup commands, which run once per generation.
    async fn set_up(&self, cancel: &CancellationToken) -> Result<Ready, TeamError> {
        let mut ready = self.order.ready.clone();
        let context = SetupContext {
            project: &self.order.project,
            state: &self.held.folder,
            generation: self.started.generation,
            exec_shim: &ExecShim { rookery: self.order.program.clone(), records: self.held.records() },
        };
        if self.started.kicked_off {
            setup::load_outputs(&mut ready.variables, &context);
            return Ok(ready);
        }
        let reports = self.reports.clone();
        let on_progress = move |progress: SetupProgress<'_>| match progress {
            SetupProgress::Began { number, of, shell } => {
                reports.send(Report::SetUp { nth: number, of, shell: shell.to_owned() });
            }
            SetupProgress::Stderr(line) => reports.note(None, Level::Info, line),
        };
        let commands = ready.workflow.setup.clone();
        match setup::run(&commands, &mut ready.variables, &context, cancel, &on_progress).await {
            Ok(()) => Ok(ready),
            Err(setup::SetupError::Interrupted) => Err(TeamError::Interrupted),
            Err(error) => Err(error.into()),
        }
    }

    fn crew(&self, ready: Ready) -> Crew {
        let stop = CancellationToken::new();
        let tally = |name: &str| {
            let member = self.row.agents.iter().find(|member| member.name == name);
            let used = |member: &rookery_client::teams::Member| UsageTotals {
                turns: member.turns,
                usage: Usage {
                    input_tokens: member.input_tokens,
                    output_tokens: member.output_tokens,
                    cost_usd: member.cost_usd,
                },
            };
            member.map(used).unwrap_or_default()
        };
        let names: BTreeMap<AgentId, String> = self.order.ids().collect();
        let board = Board::of(names.values().map(|name| (name.as_str(), tally(name))), &stop);
        let total = board.total();
        let spent =
            Spent { turns: total.turns, cost_usd: total.usage.cost_usd.unwrap_or_default(), ..Spent::default() };
        Crew {
            client: self.order.client.clone(),
            mode: self.order.mode,
            ledger: Ledger::new(ready.workflow.limits.clone(), spent),
            ready,
            team: self.team.clone(),
            generation: self.started.generation,
            names,
            board,
            reports: self.reports.clone(),
            clock: self.clock,
            stop,
        }
    }

    async fn member(&self, crew: &Arc<Crew>, ready: &Ready, agent: &Agent, folder: &Path) -> Result<Member, TeamError> {
        let place = SeatContext { held: self.held, folder, generation: self.started.generation };
        let seat = seats::seat(self.order, ready, agent, place, &Arc::new(ready.variables.clone()))?;
        let backend = backend::open(agent, &seat).map_err(TeamError::Backend)?;
        let before = self.before(&seat).await?;
        before.restore(&agent.name.value, crew);
        let bell = crew.board.signals(&agent.name.value);
        let (wake, stop) = bell.unwrap_or_else(|| (Arc::default(), crew.stop.child_token()));
        Ok(Member {
            system: system(ready, agent, &seat),
            crew: Arc::clone(crew),
            backend,
            attempts: before.attempts,
            again: before.again,
            alarm: agent.wakeup.clone().map(|wakeup| RunnerAlarm::set(wakeup, &self.clock.wall_time())),
            active: self.clock.now(),
            conversation: before.conversation,
            agent: agent.clone(),
            seat,
            wake,
            stop,
        })
    }

    /// Reads the state of an agent from its turns of this generation in the log.
    async fn before(&self, seat: &Seat) -> Result<ResumedAgent, TeamError> {
        if !self.started.resumed {
            return Ok(ResumedAgent::default());
        }
        let turns = self.order.client.turns(self.team.as_str(), seat.id.as_str(), TURNS_BACK).await?;
        Ok(ResumedAgent::from_turns(
            turns.into_iter().filter(|turn| turn.generation == self.started.generation).collect(),
        ))
    }

    /// Sends the first message, once per generation.
    async fn kick_off(&self, ready: &Ready) -> Result<(), TeamError> {
        if self.started.kicked_off {
            return Ok(());
        }
        let kickoff = KickoffMessage::of(ready);
        let (team, generation) = (self.team.as_str(), self.started.generation);
        for (file, text) in kickoff.iter().flat_map(|kickoff| &kickoff.documents) {
            let tools = rookery_client::Tools::new(self.order.client.clone(), None);
            let tools = tools.in_instance(Some(ready.variables.instance.name().to_owned()));
            tools.call("document_write", json!({"file": file, "content": text})).await?;
        }
        steps::request_all(&self.order.client, ready, generation).await?;
        let message = kickoff.as_ref().map(|kickoff| (kickoff.text.as_str(), kickoff.mentions.as_slice()));
        self.order.client.kick_off_team(team, generation, message).await?;
        let woken = kickoff.map(|kickoff| kickoff.mentions).unwrap_or_default();
        self.reports.send(Report::KickedOff { woken });
        Ok(())
    }

    fn id_of(&self, agent: &Agent) -> AgentId {
        self.team.member(&agent.name.value)
    }
}

fn step_rule(rule: &rookery_core::model::contract::StepContract) -> serde_json::Value {
    let expects = &rule.expects;
    json!({
        "id": rule.id,
        "expects": {
            "type": expects.message_type,
            "payload_type": expects.payload_type,
            "required": expects.required,
        },
    })
}

/// The state of an agent when its runner died.
#[derive(Debug, Default)]
struct ResumedAgent {
    attempts: Attempts,
    again: Option<RetryTurn>,
    conversation: Option<String>,
    /// The reason why its last turn failed, if it was given up.
    failed: Option<String>,
    /// The reason why the first turn that was given up failed.
    gave_up: Option<String>,
}

impl ResumedAgent {
    /// Restores earlier failures: a restart does not turn a failed team into a successful one.
    fn restore(&self, name: &str, crew: &Crew) {
        if let Some(reason) = &self.failed {
            crew.board.set_failed(name, reason);
        }
        if let Some(reason) = &self.gave_up {
            crew.ledger.fail_by_giving_up(name, reason);
        }
    }

    /// Derives the state from the turns, newest first. Turns since the last concluded one count as attempts at the same
    /// messages.
    fn from_turns(turns: Vec<Turn>) -> ResumedAgent {
        let conversation = turns.iter().find_map(|turn| turn.conversation.clone());
        let failed = turns.first().and_then(why_given_up);
        let gave_up = turns.iter().rev().find_map(why_given_up);
        let mut attempts = Attempts::default();
        let since = turns.iter().take_while(|turn| turn.is_retried());
        for turn in since {
            attempts.count_interrupted();
            let limited = turn.error.as_ref().is_some_and(|error| error.kind == LIMITED);
            if turn.outcome == Some(TurnEndOutcome::Failed) && !limited {
                attempts.failed += 1;
            }
        }
        let cut_off = turns.iter().take_while(|turn| turn.outcome == Some(TurnEndOutcome::Interrupted));
        let unknown = cut_off.map(|turn| turn.turn.clone()).collect();
        let last = turns.into_iter().next().filter(Turn::is_retried);
        let again = last.map(|turn| RetryTurn {
            unknown,
            why: match turn.error {
                Some(error) => error.message,
                None => "its runner died, and it is unknown how far the turn came".to_owned(),
            },
            turn: turn.turn,
            messages: None,
            was_alarm: turn.cause == Some(rookery_client::turns::TurnStartCause::Wakeup),
            ids: turn.messages,
            due: Duration::ZERO,
        });
        ResumedAgent { attempts, again, conversation, failed, gave_up }
    }
}

/// The reason why a turn failed, if its messages were given up.
fn why_given_up(turn: &Turn) -> Option<String> {
    let unknown = || "unknown reason".to_owned();
    turn.gave_up.then(|| turn.error.as_ref().map_or_else(unknown, |error| error.message.clone()))
}
