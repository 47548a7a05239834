//! How a worker means to do a task, written down before it begins and again when it turns out differently.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::CheckpointAdded;
use super::release::retried;
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::task::{Checkpoint, CheckpointKind, Task, TaskPlan, TaskState, ensure_may_change, refuse_finished};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// Sets the plan of a task that has not begun; a pending one is planning from then on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SetTaskPlan {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub plan: TaskPlan,
    /// Laid over what the task's context has already, field by field.
    pub context: Map<String, Value>,
}

/// Replaces the plan of a task that has begun or failed; a failed one is tried again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReplanTask {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub plan: TaskPlan,
    pub reason: String,
    /// The id of the checkpoint that tells about it.
    pub checkpoint: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskPlanned {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    pub from: TaskState,
    pub to: TaskState,
    pub plan: TaskPlan,
    /// All of it, as it is from now on.
    pub context: Map<String, Value>,
}

impl Command for SetTaskPlan {
    const NAME: &'static str = "SetTaskPlan";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        crate::model::task::read_set(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let task = cx.view.task(&self.task)?;
        self.plan.check()?;
        refuse_finished(task, TaskState::Planning)?;
        may_plan(cx.view, cx.caller, task, self.agent.as_ref())?;
        if !matches!(task.state, TaskState::Pending | TaskState::Planning) {
            return Err(refuse_state(task, "its plan can be replaced with task_replan").into());
        }
        let mut context = task.context.clone();
        context.extend(self.context.clone());
        limit::json("context", &context, limit::METADATA_BYTES)?;
        let fact = planned(task, TaskState::Planning, &self.plan, context);
        Ok(Decision::new(vec![fact], ReplySource::row(self.task.clone())))
    }
}

impl Command for ReplanTask {
    const NAME: &'static str = "ReplanTask";

    type Reply = Checkpoint;

    fn read_set(&self) -> ReadSet {
        let mut read_set = crate::model::task::read_set(&self.task, self.agent.as_ref());
        read_set.push(Key::Checkpoint(self.checkpoint.clone()).into());
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Checkpoint>, Undecided> {
        let task = cx.view.task(&self.task)?;
        self.plan.check()?;
        refuse_finished(task, TaskState::Planning)?;
        may_plan(cx.view, cx.caller, task, self.agent.as_ref())?;
        let again = task.state == TaskState::Failed;
        if matches!(task.state, TaskState::Pending | TaskState::Planning) {
            return Err(refuse_state(task, "it has not begun; set its plan with task_set_plan").into());
        }
        let mut facts = Vec::new();
        let state = if again { TaskState::Pending } else { task.state };
        if again {
            facts.push(retried(task));
        }
        facts.push(AnyEvent::new(TaskPlanned {
            from: state,
            ..TaskPlanned::new(task, state, &self.plan, task.context.clone())
        }));
        let replanned = crate::tasks::AddCheckpoint {
            id: self.checkpoint.clone(),
            task: self.task.clone(),
            agent: None,
            kind: CheckpointKind::Replan,
            summary: self.reason.clone(),
            detail: task.plan.as_ref().map(|plan| json!({ "previous_plan": plan })),
            files_changed: vec![],
        };
        facts.push(AnyEvent::new(CheckpointAdded::from_asked(&replanned, cx.view, task)?));
        Ok(Decision::new(facts, ReplySource::row(self.checkpoint.clone())))
    }
}

fn may_plan(view: &View, caller: &Caller, task: &Task, agent: Option<&AgentId>) -> Result<(), Undecided> {
    if let Some(agent) = agent {
        view.ensure_may_act_for(caller, agent)?;
    }
    ensure_may_change(view, caller, task, agent)
}

fn refuse_state(task: &Task, hint: &str) -> Rejection {
    Rejection::new(Code::InvalidState, format!("task {} is {}", task.id, task.state.as_str())).hint(hint)
}

impl TaskPlanned {
    fn new(task: &Task, to: TaskState, plan: &TaskPlan, context: Map<String, Value>) -> TaskPlanned {
        TaskPlanned {
            task: task.id.clone(),
            run: task.run_if_named(),
            holder: task.holder().cloned(),
            from: task.state,
            to,
            plan: plan.clone(),
            context,
        }
    }
}

impl Event for TaskPlanned {
    const KIND: &'static str = "task.planned";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: self.holder.as_ref(), ..Subject::task(&self.task, self.run.as_ref()) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Task(self.task.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.set_plan(self.to, &self.plan, &self.context, stamp.at));
    }
}

fn planned(task: &Task, to: TaskState, plan: &TaskPlan, context: Map<String, Value>) -> AnyEvent {
    AnyEvent::new(TaskPlanned::new(task, to, plan, context))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Row;
    use crate::testing::{World, anna, by, claim, complete, fail, start};

    fn plan(approach: &str) -> TaskPlan {
        TaskPlan { approach: approach.to_owned(), steps: vec!["first".to_owned()], ..TaskPlan::default() }
    }

    fn set(approach: &str) -> SetTaskPlan {
        SetTaskPlan { task: "t".into(), agent: None, plan: plan(approach), context: Map::new() }
    }

    fn again(approach: &str) -> ReplanTask {
        ReplanTask {
            task: "t".into(),
            agent: None,
            plan: plan(approach),
            reason: "it was harder".to_owned(),
            checkpoint: "cp_1".to_owned(),
        }
    }

    #[test]
    fn a_plan_moves_a_pending_task_to_planning_by_itself() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        w.claims("a", "t");
        assert_eq!(w.does(&by("a"), set("by hand")), ["task.planned"]);
        let task = w.task("t");
        assert_eq!((task.state, task.plan.as_ref().unwrap().approach.as_str()), (TaskState::Planning, "by hand"));
        for caller in [by("lead"), anna(), Caller::anonymous(), by("a")] {
            w.does(&caller, set("by machine"));
        }
        assert_eq!(w.refuses(&by("b"), set("mine")), Code::NotHolder);
        assert_eq!(w.holder("t"), Some("a"));
        assert_eq!(w.refuses(&by("a"), set(" ")), Code::Invalid);
    }

    #[test]
    fn context_is_laid_over_what_is_there() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        let with = |fields: Value| {
            let Value::Object(context) = fields else { panic!("fields") };
            SetTaskPlan { context, ..set("x") }
        };
        w.does(&by("a"), with(json!({ "branch": "main", "port": 1 })));
        w.does(&by("a"), with(json!({ "port": 2 })));
        assert_eq!(Value::Object(w.task("t").context.clone()), json!({ "branch": "main", "port": 2 }));
        let big = with(json!({ "log": "x".repeat(limit::METADATA_BYTES) }));
        assert_eq!(w.refuses(&by("a"), big), Code::TooLarge);
    }

    #[test]
    fn what_has_begun_is_replanned_and_keeps_its_holder_and_the_old_plan() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        w.claims("a", "t");
        w.does(&by("a"), set("first"));
        assert_eq!(w.refuses(&by("a"), again("second")), Code::InvalidState);
        w.does(&by("a"), start(None, "t"));
        assert_eq!(w.refuses(&by("a"), set("second")), Code::InvalidState);
        assert_eq!(w.refuses(&by("b"), again("second")), Code::NotHolder);
        assert_eq!(w.does(&by("a"), again("second")), ["task.planned", "checkpoint.added"]);
        assert_eq!((w.task("t").state, w.holder("t")), (TaskState::InProgress, Some("a")));
        match w.rows().get(&Key::Checkpoint("cp_1".to_owned())) {
            Some(Row::Checkpoint(checkpoint)) => {
                assert_eq!((checkpoint.kind, checkpoint.sequence), (CheckpointKind::Replan, 1));
                assert_eq!(checkpoint.detail.as_ref().unwrap()["previous_plan"]["approach"], "first");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(w.refuses(&by("a"), again("third")), Code::AlreadyExists, "the checkpoint's id");
    }

    #[test]
    fn a_failed_task_is_replanned_for_another_try() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        w.does(&by("a"), fail("t"));
        assert_eq!(w.does(&by("a"), again("other")), ["task.retried", "task.planned", "checkpoint.added"]);
        assert_eq!((w.task("t").state, w.task("t").attempt), (TaskState::Pending, 2));
        w.does(&by("a"), claim("a", "t"));
        w.does(&by("a"), start(None, "t"));
        w.does(&by("a"), complete("t"));
        assert_eq!(w.refuses(&by("a"), again("late")), Code::InvalidTransition);
    }
}
