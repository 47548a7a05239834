//! Work that came to an end, well or badly. Either way the claim ends and the task's files are freed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parts::{self, WHOLE_IS_COMPLETED};
use super::{Task, TaskState, check_transition, ensure_fence, ensure_may_change, task_keys};
use crate::actor::Caller;
use crate::agent::Agent;
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::contract::ContractCheck;
use crate::event::{AnyEvent, Event, EventStamp, NamedArtifacts, RowWriter, Subject};
use crate::file::{self, ReleaseReason};
use crate::id::{AgentId, RunId, TaskId};
use crate::model::{Key, Lookup, ReadSet, View};
use crate::run::{self, Ended, Run};
use crate::told::{Concerned, Told, asker, holder};
use crate::{artifact, limit};

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompleteTask {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub outcome: Outcome,
    /// Where the task is bound to a step of a workflow: what came of holding the outcome against that.
    #[serde(skip)]
    pub checked: Option<ContractCheck>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FailTask {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub error: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskCompleted {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    pub from: TaskState,
    pub outcome: Outcome,
    /// The tasks that waited for this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unblocks: Vec<TaskId>,
    /// What is attached to the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    #[serde(default, skip_serializing_if = "Told::is_none")]
    pub told: Told,
}

impl Event for TaskCompleted {
    const KIND: &'static str = "task.completed";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: self.holder.as_ref(), ..Subject::task(&self.task, self.run.as_ref()) }.asked_in(&self.told)
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, self.holder.as_ref(), &self.unblocks, self.run.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.complete(&self.outcome, stamp.at));
        if let Some(holder) = &self.holder {
            rows.update(holder.clone(), |agent: &mut Agent| agent.complete_task(&self.task));
        }
        for dependent in self.unblocks.iter().filter(|dependent| **dependent != self.task) {
            rows.update(dependent.clone(), |dependent: &mut Task| dependent.stop_waiting_for(&self.task));
        }
        if let Some(run) = run::row_id(self.run.as_ref()) {
            rows.update(run, |run: &mut Run| run.complete_task(stamp.at));
        }
    }

    fn artifacts(&self) -> Option<NamedArtifacts<'_>> {
        NamedArtifacts::of("task", &self.task, &self.artifacts)
    }

    fn notification(&self) -> Option<&Told> {
        Some(&self.told)
    }

    fn notification_mut(&mut self) -> Option<&mut Told> {
        Some(&mut self.told)
    }

    fn audience(&self, task: &Task) -> Vec<Concerned> {
        asker(task).into_iter().chain(holder(task)).collect()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskFailed {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    pub from: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Told::is_none")]
    pub told: Told,
}

impl Event for TaskFailed {
    const KIND: &'static str = "task.failed";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: self.holder.as_ref(), ..Subject::task(&self.task, self.run.as_ref()) }.asked_in(&self.told)
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, self.holder.as_ref(), &[], self.run.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.fail(self.error.as_deref(), stamp.at));
        if let Some(holder) = &self.holder {
            rows.update(holder.clone(), |agent: &mut Agent| agent.fail_task(&self.task));
        }
        if let Some(run) = run::row_id(self.run.as_ref()) {
            rows.update(run, |run: &mut Run| run.fail_task(stamp.at));
        }
    }

    fn notification(&self) -> Option<&Told> {
        Some(&self.told)
    }

    fn notification_mut(&mut self) -> Option<&mut Told> {
        Some(&mut self.told)
    }

    fn audience(&self, task: &Task) -> Vec<Concerned> {
        asker(task).into_iter().chain(holder(task)).collect()
    }
}

impl Command for CompleteTask {
    const NAME: &'static str = "CompleteTask";

    fn read_set(&self) -> ReadSet {
        ending_asks(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        let task = cx.view.task(&self.task)?;
        let facts = self.completes(cx.view, cx.caller, task)?;
        ContractCheck::ensure_fulfils(self.checked.as_ref(), task, cx.view)?;
        Ok(Decision::new(facts, Reply::Row(Key::Task(self.task.clone()))))
    }
}

impl CompleteTask {
    /// The facts that complete the task, which may have been begun only just now.
    pub(crate) fn completes(&self, view: &View, caller: &Caller, task: &Task) -> Result<Vec<AnyEvent>, Undecided> {
        limit::text("outcome", self.outcome.text.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        limit::json("outcome_detail", &self.outcome.detail, limit::TEXT_BYTES)?;
        may_end(view, caller, task, self.agent.as_ref(), TaskState::Completed)?;
        let mut facts = vec![AnyEvent::new(TaskCompleted {
            task: task.id.clone(),
            run: task.run_if_named(),
            holder: task.holder().cloned(),
            from: task.state,
            outcome: self.outcome.clone(),
            unblocks: dependents(view, task)?,
            artifacts: artifact::attached(self.outcome.detail.as_ref())?,
            told: Told::default(),
        })];
        facts.extend(freed_files(view, task, ReleaseReason::TaskEnded)?);
        // What is part of the whole is of no use any more when that is done.
        let parts = if task.origin.parent.is_none() { parts::open_parts(view, task)? } else { vec![] };
        for part in &parts {
            facts.extend(parts::dropped(view, part, TaskState::Cancelled, Some(WHOLE_IS_COMPLETED))?);
        }
        facts.extend(run::roll_up(view, task, Ended::finished(task, parts.len()))?);
        Ok(facts)
    }
}

impl Command for FailTask {
    const NAME: &'static str = "FailTask";

    fn read_set(&self) -> ReadSet {
        ending_asks(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        let task = cx.view.task(&self.task)?;
        let mut facts = self.fails(cx.view, cx.caller, task)?;
        facts.extend(run::roll_up(cx.view, task, Ended::failed(0))?);
        Ok(Decision::new(facts, Reply::Row(Key::Task(self.task.clone()))))
    }
}

impl FailTask {
    /// The facts that end the task badly, which may have been begun only just now. Whether its run ends with it depends on
    /// whether it is tried again.
    pub(crate) fn fails(&self, view: &View, caller: &Caller, task: &Task) -> Result<Vec<AnyEvent>, Undecided> {
        limit::text("error", self.error.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        may_end(view, caller, task, self.agent.as_ref(), TaskState::Failed)?;
        let mut facts = vec![AnyEvent::new(TaskFailed {
            task: task.id.clone(),
            run: task.run_if_named(),
            holder: task.holder().cloned(),
            from: task.state,
            error: self.error.clone(),
            told: Told::default(),
        })];
        facts.extend(freed_files(view, task, ReleaseReason::TaskEnded)?);
        Ok(facts)
    }
}

pub(super) fn ending_asks(task: &TaskId, agent: Option<&AgentId>) -> ReadSet {
    let mut read_set = super::read_set(task, agent);
    read_set.push(Lookup::dependents(task).into());
    read_set.push(Lookup::files_of_task(task).into());
    read_set
}

pub(super) fn may_end(
    view: &View,
    caller: &Caller,
    task: &Task,
    agent: Option<&AgentId>,
    next: TaskState,
) -> Result<(), Undecided> {
    // That its grant has ended is what a zombie must hear first; a finished task answers the same to everybody.
    if task.state.is_open() {
        ensure_fence(caller, task.claim.as_ref().map(|claim| claim.fence))?;
    }
    check_transition(task, next)?;
    if let Some(agent) = agent {
        view.ensure_may_act_for(caller, agent)?;
    }
    ensure_may_change(view, caller, task, agent)
}

/// The tasks that wait for this one and are still open to be told.
pub(super) fn dependents(view: &View, task: &Task) -> Result<Vec<TaskId>, Undecided> {
    Ok(view.dependents(&task.id)?.into_iter().map(|edge| edge.task.clone()).collect())
}

pub(super) fn freed_files(view: &View, task: &Task, reason: ReleaseReason) -> Result<Vec<AnyEvent>, Undecided> {
    file::free_files(view, &view.files_of_task(&task.id)?, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::file::ClaimFile;
    use crate::testing::{World, by, cancel, claim_file, complete, fail, release, retry, skip};

    #[test]
    fn whatever_ends_a_task_frees_its_files_and_no_others() {
        for end in ["complete", "fail", "cancel", "release"] {
            let mut w = World::of(&["lead", "a"]);
            w.creates("t", &[]);
            w.creates("u", &[]);
            w.starts("a", "t");
            w.does(&by("a"), ClaimFile { task: Some("t".into()), ..claim_file("a", "mine") });
            w.does(&by("a"), ClaimFile { task: Some("u".into()), ..claim_file("a", "others") });
            w.does(&by("a"), claim_file("a", "bare"));
            match end {
                "complete" => w.does(&by("a"), complete("t")),
                "fail" => w.does(&by("a"), fail("t")),
                "cancel" => w.does(&by("a"), cancel("t")),
                _ => w.does(&by("a"), release("t")),
            };
            let freed = if end == "release" { Some("a") } else { None };
            assert_eq!(w.file_holder("mine"), freed, "{end}: giving back ends nothing");
            assert_eq!((w.file_holder("others"), w.file_holder("bare")), (Some("a"), Some("a")), "{end}");
        }
    }

    #[test]
    fn the_outcome_is_kept_with_who_worked() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        let outcome = Outcome { text: Some("ok".to_owned()), detail: Some(serde_json::json!({ "n": 1 })) };
        w.does(&by("a"), CompleteTask { outcome, ..complete("t") });
        let task = w.task("t");
        assert_eq!((task.outcome.as_deref(), task.assignee().unwrap().as_str()), (Some("ok"), "a"));
        assert_eq!(task.outcome_detail, Some(serde_json::json!({ "n": 1 })));
        assert!(task.completed_at.is_some() && task.claim.is_none());
        assert_eq!(w.agent("a").holding, 0);
    }

    #[test]
    fn a_failed_task_can_be_tried_again_or_skipped() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        assert_eq!(w.refuses(&by("a"), retry("t")), Code::InvalidTransition);
        w.starts("a", "t");
        w.does(&by("a"), fail("t"));
        let task = w.task("t");
        assert_eq!(
            (task.state, task.reason.as_deref(), task.completed_at),
            (TaskState::Failed, Some("it broke"), None)
        );
        assert_eq!(w.refuses(&by("a"), crate::testing::claim("a", "t")), Code::InvalidTransition);
        assert_eq!(w.does(&by("a"), retry("t")), ["task.retried"]);
        let task = w.task("t");
        assert_eq!((task.state, task.attempt, &task.reason, task.held_by()), (TaskState::Pending, 2, &None, None));
        w.starts("a", "t");
        w.does(&by("a"), fail("t"));
        assert_eq!(w.does(&by("a"), release("t")), ["task.retried"], "queued means again");
        assert_eq!(w.task("t").attempt, 3);
        w.starts("a", "t");
        w.does(&by("a"), fail("t"));
        w.does(&by("a"), skip("t"));
        assert_eq!(w.task("t").state, TaskState::Skipped);
    }

    #[test]
    fn long_texts_are_refused() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        let long = Some("x".repeat(limit::TEXT_BYTES + 1));
        let outcome = Outcome { text: long.clone(), detail: None };
        assert_eq!(w.refuses(&by("a"), CompleteTask { outcome, ..complete("t") }), Code::TooLarge);
        let detail = Some(serde_json::json!({ "log": "x".repeat(limit::TEXT_BYTES) }));
        let outcome = Outcome { text: None, detail };
        assert_eq!(w.refuses(&by("a"), CompleteTask { outcome, ..complete("t") }), Code::TooLarge);
        assert_eq!(w.refuses(&by("a"), FailTask { error: long.clone(), ..fail("t") }), Code::TooLarge);
        assert_eq!(w.refuses(&by("a"), super::super::CancelTask { reason: long, ..cancel("t") }), Code::TooLarge);
    }
}
