//! Coordination: who is there. An agent that nobody knows joins by calling these.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Nothing;
use crate::mcp::translate::{self, Presenting};
use crate::mcp::{Call, Effect, Reply, Tool, ToolError, Toolset};

type Answer<T> = Result<Reply<T>, ToolError>;

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "coord_get_presence",
            Reads,
            &[Coord],
            "See which agents are active, stale (offline for less than 15 minutes) or offline.",
            presence,
        ),
        Tool::new(
            "coord_send_heartbeat",
            Sets,
            &[Coord],
            "Show that you are active. Rarely needed: every call shows it, and 'rookery mcp' does so by itself.",
            heartbeat,
        ),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Instance {
    instance_id: String,
    status: Presenting,
    last_heartbeat: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Instances {
    instances: Vec<Instance>,
}

async fn presence(call: Call, _: Nothing) -> Answer<Instances> {
    let caller = call.reader().await?;
    call.arrive(&caller).await?;
    let (engine, now) = (call.engine(), call.engine().clock().now());
    let instances = engine.agents().await?.value.into_iter().map(|agent| Instance {
        status: translate::presenting(agent.membership, now),
        last_heartbeat: translate::iso(translate::last_seen(&agent, engine.board().get(&agent.id))),
        instance_id: agent.id.to_string(),
    });
    Ok(Reply::of(Instances { instances: instances.collect() }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Beating {
    /// Your id. Not needed if you are connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Beaten {
    success: bool,
    timestamp: String,
}

async fn heartbeat(call: Call, asked: Beating) -> Answer<Beaten> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    call.arrive(&caller).await?;
    call.engine().heartbeat(&caller, &agent).await?;
    Ok(Reply::of(Beaten { success: true, timestamp: translate::iso(call.engine().clock().now()) }))
}
