//! Reports of a running team for the screen. They are for people only, and nothing is decided by them. A report that is lost
//! because a terminal is slow does no harm: the next one contains the status of its agent.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::backend::{BackendEvent, Usage};

/// Maximum number of reports that wait for a slow screen.
const CAPACITY: usize = 1024;

/// A change of a running team. Reports are sent in the order of the changes.
#[derive(Clone, PartialEq, Debug)]
pub enum Report {
    /// The first report.
    Began(Began),
    /// A setup command was started.
    SetUp {
        nth: usize,
        of: usize,
        shell: String,
    },
    /// The kickoff was sent and woke these agents. Not repeated by a resumed team.
    KickedOff {
        woken: Vec<String>,
    },
    TurnBegan {
        agent: MemberStatus,
        /// Counted from 1. Above 1, the turn is a retry.
        attempt: u32,
        cause: ReportedCause,
        /// Number of messages of the turn.
        messages: usize,
    },
    /// An event during a turn. The first kind to be left out when the screen is slow.
    During {
        agent: String,
        event: BackendEvent,
    },
    TurnEnded {
        agent: MemberStatus,
        attempt: u32,
        outcome: TurnResult,
        usage: Usage,
        took: Duration,
    },
    /// The status of an agent changed outside of a turn: it was stopped, or the delay before a retry ended.
    Changed(MemberStatus),
    /// A note for people about one agent or the team.
    Note {
        agent: Option<String>,
        level: Level,
        text: String,
    },
    /// The last report.
    Ended {
        outcome: RunOutcome,
        reason: Option<String>,
        took: Duration,
        total: UsageTotals,
    },
}

/// The team at its beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Began {
    /// The team's id, such as `@pr-123`, or that of a standalone agent.
    pub team: String,
    pub workflow: String,
    pub instance: String,
    /// Whether it was resumed after a crash, a reboot or a closed terminal.
    pub resumed: bool,
    pub agents: Vec<MemberInfo>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberInfo {
    pub name: String,
    pub backend: &'static str,
    pub model: Option<String>,
}

/// The status of an agent, as shown in its line on the screen.
#[derive(Clone, PartialEq, Debug)]
pub struct MemberStatus {
    pub name: String,
    pub state: AgentState,
    /// The totals of all its turns, including those before a restart.
    pub tally: UsageTotals,
}

#[derive(Clone, PartialEq, Debug)]
pub enum AgentState {
    Idle,
    Working,
    /// It continues by itself after this time.
    Waiting {
        why: String,
        time: Duration,
    },
    /// It has unread messages, but a limit or a loop prevents its turn.
    Held {
        why: String,
    },
    /// It gets no more turns.
    Stopped,
    /// Its last turn failed, and its messages were given up.
    Failed,
}

impl AgentState {
    pub fn as_str(&self) -> &'static str {
        match self {
            AgentState::Idle => "idle",
            AgentState::Working => "working",
            AgentState::Waiting { .. } => "waiting",
            AgentState::Held { .. } => "held",
            AgentState::Stopped => "stopped",
            AgentState::Failed => "failed",
        }
    }
}

/// Turns and resources used by one agent or by all.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct UsageTotals {
    pub turns: u64,
    pub usage: Usage,
}

impl UsageTotals {
    pub fn add(&mut self, usage: Usage) {
        self.usage.input_tokens = self.usage.input_tokens.saturating_add(usage.input_tokens);
        self.usage.output_tokens = self.usage.output_tokens.saturating_add(usage.output_tokens);
        if let Some(cost) = usage.cost_usd {
            self.usage.cost_usd = Some(self.usage.cost_usd.unwrap_or_default() + cost);
        }
    }
}

/// The reason for waking an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportedCause {
    Messages,
    Wakeup,
}

impl ReportedCause {
    pub fn as_str(self) -> &'static str {
        match self {
            ReportedCause::Messages => "messages",
            ReportedCause::Wakeup => "wakeup",
        }
    }
}

/// The result of a turn.
#[derive(Clone, PartialEq, Debug)]
pub enum TurnResult {
    Done,
    /// It failed and is retried after this time.
    Retry {
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
    Info,
    /// A problem that the team survives.
    Warning,
    /// A problem that makes the team fail.
    Error,
}

/// The outcome of a team's run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunOutcome {
    /// No agent had work left, and every agent's last turn succeeded.
    Completed,
    Failed,
    /// It was asked to stop.
    Stopped,
    /// It was ended by a signal.
    Interrupted,
    /// Only its process was ended: the team is resumed by the next start.
    Suspended,
}

impl RunOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            RunOutcome::Completed => "completed",
            RunOutcome::Failed => "failed",
            RunOutcome::Stopped => "stopped",
            RunOutcome::Interrupted => "interrupted",
            RunOutcome::Suspended => "suspended",
        }
    }
}

/// The sender of reports. It never blocks the team: a slow screen loses reports.
#[derive(Clone, Debug)]
pub struct Reports(mpsc::Sender<Report>);

impl Reports {
    pub fn channel() -> (Reports, mpsc::Receiver<Report>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Reports(sender), receiver)
    }

    pub fn send(&self, report: Report) {
        // Events during turns leave half of the capacity to more important reports.
        let is_event = matches!(report, Report::During { .. });
        if !is_event || self.0.capacity() > CAPACITY / 2 {
            // Lost if the channel is full or closed.
            self.0.try_send(report).ok();
        }
    }

    pub fn note(&self, agent: Option<&str>, level: Level, text: impl Into<String>) {
        self.send(Report::Note { agent: agent.map(str::to_owned), level, text: text.into() });
    }
}
