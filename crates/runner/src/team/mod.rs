//! A team at work: one process runs one team, with one loop for each of its agents.
//!
//! [`run`] is all of it, from the lock to the last word. `decide` holds what is decided apart from what is done; `board` is who is
//! at what and `ledger` what was used; `member` is one agent's loop and `turn` one turn of it; `watch` is what the daemon tells.
//! The log is the only memory: whoever comes after a crash finds there whether the kickoff is out, which turns were under
//! way, and what is unread.

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
use crate::file::{Ready, show_duration};
use crate::setup::SetupError;
pub use archive::Leftovers;
pub use force_end::{ForceEnded, force_end};
pub use interrupt::{Ending, Interrupt};
pub use lock::state_folder;
pub use report::{Outcome, Report, Reports};
pub use summary::{AgentSummary, EntryDocument, Summary};

/// What to run, and where.
#[derive(Debug)]
pub struct Order {
    pub ready: Ready,
    pub mode: Mode,
    /// The folder of the project.
    pub project: PathBuf,
    /// Our own program, which agents' programs are started by.
    pub program: PathBuf,
    /// Speaks as the person whose project it is, and waits for a daemon that is away.
    pub client: Client,
    pub host: String,
    /// Which folder of the project on which machine this is.
    pub site: Option<String>,
    /// How long it may take in all.
    pub timeout: Option<Duration>,
    pub leftovers: Leftovers,
}

impl Order {
    fn team(&self) -> TeamId {
        team_of(&self.ready, self.mode)
    }

    fn ids(&self) -> impl Iterator<Item = (AgentId, String)> {
        let instance = &self.ready.variables.instance;
        self.ready.workflow.agents.iter().map(|agent| (instance.agent(&agent.name.value), agent.name.value.clone()))
    }
}

/// What a team is called: its instance, or its only agent.
pub fn team_of(ready: &Ready, mode: Mode) -> TeamId {
    let instance = &ready.variables.instance;
    match (mode, ready.workflow.agents.first()) {
        (Mode::Standalone, Some(agent)) => TeamId::from(instance.agent(&agent.name.value).as_str()),
        _ => TeamId::new(format!("@{}", instance.name())),
    }
}

/// Why a team did not run, or not to its end. What agents do wrong is no error but an outcome.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    #[error("{team} is run by another process{}", if pid.is_empty() { String::new() } else { format!(" ({pid})") })]
    Running { team: TeamId, pid: String },
    #[error("{team} is run on {host}, by process {pid}")]
    Elsewhere { team: TeamId, host: String, pid: u32 },
    #[error("cannot keep the team's state in {}", path.display())]
    State { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("{agent} gets no worktree")]
    Worktree { agent: String, source: Box<ClientError> },
    #[error("{}", .0.reason)]
    Backend(Failure),
    #[error("it was interrupted before it began")]
    Interrupted,
    /// Its process was ended, and not the team.
    #[error("its process was ended before it began")]
    Suspended,
    #[error("it was stopped before it began")]
    Stopped,
    #[error("it took longer than {} (--timeout) to begin", in_words(.after))]
    TimedOut { after: Duration },
    #[error("{team} is a team of the workflow `{workflow}`, and its runner is gone")]
    OfAnotherFile { team: TeamId, workflow: String },
    #[error("{team} was begun with {} for `{}`, and its runner is gone", others(.names), .names.join("`, `"))]
    BegunOtherwise { team: TeamId, names: Vec<String> },
    #[error("somebody else started or ended {team} meanwhile")]
    Superseded { team: TeamId },
    #[error(transparent)]
    Daemon(#[from] ClientError),
}

impl TeamError {
    /// What to do about it.
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
                "start it again when you like".to_owned()
            }
            TeamError::TimedOut { .. } => "see which setup command takes so long, or give it more time".to_owned(),
            TeamError::OfAnotherFile { team, .. } => {
                format!(
                    "`rookery stop {team}` ends it; run that workflow again to go on with it, or name another --instance"
                )
            }
            TeamError::BegunOtherwise { team, .. } => {
                format!("say the same to go on with it; `rookery stop {team}` ends it, or name another --instance")
            }
            TeamError::Superseded { .. } => "look with `rookery list`".to_owned(),
            TeamError::Daemon(error) => error.hint(),
        }
    }
}

fn in_words(time: &Duration) -> String {
    show_duration(*time)
}

fn others(names: &[String]) -> &'static str {
    if names.len() == 1 { "another value" } else { "other values" }
}

/// Runs a team until it is over, and tells what came of it. `interrupt` ends it as soon as everything is put in order.
pub async fn run(order: Order, reports: Reports, interrupt: Interrupt) -> Result<Summary, TeamError> {
    let begun = begin::begin(&order, &reports, &interrupt).await?;
    supervise::supervise(order, begun, reports, interrupt).await
}
