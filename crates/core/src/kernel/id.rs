//! Names and numbers that identify things. Minting them is not done here: ids come in with a command.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.into())
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )+};
}

ids! {
    /// An agent, in the one namespace that every face shares.
    AgentId,
    /// A unit of work.
    TaskId,
    /// A structured handoff of a task between agents.
    HandoffId,
    /// A top-level execution context; REST tasks live in [`RunId::project_default`].
    RunId,
    /// A plan with blanks, from which runs are made.
    TemplateId,
    /// A message, in the form of the face it came in by.
    MessageId,
    /// A conversation; what happens outside of one is shown in [`ThreadId::project_default`].
    ThreadId,
    /// Something that shall happen at a time.
    TimerId,
    /// An effect that has been decided and is to be carried out.
    IntentId,
    /// A folder in which work on a branch goes on apart from others.
    WorkspaceId,
    /// What one runner runs: `@pr-123` for the agents of an instance, or the id of an agent that runs alone.
    TeamId,
    /// One time that an agent of a team was woken.
    TurnId,
    /// One history: restore and import begin a new one.
    LogId,
    /// A process that serves the store, new with every start.
    NodeId,
    /// A folder of the project on one machine.
    SiteId,
}

/// The task id of messages that are about no task.
pub const NO_TASK: &str = "task_none";

impl RunId {
    /// The run of everything that names none. It never completes.
    pub fn project_default() -> Self {
        Self::from("run_default")
    }
}

impl ThreadId {
    pub fn project_default() -> Self {
        Self::from("thr_default")
    }
}

/// The place of a fact in the log: gap-free, in commit order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    pub const ZERO: Seq = Seq(0);

    #[must_use]
    pub fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since 1970, as the daemon's clock told them. Nothing is ordered by them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Timestamp {
        Timestamp(self.0.saturating_add_unsigned(millis))
    }
}

/// A place in a named log: `log-id:seq`. A bare number is read as a place in the log at hand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    pub log: Option<LogId>,
    pub seq: Seq,
}

impl Position {
    pub fn parse(text: &str) -> Option<Position> {
        let (log, seq) = match text.rsplit_once(':') {
            Some((log, seq)) if !log.is_empty() => (Some(LogId::from(log)), seq),
            Some(_) => return None,
            None => (None, text),
        };
        // `u64::from_str` would take a leading plus sign.
        if !seq.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Position { log, seq: Seq(seq.parse().ok()?) })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.log {
            Some(log) => write!(f, "{log}:{}", self.seq),
            None => self.seq.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_with_and_without_a_log() {
        let place = |text| Position::parse(text).map(|p| (p.log.map(|l| l.to_string()), p.seq.0));
        assert_eq!(place("12"), Some((None, 12)));
        assert_eq!(place("log_a:12"), Some((Some("log_a".into()), 12)));
        for bad in ["", ":12", "log_a:", "log_a:x", "+1", "-1", "1.5", "99999999999999999999999"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
