//! One more task for a run that has its plan.

use serde::{Deserialize, Serialize};

use super::set::last;
use super::{PlannedTask, planned, resolve};
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, TaskId};
use crate::kernel::rejection::Rejection;
use crate::model::run::{Run, RunStatus, author};
use crate::model::task::Task;
use crate::model::{EventStamp, Key, Lookup, ReadSet, RowWriter, Undecided};
use crate::runs::{ensure_accepts_tasks, reopens};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AddRunTask {
    pub run: RunId,
    pub task: PlannedTask,
    /// The name or id of the task that it comes after; at the end if none is given.
    pub after: Option<String>,
}

/// Tasks got other places in the order of their run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunReordered {
    pub run: RunId,
    pub places: Vec<SequenceChange>,
}

impl Event for RunReordered {
    const KIND: &'static str = "run.reordered";

    fn subject(&self) -> Subject<'_> {
        Subject { run: Some(&self.run), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        self.places.iter().map(|place| Key::Task(place.task.clone())).collect()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        // If a task is named twice, its first place counts.
        for place in self.places.iter().rev() {
            rows.update(place.task.clone(), |task: &mut Task| task.sequence = place.sequence);
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequenceChange {
    pub task: TaskId,
    pub sequence: u32,
}

impl Command for AddRunTask {
    const NAME: &'static str = "AddRunTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        vec![
            Key::Run(self.run.clone()).into(),
            Lookup::tasks_of_run(&self.run).into(),
            Key::Task(self.task.id.clone()).into(),
        ]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let run = cx.view.run_known(&self.run)?;
        has_a_plan(run)?;
        let tasks = cx.view.tasks_of_run(&self.run)?;
        let resolved = resolve(&tasks, std::slice::from_ref(&self.task), Code::DuplicateTaskName)?;
        let after = match &self.after {
            None => last(&tasks),
            Some(name) => find(&tasks, name)?.sequence,
        };
        let mut facts: Vec<AnyEvent> =
            reordered(&self.run, &tasks, after, |sequence| sequence.saturating_add(1)).into_iter().collect();
        facts.extend(planned(cx.view, &self.run, &author(cx.caller), after, resolved)?);
        facts.extend(reopens(run));
        Ok(Decision::new(facts, ReplySource::row(self.task.id.clone())))
    }
}

/// Changes to a plan need one, and a run that was not given up.
pub(super) fn has_a_plan(run: &Run) -> Result<(), Rejection> {
    if run.status == RunStatus::Planning {
        return Err(Rejection::new(Code::InvalidState, format!("workflow {} has no plan yet", run.id))
            .hint("set its plan with workflow_set_plan"));
    }
    ensure_accepts_tasks(run)
}

/// A task of the run by its name or id.
pub(super) fn find<'v>(tasks: &[&'v Task], name: &str) -> Result<&'v Task, Rejection> {
    let named = tasks.iter().find(|task| task.title == name);
    named.or_else(|| tasks.iter().find(|task| task.id.as_str() == name)).copied().ok_or_else(|| {
        Rejection::new(Code::TaskNotFound, format!("there is no task '{name}' in this workflow"))
            .hint("name it exactly as in the plan, or by its id")
    })
}

/// Moves everything behind a place.
pub(super) fn reordered(run: &RunId, tasks: &[&Task], after: u32, to: impl Fn(u32) -> u32) -> Option<AnyEvent> {
    let behind = tasks.iter().filter(|task| task.sequence > after);
    let places: Vec<SequenceChange> =
        behind.map(|task| SequenceChange { task: task.id.clone(), sequence: to(task.sequence) }).collect();
    (!places.is_empty()).then(|| AnyEvent::new(RunReordered { run: run.clone(), places }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, by, complete, create_run, planned};

    fn add(name: &str, depends_on: &[&str], after: Option<&str>) -> AddRunTask {
        AddRunTask { run: "wf".into(), task: planned(name, depends_on), after: after.map(str::to_owned) }
    }

    #[test]
    fn it_comes_last_or_after_another_and_the_rest_moves_on() {
        let mut w = World::of(&["a"]);
        w.plans("wf", &[("one", &[]), ("two", &["one"])]);
        assert_eq!(w.does(&by("a"), add("end", &["tk_one", "two"], None)), ["task.created"]);
        assert_eq!(w.does(&by("a"), add("between", &[], Some("one"))), ["run.reordered", "task.created"]);
        let sequence = |task: &str| w.task(task).sequence;
        assert_eq!([sequence("tk_one"), sequence("tk_between"), sequence("tk_two"), sequence("tk_end")], [1, 2, 3, 4]);
        assert_eq!(w.task("tk_end").depends_on, ["tk_one".into(), "tk_two".into()]);
        assert_eq!(w.run_row("wf").tasks, 4);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), create_run("wf"));
        assert_eq!(w.refuses(&by("a"), add("x", &[], None)), Code::InvalidState);
        w.does(&by("a"), crate::testing::plan("wf", &[("one", &[])]));
        assert_eq!(w.refuses(&by("a"), add("one", &[], None)), Code::DuplicateTaskName);
        assert_eq!(w.refuses(&by("a"), add("x", &["x"], None)), Code::SelfDependency);
        assert_eq!(w.refuses(&by("a"), add("x", &["two"], None)), Code::UnknownDependency);
        assert_eq!(w.refuses(&by("a"), add("x", &[], Some("two"))), Code::TaskNotFound);
        let unknown = AddRunTask { run: "wf_x".into(), ..add("x", &[], None) };
        assert_eq!(w.refuses(&by("a"), unknown), Code::WorkflowNotFound);
    }

    #[test]
    fn it_opens_a_completed_run_again_and_waits_for_nothing_that_is_done() {
        let mut w = World::of(&["a"]);
        w.plans("wf", &[("one", &[])]);
        w.starts("a", "tk_one");
        w.does(&by("a"), complete("tk_one"));
        assert_eq!(w.does(&by("a"), add("two", &["one"], None)), ["task.created", "run.status_set"]);
        assert_eq!(w.run_row("wf").status, RunStatus::InProgress);
        assert!(!w.task("tk_two").is_blocked());
    }
}
