//! The workspace row and its state machine.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::intent::{Effect, Intent};
use super::{Column, ColumnValue, Entity, Key, Row, RowWriter, Undecided, View};
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, IntentId, RunId, Seq, SiteId, TaskId, Timestamp, WorkspaceId};
use crate::kernel::rejection::Rejection;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceStatus {
    Active,
    Merged,
    Abandoned,
}

impl WorkspaceStatus {
    pub const ALL: [WorkspaceStatus; 3] =
        [WorkspaceStatus::Active, WorkspaceStatus::Merged, WorkspaceStatus::Abandoned];

    pub fn as_str(self) -> &'static str {
        match self {
            WorkspaceStatus::Active => "active",
            WorkspaceStatus::Merged => "merged",
            WorkspaceStatus::Abandoned => "abandoned",
        }
    }

    /// What is merged stays so; what was abandoned can be taken up again.
    pub fn may_become(self, next: WorkspaceStatus) -> bool {
        match self {
            WorkspaceStatus::Active => true,
            WorkspaceStatus::Merged => next == WorkspaceStatus::Merged,
            WorkspaceStatus::Abandoned => next != WorkspaceStatus::Merged,
        }
    }
}

/// What there is at the workspace's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Worktree {
    /// A folder that somebody told of; nothing was made for it.
    Told,
    /// Asked for, and perhaps half there.
    Planned,
    Present,
    Removed,
}

impl Worktree {
    pub fn as_str(self) -> &'static str {
        match self {
            Worktree::Told => "told",
            Worktree::Planned => "planned",
            Worktree::Present => "present",
            Worktree::Removed => "removed",
        }
    }
}

/// An effect on the workspace of which the outcome is not known yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkspaceEffectState {
    pub intent: IntentId,
    pub work: WorkspaceEffect,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceEffect {
    Making,
    Merging,
    Removing,
}

impl WorkspaceEffect {
    /// As in "the worktree is being …".
    pub fn as_str(self) -> &'static str {
        match self {
            WorkspaceEffect::Making => "made",
            WorkspaceEffect::Merging => "merged",
            WorkspaceEffect::Removing => "removed",
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub run: Option<RunId>,
    /// Absolute, at its site.
    pub path: String,
    pub branch: String,
    pub base_branch: Option<String>,
    /// The main folder of the repository that the worktree belongs to.
    pub repo_path: Option<String>,
    pub tasks: Vec<TaskId>,
    pub status: WorkspaceStatus,
    pub merge_commit: Option<String>,
    pub pr_url: Option<String>,
    pub config: Map<String, Value>,
    /// Where the folder is.
    pub site: SiteId,
    pub worktree: Worktree,
    pub under_way: Option<WorkspaceEffectState>,
    /// What keeps the work that was in the worktree when it was removed, if any was.
    pub backup_ref: Option<String>,
    pub created_by: String,
    pub created_at: Timestamp,
    pub created: Seq,
    pub updated_at: Timestamp,
}

impl Entity for Workspace {
    type Id = WorkspaceId;

    const TABLE: &'static str = "workspaces";
    const COLUMNS: &'static [Column] = &[
        Column::integer("created"),
        Column::text("run"),
        Column::text("status"),
        Column::text("place"),
        Column::text("branch"),
    ];

    fn columns(&self) -> Vec<ColumnValue> {
        let place = Some(place(&self.site, &self.path)).filter(|_| self.occupies());
        let branch = self.repo_path.as_ref().map(|repo| branch_place(&self.site, repo, &self.branch));
        vec![
            self.created.0.into(),
            self.run.as_ref().map(|run| run.to_string()).into(),
            self.status.as_str().into(),
            place.into(),
            branch.filter(|_| self.occupies()).into(),
        ]
    }
}

impl Workspace {
    /// Whether a worktree of ours is at its path, or may be.
    fn occupies(&self) -> bool {
        matches!(self.worktree, Worktree::Planned | Worktree::Present)
    }

    pub(crate) fn begin(&mut self, work: WorkspaceEffect, intent: &IntentId) {
        self.under_way = Some(WorkspaceEffectState { intent: intent.clone(), work });
    }

    pub(crate) fn finish_making(&mut self, base_branch: &str) {
        self.under_way = None;
        self.worktree = Worktree::Present;
        self.base_branch = Some(base_branch.to_owned());
    }

    pub(crate) fn finish_merging(&mut self, merge_commit: &str) {
        self.under_way = None;
        self.status = WorkspaceStatus::Merged;
        self.merge_commit = Some(merge_commit.to_owned());
    }

    pub(crate) fn finish_removing(&mut self, backup_ref: Option<&str>) {
        self.under_way = None;
        self.worktree = Worktree::Removed;
        self.backup_ref = backup_ref.map(str::to_owned);
    }
}

/// The rows of a workspace and of an intent.
pub(crate) fn keys(workspace: &WorkspaceId, intent: Option<&IntentId>) -> Vec<Key> {
    std::iter::once(Key::Workspace(workspace.clone())).chain(intent.cloned().map(Key::Intent)).collect()
}

/// Changes the row of a workspace and notes when.
pub(crate) fn change(
    rows: &mut RowWriter<'_>,
    workspace: &WorkspaceId,
    at: Timestamp,
    change: impl FnOnce(&mut Workspace),
) {
    rows.update(workspace.clone(), |workspace: &mut Workspace| {
        change(workspace);
        workspace.updated_at = at;
    });
}

/// Opens the intent to do something with a workspace at its site.
pub(crate) fn open_intent(rows: &mut RowWriter<'_>, intent: &IntentId, effect: Effect, site: &SiteId, opened: Seq) {
    rows.put(intent.clone(), Intent { id: intent.clone(), opened, effect, site: Some(site.clone()) });
}

/// A folder at a site, as one text. Ids have no line breaks.
pub fn place(site: &SiteId, path: &str) -> String {
    format!("{site}\n{path}")
}

/// A branch of a repository at a site, as one text. Branches have no line breaks.
pub fn branch_place(site: &SiteId, repo: &str, branch: &str) -> String {
    format!("{site}\n{branch}\n{repo}")
}

impl View {
    pub(crate) fn workspace_known(&self, id: &WorkspaceId) -> Result<&Workspace, Undecided> {
        match self.get(&Key::Workspace(id.clone()))? {
            Some(Row::Workspace(workspace)) => Ok(workspace),
            _ => Err(not_found().into()),
        }
    }

    /// Whoever made a workspace may change it, and so may the holders of its tasks, the lead and people. If its maker is
    /// gone, anybody may.
    pub(crate) fn ensure_may_change(&self, caller: &Caller, workspace: &Workspace) -> Result<(), Undecided> {
        let Some(agent) = caller.actor.agent() else { return Ok(()) };
        if workspace.created_by == agent.as_str() || self.has_authority(caller)? {
            return Ok(());
        }
        for task in &workspace.tasks {
            if self.find_task(task)?.is_some_and(|task| task.holder() == Some(agent)) {
                return Ok(());
            }
        }
        let maker = self.find_agent(&AgentId::from(workspace.created_by.as_str()))?;
        if maker.is_none_or(|maker| maker.has_left()) {
            return Ok(());
        }
        Err(Rejection::new(Code::Forbidden, format!("the workspace belongs to '{}'", workspace.created_by))
            .hint("ask its maker, the holder of its task, or the lead")
            .into())
    }
}

/// Nothing may be begun with a workspace while something is under way with it.
pub(crate) fn is_free(workspace: &Workspace) -> Result<(), Rejection> {
    match &workspace.under_way {
        None => Ok(()),
        Some(under_way) => {
            let what = under_way.work.as_str();
            Err(Rejection::new(Code::InvalidState, format!("the workspace is being {what} right now"))
                .hint("wait a moment and look with workspace_list"))
        }
    }
}

pub fn not_found() -> Rejection {
    Rejection::new(Code::WorkspaceNotFound, "Workspace not found").hint("workspace_list shows the ids")
}

/// What happens with changes in the worktree that are not committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uncommitted {
    /// The merge is not done.
    Refuse,
    /// They are committed to the branch first.
    Commit,
}
