//! The run row. The project's default run has no row: it always exists and never completes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::task::{Task, TaskState};
use super::{Column, ColumnValue, Entity, Key, Lookup, ReadSet, Row, RowWriter, Undecided, View};
use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, Seq, Timestamp};
use crate::kernel::rejection::Rejection;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Planning,
    Ready,
    InProgress,
    Paused,
    Completed,
    Failed,
    Abandoned,
}

impl RunStatus {
    pub const ALL: [RunStatus; 7] = [
        RunStatus::Planning,
        RunStatus::Ready,
        RunStatus::InProgress,
        RunStatus::Paused,
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::Abandoned,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Planning => "planning",
            RunStatus::Ready => "ready",
            RunStatus::InProgress => "in_progress",
            RunStatus::Paused => "paused",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Abandoned => "abandoned",
        }
    }

    pub fn parse(text: &str) -> Option<RunStatus> {
        RunStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether its tasks may be taken by somebody new.
    pub fn gives_work(self) -> bool {
        match self {
            RunStatus::Paused | RunStatus::Abandoned => false,
            RunStatus::Planning
            | RunStatus::Ready
            | RunStatus::InProgress
            | RunStatus::Completed
            | RunStatus::Failed => true,
        }
    }

    /// What may be asked for. What follows from the tasks is not asked for and not in it.
    pub fn may_become(self, next: RunStatus) -> bool {
        use RunStatus::*;
        match self {
            Planning => matches!(next, Ready | Abandoned),
            Ready => matches!(next, InProgress | Abandoned),
            InProgress => matches!(next, Paused | Completed | Failed | Abandoned),
            Paused => matches!(next, InProgress | Abandoned),
            Failed => matches!(next, InProgress),
            Completed | Abandoned => false,
        }
    }

    /// The name of the count of runs in this status.
    pub fn tally(self) -> &'static str {
        match self {
            RunStatus::Planning => "runs.planning",
            RunStatus::Ready => "runs.ready",
            RunStatus::InProgress => "runs.in_progress",
            RunStatus::Paused => "runs.paused",
            RunStatus::Completed => "runs.completed",
            RunStatus::Failed => "runs.failed",
            RunStatus::Abandoned => "runs.abandoned",
        }
    }
}

/// Where the wish for a run came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceType {
    Prompt,
    GithubIssue,
    Linear,
    Jira,
    Custom,
    Template,
}

impl SourceType {
    /// What one can say; a run made from a template says so by itself.
    pub const TOLD: [SourceType; 5] =
        [SourceType::Prompt, SourceType::GithubIssue, SourceType::Linear, SourceType::Jira, SourceType::Custom];

    pub fn as_str(self) -> &'static str {
        match self {
            SourceType::Prompt => "prompt",
            SourceType::GithubIssue => "github_issue",
            SourceType::Linear => "linear",
            SourceType::Jira => "jira",
            SourceType::Custom => "custom",
            SourceType::Template => "template",
        }
    }
}

/// What a run is about, as told when it was created.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunSpec {
    pub title: String,
    pub source_type: SourceType,
    pub source_ref: Option<String>,
    pub source_content: String,
    pub repository_paths: Vec<String>,
    pub max_parallel_tasks: u32,
    pub auto_create_workspaces: bool,
    pub config: Map<String, Value>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    #[serde(flatten)]
    pub brief: RunSpec,
    /// The plan in short.
    pub summary: Option<String>,
    pub status: RunStatus,
    /// Why it was last given its status by somebody.
    pub reason: Option<String>,
    pub created_by: String,
    pub created_at: Timestamp,
    pub created: Seq,
    pub updated_at: Timestamp,
    pub tasks: u32,
    /// Tasks that may still be worked on; failed ones are among them, because they can be tried again.
    pub unfinished: u32,
    /// Those of them that have failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// Since when it has ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Entity for Run {
    type Id = RunId;

    const TABLE: &'static str = "runs";
    const COLUMNS: &'static [Column] =
        &[Column::integer("created"), Column::text("status"), Column::integer("ended").unindexed()];

    fn columns(&self) -> Vec<ColumnValue> {
        let ended = self.ended_at.map_or(ColumnValue::Null, |ended| ColumnValue::Integer(ended.0));
        vec![self.created.0.into(), self.status.as_str().into(), ended]
    }

    fn tallies(&self) -> Vec<&'static str> {
        vec![tally::RUNS, self.status.tally()]
    }
}

impl Run {
    /// A run that nobody described: it exists because a task named it.
    pub(crate) fn implied(id: &RunId, by: &str, seq: Seq, at: Timestamp) -> Run {
        let brief = RunSpec {
            title: id.to_string(),
            source_type: SourceType::Custom,
            source_ref: None,
            source_content: String::new(),
            repository_paths: vec![],
            max_parallel_tasks: 1,
            auto_create_workspaces: false,
            config: Map::new(),
        };
        Run {
            id: id.clone(),
            brief,
            summary: None,
            status: RunStatus::Ready,
            reason: None,
            created_by: by.to_owned(),
            created_at: at,
            created: seq,
            updated_at: at,
            tasks: 0,
            unfinished: 0,
            failed: 0,
            ended_at: None,
        }
    }

    pub(crate) fn add_task(&mut self, at: Timestamp) {
        self.tasks = self.tasks.saturating_add(1);
        self.unfinished = self.unfinished.saturating_add(1);
        self.note_change(at);
    }

    pub(crate) fn complete_task(&mut self, at: Timestamp) {
        self.unfinished = self.unfinished.saturating_sub(1);
        self.note_change(at);
    }

    /// Counts a task as finished that will not be done.
    pub(crate) fn drop_task(&mut self, from: TaskState, at: Timestamp) {
        self.unfinished = self.unfinished.saturating_sub(1);
        self.failed = self.failed.saturating_sub(u32::from(from == TaskState::Failed));
        self.note_change(at);
    }

    pub(crate) fn fail_task(&mut self, at: Timestamp) {
        self.failed = self.failed.saturating_add(1);
        self.note_change(at);
    }

    pub(crate) fn retry_task(&mut self, at: Timestamp) {
        self.failed = self.failed.saturating_sub(1);
        self.note_change(at);
    }

    /// Counts a task as open again. A failed one was among the unfinished all the time.
    pub(crate) fn reopen_task(&mut self, from: TaskState, at: Timestamp) {
        match from {
            TaskState::Completed | TaskState::Skipped | TaskState::Cancelled => {
                self.unfinished = self.unfinished.saturating_add(1);
            }
            TaskState::Failed => self.failed = self.failed.saturating_sub(1),
            TaskState::Pending
            | TaskState::Planning
            | TaskState::InProgress
            | TaskState::Review
            | TaskState::Paused => return,
        }
        self.note_change(at);
    }

    /// Notes that it changed, and since when it has ended, if it has.
    pub(crate) fn note_change(&mut self, at: Timestamp) {
        self.updated_at = at;
        self.ended_at = if self.has_ended() { self.ended_at.or(Some(at)) } else { None };
    }

    pub(crate) fn lose_open_task(&mut self) {
        self.tasks = self.tasks.saturating_sub(1);
        self.unfinished = self.unfinished.saturating_sub(1);
    }

    /// How many tasks somebody works on, or can take as they are.
    pub fn open(&self) -> u32 {
        self.unfinished.saturating_sub(self.failed)
    }

    /// Whether it has come to its end. A task that is added or tried again opens it.
    pub fn has_ended(&self) -> bool {
        match self.status {
            RunStatus::Completed | RunStatus::Abandoned => true,
            RunStatus::Failed => self.open() == 0,
            RunStatus::Planning | RunStatus::Ready | RunStatus::InProgress | RunStatus::Paused => false,
        }
    }
}

pub mod tally {
    pub const RUNS: &str = "runs";
}

/// The id of a run's row. The project's default run has none.
pub(crate) fn row_id(run: Option<&RunId>) -> Option<RunId> {
    run.filter(|run| **run != RunId::project_default()).cloned()
}

/// The write set of an event that changes nothing but its run.
pub(crate) fn run_only(run: &RunId) -> Vec<Key> {
    row_id(Some(run)).map(Key::Run).into_iter().collect()
}

/// Changes the row of a run, if it has one.
pub(crate) fn change_run(rows: &mut RowWriter<'_>, run: &RunId, at: Timestamp, change: impl FnOnce(&mut Run)) {
    if let Some(id) = row_id(Some(run)) {
        rows.update(id, |run: &mut Run| {
            change(run);
            run.note_change(at);
        });
    }
}

/// What deciding who steers a run needs to see first.
pub(crate) fn steering_asks(run: &RunId) -> ReadSet {
    vec![Key::Run(run.clone()).into(), Key::lead().into()]
}

/// The author of what a caller creates.
pub(crate) fn author(caller: &Caller) -> String {
    match &caller.actor {
        Actor::Anonymous => Actor::System.to_string(),
        actor => actor.to_string(),
    }
}

impl View {
    pub fn run(&self, id: &RunId) -> Result<Option<&Run>, Undecided> {
        Ok(match self.get(&Key::Run(id.clone()))? {
            Some(Row::Run(run)) => Some(run),
            _ => None,
        })
    }

    pub(crate) fn run_known(&self, id: &RunId) -> Result<&Run, Undecided> {
        self.run(id)?.ok_or_else(|| {
            Rejection::new(Code::WorkflowNotFound, "Workflow not found")
                .hint("list the workflows to see their ids")
                .into()
        })
    }

    /// Whether the caller may change the plan or the status of a run: whoever opened it, as long as it is here; the lead
    /// and people; and anybody once the one who opened it is gone, so that work never waits for the dead.
    pub(crate) fn may_steer(&self, caller: &Caller, run: &Run) -> Result<(), Undecided> {
        let Actor::Agent(owner) = Actor::parse(&run.created_by) else { return Ok(()) };
        if caller.actor.agent() == Some(&owner) || self.has_authority(caller)? {
            return Ok(());
        }
        if !self.find_agent(&owner)?.is_some_and(|agent| agent.is_online()) {
            return Ok(());
        }
        Err(Rejection::new(Code::Forbidden, format!("workflow {} is steered by {owner}, who opened it", run.id))
            .hint(format!("ask {owner} or the lead; anybody may add a task to it"))
            .into())
    }

    /// As [`View::may_steer`], for what ends a run or takes from its plan: what a person wished for is given up or planned
    /// anew by people and the lead.
    pub(crate) fn may_overturn(&self, caller: &Caller, run: &Run) -> Result<(), Undecided> {
        if let Actor::Person(_) = Actor::parse(&run.created_by)
            && !self.has_authority(caller)?
        {
            let message = format!("workflow {} was opened by {}", run.id, run.created_by);
            return Err(Rejection::new(Code::Forbidden, message)
                .hint("only people and the lead give it up or replan it; anybody may add a task to it or pause it")
                .into());
        }
        self.may_steer(caller, run)
    }

    /// The tasks of a run, in their sequence.
    pub(crate) fn tasks_of_run(&self, id: &RunId) -> Result<Vec<&Task>, Undecided> {
        let rows = self.all(&Lookup::tasks_of_run(id))?;
        let mut tasks: Vec<&Task> =
            rows.into_iter().filter_map(|row| if let Row::Task(task) = row { Some(task) } else { None }).collect();
        tasks.sort_by_key(|task| (task.sequence, task.created));
        Ok(tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::LeaveTeam;
    use crate::plans::{AddRunTask, RemoveRunTask, ReplanRun};
    use crate::runs::SetRunStatus;
    use crate::testing::{World, anna, by, create_run, plan, planned};

    #[test]
    fn who_opened_a_run_steers_it_while_it_is_here() {
        let paused = || SetRunStatus { run: "wf".into(), to: RunStatus::Paused, reason: None };
        let resumed = || SetRunStatus { to: RunStatus::InProgress, ..paused() };
        let removal = || RemoveRunTask { run: "wf".into(), task: "tk_two".into() };
        let replan = || ReplanRun { run: "wf".into(), summary: String::new(), reason: "so".to_owned(), tasks: vec![] };
        let mut w = World::of(&["lead", "a", "b"]);
        w.does(&by("a"), create_run("wf"));
        for stranger in [by("b"), Caller::anonymous()] {
            assert_eq!(w.refuses(&stranger, plan("wf", &[("one", &[])])), Code::Forbidden);
        }
        w.does(&by("a"), plan("wf", &[("one", &[]), ("two", &[])]));
        w.claims("b", "tk_one");
        assert_eq!(w.refuses(&by("b"), paused()), Code::Forbidden, "to hold a task is not to steer");
        assert_eq!(w.refuses(&by("b"), removal()), Code::Forbidden);
        assert_eq!(w.refuses(&by("b"), replan()), Code::Forbidden);
        let more = AddRunTask { run: "wf".into(), task: planned("three", &[]), after: None };
        w.does(&by("b"), more);
        for steering in [by("a"), by("lead"), anna()] {
            w.does(&steering, paused());
            w.does(&steering, resumed());
        }
        w.does(&by("a"), LeaveTeam { agent: "a".into() });
        w.does(&by("b"), paused());
        w.does(&by("b"), removal());
        assert_eq!(w.run_row("wf").status, RunStatus::Paused);
    }

    #[test]
    fn anybody_plans_what_no_agent_opened() {
        let mut w = World::of(&["lead", "b"]);
        for (id, caller) in [("wf_1", Caller::anonymous()), ("wf_2", anna())] {
            w.does(&caller, create_run(id));
            let mut plan = plan(id, &[("one", &[])]);
            plan.tasks[0].id = format!("tk_{id}").as_str().into();
            w.does(&by("b"), plan);
        }
    }

    #[test]
    fn people_and_the_lead_give_up_what_a_person_opened() {
        let set = |to| SetRunStatus { run: "wf".into(), to, reason: None };
        let replan = || ReplanRun { run: "wf".into(), summary: String::new(), reason: "so".to_owned(), tasks: vec![] };
        let removal = || RemoveRunTask { run: "wf".into(), task: "tk_two".into() };
        let mut w = World::of(&["lead", "b"]);
        w.does(&anna(), create_run("wf"));
        w.does(&by("b"), plan("wf", &[("one", &[]), ("two", &[])]));
        w.claims("b", "tk_one");
        for stranger in [by("b"), Caller::anonymous()] {
            for to in [RunStatus::Failed, RunStatus::Abandoned] {
                assert_eq!(w.refuses(&stranger, set(to)), Code::Forbidden);
            }
            assert_eq!(w.refuses(&stranger, replan()), Code::Forbidden);
            assert_eq!(w.refuses(&stranger, removal()), Code::Forbidden);
        }
        w.does(&by("b"), set(RunStatus::Paused));
        w.does(&by("b"), set(RunStatus::InProgress));
        w.does(&by("lead"), removal());
        w.does(&by("lead"), replan());
        w.does(&anna(), set(RunStatus::Abandoned));
    }
}
