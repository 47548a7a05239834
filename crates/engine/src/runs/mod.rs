//! Reading workflows: what there is, what can be done next, how far it is, and what it waits for.
//!
//! Each question is answered from lists that were read at one position. The shapes are those that the workflow tools
//! show, so that a surface has only to pass them on.

mod attempts;
mod digest;
mod tree;
mod views;

use rookery_core::{Code, EventRef, Rejection, Row, RunId, Seq, TaskId, TemplateId, Timestamp};
use std::collections::BTreeMap;

use rookery_core::model::run::{Run, RunSpec, RunStatus, SourceType, tally};
use rookery_core::model::task::{Checkpoint, Task, TaskState};
use rookery_core::model::template::Template;
use rookery_core::model::{ColumnValue, Table};
use rookery_store::query::{ColumnTest, KEY, Order};
use rookery_store::{LogHead, LogQuery, RowQuery};

pub use attempts::{Ending, TaskAttempt};
pub use digest::{error_of, estimate_tokens};
pub use tree::{MESSAGES, RunEntry, RunList, RunTree, TaskNode};
pub use views::{
    BlockedTask, CheckpointFilter, CompletedDependency, CurrentTask, Dependencies, FailedTasks, GroupProgress,
    NextTask, NextTasks, OpenTasks, PendingDependency, PlanChange, Progress, RunFilter, RunHead, RunPage, Search,
    Summary, SummaryFormat, Workflow,
};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::query::At;

/// Reads runs: their tasks as lists and trees, progress, checkpoints and templates.
#[derive(Clone, Copy, Debug)]
pub struct RunsHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`RunsHandle`].
    pub fn runs(&self) -> RunsHandle<'_> {
        RunsHandle { engine: self }
    }
}

/// How many facts of one command are looked at to tell what it did to a plan.
const PLAN_FACTS: u32 = 1_100;
/// How often two reads are repeated until they are of one position.
const TRIES: usize = 4;
/// How many workflows are looked through for something to do, the oldest first.
const OPEN_RUNS: u32 = 200;
/// More tasks than these are not counted among what is worked on.
const HELD_TASKS: u32 = 1_000;

/// The state of a task in the words of the workflow tools.
pub fn status_word(task: &Task) -> &'static str {
    match task.state {
        TaskState::Pending if task.is_blocked() => "blocked",
        TaskState::Review => TaskState::InProgress.as_str(),
        TaskState::Cancelled => TaskState::Skipped.as_str(),
        state => state.as_str(),
    }
}

/// Whether somebody could take it now.
pub fn is_eligible(task: &Task, failed: FailedTasks) -> bool {
    is_offered(task.state, failed) && task.held_by().is_none() && task.waiting_on.is_empty()
}

impl Search {
    /// Whether a task is kept for whoever looks, who could begin it now.
    fn has_kept(&self, task: &Task) -> bool {
        let own = self.agent.is_some() && task.reserved_for == self.agent && task.claim.is_none();
        own && task.state.is_open() && task.waiting_on.is_empty()
    }

    fn takes(&self, task: &Task) -> bool {
        self.has_kept(task) || is_eligible(task, self.failed)
    }
}

/// Whether the tasks of a run with this status can be taken.
fn gives_work(status: RunStatus) -> bool {
    !matches!(status, RunStatus::Paused | RunStatus::Abandoned)
}

fn is_offered(state: TaskState, failed: FailedTasks) -> bool {
    match state {
        TaskState::Pending | TaskState::Planning => true,
        TaskState::Failed => failed == FailedTasks::Offered,
        _ => false,
    }
}

impl RunsHandle<'_> {
    /// A run by its id; the default one is there as soon as it has a task.
    pub async fn run(&self, id: &RunId) -> Result<At<Run>, EngineError> {
        if *id == RunId::project_default() {
            return Ok(self.plan(id).await?.map(|workflow| workflow.run));
        }
        let (mut rows, head) =
            self.engine.store().list(run_query(id)).await.map(|(rows, head)| (runs_of(rows), head))?;
        rows.pop().map(|value| At { value, head }).ok_or_else(|| unknown_run().into())
    }

    /// A run with its tasks.
    pub async fn plan(&self, id: &RunId) -> Result<At<Workflow>, EngineError> {
        let (lists, head) = self.engine.store().lists(vec![run_query(id), tasks_query(id)]).await?;
        let mut lists = lists.into_iter();
        let run = runs_of(lists.next().unwrap_or_default()).pop();
        let mut tasks = tasks_of(lists.next().unwrap_or_default());
        tasks.sort_by_key(|task| (task.sequence, task.created));
        let run = match run {
            Some(run) => run,
            None if *id == RunId::project_default() && !tasks.is_empty() => default_run(&tasks),
            None => return Err(unknown_run().into()),
        };
        Ok(At { value: Workflow { run, tasks }, head })
    }

    /// The runs that fit, newest first. The project's default run is the oldest of all.
    pub async fn list_plans(&self, filter: &RunFilter) -> Result<At<RunPage>, EngineError> {
        let wanted = filter.offset.saturating_add(filter.limit);
        let mut query = RowQuery { order: Order::Descending, ..RowQuery::all(Table::Runs).ordered_by("created") };
        if !filter.status.is_empty() {
            let any = filter.status.iter().map(|status| status.as_str().into()).collect();
            query = query.with("status", ColumnTest::In(any));
        }
        if filter.repository_path.is_none() {
            query = query.at_most(Some(wanted));
        }
        let by_default =
            RowQuery { order: Order::Descending, ..tasks_query(&RunId::project_default()).at_most(Some(1)) };
        let (lists, tallies, head) = self.list_and_count(vec![query, by_default]).await?;
        let mut lists = lists.into_iter();
        let mut runs = runs_of(lists.next().unwrap_or_default());
        let in_default = tasks_of(lists.next().unwrap_or_default());
        let has_default = filter.takes_default() && !in_default.is_empty();
        if let Some(path) = &filter.repository_path {
            runs.retain(|run| run.brief.repository_paths.contains(path));
        }
        let mut total = match filter.repository_path {
            Some(_) => runs.len() as u64,
            None => filter.count(&tallies),
        };
        if has_default {
            if runs.len() as u64 == total {
                runs.push(default_run(&in_default));
            }
            total += 1;
        }
        let page = runs.into_iter().skip(filter.offset as usize).take(filter.limit as usize);
        Ok(At { value: RunPage { workflows: page.map(RunHead::of).collect(), total }, head })
    }

    /// Lists and counts, of one position if the log stands still for a moment.
    async fn list_and_count(
        &self,
        queries: Vec<RowQuery>,
    ) -> Result<(Vec<Vec<Row>>, BTreeMap<String, u64>, LogHead), EngineError> {
        let mut tries = 0;
        loop {
            let (lists, head) = self.engine.store().lists(queries.clone()).await?;
            let (tallies, then) = self.engine.store().tallies().await?;
            tries += 1;
            if then == head || tries == TRIES {
                return Ok((lists, tallies, head));
            }
        }
    }

    /// Everything that can be taken now, what is kept for whoever looks first. A run that is paused or was given up gives out
    /// nothing.
    pub async fn next_tasks(&self, run: &RunId, search: &Search) -> Result<At<NextTasks>, EngineError> {
        Ok(self.plan(run).await?.map(|workflow| digest::next_tasks(&workflow, search)))
    }

    /// What can be taken now in any workflow that is open, at most so many.
    pub async fn next_tasks_anywhere(&self, search: &Search, limit: u32) -> Result<At<OpenTasks>, EngineError> {
        let failed = search.failed;
        let kept = self.reserved_tasks(search).await?;
        let open = [RunStatus::Planning, RunStatus::Ready, RunStatus::InProgress, RunStatus::Failed];
        let open = open.iter().map(|status| status.as_str().into()).collect();
        let runs = RowQuery::all(Table::Runs).with("status", ColumnTest::In(open)).ordered_by("created");
        let runs = runs_of(self.engine.store().list(runs.at_most(Some(OPEN_RUNS))).await?.0);
        let ids = runs.iter().map(|run| run.id.as_str().into());
        let ids: Vec<ColumnValue> = ids.chain([RunId::project_default().as_str().into()]).collect();
        let running = RowQuery::all(Table::Tasks)
            .with("run", ColumnTest::In(ids.clone()))
            .with("held_by", ColumnTest::Present)
            .at_most(Some(HELD_TASKS));
        let states = TaskState::ALL.into_iter().filter(|state| !state.is_finished());
        let unfinished = tasks_query(&RunId::project_default())
            .with("state", ColumnTest::In(states.map(|state| state.as_str().into()).collect()))
            .at_most(Some(1));
        let states = TaskState::ALL.into_iter().filter(|state| is_offered(*state, failed));
        let eligible = RowQuery::all(Table::Tasks)
            .with("run", ColumnTest::In(ids))
            .with("state", ColumnTest::In(states.map(|state| state.as_str().into()).collect()))
            .with("reserved", ColumnTest::Is(false.into()))
            .with("waiting", ColumnTest::Is(false.into()))
            .ordered_by("created")
            .at_most(Some(limit));
        let (lists, head) = self.engine.store().lists(vec![unfinished, eligible, running]).await?;
        let mut lists = lists.into_iter().map(tasks_of);
        let left = !lists.next().unwrap_or_default().is_empty() || runs.iter().any(|run| run.unfinished > 0);
        let mut eligible = lists.next().unwrap_or_default();
        eligible.retain(|task| is_eligible(task, failed) && kept.iter().all(|own| own.id != task.id));
        let recommended = kept.len() + digest::recommended(&runs, &eligible, &lists.next().unwrap_or_default());
        let shown: Vec<&Task> = kept.iter().chain(&eligible).take(limit as usize).collect();
        let named: Vec<TaskId> = shown.iter().flat_map(|task| task.depends_on.iter().cloned()).collect();
        let known = tasks_of(self.engine.store().list(tasks_named(&named)).await?.0);
        let value = OpenTasks {
            recommended_count: recommended.min(shown.len()),
            tasks: digest::offered(&shown, &known),
            all_complete: !left,
        };
        Ok(At { value, head })
    }

    /// What is kept for whoever looks, in any run that gives out work.
    async fn reserved_tasks(&self, search: &Search) -> Result<Vec<Task>, EngineError> {
        let Some(agent) = &search.agent else { return Ok(vec![]) };
        let mut kept = self.engine.query().reserved_tasks(agent).await?;
        kept.retain(|task| search.has_kept(task));
        if kept.is_empty() {
            return Ok(kept);
        }
        let ids: Vec<ColumnValue> = kept.iter().map(|task| task.run.as_str().into()).collect();
        let (rows, _) = self.engine.store().list(RowQuery::all(Table::Runs).with(KEY, ColumnTest::In(ids))).await?;
        let resting: Vec<RunId> =
            runs_of(rows).into_iter().filter(|run| !gives_work(run.status)).map(|run| run.id).collect();
        kept.retain(|task| !resting.contains(&task.run));
        Ok(kept)
    }

    pub async fn progress(&self, run: &RunId) -> Result<At<Progress>, EngineError> {
        Ok(self.plan(run).await?.map(|workflow| digest::progress(&workflow)))
    }

    pub async fn summary(&self, run: &RunId, format: SummaryFormat) -> Result<At<Summary>, EngineError> {
        Ok(self.plan(run).await?.map(|workflow| digest::summary(&workflow, format)))
    }

    /// What a task waits for, and what of that is done.
    pub async fn dependencies(&self, task: &TaskId) -> Result<At<Dependencies>, EngineError> {
        let Some(task) = self.engine.query().task(task).await?.value else { return Err(unknown_task().into()) };
        let (rows, head) = self.engine.store().list(tasks_named(&task.depends_on)).await?;
        Ok(At { value: digest::dependencies(&task, &tasks_of(rows)), head })
    }

    pub async fn checkpoints(&self, filter: &CheckpointFilter) -> Result<At<Vec<Checkpoint>>, EngineError> {
        let queries = vec![tasks_named(std::slice::from_ref(&filter.task)), checkpoints_query(&filter.task)];
        let (lists, head) = self.engine.store().lists(queries).await?;
        let mut lists = lists.into_iter();
        if lists.next().is_none_or(|tasks| tasks.is_empty()) {
            return Err(unknown_task().into());
        }
        let mut found = checkpoints_of(lists.next().unwrap_or_default());
        found.retain(|checkpoint| filter.takes(checkpoint));
        found.truncate(filter.limit.unwrap_or(usize::MAX));
        Ok(At { value: found, head })
    }

    /// All templates, by name.
    pub async fn templates(&self) -> Result<At<Vec<Template>>, EngineError> {
        let (rows, head) = self.engine.store().list(RowQuery::all(Table::Templates).ordered_by("name")).await?;
        Ok(At { value: templates_of(rows), head })
    }

    pub async fn template(&self, id: &TemplateId) -> Result<At<Template>, EngineError> {
        let query = RowQuery::all(Table::Templates).with(KEY, ColumnTest::Is(id.as_str().into()));
        let (rows, head) = self.engine.store().list(query).await?;
        let unknown = || {
            EngineError::from(
                Rejection::new(Code::TemplateNotFound, "Template not found")
                    .hint("list the templates to see their ids"),
            )
        };
        templates_of(rows).pop().map(|value| At { value, head }).ok_or_else(unknown)
    }

    /// What the command that began at this place did to a plan.
    pub async fn plan_change(&self, first: Seq) -> Result<PlanChange, EngineError> {
        let query = LogQuery::after(Seq(first.0.saturating_sub(1)), PLAN_FACTS);
        let (rows, _) = self.engine.store().log(query).await?;
        let mut change = PlanChange::default();
        for row in rows.iter().take_while(|row| row.first() == first) {
            match row.event.typed() {
                EventRef::RunReplanned(fact) => {
                    change.added = fact.added.clone();
                    change.removed = fact.removed.clone();
                    change.preserved = fact.preserved.clone();
                }
                EventRef::TaskRemoved(fact) => {
                    if !change.removed.contains(&fact.task) {
                        change.removed.push(fact.task.clone());
                    }
                    change.dependencies_rewired +=
                        fact.rewired.iter().map(|rewired| rewired.gains.len()).sum::<usize>();
                }
                EventRef::RunReordered(fact) => change.tasks_renumbered += fact.places.len(),
                _ => {}
            }
        }
        Ok(change)
    }

    pub fn mint_run(&self) -> RunId {
        RunId::new(self.engine.mint("wf_"))
    }

    /// The id of a task of a workflow.
    pub fn mint_planned_task(&self) -> TaskId {
        TaskId::new(self.engine.mint("tk_"))
    }

    pub fn mint_checkpoint(&self) -> String {
        self.engine.mint("cp_")
    }

    pub fn mint_template(&self) -> TemplateId {
        TemplateId::new(self.engine.mint("tmpl_"))
    }
}

impl RunHead {
    fn of(run: Run) -> RunHead {
        RunHead {
            id: run.id,
            name: run.brief.title,
            status: run.status,
            source_type: run.brief.source_type,
            created_at: run.created_at,
            updated_at: run.updated_at,
        }
    }
}

impl RunFilter {
    fn takes_default(&self) -> bool {
        self.repository_path.is_none() && (self.status.is_empty() || self.status.contains(&RunStatus::InProgress))
    }

    fn count(&self, tallies: &BTreeMap<String, u64>) -> u64 {
        let of = |name: &str| tallies.get(name).copied().unwrap_or(0);
        if self.status.is_empty() {
            return of(tally::RUNS);
        }
        let wanted = RunStatus::ALL.into_iter().filter(|status| self.status.contains(status));
        wanted.map(|status| of(status.tally())).sum()
    }
}

impl CheckpointFilter {
    fn takes(&self, checkpoint: &Checkpoint) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&checkpoint.kind))
            && self.since_sequence.is_none_or(|since| checkpoint.sequence > since)
    }
}

/// The project's default run, made up from its tasks: it has no row, begins with the project and never completes.
pub(crate) fn default_run(tasks: &[Task]) -> Run {
    let unfinished = tasks.iter().filter(|task| !task.state.is_finished()).count();
    let failed = tasks.iter().filter(|task| task.state == TaskState::Failed).count();
    Run {
        id: RunId::project_default(),
        brief: RunSpec {
            title: "Tasks outside of any workflow".to_owned(),
            source_type: SourceType::Custom,
            source_ref: None,
            source_content: String::new(),
            repository_paths: vec![],
            max_parallel_tasks: 1,
            auto_create_workspaces: false,
            config: serde_json::Map::new(),
        },
        summary: None,
        status: RunStatus::InProgress,
        reason: None,
        created_by: "system".to_owned(),
        created_at: tasks.iter().map(|task| task.created_at).min().unwrap_or(Timestamp(0)),
        created: Seq::ZERO,
        updated_at: tasks.iter().map(|task| task.completed_at.unwrap_or(task.created_at)).max().unwrap_or(Timestamp(0)),
        tasks: u32::try_from(tasks.len()).unwrap_or(u32::MAX),
        unfinished: u32::try_from(unfinished).unwrap_or(u32::MAX),
        failed: u32::try_from(failed).unwrap_or(u32::MAX),
        ended_at: None,
    }
}

fn unknown_run() -> Rejection {
    Rejection::new(Code::WorkflowNotFound, "Workflow not found").hint("list the workflows to see their ids")
}

pub(crate) fn unknown_task() -> Rejection {
    Rejection::new(Code::TaskNotFound, "Task not found")
}

pub(crate) fn run_query(id: &RunId) -> RowQuery {
    RowQuery::all(Table::Runs).with(KEY, ColumnTest::Is(id.as_str().into()))
}

pub(crate) fn tasks_query(run: &RunId) -> RowQuery {
    RowQuery::all(Table::Tasks).with("run", ColumnTest::Is(run.as_str().into())).ordered_by("created")
}

pub(crate) fn tasks_named(ids: &[TaskId]) -> RowQuery {
    let any = ids.iter().map(|id| ColumnValue::Text(id.to_string())).collect();
    RowQuery::all(Table::Tasks).with(KEY, ColumnTest::In(any)).ordered_by("created")
}

pub(crate) fn checkpoints_query(task: &TaskId) -> RowQuery {
    RowQuery::all(Table::Checkpoints).with("task", ColumnTest::Is(task.as_str().into())).ordered_by("created")
}

pub(crate) fn runs_of(rows: Vec<Row>) -> Vec<Run> {
    rows.into_iter().filter_map(|row| if let Row::Run(run) = row { Some(run) } else { None }).collect()
}

pub(crate) fn tasks_of(rows: Vec<Row>) -> Vec<Task> {
    rows.into_iter().filter_map(|row| if let Row::Task(task) = row { Some(task) } else { None }).collect()
}

pub(crate) fn checkpoints_of(rows: Vec<Row>) -> Vec<Checkpoint> {
    rows.into_iter().filter_map(|row| if let Row::Checkpoint(found) = row { Some(found) } else { None }).collect()
}

fn templates_of(rows: Vec<Row>) -> Vec<Template> {
    rows.into_iter().filter_map(|row| if let Row::Template(template) = row { Some(template) } else { None }).collect()
}
