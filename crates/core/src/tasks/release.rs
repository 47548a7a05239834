//! Giving a task back to the queue: by its holder, because the holder is gone, or to try again after a failure.

use serde::{Deserialize, Serialize};

use super::CheckpointAdded;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, TaskId, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::file::ReleaseReason;
use crate::model::notification::{Audience, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::run::Run;
use crate::model::task::{
    CheckpointKind, ReleaseCause, Task, TaskState, check_transition, ensure_may_change, refuse_finished, task_keys,
};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View, run};
use crate::runs;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// Gives a task back to the queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReleaseTask {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    /// The reason, for the agent that takes it next.
    pub reason: Option<String>,
    pub if_unclaimed: IfUnclaimed,
    pub if_failed: IfFailed,
}

/// The answer to a release of a task that is nobody's, neither claimed nor reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfUnclaimed {
    Succeed,
    /// Rejects also an agent that is not registered: it never had a task.
    Reject,
}

/// The answer to a release of a failed task, which is nobody's either.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfFailed {
    Retry,
    Reject,
}

/// Tries a failed task again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RetryTask {
    pub task: TaskId,
    pub agent: Option<AgentId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskReleased {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    pub reserved_for: Option<AgentId>,
    pub from: TaskState,
    pub because: ReleaseCause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskRetried {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub attempt: u32,
    /// When the attempt may begin, if nobody asked for it: a pause comes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

impl Event for TaskRetried {
    const KIND: &'static str = "task.retried";

    fn subject(&self) -> Subject<'_> {
        Subject::task(&self.task, self.run.as_ref())
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, None, &[], self.run.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.retry(self.attempt, self.not_before, stamp));
        if let Some(run) = run::row_id(self.run.as_ref()) {
            rows.update(run, |run: &mut Run| run.retry_task(stamp.at));
        }
    }
}

impl Command for ReleaseTask {
    const NAME: &'static str = "ReleaseTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        crate::model::task::read_set(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let task = cx.view.task(&self.task)?;
        let reply = ReplySource::row(self.task.clone());
        refuse_finished(task, TaskState::Pending)?;
        limit::text("reason", self.reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        if let Some(agent) = &self.agent {
            cx.view.ensure_may_act_for(cx.caller, agent)?;
            if self.if_unclaimed == IfUnclaimed::Reject {
                cx.view.agent_row(agent)?;
            }
        }
        self.ensure_claimed(task)?;
        ensure_may_change(cx.view, cx.caller, task, self.agent.as_ref())?;
        if task.state == TaskState::Failed {
            return Ok(Decision::new(again(cx.view, task)?, reply));
        }
        if task.state != TaskState::Pending {
            check_transition(task, TaskState::Pending)?;
        } else if task.held_by().is_none() {
            return Ok(Decision::unchanged(reply));
        }
        let fact = TaskReleased { reason: self.reason.clone(), ..TaskReleased::of(task, ReleaseCause::Asked) };
        Ok(Decision::new(vec![AnyEvent::new(fact)], reply))
    }
}

impl ReleaseTask {
    fn ensure_claimed(&self, task: &Task) -> Result<(), Rejection> {
        let is_rejected = match task.state {
            TaskState::Failed => self.if_failed == IfFailed::Reject,
            _ => task.held_by().is_none() && self.if_unclaimed == IfUnclaimed::Reject,
        };
        if !is_rejected {
            return Ok(());
        }
        let message = format!("nobody holds task {}", task.id);
        Err(Rejection::new(Code::NotClaimed, message).hint("there is nothing to give back"))
    }
}

impl Command for RetryTask {
    const NAME: &'static str = "RetryTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        crate::model::task::read_set(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let task = cx.view.task(&self.task)?;
        refuse_finished(task, TaskState::Pending)?;
        if let Some(agent) = &self.agent {
            cx.view.ensure_may_act_for(cx.caller, agent)?;
        }
        ensure_may_change(cx.view, cx.caller, task, self.agent.as_ref())?;
        if task.state != TaskState::Failed {
            return Err(crate::model::task::refuse_transition(task, TaskState::Pending)
                .hint("only a failed task can be retried")
                .into());
        }
        Ok(Decision::new(again(cx.view, task)?, ReplySource::row(self.task.clone())))
    }
}

/// A failed task is tried again, and its run goes on if it had ended with it.
fn again(view: &View, task: &Task) -> Result<Vec<AnyEvent>, Undecided> {
    let mut facts = vec![retried(task)];
    facts.extend(runs::resume_run(view, &[task])?);
    Ok(facts)
}

pub(super) fn retried(task: &Task) -> AnyEvent {
    let attempt = task.attempt.saturating_add(1);
    AnyEvent::new(TaskRetried { task: task.id.clone(), run: task.run_if_named(), attempt, not_before: None })
}

pub fn released(task: &Task, because: ReleaseCause) -> AnyEvent {
    AnyEvent::new(TaskReleased::of(task, because))
}

impl TaskReleased {
    pub(super) fn of(task: &Task, because: ReleaseCause) -> TaskReleased {
        TaskReleased {
            task: task.id.clone(),
            run: task.run_if_named(),
            holder: task.holder().cloned(),
            reserved_for: task.reserved_for.clone(),
            from: task.state,
            because,
            reason: None,
            requested_in: RequestedIn::of(task),
        }
    }
}

impl Event for TaskReleased {
    const KIND: &'static str = "task.released";

    fn subject(&self) -> Subject<'_> {
        let holder = self.holder.as_ref().or(self.reserved_for.as_ref());
        Subject { holder, ..Subject::task(&self.task, self.run.as_ref()) }.requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, self.holder.as_ref(), &[], None)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.release(self.because, self.reason.as_deref(), stamp.at));
        if let Some(holder) = &self.holder {
            rows.update(holder.clone(), |agent: &mut Agent| agent.gave_up(&self.task));
        }
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        let left = self.because == ReleaseCause::Holder(ReleaseReason::HolderLeft);
        let audience = if left { Audience::Nobody } else { Audience::Holder };
        Some(NotificationRule::withdrawing(audience))
    }
}

/// What the next worker should know about why the task came back.
pub fn recovery(task: &Task, reason: ReleaseReason) -> AnyEvent {
    let holder = task.holder().map_or("its holder", AgentId::as_str);
    let why = match reason {
        ReleaseReason::HolderLeft => "left",
        _ => "went offline",
    };
    let sequence = task.checkpoints.saturating_add(1);
    AnyEvent::new(CheckpointAdded {
        id: format!("cp_{}_{sequence}", task.id),
        task: task.id.clone(),
        run: task.run_if_named(),
        sequence,
        detail: None,
        files_changed: vec![],
        artifacts: vec![],
        kind: CheckpointKind::Recovery,
        summary: format!(
            "{holder} {why} while the task was {}; look at its files before going on",
            task.state.as_str()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::testing::{World, anna, assign, by, complete, fail, moves, release};

    fn strict(agent: &str, task: &str) -> ReleaseTask {
        let (if_unclaimed, if_failed) = (IfUnclaimed::Reject, IfFailed::Reject);
        ReleaseTask { agent: Some(agent.into()), if_unclaimed, if_failed, ..release(task) }
    }

    #[test]
    fn release_of_unclaimed_task_succeeds_or_is_rejected_as_asked() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        assert_eq!(w.does(&by("a"), release("t")), [""; 0]);
        assert_eq!(w.refuses(&by("a"), strict("a", "t")), Code::NotClaimed);
        assert_eq!(w.refuses(&anna(), strict("a", "t")), Code::NotClaimed);
        w.does(&by("a"), moves("t", TaskState::Planning));
        assert_eq!(w.refuses(&by("a"), strict("a", "t")), Code::NotClaimed);
        assert_eq!(w.does(&by("a"), release("t")), ["task.released"]);
    }

    #[test]
    fn release_of_failed_task_retries_or_is_rejected_as_asked() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        w.does(&by("a"), fail("t"));
        assert_eq!(w.refuses(&by("a"), strict("a", "t")), Code::NotClaimed);
        assert_eq!(w.does(&by("a"), release("t")), ["task.retried"]);
    }

    #[test]
    fn strict_release_of_held_task_is_for_its_holder() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        w.claims("a", "t");
        assert_eq!(w.refuses(&by("b"), strict("b", "t")), Code::NotHolder);
        assert_eq!(w.refuses(&by("b"), strict("a", "t")), Code::Forbidden);
        assert_eq!(w.refuses(&Caller::anonymous(), strict("stranger", "t")), Code::AgentNotFound);
        assert_eq!(w.does(&by("a"), strict("a", "t")), ["task.released"]);
        w.does(&by("lead"), assign("t", "a"));
        assert_eq!(w.refuses(&by("b"), strict("b", "t")), Code::NotHolder);
        assert_eq!(w.does(&by("lead"), strict("a", "t")), ["task.released"]);
        w.starts("a", "t");
        w.does(&by("a"), complete("t"));
        assert_eq!(w.refuses(&by("a"), strict("a", "t")), Code::InvalidTransition);
    }
}
