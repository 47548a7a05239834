//! Steering a run by hand: pause, resume, give up.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::RunId;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::run::{Run, RunStatus, change_run, run_only, steering_asks};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::runs;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetRunStatus {
    pub run: RunId,
    pub to: RunStatus,
    pub reason: Option<String>,
}

/// What changed the status of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatusCause {
    Asked,
    TaskClaimed,
    TasksEnded,
    TaskAdded,
    TaskReopened,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunStatusSet {
    pub run: RunId,
    pub from: RunStatus,
    pub to: RunStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub because: RunStatusCause,
}

impl Event for RunStatusSet {
    const KIND: &'static str = "run.status_set";

    fn subject(&self) -> Subject<'_> {
        Subject { run: Some(&self.run), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        run_only(&self.run)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        change_run(rows, &self.run, stamp.at, |run| {
            run.status = self.to;
            run.reason.clone_from(&self.reason);
        });
    }
}

impl Command for SetRunStatus {
    const NAME: &'static str = "SetRunStatus";

    type Reply = Run;

    fn read_set(&self) -> ReadSet {
        steering_asks(&self.run)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Run>, Undecided> {
        let run = cx.view.run_known(&self.run)?;
        match self.to {
            RunStatus::Failed | RunStatus::Abandoned => cx.view.may_overturn(cx.caller, run)?,
            _ => cx.view.may_steer(cx.caller, run)?,
        }
        limit::text("reason", self.reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        let reply = ReplySource::row(self.run.clone());
        if run.status == self.to && (self.reason.is_none() || run.reason == self.reason) {
            return Ok(Decision::unchanged(reply));
        }
        if run.status != self.to && !run.status.may_become(self.to) {
            let message =
                format!("workflow {} is {} and cannot become {}", run.id, run.status.as_str(), self.to.as_str());
            return Err(Rejection::new(Code::InvalidTransition, message).hint(hint(run.status)).into());
        }
        if self.to == RunStatus::Completed && run.unfinished > 0 {
            let message = format!("workflow {} has {} tasks that are not finished", run.id, run.unfinished);
            return Err(Rejection::new(Code::InvalidState, message)
                .hint("it completes by itself with its last task; skip or cancel what is not needed, or abandon it")
                .into());
        }
        if self.to == RunStatus::InProgress && run.tasks > 0 && run.open() == 0 {
            let message = format!("workflow {} has no open task to go on with", run.id);
            return Err(Rejection::new(Code::InvalidState, message)
                .hint("retry a task that failed, or add one: that opens it again")
                .into());
        }
        let mut facts = vec![AnyEvent::new(RunStatusSet {
            run: run.id.clone(),
            from: run.status,
            to: self.to,
            reason: self.reason.clone(),
            because: RunStatusCause::Asked,
        })];
        if self.to == RunStatus::Ready {
            facts.extend(runs::is_begun(run, &cx.view.tasks_of_run(&self.run)?));
        }
        Ok(Decision::new(facts, reply))
    }
}

fn hint(from: RunStatus) -> &'static str {
    match from {
        RunStatus::Planning => "set its plan first",
        RunStatus::Ready => "it begins with the first claim of one of its tasks",
        RunStatus::InProgress => "it can be paused, completed, failed or abandoned",
        RunStatus::Paused => "resume it (in_progress) or abandon it",
        RunStatus::Failed => "resume it (in_progress), or retry a task of it",
        RunStatus::Completed => "add a task to open it again",
        RunStatus::Abandoned => "create a new workflow",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::CreateTask;
    use crate::testing::{World, by, complete, create, fail};

    fn set(to: RunStatus, reason: Option<&str>) -> SetRunStatus {
        SetRunStatus { run: "wf".into(), to, reason: reason.map(str::to_owned) }
    }

    /// A run in this status, with one task that is not finished as far as the status allows.
    fn world(status: RunStatus) -> World {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), crate::testing::create_run("wf"));
        if status != RunStatus::Planning {
            w.does(&by("a"), crate::testing::plan("wf", &[("one", &[])]));
        }
        if !matches!(status, RunStatus::Planning | RunStatus::Ready) {
            w.starts("a", "tk_one");
        }
        match status {
            RunStatus::Planning | RunStatus::Ready | RunStatus::InProgress => {}
            RunStatus::Completed => drop(w.does(&by("a"), complete("tk_one"))),
            other => drop(w.does(&by("a"), set(other, None))),
        }
        assert_eq!(w.run_row("wf").status, status);
        w
    }

    #[test]
    fn every_transition_that_may_be_asked_for_and_no_other() {
        for from in RunStatus::ALL {
            for to in RunStatus::ALL {
                let mut w = world(from);
                if from == to {
                    assert_eq!(w.does(&by("a"), set(to, None)), [""; 0], "{from:?}");
                } else if from.may_become(to) && to == RunStatus::Completed {
                    assert_eq!(w.refuses(&by("a"), set(to, None)), Code::InvalidState, "{from:?}");
                } else if from.may_become(to) {
                    assert_eq!(w.does(&by("a"), set(to, Some("so"))), ["run.status_set"], "{from:?} to {to:?}");
                    let run = w.run_row("wf");
                    assert_eq!((run.status, run.reason.as_deref()), (to, Some("so")));
                } else {
                    assert_eq!(w.refuses(&by("a"), set(to, None)), Code::InvalidTransition, "{from:?} to {to:?}");
                }
            }
        }
    }

    #[test]
    fn a_run_goes_on_with_a_task_and_not_without_one() {
        let mut w = world(RunStatus::InProgress);
        w.does(&by("a"), fail("tk_one"));
        assert_eq!(w.run_row("wf").status, RunStatus::Failed);
        assert_eq!(w.refuses(&by("a"), set(RunStatus::InProgress, None)), Code::InvalidState);
        w.does(&by("a"), crate::testing::retry("tk_one"));
        assert_eq!(w.run_row("wf").status, RunStatus::InProgress);
    }

    #[test]
    fn what_somebody_works_in_is_more_than_ready() {
        let mut w = world(RunStatus::Planning);
        w.does(&by("a"), CreateTask { run: "wf".into(), ..create("t", &[]) });
        w.starts("a", "t");
        assert_eq!(w.run_row("wf").status, RunStatus::Planning, "it has no plan yet");
        assert_eq!(w.does(&by("a"), set(RunStatus::Ready, None)), ["run.status_set", "run.status_set"]);
        assert_eq!(w.run_row("wf").status, RunStatus::InProgress);
    }

    #[test]
    fn a_new_reason_is_kept_and_an_unknown_run_is_said_so() {
        let mut w = world(RunStatus::Paused);
        assert_eq!(w.does(&by("a"), set(RunStatus::Paused, Some("rain"))), ["run.status_set"]);
        assert_eq!(w.does(&by("a"), set(RunStatus::Paused, Some("rain"))), [""; 0]);
        assert_eq!(w.run_row("wf").reason.as_deref(), Some("rain"));
        let unknown = SetRunStatus { run: "wf_x".into(), ..set(RunStatus::Paused, None) };
        assert_eq!(w.refuses(&by("a"), unknown), Code::WorkflowNotFound);
    }
}
