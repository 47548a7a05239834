//! What runs an agent's turns. One turn is one prompt in, a stream of [`BackendEvent`]s while it works, and an [`BackendOutcome`] that says
//! what came of it. A backend judges by what the program reported, never by its exit code alone, and decides nothing else:
//! who is woken, what it is told and what becomes of its messages is for the team.

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
pub use program::override_file::put_back_all;
pub use seat::{Daemon, Environment, Provider, Seat, Secret};

/// What runs an agent of the file from its seat. Fails if it can be told already that no turn would succeed.
pub fn open(agent: &Agent, seat: &Seat) -> Result<Box<dyn Backend>, Failure> {
    match &agent.backend {
        file::Backend::Sdk { provider, .. } => Ok(Box::new(sdk::Sdk::new(provider, seat)?)),
        file::Backend::Program(program) => Ok(Box::new(program::ProgramAgent::open(*program, seat)?)),
        file::Backend::Command { argv } => Ok(Box::new(command::CommandBackend::new(argv, seat)?)),
        file::Backend::Mock { script } => Ok(Box::new(mock::Mock::new(script, seat))),
    }
}

/// What can be told before anything is made ready: that the program of an agent, or the key of its model, is not there.
pub fn foresee(agent: &Agent, variables: &Variables) -> Result<(), Failure> {
    let mut env: BTreeMap<String, String> = variables.env.clone();
    env.extend(agent.environment(variables));
    match &agent.backend {
        file::Backend::Sdk { provider, .. } => sdk::foresee(agent, provider, variables, &env),
        file::Backend::Program(program) => program::foresee(*program, &env),
        file::Backend::Command { .. } | file::Backend::Mock { .. } => Ok(()),
    }
}

/// A turn that ended because the agent's programs exceeded a limit of its sandbox. Another attempt would do the same.
fn over_limit(seat: &Seat, excess: process::Excess) -> Failure {
    Failure { why: Why::Hopeless, reason: format!("{} {excess}", seat.name), hint: Some(excess.hint()) }
}

/// How much a program may print as its answer in one turn before it is ended: more than any answer, and less than a disk.
pub const OUTPUT_BYTES: u64 = 16 << 20;

/// Runs one agent, turn by turn and never two at once.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Ends soon after `turn.cancel` was cancelled or `turn.timeout` is over, with everything that it started ended.
    fn turn<'a>(&'a self, turn: &'a Turn, events: &'a Events) -> BoxFuture<'a, BackendOutcome>;

    /// Whose requests its turns use up, in words for people: those who share it wait together when it is out of them.
    fn account(&self) -> String;

    /// Whether anybody reads `turn.system` and `turn.prompt`. If not, nobody has to gather what they would say.
    fn reads_prompts(&self) -> bool {
        true
    }
}

/// One turn as a backend sees it.
#[derive(Clone, Debug)]
pub struct Turn {
    pub id: String,
    /// Counted from 1; above that, the same messages are tried again.
    pub attempt: u32,
    /// The turns before this one, the newest first, of which nobody knows how far they came because the runner died during
    /// them: they are done again.
    pub repeats: Vec<String>,
    /// What the agent is told about itself and the team. The same in every turn of a conversation.
    pub system: String,
    /// What is new.
    pub prompt: String,
    /// What woke it, in the order of the prompt.
    pub inbox: Vec<Letter>,
    /// The program's own conversation, as its last turn reported it, also from before a restart.
    pub conversation: Option<String>,
    pub timeout: Duration,
    pub cancel: CancellationToken,
}

/// A message that woke an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    pub id: String,
    /// As the agent would mention it.
    pub from: String,
    pub text: String,
}

/// What happens during a turn, for the screen and the log.
#[derive(Clone, PartialEq, Debug)]
pub enum BackendEvent {
    /// A part of what it answers.
    Said(String),
    /// It calls a tool; `input` is shortened for people.
    Tool {
        name: String,
        input: String,
    },
    ToolFailed {
        name: String,
        reason: String,
    },
    /// What was used so far in this turn.
    Used(Usage),
    /// Something that a person may want to know.
    Note(String),
}

/// Where events go. A screen that is behind loses events, and never holds up a turn.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<BackendEvent>);

impl Events {
    pub fn bounded(room: usize) -> (Events, mpsc::Receiver<BackendEvent>) {
        let (sender, receiver) = mpsc::channel(room);
        (Events(sender), receiver)
    }

    pub fn tell(&self, event: BackendEvent) {
        let _full_or_nobody_listens = self.0.try_send(event);
    }

    /// For whoever outlasts the turn: the turn's events end all the same when it does.
    pub fn weak(&self) -> WeakEvents {
        WeakEvents(self.0.downgrade())
    }
}

/// Where events go as long as somebody else keeps that open.
#[derive(Clone, Debug)]
pub struct WeakEvents(mpsc::WeakSender<BackendEvent>);

impl WeakEvents {
    pub fn tell(&self, event: BackendEvent) {
        if let Some(events) = self.0.upgrade() {
            Events(events).tell(event);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
}

/// What came of a turn.
#[derive(Clone, PartialEq, Debug)]
pub struct BackendOutcome {
    pub verdict: TurnVerdict,
    /// To go on with in the next turn.
    pub conversation: Option<String>,
    pub usage: Usage,
    /// Where everything that the program wrote is kept, within bounds; the team stores it as an artifact.
    pub transcript: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum TurnVerdict {
    /// It did its turn. `said` is what it printed last, which is posted for it if it sent nothing itself; `worked` tells
    /// that it did something that can be seen, such as calling a tool, because a turn of nothing at all is a failure.
    Done {
        said: Option<String>,
        worked: bool,
    },
    Failed(Failure),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    pub why: Why,
    /// For people, one line.
    pub reason: String,
    /// What to do about it.
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
    /// Another attempt can only fail the same way: no such program, no key, a model that does not exist.
    Hopeless,
    /// The account is out of requests for a while; nobody who uses it should ask before.
    Limited {
        retry_after: Duration,
    },
    TimedOut,
    /// It was asked to stop.
    Cancelled,
}
