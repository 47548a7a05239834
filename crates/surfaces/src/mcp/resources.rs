//! What can be read and followed besides calling tools: an agent's inbox.

use rmcp::model::{Resource, ResourceTemplate};
use rookery_core::{Actor, AgentId, Caller, Code, Power, Refusal};
use serde_json::json;

use super::call::Call;
use super::error::ToolError;
use super::unread::unread;
use crate::rest::translate::handoff as shown;

const PREFIX: &str = "rookery://agents/";
const SUFFIX: &str = "/inbox";
const JSON: &str = "application/json";

/// The address of an agent's inbox.
pub fn inbox(agent: &AgentId) -> String {
    format!("{PREFIX}{agent}{SUFFIX}")
}

/// The agent whose inbox an address names; `None` if it names something else.
pub fn owner(address: &str) -> Option<AgentId> {
    let agent = address.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (!agent.is_empty() && !agent.contains('/')).then(|| AgentId::from(agent))
}

pub fn listed(agent: &AgentId) -> Resource {
    Resource::new(inbox(agent), format!("inbox of {agent}"))
        .with_description("What waits for this agent: unread messages and handoffs offered to it.")
        .with_mime_type(JSON)
}

pub fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{PREFIX}{{id}}{SUFFIX}"), "inbox")
        .with_description("What waits for an agent. Subscribe to be told when something new does.")
        .with_mime_type(JSON)
}

/// Lets an agent see its own inbox; the lead's credential and people see all.
pub async fn may_see(call: &Call, agent: &AgentId) -> Result<(), ToolError> {
    let caller = reader(call, agent)?;
    call.engine().visit(&caller).await?;
    if caller.actor.agent() == Some(agent) || caller.power >= Power::Lead {
        return Ok(());
    }
    Err(Refusal::new(Code::Forbidden, format!("the inbox of '{agent}' is not yours")).into())
}

/// Who reads an inbox: the caller, or whoever gave no name and thereby says that it is the inbox's agent.
fn reader(call: &Call, agent: &AgentId) -> Result<Caller, ToolError> {
    let caller = call.caller(None)?;
    if caller.actor == Actor::Nobody { call.caller(Some(agent.as_str())) } else { Ok(caller) }
}

/// The inbox as JSON.
pub async fn read(call: &Call, agent: &AgentId) -> Result<String, ToolError> {
    let caller = reader(call, agent)?;
    let offered = call.engine().handoffs(Some("pending"), Some(agent)).await?;
    let handoffs: Vec<_> = offered.value.into_iter().map(shown).collect();
    let unread = unread(call.app(), &caller).await;
    Ok(json!({"agent_id": agent.as_str(), "unread": unread, "handoffs": handoffs}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_one_agent() {
        assert_eq!(owner(&inbox(&"reviewer@pr-1".into())), Some("reviewer@pr-1".into()));
        for other in ["rookery://agents//inbox", "rookery://agents/a/b/inbox", "rookery://agents/a", "file:///etc"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
