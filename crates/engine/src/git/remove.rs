//! Removes a worktree, after saving the work that would be lost with it.

use std::path::Path;

use rookery_core::workspaces::{BranchFate, BranchOrigin};
use rookery_core::{Code, Rejection};

use super::backup::backup_ref;
use super::repository::{Repository, unwritten};
use super::worktree::{VerifiedWorktree, remove_empty_parent, remove_folder};

/// A worktree to remove.
#[derive(Clone, Copy, Debug)]
pub struct RemovalRequest<'a> {
    pub workspace: &'a str,
    pub path: &'a Path,
    pub branch: &'a str,
    pub base: Option<&'a str>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemovedWorktree {
    pub backup_ref: Option<String>,
    pub branch: BranchFate,
}

impl Repository {
    /// Saves and removes a worktree, and its branch if it was merged.
    pub async fn remove(&self, unwanted: RemovalRequest<'_>) -> Result<RemovedWorktree, Rejection> {
        let base = self.base(unwanted.base).await.ok().map(|base| base.commit);
        let Some(worktree) = self.find(unwanted.workspace, unwanted.path).await? else {
            return self.report_missing(unwanted).await;
        };
        self.check_removable(&worktree)?;
        let backup_ref = self.save(&worktree, unwanted.workspace, base.as_deref()).await?;
        let VerifiedWorktree { path, folder, admin, origin, .. } = worktree;
        if let Some(folder) = folder {
            remove_folder(folder).await.map_err(|error| unwritten(&path, &error))?;
        }
        self.remove_admin(&admin).map_err(|error| unwritten(admin.path(), &error))?;
        self.forget(unwanted.workspace);
        remove_empty_parent(&path);
        let branch = self.delete_merged_branch(origin, unwanted.branch, base.as_deref()).await?;
        Ok(RemovedWorktree { backup_ref, branch })
    }

    /// Handles a missing worktree: it was removed before, or never was one.
    async fn report_missing(&self, unwanted: RemovalRequest<'_>) -> Result<RemovedWorktree, Rejection> {
        if unwanted.path.exists() {
            let message = format!("{} is not a worktree of {}", unwanted.path.display(), self.root.display());
            return Err(Rejection::new(Code::InvalidState, message)
                .hint("nothing was removed; remove the folder yourself if it is not needed"));
        }
        let kept = backup_ref(unwanted.workspace);
        let backup_ref = self.commit(&kept).await?.map(|_| kept);
        let branch = if self.branch(unwanted.branch).await?.is_some() { BranchFate::Kept } else { BranchFate::Gone };
        Ok(RemovedWorktree { backup_ref, branch })
    }

    fn check_removable(&self, worktree: &VerifiedWorktree) -> Result<(), Rejection> {
        let path = worktree.path.display();
        if let Some(reason) = &worktree.locked {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            return Err(Rejection::new(Code::Locked, format!("the worktree at {path} is locked{why}"))
                .hint(format!("'git worktree unlock {path}' unlocks it")));
        }
        if [self.project(), self.common()].iter().any(|kept| kept.starts_with(&worktree.path)) {
            return Err(Rejection::new(Code::Forbidden, format!("the project itself is in the worktree at {path}"))
                .hint("remove it yourself with 'git worktree remove' if it is not needed"));
        }
        let modules = worktree.admin.child("modules").and_then(|modules| modules.names());
        if modules.is_ok_and(|modules| !modules.is_empty()) {
            return Err(Rejection::new(Code::InvalidState, format!("the worktree at {path} has submodules"))
                .hint("push their commits, run 'git submodule deinit --all' there, then try again"));
        }
        Ok(())
    }

    /// Deletes a branch that was created with the worktree, if the base branch contains all of it.
    async fn delete_merged_branch(
        &self,
        origin: Option<BranchOrigin>,
        branch: &str,
        base: Option<&str>,
    ) -> Result<BranchFate, Rejection> {
        let Some(tip) = self.branch(branch).await? else { return Ok(BranchFate::Gone) };
        let Some(base) = base.filter(|_| origin == Some(BranchOrigin::Created)) else {
            return Ok(BranchFate::Kept);
        };
        let in_use = self.list_worktrees().iter().any(|listed| listed.branch() == Some(branch));
        if in_use || !self.is_ancestor(&tip, base).await? {
            return Ok(BranchFate::Kept);
        }
        // Fails if the branch got a commit meanwhile.
        let gone = self.delete_ref(&format!("refs/heads/{branch}"), &tip).await?;
        Ok(if gone { BranchFate::Deleted } else { BranchFate::Kept })
    }
}
