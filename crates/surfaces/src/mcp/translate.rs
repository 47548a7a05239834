//! Between the core's words and those of the tools, both ways, without IO.

use rookery_core::view::Presence;
use rookery_core::{Timestamp, agent, task};
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
        task::State::Pending if task.is_waiting() => TaskStatus::Blocked,
        task::State::Pending => TaskStatus::Pending,
        task::State::Planning => TaskStatus::Planning,
        task::State::InProgress | task::State::Review => TaskStatus::InProgress,
        task::State::Paused => TaskStatus::Paused,
        task::State::Completed => TaskStatus::Completed,
        task::State::Failed => TaskStatus::Failed,
        task::State::Skipped | task::State::Cancelled => TaskStatus::Skipped,
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct TaskView {
    pub id: String,
    pub workflow_id: String,
    pub name: String,
    pub description: String,
    pub status: TaskStatus,
    /// The exact state, where `status` puts several into one word.
    pub state: String,
    /// Who holds it, or for whom it is kept, or who did it.
    pub assigned_agent_id: Option<String>,
    pub claimed_at: Option<i64>,
    /// Send it with later calls to be refused if somebody else got the task meanwhile.
    pub fence: Option<u64>,
    pub depends_on: Vec<String>,
    /// Dependencies that are not finished.
    pub blocked_by: Vec<String>,
    pub outcome: Option<String>,
    pub outcome_detail: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// Why it is paused or was dropped.
    pub reason: Option<String>,
    pub files_likely_affected: Vec<String>,
    pub attempt: u32,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub completed_at: Option<i64>,
}

pub fn task(task: task::Task) -> TaskView {
    let failed = task.state == task::State::Failed;
    TaskView {
        status: task_status(&task),
        assigned_agent_id: task.assignee().map(ToString::to_string),
        id: task.id.to_string(),
        workflow_id: task.run.to_string(),
        name: task.title,
        description: task.description,
        state: task.state.as_str().to_owned(),
        claimed_at: task.claim.as_ref().map(|claim| claim.since.0),
        fence: task.claim.as_ref().map(|claim| claim.fence.0),
        depends_on: task.depends_on.iter().map(ToString::to_string).collect(),
        blocked_by: task.waiting_on.iter().map(ToString::to_string).collect(),
        outcome: task.outcome,
        outcome_detail: task.outcome_detail,
        error: task.reason.clone().filter(|_| failed),
        reason: task.reason.filter(|_| !failed),
        files_likely_affected: task.resources,
        attempt: task.attempt,
        created_at: task.created_at.0,
        started_at: task.started_at.map(|at| at.0),
        completed_at: task.completed_at.map(|at| at.0),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    Online,
    Busy,
    Offline,
}

pub fn agent_status(status: agent::Status) -> AgentStatus {
    match status {
        agent::Status::Idle => AgentStatus::Online,
        agent::Status::Working | agent::Status::Blocked | agent::Status::WaitingReview => AgentStatus::Busy,
        agent::Status::Offline => AgentStatus::Offline,
    }
}

pub fn status_of(status: AgentStatus) -> agent::Status {
    match status {
        AgentStatus::Online => agent::Status::Idle,
        AgentStatus::Busy => agent::Status::Working,
        AgentStatus::Offline => agent::Status::Offline,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    Coordinator,
    Worker,
    Specialist,
}

pub fn role(role: AgentRole) -> agent::Role {
    match role {
        AgentRole::Coordinator => agent::Role::Lead,
        AgentRole::Worker => agent::Role::Worker,
        AgentRole::Specialist => agent::Role::Specialist,
    }
}

pub fn shown_role(role: agent::Role) -> AgentRole {
    match role {
        agent::Role::Lead => AgentRole::Coordinator,
        agent::Role::Worker => AgentRole::Worker,
        agent::Role::Specialist => AgentRole::Specialist,
    }
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
    pub role: AgentRole,
    pub status: AgentStatus,
    pub capabilities: Vec<String>,
    pub current_task_id: Option<String>,
    pub workspace_path: Option<String>,
    pub metadata: Map<String, Value>,
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
        role: shown_role(agent.profile.role),
        capabilities: agent.profile.capabilities,
        current_task_id: agent.current_task.map(|task| task.to_string()),
        workspace_path: agent.profile.workspace_path,
        metadata: agent.profile.metadata,
        created_at: agent.joined_at.0,
    }
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
