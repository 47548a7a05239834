//! Merging the branch of a worktree into the branch that it came from.
//!
//! The merge is computed beside every worktree; only when it is known to be clean does the base branch go forward, and
//! that is refused as a whole if something is in its way. So there is nothing to abort, and nothing is half merged.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rookery_core::model::workspace::Uncommitted;
use rookery_core::{Code, Rejection};

use super::process::{Git, LONG, complaint};
use super::repository::{Access, Files, GitHead, Repository, unreadable};
use super::worktree::CheckedOut;
use crate::held::HeldFolder;

/// How often a base branch that moves meanwhile is tried again.
const TRIES: usize = 3;
/// How many files a conflict names.
const NAMED: usize = 20;
/// Rookery's own folder: nothing that comes from a branch is ever written there.
const OWN: &str = ".rookery";

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
    pub async fn merge(&self, offered: Offered<'_>) -> Result<String, Rejection> {
        self.settle_changes(&offered).await?;
        for _ in 0..TRIES {
            let (tip, base) = self.ends(&offered).await?;
            if self.is_ancestor(&tip, &base).await? {
                return self.merged_by(&tip, &base).await;
            }
            self.check_changes(&offered, &base, &tip).await?;
            let target = match self.is_ancestor(&base, &tip).await? {
                true => tip,
                false => self.joined(&offered, &base, &tip).await?,
            };
            if self.advance(offered.base, &base, &target).await? {
                return Ok(target);
            }
        }
        Err(Rejection::new(Code::InvalidState, format!("branch '{}' keeps moving", offered.base))
            .hint("try again in a moment"))
    }

    async fn ends(&self, offered: &Offered<'_>) -> Result<(String, String), Rejection> {
        let missing = |name: &str| {
            Rejection::new(Code::InvalidState, format!("there is no branch '{name}' in {}", self.root.display()))
                .hint("only a branch of this repository can be merged, and merged into")
        };
        let tip = self.branch(offered.branch).await?.ok_or_else(|| missing(offered.branch))?;
        let base = self.branch(offered.base).await?.ok_or_else(|| missing(offered.base))?;
        Ok((tip, base))
    }

    /// Refuses a branch that has files of Rookery's own folder: they would take the place of keys and settings.
    async fn check_changes(&self, offered: &Offered<'_>, base: &str, tip: &str) -> Result<(), Rejection> {
        let git = self.git(Access::Read)?.lasting(LONG);
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

    /// Commits what is not committed, or refuses because of it.
    async fn settle_changes(&self, offered: &Offered<'_>) -> Result<(), Rejection> {
        let Some(worktree) = self.find(offered.workspace, offered.path).await? else { return Ok(()) };
        let Some(folder) = &worktree.folder else { return Ok(()) };
        let place = worktree.path.display();
        let refused = |message: String| Rejection::new(Code::InvalidState, message);
        let on = worktree.head.as_ref().and_then(GitHead::branch);
        let Some(head) = worktree.head.as_ref().filter(|_| on == Some(offered.branch)) else {
            let where_it_is = on.map_or("no branch".to_owned(), |on| format!("branch '{on}'"));
            return Err(refused(format!("the worktree at {place} is on {where_it_is}, not on '{}'", offered.branch))
                .hint("finish or abort what is going on there, and switch back to its branch"));
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
        let git = self.git_with(&view, Some((folder, Files::Read)), Access::Write)?.lasting(LONG);
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

    /// Whether everything in a worktree is committed. Changes nothing there and takes no lock.
    pub(super) async fn is_clean_at(
        &self,
        folder: &HeldFolder,
        own: &HeldFolder,
        head: &GitHead,
    ) -> Result<bool, Rejection> {
        let view = self.view_of(Some(head))?;
        copy_index(own, &view.path("index"))?;
        let git = self.git_with(&view, Some((folder, Files::Read)), Access::Read)?.lasting(LONG);
        Ok(git.text(&["status", "--porcelain", "--ignore-submodules=all"]).await?.is_empty())
    }

    /// Whether everything in the worktree at a path is committed.
    pub async fn is_clean(&self, path: &Path) -> Result<bool, Rejection> {
        let CheckedOut { folder, own, head } = self.worktree_at(path)?;
        match head {
            Some(head) => self.is_clean_at(&folder, &own, &head).await,
            None => Err(Rejection::new(Code::InvalidState, format!("it is not known what {} is on", path.display()))),
        }
    }

    /// A merge of two branches that both have something, as a commit that no branch has yet.
    async fn joined(&self, offered: &Offered<'_>, base: &str, tip: &str) -> Result<String, Rejection> {
        let git = self.git(Access::Add)?.lasting(LONG);
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

    /// Moves the base branch forward, in the worktree that has it checked out if one has. False if it moved meanwhile.
    async fn advance(&self, name: &str, from: &str, to: &str) -> Result<bool, Rejection> {
        let holder = self.listed().into_iter().find(|listed| listed.branch() == Some(name));
        let opened = holder.as_ref().map(|holder| self.open_any(holder)).transpose()?.flatten();
        let Some(CheckedOut { folder, own, .. }) = opened else {
            return self.git(Access::Add)?.succeeds(&["update-ref", &format!("refs/heads/{name}"), to, from]).await;
        };
        let view = self.view_of(Some(&GitHead::Ref(format!("refs/heads/{name}"))))?;
        let git = self.git_with(&view, Some((&folder, Files::Write)), Access::Write)?.lasting(LONG);
        let git = git.index(&real_index(&own)?);
        let said = git.run(&["merge", "--ff-only", "--quiet", "--end-of-options", to]).await?;
        if said.status.success() {
            return Ok(true);
        }
        if self.branch(name).await?.as_deref() != Some(from) {
            return Ok(false);
        }
        let told = complaint(&said).message;
        let message = format!("branch '{name}' cannot go forward in {}: {told}", folder.path().display());
        Err(Rejection::new(Code::InvalidState, message)
            .hint("commit or stash what is in the way there, then merge again"))
    }

    /// The commit that brought a tip into a base which has it already.
    async fn merged_by(&self, tip: &str, base: &str) -> Result<String, Rejection> {
        let range = format!("{tip}..{base}");
        let since = self.git(Access::Read)?.text(&["rev-list", "--first-parent", "--ancestry-path", &range]).await?;
        let Some(first) = since.lines().last() else { return Ok(tip.to_owned()) };
        // Where the base simply went forward to the tip, what follows the tip did not bring it in.
        let before = self.commit(&format!("{first}^1")).await?;
        Ok(if before.as_deref() == Some(tip) { tip.to_owned() } else { first.to_owned() })
    }
}

/// The index of a worktree, for git to write. Git would follow a link and replace what it leads to.
fn real_index(own: &HeldFolder) -> Result<PathBuf, Rejection> {
    let index = own.path().join("index");
    if own.is_link("index") {
        return Err(Rejection::new(Code::InvalidState, format!("{} is a link", index.display()))
            .hint("remove it, then run 'git reset' in the worktree"));
    }
    Ok(index)
}

/// Copies the index of a worktree. Without one, git takes nothing for staged.
pub(super) fn copy_index(own: &HeldFolder, to: &Path) -> Result<bool, Rejection> {
    let failed = |error: io::Error| unreadable(&own.path().join("index"), &error);
    let Some(mut index) = own.file("index").map_err(failed)? else { return Ok(false) };
    let mut copy = File::create(to).map_err(failed)?;
    io::copy(&mut index, &mut copy).map_err(failed)?;
    Ok(true)
}

/// Stages every change, except in repositories of their own: git would start another git in those, with their settings.
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

fn conflict<'a>(offered: &Offered<'_>, files: impl Iterator<Item = &'a str>) -> Rejection {
    let mut files: Vec<&str> = files.take_while(|line| !line.is_empty()).collect();
    files.dedup();
    let more = files.len().saturating_sub(NAMED);
    let named = files.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
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
