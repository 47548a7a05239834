//! Between the core's words and this face's, both ways, without IO.

use rookery_core::kernel::event_id;
use rookery_core::model::Presence;
use rookery_core::model::{agent, file, handoff, task};
use rookery_core::traits::LogRow;
use rookery_core::{AnyEvent, EventRef, NodeId};
use rookery_engine::query::TaskShape;
use rookery_engine::{NodeLiveness, Seen};
use serde_json::{Map, Value};

use super::event_names::action;
use super::wire;

/// Fields of a fact that the event shows in places of their own.
const SHOWN: [&str; 16] = [
    "id",
    "timer",
    "timer_version",
    "escalate_at",
    "path",
    "agent",
    "task",
    "before",
    "after",
    "hash",
    "action",
    "resource",
    "before_hash",
    "after_hash",
    "metadata",
    "by",
];

pub fn event(row: &LogRow) -> wire::ProtocolEvent {
    let (before_hash, after_hash) = hashes(&row.event);
    wire::ProtocolEvent {
        id: event_id::of(row.seq),
        timestamp: row.at.0,
        agent_id: row.concerns(),
        action: action(&row.event),
        resource: row.event.path().map(ToString::to_string),
        task_id: row.task().map(ToString::to_string),
        before_hash,
        after_hash,
        metadata: metadata(&row.event),
        seq: row.seq.0,
    }
}

fn hashes(fact: &AnyEvent) -> (Option<String>, Option<String>) {
    match fact.typed() {
        EventRef::FileModified(fact) => (Some(fact.before.clone()), Some(fact.after.clone())),
        EventRef::ConflictDetected(fact) => (Some(fact.before.clone()), Some(fact.after.clone())),
        EventRef::Report(report) => (report.before_hash.clone(), report.after_hash.clone()),
        _ => (None, None),
    }
}

/// What else the fact says; a reporter's own metadata as it gave it.
fn metadata(fact: &AnyEvent) -> Map<String, Value> {
    let Value::Object(mut fields) = fact.to_value() else { return Map::new() };
    let own = match fields.remove("metadata") {
        Some(Value::Object(own)) => own,
        _ => Map::new(),
    };
    if matches!(fact.typed(), EventRef::Report(_)) {
        return own;
    }
    // Whose inboxes of the Clutch face it reaches is no matter of this one.
    fields.remove("told");
    // The contract's `reason` is there even if it is empty.
    let told = |name: &str, value: &Value| name == "reason" && value.is_string();
    // A document's path is in its instance's folder, and no resource of the project.
    let is_shown = |name: &str| SHOWN.contains(&name) && !(name == "path" && fact.path().is_none());
    fields.retain(|name, value| !is_shown(name) && (told(name, value) || !is_nothing(value)));
    fields.extend(own);
    if matches!(fact.typed(), EventRef::TaskReserved(_)) {
        // The action is that of a claim too.
        fields.insert("reserved".to_owned(), Value::Bool(true));
    }
    fields
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

pub fn agent(agent: agent::Agent, presence: Option<Presence>) -> wire::Agent {
    let seen = presence.map_or(agent.seen_at, |presence| presence.last_seen.max(agent.seen_at));
    wire::Agent {
        id: agent.id.to_string(),
        role: agent.profile.shown_role().to_owned(),
        tool: agent.profile.tool,
        status: match agent.status {
            agent::AgentStatus::Idle => wire::AgentStatus::Idle,
            agent::AgentStatus::Working => wire::AgentStatus::Working,
            agent::AgentStatus::Blocked => wire::AgentStatus::Blocked,
            agent::AgentStatus::WaitingReview => wire::AgentStatus::WaitingReview,
            agent::AgentStatus::Offline => wire::AgentStatus::Offline,
        },
        current_task: agent.current_task.map(|task| task.to_string()),
        capabilities: agent.profile.capabilities,
        joined_at: agent.joined_at.0,
        last_heartbeat: seen.0,
        name: agent.profile.name,
        workspace_path: agent.profile.workspace_path,
        metadata: agent.profile.metadata,
        session_id: agent.profile.session_id,
        paused: agent.paused.map(|paused| wire::Paused { by: paused.by, reason: paused.reason, since: paused.since.0 }),
    }
}

/// A role as an agent gives it.
pub fn role(text: &str) -> agent::StatedRole {
    agent::StatedRole::read(text, agent::AgentRole::as_str)
}

pub fn agent_status(status: wire::AgentStatus) -> agent::AgentStatus {
    match status {
        wire::AgentStatus::Idle => agent::AgentStatus::Idle,
        wire::AgentStatus::Working => agent::AgentStatus::Working,
        wire::AgentStatus::Blocked => agent::AgentStatus::Blocked,
        wire::AgentStatus::WaitingReview => agent::AgentStatus::WaitingReview,
        wire::AgentStatus::Offline => agent::AgentStatus::Offline,
    }
}

/// A node as `this` one shows it.
pub fn node(seen: Seen, this: &NodeId) -> wire::NodeInfo {
    let Seen { node, last_seen, liveness, leader_roles } = seen;
    wire::NodeInfo {
        this: node.id == *this,
        id: node.id.to_string(),
        host: node.host,
        pid: node.pid,
        url: node.url,
        version: node.version,
        site: wire::SiteInfo { id: node.site.id.to_string(), root: node.site.root },
        started_at: node.started_at.0,
        last_seen: last_seen.0,
        state: match liveness {
            NodeLiveness::Online => wire::NodeState::Online,
            NodeLiveness::Offline => wire::NodeState::Offline,
        },
        leader_roles: leader_roles.into_iter().map(|role| role.name().to_owned()).collect(),
    }
}

pub fn resource(file: file::File) -> wire::Resource {
    let state = match file.state() {
        file::FileState::Free => wire::ResourceState::Free,
        file::FileState::Claimed => wire::ResourceState::Claimed,
        file::FileState::Locked => wire::ResourceState::Locked,
        file::FileState::Conflicted => wire::ResourceState::Conflicted,
    };
    let claim = file.claim;
    wire::Resource {
        path: file.path.to_string(),
        state,
        owner: claim.as_ref().map(|claim| claim.holder.to_string()),
        claimed_at: claim.as_ref().map(|claim| claim.since.0),
        last_modified_by: file.last_modified_by.map(|agent| agent.to_string()),
        content_hash: file.content_hash,
        task_id: claim.as_ref().and_then(|claim| claim.task.as_ref()).map(ToString::to_string),
        fence: claim.as_ref().map(|claim| claim.fence.0),
        conflict: file.conflict.map(|conflict| wire::ConflictInfo {
            holder: conflict.holder.to_string(),
            intruder: conflict.intruder.to_string(),
            since: conflict.since.0,
        }),
    }
}

/// The status this face shows a task with.
pub fn task_status(task: &task::Task) -> wire::TaskStatus {
    match task.state {
        task::TaskState::Pending if task.is_blocked() => wire::TaskStatus::Blocked,
        task::TaskState::Pending if task.held_by().is_some() => wire::TaskStatus::Assigned,
        task::TaskState::Pending => wire::TaskStatus::Queued,
        task::TaskState::Planning => wire::TaskStatus::Assigned,
        task::TaskState::InProgress => wire::TaskStatus::InProgress,
        task::TaskState::Review => wire::TaskStatus::Review,
        task::TaskState::Completed | task::TaskState::Skipped | task::TaskState::Cancelled => wire::TaskStatus::Done,
        task::TaskState::Failed | task::TaskState::Paused => wire::TaskStatus::Blocked,
    }
}

/// The tasks that a status stands for: the inverse of [`task_status`], and `failed` for those that failed.
pub fn shapes(status: wire::RequestedStatus) -> Vec<TaskShape> {
    use task::TaskState;
    let pending = |held, waiting| TaskShape { state: TaskState::Pending, held, waiting: Some(waiting) };
    match status {
        wire::RequestedStatus::Queued => vec![pending(Some(false), false)],
        wire::RequestedStatus::Assigned => vec![pending(Some(true), false), TaskShape::of(TaskState::Planning)],
        wire::RequestedStatus::InProgress => vec![TaskShape::of(TaskState::InProgress)],
        wire::RequestedStatus::Review => vec![TaskShape::of(TaskState::Review)],
        wire::RequestedStatus::Done => {
            [TaskState::Completed, TaskState::Skipped, TaskState::Cancelled].map(TaskShape::of).to_vec()
        }
        wire::RequestedStatus::Blocked => {
            vec![pending(None, true), TaskShape::of(TaskState::Failed), TaskShape::of(TaskState::Paused)]
        }
        wire::RequestedStatus::Failed => vec![TaskShape::of(TaskState::Failed)],
    }
}

pub fn task(task: task::Task) -> wire::Task {
    wire::Task {
        status: task_status(&task),
        assigned_to: task.assignee().map(ToString::to_string),
        id: task.id.to_string(),
        run_id: task.run.to_string(),
        title: task.title,
        description: task.description,
        assigned_by: task.assigned_by,
        resources: task.resources,
        depends_on: task.depends_on.iter().map(ToString::to_string).collect(),
        created_at: task.created_at.0,
        started_at: task.started_at.map(|at| at.0),
        completed_at: task.completed_at.map(|at| at.0),
        state: task.state.as_str().to_owned(),
        state_since: task.state_since.0,
        reason: task.reason,
        waiting_on: task.waiting_on.iter().map(ToString::to_string).collect(),
        outcome: task.outcome,
        outcome_detail: task.outcome_detail,
        fence: task.claim.map(|claim| claim.fence.0),
        attempt: task.attempt,
    }
}

pub fn handoff(handoff: handoff::Handoff) -> wire::Handoff {
    wire::Handoff {
        id: handoff.id.to_string(),
        from_agent: handoff.from.to_string(),
        to_agent: handoff.to.map(|agent| agent.to_string()),
        task_id: handoff.task.to_string(),
        status: match handoff.status {
            handoff::HandoffStatus::Pending => wire::HandoffStatus::Pending,
            handoff::HandoffStatus::Accepted => wire::HandoffStatus::Accepted,
            handoff::HandoffStatus::Rejected => wire::HandoffStatus::Rejected,
        },
        summary: handoff.note.summary,
        files_modified: handoff.note.files_modified,
        files_created: handoff.note.files_created,
        context: handoff.note.context,
        blockers: handoff.note.blockers,
        created_at: handoff.created_at.0,
        answered_by: handoff.answered_by.map(|agent| agent.to_string()),
        reason: handoff.reason,
    }
}
