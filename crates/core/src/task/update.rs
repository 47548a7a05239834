//! The words of a workflow for what the commands of a task do: one command that takes the state to reach.

use serde::{Deserialize, Serialize};

use super::finish::ending_asks;
use super::step::check_waiting_for;
use super::{
    CancelTask, CompleteTask, FailTask, Outcome, ReleaseTask, SetTaskStep, Skip, StartTask, Task, TaskState,
    WaitingFor, check_transition,
};
use crate::actor::Caller;
use crate::code::Code;
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::contract::ContractCheck;
use crate::event::AnyEvent;
use crate::id::{AgentId, TaskId, Timestamp};
use crate::model::{Key, ReadSet, View};
use crate::refusal::Rejection;
use crate::run::{self, Ended};

/// Brings a task to a state. A completed one needs an outcome, a failed one an error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UpdateStatus {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub to: TaskState,
    pub outcome: Outcome,
    pub error: Option<String>,
    pub reason: Option<String>,
    pub waiting_for: Option<WaitingFor>,
    /// Where the task is bound to a step of a workflow: what came of holding the outcome against that.
    #[serde(skip)]
    pub checked: Option<ContractCheck>,
}

impl Command for UpdateStatus {
    const NAME: &'static str = "UpdateTaskStatus";

    fn read_set(&self) -> ReadSet {
        match self.to {
            TaskState::Completed | TaskState::Failed | TaskState::Skipped | TaskState::Cancelled => {
                ending_asks(&self.task, self.agent.as_ref())
            }
            TaskState::Pending
            | TaskState::Planning
            | TaskState::InProgress
            | TaskState::Review
            | TaskState::Paused => super::read_set(&self.task, self.agent.as_ref()),
        }
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        check_waiting_for(self.to, self.waiting_for)?;
        let (task, agent) = (self.task.clone(), self.agent.clone());
        match self.to {
            TaskState::Pending => ReleaseTask { task, agent, reason: self.reason.clone() }.decide(cx),
            TaskState::InProgress => StartTask { task, agent }.decide(cx),
            TaskState::Planning | TaskState::Review | TaskState::Paused => {
                let (reason, waiting_for) = (self.reason.clone(), self.waiting_for);
                SetTaskStep { task, agent, to: self.to, reason, waiting_for }.decide(cx)
            }
            TaskState::Completed => {
                let (begun, mut facts) = self.begun(cx.view, cx.caller, cx.now)?;
                self.needs(&begun, self.outcome.text.as_ref(), Code::MissingOutcome, "outcome")?;
                let complete = CompleteTask { task, agent, outcome: self.outcome.clone(), checked: None };
                facts.extend(complete.completes(cx.view, cx.caller, &begun)?);
                ContractCheck::ensure_fulfils(self.checked.as_ref(), &begun, cx.view)?;
                Ok(Decision::new(facts, Reply::Row(Key::Task(begun.id))))
            }
            TaskState::Failed => {
                let (begun, mut facts) = self.begun(cx.view, cx.caller, cx.now)?;
                self.needs(&begun, self.error.as_ref(), Code::MissingError, "error")?;
                let fail = FailTask { task, agent, error: self.error.clone() };
                facts.extend(fail.fails(cx.view, cx.caller, &begun)?);
                facts.extend(run::roll_up(cx.view, &begun, Ended::failed(0))?);
                Ok(Decision::new(facts, Reply::Row(Key::Task(begun.id))))
            }
            TaskState::Skipped => Skip { task, agent, reason: self.reason.clone() }.decide(cx),
            TaskState::Cancelled => CancelTask { task, agent, reason: self.reason.clone() }.decide(cx),
        }
    }
}

impl UpdateStatus {
    /// The task as it is before its end. A holder that never said that it began did so, for otherwise it could not be
    /// done.
    fn begun(&self, view: &View, caller: &Caller, now: Timestamp) -> Result<(Task, Vec<AnyEvent>), Undecided> {
        let task = view.task(&self.task)?;
        if task.state != TaskState::Pending || task.holder().is_none() {
            return Ok((task.clone(), vec![]));
        }
        let start = StartTask { task: self.task.clone(), agent: self.agent.clone() };
        Ok((
            Task { state: TaskState::InProgress, ..task.clone() },
            start.decide(&DecisionContext { view, caller, now })?.events,
        ))
    }

    /// What is missing matters only where the state can be reached at all.
    fn needs(&self, task: &Task, text: Option<&String>, code: Code, field: &str) -> Result<(), Undecided> {
        check_transition(task, self.to)?;
        if text.is_some_and(|text| !text.trim().is_empty()) {
            return Ok(());
        }
        Err(Rejection::new(code, format!("{field} is needed for a task that is {}", self.to.as_str()))
            .hint("say in a sentence or two what came of it: others go on from there")
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunStatus;
    use crate::task::{AddCheckpoint, CheckpointKind, SetTaskPlan, TakeUp, TaskPlan};
    use crate::testing::{World, by};

    fn update(task: &str, to: TaskState) -> UpdateStatus {
        UpdateStatus {
            task: task.into(),
            agent: None,
            to,
            outcome: Outcome { text: Some("done".to_owned()), detail: None },
            error: Some("broken".to_owned()),
            reason: None,
            waiting_for: None,
            checked: None,
        }
    }

    #[test]
    fn the_work_loop_goes_exactly_as_it_is_written() {
        let mut w = World::of(&["lead", "a"]);
        w.plans("wf", &[("one", &[]), ("two", &["one"])]);
        for task in ["tk_one", "tk_two"] {
            w.does(&by("a"), TakeUp { task: task.into(), agent: "a".into() });
            let plan = TaskPlan { approach: "carefully".to_owned(), ..TaskPlan::default() };
            w.does(&by("a"), SetTaskPlan { task: task.into(), agent: None, plan, context: serde_json::Map::new() });
            assert_eq!(w.does(&by("a"), update(task, TaskState::InProgress)), ["task.started"]);
            w.does(
                &by("a"),
                AddCheckpoint {
                    id: format!("cp_{task}"),
                    task: task.into(),
                    agent: None,
                    kind: CheckpointKind::Progress,
                    summary: "half of it".to_owned(),
                    detail: None,
                    files_changed: vec![],
                },
            );
            w.does(&by("a"), update(task, TaskState::Completed));
            assert_eq!((w.task(task).state, w.task(task).outcome.as_deref()), (TaskState::Completed, Some("done")));
        }
        assert_eq!(w.run_row("wf").status, RunStatus::Completed);
    }

    #[test]
    fn a_holder_may_end_what_it_never_said_it_began() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.plans("wf", &[("one", &[]), ("two", &[]), ("three", &["two"])]);
        w.claims("a", "tk_one");
        let foreign = UpdateStatus { agent: Some("b".into()), ..update("tk_one", TaskState::Completed) };
        assert_eq!(w.refuses(&by("b"), foreign), Code::AlreadyClaimed);
        let silent = UpdateStatus { outcome: Outcome::default(), ..update("tk_one", TaskState::Completed) };
        assert_eq!(w.refuses(&by("a"), silent), Code::MissingOutcome);
        assert_eq!(w.does(&by("a"), update("tk_one", TaskState::Completed)), ["task.started", "task.completed"]);
        w.claims("a", "tk_three");
        assert_eq!(w.refuses(&by("a"), update("tk_three", TaskState::Completed)), Code::DependenciesUnfinished);
        w.claims("b", "tk_two");
        assert_eq!(w.does(&Caller::anonymous(), update("tk_two", TaskState::Failed)), ["task.started", "task.failed"]);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn an_end_tells_what_came_of_it() {
        let mut w = World::of(&["a"]);
        w.plans("wf", &[("one", &[]), ("two", &["one"])]);
        let without = |to| UpdateStatus { outcome: Outcome::default(), error: None, ..update("tk_one", to) };
        assert_eq!(w.refuses(&by("a"), without(TaskState::Completed)), Code::InvalidTransition, "it has not begun");
        w.starts("a", "tk_one");
        assert_eq!(w.refuses(&by("a"), without(TaskState::Completed)), Code::MissingOutcome);
        assert_eq!(w.refuses(&by("a"), without(TaskState::Failed)), Code::MissingError);
        let blank = UpdateStatus { error: Some(" ".to_owned()), ..without(TaskState::Failed) };
        assert_eq!(w.refuses(&by("a"), blank), Code::MissingError);
        let waiting = UpdateStatus { agent: Some("a".into()), ..update("tk_two", TaskState::InProgress) };
        assert_eq!(w.refuses(&by("a"), waiting), Code::DependenciesUnfinished);
        w.does(&by("a"), update("tk_one", TaskState::Paused));
        w.does(&by("a"), update("tk_one", TaskState::InProgress));
        w.does(&by("a"), update("tk_one", TaskState::Failed));
        assert_eq!(w.task("tk_one").reason.as_deref(), Some("broken"));
        assert_eq!(w.does(&by("a"), update("tk_one", TaskState::Pending)), ["task.retried"]);
        w.does(&by("a"), update("tk_one", TaskState::Skipped));
        assert_eq!(w.refuses(&by("a"), update("tk_one", TaskState::Completed)), Code::InvalidTransition);
        assert_eq!(w.refuses(&by("a"), update("tk_x", TaskState::Completed)), Code::TaskNotFound);
    }
}
