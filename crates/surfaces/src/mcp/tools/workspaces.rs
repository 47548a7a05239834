//! Workspaces: worktrees of one's own, and what becomes of them.

use rookery_core::model::workspace;
use rookery_core::model::workspace::{Uncommitted, Workspace, not_found};
use rookery_core::workspaces::{MergeWorkspace, UpdateWorkspace, WorkspaceMerged, WorkspaceRemoved};
use rookery_core::{AnyEvent, Code, RunId, TaskId, WorkspaceId};
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use rookery_engine::Committed;
use rookery_engine::workspaces::{NewWorkspace, OUTCOME_TIMEOUT, WorkspaceFilter, WorktreeCreation, failure_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::mcp::arguments::name;
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

/// Above what a tool waits for an outcome, so that its own answer wins.
const LASTS: Duration = Duration::from_secs(150);
/// How many folders are looked into side by side.
const LOOKS_AT_ONCE: usize = 4;

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "workspace_create",
            Adds,
            &[Workflow],
            "Get a folder of your own to work in, so that agents do not get in each other's way. With create_worktree a \
             git worktree of repo_path is made on the branch, which is created from base_branch unless it exists. Next: \
             work in the returned path; end with workspace_merge or workspace_update.",
            create,
        )
        .lasting(LASTS),
        Tool::new(
            "workspace_update",
            Ends,
            &[Workflow],
            "Say what became of a workspace: merged (with merge_commit) or abandoned; note a pull request. With \
             cleanup_worktree its folder is removed; work that is not merged is saved first, and backup_ref says where.",
            update,
        )
        .lasting(LASTS),
        Tool::new(
            "workspace_merge",
            Ends,
            &[Workflow],
            "Merge the branch of a workspace into its base branch. A conflict is an error that names the files; nothing \
             is changed then. Next: workspace_update with cleanup_worktree.",
            merge,
        )
        .lasting(LASTS),
        Tool::new(
            "workspace_list",
            Reads,
            &[Workflow],
            "List workspaces: where they are, on which branch, for which tasks, and whether their folder is still there.",
            list,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkspaceCreateArgs {
    /// The workflow it is for. May be left out for work outside of a workflow.
    #[serde(default, deserialize_with = "name")]
    workflow_id: Option<String>,
    /// The branch to work on, for example feature/login.
    branch: String,
    /// What the branch begins from: main or master unless given.
    #[serde(default, deserialize_with = "name")]
    base_branch: Option<String>,
    /// Make a git worktree. Without it, path must name a worktree that is there.
    create_worktree: Option<bool>,
    /// The folder of the project's git repository. Needed for create_worktree.
    #[serde(default, deserialize_with = "name")]
    repo_path: Option<String>,
    /// The workspace's folder. With create_worktree it may be left out: a folder beside the repository is chosen.
    #[serde(default, deserialize_with = "name")]
    path: Option<String>,
    /// The tasks that are worked on there.
    task_ids: Option<Vec<String>>,
    /// Anything worth keeping with it.
    config: Option<Map<String, Value>>,
    /// Your id. Not needed if you are connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkspaceCreateResult {
    id: String,
    /// The folder to work in.
    path: String,
}

async fn create(call: Call, asked: WorkspaceCreateArgs) -> ToolAnswer<WorkspaceCreateResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let wanted = NewWorkspace {
        run: asked.workflow_id.as_deref().map(RunId::from),
        path: asked.path,
        branch: asked.branch,
        base_branch: asked.base_branch,
        repo_path: asked.repo_path,
        tasks: asked.task_ids.unwrap_or_default().iter().map(|task| TaskId::from(task.as_str())).collect(),
        config: asked.config.unwrap_or_default(),
        worktree: if asked.create_worktree == Some(true) {
            WorktreeCreation::Create
        } else {
            WorktreeCreation::Existing
        },
    };
    let command = call.engine().workspaces().prepare(&caller, wanted).await?;
    let committed = call.submit(caller, command).await?;
    let workspace = &committed.reply;
    match ended(&call, &committed).await? {
        EffectOutcome::Nothing | EffectOutcome::As(_) => {
            Ok(ToolReply::new(WorkspaceCreateResult { id: workspace.id.to_string(), path: workspace.path.clone() }))
        }
        EffectOutcome::NotYet => Err(pending(workspace)),
    }
}

/// What a workspace can be said to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WorkspaceStatusView {
    Active,
    Merged,
    Abandoned,
}

impl WorkspaceStatusView {
    fn of(status: workspace::WorkspaceStatus) -> WorkspaceStatusView {
        match status {
            workspace::WorkspaceStatus::Active => WorkspaceStatusView::Active,
            workspace::WorkspaceStatus::Merged => WorkspaceStatusView::Merged,
            workspace::WorkspaceStatus::Abandoned => WorkspaceStatusView::Abandoned,
        }
    }

    fn core(self) -> workspace::WorkspaceStatus {
        match self {
            WorkspaceStatusView::Active => workspace::WorkspaceStatus::Active,
            WorkspaceStatusView::Merged => workspace::WorkspaceStatus::Merged,
            WorkspaceStatusView::Abandoned => workspace::WorkspaceStatus::Abandoned,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkspaceUpdateArgs {
    /// The workspace's id.
    #[serde(alias = "workspace_id")]
    id: String,
    /// What became of it.
    status: Option<WorkspaceStatusView>,
    /// The commit that merged it. Needed for merged, unless it is known.
    merge_commit: Option<String>,
    /// Where its pull request is.
    pr_url: Option<String>,
    /// Laid over what is kept with it.
    config: Option<Map<String, Value>>,
    /// Remove its folder, after work that is not merged was saved. Needs status merged or abandoned.
    cleanup_worktree: Option<bool>,
    /// Your id. Not needed if you are connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct WorkspaceUpdateResult {
    success: bool,
    /// Whether the folder is gone, if it was to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree_removed: Option<bool>,
    /// The ref that keeps what was not merged, if anything was.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup_ref: Option<String>,
    /// How to get that back.
    #[serde(skip_serializing_if = "Option::is_none")]
    restore_with: Option<String>,
    /// What became of the branch: deleted because all of it is merged, kept, or gone before.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<&'static str>,
    /// Why the folder is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_because: Option<String>,
}

async fn update(call: Call, asked: WorkspaceUpdateArgs) -> ToolAnswer<WorkspaceUpdateResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let id = WorkspaceId::from(asked.id.as_str());
    let remove = asked.cleanup_worktree == Some(true);
    if remove {
        attends(&call, &id).await?;
    }
    let command = UpdateWorkspace {
        workspace: id,
        status: asked.status.map(WorkspaceStatusView::core),
        merge_commit: asked.merge_commit,
        pr_url: asked.pr_url,
        config: asked.config.unwrap_or_default(),
        remove: remove.then(|| call.engine().mint_intent()),
    };
    let committed = call.submit(caller, command).await?;
    let workspace = &committed.reply;
    let updated = WorkspaceUpdateResult { success: true, ..WorkspaceUpdateResult::default() };
    if !remove {
        return Ok(ToolReply::new(updated));
    }
    Ok(ToolReply::new(match ended(&call, &committed).await {
        // It was gone before.
        Ok(EffectOutcome::Nothing) => WorkspaceUpdateResult {
            worktree_removed: Some(true),
            ..updated.kept_under(workspace.backup_ref.as_deref(), workspace)
        },
        Ok(EffectOutcome::As(event)) => match event.get() {
            Some(removed) => updated.removed(removed, workspace),
            None => return Err(ToolError::unexpected()),
        },
        Ok(EffectOutcome::NotYet) => updated.stays("it is still being removed; workspace_list shows when it is done"),
        Err(error) => {
            updated.stays(&error.suggestion.map_or(error.message.clone(), |next| format!("{} ({next})", error.message)))
        }
    }))
}

impl WorkspaceUpdateResult {
    fn removed(self, fact: &WorkspaceRemoved, workspace: &Workspace) -> WorkspaceUpdateResult {
        let kept = self.kept_under(fact.backup_ref.as_deref(), workspace);
        WorkspaceUpdateResult { worktree_removed: Some(true), branch: Some(fact.branch.as_str()), ..kept }
    }

    fn kept_under(self, backup_ref: Option<&str>, workspace: &Workspace) -> WorkspaceUpdateResult {
        let repo = workspace.repo_path.as_deref().unwrap_or(".");
        let restore = |kept: &str| format!("git -C {repo} worktree add --detach {} {kept}", workspace.path);
        WorkspaceUpdateResult {
            backup_ref: backup_ref.map(str::to_owned),
            restore_with: backup_ref.map(restore),
            ..self
        }
    }

    fn stays(self, because: &str) -> WorkspaceUpdateResult {
        WorkspaceUpdateResult { worktree_removed: Some(false), kept_because: Some(because.to_owned()), ..self }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkspaceMergeArgs {
    /// The workspace's id.
    #[serde(alias = "workspace_id")]
    id: String,
    /// Commit what is not committed in the worktree first. Without it, such changes are an error.
    commit_changes: Option<bool>,
    /// Your id. Not needed if you are connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkspaceMergeResult {
    success: bool,
    /// The commit that the base branch has now.
    merge_commit: String,
}

async fn merge(call: Call, asked: WorkspaceMergeArgs) -> ToolAnswer<WorkspaceMergeResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let workspace = WorkspaceId::from(asked.id.as_str());
    attends(&call, &workspace).await?;
    let uncommitted = if asked.commit_changes == Some(true) { Uncommitted::Commit } else { Uncommitted::Refuse };
    let intent = call.engine().mint_intent();
    let committed = call.submit(caller, MergeWorkspace { workspace, uncommitted, intent }).await?;
    let workspace = &committed.reply;
    match ended(&call, &committed).await? {
        EffectOutcome::As(event) => match event.get::<WorkspaceMerged>() {
            Some(merged) => {
                Ok(ToolReply::new(WorkspaceMergeResult { success: true, merge_commit: merged.merge_commit.clone() }))
            }
            None => Err(ToolError::unexpected()),
        },
        EffectOutcome::NotYet => Err(pending(workspace)),
        EffectOutcome::Nothing => Err(ToolError::unexpected()),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkspaceListArgs {
    /// Only those of this workflow.
    #[serde(default, deserialize_with = "name")]
    workflow_id: Option<String>,
    /// Only those with one of these.
    status: Option<Vec<WorkspaceStatusView>>,
    /// Also look into each folder for changes that are not committed. Takes longer.
    include_changes: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkspaceListResult {
    workspaces: Vec<WorkspaceListEntry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkspaceListEntry {
    id: String,
    workflow_id: Option<String>,
    path: String,
    branch: String,
    base_branch: Option<String>,
    repo_path: Option<String>,
    task_ids: Vec<String>,
    status: WorkspaceStatusView,
    merge_commit: Option<String>,
    pr_url: Option<String>,
    config: Map<String, Value>,
    /// What is known of its folder: told (nothing was made), planned, present, removed.
    worktree: &'static str,
    /// What is being done with it right now: made, merged, removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    being: Option<&'static str>,
    /// Whether the folder is there, if this daemon can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder_exists: Option<bool>,
    /// Whether everything in it is committed, if that was asked for: clean, modified, unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'static str>,
    /// What keeps the work that was not merged when the folder was removed.
    backup_ref: Option<String>,
    created_by: String,
    created_at: i64,
    updated_at: i64,
}

async fn list(call: Call, asked: WorkspaceListArgs) -> ToolAnswer<WorkspaceListResult> {
    call.reader().await?;
    let run = asked.workflow_id.as_deref().map(RunId::from);
    if let Some(run) = run.as_ref().filter(|run| **run != RunId::project_default()) {
        call.engine().runs().run(run).await?;
    }
    let status = asked.status.unwrap_or_default().into_iter().map(WorkspaceStatusView::core).collect();
    let found = call.engine().query().workspaces(&WorkspaceFilter { run, status }).await?.value;
    let look = asked.include_changes == Some(true);
    let views = found.into_iter().map(|workspace| async {
        let changes = if look { Some(call.engine().workspaces().changes(&workspace).await.as_str()) } else { None };
        WorkspaceListEntry { changes, ..shown(&call, workspace) }
    });
    Ok(ToolReply::new(WorkspaceListResult { workspaces: stream::iter(views).buffered(LOOKS_AT_ONCE).collect().await }))
}

fn shown(call: &Call, workspace: Workspace) -> WorkspaceListEntry {
    let here = call.engine().cluster().is_own_site(&workspace.site);
    WorkspaceListEntry {
        changes: None,
        folder_exists: here.then(|| Path::new(&workspace.path).is_dir()),
        id: workspace.id.to_string(),
        workflow_id: workspace.run.map(|run| run.to_string()),
        path: workspace.path,
        branch: workspace.branch,
        base_branch: workspace.base_branch,
        repo_path: workspace.repo_path,
        task_ids: workspace.tasks.iter().map(ToString::to_string).collect(),
        status: WorkspaceStatusView::of(workspace.status),
        merge_commit: workspace.merge_commit,
        pr_url: workspace.pr_url,
        config: workspace.config,
        worktree: workspace.worktree.as_str(),
        being: workspace.under_way.map(|under_way| under_way.work.as_str()),
        backup_ref: workspace.backup_ref,
        created_by: workspace.created_by,
        created_at: workspace.created_at.0,
        updated_at: workspace.updated_at.0,
    }
}

/// Whether somebody is there to do what is asked of a workspace.
async fn attends(call: &Call, id: &WorkspaceId) -> Result<(), ToolError> {
    let workspace = call.engine().query().workspace(id).await?.value.ok_or_else(not_found)?;
    Ok(call.engine().cluster().ensure_site_online(&workspace.site).await?)
}

/// What became of the effect that a command opened.
enum EffectOutcome {
    /// It opened none.
    Nothing,
    As(Box<AnyEvent>),
    NotYet,
}

async fn ended(call: &Call, committed: &Committed<Workspace>) -> Result<EffectOutcome, ToolError> {
    let Some(under_way) = &committed.reply.under_way else { return Ok(EffectOutcome::Nothing) };
    match call.engine().workspaces().wait_for_outcome(&under_way.intent, committed.at, OUTCOME_TIMEOUT).await {
        None => Ok(EffectOutcome::NotYet),
        Some(fact) => match failure_of(&fact) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(EffectOutcome::As(Box::new(fact))),
        },
    }
}

fn pending(workspace: &Workspace) -> ToolError {
    let (what, intent) =
        workspace.under_way.as_ref().map_or(("", ""), |under_way| (under_way.work.as_str(), under_way.intent.as_str()));
    ToolError::new(Code::Pending, format!("workspace {} is still being {what} ({intent})", workspace.id))
        .suggest("workspace_list shows when it is done; do not ask for it again")
}
