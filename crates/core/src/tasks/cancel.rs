//! Work that will not be done: cancelled or skipped.

use serde::{Deserialize, Serialize};

use super::complete::{ending_asks, freed_files};
use super::subtasks::open_parts;
use super::unblock::{first_dependents, unblock};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::file::ReleaseReason;
use crate::model::notification::{Audience, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::run::Run;
use crate::model::task::{Task, TaskState, check_transition, ensure_fence, ensure_may_change, task_keys};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View, run};
use crate::runs;
use crate::runs::Ended;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// Ends a task whose work will not be done. Cancelling it cancels its open subtasks as well.
///
/// The agent that asked for the task, its holder, the lead and people may; anybody may as long as no agent holds the task and
/// no message asked for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CancelTask {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub reason: Option<String>,
    pub to: CancelTo,
}

/// The state of a task whose work will not be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelTo {
    Cancelled,
    Skipped,
}

impl CancelTo {
    fn state(self) -> TaskState {
        match self {
            CancelTo::Cancelled => TaskState::Cancelled,
            CancelTo::Skipped => TaskState::Skipped,
        }
    }
}

/// Defines an event that ends a task without its work being done.
macro_rules! ends_unfinished {
    ($(#[$doc:meta])* $event:ident, $kind:literal, $to:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub struct $event {
            pub task: TaskId,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub run: Option<RunId>,
            pub holder: Option<AgentId>,
            /// The agent that the task was reserved for and that had not claimed it.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reserved_for: Option<AgentId>,
            pub from: TaskState,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reason: Option<String>,
            /// The tasks that waited for this one, in the order of their ids.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub unblocks: Vec<TaskId>,
            /// The last of these, if there are more: [`DependentsUnblocked`](super::DependentsUnblocked) names those.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub unblocked_to: Option<TaskId>,
            #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
            pub requested_in: RequestedIn,
        }

        impl $event {
            fn new(view: &View, task: &Task, reason: Option<&str>) -> Result<$event, Undecided> {
                let (unblocks, unblocked_to) = first_dependents(view, task)?;
                Ok($event {
                    task: task.id.clone(),
                    run: task.run_if_named(),
                    holder: task.holder().cloned(),
                    reserved_for: task.reserved_for.clone(),
                    from: task.state,
                    reason: reason.map(str::to_owned),
                    unblocks,
                    unblocked_to,
                    requested_in: RequestedIn::of(task),
                })
            }
        }

        impl Event for $event {
            const KIND: &'static str = $kind;

            fn subject(&self) -> Subject<'_> {
                let holder = self.holder.as_ref().or(self.reserved_for.as_ref());
                Subject { holder, ..Subject::task(&self.task, self.run.as_ref()) }.requested_in(&self.requested_in)
            }

            fn write_set(&self) -> Vec<Key> {
                task_keys(&self.task, self.holder.as_ref(), &self.unblocks, self.run.as_ref())
            }

            fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
                let drop = |task: &mut Task| task.drop_as($to, self.reason.as_deref(), stamp.at);
                rows.update(self.task.clone(), drop);
                if let Some(holder) = &self.holder {
                    rows.update(holder.clone(), |agent: &mut Agent| agent.gave_up(&self.task));
                }
                unblock(rows, &self.task, &self.unblocks, self.unblocked_to.as_ref(), stamp);
                if let Some(run) = run::row_id(self.run.as_ref()) {
                    rows.update(run, |run: &mut Run| run.drop_task(self.from, stamp.at));
                }
            }

            fn notification_rule(&self) -> Option<NotificationRule> {
                Some(NotificationRule::withdrawing(Audience::RequesterAndHolder))
            }
        }
    };
}

ends_unfinished!(
    /// An open task was cancelled, alone or with the task that it is part of.
    TaskCancelled,
    "task.cancelled",
    TaskState::Cancelled
);

ends_unfinished!(
    /// A task that was not started, or had failed, was skipped.
    TaskSkipped,
    "task.skipped",
    TaskState::Skipped
);

impl Command for CancelTask {
    const NAME: &'static str = "CancelTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        ending_asks(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let task = cx.view.task(&self.task)?;
        let reason = self.reason.as_deref();
        limit::text("reason", reason.unwrap_or(""), limit::TEXT_BYTES)?;
        // A stale fence is rejected first; a finished task gives everybody the same answer.
        if task.state.is_open() {
            ensure_fence(cx.caller, task.claim.as_ref().map(|claim| claim.fence))?;
        }
        check_transition(task, self.to.state())?;
        if let Some(agent) = &self.agent {
            cx.view.ensure_may_act_for(cx.caller, agent)?;
        }
        self.ensure_may_cancel(cx, task)?;
        let mut events = end_unfinished(cx.view, task, self.to, reason)?;
        let subtasks = match self.to {
            CancelTo::Cancelled => open_parts(cx.view, task)?,
            CancelTo::Skipped => vec![],
        };
        for subtask in &subtasks {
            events.extend(end_unfinished(cx.view, subtask, self.to, reason)?);
        }
        events.extend(runs::roll_up(cx.view, task, Ended::finished(task, subtasks.len()))?);
        Ok(Decision::new(events, ReplySource::row(self.task.clone())))
    }
}

impl CancelTask {
    fn ensure_may_cancel(&self, cx: &DecisionContext<'_>, task: &Task) -> Result<(), Undecided> {
        let acting = self.agent.as_ref().or(cx.caller.actor.agent());
        if acting.is_some_and(|agent| agent.as_str() == task.assigned_by) {
            return Ok(());
        }
        let is_requested = task.origin.terms.is_some();
        if task.held_by().is_some() || !is_requested || cx.view.has_authority(cx.caller)? {
            return ensure_may_change(cx.view, cx.caller, task, self.agent.as_ref());
        }
        let requester = &task.assigned_by;
        Err(Rejection::new(Code::NotHolder, format!("task {} was requested by {requester}", task.id))
            .hint(format!("only {requester}, the lead or a person can cancel it before an agent holds it"))
            .into())
    }
}

/// The events that end one task without its work being done, and free its files.
pub(super) fn end_unfinished(
    view: &View,
    task: &Task,
    to: CancelTo,
    reason: Option<&str>,
) -> Result<Vec<AnyEvent>, Undecided> {
    let end = match to {
        CancelTo::Cancelled => AnyEvent::new(TaskCancelled::new(view, task, reason)?),
        CancelTo::Skipped => AnyEvent::new(TaskSkipped::new(view, task, reason)?),
    };
    let mut events = vec![end];
    events.extend(freed_files(view, task, ReleaseReason::TaskEnded)?);
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::testing::{World, anna, assign, by, cancel, sends, skip};

    fn requested() -> World {
        let mut w = World::of(&["lead", "ui", "a", "b"]);
        sends(&mut w, "req_t", "task.request", "ui", &serde_json::json!({ "task_id": "t" }));
        w
    }

    #[test]
    fn cancel_of_requested_unheld_task_is_for_requester_lead_and_people() {
        for caller in [by("a"), by("stranger"), Caller::anonymous()] {
            assert_eq!(requested().refuses(&caller, cancel("t")), Code::NotHolder, "{:?}", caller.actor);
            assert_eq!(requested().refuses(&caller, skip("t")), Code::NotHolder, "{:?}", caller.actor);
        }
        for caller in [by("ui"), by("lead"), anna()] {
            assert_eq!(requested().does(&caller, cancel("t"))[0], "task.cancelled", "{:?}", caller.actor);
            assert_eq!(requested().does(&caller, skip("t"))[0], "task.skipped", "{:?}", caller.actor);
        }
    }

    #[test]
    fn cancel_of_held_task_is_for_requester_holder_lead_and_people() {
        let held = || {
            let mut w = requested();
            w.does(&anna(), assign("t", "a"));
            w
        };
        assert_eq!(held().refuses(&by("b"), cancel("t")), Code::NotHolder);
        let named = |agent: &str| CancelTask { agent: Some(agent.into()), ..cancel("t") };
        assert_eq!(held().refuses(&by("b"), named("ui")), Code::Forbidden);
        for caller in [by("ui"), by("a"), by("lead"), anna(), Caller::anonymous()] {
            assert_eq!(held().does(&caller, cancel("t"))[0], "task.cancelled", "{:?}", caller.actor);
        }
        assert_eq!(held().does(&Caller::anonymous(), named("ui"))[0], "task.cancelled");
    }

    #[test]
    fn cancel_of_unheld_task_that_no_message_asked_for_is_for_anybody() {
        for caller in [by("a"), by("stranger"), Caller::anonymous()] {
            let mut w = World::of(&["lead", "a"]);
            w.creates("t", &[]);
            assert_eq!(w.does(&caller, cancel("t")), ["task.cancelled"], "{:?}", caller.actor);
        }
    }
}
