//! Work that came to an end, well or badly. Either way the claim ends and the task's files are freed.

use serde::{Deserialize, Serialize};

use super::cancel::{CancelTo, end_unfinished};
use super::retry::retry_or_exhaust;
use super::start::ensure_under_way;
use super::subtasks;
use super::subtasks::WHOLE_IS_COMPLETED;
use super::unblock::{first_dependents, unblock};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::contract::ContractCheck;
use crate::model::file::ReleaseReason;
use crate::model::notification::{Audience, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::run::Run;
use crate::model::task::{Outcome, Task, TaskState, task_keys};
use crate::model::{EventStamp, Key, Lookup, ReadSet, RowWriter, Undecided, View, run};
use crate::runs::Ended;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, NamedArtifacts, ReplySource, Subject};
use crate::{artifacts, files, runs};

/// Whether a text must be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Required {
    Yes,
    No,
}

impl Required {
    fn ensure(self, text: Option<&str>, code: Code, field: &str, state: TaskState) -> Result<(), Rejection> {
        if self == Required::No || text.is_some_and(|text| !text.trim().is_empty()) {
            return Ok(());
        }
        Err(Rejection::new(code, format!("{field} is needed for a task that is {}", state.as_str()))
            .hint("say in a sentence or two what came of it: others go on from there"))
    }
}

/// Completes a task. Its holder, or the agent that it is reserved for, need not have started it: that is appended first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompleteTask {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub outcome: Outcome,
    pub outcome_required: Required,
    /// The result of checking the outcome, where the task is bound to a step contract.
    #[serde(skip)]
    pub contract: Option<ContractCheck>,
}

/// Fails a task, which is started first as by [`CompleteTask`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FailTask {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub error: Option<String>,
    pub error_required: Required,
    pub retry: FailureRetry,
}

/// Whether a failed task gets another attempt without being asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureRetry {
    Never,
    /// After this many milliseconds, doubled after each further attempt, as long as the request allows attempts.
    Backoff(u64),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskCompleted {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    pub from: TaskState,
    pub outcome: Outcome,
    /// The tasks that waited for this one, in the order of their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unblocks: Vec<TaskId>,
    /// The last of these, if there are more: [`DependentsUnblocked`](super::DependentsUnblocked) names those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblocked_to: Option<TaskId>,
    /// What is attached to the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for TaskCompleted {
    const KIND: &'static str = "task.completed";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: self.holder.as_ref(), ..Subject::task(&self.task, self.run.as_ref()) }
            .requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, self.holder.as_ref(), &self.unblocks, self.run.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.complete(&self.outcome, stamp.at));
        if let Some(holder) = &self.holder {
            rows.update(holder.clone(), |agent: &mut Agent| agent.complete_task(&self.task));
        }
        unblock(rows, &self.task, &self.unblocks, self.unblocked_to.as_ref(), stamp);
        if let Some(run) = run::row_id(self.run.as_ref()) {
            rows.update(run, |run: &mut Run| run.complete_task(stamp.at));
        }
    }

    fn artifacts(&self) -> Option<NamedArtifacts<'_>> {
        NamedArtifacts::of("task", &self.task, &self.artifacts)
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        Some(NotificationRule::withdrawing(Audience::RequesterAndHolder))
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
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for TaskFailed {
    const KIND: &'static str = "task.failed";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: self.holder.as_ref(), ..Subject::task(&self.task, self.run.as_ref()) }
            .requested_in(&self.requested_in)
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

    fn notification_rule(&self) -> Option<NotificationRule> {
        Some(NotificationRule::withdrawing(Audience::RequesterAndHolder))
    }
}

impl Command for CompleteTask {
    const NAME: &'static str = "CompleteTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        ending_asks(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let events = self.events(cx)?;
        ContractCheck::ensure_fulfils(self.contract.as_ref(), cx.view.task(&self.task)?, cx.view)?;
        Ok(Decision::new(events, ReplySource::row(self.task.clone())))
    }
}

impl CompleteTask {
    /// The events that complete the task, whatever its step contract says.
    pub(crate) fn events(&self, cx: &DecisionContext<'_>) -> Result<Vec<AnyEvent>, Undecided> {
        limit::text("outcome", self.outcome.text.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        limit::json("outcome_detail", &self.outcome.detail, limit::TEXT_BYTES)?;
        let (view, next) = (cx.view, TaskState::Completed);
        let (task, mut events) = ensure_under_way(cx, view.task(&self.task)?, self.agent.as_ref(), next)?;
        self.outcome_required.ensure(self.outcome.text.as_deref(), Code::MissingOutcome, "outcome", next)?;
        let (unblocks, unblocked_to) = first_dependents(view, &task)?;
        events.push(AnyEvent::new(TaskCompleted {
            task: task.id.clone(),
            run: task.run_if_named(),
            holder: task.holder().cloned(),
            from: task.state,
            outcome: self.outcome.clone(),
            unblocks,
            unblocked_to,
            artifacts: artifacts::attached(self.outcome.detail.as_ref())?,
            requested_in: RequestedIn::of(&task),
        }));
        events.extend(freed_files(view, &task, ReleaseReason::TaskEnded)?);
        // What is part of the whole is of no use any more when that is done.
        let parts = if task.origin.parent.is_none() { subtasks::open_parts(view, &task)? } else { vec![] };
        for part in &parts {
            events.extend(end_unfinished(view, part, CancelTo::Cancelled, Some(WHOLE_IS_COMPLETED))?);
        }
        events.extend(runs::roll_up(view, &task, Ended::finished(&task, parts.len()))?);
        Ok(events)
    }
}

impl Command for FailTask {
    const NAME: &'static str = "FailTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        ending_asks(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let error = self.error.as_deref();
        limit::text("error", error.unwrap_or(""), limit::TEXT_BYTES)?;
        let next = TaskState::Failed;
        let (task, mut events) = ensure_under_way(cx, cx.view.task(&self.task)?, self.agent.as_ref(), next)?;
        self.error_required.ensure(error, Code::MissingError, "error", next)?;
        events.push(AnyEvent::new(TaskFailed {
            task: task.id.clone(),
            run: task.run_if_named(),
            holder: task.holder().cloned(),
            from: task.state,
            error: self.error.clone(),
            requested_in: RequestedIn::of(&task),
        }));
        events.extend(freed_files(cx.view, &task, ReleaseReason::TaskEnded)?);
        events.extend(match self.retry {
            FailureRetry::Backoff(millis) => {
                retry_or_exhaust(cx.view, &task, error.unwrap_or_default(), millis, cx.now)?
            }
            FailureRetry::Never => runs::roll_up(cx.view, &task, Ended::failed(0))?.into_iter().collect(),
        });
        Ok(Decision::new(events, ReplySource::row(self.task.clone())))
    }
}

pub(super) fn ending_asks(task: &TaskId, agent: Option<&AgentId>) -> ReadSet {
    let mut read_set = crate::model::task::read_set(task, agent);
    read_set.push(Lookup::next_dependents(task, None).into());
    read_set.push(Lookup::files_of_task(task).into());
    read_set
}

pub(super) fn freed_files(view: &View, task: &Task, reason: ReleaseReason) -> Result<Vec<AnyEvent>, Undecided> {
    files::free_files(view, &view.files_of_task(&task.id)?, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::ClaimFile;
    use crate::kernel::caller::Caller;
    use crate::model::run::RunStatus;
    use crate::model::task::{CheckpointKind, TaskPlan};
    use crate::tasks::{AddCheckpoint, SetTaskPlan};
    use crate::testing::{
        World, anna, by, cancel, claim, claim_file, complete, create, fail, moves, release, retry, skip, start,
    };

    fn with_outcome(task: &str) -> CompleteTask {
        let outcome = Outcome { text: Some("done".to_owned()), detail: None };
        CompleteTask { outcome, outcome_required: Required::Yes, ..complete(task) }
    }

    #[test]
    fn work_loop_completes_the_tasks_of_a_run() {
        let mut w = World::of(&["lead", "a"]);
        w.plans("wf", &[("one", &[]), ("two", &["one"])]);
        for task in ["tk_one", "tk_two"] {
            w.does(&by("a"), claim("a", task));
            let plan = TaskPlan { approach: "carefully".to_owned(), ..TaskPlan::default() };
            w.does(&by("a"), SetTaskPlan { task: task.into(), agent: None, plan, context: serde_json::Map::new() });
            assert_eq!(w.does(&by("a"), start(None, task)), ["task.started"]);
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
            w.does(&by("a"), with_outcome(task));
            assert_eq!((w.task(task).state, w.task(task).outcome.as_deref()), (TaskState::Completed, Some("done")));
        }
        assert_eq!(w.run_row("wf").status, RunStatus::Completed);
    }

    #[test]
    fn end_of_unstarted_task_appends_missing_claim_and_start() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.plans("wf", &[("one", &[]), ("two", &[]), ("three", &["two"])]);
        w.claims("a", "tk_one");
        assert_eq!(w.refuses(&by("b"), with_outcome("tk_one")), Code::NotHolder);
        let as_b = CompleteTask { agent: Some("b".into()), ..with_outcome("tk_one") };
        assert_eq!(w.refuses(&by("b"), as_b), Code::NotHolder);
        let silent = CompleteTask { outcome: Outcome::default(), ..with_outcome("tk_one") };
        assert_eq!(w.refuses(&by("a"), silent), Code::MissingOutcome);
        assert_eq!(w.does(&by("a"), with_outcome("tk_one")), ["task.started", "task.completed"]);
        assert_eq!(w.refuses(&by("a"), with_outcome("tk_three")), Code::DependenciesUnfinished);
        w.claims("a", "tk_three");
        assert_eq!(w.refuses(&by("a"), with_outcome("tk_three")), Code::DependenciesUnfinished);
        assert_eq!(w.refuses(&by("a"), fail("tk_three")), Code::DependenciesUnfinished);
        w.claims("b", "tk_two");
        assert_eq!(w.does(&Caller::anonymous(), fail("tk_two")), ["task.started", "task.failed"]);
        for (task, end) in [("r", "task.completed"), ("s", "task.failed")] {
            w.does(&by("lead"), crate::tasks::CreateTask { assigned_to: Some("b".into()), ..create(task, &[]) });
            assert_eq!(w.refuses(&by("a"), complete(task)), Code::NotHolder);
            let ended = if task == "r" { w.does(&by("b"), complete(task)) } else { w.does(&by("b"), fail(task)) };
            assert_eq!(ended, ["task.claimed", "task.started", end]);
            assert_eq!(w.task(task).last_holder.as_ref().map(AgentId::as_str), Some("b"));
        }
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn lead_and_people_end_unstarted_tasks_for_the_holder() {
        let mut w = World::of(&["lead", "a"]);
        for (task, caller) in [("t", by("lead")), ("u", anna())] {
            w.creates(task, &[]);
            w.claims("a", task);
            assert_eq!(w.does(&caller, complete(task)), ["task.started", "task.completed"]);
            assert_eq!(w.task(task).last_holder.as_ref().map(AgentId::as_str), Some("a"));
        }
    }

    #[test]
    fn completing_paused_task_resumes_it_first() {
        let mut w = World::of(&["lead", "a"]);
        for task in ["t", "u"] {
            w.creates(task, &[]);
            w.starts("a", task);
            w.does(&by("a"), moves(task, TaskState::Paused));
        }
        assert_eq!(w.does(&by("a"), complete("t")), ["task.started", "task.completed"]);
        assert_eq!(w.does(&by("a"), fail("u")), ["task.failed"]);
    }

    #[test]
    fn required_texts_are_demanded_once_the_task_can_end() {
        let mut w = World::of(&["a"]);
        w.plans("wf", &[("one", &[])]);
        let silent = CompleteTask { outcome: Outcome::default(), ..with_outcome("tk_one") };
        let failure = |error: Option<&str>| FailTask {
            error: error.map(str::to_owned),
            error_required: Required::Yes,
            ..fail("tk_one")
        };
        assert_eq!(w.refuses(&by("a"), silent.clone()), Code::InvalidTransition, "nobody has claimed it");
        assert_eq!(w.refuses(&by("a"), failure(None)), Code::InvalidTransition);
        w.starts("a", "tk_one");
        assert_eq!(w.refuses(&by("a"), silent), Code::MissingOutcome);
        assert_eq!(w.refuses(&by("a"), failure(None)), Code::MissingError);
        assert_eq!(w.refuses(&by("a"), failure(Some(" "))), Code::MissingError);
        w.does(&by("a"), failure(Some("broken")));
        assert_eq!(w.task("tk_one").reason.as_deref(), Some("broken"));
        assert_eq!(w.does(&by("a"), release("tk_one")), ["task.retried", "run.status_set"]);
        w.does(&by("a"), skip("tk_one"));
        assert_eq!(w.refuses(&by("a"), with_outcome("tk_one")), Code::InvalidTransition);
        assert_eq!(w.refuses(&by("a"), with_outcome("tk_x")), Code::TaskNotFound);
    }

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
        assert_eq!(w.refuses(&by("a"), crate::tasks::CancelTask { reason: long, ..cancel("t") }), Code::TooLarge);
    }
}
