//! `rookery stop`

use std::time::Duration;

use rookery_client::teams::{Mode, Team};
use rookery_client::{Client, ClientError};
use rookery_core::AgentId;
use rookery_runner::team::{self, ForceEnded};
use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::program::Program;
use crate::cli::roster::{Roster, Target};
use crate::cli::runners::Runners;
use crate::project::Project;

const POLL: Duration = Duration::from_millis(100);
/// After how many looks it is told what is still waited for.
const LOOKS_UNTIL_TOLD: u32 = 10;

/// Stop agents and wait for them to exit
///
/// A turn that is under way is ended, and its messages stay unread. Without a target, lists what can be stopped.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An agent (reviewer, reviewer@pr-123), or all agents of an instance (@pr-123)
    #[arg(conflicts_with = "all")]
    target: Option<String>,

    /// Stop everything
    #[arg(long)]
    all: bool,

    /// How long to wait until they are stopped
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::cli::team::duration)]
    timeout: Duration,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    let roster = Roster::read(&client).await?;
    let wanted = match (&args.target, args.all) {
        (Some(target), _) => chosen(context, &roster, &Target::parse(target)?)?,
        (None, true) => roster.teams.iter().map(Stop::all_of).collect(),
        (None, false) => return offer(context, &roster),
    };
    if wanted.is_empty() {
        context.out.note("nothing runs");
    }
    let stopping =
        Stopping { context, client: &client, project: context.project()?, runners: Runners::of(&context.project()?) };
    for stop in &wanted {
        stopping.ask(stop).await?;
    }
    let mut stopped = Vec::new();
    for stop in &wanted {
        let waited = tokio::time::timeout(args.timeout, stopping.wait(stop)).await;
        stopped.push(waited.map_err(|_| stop.took_too_long(args.timeout))??);
    }
    context.out.done_each(&stopped.iter().map(Stopped::json).collect::<Vec<_>>(), stopped.iter().map(Stopped::told))
}

/// What one is asked to stop: a team, or an agent of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stop {
    team: String,
    generation: u64,
    agent: Option<AgentId>,
    pid: Option<u32>,
}

impl Stop {
    fn all_of(team: &Team) -> Stop {
        let pid = team.runner.as_ref().map(|runner| runner.pid);
        Stop { team: team.id.clone(), generation: team.generation, agent: None, pid }
    }

    /// What is stopped, as it was asked for.
    fn what(&self) -> &str {
        self.agent.as_ref().map_or(self.team.as_str(), AgentId::as_str)
    }

    fn took_too_long(&self, timeout: Duration) -> anyhow::Error {
        let message = format!("{} was asked to stop and still runs after {} s", self.what(), timeout.as_secs());
        let failure = Failure::new(message);
        match self.pid {
            Some(pid) => failure.hint(format!("wait longer with --timeout; its runner is process {pid}")).into(),
            None => failure.hint("wait longer with --timeout").into(),
        }
    }
}

/// What a target means among those that run.
fn chosen(context: &Context, roster: &Roster, target: &Target) -> Result<Vec<Stop>, Failure> {
    let nobody = |what: String| match roster.names() {
        names if names.is_empty() => Failure::new(format!("{what} does not run")).hint("nothing runs"),
        names => Failure::new(format!("{what} does not run")).hint(format!("these do: {names}")),
    };
    match target {
        Target::Instance(instance) => {
            let stops: Vec<Stop> = roster.in_instance(instance).map(Stop::all_of).collect();
            if stops.is_empty() { Err(nobody(format!("@{instance}"))) } else { Ok(stops) }
        }
        Target::Agent(name) => {
            let Some(meant) = roster.meant(name) else { return Err(nobody(name.to_string())) };
            meant.note().iter().for_each(|note| context.out.note(note));
            match roster.find(&meant.agent) {
                Some((team, _)) if team.mode == Some(Mode::Standalone) => Ok(vec![Stop::all_of(team)]),
                Some((team, _)) => Ok(vec![Stop { agent: Some(meant.agent), ..Stop::all_of(team) }]),
                None => Err(nobody(name.to_string())),
            }
        }
    }
}

/// Tells what could be stopped, to somebody who did not say what.
fn offer(context: &Context, roster: &Roster) -> anyhow::Result<()> {
    let teams = roster.teams.iter().filter(|team| team.mode != Some(Mode::Standalone)).map(|team| team.id.as_str());
    let targets: Vec<&str> = teams.chain(roster.agents().map(|(_, member)| member.id.as_str())).collect();
    if targets.is_empty() {
        return context.out.done(&json!({"targets": targets}), "nothing runs, so there is nothing to stop");
    }
    let program = Program::called().name();
    let lines = targets.iter().map(|target| format!("{program} stop {target}"));
    context.out.done_each(&json!({"targets": targets}), lines)?;
    Err(Failure::usage("say what to stop").hint("one of these, or --all").into())
}

struct Stopping<'a> {
    context: &'a Context,
    client: &'a Client,
    project: Project,
    runners: Runners,
}

/// What became of it.
struct Stopped {
    what: String,
    team: String,
    /// Nobody was left to stop it: it was ended here.
    lost: bool,
}

impl Stopped {
    fn told(&self) -> String {
        match self.lost {
            false => format!("stopped {}", self.what),
            true => format!("ended {}, whose runner was gone", self.team),
        }
    }

    fn json(&self) -> Value {
        json!({"stopped": self.what, "team": self.team, "runner_was_gone": self.lost})
    }
}

impl Stopping<'_> {
    async fn ask(&self, stop: &Stop) -> Result<(), ClientError> {
        match self.client.stop_team(&stop.team, stop.agent.as_ref().map(AgentId::as_str), None).await {
            // It ended by itself meanwhile.
            Err(error) if error.code() == Some("INVALID_STATE") => Ok(()),
            asked => asked.map(drop),
        }
    }

    /// Waits until it is stopped. A team whose runner is gone, or goes away meanwhile, is ended here.
    async fn wait(&self, stop: &Stop) -> anyhow::Result<Stopped> {
        let (mut looks, mut told) = (0_u32, None);
        loop {
            let team = self.client.team(&stop.team).await?;
            if is_stopped(&team, stop) {
                return Ok(Stopped { what: stop.what().to_owned(), team: stop.team.clone(), lost: false });
            }
            if self.runners.is_lost(&team)
                && team::force_end(self.project.root(), &team, self.client).await? == ForceEnded::Done
            {
                return Ok(Stopped { what: stop.what().to_owned(), team: stop.team.clone(), lost: true });
            }
            let waits_for = under_way(&team, stop);
            if looks >= LOOKS_UNTIL_TOLD && told.as_ref() != Some(&waits_for) {
                self.context.out.note(&format!("stopping {}: waiting for {}", stop.what(), waits_for.join(", ")));
                told = Some(waits_for);
            }
            looks += 1;
            tokio::time::sleep(POLL).await;
        }
    }
}

fn is_stopped(team: &Team, stop: &Stop) -> bool {
    if !team.live || team.generation != stop.generation {
        return true;
    }
    let Some(agent) = &stop.agent else { return false };
    let member = team.agents.iter().find(|member| member.id == agent.as_str());
    member.is_none_or(|member| member.stop_requested && member.open_turn.is_none())
}

/// Who still works, or else the runner itself.
fn under_way(team: &Team, stop: &Stop) -> Vec<String> {
    let asked = |id: &str| stop.agent.as_ref().is_none_or(|agent| agent.as_str() == id);
    let working = team.agents.iter().filter(|member| member.open_turn.is_some() && asked(&member.id));
    let working: Vec<String> = working.map(|member| format!("the turn of {}", member.id)).collect();
    if working.is_empty() { vec!["its runner".to_owned()] } else { working }
}
