//! What a team tells whoever watches it. Reports are for people: nothing is decided by them, and one that is lost because a
//! terminal does not keep up is made good by the next, because each says how its agent stands by then.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::backend::{BackendEvent, Usage};

/// How many reports wait for a screen that is behind.
const ROOM: usize = 1024;

/// Something that happened, in the order in which it did.
#[derive(Clone, PartialEq, Debug)]
pub enum Report {
    /// First of all.
    Began(Began),
    /// A command of the setup runs.
    SetUp { nth: usize, of: usize, shell: String },
    /// The first message is out, and who is woken by it. Not told again by a team that goes on after a crash.
    KickedOff { woken: Vec<String> },
    TurnBegan {
        agent: Standing,
        /// Counted from 1; above that, the same is tried again.
        attempt: u32,
        cause: Cause,
        /// How many messages it is about.
        messages: usize,
    },
    /// During a turn. The first to be left out when the screen is behind.
    During { agent: String, event: BackendEvent },
    TurnEnded {
        agent: Standing,
        attempt: u32,
        outcome: TurnOutcome,
        /// What this turn used.
        usage: Usage,
        took: Duration,
    },
    /// An agent stands otherwise than before, not by a turn: it was stopped, or the pause before another attempt is over.
    Changed(Standing),
    /// Something that a person should know, about one agent or all.
    Note { agent: Option<String>, level: Level, text: String },
    /// Last of all.
    Ended { outcome: Outcome, reason: Option<String>, took: Duration, total: Tally },
}

/// What a team is when it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Began {
    /// What it is called: `@pr-123`, or an agent that stands alone.
    pub team: String,
    pub workflow: String,
    pub instance: String,
    /// Whether it goes on after a crash, a reboot or a lost connection.
    pub resumed: bool,
    pub agents: Vec<Member>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub name: String,
    pub backend: &'static str,
    pub model: Option<String>,
}

/// How an agent stands: all that a line about it says.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing {
    pub name: String,
    pub state: State,
    /// Of all its turns so far, also before a restart.
    pub tally: Tally,
}

#[derive(Clone, PartialEq, Debug)]
pub enum State {
    Idle,
    Working,
    /// It will be at it again by itself, in this time.
    Waiting {
        why: String,
        time: Duration,
    },
    /// It has unread messages and gets no turn: a limit, or a loop.
    Held {
        why: String,
    },
    /// It gets no more turns.
    Stopped,
    /// Its last turn failed, and what it was about was given up.
    Failed,
}

impl State {
    pub fn as_str(&self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Working => "working",
            State::Waiting { .. } => "waiting",
            State::Held { .. } => "held",
            State::Stopped => "stopped",
            State::Failed => "failed",
        }
    }
}

/// What was used, of one agent or of all.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tally {
    pub turns: u64,
    pub usage: Usage,
}

impl Tally {
    pub fn add(&mut self, usage: Usage) {
        self.usage.input_tokens = self.usage.input_tokens.saturating_add(usage.input_tokens);
        self.usage.output_tokens = self.usage.output_tokens.saturating_add(usage.output_tokens);
        if let Some(cost) = usage.cost_usd {
            self.usage.cost_usd = Some(self.usage.cost_usd.unwrap_or_default() + cost);
        }
    }
}

/// Why an agent was woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    Messages,
    Wakeup,
}

impl Cause {
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Messages => "messages",
            Cause::Wakeup => "wakeup",
        }
    }
}

/// What came of a turn.
#[derive(Clone, PartialEq, Debug)]
pub enum TurnOutcome {
    Done,
    /// It failed and is tried again after this time.
    Again {
        reason: String,
        hint: Option<String>,
        after: Duration,
    },
    /// It failed, and its messages were given up.
    GivenUp {
        reason: String,
        hint: Option<String>,
    },
    /// It was ended because the team or the agent was.
    Interrupted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// It went wrong, and goes on.
    Warning,
    /// It went wrong, and the team fails by it.
    Error,
}

/// How it ended with a team.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nobody had anything left to do, and every agent's last turn succeeded.
    Completed,
    Failed,
    /// Somebody asked it to stop.
    Stopped,
    /// By a signal.
    Interrupted,
    /// Its process was ended, and the team was not: it goes on when it is started again.
    Suspended,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Stopped => "stopped",
            Outcome::Interrupted => "interrupted",
            Outcome::Suspended => "suspended",
        }
    }
}

/// Where reports go. A screen that is behind loses some, and never holds up a team.
#[derive(Clone, Debug)]
pub struct Reports(mpsc::Sender<Report>);

impl Reports {
    pub fn channel() -> (Reports, mpsc::Receiver<Report>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Reports(sender), receiver)
    }

    pub fn tell(&self, report: Report) {
        // What agents say meanwhile leaves room for what becomes of them.
        let is_chatter = matches!(report, Report::During { .. });
        if !is_chatter || self.0.capacity() > ROOM / 2 {
            let _full_or_nobody_listens = self.0.try_send(report);
        }
    }

    pub fn note(&self, agent: Option<&str>, level: Level, text: impl Into<String>) {
        self.tell(Report::Note { agent: agent.map(str::to_owned), level, text: text.into() });
    }
}
