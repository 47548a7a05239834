//! Giving a run its plan: all of its tasks at once, or none.

use serde::{Deserialize, Serialize};

use super::{PlannedTask, Resolved, resolve};
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::run::{Run, RunStatus, author, change_run, run_only, steering_asks};
use crate::model::task::{Task, TaskOrigin};
use crate::model::{EventStamp, Key, Lookup, ReadSet, RowWriter, Undecided, View};
use crate::runs;
use crate::tasks::TaskCreated;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SetRunPlan {
    pub run: RunId,
    pub summary: String,
    pub tasks: Vec<PlannedTask>,
}

/// The run is ready. The tasks follow, each by a fact of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunPlanned {
    pub run: RunId,
    pub summary: String,
    pub planned: Vec<TaskId>,
}

impl Event for RunPlanned {
    const KIND: &'static str = "run.planned";

    fn subject(&self) -> Subject<'_> {
        Subject { run: Some(&self.run), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        run_only(&self.run)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        change_run(rows, &self.run, stamp.at, |run| {
            run.status = RunStatus::Ready;
            run.summary = Some(self.summary.clone());
        });
    }
}

impl Command for SetRunPlan {
    const NAME: &'static str = "SetRunPlan";

    type Reply = Run;

    fn read_set(&self) -> ReadSet {
        let mut read_set: ReadSet = steering_asks(&self.run);
        read_set.push(Lookup::tasks_of_run(&self.run).into());
        read_set.extend(self.tasks.iter().take(limit::RUN_TASKS).map(|task| Key::Task(task.id.clone()).into()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Run>, Undecided> {
        let run = cx.view.run_known(&self.run)?;
        cx.view.may_steer(cx.caller, run)?;
        if run.status != RunStatus::Planning {
            let message = format!("workflow {} is {} and has its plan", run.id, run.status.as_str());
            return Err(Rejection::new(Code::InvalidState, message)
                .hint("use workflow_replan to replace what has not begun, or workflow_add_task")
                .into());
        }
        if self.tasks.is_empty() {
            return Err(Rejection::new(Code::Invalid, "a plan needs at least one task").into());
        }
        check_summary(&self.summary)?;
        let stay = cx.view.tasks_of_run(&self.run)?;
        let resolved = resolve(&stay, &self.tasks, Code::DuplicateTaskName)?;
        let mut facts = vec![AnyEvent::new(RunPlanned {
            run: self.run.clone(),
            summary: self.summary.clone(),
            planned: self.tasks.iter().map(|task| task.id.clone()).collect(),
        })];
        facts.extend(planned(cx.view, &self.run, &author(cx.caller), last(&stay), resolved)?);
        facts.extend(runs::is_begun(run, &stay));
        Ok(Decision::new(facts, ReplySource::row(self.run.clone())))
    }
}

pub(crate) fn check_summary(summary: &str) -> Result<(), Rejection> {
    limit::text("summary", summary, limit::TEXT_BYTES)
}

/// The highest sequence in use.
pub(super) fn last(tasks: &[&Task]) -> u32 {
    tasks.iter().map(|task| task.sequence).max().unwrap_or(0)
}

/// The facts that create these tasks, one after another behind the sequence `after`.
pub(crate) fn planned(
    view: &View,
    run: &RunId,
    author: &str,
    after: u32,
    tasks: Vec<Resolved>,
) -> Result<Vec<AnyEvent>, Undecided> {
    view.ensure_loaded(tasks.iter().map(|new| Key::Task(new.task.id.clone()).into()).collect())?;
    let mut facts = Vec::with_capacity(tasks.len());
    let mut sequence = after;
    for Resolved { task, depends_on, context_from, waiting_on } in tasks {
        let twice = facts.iter().any(|fact: &AnyEvent| fact.task() == Some(&task.id));
        if twice || view.find_task(&task.id)?.is_some() {
            return Err(Rejection::new(Code::AlreadyExists, format!("task {} exists", task.id)).into());
        }
        sequence = sequence.saturating_add(1);
        facts.push(AnyEvent::new(TaskCreated {
            task: task.id,
            run: run.clone(),
            title: task.title,
            description: task.description,
            assigned_by: author.to_owned(),
            resources: task.resources,
            depends_on,
            waiting_on,
            sequence,
            context_from,
            details: task.details,
            origin: TaskOrigin::default(),
        }));
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, by, create_run, plan, planned};

    #[test]
    fn a_plan_creates_its_tasks_in_order_and_makes_the_run_ready() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), create_run("wf"));
        let facts = w.does(&by("a"), plan("wf", &[("one", &[]), ("two", &["one"]), ("three", &["one", "two"])]));
        assert_eq!(facts, ["run.planned", "task.created", "task.created", "task.created"]);
        let run = w.run_row("wf");
        assert_eq!((run.status, run.tasks, run.unfinished), (RunStatus::Ready, 3, 3));
        assert_eq!(run.summary.as_deref(), Some("the plan"));
        let three = w.task("tk_three");
        assert_eq!((three.sequence, three.run.as_str(), three.assigned_by.as_str()), (3, "wf", "a"));
        assert_eq!(three.waiting_on.len(), 2);
    }

    #[test]
    fn only_a_run_that_is_being_planned_takes_a_plan() {
        let mut w = World::of(&["a"]);
        assert_eq!(w.refuses(&by("a"), plan("wf", &[("one", &[])])), Code::WorkflowNotFound);
        w.does(&by("a"), create_run("wf"));
        assert_eq!(w.refuses(&by("a"), plan("wf", &[])), Code::Invalid);
        assert_eq!(w.refuses(&by("a"), plan("wf", &[("one", &["two"]), ("two", &["one"])])), Code::DependencyCycle);
        w.does(&by("a"), plan("wf", &[("one", &[])]));
        assert_eq!(w.refuses(&by("a"), plan("wf", &[("two", &[])])), Code::InvalidState);
    }

    #[test]
    fn ids_of_tasks_are_taken_once() {
        let mut w = World::of(&["a"]);
        w.creates("tk_one", &[]);
        w.does(&by("a"), create_run("wf"));
        assert_eq!(w.refuses(&by("a"), plan("wf", &[("one", &[])])), Code::AlreadyExists);
        let mut twice = plan("wf", &[("x", &[]), ("y", &[])]);
        twice.tasks[1].id = planned("x", &[]).id;
        assert_eq!(w.refuses(&by("a"), twice), Code::AlreadyExists);
    }
}
