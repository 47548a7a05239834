//! Everything an agent needs to begin a task or to go on with it, within the number of tokens it can spare.
//!
//! Reading and composing are apart: [`compose`] is a pure function over [`Material`], so that its bound can be proven for
//! any workflow. What is left out is said, with the tool that shows it.

mod budget;
#[cfg(test)]
mod tests;
mod view;

use rookery_core::model::ColumnValue;
use rookery_core::model::file::File;
use rookery_core::model::run::Run;
use rookery_core::model::task::{Checkpoint, Task};
use rookery_core::model::workspace::Workspace;
use rookery_core::{Row, RunId, TaskId};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;

pub use budget::{MIN_TOKENS, compose};
pub use view::{
    CheckpointView, CurrentTask, FullView, Omitted, OutcomeView, PlanView, TaskContextView, WorkflowView, WorkspaceView,
};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::query::At;
use crate::runs::{
    checkpoints_of, checkpoints_query, default_run, run_query, runs_of, tasks_named, tasks_of, tasks_query,
    unknown_task,
};

/// Collects everything that an agent should know about a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskContextHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`TaskContextHandle`].
    pub fn task_context(&self) -> TaskContextHandle<'_> {
        TaskContextHandle { engine: self }
    }
}

/// How much context is given where nothing else is asked for.
pub const DEFAULT_TOKENS: usize = 8_000;
pub const DEFAULT_CHECKPOINTS: usize = 5;
/// How many workspaces of a run are looked through.
const WORKSPACES: u32 = 1_000;

/// Which parts are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Include {
    pub workflow_plan: Part,
    pub prior_task_outcomes: Part,
    /// Prior tasks with all that they told. The one part that is not there unless it was asked for.
    pub prior_task_full: Part,
    pub dependency_outcomes: Part,
    pub sibling_status: Part,
    pub checkpoints: Checkpoints,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Wanted,
    LeftOut,
}

impl Part {
    /// A part is there unless it was said not to be.
    pub fn of(flag: Option<bool>) -> Part {
        if flag == Some(false) { Part::LeftOut } else { Part::Wanted }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checkpoints {
    /// The newest so many, and what was decided before.
    Last(usize),
    All,
}

impl Default for Include {
    fn default() -> Include {
        Include {
            workflow_plan: Part::Wanted,
            prior_task_outcomes: Part::Wanted,
            prior_task_full: Part::LeftOut,
            dependency_outcomes: Part::Wanted,
            sibling_status: Part::Wanted,
            checkpoints: Checkpoints::Last(DEFAULT_CHECKPOINTS),
        }
    }
}

/// Everything that is known about a task, before anything is cut.
#[derive(Clone, PartialEq, Debug)]
pub struct Material {
    pub run: Run,
    pub task: Task,
    /// Other tasks that matter for it, in their sequence.
    pub others: Vec<Task>,
    /// Oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The paths that its holder has claimed, or that were claimed for it.
    pub held_files: Vec<String>,
    /// The folder that was made for it, if it is worked on in one.
    pub workspace: Option<WorkspaceView>,
    /// How many messages wait for the caller.
    pub unread: u64,
    /// How many characters the surface sends along, beside the context itself.
    pub around: usize,
}

/// What a caller hears beside the context: how many messages wait for it, and in how many characters it is told so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beside {
    pub unread: u64,
    pub around: usize,
}

impl TaskContextHandle<'_> {
    /// The context of a task in at most `max_tokens`, what the surface says beside it included.
    pub async fn load(
        &self,
        task: &TaskId,
        include: &Include,
        max_tokens: usize,
        beside: Beside,
    ) -> Result<At<TaskContextView>, EngineError> {
        let found = self.material(task, beside).await?;
        let value = compose(&found.value, include, max_tokens)?;
        Ok(At { value, head: found.head })
    }

    async fn material(&self, id: &TaskId, beside: Beside) -> Result<At<Material>, EngineError> {
        let Some(task) = self.engine.query().task(id).await?.value else { return Err(unknown_task().into()) };
        // The default run has no order and may have any number of tasks: only those that are named matter.
        let others = if task.run == RunId::project_default() {
            let named: Vec<TaskId> = task.depends_on.iter().chain(&task.context_from).cloned().collect();
            tasks_named(&named)
        } else {
            tasks_query(&task.run)
        };
        let files =
            |column, value: &str| RowQuery::all(rookery_core::Table::Files).with(column, ColumnTest::Is(value.into()));
        let mut queries = vec![
            tasks_named(std::slice::from_ref(id)),
            run_query(&task.run),
            others,
            checkpoints_query(id),
            files("task", id.as_str()),
            workspaces_query(&task.run),
        ];
        queries.extend(task.holder().map(|holder| files("holder", holder.as_str())));
        let (lists, head) = self.engine.store().lists(queries).await?;
        let mut lists = lists.into_iter();
        let mut next = || lists.next().unwrap_or_default();
        let task = tasks_of(next()).pop().ok_or_else(unknown_task)?;
        let run = runs_of(next()).pop().unwrap_or_else(|| default_run(std::slice::from_ref(&task)));
        let mut others = tasks_of(next());
        others.retain(|other| other.id != task.id);
        others.sort_by_key(|other| (other.sequence, other.created));
        let checkpoints = checkpoints_of(next());
        let (of_task, workspaces) = (next(), next());
        let held = of_task.into_iter().chain(next());
        let value = Material {
            run,
            others,
            checkpoints,
            held_files: paths_of(held),
            workspace: workspace_of(workspaces, id),
            unread: beside.unread,
            around: beside.around,
            task,
        };
        Ok(At { value, head })
    }
}

/// The workspaces of a run that are worked in.
fn workspaces_query(run: &RunId) -> RowQuery {
    let mut runs: Vec<ColumnValue> = vec![run.as_str().into()];
    if *run == RunId::project_default() {
        runs.push(ColumnValue::Null);
    }
    let active = ColumnTest::Is(rookery_core::model::workspace::WorkspaceStatus::Active.as_str().into());
    let of_run =
        RowQuery::all(rookery_core::Table::Workspaces).with("status", active).with("run", ColumnTest::In(runs));
    of_run.ordered_by("created").at_most(Some(WORKSPACES))
}

/// The newest one for a task.
fn workspace_of(rows: Vec<Row>, task: &TaskId) -> Option<WorkspaceView> {
    let workspaces = rows.into_iter().rev().filter_map(|row| match row {
        Row::Workspace(workspace) if workspace.tasks.contains(task) => Some(workspace),
        _ => None,
    });
    let view = |found: Workspace| WorkspaceView { id: found.id, path: found.path, branch: found.branch };
    workspaces.map(view).next()
}

fn paths_of(rows: impl Iterator<Item = Row>) -> Vec<String> {
    let claimed = |file: &File| file.claim.is_some();
    let files = rows.filter_map(|row| if let Row::File(file) = row { Some(file) } else { None }).filter(claimed);
    let mut paths: Vec<String> = files.map(|file| file.path.to_string()).collect();
    paths.sort();
    paths.dedup();
    paths
}
