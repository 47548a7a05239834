//! The types of the wire, as the contract writes them. Optional in a request means: checked by the handler, so that the
//! error can name what is missing.

use rookery_core::TaskId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use crate::http::paths;

/// Which artifacts to remove of those that nothing names.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct CollectRequest {
    /// Only those last uploaded so long ago. Left out, as long as the daemon keeps them.
    pub older_than_seconds: Option<u64>,
    /// Only tell what would be removed.
    pub dry_run: Option<bool>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CollectResult {
    /// How many artifacts were removed, or would be.
    pub removed: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// How many stay because they are too young.
    pub young: u64,
    /// There may be more to remove: ask again.
    pub more: bool,
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    Idle,
    Working,
    Blocked,
    WaitingReview,
    Offline,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Agent {
    pub id: String,
    pub tool: String,
    /// `lead`, `specialist`, `worker`, or the text that the agent gave.
    pub role: String,
    pub status: AgentStatus,
    pub current_task: Option<String>,
    pub capabilities: Vec<String>,
    /// Unix epoch milliseconds.
    pub joined_at: i64,
    /// Unix epoch milliseconds of the newest sign of life.
    pub last_heartbeat: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The session of its program, as its heartbeats name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// It gets nothing new to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

/// Who paused an agent, and why.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Paused {
    pub by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Unix epoch milliseconds.
    pub since: i64,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct AnnounceRequest {
    #[schema(required = true, example = "claude-code-1")]
    pub id: Option<String>,
    #[schema(required = true, example = "claude-code")]
    pub tool: Option<String>,
    /// `lead`, `specialist`, `worker` or any other text, which counts as `worker`; `worker` if left out.
    pub role: Option<String>,
    /// `["code"]` if left out.
    pub capabilities: Option<Vec<String>>,
    pub name: Option<String>,
    pub workspace_path: Option<String>,
    pub metadata: Option<Map<String, Value>>,
}

/// The body of a sign of life. Other fields are ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct HeartbeatRequest {
    /// The session of the agent's program; it is shown with the agent.
    pub session_id: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AgentListQuery {
    /// At most this many.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Agents that joined after the one with this id.
    pub after: Option<String>,
}

/// Whether an agent that left is shown.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AgentQuery {
    /// `left`: one that left too.
    pub include: Option<Included>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Included {
    Left,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct StatusChange {
    #[schema(required = true)]
    pub status: Option<AgentStatus>,
    pub current_task: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceState {
    Free,
    Claimed,
    Locked,
    Conflicted,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Resource {
    pub path: String,
    pub state: ResourceState,
    pub owner: Option<String>,
    pub claimed_at: Option<i64>,
    pub last_modified_by: Option<String>,
    /// SHA-256 in hex; empty for a missing file or a folder.
    pub content_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The grant; a holder may send it as `X-Fence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<ConflictInfo>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ConflictInfo {
    pub holder: String,
    pub intruder: String,
    pub since: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct ClaimRequest {
    /// Relative to the project's root; one that ends in `/` claims the subtree.
    #[schema(required = true, example = "src/index.ts")]
    pub path: Option<String>,
    #[schema(required = true)]
    pub agent_id: Option<String>,
    pub task_id: Option<String>,
    /// Takes the claims of others over; only for the lead and people.
    pub force: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ClaimResult {
    pub granted: bool,
    /// Something to know about a claim that was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ClaimResult {
    pub fn grant(unknown_task: Option<&TaskId>) -> ClaimResult {
        ClaimResult { granted: true, note: unknown_task.map(paths::note_without_task), owner: None, reason: None }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct ReleaseRequest {
    #[schema(required = true)]
    pub path: Option<String>,
    #[schema(required = true)]
    pub agent_id: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ReleaseResult {
    pub released: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct ResolveRequest {
    #[schema(required = true)]
    pub path: Option<String>,
    /// The agent that holds the path from now on.
    #[schema(required = true)]
    pub winner: Option<String>,
    pub agent_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct LockRequest {
    #[schema(required = true)]
    pub path: Option<String>,
    pub agent_id: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ResourceQuery {
    /// `claimed` or `conflicted`.
    pub filter: Option<ResourceFilter>,
    /// At most this many.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Paths after this one.
    pub after: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceFilter {
    Claimed,
    Conflicted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Queued,
    Assigned,
    InProgress,
    Review,
    Done,
    Blocked,
}

/// The status that a change or a filter names. The `status` of a failed task is `blocked`, and its `state` is `failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestedStatus {
    Queued,
    Assigned,
    InProgress,
    Review,
    Done,
    Blocked,
    Failed,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Task {
    pub id: String,
    /// The run that it is part of; `run_default` is the project's own.
    pub run_id: String,
    pub title: String,
    pub description: String,
    pub assigned_to: Option<String>,
    pub assigned_by: String,
    pub status: TaskStatus,
    pub resources: Vec<String>,
    pub depends_on: Vec<String>,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub completed_at: Option<i64>,
    /// The state as every face knows it: pending, planning, in_progress, review, paused, completed, failed, skipped, cancelled.
    pub state: String,
    /// When it came into that state, in epoch milliseconds.
    pub state_since: i64,
    /// Why it is blocked, failed or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The dependencies that are not finished.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_detail: Option<Value>,
    /// The grant; the holder may send it as `X-Fence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    pub attempt: u32,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct NewTask {
    #[schema(required = true, example = "Implement auth module")]
    pub title: Option<String>,
    #[schema(required = true, example = "claude-code-1")]
    pub assigned_by: Option<String>,
    pub description: Option<String>,
    pub assigned_to: Option<String>,
    pub resources: Option<Vec<String>>,
    pub depends_on: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct TaskChange {
    #[schema(required = true)]
    pub status: Option<RequestedStatus>,
    #[schema(required = true)]
    pub agent_id: Option<String>,
    /// With `queued`, `blocked` or `failed`: why.
    pub reason: Option<String>,
    /// With `done`: what came of it.
    pub outcome: Option<String>,
    pub outcome_detail: Option<Value>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TaskQuery {
    /// `blocked` has the failed tasks too; `failed` has them alone.
    pub status: Option<RequestedStatus>,
    pub assigned_to: Option<String>,
    /// At most this many.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Tasks created after the one with this id.
    pub after: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct AssignRequest {
    #[schema(required = true)]
    pub agent_id: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct CancelRequest {
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoffStatus {
    Pending,
    Accepted,
    Rejected,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Handoff {
    pub id: String,
    pub from_agent: String,
    pub to_agent: Option<String>,
    pub task_id: String,
    pub status: HandoffStatus,
    pub summary: String,
    pub files_modified: Vec<String>,
    pub files_created: Vec<String>,
    pub context: String,
    pub blockers: Vec<String>,
    pub created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct NewHandoff {
    #[schema(required = true)]
    pub from_agent: Option<String>,
    pub to_agent: Option<String>,
    #[schema(required = true)]
    pub task_id: Option<String>,
    #[schema(required = true)]
    pub summary: Option<String>,
    pub files_modified: Option<Vec<String>>,
    pub files_created: Option<Vec<String>>,
    pub context: Option<String>,
    pub blockers: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct HandoffAnswer {
    #[schema(required = true)]
    pub agent_id: Option<String>,
    /// With a rejection: why.
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Accepted {
    pub accepted: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Rejected {
    pub rejected: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HandoffQuery {
    pub status: Option<HandoffStatus>,
    pub to_agent: Option<String>,
    /// At most this many.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Handoffs offered after the one with this id.
    pub after: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProtocolEvent {
    pub id: String,
    pub timestamp: i64,
    pub agent_id: String,
    /// One of the contract's actions, or `x.` and the kind of what happened.
    pub action: String,
    pub resource: Option<String>,
    pub task_id: Option<String>,
    pub before_hash: Option<String>,
    pub after_hash: Option<String>,
    pub metadata: Map<String, Value>,
    /// The place in the log: what `after` takes to read on from here.
    pub seq: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct NewEvent {
    #[schema(required = true)]
    pub agent_id: Option<String>,
    /// One of the contract's actions, or one of your own that begins with `x.`.
    #[schema(required = true, example = "x.note")]
    pub action: Option<String>,
    pub resource: Option<String>,
    pub task_id: Option<String>,
    pub before_hash: Option<String>,
    pub after_hash: Option<String>,
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    pub agent_id: Option<String>,
    /// An action, a kind of the log, or `x.` and a kind; an unknown name is an error.
    pub action: Option<String>,
    pub resource: Option<String>,
    pub run: Option<String>,
    pub task_id: Option<String>,
    /// Unix epoch milliseconds; events after this time.
    pub since: Option<i64>,
    /// 100 if left out, at most 1000.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// A position, or an event's id: events after it, oldest first.
    pub after: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StreamQuery {
    pub agent_id: Option<String>,
    /// An action, a kind of the log, or `x.` and a kind; an unknown name is an error.
    pub action: Option<String>,
    pub resource: Option<String>,
    pub run: Option<String>,
    /// A position, or an event's id, to resume after; `Last-Event-ID` does the same.
    pub after: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct StatusReport {
    pub version: String,
    pub project: String,
    pub port: u16,
    pub agents: AgentTotals,
    pub resources: ResourceTotals,
    pub tasks: TaskTotals,
    pub event_count: u64,
    /// The daemons that share the store, the longest running first.
    pub nodes: Vec<NodeInfo>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct NodeInfo {
    /// New with every start.
    pub id: String,
    pub host: String,
    pub pid: u32,
    /// Where it is reached from its own machine.
    pub url: Option<String>,
    pub version: String,
    pub site: SiteInfo,
    pub started_at: i64,
    pub last_seen: i64,
    pub state: NodeState,
    /// Whether it is the one that answers.
    pub this: bool,
    /// What it does for all: `sweeper`, `timers`, `effects`, `upkeep`.
    pub leader_roles: Vec<String>,
}

/// The folder of the project that a node serves.
#[derive(Debug, Serialize, ToSchema)]
pub struct SiteInfo {
    pub id: String,
    pub root: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    Online,
    Offline,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AgentTotals {
    pub total: u64,
    pub active: u64,
    pub lead: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ResourceTotals {
    pub total: u64,
    pub claimed: u64,
    pub conflicted: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TaskTotals {
    pub total: u64,
    pub in_progress: u64,
    pub done: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct StateSnapshot {
    pub agents: Vec<Agent>,
    pub resources: Vec<Resource>,
    pub tasks: Vec<Task>,
    pub handoffs: Vec<Handoff>,
    pub lead: Option<String>,
    pub event_count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenRole {
    Observer,
    Agent,
    Lead,
    Person,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct NewToken {
    /// The agent that the token is for; for the role `person`, the person's name.
    #[schema(required = true)]
    pub agent: Option<String>,
    /// `agent` if left out.
    pub role: Option<TokenRole>,
    pub expires_in_seconds: Option<u64>,
    pub label: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedToken {
    pub id: String,
    /// Shown this once.
    pub token: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TokenInfo {
    pub id: String,
    pub agent: String,
    pub role: TokenRole,
    pub created_at: i64,
    pub expires_at: Option<i64>,
    pub label: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct RedactRequest {
    /// The places in the log.
    pub seqs: Option<Vec<u64>>,
    /// A regular expression: every event whose text or body matches.
    #[serde(rename = "match")]
    pub pattern: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RedactResult {
    pub redacted: Vec<u64>,
    /// Events that still show what was looked for: in a name, an id or a path, which cannot be cleared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<u64>,
    /// Effects that were still under way when the answer was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Info {
    pub version: String,
    pub project: String,
    pub project_id: String,
    pub store: String,
    pub log: String,
    pub floor: u64,
    pub head: u64,
    pub writable: bool,
    pub watching: bool,
    pub tokens_required: bool,
    pub subscriptions: usize,
    pub uptime_ms: i64,
    pub warnings: Vec<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
pub struct HeldQuery {
    /// 100 unless said, 1000 at most.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
}

/// A message that waits for a person to decide.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeldMessage {
    pub id: String,
    pub from: String,
    pub at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    pub text: String,
    /// Why it was held.
    pub reason: String,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct HeldDecision {
    #[serde(default)]
    pub verdict: HeldVerdict,
    /// Why it is discarded.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldVerdict {
    #[default]
    Deliver,
    Discard,
}
