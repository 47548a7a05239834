//! The filters and views of runs and their tasks.

use std::collections::BTreeMap;

use rookery_core::model::run::{Run, RunStatus, SourceType};
use rookery_core::model::task::{CheckpointKind, Task};
use rookery_core::{AgentId, RunId, TaskId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// Which runs, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunFilter {
    /// One of these; any if there are none.
    pub status: Vec<RunStatus>,
    pub repository_path: Option<String>,
    pub limit: u32,
    pub offset: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct RunPage {
    pub workflows: Vec<RunHead>,
    /// How many there are without limit and offset.
    pub total: u64,
}

/// A run as lists show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct RunHead {
    #[schemars(with = "String")]
    pub id: RunId,
    pub name: String,
    #[schemars(with = "String")]
    pub status: RunStatus,
    #[schemars(with = "String")]
    pub source_type: SourceType,
    #[schemars(with = "i64")]
    pub created_at: Timestamp,
    #[schemars(with = "i64")]
    pub updated_at: Timestamp,
}

/// A run and its tasks, in their sequence.
#[derive(Clone, PartialEq, Debug)]
pub struct Workflow {
    pub run: Run,
    pub tasks: Vec<Task>,
}

/// Whether failed tasks are among what can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedTasks {
    Offered,
    LeftOut,
}

/// Who looks for something to do, and among what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Search {
    pub failed: FailedTasks,
    /// What is kept for this agent goes before everything else.
    pub agent: Option<AgentId>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct NextTasks {
    pub tasks: Vec<NextTask>,
    pub max_parallel: u32,
    pub recommended_count: usize,
    pub workflow_status: RunStatus,
    pub all_complete: bool,
}

/// What can be done now in any workflow.
#[derive(Clone, PartialEq, Debug)]
pub struct OpenTasks {
    pub tasks: Vec<NextTask>,
    /// How many of these to begin now: no more of a workflow than may be worked on beside what is.
    pub recommended_count: usize,
    /// Nothing is left to do anywhere.
    pub all_complete: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct NextTask {
    pub task: Task,
    pub can_parallelize: bool,
    /// Others of its group that can be taken now.
    pub parallel_with: Vec<TaskId>,
    /// The names of what it waited for.
    pub dependencies_completed: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Progress {
    pub total_tasks: usize,
    pub by_status: BTreeMap<&'static str, usize>,
    /// Everything up to this place in the order is finished.
    pub completed_sequence: u32,
    /// The first place that is not finished.
    pub current_sequence: Option<u32>,
    /// What somebody has begun or holds and nobody has finished: where to go on.
    pub current_tasks: Vec<CurrentTask>,
    pub blocked_tasks: Vec<BlockedTask>,
    pub parallel_groups: BTreeMap<String, GroupProgress>,
    /// How many tasks are left to do.
    pub estimated_remaining: usize,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct CurrentTask {
    #[schemars(with = "String")]
    pub id: TaskId,
    pub name: String,
    pub status: &'static str,
    pub sequence: u32,
    #[schemars(with = "Option<String>")]
    pub assigned_agent_id: Option<AgentId>,
    /// How many checkpoints tell where it stands.
    pub checkpoints: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct BlockedTask {
    #[schemars(with = "String")]
    pub id: TaskId,
    pub name: String,
    pub blocked_by: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct GroupProgress {
    pub task_count: usize,
    pub completed: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SummaryFormat {
    Json,
    Markdown,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Summary {
    pub summary: String,
    pub token_estimate: usize,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Dependencies {
    pub satisfied: bool,
    pub pending: Vec<PendingDependency>,
    pub completed: Vec<CompletedDependency>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PendingDependency {
    #[schemars(with = "String")]
    pub id: TaskId,
    pub name: String,
    pub status: &'static str,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct CompletedDependency {
    #[schemars(with = "String")]
    pub id: TaskId,
    pub name: String,
    pub outcome: Option<String>,
}

/// Which checkpoints of a task, oldest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointFilter {
    pub task: TaskId,
    /// One of these; any if there are none.
    pub kinds: Vec<CheckpointKind>,
    /// Only later ones.
    pub since_sequence: Option<u32>,
    pub limit: Option<usize>,
}

/// What a command did to a plan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanChange {
    pub added: Vec<TaskId>,
    pub removed: Vec<TaskId>,
    pub preserved: Vec<TaskId>,
    pub dependencies_rewired: usize,
    pub tasks_renumbered: usize,
}
