//! Merging the branch of a worktree into the branch that it came from.
//!
//! The merge is computed beside every worktree; only when it is known to be clean does the base branch go forward, and
//! that is refused as a whole if something is in its way. So there is nothing to abort, and nothing is half merged.

use std::path::Path;

use rookery_core::workspace::Uncommitted;
use rookery_core::{Code, Refusal};

use super::process::{Git, LONG, complaint};
use super::repository::Repository;

/// Who commits where nobody is configured.
const NAME: &str = "rookery";
const EMAIL: &str = "rookery@localhost";
/// How often a base branch that moves meanwhile is tried again.
const TRIES: usize = 3;
/// How many files a conflict names.
const NAMED: usize = 20;

/// A branch to be merged.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    pub workspace: &'a str,
    pub path: &'a Path,
    pub branch: &'a str,
    pub base: &'a str,
    pub uncommitted: Uncommitted,
}

impl Repository {
    /// The commit that the base branch has after it.
    pub async fn merge(&self, offered: Offered<'_>) -> Result<String, Refusal> {
        self.settle_changes(&offered).await?;
        for _ in 0..TRIES {
            let (tip, base) = self.ends(&offered).await?;
            if self.is_ancestor(&tip, &base).await? {
                return self.merged_by(&tip, &base).await;
            }
            let target = match self.is_ancestor(&base, &tip).await? {
                true => tip,
                false => self.joined(&offered, &base, &tip).await?,
            };
            if self.advance(offered.base, &base, &target).await? {
                return Ok(target);
            }
        }
        Err(Refusal::new(Code::InvalidState, format!("branch '{}' keeps moving", offered.base))
            .hint("try again in a moment"))
    }

    async fn ends(&self, offered: &Offered<'_>) -> Result<(String, String), Refusal> {
        let missing = |name: &str| {
            Refusal::new(Code::InvalidState, format!("there is no branch '{name}' in {}", self.root.display()))
                .hint("only a branch of this repository can be merged, and merged into")
        };
        let tip = self.branch(offered.branch).await?.ok_or_else(|| missing(offered.branch))?;
        let base = self.branch(offered.base).await?.ok_or_else(|| missing(offered.base))?;
        Ok((tip, base))
    }

    /// Commits what is not committed, or refuses because of it.
    async fn settle_changes(&self, offered: &Offered<'_>) -> Result<(), Refusal> {
        let Some(worktree) = self.find(offered.workspace, offered.path).await? else { return Ok(()) };
        if !worktree.path.is_dir() {
            return Ok(());
        }
        let (git, place) = (self.git_at(&worktree.path).lasting(LONG), worktree.path.display());
        let refused = |message: String| Refusal::new(Code::InvalidState, message);
        let on = git.maybe(&["symbolic-ref", "--short", "--quiet", "HEAD"]).await?;
        if on.as_deref() != Some(offered.branch) {
            let where_it_is = on.map_or("no branch".to_owned(), |on| format!("branch '{on}'"));
            return Err(refused(format!("the worktree at {place} is on {where_it_is}, not on '{}'", offered.branch))
                .hint("finish or abort what is going on there, and switch back to its branch"));
        }
        let in_progress = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];
        if let Some(name) = in_progress.iter().find(|name| worktree.admin.join(name).exists()) {
            return Err(refused(format!("an operation is in progress in {place} ({name})"))
                .hint("finish or abort it there, then try again"));
        }
        if git.text(&["status", "--porcelain", "--ignore-submodules=none"]).await?.is_empty() {
            return Ok(());
        }
        if offered.uncommitted == Uncommitted::Refuse {
            return Err(refused(format!("there are changes in {place} that are not committed"))
                .hint("commit them there, then merge again"));
        }
        git.text(&["add", "--all", "--", "."]).await?;
        let message = format!("WIP: {}", offered.branch);
        let git = self.as_somebody(git).await?;
        git.text(&["commit", "--quiet", "--no-verify", "--no-gpg-sign", "-m", &message]).await.map(drop)
    }

    /// A merge of two branches that both have something, as a commit that no branch has yet.
    async fn joined(&self, offered: &Offered<'_>, base: &str, tip: &str) -> Result<String, Refusal> {
        let git = self.git().lasting(LONG);
        let said = git.run(&["merge-tree", "--write-tree", "--name-only", "--no-messages", base, tip]).await?;
        let text = said.text();
        let mut lines = text.lines();
        let tree = lines.next().unwrap_or_default();
        match said.status.code() {
            Some(0) => {}
            Some(1) => return Err(conflict(offered, lines)),
            _ => return Err(complaint(&said)),
        }
        let message = format!("Merge branch '{}' into {}", offered.branch, offered.base);
        let git = self.as_somebody(git).await?;
        git.text(&["commit-tree", tree, "-p", base, "-p", tip, "-m", &message]).await
    }

    /// Moves the base branch forward, in the worktree that has it checked out if one has. False if it moved meanwhile.
    async fn advance(&self, name: &str, from: &str, to: &str) -> Result<bool, Refusal> {
        let holder = self.worktrees().await?.into_iter().find(|listed| listed.branch.as_deref() == Some(name));
        let Some(holder) = holder else {
            let (branch, message) = (format!("refs/heads/{name}"), "rookery: merge");
            return self.git().succeeds(&["update-ref", "-m", message, &branch, to, from]).await;
        };
        let git = self.git_at(&holder.path).lasting(LONG);
        let said = git.run(&["merge", "--ff-only", "--quiet", "--end-of-options", to]).await?;
        if said.status.success() {
            return Ok(true);
        }
        if self.branch(name).await?.as_deref() != Some(from) {
            return Ok(false);
        }
        let told = complaint(&said).message;
        let message = format!("branch '{name}' cannot go forward in {}: {told}", holder.path.display());
        Err(Refusal::new(Code::InvalidState, message)
            .hint("commit or stash what is in the way there, then merge again"))
    }

    /// The commit that brought a tip into a base which has it already.
    async fn merged_by(&self, tip: &str, base: &str) -> Result<String, Refusal> {
        let range = format!("{tip}..{base}");
        let since = self.git().text(&["rev-list", "--first-parent", "--ancestry-path", &range]).await?;
        let Some(first) = since.lines().last() else { return Ok(tip.to_owned()) };
        // Where the base simply went forward to the tip, what follows the tip did not bring it in.
        let before = self.commit(&format!("{first}^1")).await?;
        Ok(if before.as_deref() == Some(tip) { tip.to_owned() } else { first.to_owned() })
    }

    /// As whoever is configured, or as ourselves if nobody is.
    async fn as_somebody(&self, git: Git) -> Result<Git, Refusal> {
        let configured =
            git.succeeds(&["config", "user.email"]).await? && git.succeeds(&["config", "user.name"]).await?;
        Ok(if configured { git } else { git.identity(NAME, EMAIL) })
    }
}

fn conflict<'a>(offered: &Offered<'_>, files: impl Iterator<Item = &'a str>) -> Refusal {
    let mut files: Vec<&str> = files.take_while(|line| !line.is_empty()).collect();
    files.dedup();
    let more = files.len().saturating_sub(NAMED);
    let named = files.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (branch, base) = (offered.branch, offered.base);
    Refusal::new(Code::MergeConflict, format!("'{branch}' and '{base}' both changed {named}{more}; nothing was merged"))
        .hint(format!(
            "run 'git merge {base}' in {}, resolve the conflicts there, then merge again",
            offered.path.display()
        ))
}
