//! Answers of the daemon, as far as the command line shows them. Unknown fields are ignored, missing ones are empty.

use std::collections::BTreeMap;

use rookery_core::model::capabilities::SigningKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::ClientError;

#[derive(Debug, Deserialize)]
pub struct ListedAgent {
    pub id: String,
    #[serde(default)]
    pub tool: String,
    #[serde(default)]
    pub role: String,
    #[serde(default)]
    pub status: String,
    pub current_task: Option<String>,
    #[serde(default)]
    pub capabilities: Vec<String>,
    #[serde(default)]
    pub last_heartbeat: i64,
    /// The person who paused it, with a reason.
    pub paused: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub struct ListedResource {
    pub path: String,
    #[serde(default)]
    pub state: String,
    pub owner: Option<String>,
    pub claimed_at: Option<i64>,
    pub last_modified_by: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct StoredArtifact {
    #[serde(rename = "ref")]
    pub reference: String,
    #[serde(default)]
    pub size: u64,
    #[serde(default)]
    pub stored_at: i64,
    #[serde(default)]
    pub named: bool,
}

#[derive(Debug, Deserialize)]
pub struct ListedTask {
    pub id: String,
    #[serde(default)]
    pub title: String,
    pub assigned_to: Option<String>,
    #[serde(default)]
    pub status: String,
    /// The more detailed state, if the daemon provides it.
    pub state: Option<String>,
    #[serde(default)]
    pub created_at: i64,
}

#[derive(Debug, Deserialize)]
pub struct DeliveryList {
    pub deliveries: Vec<ListedDelivery>,
    pub next: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct ListedDelivery {
    pub id: String,
    #[serde(default)]
    pub message_id: String,
    #[serde(default)]
    pub agent_id: String,
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub queued_at: String,
    #[serde(default)]
    pub attempts: u32,
    pub last_error: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct EndpointList {
    pub endpoints: Vec<ListedEndpoint>,
}

#[derive(Debug, Deserialize)]
pub struct ListedEndpoint {
    pub name: String,
    pub state: String,
    #[serde(default)]
    pub behind: u64,
    pub failing: Option<EndpointFailure>,
    #[serde(default)]
    pub dead: Vec<ListedDeadLetter>,
}

#[derive(Debug, Deserialize)]
pub struct EndpointFailure {
    pub since: String,
    pub error: String,
}

#[derive(Debug, Deserialize)]
pub struct ListedDeadLetter {
    pub seq: u64,
    pub at: String,
    pub error: String,
}

#[derive(Debug, Deserialize)]
pub struct ListedRuns {
    pub runs: Vec<ListedRun>,
    pub next: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct ListedRun {
    pub run_id: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub status: String,
    pub task_count: Option<u32>,
    pub unfinished_count: Option<u32>,
    #[serde(default)]
    pub updated_at: String,
}

#[derive(Debug, Deserialize)]
pub struct RunTreeAnswer {
    #[serde(flatten)]
    pub run: ListedRun,
    pub tasks: Vec<RunTask>,
}

#[derive(Debug, Deserialize)]
pub struct RunTask {
    pub task_id: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub state: String,
    pub agent: Option<String>,
    #[serde(default)]
    pub waiting_on: Vec<String>,
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// Its alarms with their times.
    #[serde(default)]
    pub clocks: BTreeMap<String, String>,
    pub queued_ms: Option<i64>,
    #[serde(default)]
    pub working_ms: i64,
    #[serde(default)]
    pub children: Vec<RunTask>,
}

#[derive(Debug, Deserialize)]
pub struct Attempt {
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub agent: String,
    #[serde(default)]
    pub started_at: String,
    pub duration_ms: Option<i64>,
    pub outcome: Option<String>,
    pub error: Option<String>,
}

/// An agent's card, with its signing keys only.
#[derive(Debug, Deserialize)]
pub struct CardKeys {
    pub agent_id: String,
    #[serde(default)]
    pub security: CardSecurity,
}

#[derive(Debug, Default, Deserialize)]
pub struct CardSecurity {
    #[serde(default)]
    pub keys: Vec<SigningKey>,
}

/// The choice of the router.
#[derive(Debug, Deserialize)]
pub struct RouteChoice {
    pub selected: Option<String>,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub candidates: Vec<String>,
    #[serde(default)]
    pub scores: BTreeMap<String, f64>,
    #[serde(default)]
    pub rejected: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub struct ListedHandoff {
    pub id: String,
    #[serde(default)]
    pub from_agent: String,
    pub to_agent: Option<String>,
    #[serde(default)]
    pub task_id: String,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub summary: String,
    #[serde(default)]
    pub created_at: i64,
}

#[derive(Debug, Deserialize)]
pub struct LoggedEvent {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub timestamp: i64,
    #[serde(default)]
    pub agent_id: String,
    #[serde(default)]
    pub action: String,
    pub resource: Option<String>,
    pub task_id: Option<String>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

impl LoggedEvent {
    /// Its sequence number in the log, parsed from the id.
    pub fn seq(&self) -> Option<u64> {
        rookery_core::kernel::event_id::parse(&self.id).map(|seq| seq.0)
    }
}

#[derive(Debug, Deserialize)]
pub struct ListedToken {
    pub id: String,
    #[serde(default)]
    pub agent: String,
    #[serde(default)]
    pub role: String,
    pub label: Option<String>,
    pub created_at: Option<i64>,
    pub expires_at: Option<i64>,
}

/// A signed-in browser.
#[derive(Debug, Deserialize)]
pub struct ListedBrowserSession {
    pub id: String,
    #[serde(default)]
    pub person: String,
    #[serde(default)]
    pub browser: String,
    pub created_at: i64,
    pub last_used: i64,
    pub expires_at: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub struct ListedNode {
    #[serde(default)]
    pub host: String,
    #[serde(default)]
    pub pid: u32,
    #[serde(default)]
    pub version: String,
    pub site: NodeSite,
    #[serde(default)]
    pub last_seen: i64,
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub this: bool,
    #[serde(default)]
    pub leader_roles: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct NodeSite {
    #[serde(default)]
    pub root: String,
}

/// Parses an answer as `T`.
pub fn read<T: DeserializeOwned>(answer: &Value) -> Result<T, ClientError> {
    serde_json::from_value(answer.clone()).map_err(ClientError::Garbled)
}
