//! Unblocking the tasks that waited for one that has ended: the first of them with its end, the others some at a time after it.
//!
//! A task with many dependents ends as fast as one with few. Its row keeps how far its dependents are unblocked, with an alarm
//! for the rest, so that whichever node fires alarms resumes there.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::{RunId, TaskId};
use crate::kernel::rejection::Rejection;
use crate::model::task::{Task, task_keys};
use crate::model::{EventStamp, Key, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Event, Subject};

/// More tasks that waited for one that has ended are unblocked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DependentsUnblocked {
    /// The task that has ended.
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The tasks that waited for it, in the order of their ids.
    pub unblocks: Vec<TaskId>,
    /// The last of these, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblocked_to: Option<TaskId>,
}

impl Event for DependentsUnblocked {
    const KIND: &'static str = "task.dependents_unblocked";

    fn subject(&self) -> Subject<'_> {
        Subject::task(&self.task, self.run.as_ref())
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, None, &self.unblocks, None)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        unblock(rows, &self.task, &self.unblocks, self.unblocked_to.as_ref(), stamp);
    }
}

/// The first tasks that wait for this one, and the last of them if there are more.
pub(super) fn first_dependents(view: &View, task: &Task) -> Result<(Vec<TaskId>, Option<TaskId>), Undecided> {
    view.next_dependents(&task.id, None)
}

/// The event that unblocks the next dependents of a task that has ended.
pub(super) fn unblock_next(view: &View, task: &Task) -> Result<AnyEvent, Undecided> {
    let (unblocks, unblocked_to) = view.next_dependents(&task.id, task.unblocked_to.as_ref())?;
    Ok(AnyEvent::new(DependentsUnblocked { task: task.id.clone(), run: task.run_if_named(), unblocks, unblocked_to }))
}

/// Takes a task that has ended out of the rows of those that waited for it.
pub(super) fn unblock(
    rows: &mut RowWriter<'_>,
    ended: &TaskId,
    dependents: &[TaskId],
    unblocked_to: Option<&TaskId>,
    stamp: EventStamp,
) {
    for dependent in dependents.iter().filter(|dependent| *dependent != ended) {
        rows.update(dependent.clone(), |dependent: &mut Task| dependent.stop_waiting_for(ended));
    }
    rows.update(ended.clone(), |task: &mut Task| task.set_unblocked_to(unblocked_to, stamp));
}

/// Rejects a task that waits for others. Those that have ended count no more, be it unblocked yet or not.
pub(super) fn ensure_unblocked(view: &View, task: &Task) -> Result<(), Undecided> {
    if !task.is_blocked() {
        return Ok(());
    }
    let open = view.open_dependencies(task)?;
    if open.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = open.into_iter().map(TaskId::as_str).collect();
    let message = format!("task {} waits for {}", task.id, names.join(", "));
    Err(Rejection::new(Code::DependenciesUnfinished, message)
        .hint("it can start when these are done; take another task meanwhile")
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::kernel::limit::UNBLOCKED_AT_ONCE;
    use crate::model::task::{AlarmKind, TaskState};
    use crate::tasks::FireAlarm;
    use crate::testing::{World, anna, by, cancel, complete, skip, start};

    /// More than two events unblock.
    const MANY: usize = 2 * UNBLOCKED_AT_ONCE + 10;

    fn name(index: usize) -> String {
        // In no order, and some are the beginnings of others.
        format!("t-{}", index * 7 % MANY)
    }

    /// A task that `dependents` others wait for, under way.
    fn world(dependents: usize) -> World {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("dep", &[]);
        for index in 0..dependents {
            w.creates(&name(index), &["dep"]);
        }
        w.starts("a", "dep");
        w
    }

    fn waiting(w: &World) -> usize {
        (0..MANY).filter(|index| w.task(&name(*index)).is_blocked()).count()
    }

    fn alarm(w: &World) -> Option<FireAlarm> {
        let alarm = w.task("dep").clocks.get(AlarmKind::Unblock)?;
        Some(FireAlarm { task: "dep".into(), clock: AlarmKind::Unblock, set: alarm.set, backoff_millis: 0 })
    }

    /// The tasks that the events of the log unblock, in the order of the log.
    fn announced(w: &World) -> Vec<TaskId> {
        let unblocks = |row: &crate::traits::LogRow| {
            let end = row.event.get().map(|event: &crate::tasks::TaskCompleted| event.unblocks.clone());
            end.or_else(|| row.event.get().map(|event: &DependentsUnblocked| event.unblocks.clone()))
        };
        w.log.iter().filter_map(unblocks).flatten().collect()
    }

    #[test]
    fn rows_written_by_completion_do_not_grow_with_dependents() {
        let rows_written = |dependents: usize| {
            let mut w = world(dependents);
            let before = w.rows().clone();
            assert_eq!(w.does(&by("a"), complete("dep")), ["task.completed"]);
            let written = w.rows().iter().filter(|(key, row)| before.get(*key) != Some(*row)).count();
            let event = w.log.last().unwrap();
            (written, event.event.write_set().len())
        };
        let full = rows_written(UNBLOCKED_AT_ONCE);
        assert!(full.0 <= UNBLOCKED_AT_ONCE + 2, "{full:?}");
        assert_eq!(rows_written(UNBLOCKED_AT_ONCE + 1), full);
        assert_eq!(rows_written(MANY), full);
    }

    #[test]
    fn every_dependent_is_unblocked_once_in_bounded_events() {
        let mut w = world(MANY);
        w.does(&by("a"), complete("dep"));
        let mut left = MANY - UNBLOCKED_AT_ONCE;
        assert_eq!(waiting(&w), left);
        while let Some(fire) = alarm(&w) {
            assert_eq!(w.does(&Caller::system(), fire.clone()), ["task.dependents_unblocked"]);
            left -= left.min(UNBLOCKED_AT_ONCE);
            assert_eq!(waiting(&w), left);
            assert_eq!(w.refuses(&Caller::system(), fire), Code::Stale, "an alarm fires once");
        }
        assert_eq!((left, w.task("dep").unblocked_to.clone()), (0, None));
        let mut announced = announced(&w);
        announced.sort_unstable();
        let mut all: Vec<TaskId> = (0..MANY).map(|index| name(index).as_str().into()).collect();
        all.sort_unstable();
        assert_eq!(announced, all);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn few_dependents_are_unblocked_by_the_end_alone() {
        for end in [cancel("dep").into(), skip("dep").into(), crate::traits::AnyCommand::from(complete("dep"))] {
            let mut w = World::of(&["lead", "a"]);
            w.creates("dep", &[]);
            w.creates("t", &["dep"]);
            if end.name() == "CompleteTask" {
                w.starts("a", "dep");
            }
            w.does(&anna(), end);
            assert_eq!((w.task("t").is_blocked(), alarm(&w)), (false, None));
        }
    }

    #[test]
    fn start_of_dependent_that_is_not_unblocked_yet_succeeds() {
        let mut w = world(MANY);
        let blocked = |w: &World| (0..MANY).map(name).find(|id| w.task(id).is_blocked());
        let early = blocked(&w).unwrap();
        w.claims("b", &early);
        assert_eq!(w.refuses(&by("b"), start(None, &early)), Code::DependenciesUnfinished);
        w.does(&by("a"), complete("dep"));
        let late = blocked(&w).unwrap();
        w.claims("b", &late);
        assert_eq!(w.does(&by("b"), start(None, &late)), ["task.started"]);
        assert_eq!((w.task(&late).state, w.task(&late).waiting_on.len()), (TaskState::InProgress, 0));
    }

    #[test]
    fn task_created_after_the_end_waits_for_nothing() {
        let mut w = world(MANY);
        w.does(&by("a"), complete("dep"));
        w.creates("a-late-one", &["dep"]);
        w.creates("z-late-one", &["dep"]);
        assert!(!w.task("a-late-one").is_blocked() && !w.task("z-late-one").is_blocked());
    }

    #[test]
    fn reopened_task_blocks_all_its_dependents_again() {
        let mut w = world(MANY);
        w.does(&by("a"), complete("dep"));
        let fire = alarm(&w).unwrap();
        w.does(&anna(), crate::tasks::ReopenTask { run: RunId::project_default(), task: "dep".into() });
        assert_eq!((waiting(&w), alarm(&w)), (MANY, None));
        assert_eq!(w.refuses(&Caller::system(), fire), Code::Stale);
        w.starts("a", "dep");
        w.does(&by("a"), complete("dep"));
        assert_eq!(waiting(&w), MANY - UNBLOCKED_AT_ONCE);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn removal_of_dependent_that_is_not_unblocked_yet_blocks_nothing() {
        let mut w = World::of(&["lead", "a"]);
        let names: Vec<String> = (0..=UNBLOCKED_AT_ONCE).map(|index| format!("n{index:04}")).collect();
        let mut plan: Vec<(&str, &[&str])> = vec![("dep", &[])];
        plan.extend(names.iter().map(|name| (name.as_str(), ["dep"].as_slice())));
        let last = [names.last().unwrap().as_str()];
        plan.push(("zz", &last));
        w.plans("wf", &plan);
        w.starts("a", "tk_dep");
        w.does(&by("a"), complete("tk_dep"));
        let removed = TaskId::from(format!("tk_{}", last[0]).as_str());
        assert!(w.task(removed.as_str()).is_blocked() && w.task("tk_zz").is_blocked());
        w.does(&anna(), crate::plans::RemoveRunTask { run: "wf".into(), task: removed });
        assert!(!w.task("tk_zz").is_blocked());
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn completion_is_due_for_unblocking_at_once() {
        let mut w = world(MANY);
        w.does(&by("a"), complete("dep"));
        let due = |w: &World| w.task("dep").clocks.next();
        let completed_at = w.task("dep").completed_at;
        assert_eq!(due(&w), completed_at);
        w.now += 1_000;
        let fire = alarm(&w).unwrap();
        w.does(&Caller::system(), fire);
        assert_eq!(due(&w), completed_at, "the rest is not put off");
    }
}
