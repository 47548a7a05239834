//! Who worked on a task, from when to when, and how it ended: read off the facts of the task.

use rookery_core::model::task::{ReleaseCause, TaskState};
use rookery_core::tasks::{TaskReleased, TimeLimit};
use rookery_core::traits::LogRow;
use rookery_core::{AgentId, AnyEvent, EventRef, Timestamp};

/// One agent's work on a task, from taking it up until it ended or changed hands. Whoever was given it and did not accept has
/// one too, from when it was given until it was taken away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskAttempt {
    /// The task's own count: a retry is the next attempt, another agent in the same attempt is not.
    pub number: u32,
    pub agent: AgentId,
    pub started_at: Timestamp,
    pub ended: Option<(Timestamp, Ending)>,
}

/// How an attempt ended, and why if somebody said so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    Completed {
        outcome: Option<String>,
    },
    Failed {
        error: Option<String>,
    },
    Released {
        reason: Option<String>,
    },
    HandedOver {
        to: AgentId,
    },
    NotAccepted {
        reason: Option<String>,
    },
    TimedOut {
        limit: TimeLimit,
        reason: String,
    },
    /// Somebody had the task begin anew.
    Reopened,
    Dropped {
        state: TaskState,
        reason: Option<String>,
    },
}

impl Ending {
    pub fn as_str(&self) -> &'static str {
        match self {
            Ending::Completed { .. } => TaskState::Completed.as_str(),
            Ending::Failed { .. } => TaskState::Failed.as_str(),
            Ending::Released { .. } => "released",
            Ending::HandedOver { .. } => "handed_over",
            Ending::NotAccepted { .. } => "not_accepted",
            Ending::TimedOut { .. } => "timed_out",
            Ending::Reopened => "reopened",
            Ending::Dropped { state, .. } => state.as_str(),
        }
    }

    /// Why it did not end well.
    pub fn error(&self) -> Option<&str> {
        match self {
            Ending::Completed { .. } | Ending::HandedOver { .. } | Ending::Reopened => None,
            Ending::Failed { error } => error.as_deref(),
            Ending::TimedOut { reason, .. } => Some(reason),
            Ending::Released { reason } | Ending::NotAccepted { reason } | Ending::Dropped { reason, .. } => {
                reason.as_deref()
            }
        }
    }
}

impl TaskAttempt {
    /// How long it took; none while it goes on.
    pub fn millis(&self) -> Option<i64> {
        self.ended.as_ref().map(|(at, _)| (at.0 - self.started_at.0).max(0))
    }

    /// Whether somebody worked on the task in it.
    pub fn is_work(&self) -> bool {
        !matches!(self.ended, Some((_, Ending::NotAccepted { .. })))
    }
}

/// The kinds of facts that attempts are read from.
pub(super) const KINDS: [&str; 11] = [
    "task.forwarded",
    "task.claimed",
    "task.started",
    "task.released",
    "task.retried",
    "task.completed",
    "task.failed",
    "task.timed_out",
    "task.reopened",
    "task.cancelled",
    "task.skipped",
];

/// The attempts at one task, from what the log has of it in order.
pub(super) fn of(rows: &[LogRow]) -> Vec<TaskAttempt> {
    let mut history = History { number: 1, given_at: None, attempts: vec![] };
    for row in rows {
        history.add(row.at, &row.event);
    }
    history.attempts
}

struct History {
    number: u32,
    /// When it was last given to somebody who was to accept it.
    given_at: Option<Timestamp>,
    attempts: Vec<TaskAttempt>,
}

impl History {
    fn add(&mut self, at: Timestamp, fact: &AnyEvent) {
        match fact.typed() {
            EventRef::TaskClaimed(fact) => self.taken_up(at, &fact.agent),
            EventRef::TaskStarted(fact) => self.taken_up(at, &fact.holder),
            EventRef::TaskRetried(fact) => self.number = fact.attempt,
            EventRef::TaskForwarded(_) => self.given_at = Some(at),
            EventRef::TaskReleased(fact) if fact.because == ReleaseCause::NotAccepted => self.not_accepted(at, fact),
            EventRef::TaskReleased(fact) => self.end(at, Ending::Released { reason: fact.reason.clone() }),
            EventRef::TaskTimedOut(fact) => {
                self.end(at, Ending::TimedOut { limit: fact.limit, reason: fact.reason.clone() });
            }
            EventRef::TaskReopened(fact) => {
                self.end(at, Ending::Reopened);
                self.number = fact.attempt;
            }
            EventRef::TaskCompleted(fact) => self.end(at, Ending::Completed { outcome: fact.outcome.text.clone() }),
            EventRef::TaskFailed(fact) => self.end(at, Ending::Failed { error: fact.error.clone() }),
            EventRef::TaskCancelled(fact) => {
                self.end(at, Ending::Dropped { state: TaskState::Cancelled, reason: fact.reason.clone() });
            }
            EventRef::TaskSkipped(fact) => {
                self.end(at, Ending::Dropped { state: TaskState::Skipped, reason: fact.reason.clone() });
            }
            _ => {}
        }
    }

    /// A claim and the start after it are one beginning; a claim by somebody else takes the work over.
    fn taken_up(&mut self, at: Timestamp, agent: &AgentId) {
        if self.open().is_some_and(|open| open.agent == *agent) {
            return;
        }
        self.end(at, Ending::HandedOver { to: agent.clone() });
        self.attempts.push(TaskAttempt { number: self.number, agent: agent.clone(), started_at: at, ended: None });
    }

    fn not_accepted(&mut self, at: Timestamp, fact: &TaskReleased) {
        let (Some(agent), started_at) = (fact.reserved_for.clone(), self.given_at.unwrap_or(at)) else { return };
        let ended = Some((at, Ending::NotAccepted { reason: fact.reason.clone() }));
        self.attempts.push(TaskAttempt { number: self.number, agent, started_at, ended });
    }

    fn end(&mut self, at: Timestamp, ending: Ending) {
        if let Some(open) = self.open() {
            open.ended = Some((at, ending));
        }
    }

    fn open(&mut self) -> Option<&mut TaskAttempt> {
        self.attempts.last_mut().filter(|last| last.ended.is_none())
    }
}

#[cfg(test)]
mod tests {
    use rookery_core::Seq;
    use rookery_core::kernel::caller::{Actor, Auth};
    use rookery_core::model::requested_in::RequestedIn;
    use rookery_core::routing::TaskForwarded;
    use rookery_core::tasks::{TaskClaimed, TaskFailed, TaskRetried, TaskStarted, TaskTimedOut};

    use super::*;

    fn rows(facts: Vec<(i64, AnyEvent)>) -> Vec<LogRow> {
        let row = |(seq, (at, fact)): (usize, (i64, AnyEvent))| LogRow {
            seq: Seq(seq as u64),
            at: Timestamp(at),
            run: None,
            thread: None,
            actor: Actor::System,
            auth: Auth::None,
            via: None,
            cause: None,
            part_index: 0,
            event: fact,
            body: None,
        };
        facts.into_iter().enumerate().map(row).collect()
    }

    fn claimed(agent: &str) -> AnyEvent {
        AnyEvent::new(TaskClaimed {
            task: "t".into(),
            run: None,
            agent: agent.into(),
            from: None,
            blocked: false,
            requested_in: RequestedIn::default(),
        })
    }

    fn started(agent: &str) -> AnyEvent {
        AnyEvent::new(TaskStarted {
            task: "t".into(),
            run: None,
            holder: agent.into(),
            from: TaskState::Pending,
            end_by: None,
            requested_in: RequestedIn::default(),
        })
    }

    fn failed(error: &str) -> AnyEvent {
        let (task, from, error) = ("t".into(), TaskState::InProgress, Some(error.to_owned()));
        AnyEvent::new(TaskFailed { task, run: None, holder: None, from, error, requested_in: RequestedIn::default() })
    }

    fn retried(attempt: u32) -> AnyEvent {
        AnyEvent::new(TaskRetried { task: "t".into(), run: None, attempt, not_before: None })
    }

    #[test]
    fn a_task_that_changes_hands_and_is_tried_again() {
        let found = of(&rows(vec![
            (10, claimed("ken")),
            (20, started("ken")),
            (30, claimed("mia")),
            (50, failed("no network")),
            (60, retried(2)),
            (70, claimed("ken")),
        ]));
        let told: Vec<_> = found
            .iter()
            .map(|attempt| {
                let ended = attempt.ended.as_ref();
                let error = ended.and_then(|(_, ending)| ending.error());
                (attempt.number, attempt.agent.as_str(), attempt.millis(), ended.map(|(_, e)| e.as_str()), error)
            })
            .collect();
        assert_eq!(
            told,
            [
                (1, "ken", Some(20), Some("handed_over"), None),
                (1, "mia", Some(20), Some("failed"), Some("no network")),
                (2, "ken", None, None, None),
            ]
        );
    }

    #[test]
    fn whoever_does_not_accept_or_takes_too_long_is_told_of() {
        let (task, run) = (rookery_core::TaskId::from("t"), None);
        let given = |to: &str| {
            AnyEvent::new(TaskForwarded {
                task: task.clone(),
                run: run.clone(),
                to: to.into(),
                message: "m".into(),
                request: "r".into(),
                attempt: 1,
                accept_by: Some(Timestamp(40)),
                artifacts: vec![],
            })
        };
        let not_accepted = AnyEvent::new(TaskReleased {
            task: task.clone(),
            run: run.clone(),
            holder: None,
            reserved_for: Some("ken".into()),
            from: TaskState::Pending,
            because: ReleaseCause::NotAccepted,
            reason: Some("ken did not accept it".to_owned()),
            requested_in: RequestedIn::default(),
        });
        let timed_out = AnyEvent::new(TaskTimedOut {
            task: task.clone(),
            run: run.clone(),
            holder: Some("mia".into()),
            reserved_for: None,
            from: TaskState::InProgress,
            attempt: 1,
            limit: TimeLimit::Runtime,
            due: Timestamp(90),
            reason: "RUNTIME_EXCEEDED: so".to_owned(),
            requested_in: RequestedIn::default(),
        });
        let facts = vec![
            (10, given("ken")),
            (40, not_accepted),
            (45, given("mia")),
            (50, claimed("mia")),
            (90, timed_out),
            (90, retried(2)),
            (95, given("ken")),
            (99, claimed("ken")),
        ];
        let told: Vec<_> = of(&rows(facts))
            .iter()
            .map(|attempt| {
                let ended = attempt.ended.as_ref().map(|(_, ending)| ending.as_str());
                (attempt.number, attempt.agent.to_string(), attempt.millis(), ended, attempt.is_work())
            })
            .collect();
        assert_eq!(
            told,
            [
                (1, "ken".to_owned(), Some(30), Some("not_accepted"), false),
                (1, "mia".to_owned(), Some(40), Some("timed_out"), true),
                (2, "ken".to_owned(), None, None, true),
            ]
        );
    }

    #[test]
    fn what_ends_without_having_begun_is_no_attempt() {
        assert_eq!(of(&rows(vec![(10, failed("never begun"))])), []);
    }
}
