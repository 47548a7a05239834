//! What the others are told when somebody begins or ends to work in a worktree.

use std::path::Path;

use rookery_client::ClientError;
use rookery_client::Tools;
use serde_json::{Value, json};

use crate::cli::clock::Clock;

/// Why a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    /// Its work is merged.
    TaskComplete,
    /// Somebody wanted it to end.
    UserExit,
    /// It is over, and its worktree could not be removed.
    Error,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::TaskComplete => "task_complete",
            Self::UserExit => "user_exit",
            Self::Error => "error",
        }
    }
}

/// Whether an agent is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    Here,
    Away,
}

pub(super) async fn presence(tools: &Tools, name: &str) -> anyhow::Result<Presence> {
    let present = tools.call("coord_get_presence", json!({})).await?.value;
    let instances = present["instances"].as_array().cloned().unwrap_or_default();
    let own = instances.iter().find(|instance| instance["instance_id"] == name);
    Ok(if own.is_some_and(|own| own["status"] == "active") { Presence::Here } else { Presence::Away })
}

/// The agent is there from now on, and everybody is told so; the id of the message.
pub(super) async fn begin(tools: &Tools, name: &str, path: &Path, clock: &Clock) -> anyhow::Result<Value> {
    let session = clock.session_id();
    if presence(tools, name).await? == Presence::Away {
        arrive(tools, name, path).await?;
    }
    tools.call("coord_send_heartbeat", json!({ "session_id": session })).await?;
    let body = format!("Session started. CWD: {}, Session ID: {session}", path.display());
    publish(tools, "SESSION_START", &format!("Session started: {name}"), &body).await
}

/// One that is only offline comes back as it was; one that nobody knows, or that has left, joins.
async fn arrive(tools: &Tools, name: &str, path: &Path) -> Result<(), ClientError> {
    match tools.call("coord_send_heartbeat", json!({})).await {
        Err(error) if is_unknown(&error) => {
            let agent = json!({"name": name, "runtime": "custom", "workspace_path": path});
            tools.call("agent_register", agent).await.map(drop)
        }
        other => other.map(drop),
    }
}

/// Everybody is told that the agent ended, and it is there no more; the id of the message.
pub(super) async fn end(tools: &Tools, name: &str, reason: Reason) -> anyhow::Result<Value> {
    let body = format!("Session ended. Reason: {}", reason.as_str());
    let message = publish(tools, "SESSION_END", &format!("Session ended: {name}"), &body).await?;
    match tools.call("agent_unregister", json!({"id": name})).await {
        Err(error) if is_unknown(&error) => {}
        other => drop(other?),
    }
    Ok(message)
}

fn is_unknown(error: &ClientError) -> bool {
    error.code() == Some("AGENT_NOT_FOUND")
}

async fn publish(tools: &Tools, kind: &str, subject: &str, body: &str) -> anyhow::Result<Value> {
    let message = json!({"type": kind, "to": ["all"], "subject": subject, "body": body, "requires_ack": false});
    Ok(tools.call("coord_publish_message", message).await?.value["message_id"].clone())
}
