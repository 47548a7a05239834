//! File claims: saying which paths one is about to change.

use rookery_core::files::{ClaimMode, ReleaseFile};
use rookery_core::model::file::{File, FileClaimOutcome, FileReleaseOutcome};
use rookery_engine::query::{FileFilter, FileSelection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::http::paths;
use crate::mcp::arguments::name;
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "resource_claim",
            Sets,
            &[Workflow, Team],
            "Claim a file, or a folder ending in '/', before you change it. granted false names its owner.",
            claim,
        ),
        Tool::new(
            "resource_release",
            Ends,
            &[Workflow, Team],
            "Give a claimed path back. Claims with a task_id end with the task.",
            release,
        ),
        Tool::new(
            "resource_list",
            Reads,
            &[Workflow],
            "List the paths that are claimed, locked or in conflict, and who has them.",
            list,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ResourceClaimArgs {
    /// Relative to the project's root.
    path: String,
    /// The task you change it for.
    #[serde(default, deserialize_with = "name")]
    task_id: Option<String>,
    /// Take it from its owner. For the lead and people.
    #[schemars(extend("x-rare" = true))]
    force: Option<bool>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ResourceClaimResult {
    granted: bool,
    /// Something to know about a claim that was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

async fn claim(call: Call, asked: ResourceClaimArgs) -> ToolAnswer<ResourceClaimResult> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    let task = asked.task_id.as_deref().map(Into::into);
    let insist = if asked.force == Some(true) { ClaimMode::Force } else { ClaimMode::Request };
    let command = paths::claim(call.engine(), &asked.path, agent, task, insist).await?;
    Ok(ToolReply::new(match call.submit(caller, command).await?.reply {
        FileClaimOutcome::Granted => ResourceClaimResult { granted: true, note: None, owner: None, reason: None },
        FileClaimOutcome::GrantedWithoutTask { task } => ResourceClaimResult {
            granted: true,
            note: Some(paths::note_without_task(&task)),
            owner: None,
            reason: None,
        },
        FileClaimOutcome::Refused { owner, reason } => {
            let owner = owner.map(|owner| owner.to_string());
            ResourceClaimResult { granted: false, note: None, owner, reason: Some(reason) }
        }
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ResourceReleaseArgs {
    /// The path, as you claimed it.
    path: String,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ResourceReleaseResult {
    released: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

async fn release(call: Call, asked: ResourceReleaseArgs) -> ToolAnswer<ResourceReleaseResult> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    let path = call.engine().paths().resolve(&asked.path).await?;
    Ok(ToolReply::new(match call.submit(caller, ReleaseFile { path, agent }).await?.reply {
        FileReleaseOutcome::Released => ResourceReleaseResult { released: true, reason: None },
        FileReleaseOutcome::NotReleased { reason } => ResourceReleaseResult { released: false, reason: Some(reason) },
    }))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ResourceFilter {
    Claimed,
    Conflicted,
    All,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ResourceListArgs {
    /// claimed (default), conflicted, or all paths that were ever claimed or changed.
    filter: Option<ResourceFilter>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ResourceView {
    path: String,
    state: String,
    owner: Option<String>,
    claimed_at: Option<i64>,
    task_id: Option<String>,
    last_modified_by: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ResourceListResult {
    resources: Vec<ResourceView>,
}

async fn list(call: Call, asked: ResourceListArgs) -> ToolAnswer<ResourceListResult> {
    call.reader().await?;
    let state = match asked.filter.unwrap_or(ResourceFilter::Claimed) {
        ResourceFilter::Claimed => FileSelection::Claimed,
        ResourceFilter::Conflicted => FileSelection::Conflicted,
        ResourceFilter::All => FileSelection::Any,
    };
    let filter = FileFilter { state, after: None, limit: None };
    let resources = call.engine().query().files(&filter).await?.value.into_iter().map(shown).collect();
    Ok(ToolReply::new(ResourceListResult { resources }))
}

fn shown(file: File) -> ResourceView {
    ResourceView {
        path: file.path.to_string(),
        state: file.state().as_str().to_owned(),
        owner: file.holder().map(ToString::to_string),
        claimed_at: file.claim.as_ref().map(|claim| claim.since.0),
        task_id: file.claim.as_ref().and_then(|claim| claim.task.as_ref()).map(ToString::to_string),
        last_modified_by: file.last_modified_by.map(|agent| agent.to_string()),
    }
}
