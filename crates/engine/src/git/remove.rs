//! Removing a worktree after what would be lost with it was saved.

use std::fs;
use std::path::Path;

use rookery_core::workspace::{BranchFate, BranchOrigin};
use rookery_core::{Code, Refusal};

use super::backup::backup_ref;
use super::process::LONG;
use super::repository::Repository;
use super::worktree::Worktree;

/// The worktree that shall go.
#[derive(Clone, Copy, Debug)]
pub struct Unwanted<'a> {
    pub workspace: &'a str,
    pub path: &'a Path,
    pub branch: &'a str,
    pub base: Option<&'a str>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    pub backup_ref: Option<String>,
    pub branch: BranchFate,
}

impl Repository {
    pub async fn remove(&self, unwanted: Unwanted<'_>) -> Result<Removed, Refusal> {
        let base = self.base(unwanted.base).await.ok().map(|base| base.commit);
        let Some(worktree) = self.find(unwanted.workspace, unwanted.path).await? else {
            return self.not_there(unwanted).await;
        };
        self.may_go(&worktree)?;
        let backup_ref = self.save(&worktree, unwanted.workspace, base.as_deref()).await?;
        let path = worktree.path.to_string_lossy();
        self.git().lasting(LONG).text(&["worktree", "remove", "--force", "--", &path]).await?;
        forget_empty_folder(&worktree.path);
        let branch = self.let_go_of_branch(&worktree, unwanted.branch, base.as_deref()).await?;
        Ok(Removed { backup_ref, branch })
    }

    /// Nothing to remove: it was removed before, or was never a worktree.
    async fn not_there(&self, unwanted: Unwanted<'_>) -> Result<Removed, Refusal> {
        if unwanted.path.exists() {
            let message = format!("{} is not a worktree of {}", unwanted.path.display(), self.root.display());
            return Err(Refusal::new(Code::InvalidState, message)
                .hint("nothing was removed; remove the folder yourself if it is not needed"));
        }
        let kept = backup_ref(unwanted.workspace);
        let backup_ref = self.commit(&kept).await?.map(|_| kept);
        let branch = if self.branch(unwanted.branch).await?.is_some() { BranchFate::Kept } else { BranchFate::Gone };
        Ok(Removed { backup_ref, branch })
    }

    fn may_go(&self, worktree: &Worktree) -> Result<(), Refusal> {
        let path = worktree.path.display();
        if let Some(reason) = &worktree.locked {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            return Err(Refusal::new(Code::Locked, format!("the worktree at {path} is locked{why}"))
                .hint(format!("'git worktree unlock {path}' unlocks it")));
        }
        let modules = fs::read_dir(worktree.admin.join("modules"));
        if modules.is_ok_and(|mut modules| modules.next().is_some()) {
            return Err(Refusal::new(Code::InvalidState, format!("the worktree at {path} has submodules of its own"))
                .hint("push what is in them, run 'git submodule deinit --all' there, then try again"));
        }
        Ok(())
    }

    /// Deletes a branch that was made along with the worktree, if all of it is in the base branch.
    async fn let_go_of_branch(
        &self,
        worktree: &Worktree,
        branch: &str,
        base: Option<&str>,
    ) -> Result<BranchFate, Refusal> {
        let Some(tip) = self.branch(branch).await? else { return Ok(BranchFate::Gone) };
        let Some(base) = base.filter(|_| worktree.origin == Some(BranchOrigin::Created)) else {
            return Ok(BranchFate::Kept);
        };
        let in_use = self.worktrees().await?.iter().any(|listed| listed.branch.as_deref() == Some(branch));
        if in_use || !self.is_ancestor(&tip, base).await? {
            return Ok(BranchFate::Kept);
        }
        // Refused if somebody put a commit on it meanwhile.
        let gone = self.git().succeeds(&["update-ref", "-d", &format!("refs/heads/{branch}"), &tip]).await?;
        Ok(if gone { BranchFate::Deleted } else { BranchFate::Kept })
    }
}

/// The folder beside the repository goes with the last worktree in it.
fn forget_empty_folder(path: &Path) {
    if let Some(folder) = path.parent()
        && folder.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-worktrees"))
    {
        drop(fs::remove_dir(folder));
    }
}
