//! From nothing to a team at work: the lock, the daemon's word, the context, the agents at their places, setup, kickoff. What is
//! done already, because a runner before this one did it, is not done again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rookery_client::ClientError;
use rookery_client::teams::{Mode, Outcome as TeamOutcome, Recruit, Runner, StartTeam, Started, Team};
use rookery_client::turns::{Outcome as TurnOutcome, Turn};
use rookery_core::model::context_settings::Provider;
use rookery_core::{AgentId, TeamId};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::archive::{Leftovers, archive};
use super::board::Board;
use super::clock::Clock;
use super::crew::Crew;
use super::decide::alarm::RunnerAlarm;
use super::decide::attempts::Attempts;
use super::decide::budget::Spent;
use super::interrupt::{Ending, Interrupt};
use super::ledger::Ledger;
use super::lock::{self, Held, NotHeld};
use super::member::{Again, Member};
use super::report::{Began, Level, Member as Shown, Report, Reports, Tally};
use super::seats::{self, SeatContext};
use super::turn::LIMITED;
use super::{Order, TeamError, runner};
use crate::backend::{self, Seat, Usage};
use crate::file::{Agent, Ready, unbounded};
use crate::process::{self, ExecShim};
use crate::sandbox;
use crate::setup::{self, Progress, Stage};
use crate::steps;
use crate::turn::{Kickoff, system};

/// How many turns back an agent's attempts are counted after a restart.
const TURNS_BACK: u32 = 50;
/// How often it is looked whether somebody wants the team to stop before it has begun.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A team whose agents are ready to work.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) crew: Arc<Crew>,
    pub(super) members: Vec<Member>,
    /// Where in the log to follow from.
    pub(super) position: Option<String>,
    /// Held until it is over.
    pub(super) held: Held,
    pub(super) resumed: bool,
}

/// Takes the team over or starts it. If it cannot begin, it has ended when this returns.
pub(super) async fn begin(order: &Order, reports: &Reports, interrupt: &Interrupt) -> Result<Begun, TeamError> {
    let (team, clock) = (order.team(), Clock::start());
    let held = hold(order, &team)?;
    foresee(order)?;
    end_orphans(&held, reports).await?;
    put_back(order, reports)?;
    let started = start(order, &team, &held).await?;
    let row = order.client.team(team.as_str()).await?;
    tell_began(order, &team, &started, reports);
    if let Some(missing) = sandbox::missing_warning(&order.ready.workflow.agents) {
        reports.note(None, Level::Warning, missing);
    }
    if let Some(unbounded) = unbounded(&order.ready) {
        reports.note(None, Level::Warning, unbounded);
    }
    let prepared =
        Preparing { order, team: &team, started: &started, row: &row, held: &held, reports, clock, interrupt };
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

/// Whether everything is read that happened since the team began, to count its messages. One that runs for months without such a
/// limit needs not.
fn counts_from_its_start(order: &Order) -> bool {
    order.mode == Mode::Run || order.ready.workflow.limits.max_messages.is_some()
}

fn hold(order: &Order, team: &TeamId) -> Result<Held, TeamError> {
    let folder = lock::state_folder(&order.project, team);
    lock::hold(folder.clone()).map_err(|not_held| match not_held {
        NotHeld::By { pid } => TeamError::Running { team: team.clone(), pid },
        NotHeld::Io(source) => TeamError::State { path: folder, source },
    })
}

/// Nothing is begun, nor gone on with, that can only fail.
fn foresee(order: &Order) -> Result<(), TeamError> {
    let Ready { workflow, variables, .. } = &order.ready;
    workflow.agents.iter().try_for_each(|agent| backend::preflight(agent, variables)).map_err(TeamError::Backend)
}

/// Ends what programs of a runner before this one are left over.
async fn end_orphans(held: &Held, reports: &Reports) -> Result<(), TeamError> {
    let records = held.records();
    let orphans = process::end_orphans(&records).await;
    for orphan in orphans.map_err(|source| TeamError::State { path: records, source })? {
        reports.note(None, Level::Info, format!("ended `{}`, left over from before", orphan.program));
    }
    Ok(())
}

/// Puts back files of the project that were others for the sake of a program when a runner died, of whichever team.
fn put_back(order: &Order, reports: &Reports) -> Result<(), TeamError> {
    let ledger = order.project.join(backend::LEDGER);
    let files = backend::restore_all(&ledger).map_err(|source| TeamError::State { path: ledger, source })?;
    for file in files {
        reports.note(None, Level::Info, format!("put back {}, left over from before", file.display()));
    }
    Ok(())
}

/// Tells the daemon who runs the team now. One that the log calls live is taken over: the lock tells that its runner, which
/// was on this machine, is gone. Of a runner elsewhere nobody here can tell.
async fn start(order: &Order, team: &TeamId, held: &Held) -> Result<Started, TeamError> {
    let this = runner::this(&order.host, order.site.as_deref());
    let before = match order.client.team(team.as_str()).await {
        Ok(before) => Some(before),
        Err(ClientError::Refused { status: 404, .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(before) = before.filter(|before| before.live) {
        can_go_on(order, before, &this, held)?;
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
    Ok(order.client.start_team(team.as_str(), &start).await?)
}

/// Whether a team that the log calls live is one that this runner may go on with. Whoever wants another workflow, or other
/// values, would wait for a kickoff that is never sent.
fn can_go_on(order: &Order, before: Team, this: &Runner, held: &Held) -> Result<(), TeamError> {
    let team = order.team();
    if let Some(other) = before.runner.filter(|other| !is_here(other, this)) {
        return Err(TeamError::Elsewhere { team, host: other.host, pid: other.pid });
    }
    if order.mode == Mode::Standalone {
        return Ok(());
    }
    if before.workflow != order.ready.name {
        return Err(TeamError::OfAnotherFile { team, workflow: before.workflow });
    }
    let names = setup::begun_otherwise(&order.ready.variables, &held.folder, before.generation);
    if before.kicked_off && !names.is_empty() {
        return Err(TeamError::BegunOtherwise { team, names });
    }
    Ok(())
}

/// Whether a runner is, or was, one of this folder on this machine.
fn is_here(other: &Runner, this: &Runner) -> bool {
    match (&other.site, &this.site) {
        (Some(other), Some(this)) => other == this,
        _ => other.host == this.host,
    }
}

fn tell_began(order: &Order, team: &TeamId, started: &Started, reports: &Reports) {
    let shown = |agent: &Agent| Shown {
        name: agent.name.value.clone(),
        backend: agent.backend.as_str(),
        model: agent.model.as_ref().map(|model| order.ready.variables.fill(model)),
    };
    reports.tell(Report::Began(Began {
        team: team.to_string(),
        workflow: order.ready.name.clone(),
        instance: order.ready.variables.instance.name().to_owned(),
        resumed: started.resumed,
        agents: order.ready.workflow.agents.iter().map(shown).collect(),
    }));
}

/// A team that could not begin has failed, and its agents are not there. One that was to go on is left as it was found, unless
/// somebody wants it to end: once what is missing is there, it goes on, and is not told everything again.
async fn give_up(order: &Order, team: &TeamId, started: &Started, error: &TeamError) {
    let outcome = match error {
        TeamError::Suspended => return,
        TeamError::Interrupted => TeamOutcome::Interrupted,
        TeamError::Stopped => TeamOutcome::Stopped,
        TeamError::TimedOut { .. } => TeamOutcome::Failed,
        _ if started.kicked_off => return,
        _ => TeamOutcome::Failed,
    };
    let (generation, reason) = (started.generation, error.to_string());
    let ending = async {
        // The reason that is told is why it could not begin, whatever else goes wrong.
        let _untold = order.client.end_team(team.as_str(), generation, outcome, Some(&reason)).await;
        for (id, _) in order.ids() {
            let _was_not_there = seats::leave(&order.client, &id).await;
        }
    };
    let _too_long = tokio::time::timeout(super::turn::SHUTDOWN_GRACE, ending).await;
}

/// Everything between the daemon's word and the first turn.
struct Preparing<'a> {
    order: &'a Order,
    team: &'a TeamId,
    started: &'a Started,
    row: &'a Team,
    held: &'a Held,
    reports: &'a Reports,
    clock: Clock,
    interrupt: &'a Interrupt,
}

impl Preparing<'_> {
    async fn prepare(&self) -> Result<(Arc<Crew>, Vec<Member>), TeamError> {
        let cancel = CancellationToken::new();
        let preparing = self.prepare_unless(&cancel);
        tokio::pin!(preparing);
        let why = tokio::select! {
            biased;
            prepared = &mut preparing => return prepared,
            why = self.prevented() => why,
        };
        cancel.cancel();
        // Setup ends its own commands; everything else may be left where it is.
        match tokio::time::timeout(super::turn::SHUTDOWN_GRACE, preparing).await {
            // Whoever watches over it sees the same, and ends it.
            Ok(Ok(prepared)) => Ok(prepared),
            Ok(Err(_)) | Err(_) => Err(why),
        }
    }

    /// Returns when it is not to begin any more, and why.
    async fn prevented(&self) -> TeamError {
        let time_is_up = async {
            match self.order.timeout {
                Some(timeout) => {
                    tokio::time::sleep(timeout.saturating_sub(self.clock.now())).await;
                    timeout
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ending = self.interrupt.told() => match ending {
                Ending::ForGood => TeamError::Interrupted,
                Ending::ForNow => TeamError::Suspended,
            },
            after = time_is_up => TeamError::TimedOut { after },
            () = self.stop_requested() => TeamError::Stopped,
        }
    }

    /// Returns when somebody wants it to stop.
    async fn stop_requested(&self) {
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

    /// Puts away the documents of an earlier run, unless this run continues it or they are to be kept.
    async fn archive_leftovers(&self) -> Result<(), TeamError> {
        let is_first = self.started.generation <= 1;
        if is_first || self.started.resumed || self.order.leftovers == Leftovers::Keep {
            return Ok(());
        }
        let instance = &self.order.ready.variables.instance;
        let listed = self.order.ready.context.documents.clone().unwrap_or_default();
        if let Some(archive) = archive(&self.order.client, instance, &listed).await? {
            let text = format!(
                "the documents of the run before are in the instance {archive} now; `rookery run --continue` keeps them"
            );
            self.reports.note(None, Level::Info, text);
        }
        Ok(())
    }

    /// Where channel and documents are, and what the steps of the workflow expect.
    async fn configure(&self) -> Result<(), TeamError> {
        let Order { ready, client, mode, .. } = self.order;
        // An agent that stands alone takes the context as it finds it.
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

    /// Registers every agent, and tells where each works.
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

    /// The workflow with what its setup commands printed; they run once in each generation.
    async fn set_up(&self, cancel: &CancellationToken) -> Result<Ready, TeamError> {
        let mut ready = self.order.ready.clone();
        let stage = Stage {
            project: &self.order.project,
            state: &self.held.folder,
            generation: self.started.generation,
            exec_shim: &ExecShim { rookery: self.order.program.clone(), records: self.held.records() },
        };
        if self.started.kicked_off {
            setup::recall(&mut ready.variables, &stage);
            return Ok(ready);
        }
        let reports = self.reports.clone();
        let tell = move |progress: Progress<'_>| match progress {
            Progress::Began { number, of, shell } => {
                reports.tell(Report::SetUp { nth: number, of, shell: shell.to_owned() });
            }
            Progress::Said(line) => reports.note(None, Level::Info, line),
        };
        let commands = ready.workflow.setup.clone();
        match setup::run(&commands, &mut ready.variables, &stage, cancel, &tell).await {
            Ok(()) => Ok(ready),
            Err(setup::SetupError::Interrupted) => Err(TeamError::Interrupted),
            Err(error) => Err(error.into()),
        }
    }

    fn crew(&self, ready: Ready) -> Crew {
        let stop = CancellationToken::new();
        let tally = |name: &str| {
            let member = self.row.agents.iter().find(|member| member.name == name);
            let used = |member: &rookery_client::teams::Member| Tally {
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
        before.tell(&agent.name.value, crew);
        let bell = crew.board.bell(&agent.name.value);
        let (wake, stop) = bell.unwrap_or_else(|| (Arc::default(), crew.stop.child_token()));
        Ok(Member {
            system: system(ready, agent, &seat),
            crew: Arc::clone(crew),
            backend,
            attempts: before.attempts,
            again: before.again,
            alarm: agent.wakeup.clone().map(|wakeup| RunnerAlarm::set(wakeup, &self.clock.zoned())),
            active: self.clock.now(),
            conversation: before.conversation,
            agent: agent.clone(),
            seat,
            wake,
            stop,
        })
    }

    /// What the log tells of an agent's turns in this generation.
    async fn before(&self, seat: &Seat) -> Result<Before, TeamError> {
        if !self.started.resumed {
            return Ok(Before::default());
        }
        let turns = self.order.client.turns(self.team.as_str(), seat.id.as_str(), TURNS_BACK).await?;
        Ok(Before::of(turns.into_iter().filter(|turn| turn.generation == self.started.generation).collect()))
    }

    /// The first message, once in each generation.
    async fn kick_off(&self, ready: &Ready) -> Result<(), TeamError> {
        if self.started.kicked_off {
            return Ok(());
        }
        let kickoff = Kickoff::of(ready);
        let (team, generation) = (self.team.as_str(), self.started.generation);
        for (file, text) in kickoff.iter().flat_map(|kickoff| &kickoff.documents) {
            let tools = rookery_client::Tools::new(self.order.client.clone(), None);
            let tools = tools.in_instance(Some(ready.variables.instance.name().to_owned()));
            tools.call("document_write", json!({"file": file, "content": text})).await?;
        }
        steps::ask(&self.order.client, ready, generation).await?;
        let told = kickoff.as_ref().map(|kickoff| (kickoff.text.as_str(), kickoff.mentions.as_slice()));
        self.order.client.kick_off_team(team, generation, told).await?;
        let woken = kickoff.map(|kickoff| kickoff.mentions).unwrap_or_default();
        self.reports.tell(Report::KickedOff { woken });
        Ok(())
    }

    fn id_of(&self, agent: &Agent) -> AgentId {
        self.order.ready.variables.instance.agent(&agent.name.value)
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

/// Where an agent was when its runner went away.
#[derive(Debug, Default)]
struct Before {
    attempts: Attempts,
    again: Option<Again>,
    conversation: Option<String>,
    /// Why its last turn failed, if it was given up.
    failed: Option<String>,
    /// Why the first failed that was given up, be it the last or not.
    gave_up: Option<String>,
}

impl Before {
    /// What was given up stays so: a team that goes on does not come to a better end by that.
    fn tell(&self, name: &str, crew: &Crew) {
        if let Some(reason) = &self.failed {
            crew.board.has_failed(name, reason);
        }
        if let Some(reason) = &self.gave_up {
            crew.ledger.gave_up(name, reason);
        }
    }

    /// Reads it off the turns, newest first: those since the last that came to an end count as attempts at the same.
    fn of(turns: Vec<Turn>) -> Before {
        let conversation = turns.iter().find_map(|turn| turn.conversation.clone());
        let failed = turns.first().and_then(why_given_up);
        let gave_up = turns.iter().rev().find_map(why_given_up);
        let mut attempts = Attempts::default();
        let since = turns.iter().take_while(|turn| turn.is_tried_again());
        for turn in since {
            attempts.interrupted();
            let limited = turn.error.as_ref().is_some_and(|error| error.kind == LIMITED);
            if turn.outcome == Some(TurnOutcome::Failed) && !limited {
                attempts.failed += 1;
            }
        }
        let cut_off = turns.iter().take_while(|turn| turn.outcome == Some(TurnOutcome::Interrupted));
        let unknown = cut_off.map(|turn| turn.turn.clone()).collect();
        let last = turns.into_iter().next().filter(Turn::is_tried_again);
        let again = last.map(|turn| Again {
            unknown,
            why: match turn.error {
                Some(error) => error.message,
                None => "whoever ran it went away, and nobody knows how far it came".to_owned(),
            },
            turn: turn.turn,
            messages: None,
            was_alarm: turn.cause == Some(rookery_client::turns::Cause::Wakeup),
            ids: turn.messages,
            due: Duration::ZERO,
        });
        Before { attempts, again, conversation, failed, gave_up }
    }
}

/// Why a turn failed whose messages were given up.
fn why_given_up(turn: &Turn) -> Option<String> {
    let unsaid = || "nobody said why".to_owned();
    turn.gave_up.then(|| turn.error.as_ref().map_or_else(unsaid, |error| error.message.clone()))
}
