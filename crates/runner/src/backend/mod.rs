//! Backends, which run an agent's turns. A turn takes one prompt, emits [`BackendEvent`]s while it works, and ends with a
//! [`BackendOutcome`]. A backend judges a turn by the program's report, never by its exit code alone, and decides nothing
//! else: the team decides when to wake an agent, what to tell it, and what becomes of its messages.

mod claude;
mod codex;
mod command;
mod cursor;
mod gemini;
pub mod mock;
mod opencode;
mod program;
mod sdk;
mod seat;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::file::{self, Agent, Variables};
use crate::process;
pub use program::LEDGER;
pub use program::override_file::restore_all;
pub use seat::{Daemon, Environment, Provider, Seat, Secret};

/// Opens the backend of an agent for its seat. Fails if it is certain that no turn can succeed.
pub fn open(agent: &Agent, seat: &Seat) -> Result<Box<dyn Backend>, Failure> {
    match &agent.backend {
        file::Backend::Sdk { provider, .. } => Ok(Box::new(sdk::Sdk::new(provider, seat)?)),
        file::Backend::Program(program) => Ok(Box::new(program::ProgramAgent::open(*program, seat)?)),
        file::Backend::Command { argv } => Ok(Box::new(command::CommandBackend::new(argv, seat)?)),
        file::Backend::Mock { script } => Ok(Box::new(mock::Mock::new(script, seat))),
    }
}

/// Checks, before anything is prepared, that the agent's program is installed and the key of its model is set.
pub fn preflight(agent: &Agent, variables: &Variables) -> Result<(), Failure> {
    let mut env: BTreeMap<String, String> = variables.env.clone();
    env.extend(agent.environment(variables));
    match &agent.backend {
        file::Backend::Sdk { provider, .. } => sdk::preflight(agent, provider, variables, &env),
        file::Backend::Program(program) => program::preflight(*program, &env),
        file::Backend::Command { .. } | file::Backend::Mock { .. } => Ok(()),
    }
}

/// The failure of a turn whose programs exceeded a limit of the sandbox. Another attempt would do the same.
fn over_limit(seat: &Seat, excess: process::Excess) -> Failure {
    Failure { why: Why::Hopeless, reason: format!("{} {excess}", seat.name), hint: Some(excess.hint()) }
}

/// Maximum output of a program in one turn: more than any answer needs, and less than would fill a disk.
pub const MAX_OUTPUT_BYTES: u64 = 16 << 20;

/// Runs the turns of one agent, one at a time.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Runs a turn. Ends soon after `turn.cancel` is cancelled or `turn.timeout` has passed, with all of its processes ended.
    fn turn<'a>(&'a self, turn: &'a Turn, events: &'a Events) -> BoxFuture<'a, BackendOutcome>;

    /// The account whose requests the turns use, for people. Agents that share an account wait together when it is out of
    /// requests.
    fn account(&self) -> String;

    /// Whether the backend reads `turn.system` and `turn.prompt`. If not, nothing has to be collected for them.
    fn reads_prompts(&self) -> bool {
        true
    }
}

/// The input of one turn.
#[derive(Clone, Debug)]
pub struct Turn {
    pub id: String,
    /// Counted from 1; a later attempt repeats the same messages.
    pub attempt: u32,
    /// Earlier turns that this one repeats, the newest first: the runner died during them, so that their progress is
    /// unknown.
    pub repeats: Vec<String>,
    /// The instructions about the agent and its team. The same in every turn of a conversation.
    pub system: String,
    /// The new messages and other news.
    pub prompt: String,
    /// The messages that woke the agent, in the order of the prompt.
    pub inbox: Vec<WakingMessage>,
    /// The program's conversation as the last turn returned it, possibly before a restart.
    pub conversation: Option<String>,
    pub timeout: Duration,
    pub cancel: CancellationToken,
}

/// A message that woke an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WakingMessage {
    pub id: String,
    /// The sender, as the agent would mention it.
    pub from: String,
    pub text: String,
}

/// An event of a running turn, for the screen and the log.
#[derive(Clone, PartialEq, Debug)]
pub enum BackendEvent {
    /// A part of the answer.
    Said(String),
    /// A call of a tool; `input` is shortened for people.
    Tool {
        name: String,
        input: String,
    },
    ToolFailed {
        name: String,
        reason: String,
    },
    /// The usage of this turn so far.
    Used(Usage),
    /// A remark for people.
    Note(String),
}

/// Sends the events of a turn. A slow screen loses events, and never blocks a turn.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<BackendEvent>);

impl Events {
    pub fn with_capacity(room: usize) -> (Events, mpsc::Receiver<BackendEvent>) {
        let (sender, receiver) = mpsc::channel(room);
        (Events(sender), receiver)
    }

    pub fn emit(&self, event: BackendEvent) {
        // The screen may be gone, or so slow that the buffer is full.
        drop(self.0.try_send(event));
    }

    /// For holders that outlive the turn: the turn's event stream ends with the turn all the same.
    pub fn weak(&self) -> WeakEvents {
        WeakEvents(self.0.downgrade())
    }
}

/// Sends events as long as an [`Events`] of the turn exists.
#[derive(Clone, Debug)]
pub struct WeakEvents(mpsc::WeakSender<BackendEvent>);

impl WeakEvents {
    pub fn emit(&self, event: BackendEvent) {
        if let Some(events) = self.0.upgrade() {
            Events(events).emit(event);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
}

/// The result of a turn.
#[derive(Clone, PartialEq, Debug)]
pub struct BackendOutcome {
    pub verdict: TurnVerdict,
    /// The conversation to resume in the next turn.
    pub conversation: Option<String>,
    pub usage: Usage,
    /// The file with the program's output, within bounds; the team stores it as an artifact.
    pub transcript: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum TurnVerdict {
    /// The turn is done. `said` is the last text, which is posted for the agent if it sent nothing itself. `worked` tells
    /// whether it did something visible, such as calling a tool; a turn without any effect counts as a failure.
    Done {
        said: Option<String>,
        worked: bool,
    },
    Failed(Failure),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    pub why: Why,
    /// One line for people.
    pub reason: String,
    /// A suggestion for the user.
    pub hint: Option<String>,
}

impl Failure {
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Worth another attempt.
    Fault,
    /// Another attempt can only fail the same way: a missing program, a missing key, an unknown model.
    Hopeless,
    /// The account is out of requests; its users should all wait.
    Limited {
        retry_after: Duration,
    },
    TimedOut,
    /// Stopped on request.
    Cancelled,
}
