//! Between the core's words and those of the tools, both ways, without IO.

use rookery_core::Timestamp;
use rookery_core::model::Presence;
use rookery_core::model::{agent, run, task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The workflow tools' words for a task's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Pending,
    Blocked,
    Planning,
    InProgress,
    Paused,
    Completed,
    Failed,
    Skipped,
}

pub fn task_status(task: &task::Task) -> TaskStatus {
    match task.state {
        task::TaskState::Pending if task.is_blocked() => TaskStatus::Blocked,
        task::TaskState::Pending => TaskStatus::Pending,
        task::TaskState::Planning => TaskStatus::Planning,
        task::TaskState::InProgress | task::TaskState::Review => TaskStatus::InProgress,
        task::TaskState::Paused => TaskStatus::Paused,
        task::TaskState::Completed => TaskStatus::Completed,
        task::TaskState::Failed => TaskStatus::Failed,
        task::TaskState::Skipped | task::TaskState::Cancelled => TaskStatus::Skipped,
    }
}

/// A task as its row has it. What there is nothing to say of is left out.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct TaskView {
    pub id: String,
    pub workflow_id: String,
    pub name: String,
    pub description: String,
    pub status: TaskStatus,
    /// The exact state, where `status` puts several into one word.
    pub state: String,
    /// Its place in the order of the workflow; 0 if there is none.
    pub sequence: u32,
    /// Who holds it, or for whom it is kept, or who did it.
    pub assigned_agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<i64>,
    /// Send it with later calls to be refused if somebody else got the task meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    pub depends_on: Vec<String>,
    /// Dependencies that are not finished.
    pub blocked_by: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_complexity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_path: Option<String>,
    /// The tasks whose outcomes matter for it, where those are not all before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_from: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<TaskPlanView>,
    /// What its worker wants to find again.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_detail: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it is paused, was given back or was dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a paused task waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_likely_affected: Vec<String>,
    /// The files that its checkpoints name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
    pub attempt: u32,
    pub created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<i64>,
}

pub fn task(task: task::Task) -> TaskView {
    let failed = task.state == task::TaskState::Failed;
    TaskView {
        status: task_status(&task),
        assigned_agent_id: task.assignee().map(ToString::to_string),
        id: task.id.to_string(),
        workflow_id: task.run.to_string(),
        name: task.title,
        description: task.description,
        state: task.state.as_str().to_owned(),
        sequence: task.sequence,
        claimed_at: task.claim.as_ref().map(|claim| claim.since.0),
        fence: task.claim.as_ref().map(|claim| claim.fence.0),
        depends_on: task.depends_on.iter().map(ToString::to_string).collect(),
        blocked_by: task.waiting_on.iter().map(ToString::to_string).collect(),
        parallel_group: task.details.parallel_group,
        estimated_complexity: task.details.estimated_complexity.map(|word| word.as_str().to_owned()),
        repository_path: task.details.repository_path,
        context_from: task.context_from.iter().map(ToString::to_string).collect(),
        plan: task.plan.map(TaskPlanView::from),
        context: task.context,
        outcome: task.outcome,
        outcome_detail: task.outcome_detail,
        error: task.reason.clone().filter(|_| failed),
        reason: task.reason.filter(|_| !failed),
        waiting_for: task.waiting_for.map(|word| word.as_str().to_owned()),
        files_likely_affected: task.resources,
        files_changed: task.files_changed.into_iter().collect(),
        attempt: task.attempt,
        created_at: task.created_at.0,
        started_at: task.started_at.map(|at| at.0),
        completed_at: task.completed_at.map(|at| at.0),
    }
}

/// How many seconds whoever a task is kept for has to claim it, if there is such a time.
pub fn accept_within(task: &task::Task, now: Timestamp) -> Option<u64> {
    task.clocks.get(task::AlarmKind::Accept).map(|alarm| seconds_until(alarm.due, now))
}

/// How many whole seconds are left.
pub fn seconds_until(due: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(due.0.saturating_sub(now.0)).unwrap_or(0) / 1_000
}

/// How a worker means to do a task, both as it is told and as it is shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskPlanView {
    /// How you mean to do it, in a few sentences.
    pub approach: String,
    /// The steps, in their order.
    pub steps: Vec<String>,
    /// Files that will change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_to_modify: Vec<String>,
    /// Files that will be new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_to_create: Vec<String>,
    /// What you still need to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_needed: Vec<String>,
}

impl From<task::TaskPlan> for TaskPlanView {
    fn from(plan: task::TaskPlan) -> TaskPlanView {
        let task::TaskPlan { approach, steps, files_to_modify, files_to_create, context_needed } = plan;
        TaskPlanView { approach, steps, files_to_modify, files_to_create, context_needed }
    }
}

impl From<TaskPlanView> for task::TaskPlan {
    fn from(plan: TaskPlanView) -> task::TaskPlan {
        let TaskPlanView { approach, steps, files_to_modify, files_to_create, context_needed } = plan;
        task::TaskPlan { approach, steps, files_to_modify, files_to_create, context_needed }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct CheckpointView {
    pub id: String,
    pub task_id: String,
    pub sequence: u32,
    #[serde(rename = "type")]
    pub kind: String,
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
    pub created_at: i64,
}

pub fn checkpoint(checkpoint: task::Checkpoint) -> CheckpointView {
    CheckpointView {
        id: checkpoint.id,
        task_id: checkpoint.task.to_string(),
        sequence: checkpoint.sequence,
        kind: checkpoint.kind.as_str().to_owned(),
        summary: checkpoint.summary,
        detail: checkpoint.detail,
        files_changed: checkpoint.files_changed,
        created_at: checkpoint.created_at.0,
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct WorkflowView {
    pub id: String,
    pub name: String,
    pub status: String,
    /// Why it was last given its status by somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status_reason: Option<String>,
    pub source_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<String>,
    pub source_content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_summary: Option<String>,
    pub repository_paths: Vec<String>,
    pub max_parallel_tasks: u32,
    pub auto_create_workspaces: bool,
    /// Settings of it, and the plans that it had before.
    pub config: Map<String, Value>,
    pub created_by: String,
    pub created_at: i64,
    pub updated_at: i64,
    /// In their order; empty unless they were asked for.
    pub tasks: Vec<TaskView>,
}

pub fn workflow(run: run::Run, tasks: Vec<task::Task>) -> WorkflowView {
    WorkflowView {
        id: run.id.to_string(),
        name: run.brief.title,
        status: run.status.as_str().to_owned(),
        last_status_reason: run.reason,
        source_type: run.brief.source_type.as_str().to_owned(),
        source_ref: run.brief.source_ref,
        source_content: run.brief.source_content,
        plan_summary: run.summary,
        repository_paths: run.brief.repository_paths,
        max_parallel_tasks: run.brief.max_parallel_tasks,
        auto_create_workspaces: run.brief.auto_create_workspaces,
        config: run.brief.config,
        created_by: run.created_by,
        created_at: run.created_at.0,
        updated_at: run.updated_at.0,
        tasks: tasks.into_iter().map(task).collect(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    Online,
    Busy,
    Offline,
}

pub fn agent_status(status: agent::AgentStatus) -> AgentStatus {
    match status {
        agent::AgentStatus::Idle => AgentStatus::Online,
        agent::AgentStatus::Working | agent::AgentStatus::Blocked | agent::AgentStatus::WaitingReview => {
            AgentStatus::Busy
        }
        agent::AgentStatus::Offline => AgentStatus::Offline,
    }
}

pub fn status_of(status: AgentStatus) -> agent::AgentStatus {
    match status {
        AgentStatus::Online => agent::AgentStatus::Idle,
        AgentStatus::Busy => agent::AgentStatus::Working,
        AgentStatus::Offline => agent::AgentStatus::Offline,
    }
}

/// The tools' name for a role.
fn role_name(role: agent::AgentRole) -> &'static str {
    match role {
        agent::AgentRole::Lead => "coordinator",
        agent::AgentRole::Worker => "worker",
        agent::AgentRole::Specialist => "specialist",
    }
}

/// A role as an agent gives it.
pub fn role(text: &str) -> agent::StatedRole {
    agent::StatedRole::read(text, role_name)
}

/// A runtime is the core's tool, with its own way to write compound names.
pub fn tool(runtime: &str) -> String {
    runtime.replace('_', "-")
}

pub fn runtime(tool: &str) -> String {
    tool.replace('-', "_")
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct AgentView {
    pub id: String,
    pub name: String,
    pub runtime: String,
    /// coordinator, worker, specialist, or the text that the agent gave.
    pub role: String,
    pub status: AgentStatus,
    pub capabilities: Vec<String>,
    pub current_task_id: Option<String>,
    pub workspace_path: Option<String>,
    /// The workflow that it joined for, if it said so.
    pub workflow_id: Option<String>,
    pub metadata: Map<String, Value>,
    /// The session of its program, as its heartbeats name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    pub last_heartbeat: i64,
    pub created_at: i64,
}

pub fn agent(agent: agent::Agent, presence: Option<Presence>) -> AgentView {
    AgentView {
        status: agent_status(agent.status),
        last_heartbeat: last_seen(&agent, presence).0,
        name: agent.profile.name.unwrap_or_else(|| agent.id.to_string()),
        id: agent.id.to_string(),
        runtime: runtime(&agent.profile.tool),
        role: agent.profile.role_name.unwrap_or_else(|| role_name(agent.profile.role).to_owned()),
        session_id: agent.profile.session_id,
        capabilities: agent.profile.capabilities,
        current_task_id: agent.current_task.map(|task| task.to_string()),
        workspace_path: agent.profile.workspace_path,
        workflow_id: joined_for(&agent.profile.metadata).map(str::to_owned),
        metadata: agent.profile.metadata,
        created_at: agent.joined_at.0,
    }
}

/// Where an agent's metadata says which workflow it joined for; other faces show it there.
pub const JOINED_FOR: &str = "workflow_id";

fn joined_for(metadata: &Map<String, Value>) -> Option<&str> {
    metadata.get(JOINED_FOR).and_then(Value::as_str)
}

pub fn last_seen(agent: &agent::Agent, presence: Option<Presence>) -> Timestamp {
    presence.map_or(agent.seen_at, |presence| presence.last_seen.max(agent.seen_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_read_back_as_written() {
        assert_eq!(runtime(&tool("claude_code")), "claude_code");
    }
}
