//! Workspaces: folders, mostly git worktrees, that keep the work on a branch apart.
//!
//! A worktree is made, merged and removed outside of the store. Each of these starts with an event that opens an intent and ends with
//! an event that carries its outcome. Until then the row says which effect is running, and no other starts.

mod conclude;
mod create;
mod merge;
mod update;

pub use conclude::{
    BranchFate, BranchOrigin, ConcludeWorkspace, Outcome, WorkspaceFailed, WorkspaceMerged, WorkspaceReady,
    WorkspaceRemoved,
};
pub use create::{CreateWorkspace, WorkspaceCreated, missing_path, missing_repo_path};
pub use merge::{MergeWorkspace, WorkspaceMerging};
pub use update::{UpdateWorkspace, WorkspaceUpdated};
