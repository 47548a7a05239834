//! What the tasks of a run make of it, without anybody asking.

use std::collections::BTreeSet;

use super::{RunStatusCause, RunStatusSet};
use crate::kernel::code::Code;
use crate::kernel::id::RunId;
use crate::kernel::rejection::Rejection;
use crate::model::run::{Run, RunStatus};
use crate::model::task::{Task, TaskState};
use crate::model::{Key, Undecided, View};
use crate::traits::AnyEvent;

/// Whether tasks of this run may be taken by somebody new.
pub(crate) fn ensure_open(view: &View, task: &Task) -> Result<(), Undecided> {
    let Some(run) = of(view, task)? else { return Ok(()) };
    if run.status.gives_work() {
        return Ok(());
    }
    let message = format!("workflow {} is {}: its tasks are not given out", run.id, run.status.as_str());
    Err(Rejection::new(Code::InvalidState, message)
        .hint("take a task of another workflow, or have this one resumed")
        .into())
}

/// Whether tasks may be added to a run.
pub(crate) fn ensure_accepts_tasks(run: &Run) -> Result<(), Rejection> {
    if run.status != RunStatus::Abandoned {
        return Ok(());
    }
    Err(Rejection::new(Code::InvalidState, format!("workflow {} was abandoned", run.id)).hint("create a new workflow"))
}

/// A claim of any of these tasks begins its run.
pub(crate) fn start_run(view: &View, claimed: &[&Task]) -> Result<Vec<AnyEvent>, Undecided> {
    let runs: BTreeSet<RunId> = claimed.iter().filter_map(|task| task.run_if_named()).collect();
    let mut facts = Vec::new();
    for id in runs {
        if let Some(run) = view.run(&id)?
            && matches!(run.status, RunStatus::Ready | RunStatus::Failed)
        {
            facts.push(follows(run, RunStatus::InProgress, RunStatusCause::TaskClaimed));
        }
    }
    Ok(facts)
}

/// A run becomes ready that somebody works in already: it is more than that.
pub(crate) fn is_begun(run: &Run, tasks: &[&Task]) -> Option<AnyEvent> {
    let begun = tasks.iter().any(|task| task.claim.is_some());
    begun.then(|| {
        follows(&Run { status: RunStatus::Ready, ..run.clone() }, RunStatus::InProgress, RunStatusCause::TaskClaimed)
    })
}

/// The tasks of a run that end together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Completed, skipped or cancelled while they were open.
    finished: usize,
    /// Failed while they were open.
    failed: usize,
    /// Had failed, and are skipped.
    given_up: usize,
}

impl Ended {
    const NONE: Ended = Ended { finished: 0, failed: 0, given_up: 0 };

    /// A task and so many parts of it.
    pub(crate) fn finished(task: &Task, parts: usize) -> Ended {
        match task.state {
            TaskState::Failed => Ended { finished: parts, given_up: 1, ..Ended::NONE },
            _ => Ended { finished: parts + 1, ..Ended::NONE },
        }
    }

    /// A task, with so many parts of it that are of no use any more.
    pub(crate) fn failed(parts: usize) -> Ended {
        Ended { finished: parts, failed: 1, ..Ended::NONE }
    }
}

/// The end of a task, and of those that end with it, ends its run if none is open after it.
pub(crate) fn roll_up(view: &View, task: &Task, ended: Ended) -> Result<Option<AnyEvent>, Undecided> {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(of(view, task)?.and_then(|run| {
        let unfinished = run.unfinished.saturating_sub(count(ended.finished + ended.given_up));
        let failed = (run.failed + count(ended.failed)).saturating_sub(count(ended.given_up));
        ends_with(&Run { unfinished, failed, ..run.clone() })
    }))
}

/// Ends a run whose tasks will be as it says.
pub(crate) fn ends_with(run: &Run) -> Option<AnyEvent> {
    let to = if run.failed > 0 { RunStatus::Failed } else { RunStatus::Completed };
    let settled = matches!(run.status, RunStatus::Completed | RunStatus::Abandoned) || run.status == to;
    let ends = run.tasks > 0 && run.open() == 0 && !settled;
    ends.then(|| follows(run, to, RunStatusCause::TasksEnded))
}

/// A new task opens a run again that had come to its end.
pub(crate) fn reopens(run: &Run) -> Option<AnyEvent> {
    let ended = run.has_ended() && run.status != RunStatus::Abandoned;
    ended.then(|| follows(run, RunStatus::InProgress, RunStatusCause::TaskAdded))
}

/// Tasks that begin anew open the runs again that had come to an end with them.
pub(crate) fn resume_run(view: &View, opened: &[&Task]) -> Result<Vec<AnyEvent>, Undecided> {
    let runs: BTreeSet<RunId> = opened.iter().filter_map(|task| task.run_if_named()).collect();
    view.ensure_loaded(runs.iter().map(|id| Key::Run(id.clone()).into()).collect())?;
    let mut facts = Vec::new();
    for id in runs {
        if let Some(run) = view.run(&id)?
            && matches!(run.status, RunStatus::Completed | RunStatus::Failed)
        {
            facts.push(follows(run, RunStatus::InProgress, RunStatusCause::TaskReopened));
        }
    }
    Ok(facts)
}

fn of<'v>(view: &'v View, task: &Task) -> Result<Option<&'v Run>, Undecided> {
    match task.run_if_named() {
        Some(id) => view.run(&id),
        None => Ok(None),
    }
}

fn follows(run: &Run, to: RunStatus, because: RunStatusCause) -> AnyEvent {
    AnyEvent::new(RunStatusSet { run: run.id.clone(), from: run.status, to, reason: None, because })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::runs::SetRunStatus;
    use crate::testing::{World, anna, by, cancel, claim, complete, create, fail, release, retry, skip, start};

    fn status(w: &World) -> RunStatus {
        w.run_row("wf").status
    }

    fn set(to: RunStatus) -> SetRunStatus {
        SetRunStatus { run: "wf".into(), to, reason: None }
    }

    #[test]
    fn the_first_claim_begins_a_run_and_the_last_end_completes_it() {
        let mut w = World::of(&["lead", "a"]);
        w.plans("wf", &[("one", &[]), ("two", &["one"]), ("three", &[]), ("four", &[])]);
        assert_eq!(w.claims("a", "tk_one"), ["task.claimed", "run.status_set"]);
        assert_eq!(w.does(&by("a"), start(None, "tk_one")), ["task.started"]);
        assert_eq!(w.does(&by("a"), complete("tk_one")), ["task.completed"]);
        w.does(&by("a"), skip("tk_three"));
        w.does(&by("a"), cancel("tk_four"));
        assert_eq!((status(&w), w.run_row("wf").unfinished), (RunStatus::InProgress, 1));
        w.starts("a", "tk_two");
        assert_eq!(w.does(&by("a"), complete("tk_two")), ["task.completed", "run.status_set"]);
        assert_eq!((status(&w), w.run_row("wf").unfinished), (RunStatus::Completed, 0));
    }

    #[test]
    fn a_run_fails_with_its_last_task_and_goes_on_when_that_is_tried_again_or_skipped() {
        let mut w = World::of(&["lead", "a"]);
        w.plans("wf", &[("one", &[]), ("two", &[]), ("three", &["one"])]);
        let counts = |w: &World| (status(w), w.run_row("wf").unfinished, w.run_row("wf").failed);
        w.starts("a", "tk_one");
        assert_eq!(w.does(&by("a"), fail("tk_one")), ["task.failed"]);
        w.starts("a", "tk_two");
        assert_eq!(w.does(&by("a"), fail("tk_two")), ["task.failed"]);
        assert_eq!(counts(&w), (RunStatus::InProgress, 3, 2), "one waits for what failed");
        assert_eq!(w.does(&by("a"), cancel("tk_three")), ["task.cancelled", "run.status_set"]);
        assert_eq!(counts(&w), (RunStatus::Failed, 2, 2));
        assert_eq!(w.does(&by("a"), retry("tk_one")), ["task.retried", "run.status_set"], "work goes on");
        assert_eq!(counts(&w), (RunStatus::InProgress, 2, 1));
        w.starts("a", "tk_one");
        assert_eq!(w.does(&by("a"), complete("tk_one")), ["task.completed", "run.status_set"]);
        assert_eq!(counts(&w), (RunStatus::Failed, 1, 1), "one has failed still");
        assert_eq!(w.does(&by("a"), skip("tk_two")), ["task.skipped", "run.status_set"]);
        assert_eq!(counts(&w), (RunStatus::Completed, 0, 0));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn a_run_that_failed_is_opened_by_whatever_gives_it_work_again() {
        let within = |id: &str| crate::tasks::CreateTask { run: "wf".into(), ..create(id, &[]) };
        let failed = || {
            let mut w = World::of(&["lead", "a"]);
            w.does(&Caller::anonymous(), within("t"));
            w.starts("a", "t");
            assert_eq!(w.does(&by("a"), fail("t")), ["task.failed", "run.status_set"]);
            assert_eq!((status(&w), w.run_row("wf").has_ended()), (RunStatus::Failed, true));
            w
        };
        let mut w = failed();
        w.does(&Caller::anonymous(), within("u"));
        assert_eq!(status(&w), RunStatus::InProgress, "another task");
        w.does(&by("lead"), cancel("u"));
        assert_eq!(status(&w), RunStatus::Failed, "the first has failed still");
        let mut w = failed();
        w.does(&by("a"), crate::tasks::ClaimTask { task: "t".into(), agent: "a".into() });
        assert_eq!(status(&w), RunStatus::InProgress, "a claim");
        let mut w = failed();
        w.does(&anna(), crate::tasks::ReopenTask { run: "wf".into(), task: "t".into() });
        assert_eq!((status(&w), w.run_row("wf").failed), (RunStatus::InProgress, 0), "a partial retry");
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn a_run_that_somebody_called_failed_has_not_ended_while_tasks_of_it_are_open() {
        let mut w = World::of(&["lead", "a"]);
        w.plans("wf", &[("one", &[])]);
        w.starts("a", "tk_one");
        w.does(&anna(), set(RunStatus::Failed));
        assert!(!w.run_row("wf").has_ended());
        w.does(&by("a"), complete("tk_one"));
        assert_eq!((status(&w), w.run_row("wf").has_ended()), (RunStatus::Completed, true));
    }

    #[test]
    fn a_run_that_is_paused_or_abandoned_gives_out_no_work_and_takes_none_back() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.plans("wf", &[("one", &[]), ("two", &[])]);
        w.starts("a", "tk_one");
        w.does(&by("lead"), set(RunStatus::Paused));
        assert_eq!(w.refuses(&by("b"), claim("b", "tk_two")), Code::InvalidState);
        assert_eq!(w.refuses(&by("b"), start(Some("b"), "tk_two")), Code::InvalidState);
        assert_eq!(w.claims("a", "tk_one"), [""; 0], "what is held stays held");
        w.goes_offline("a");
        assert_eq!(w.task("tk_one").state, TaskState::Pending);
        w.does(&by("a"), crate::agents::ReturnAgent { agent: "a".into() });
        assert_eq!((w.holder("tk_one"), status(&w)), (Some("a"), RunStatus::Paused));
        w.does(&by("lead"), set(RunStatus::InProgress));
        w.does(&by("a"), release("tk_one"));
        w.does(&by("lead"), set(RunStatus::Abandoned));
        assert_eq!(w.refuses(&by("b"), claim("b", "tk_two")), Code::InvalidState);
        for task in ["tk_one", "tk_two"] {
            w.does(&by("lead"), cancel(task));
        }
        assert_eq!(status(&w), RunStatus::Abandoned);
    }

    #[test]
    fn a_plan_for_a_run_that_is_worked_in_already_begins_it() {
        let mut w = World::of(&["a"]);
        w.does(&anna(), crate::testing::create_run("wf"));
        w.does(&Caller::anonymous(), crate::tasks::CreateTask { run: "wf".into(), ..create("t", &[]) });
        w.claims("a", "t");
        assert_eq!(status(&w), RunStatus::Planning);
        w.does(&anna(), crate::testing::plan("wf", &[("one", &[])]));
        assert_eq!(status(&w), RunStatus::InProgress);
    }

    #[test]
    fn tasks_of_the_default_run_touch_no_run() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        assert_eq!(w.starts("a", "t"), ["task.claimed", "task.started"]);
        assert_eq!(w.does(&by("a"), complete("t")), ["task.completed"]);
        assert!(!w.rows().keys().any(|key| key.table() == crate::model::Table::Runs));
    }

    #[test]
    fn a_run_that_only_a_task_names_exists_by_it_and_opens_again_with_another() {
        let mut w = World::of(&["a"]);
        let within = |id: &str| crate::tasks::CreateTask { run: "wf".into(), ..create(id, &[]) };
        w.does(&Caller::anonymous(), within("t"));
        assert_eq!((status(&w), w.run_row("wf").tasks), (RunStatus::Ready, 1));
        w.starts("a", "t");
        w.does(&by("a"), complete("t"));
        assert_eq!(status(&w), RunStatus::Completed);
        assert_eq!(w.does(&Caller::anonymous(), within("u")), ["task.created", "run.status_set"]);
        assert_eq!((status(&w), w.run_row("wf").unfinished), (RunStatus::InProgress, 1));
        w.does(&by("a"), set(RunStatus::Abandoned));
        assert_eq!(w.refuses(&Caller::anonymous(), within("v")), Code::InvalidState);
    }
}
