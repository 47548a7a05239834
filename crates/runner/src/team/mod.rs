//! Runs a team: one process per team, with one loop per agent.
//!
//! [`run`] takes a team from its lock to its summary. `decide` contains the decisions as pure functions; `board` has the phase
//! of each agent and `ledger` the resources used; `member` is the loop of one agent and `turn` one turn of it; `watch` receives
//! events of the daemon. The log is the only memory: after a crash, the next runner finds there whether the kickoff was sent,
//! which turns were under way, and which messages are unread.

mod archive;
mod begin;
mod board;
mod clock;
mod crew;
mod decide;
mod force_end;
mod interrupt;
mod ledger;
mod lock;
mod member;
pub mod report;
mod runner;
mod seats;
mod summary;
mod supervise;
mod turn;
mod watch;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rookery_client::teams::Mode;
use rookery_client::{Client, ClientError};
use rookery_core::{AgentId, TeamId};

use crate::backend::Failure;
use crate::file::{Agent, Ready, show_duration};
use crate::setup::SetupError;
pub use archive::Leftovers;
pub use force_end::{ForceEnded, force_end};
pub use interrupt::{Interrupt, InterruptKind};
pub use lock::state_folder;
pub use report::{Report, Reports, RunOutcome};
pub use summary::{AgentSummary, EntryDocument, RunSummary};

/// The team to run, with its place and options.
#[derive(Debug)]
pub struct Order {
    pub ready: Ready,
    pub mode: Mode,
    /// The folder of the project.
    pub project: PathBuf,
    /// The `rookery` executable, which starts the agents' programs.
    pub program: PathBuf,
    /// A client that acts as the project's person, and waits while the daemon is unavailable.
    pub client: Client,
    pub host: String,
    /// The id of this checkout on this machine.
    pub site: Option<String>,
    /// Maximum duration of the team.
    pub timeout: Option<Duration>,
    pub leftovers: Leftovers,
}

impl Order {
    fn team(&self) -> TeamId {
        team_of(&self.ready, self.mode)
    }

    fn ids(&self) -> impl Iterator<Item = (AgentId, String)> {
        let team = self.team();
        let id = move |agent: &Agent| (team.member(&agent.name.value), agent.name.value.clone());
        self.ready.workflow.agents.iter().map(id)
    }
}

/// The id of a team: that of its instance, or that of its only agent.
pub fn team_of(ready: &Ready, mode: Mode) -> TeamId {
    let instance = &ready.variables.instance;
    match (mode, ready.workflow.agents.first()) {
        (Mode::Standalone, Some(agent)) => TeamId::from(instance.caller(&agent.name.value).as_str()),
        _ => TeamId::new(format!("@{}", instance.name())),
    }
}

/// The reason why a team did not run, or not to its end. Failures of agents are outcomes, not errors.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    #[error("{team} is already running in another process{}", if pid.is_empty() { String::new() } else { format!(" ({pid})") })]
    Running { team: TeamId, pid: String },
    #[error("{team} is already running on {host}, in process {pid}")]
    Elsewhere { team: TeamId, host: String, pid: u32 },
    #[error("cannot keep the team's state in {}", path.display())]
    State { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("cannot create the worktree of {agent}")]
    Worktree { agent: String, source: Box<ClientError> },
    #[error("{}", .0.reason)]
    Backend(Failure),
    #[error("the team was interrupted before it began")]
    Interrupted,
    /// The process was ended, but not the team.
    #[error("the process was ended before the team began")]
    Suspended,
    #[error("the team was stopped before it began")]
    Stopped,
    #[error("the team took longer than {} (--timeout) to begin", format_duration(.after))]
    TimedOut { after: Duration },
    #[error("{team} was started from the workflow `{workflow}`, and its runner is gone")]
    OfAnotherFile { team: TeamId, workflow: String },
    #[error("{team} was started with {} for `{}`, and its runner is gone", other_values(.names), .names.join("`, `"))]
    ParamsChanged { team: TeamId, names: Vec<String> },
    #[error("{team} was started or ended by another process meanwhile")]
    Superseded { team: TeamId },
    #[error(transparent)]
    Daemon(#[from] ClientError),
}

impl TeamError {
    /// A suggestion for the user.
    pub fn hint(&self) -> String {
        match self {
            TeamError::Running { team, .. } => {
                format!("see it with `rookery list`; stop it with `rookery stop {team}`")
            }
            TeamError::Elsewhere { team, .. } => format!("stop it first, with `rookery stop {team}`"),
            TeamError::State { .. } => "check who owns .rookery and whether the disk is full".to_owned(),
            TeamError::Setup(error) => error.hint().unwrap_or("start it again").to_owned(),
            TeamError::Worktree { source, .. } => source.hint(),
            TeamError::Backend(failure) => {
                failure.hint.clone().unwrap_or_else(|| "`rookery check` says what each agent needs".to_owned())
            }
            TeamError::Interrupted | TeamError::Suspended | TeamError::Stopped => {
                "start it again at any time".to_owned()
            }
            TeamError::TimedOut { .. } => {
                "see which setup command takes so long, or raise the timeout with --timeout".to_owned()
            }
            TeamError::OfAnotherFile { team, .. } => {
                format!(
                    "run that workflow again to resume it, end it with `rookery stop {team}`, or choose another --instance"
                )
            }
            TeamError::ParamsChanged { team, .. } => {
                format!(
                    "pass the same values to resume it, end it with `rookery stop {team}`, or choose another --instance"
                )
            }
            TeamError::Superseded { .. } => "see `rookery list`".to_owned(),
            TeamError::Daemon(error) => error.hint(),
        }
    }
}

fn format_duration(time: &Duration) -> String {
    show_duration(*time)
}

fn other_values(names: &[String]) -> &'static str {
    if names.len() == 1 { "another value" } else { "other values" }
}

/// Runs a team to its end and returns its summary. `interrupt` ends it early, after an orderly shutdown.
pub async fn run(order: Order, reports: Reports, interrupt: Interrupt) -> Result<RunSummary, TeamError> {
    let begun = begin::begin(&order, &reports, &interrupt).await?;
    supervise::supervise(order, begun, reports, interrupt).await
}
