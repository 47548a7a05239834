//! The row of an effect that has been decided and is not closed yet.

use serde::{Deserialize, Serialize};

use super::team::{TeamRef, TeamStartSpec};
use super::workspace::Uncommitted;
use super::{Column, ColumnValue, Entity};
use crate::kernel::id::{IntentId, Seq, SiteId, WorkspaceId};

/// An effect that is still to happen, or of which we do not know yet whether it happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Intent {
    pub id: IntentId,
    pub opened: Seq,
    pub effect: Effect,
    /// Where it has to happen; `None` if any node can do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
}

impl Entity for Intent {
    type Id = IntentId;

    const TABLE: &'static str = "intents";
    const COLUMNS: &'static [Column] = &[Column::integer("opened")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.opened.0.into()]
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Remove a stored body from the artifact folder. Done already if the file is not there.
    EraseArtifact { sha256: String },
    /// Make the worktree of a workspace. Done already if the repository has a note of it and the worktree is whole.
    MakeWorktree { workspace: WorkspaceId },
    /// Merge the branch of a workspace. Done already if its base branch has all of it.
    MergeWorktree { workspace: WorkspaceId, uncommitted: Uncommitted },
    /// Save what is only in the worktree of a workspace, then remove it. Done already if it is not there.
    RemoveWorktree { workspace: WorkspaceId },
    /// Start a runner for a workflow file. Done already if this generation of the team has begun since.
    LaunchTeam { of: TeamRef, launch: TeamStartSpec },
}
