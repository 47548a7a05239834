//! Trying a task again by itself: how often, after what pause, and what is told when that was in vain.

use serde::{Deserialize, Serialize};

use super::TaskRetried;
use crate::kernel::id::{AgentId, RunId, TaskId, Timestamp};
use crate::model::notification::{Audience, IfAnnounced, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::task::Task;
use crate::model::{EventStamp, Key, RowWriter, Undecided, View};
use crate::runs;
use crate::runs::Ended;
use crate::traits::{AnyEvent, Event, Subject};

/// How often a task is tried that does not say so itself.
pub const MAX_ATTEMPTS: u32 = 3;

/// The pause before the second attempt; each further one is twice as long.
pub const RETRY_BACKOFF_MILLIS: u64 = 1_000;

/// No pause between attempts is longer.
const MAX_BACKOFF_MILLIS: u64 = 10 * 60 * 1_000;

/// Every attempt that a task has was in vain: somebody should look at it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskAttemptsExhausted {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// How many attempts there were.
    pub attempts: u32,
    /// Whose attempt was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for TaskAttemptsExhausted {
    const KIND: &'static str = "task.attempts_exhausted";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: self.holder.as_ref(), ..Subject::task(&self.task, self.run.as_ref()) }
            .requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![]
    }

    fn apply(&self, _rows: &mut RowWriter<'_>, _stamp: EventStamp) {}

    fn notification_rule(&self) -> Option<NotificationRule> {
        let rule = NotificationRule::to(Audience::Requester);
        Some(NotificationRule { if_announced: IfAnnounced::Notify, ..rule })
    }
}

/// What follows the failure of an attempt that another one may mend: that, or the end of the run. `task` is the task as it was
/// before it failed.
pub(crate) fn retry_or_exhaust(
    view: &View,
    task: &Task,
    error: &str,
    backoff_millis: u64,
    now: Timestamp,
) -> Result<Vec<AnyEvent>, Undecided> {
    let again = next_attempt(task, error, backoff_millis, now);
    let ends = !again.as_ref().is_some_and(AnyEvent::is::<TaskRetried>);
    let end = if ends { runs::roll_up(view, task, Ended::failed(0))? } else { None };
    Ok(again.into_iter().chain(end).collect())
}

fn next_attempt(task: &Task, error: &str, backoff_millis: u64, now: Timestamp) -> Option<AnyEvent> {
    let terms = task.origin.terms.as_deref()?;
    let attempts = task.attempts_used();
    if attempts >= terms.max_attempts.unwrap_or(MAX_ATTEMPTS).max(1) {
        return Some(AnyEvent::new(TaskAttemptsExhausted {
            task: task.id.clone(),
            run: task.run_if_named(),
            attempts,
            holder: task.holder().cloned(),
            error: Some(error.to_owned()),
            requested_in: RequestedIn::of(task),
        }));
    }
    let not_before = now.plus_millis(doubled(backoff_millis, attempts - 1, MAX_BACKOFF_MILLIS));
    // An attempt that could only begin when the task is of use to nobody is none.
    if terms.deadline.is_some_and(|deadline| deadline <= not_before) {
        return None;
    }
    Some(AnyEvent::new(TaskRetried {
        task: task.id.clone(),
        run: task.run_if_named(),
        attempt: task.attempt.saturating_add(1),
        not_before: Some(not_before),
    }))
}

/// A pause that was doubled so often, as long as it is not too long.
pub(crate) fn doubled(millis: u64, times: u32, most: u64) -> u64 {
    let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
    millis.saturating_mul(factor).min(most.max(millis))
}
