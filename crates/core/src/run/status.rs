//! Steering a run by hand: pause, resume, give up.

use serde::{Deserialize, Serialize};

use super::{Status, rollup, steering_asks};
use crate::actor::Caller;
use crate::code::Code;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::RunId;
use crate::key::{Ask, Key};
use crate::limit;
use crate::refusal::Refusal;
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetRunStatus {
    pub run: RunId,
    pub to: Status,
    pub reason: Option<String>,
}

/// What changed the status of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    Asked,
    TaskClaimed,
    TasksEnded,
    TaskAdded,
    TaskReopened,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunStatusSet {
    pub run: RunId,
    pub from: Status,
    pub to: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub because: Trigger,
}

impl SetRunStatus {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        steering_asks(&self.run)
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let run = view.run_known(&self.run)?;
        match self.to {
            Status::Failed | Status::Abandoned => view.may_overturn(caller, run)?,
            _ => view.may_steer(caller, run)?,
        }
        limit::text("reason", self.reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        let reply = Reply::Row(Key::Run(self.run.clone()));
        if run.status == self.to && (self.reason.is_none() || run.reason == self.reason) {
            return Ok(Decision::nothing(reply));
        }
        if run.status != self.to && !run.status.may_become(self.to) {
            let message =
                format!("workflow {} is {} and cannot become {}", run.id, run.status.as_str(), self.to.as_str());
            return Err(Refusal::new(Code::InvalidTransition, message).hint(hint(run.status)).into());
        }
        if self.to == Status::Completed && run.unfinished > 0 {
            let message = format!("workflow {} has {} tasks that are not finished", run.id, run.unfinished);
            return Err(Refusal::new(Code::InvalidState, message)
                .hint("it completes by itself with its last task; skip or cancel what is not needed, or abandon it")
                .into());
        }
        if self.to == Status::InProgress && run.tasks > 0 && run.open() == 0 {
            let message = format!("workflow {} has no open task to go on with", run.id);
            return Err(Refusal::new(Code::InvalidState, message)
                .hint("retry a task that failed, or add one: that opens it again")
                .into());
        }
        let mut facts = vec![Fact::RunStatusSet(RunStatusSet {
            run: run.id.clone(),
            from: run.status,
            to: self.to,
            reason: self.reason.clone(),
            because: Trigger::Asked,
        })];
        if self.to == Status::Ready {
            facts.extend(rollup::is_begun(run, &view.tasks_of_run(&self.run)?));
        }
        Ok(Decision::new(facts, reply))
    }
}

fn hint(from: Status) -> &'static str {
    match from {
        Status::Planning => "set its plan first",
        Status::Ready => "it begins with the first claim of one of its tasks",
        Status::InProgress => "it can be paused, completed, failed or abandoned",
        Status::Paused => "resume it (in_progress) or abandon it",
        Status::Failed => "resume it (in_progress), or retry a task of it",
        Status::Completed => "add a task to open it again",
        Status::Abandoned => "create a new workflow",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::CreateTask;
    use crate::testing::{World, by, complete, create, fail};

    fn set(to: Status, reason: Option<&str>) -> SetRunStatus {
        SetRunStatus { run: "wf".into(), to, reason: reason.map(str::to_owned) }
    }

    /// A run in this status, with one task that is not finished as far as the status allows.
    fn world(status: Status) -> World {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), crate::testing::create_run("wf"));
        if status != Status::Planning {
            w.does(&by("a"), crate::testing::plan("wf", &[("one", &[])]));
        }
        if !matches!(status, Status::Planning | Status::Ready) {
            w.starts("a", "tk_one");
        }
        match status {
            Status::Planning | Status::Ready | Status::InProgress => {}
            Status::Completed => drop(w.does(&by("a"), complete("tk_one"))),
            other => drop(w.does(&by("a"), set(other, None))),
        }
        assert_eq!(w.run_row("wf").status, status);
        w
    }

    #[test]
    fn every_transition_that_may_be_asked_for_and_no_other() {
        for from in Status::ALL {
            for to in Status::ALL {
                let mut w = world(from);
                if from == to {
                    assert_eq!(w.does(&by("a"), set(to, None)), [""; 0], "{from:?}");
                } else if from.may_become(to) && to == Status::Completed {
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
        let mut w = world(Status::InProgress);
        w.does(&by("a"), fail("tk_one"));
        assert_eq!(w.run_row("wf").status, Status::Failed);
        assert_eq!(w.refuses(&by("a"), set(Status::InProgress, None)), Code::InvalidState);
        w.does(&by("a"), crate::testing::retry("tk_one"));
        assert_eq!(w.run_row("wf").status, Status::InProgress);
    }

    #[test]
    fn what_somebody_works_in_is_more_than_ready() {
        let mut w = world(Status::Planning);
        w.does(&by("a"), CreateTask { run: "wf".into(), ..create("t", &[]) });
        w.starts("a", "t");
        assert_eq!(w.run_row("wf").status, Status::Planning, "it has no plan yet");
        assert_eq!(w.does(&by("a"), set(Status::Ready, None)), ["run.status_set", "run.status_set"]);
        assert_eq!(w.run_row("wf").status, Status::InProgress);
    }

    #[test]
    fn a_new_reason_is_kept_and_an_unknown_run_is_said_so() {
        let mut w = world(Status::Paused);
        assert_eq!(w.does(&by("a"), set(Status::Paused, Some("rain"))), ["run.status_set"]);
        assert_eq!(w.does(&by("a"), set(Status::Paused, Some("rain"))), [""; 0]);
        assert_eq!(w.run_row("wf").reason.as_deref(), Some("rain"));
        let unknown = SetRunStatus { run: "wf_x".into(), ..set(Status::Paused, None) };
        assert_eq!(w.refuses(&by("a"), unknown), Code::WorkflowNotFound);
    }
}
