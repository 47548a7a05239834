//! Agents: joining, showing life, leaving, and who else is here.

use rookery_core::agents::{
    Announcement, CurrentTask, Introduction, LeaveTeam, ProfileChange, RegisterAgent, SetAgentStatus,
};
use rookery_core::model::agent::Agent;
use rookery_core::{AgentId, Caller, Code, Rejection, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Done;
use crate::mcp::arguments::{name, name_or_null, one_or_many, text_or_null};
use crate::mcp::translate::{self, AgentStatus, AgentView};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "agent_register",
            // One that nobody knows gets a new id each time.
            Adds,
            &[Workflow, Team],
            "Join the team. Call it once when you start, and after your context was cleared. The returned id is your \
             agent_id. Next: workflow_next_tasks.",
            register,
        )
        .beginning(),
        Tool::new(
            "agent_heartbeat",
            Sets,
            &[Workflow],
            "Show that you are alive and say what you are doing. Any call does that too; use this during long work \
             without calls, every next_heartbeat_ms. An agent that stays silent loses its claims.",
            heartbeat,
        ),
        Tool::new(
            "agent_unregister",
            Ends,
            &[Workflow],
            "Leave the team when you are done. Your tasks go back to the queue and your files are freed.",
            unregister,
        )
        .naming_caller(&["id", "agent_id"]),
        Tool::new(
            "agent_get",
            Reads,
            &[Workflow],
            "Look up one agent by its id: what it is, whether it is there, what it works on.",
            get,
        ),
        Tool::new(
            "agent_list",
            Reads,
            &[Workflow],
            "List the agents of the team, in the order they joined. Use it to find out whom to hand work to.",
            list,
        ),
        Tool::new(
            "agent_update",
            Sets,
            &[Workflow],
            "Change your status, your current task, your workspace or your metadata. Metadata is merged into what is \
             there.",
            update,
        )
        .naming_caller(&["id", "agent_id"]),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AgentRegisterArgs {
    /// What people call you.
    name: String,
    /// Your program: claude_code, codex, opencode, custom, …
    runtime: String,
    /// coordinator, worker, specialist or any other text, which counts as worker. The first coordinator leads.
    #[schemars(extend("x-rare" = true))]
    #[serde(default, deserialize_with = "name")]
    role: Option<String>,
    /// What you are good at.
    capabilities: Option<Vec<String>>,
    /// The folder you work in.
    #[schemars(extend("x-rare" = true))]
    workspace_path: Option<String>,
    /// The workflow you join for.
    #[schemars(extend("x-rare" = true))]
    #[serde(default, deserialize_with = "name")]
    workflow_id: Option<String>,
    /// Anything else.
    #[schemars(extend("x-rare" = true))]
    metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgentRegisterResult {
    id: String,
    name: String,
    status: AgentStatus,
}

async fn register(call: Call, asked: AgentRegisterArgs) -> ToolAnswer<AgentRegisterResult> {
    let (caller, id) = newcomer(&call, &asked.name).await?;
    let mut added_metadata = Map::new();
    if let Some(workflow) = asked.workflow_id {
        call.engine().runs().run(&RunId::from(workflow.as_str())).await?;
        added_metadata.insert(translate::JOINED_FOR.to_owned(), workflow.into());
    }
    let introduction = Introduction {
        tool: translate::tool(&asked.runtime),
        name: asked.name,
        role: asked.role.as_deref().map(translate::role),
        capabilities: asked.capabilities,
        workspace_path: asked.workspace_path,
        metadata: asked.metadata,
        added_metadata,
    };
    let announcement = Announcement::Introduction(introduction);
    let committed = call.submit(caller, RegisterAgent { agent: id.clone(), announcement }).await?;
    if !call.sender().is_known() {
        call.bound().add(id);
    }
    let view = translate::agent(committed.reply, None);
    Ok(ToolReply::new(AgentRegisterResult { id: view.id, name: view.name, status: view.status }))
}

/// Who registers: whoever is identified is itself, and one process is one agent. An unknown one gets an id.
async fn newcomer(call: &Call, name: &str) -> Result<(Caller, AgentId), ToolError> {
    let own = call.caller(None)?;
    if call.sender().is_known() {
        return call.writer(None);
    }
    if let Some(agent) = own.actor.agent() {
        // The same session again; under another name it is another agent that shares the connection.
        let known = call.engine().query().agent(agent).await?.value;
        if known.is_some_and(|known| known.profile.name.as_deref() == Some(name)) {
            return call.writer(None);
        }
    }
    let id = mint(call);
    call.writer(Some(id.as_str()))
}

/// A new agent's id, in the caller's instance. A call that is repeated under its key must not make a second agent.
fn mint(call: &Call) -> AgentId {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    const LENGTH: usize = 12;
    let random: String = match call.sender().key() {
        Some(key) => {
            let digits = Sha256::digest(key).into_iter().map(|byte| char::from(DIGITS[usize::from(byte) % 36]));
            digits.take(LENGTH).collect()
        }
        None => {
            let minted = call.engine().mint("");
            minted.chars().skip(minted.len().saturating_sub(LENGTH)).collect()
        }
    };
    call.sender().instance().caller(&format!("ag_{random}"))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AgentHeartbeatArgs {
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
    /// The task you are working on.
    #[serde(default, deserialize_with = "name")]
    current_task_id: Option<String>,
    /// online or busy.
    status: Option<AgentStatus>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgentHeartbeatResult {
    success: bool,
    /// When to send the next one at the latest.
    next_heartbeat_ms: i64,
}

async fn heartbeat(call: Call, asked: AgentHeartbeatArgs) -> ToolAnswer<AgentHeartbeatResult> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    call.engine().liveness().heartbeat(&caller, &agent).await?;
    set_status(&call, caller, &agent, asked.status, CurrentTask::named(asked.current_task_id.as_deref())).await?;
    let interval = call.engine().settings().heartbeat_interval.as_millis();
    Ok(ToolReply::new(AgentHeartbeatResult {
        success: true,
        next_heartbeat_ms: i64::try_from(interval).unwrap_or(i64::MAX),
    }))
}

/// Says what the agent is doing, if the call does.
async fn set_status(
    call: &Call,
    caller: Caller,
    agent: &AgentId,
    status: Option<AgentStatus>,
    current_task: CurrentTask,
) -> Result<(), ToolError> {
    if status.is_none() && current_task == CurrentTask::AsBefore {
        return Ok(());
    }
    let known = known(call, agent).await?;
    // A word that says what the core's finer one says already changes nothing.
    let status = match status {
        Some(word) if word != translate::agent_status(known.status) => translate::status_of(word),
        Some(_) | None => known.status,
    };
    call.submit(caller, SetAgentStatus { agent: agent.clone(), status, current_task }).await?;
    Ok(())
}

async fn known(call: &Call, agent: &AgentId) -> Result<Agent, ToolError> {
    let found = call.engine().query().agent(agent).await?.value;
    found.ok_or_else(|| Rejection::new(Code::AgentNotFound, "Agent not found").into())
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AgentUnregisterArgs {
    /// Your id, unless connected as an agent.
    #[serde(alias = "agent_id")]
    id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgentUnregisterResult {
    success: bool,
    tasks_released: u32,
}

async fn unregister(call: Call, asked: AgentUnregisterArgs) -> ToolAnswer<AgentUnregisterResult> {
    let (caller, agent) = call.writer(asked.id.as_deref())?;
    let held = known(&call, &agent).await?.holding;
    call.submit(caller, LeaveTeam { agent: agent.clone() }).await?;
    call.bound().remove(&agent);
    Ok(ToolReply::new(AgentUnregisterResult { success: true, tasks_released: held }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AgentGetArgs {
    /// The agent's id.
    #[serde(alias = "agent_id")]
    id: String,
}

async fn get(call: Call, asked: AgentGetArgs) -> ToolAnswer<AgentView> {
    call.reader().await?;
    // Inside of an instance too, what is not the name of a member is an id as agent_list shows it.
    let (here, id) = (call.sender().instance(), AgentId::from(asked.id.as_str()));
    let mut found = known(&call, &here.caller(&asked.id)).await;
    for other in [here.member(&asked.id), id] {
        if found.is_err() {
            found = known(&call, &other).await;
        }
    }
    Ok(ToolReply::new(shown(&call, found?)))
}

fn shown(call: &Call, agent: Agent) -> AgentView {
    let presence = call.engine().board().get(&agent.id);
    translate::agent(agent, presence)
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AgentListArgs {
    /// Only agents with one of these statuses.
    #[serde(default, deserialize_with = "one_or_many")]
    status: Option<Vec<AgentStatus>>,
    /// Only agents with this role.
    #[serde(default, deserialize_with = "name")]
    role: Option<String>,
    /// Only agents that run in this program.
    #[serde(default, deserialize_with = "name")]
    runtime: Option<String>,
    /// Only agents that joined for this workflow.
    #[serde(default, deserialize_with = "name")]
    workflow_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgentListResult {
    agents: Vec<AgentView>,
}

async fn list(call: Call, asked: AgentListArgs) -> ToolAnswer<AgentListResult> {
    call.reader().await?;
    let agents = call.engine().query().agents().await?.value.into_iter().map(|agent| shown(&call, agent));
    let agents = agents
        .filter(|agent| asked.status.as_ref().is_none_or(|wanted| wanted.contains(&agent.status)))
        .filter(|agent| asked.role.as_ref().is_none_or(|wanted| *wanted == agent.role))
        .filter(|agent| asked.runtime.as_ref().is_none_or(|wanted| *wanted == agent.runtime))
        .filter(|agent| asked.workflow_id.is_none() || asked.workflow_id == agent.workflow_id);
    Ok(ToolReply::new(AgentListResult { agents: agents.collect() }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AgentUpdateArgs {
    /// The agent's id, if it is not you.
    #[serde(alias = "agent_id")]
    id: Option<String>,
    /// online, busy or offline.
    status: Option<AgentStatus>,
    /// The task that is worked on; null if it is none any more.
    #[serde(default, deserialize_with = "name_or_null")]
    #[schemars(schema_with = "text_or_null")]
    current_task_id: Option<Option<String>>,
    /// The folder that is worked in.
    workspace_path: Option<String>,
    /// Added to the metadata; a key that is there already gets the new value.
    metadata: Option<Map<String, Value>>,
}

async fn update(call: Call, asked: AgentUpdateArgs) -> ToolAnswer<Done> {
    let (caller, agent) = call.writer(asked.id.as_deref())?;
    let current_task = match asked.current_task_id {
        Some(None) => CurrentTask::Nothing,
        task => CurrentTask::named(task.flatten().as_deref()),
    };
    if asked.workspace_path.is_some() || asked.metadata.is_some() {
        // The status comes second: what it would be refused for must not leave half of the change behind.
        if let CurrentTask::Is(task) = &current_task {
            super::tasks::known(&call, task).await?;
        }
        let metadata = asked.metadata.unwrap_or_default();
        let change = ProfileChange { workspace_path: asked.workspace_path, metadata, session_id: None };
        let announcement = Announcement::ProfileChange(change);
        call.submit(caller.clone(), RegisterAgent { agent: agent.clone(), announcement }).await?;
    }
    set_status(&call, caller, &agent, asked.status, current_task).await?;
    Ok(ToolReply::new(Done::yes()))
}
