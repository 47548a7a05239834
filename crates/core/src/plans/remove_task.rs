//! Taking a task out of a plan before anybody began it. What waited for it waits for what it waited for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::add_task::{has_a_plan, reordered};
use crate::files;
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, TaskId};
use crate::kernel::rejection::Rejection;
use crate::model::file::ReleaseReason;
use crate::model::run::{Run, steering_asks};
use crate::model::task::{Checkpoint, Dependency, Task, TaskState};
use crate::model::{DependencyId, EventStamp, Key, Lookup, ReadSet, Row, RowWriter, Undecided, View};
use crate::runs::ends_with;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, FirstSeq, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemoveRunTask {
    pub run: RunId,
    pub task: TaskId,
}

/// The task is no longer part of its run: its row, its edges and its checkpoints go. The log keeps what it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskRemoved {
    pub task: TaskId,
    pub run: RunId,
    pub depends_on: Vec<TaskId>,
    /// The tasks that named it.
    pub rewired: Vec<DependencyChange>,
    pub checkpoints: Vec<String>,
}

/// A task that waited for the removed one, or took its outcome for context.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DependencyChange {
    pub task: TaskId,
    /// What it depends on instead.
    pub gains: Vec<TaskId>,
    /// Those of `gains` that are not finished yet.
    pub waits: Vec<TaskId>,
}

impl Command for RemoveRunTask {
    const NAME: &'static str = "RemoveRunTask";

    type Reply = FirstSeq;

    fn read_set(&self) -> ReadSet {
        let mut read_set: ReadSet = steering_asks(&self.run);
        read_set.push(Lookup::tasks_of_run(&self.run).into());
        read_set.extend(removal_asks(&self.task));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<FirstSeq>, Undecided> {
        let run = cx.view.run_known(&self.run)?;
        cx.view.may_overturn(cx.caller, run)?;
        let task = cx.view.task(&self.task)?;
        if task.run != self.run {
            return Err(
                Rejection::new(Code::TaskNotFound, format!("task {} is not part of {}", task.id, run.id)).into()
            );
        }
        has_a_plan(run)?;
        if !is_removable(task) {
            let message = format!("task '{}' is {} and cannot be removed", task.title, shown(task));
            return Err(Rejection::new(Code::TaskNotRemovable, message)
                .hint("only tasks that nobody has begun or claimed can be removed; skip or cancel it instead")
                .into());
        }
        let tasks = cx.view.tasks_of_run(&self.run)?;
        let mut facts = removed(cx.view, task, &Going::from([(&task.id, task)]), &tasks)?;
        let rest: Vec<&Task> = tasks.into_iter().filter(|other| other.id != task.id).collect();
        facts.extend(reordered(&self.run, &rest, task.sequence, |sequence| sequence.saturating_sub(1)));
        facts.extend(ends_with(&without(run, 1)));
        Ok(Decision::new(facts, ReplySource::first_seq()))
    }
}

/// The run when so many of its tasks are gone that nobody began.
pub(super) fn without(run: &Run, gone: usize) -> Run {
    let gone = u32::try_from(gone).unwrap_or(u32::MAX);
    Run { tasks: run.tasks.saturating_sub(gone), unfinished: run.unfinished.saturating_sub(gone), ..run.clone() }
}

/// Nobody began it and nobody has it.
pub(super) fn is_removable(task: &Task) -> bool {
    matches!(task.state, TaskState::Pending | TaskState::Planning) && task.held_by().is_none()
}

fn shown(task: &Task) -> String {
    match task.held_by() {
        Some(holder) => format!("held by {holder}"),
        None => task.state.as_str().to_owned(),
    }
}

pub(super) fn removal_asks(task: &TaskId) -> ReadSet {
    vec![
        Key::Task(task.clone()).into(),
        Lookup::dependents(task).into(),
        Lookup::checkpoints_of(task).into(),
        Lookup::files_of_task(task).into(),
    ]
}

/// Tasks that are removed together.
pub(super) type Going<'a> = BTreeMap<&'a TaskId, &'a Task>;

/// The removal of one of those that go, and the end of the file claims that were made for it.
pub(super) fn removed(
    view: &View,
    task: &Task,
    going: &Going<'_>,
    of_run: &[&Task],
) -> Result<Vec<AnyEvent>, Undecided> {
    let dependents: Vec<TaskId> = view.dependents(&task.id)?.into_iter().map(|edge| edge.task.clone()).collect();
    view.ensure_loaded(dependents.iter().map(|id| Key::Task(id.clone()).into()).collect())?;
    let mut left = Estate::of(task, going);
    left.keep_unfinished(view)?;
    let mut rewired = Vec::new();
    for id in &dependents {
        if let Some(dependent) = view.find_task(id)? {
            let gains = if going.contains_key(id) { vec![] } else { left.new_to(dependent) };
            let waits = gains.iter().filter(|dep| left.waiting_on.contains(*dep)).cloned().collect();
            rewired.push(DependencyChange { task: id.clone(), gains, waits });
        }
    }
    let readers =
        of_run.iter().filter(|other| other.context_from.contains(&task.id) && !dependents.contains(&other.id));
    rewired.extend(readers.map(|other| DependencyChange { task: other.id.clone(), gains: vec![], waits: vec![] }));
    let checkpoints = view.all(&Lookup::checkpoints_of(&task.id))?;
    let checkpoint = |row: &Row| if let Row::Checkpoint(checkpoint) = row { Some(checkpoint.id.clone()) } else { None };
    let mut facts = vec![AnyEvent::new(TaskRemoved {
        task: task.id.clone(),
        run: task.run.clone(),
        depends_on: task.depends_on.clone(),
        rewired,
        checkpoints: checkpoints.into_iter().filter_map(checkpoint).collect(),
    })];
    facts.extend(files::free_files(view, &view.files_of_task(&task.id)?, ReleaseReason::TaskEnded)?);
    Ok(facts)
}

/// What whoever waited for a removed task waits for instead: its dependencies, and where one of those goes too, the
/// dependencies of that one.
#[derive(Default)]
struct Estate {
    depends_on: Vec<TaskId>,
    /// Those of them that are not finished yet.
    waiting_on: BTreeSet<TaskId>,
}

impl Estate {
    fn of(removed: &Task, going: &Going<'_>) -> Estate {
        let mut left = Estate::default();
        let (mut open, mut seen) = (vec![removed], BTreeSet::new());
        while let Some(task) = open.pop() {
            for dep in task.depends_on.iter().filter(|dep| seen.insert((*dep).clone())) {
                if let Some(goes) = going.get(dep) {
                    open.push(goes);
                    continue;
                }
                left.depends_on.push(dep.clone());
                if task.waiting_on.contains(dep) {
                    left.waiting_on.insert(dep.clone());
                }
            }
        }
        left
    }

    /// Leaves out what has ended and is still named by the rows of those that waited for it.
    fn keep_unfinished(&mut self, view: &View) -> Result<(), Undecided> {
        view.ensure_loaded(self.waiting_on.iter().map(|dep| Key::Task(dep.clone()).into()).collect())?;
        for dep in std::mem::take(&mut self.waiting_on) {
            if view.find_task(&dep)?.is_none_or(|dep| !dep.state.is_finished()) {
                self.waiting_on.insert(dep);
            }
        }
        Ok(())
    }

    fn new_to(&self, dependent: &Task) -> Vec<TaskId> {
        self.depends_on.iter().filter(|dep| !dependent.depends_on.contains(dep)).cloned().collect()
    }
}

impl TaskRemoved {
    /// Every row that goes or changes.
    pub(crate) fn touches(&self) -> Vec<Key> {
        let edge = |task: &TaskId, dep: &TaskId| Key::Dependency(DependencyId { task: task.clone(), dep: dep.clone() });
        let mut keys = vec![Key::Task(self.task.clone()), Key::Run(self.run.clone())];
        keys.extend(self.depends_on.iter().map(|dep| edge(&self.task, dep)));
        for rewired in &self.rewired {
            keys.push(Key::Task(rewired.task.clone()));
            keys.push(edge(&rewired.task, &self.task));
            keys.extend(rewired.gains.iter().map(|dep| edge(&rewired.task, dep)));
        }
        keys.extend(self.checkpoints.iter().map(|id| Key::Checkpoint(id.clone())));
        keys
    }

    /// Whether the edge is there once the task is gone; `None` if it is none of ours.
    pub(crate) fn keeps_edge(&self, task: &TaskId, dep: &TaskId) -> Option<bool> {
        if *task == self.task || *dep == self.task {
            return Some(false);
        }
        let gained = self.rewired.iter().any(|rewired| rewired.task == *task && rewired.gains.contains(dep));
        gained.then_some(true)
    }

    /// Changes a task that named the removed one.
    pub(crate) fn rewire(&self, task: &mut Task) {
        let Some(rewired) = self.rewired.iter().find(|rewired| rewired.task == task.id) else { return };
        task.depends_on.retain(|dep| *dep != self.task);
        task.context_from.retain(|dep| *dep != self.task);
        task.waiting_on.remove(&self.task);
        let gains = rewired.gains.iter().filter(|dep| !task.depends_on.contains(dep)).cloned().collect::<Vec<_>>();
        task.depends_on.extend(gains);
        task.waiting_on.extend(rewired.waits.iter().cloned());
    }

    /// Writes or removes the edge, as it is once the task is gone.
    fn settle_edge(&self, rows: &mut RowWriter<'_>, task: &TaskId, dep: &TaskId) {
        let id = DependencyId { task: task.clone(), dep: dep.clone() };
        match self.keeps_edge(task, dep) {
            Some(true) => rows.put(id, Dependency { task: task.clone(), dep: dep.clone() }),
            Some(false) => rows.remove::<Dependency>(id),
            None => {}
        }
    }
}

impl Event for TaskRemoved {
    const KIND: &'static str = "task.removed";

    fn subject(&self) -> Subject<'_> {
        Subject::task(&self.task, Some(&self.run))
    }

    fn write_set(&self) -> Vec<Key> {
        self.touches()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.remove::<Task>(self.task.clone());
        rows.update(self.run.clone(), |run: &mut Run| {
            run.lose_open_task();
            run.note_change(stamp.at);
        });
        for dep in &self.depends_on {
            self.settle_edge(rows, &self.task, dep);
        }
        for rewired in &self.rewired {
            rows.update(rewired.task.clone(), |task: &mut Task| self.rewire(task));
            self.settle_edge(rows, &rewired.task, &self.task);
            for dep in &rewired.gains {
                self.settle_edge(rows, &rewired.task, dep);
            }
        }
        for checkpoint in &self.checkpoints {
            rows.remove::<Checkpoint>(checkpoint.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::ClaimFile;
    use crate::model::run::RunStatus;
    use crate::testing::{World, anna, by, claim_file, complete, moves};

    fn remove(task: &str) -> RemoveRunTask {
        RemoveRunTask { run: "wf".into(), task: task.into() }
    }

    #[test]
    fn what_waited_for_it_waits_for_what_it_waited_for() {
        let mut w = World::of(&["a"]);
        w.plans("wf", &[("done", &[]), ("open", &[]), ("mid", &["done", "open"]), ("end", &["mid", "open"])]);
        w.starts("a", "tk_done");
        w.does(&by("a"), complete("tk_done"));
        assert_eq!(w.does(&by("a"), remove("tk_mid")), ["task.removed", "run.reordered"]);
        let end = w.task("tk_end");
        assert_eq!(end.depends_on, ["tk_open".into(), "tk_done".into()]);
        assert_eq!((end.waiting_on.len(), end.sequence), (1, 3));
        assert!(!w.rows().contains_key(&Key::Task("tk_mid".into())));
        let edges: Vec<String> =
            w.rows().keys().filter(|key| matches!(key, Key::Dependency(DependencyId { .. }))).map(Key::id).collect();
        assert_eq!(edges, ["tk_end>tk_done", "tk_end>tk_open"]);
        assert_eq!((w.run_row("wf").tasks, w.run_row("wf").unfinished), (3, 2));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn only_what_nobody_has_begun_or_claimed_goes() {
        let mut w = World::of(&["a"]);
        w.plans("wf", &[("one", &[]), ("two", &[]), ("three", &[])]);
        w.claims("a", "tk_one");
        assert_eq!(w.refuses(&by("a"), remove("tk_one")), Code::TaskNotRemovable);
        w.does(&by("a"), crate::testing::start(None, "tk_one"));
        w.does(&by("a"), complete("tk_one"));
        assert_eq!(w.refuses(&by("a"), remove("tk_one")), Code::TaskNotRemovable);
        w.does(&anna(), moves("tk_two", TaskState::Planning));
        w.does(&by("a"), remove("tk_two"));
        assert_eq!(w.refuses(&by("a"), remove("tk_two")), Code::TaskNotFound);
        w.creates("elsewhere", &[]);
        assert_eq!(w.refuses(&by("a"), remove("elsewhere")), Code::TaskNotFound);
        assert_eq!(w.does(&by("a"), remove("tk_three")), ["task.removed", "run.status_set"], "nothing is left to do");
        assert_eq!(w.run_row("wf").status, RunStatus::Completed);
    }

    #[test]
    fn its_checkpoints_and_file_claims_go_with_it() {
        let mut w = World::of(&["a", "b"]);
        w.plans("wf", &[("one", &[])]);
        w.claims("b", "tk_one");
        w.does(&by("a"), ClaimFile { task: Some("tk_one".into()), ..claim_file("a", "x") });
        w.goes_offline("b");
        assert!(w.rows().keys().any(|key| matches!(key, Key::Checkpoint(_))));
        w.does(&by("a"), remove("tk_one"));
        assert!(!w.rows().keys().any(|key| matches!(key, Key::Checkpoint(_))));
        assert_eq!((w.file_holder("x"), w.run_row("wf").tasks), (None, 0));
        assert_eq!(w.run_row("wf").status, RunStatus::InProgress, "an empty run is not a completed one");
        w.does(&by("b"), crate::agents::ReturnAgent { agent: "b".into() });
        assert_eq!(w.rebuilt(), *w.rows());
    }
}
