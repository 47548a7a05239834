//! Checkpoints: what a worker leaves behind on the way, so that it, or another, can go on from there.

use rookery_core::TaskId;
use rookery_core::model::task::CheckpointKind;
use rookery_core::tasks::AddCheckpoint;
use rookery_engine::runs::CheckpointFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mcp::arguments::{self, Limit, PAGE, one_or_many, page};
use crate::mcp::translate::{self, CheckpointView};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "checkpoint_add",
            Adds,
            &[Workflow, Team],
            "Record what you did or decided on your task, after each significant step. It is what you, or the next one, go \
             on from.",
            add,
        ),
        Tool::new(
            "checkpoint_list",
            Reads,
            &[Workflow],
            "List the checkpoints of a task, oldest first. more says that there are others: ask again with since_sequence.",
            list,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CheckpointAddArgs {
    /// The task's id.
    task_id: String,
    /// What it is.
    #[serde(rename = "type")]
    #[schemars(schema_with = "arguments::checkpoint_type")]
    kind: CheckpointKind,
    /// In a sentence or two.
    summary: String,
    /// Details of any shape.
    detail: Option<Value>,
    /// Files you changed.
    files_changed: Option<Vec<String>>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckpointAddResult {
    id: String,
    /// Its place among those of the task.
    sequence: u32,
}

async fn add(call: Call, asked: CheckpointAddArgs) -> ToolAnswer<CheckpointAddResult> {
    let task = TaskId::from(asked.task_id.as_str());
    let (caller, agent) = call.worker_on(asked.agent_id.as_deref(), &task).await?;
    let command = AddCheckpoint {
        id: call.engine().runs().mint_checkpoint(),
        task,
        agent,
        kind: asked.kind,
        summary: asked.summary,
        detail: asked.detail,
        files_changed: asked.files_changed.unwrap_or_default(),
    };
    let added = call.submit(caller, command).await?.reply;
    Ok(ToolReply::new(CheckpointAddResult { id: added.id, sequence: added.sequence }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CheckpointListArgs {
    /// The task's id.
    task_id: String,
    /// Only these types.
    #[serde(default, rename = "type", deserialize_with = "one_or_many")]
    #[schemars(schema_with = "arguments::checkpoint_types")]
    kinds: Option<Vec<CheckpointKind>>,
    /// Only those after this one.
    since_sequence: Option<u32>,
    /// The first so many. Default 100, at most 1000.
    limit: Option<Limit>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckpointListResult {
    checkpoints: Vec<CheckpointView>,
    /// There are more behind these.
    more: bool,
}

async fn list(call: Call, asked: CheckpointListArgs) -> ToolAnswer<CheckpointListResult> {
    call.reader().await?;
    let limit = page(asked.limit, PAGE) as usize;
    let filter = CheckpointFilter {
        task: TaskId::from(asked.task_id.as_str()),
        kinds: asked.kinds.unwrap_or_default(),
        since_sequence: asked.since_sequence,
        limit: Some(limit + 1),
    };
    let mut found = call.engine().runs().checkpoints(&filter).await?.value;
    let more = found.len() > limit;
    found.truncate(limit);
    Ok(ToolReply::new(CheckpointListResult {
        checkpoints: found.into_iter().map(translate::checkpoint).collect(),
        more,
    }))
}
