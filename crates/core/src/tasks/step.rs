//! Steps of a held task that neither start nor end it: planning, review, pause.

use serde::{Deserialize, Serialize};

use super::start::ensure_under_way;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::task::{
    Task, TaskState, WaitingFor, check_transition, ensure_may_change, refuse_finished, task_keys,
};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// Pauses a task, sends it to review, or moves it to planning. A held task that is to be paused or reviewed need not have
/// been started: that is appended first, as by [`super::CompleteTask`]. The state and reason that a task has already change
/// nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetTaskStep {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub to: TaskState,
    pub reason: Option<String>,
    /// What a paused task waits for, where that is not the worker itself.
    pub waiting_for: Option<WaitingFor>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskStepSet {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    pub from: TaskState,
    pub to: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
}

impl Event for TaskStepSet {
    const KIND: &'static str = "task.step_set";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: self.holder.as_ref(), ..Subject::task(&self.task, self.run.as_ref()) }
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, self.holder.as_ref(), &[], None)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let step = |task: &mut Task| task.set_step(self.to, self.reason.as_deref(), self.waiting_for, stamp.at);
        rows.update(self.task.clone(), step);
        if let Some(holder) = self.holder.as_ref().filter(|_| self.to == TaskState::Review) {
            rows.update(holder.clone(), Agent::await_review);
        }
    }
}

/// Only a pause can be for somebody else's sake.
fn check_waiting_for(to: TaskState, waiting_for: Option<WaitingFor>) -> Result<(), Rejection> {
    match waiting_for {
        Some(_) if to != TaskState::Paused => {
            Err(Rejection::new(Code::Invalid, "waiting_for is for a task that is paused"))
        }
        _ => Ok(()),
    }
}

impl Command for SetTaskStep {
    const NAME: &'static str = "SetTaskStep";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        crate::model::task::read_set(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let task = cx.view.task(&self.task)?;
        if !matches!(self.to, TaskState::Planning | TaskState::Review | TaskState::Paused) {
            return Err(Rejection::new(Code::Invalid, format!("{} is not a step", self.to.as_str())).into());
        }
        check_waiting_for(self.to, self.waiting_for)?;
        limit::text("reason", self.reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        let reply = ReplySource::row(self.task.clone());
        let (task, mut events) = self.task_before(cx, task)?;
        if task.state == self.to && task.reason == self.reason && task.waiting_for == self.waiting_for {
            return Ok(Decision::unchanged(reply));
        }
        events.push(AnyEvent::new(TaskStepSet {
            task: task.id.clone(),
            run: task.run_if_named(),
            holder: task.holder().cloned(),
            from: task.state,
            to: self.to,
            reason: self.reason.clone(),
            waiting_for: self.waiting_for,
        }));
        Ok(Decision::new(events, reply))
    }
}

impl SetTaskStep {
    /// Ensures that the caller may take the step. Returns the task as it is right before, and the events that bring it
    /// there.
    fn task_before(&self, cx: &DecisionContext<'_>, task: &Task) -> Result<(Task, Vec<AnyEvent>), Undecided> {
        let repeats = task.state == self.to;
        if self.to != TaskState::Planning && !repeats {
            return ensure_under_way(cx, task, self.agent.as_ref(), self.to);
        }
        refuse_finished(task, self.to)?;
        if let Some(agent) = &self.agent {
            cx.view.ensure_may_act_for(cx.caller, agent)?;
        }
        ensure_may_change(cx.view, cx.caller, task, self.agent.as_ref())?;
        if !repeats {
            check_transition(task, self.to)?;
        }
        Ok((task.clone(), vec![]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, assign, by, moves, start};

    #[test]
    fn pause_and_review_of_task_not_started_start_it_first() {
        for to in [TaskState::Paused, TaskState::Review] {
            let mut w = World::of(&["lead", "a", "b"]);
            for task in ["claimed", "planned", "reserved", "free"] {
                w.creates(task, &[]);
            }
            w.claims("a", "claimed");
            assert_eq!(w.does(&by("a"), moves("claimed", to)), ["task.started", "task.step_set"]);
            w.claims("a", "planned");
            w.does(&by("a"), moves("planned", TaskState::Planning));
            assert_eq!(w.does(&by("a"), moves("planned", to)), ["task.started", "task.step_set"]);
            w.does(&by("lead"), assign("reserved", "a"));
            assert_eq!(w.refuses(&by("b"), moves("reserved", to)), Code::NotHolder);
            assert_eq!(w.does(&by("a"), moves("reserved", to)), ["task.claimed", "task.started", "task.step_set"]);
            for task in ["claimed", "planned", "reserved"] {
                assert_eq!((w.holder(task), w.task(task).state), (Some("a"), to), "{task}");
            }
            assert_eq!(w.refuses(&by("a"), moves("free", to)), Code::InvalidTransition);
        }
    }

    #[test]
    fn review_of_paused_task_resumes_it_first() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        w.does(&by("a"), moves("t", TaskState::Paused));
        assert_eq!(w.does(&by("a"), moves("t", TaskState::Review)), ["task.started", "task.step_set"]);
        assert_eq!(w.refuses(&by("a"), moves("t", TaskState::Paused)), Code::InvalidTransition);
        w.does(&by("a"), start(None, "t"));
    }

    #[test]
    fn pause_and_review_with_unfinished_dependency_are_rejected() {
        let mut w = World::of(&["a"]);
        w.creates("first", &[]);
        w.creates("t", &["first"]);
        for to in [TaskState::Paused, TaskState::Review] {
            assert_eq!(w.refuses(&by("a"), moves("t", to)), Code::DependenciesUnfinished);
        }
        w.claims("a", "t");
        for to in [TaskState::Paused, TaskState::Review] {
            assert_eq!(w.refuses(&by("a"), moves("t", to)), Code::DependenciesUnfinished);
        }
    }

    #[test]
    fn a_pause_tells_why_and_only_steps_are_steps() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        let paused = |why: &str| SetTaskStep { reason: Some(why.to_owned()), ..moves("t", TaskState::Paused) };
        assert_eq!(w.does(&by("a"), paused("lunch")), ["task.step_set"]);
        assert_eq!(w.does(&by("a"), paused("lunch")), [""; 0]);
        assert_eq!(w.does(&by("a"), paused("rain")), ["task.step_set"]);
        assert_eq!(w.task("t").reason.as_deref(), Some("rain"));
        w.starts("a", "t");
        assert_eq!(w.task("t").reason, None);
        let asking = |to| SetTaskStep { waiting_for: Some(WaitingFor::Input), ..moves("t", to) };
        assert_eq!(w.refuses(&by("a"), asking(TaskState::Review)), Code::Invalid);
        assert_eq!(w.does(&by("a"), asking(TaskState::Paused)), ["task.step_set"]);
        assert_eq!(w.does(&by("a"), asking(TaskState::Paused)), [""; 0]);
        assert_eq!(w.task("t").waiting_for, Some(WaitingFor::Input));
        w.starts("a", "t");
        assert_eq!(w.task("t").waiting_for, None);
        for state in
            [TaskState::Pending, TaskState::InProgress, TaskState::Completed, TaskState::Failed, TaskState::Cancelled]
        {
            assert_eq!(w.refuses(&by("a"), moves("t", state)), Code::Invalid);
        }
    }
}
