//! Merges the branch of a worktree into its base branch.
//!
//! The merge is computed outside of any worktree. Only a clean merge advances the base branch, and if files are in the way,
//! the merge is rejected as a whole. So nothing must be aborted, and nothing is half merged.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rookery_core::model::workspace::Uncommitted;
use rookery_core::{Code, Rejection};

use super::process::{Git, LONG, complaint};
use super::repository::{GitDirAccess, GitHead, Repository, WorktreeAccess, unreadable};
use super::worktree::CheckedOut;
use crate::held::HeldFolder;

/// How often a merge is tried while the base branch moves.
const MERGE_ATTEMPTS: usize = 3;
/// The most files that a conflict names.
const MAX_NAMED_FILES: usize = 20;
/// Rookery's own folder: files of a branch are never written there.
const OWN: &str = ".rookery";

/// A branch to be merged.
#[derive(Clone, Copy, Debug)]
pub struct MergeRequest<'a> {
    pub workspace: &'a str,
    pub path: &'a Path,
    pub branch: &'a str,
    pub base: &'a str,
    pub uncommitted: Uncommitted,
}

impl Repository {
    /// Merges a branch. Returns the commit that the base branch then has, or that brought the branch in earlier.
    pub async fn merge(&self, offered: MergeRequest<'_>) -> Result<String, Rejection> {
        self.commit_or_reject_changes(&offered).await?;
        for _ in 0..MERGE_ATTEMPTS {
            let (tip, base) = self.ends(&offered).await?;
            if self.is_ancestor(&tip, &base).await? {
                return self.merged_by(&tip, &base).await;
            }
            self.check_changes(&offered, &base, &tip).await?;
            let target = match self.is_ancestor(&base, &tip).await? {
                true => tip,
                false => self.create_merge_commit(&offered, &base, &tip).await?,
            };
            if self.advance(offered.base, &base, &target).await? {
                return Ok(target);
            }
        }
        Err(Rejection::new(Code::InvalidState, format!("branch '{}' keeps moving", offered.base))
            .hint("try again in a moment"))
    }

    async fn ends(&self, offered: &MergeRequest<'_>) -> Result<(String, String), Rejection> {
        let missing = |name: &str| {
            Rejection::new(Code::InvalidState, format!("there is no branch '{name}' in {}", self.root.display()))
                .hint("only a branch of this repository can be merged, and merged into")
        };
        let tip = self.branch(offered.branch).await?.ok_or_else(|| missing(offered.branch))?;
        let base = self.branch(offered.base).await?.ok_or_else(|| missing(offered.base))?;
        Ok((tip, base))
    }

    /// Rejects a branch with files in Rookery's own folder: they would replace keys and settings.
    async fn check_changes(&self, offered: &MergeRequest<'_>, base: &str, tip: &str) -> Result<(), Rejection> {
        let git = self.git(GitDirAccess::Read)?.lasting(LONG);
        let range = format!("{base}...{tip}");
        let changed = git.bytes(&["diff", "--no-renames", "--name-only", "-z", &range]).await?;
        let is_own =
            |path: &&[u8]| path.split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(OWN.as_bytes()));
        let Some(path) = changed.split(|byte| *byte == 0).find(is_own) else { return Ok(()) };
        let path = String::from_utf8_lossy(path);
        Err(Rejection::new(
            Code::Forbidden,
            format!("branch '{}' changes {path}, which is Rookery's own", offered.branch),
        )
        .hint("take it out of the branch ('git rm --cached'), then merge again"))
    }

    /// Commits uncommitted changes, or rejects the merge because of them.
    async fn commit_or_reject_changes(&self, offered: &MergeRequest<'_>) -> Result<(), Rejection> {
        let Some(worktree) = self.find(offered.workspace, offered.path).await? else { return Ok(()) };
        let Some(folder) = &worktree.folder else { return Ok(()) };
        let place = worktree.path.display();
        let refused = |message: String| Rejection::new(Code::InvalidState, message);
        let on = worktree.head.as_ref().and_then(GitHead::branch);
        let Some(head) = worktree.head.as_ref().filter(|_| on == Some(offered.branch)) else {
            let where_it_is = on.map_or("no branch".to_owned(), |on| format!("branch '{on}'"));
            return Err(refused(format!("the worktree at {place} is on {where_it_is}, not on '{}'", offered.branch))
                .hint("finish or abort the operation in progress there, and switch back to its branch"));
        };
        let in_progress = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];
        if let Some(name) = in_progress.iter().find(|name| worktree.admin.has(name)) {
            return Err(refused(format!("an operation is in progress in {place} ({name})"))
                .hint("finish or abort it there, then try again"));
        }
        if self.is_clean_at(folder, &worktree.admin, head).await? {
            return Ok(());
        }
        if offered.uncommitted == Uncommitted::Refuse {
            return Err(refused(format!("there are changes in {place} that are not committed"))
                .hint("commit them there, then merge again"));
        }
        self.commit_all(folder, &worktree.admin, offered.branch).await
    }

    /// Commits every change in a worktree to the branch that is checked out there.
    async fn commit_all(&self, folder: &HeldFolder, own: &HeldFolder, branch: &str) -> Result<(), Rejection> {
        let name = format!("refs/heads/{branch}");
        let view = self.view_of(Some(&GitHead::Ref(name.clone())))?;
        let git = self.git_with(&view, Some((folder, WorktreeAccess::Read)), GitDirAccess::Write)?.lasting(LONG);
        let git = git.index(&real_index(own)?);
        add_all(&git).await?;
        let tree = git.text(&["write-tree"]).await?;
        let parent = self.branch(branch).await?;
        let before = match &parent {
            Some(parent) => Some(git.text(&["rev-parse", "--verify", &format!("{parent}^{{tree}}")]).await?),
            None => None,
        };
        if before.as_ref() == Some(&tree) {
            return Ok(());
        }
        let message = format!("WIP: {branch}");
        let mut arguments = vec!["commit-tree", &tree, "-m", &message];
        parent.iter().for_each(|parent| arguments.extend(["-p", parent]));
        let commit = git.text(&arguments).await?;
        let was = parent.unwrap_or_else(|| "0".repeat(commit.len()));
        git.text(&["update-ref", &name, &commit, &was]).await.map(drop)
    }

    /// Whether all changes in a worktree are committed. Changes nothing there and takes no lock.
    pub(super) async fn is_clean_at(
        &self,
        folder: &HeldFolder,
        own: &HeldFolder,
        head: &GitHead,
    ) -> Result<bool, Rejection> {
        let view = self.view_of(Some(head))?;
        copy_index(own, &view.path("index"))?;
        let git = self.git_with(&view, Some((folder, WorktreeAccess::Read)), GitDirAccess::Read)?.lasting(LONG);
        Ok(git.text(&["status", "--porcelain", "--ignore-submodules=all"]).await?.is_empty())
    }

    /// Whether all changes in the worktree at a path are committed.
    pub async fn is_clean(&self, path: &Path) -> Result<bool, Rejection> {
        let CheckedOut { folder, own, head } = self.worktree_at(path)?;
        match head {
            Some(head) => self.is_clean_at(&folder, &own, &head).await,
            None => {
                Err(Rejection::new(Code::InvalidState, format!("cannot read which branch {} is on", path.display())))
            }
        }
    }

    /// Creates a merge commit of two branches that have diverged. No branch has it yet.
    async fn create_merge_commit(
        &self,
        offered: &MergeRequest<'_>,
        base: &str,
        tip: &str,
    ) -> Result<String, Rejection> {
        let git = self.git(GitDirAccess::Add)?.lasting(LONG);
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
        git.text(&["commit-tree", tree, "-p", base, "-p", tip, "-m", &message]).await
    }

    /// Advances the base branch, along with the worktree that has it checked out, if any. False if the branch moved meanwhile.
    async fn advance(&self, name: &str, from: &str, to: &str) -> Result<bool, Rejection> {
        let holder = self.list_worktrees().into_iter().find(|listed| listed.branch() == Some(name));
        let opened = holder.as_ref().map(|holder| self.open_any(holder)).transpose()?.flatten();
        let Some(CheckedOut { folder, own, .. }) = opened else {
            return self
                .git(GitDirAccess::Add)?
                .succeeds(&["update-ref", &format!("refs/heads/{name}"), to, from])
                .await;
        };
        let view = self.view_of(Some(&GitHead::Ref(format!("refs/heads/{name}"))))?;
        let git = self.git_with(&view, Some((&folder, WorktreeAccess::Write)), GitDirAccess::Write)?.lasting(LONG);
        let git = git.index(&real_index(&own)?);
        let said = git.run(&["merge", "--ff-only", "--quiet", "--end-of-options", to]).await?;
        if said.status.success() {
            return Ok(true);
        }
        if self.branch(name).await?.as_deref() != Some(from) {
            return Ok(false);
        }
        let reason = complaint(&said).message;
        let message = format!("branch '{name}' cannot go forward in {}: {reason}", folder.path().display());
        Err(Rejection::new(Code::InvalidState, message)
            .hint("commit or stash the changes in the way there, then merge again"))
    }

    /// The commit that merged a tip into a base that already contains it.
    async fn merged_by(&self, tip: &str, base: &str) -> Result<String, Rejection> {
        let range = format!("{tip}..{base}");
        let since =
            self.git(GitDirAccess::Read)?.text(&["rev-list", "--first-parent", "--ancestry-path", &range]).await?;
        let Some(first) = since.lines().last() else { return Ok(tip.to_owned()) };
        // If the base was fast-forwarded to the tip, the commit after the tip did not merge it.
        let before = self.commit(&format!("{first}^1")).await?;
        Ok(if before.as_deref() == Some(tip) { tip.to_owned() } else { first.to_owned() })
    }
}

/// The index of a worktree, for git to write. A link is rejected, because git would follow it and replace its target.
fn real_index(own: &HeldFolder) -> Result<PathBuf, Rejection> {
    let index = own.path().join("index");
    if own.is_link("index") {
        return Err(Rejection::new(Code::InvalidState, format!("{} is a link", index.display()))
            .hint("remove it, then run 'git reset' in the worktree"));
    }
    Ok(index)
}

/// Copies the index of a worktree. Returns whether there is one; without it, git treats nothing as staged.
pub(super) fn copy_index(own: &HeldFolder, to: &Path) -> Result<bool, Rejection> {
    let failed = |error: io::Error| unreadable(&own.path().join("index"), &error);
    let Some(mut index) = own.file("index").map_err(failed)? else { return Ok(false) };
    let mut copy = File::create(to).map_err(failed)?;
    io::copy(&mut index, &mut copy).map_err(failed)?;
    Ok(true)
}

/// Stages every change, except in nested repositories, where git would start another git with their settings.
pub(super) async fn add_all(git: &Git<'_>) -> Result<(), Rejection> {
    let staged = git.bytes(&["ls-files", "--stage", "-z"]).await?;
    let entries = staged.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
    let mut pathspecs = b".\0".to_vec();
    for path in entries.filter_map(|entry| entry.iter().position(|byte| *byte == b'\t').map(|at| &entry[at + 1..])) {
        pathspecs.extend(b":(exclude,literal)");
        pathspecs.extend(path);
        pathspecs.push(0);
    }
    let file = git.view.path("pathspecs");
    std::fs::write(&file, pathspecs).map_err(|error| unreadable(&file, &error))?;
    let from = format!("--pathspec-from-file={}", file.display());
    git.text(&["-c", "core.safecrlf=false", "add", "--all", &from, "--pathspec-file-nul"]).await.map(drop)
}

fn conflict<'a>(offered: &MergeRequest<'_>, files: impl Iterator<Item = &'a str>) -> Rejection {
    let mut files: Vec<&str> = files.take_while(|line| !line.is_empty()).collect();
    files.dedup();
    let more = files.len().saturating_sub(MAX_NAMED_FILES);
    let named = files.iter().take(MAX_NAMED_FILES).copied().collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (branch, base) = (offered.branch, offered.base);
    Rejection::new(
        Code::MergeConflict,
        format!("'{branch}' and '{base}' both changed {named}{more}; nothing was merged"),
    )
    .hint(format!(
        "run 'git merge {base}' in {}, resolve the conflicts there, then merge again",
        offered.path.display()
    ))
}
