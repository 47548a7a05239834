//! Handoffs: passing a task on with what the next agent needs to know.

use rookery_core::handoffs::{AcceptHandoff, OfferHandoff, RejectHandoff};
use rookery_core::model::handoff::HandoffNote;
use rookery_core::{AgentId, HandoffId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mcp::arguments::name;
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "handoff_create",
            Adds,
            &[Workflow, Team],
            "Offer a task that you hold to another agent, or to whoever takes it. It stays yours until it is accepted.",
            create,
        ),
        Tool::new(
            "handoff_accept",
            Sets,
            &[Workflow, Team],
            "Accept an offered task: it and its files become yours. Next: task_load_context.",
            accept,
        ),
        Tool::new(
            "handoff_reject",
            Ends,
            &[Workflow],
            "Reject a task that was offered to you, with a reason that helps the one who offered it.",
            reject,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct HandoffCreateArgs {
    /// The task's id.
    task_id: String,
    /// What is done and what is left to do.
    summary: String,
    /// Left out: whoever takes it.
    #[serde(default, deserialize_with = "name")]
    to_agent: Option<String>,
    /// Files you changed.
    #[schemars(extend("x-rare" = true))]
    files_modified: Option<Vec<String>>,
    /// Files you created.
    #[schemars(extend("x-rare" = true))]
    files_created: Option<Vec<String>>,
    /// What else the next one must know.
    context: Option<String>,
    /// What stood in your way.
    #[schemars(extend("x-rare" = true))]
    blockers: Option<Vec<String>>,
    /// Your id, unless connected as an agent.
    #[serde(alias = "from_agent")]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HandoffCreateResult {
    id: String,
    status: String,
}

async fn create(call: Call, asked: HandoffCreateArgs) -> ToolAnswer<HandoffCreateResult> {
    let task = TaskId::from(asked.task_id.as_str());
    let (caller, from) = call.writer_on(asked.agent_id.as_deref(), &task).await?;
    let command = OfferHandoff {
        id: call.engine().mint_handoff(),
        from,
        to: asked.to_agent.as_deref().map(AgentId::from),
        task,
        note: HandoffNote {
            summary: asked.summary,
            files_modified: asked.files_modified.unwrap_or_default(),
            files_created: asked.files_created.unwrap_or_default(),
            context: asked.context.unwrap_or_default(),
            blockers: asked.blockers.unwrap_or_default(),
        },
    };
    let handoff = call.submit(caller, command).await?.reply;
    Ok(ToolReply::new(HandoffCreateResult { id: handoff.id.to_string(), status: handoff.status.as_str().to_owned() }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct HandoffAcceptArgs {
    /// The handoff's id.
    #[serde(alias = "id")]
    handoff_id: String,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HandoffAcceptResult {
    accepted: bool,
}

async fn accept(call: Call, asked: HandoffAcceptArgs) -> ToolAnswer<HandoffAcceptResult> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    call.submit(caller, AcceptHandoff { handoff: HandoffId::from(asked.handoff_id.as_str()), agent }).await?;
    Ok(ToolReply::new(HandoffAcceptResult { accepted: true }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct HandoffRejectArgs {
    /// The handoff's id.
    #[serde(alias = "id")]
    handoff_id: String,
    /// Why you do not take it.
    reason: Option<String>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HandoffRejectResult {
    rejected: bool,
}

async fn reject(call: Call, asked: HandoffRejectArgs) -> ToolAnswer<HandoffRejectResult> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    let handoff = HandoffId::from(asked.handoff_id.as_str());
    call.submit(caller, RejectHandoff { handoff, agent, reason: asked.reason.unwrap_or_default() }).await?;
    Ok(ToolReply::new(HandoffRejectResult { rejected: true }))
}
