//! Saves work that exists only in a worktree to a backup ref, without touching branch, index or files.
//!
//! A backup contains all files that git does not ignore, the staged changes where they differ, the commit they are based
//! on, and the commits that an operation in progress has set aside. Ignored files are not saved.

use std::collections::BTreeSet;
use std::fs;

use rookery_core::{Code, Rejection};

use super::merge::{add_all, copy_index};
use super::process::{Git, LONG, ask_git};
use super::repository::{GitDirAccess, GitHead, POINTER_BYTES, Repository, WorktreeAccess, is_object};
use super::settings::Identity;
use super::worktree::VerifiedWorktree;
use crate::held::HeldFolder;

/// How often a worktree is read again while its files change.
const READ_ATTEMPTS: usize = 3;
/// Files in a worktree's admin folder in which operations in progress keep commits that may be nowhere else.
const SET_ASIDE: [&str; 7] = [
    "MERGE_HEAD",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "rebase-merge/orig-head",
    "rebase-merge/autostash",
    "rebase-apply/orig-head",
    "rebase-apply/autostash",
];

/// The backup ref of a workspace.
pub fn backup_ref(workspace: &str) -> String {
    format!("refs/rookery/backup/{workspace}")
}

/// The state of a worktree, as objects of the repository.
#[derive(Clone, PartialEq, Eq, Debug)]
struct WorktreeContent {
    head: Option<String>,
    /// The tree of `head`.
    committed: Option<String>,
    /// The tree of the index; `None` if git cannot write one, as during a merge.
    staged: Option<String>,
    /// The tree of the files; `None` if the folder is gone.
    files: Option<String>,
    set_aside: BTreeSet<String>,
}

impl WorktreeContent {
    fn is_committed(&self) -> bool {
        let same = |tree: &Option<String>| tree.is_none() || *tree == self.committed;
        let nothing = self.head.is_none() && self.staged.is_none() && self.files.is_none();
        nothing || (same(&self.staged) && same(&self.files) && self.set_aside.is_empty())
    }
}

impl Repository {
    /// Saves the work that would be lost with a worktree. Returns the backup ref, or `None` if nothing would be lost. `base`
    /// contains all of it if the branch was merged.
    pub async fn save(
        &self,
        worktree: &VerifiedWorktree,
        workspace: &str,
        base: Option<&str>,
    ) -> Result<Option<String>, Rejection> {
        let name = backup_ref(workspace);
        let mut content = self.content(worktree).await?;
        // Files may change meanwhile. Once two readings in a row are equal, nothing was missed between them.
        for _ in 0..READ_ATTEMPTS {
            self.keep(&name, &content, worktree, base).await?;
            let again = self.content(worktree).await?;
            if again == content {
                return Ok(self.commit(&name).await?.map(|_| name));
            }
            content = again;
        }
        Err(Rejection::new(Code::InvalidState, format!("files in {} are still changing", worktree.path.display()))
            .hint("stop the agent or program that works there, then try again"))
    }

    /// Commits content to a ref, on top of the ref's previous commit, unless all of it is safe elsewhere.
    async fn keep(
        &self,
        name: &str,
        content: &WorktreeContent,
        worktree: &VerifiedWorktree,
        base: Option<&str>,
    ) -> Result<(), Rejection> {
        let before = self.commit(name).await?;
        let commit = if content.is_committed() {
            match &content.head {
                Some(head) if !self.is_in(head, base).await? => head.clone(),
                Some(_) | None => return Ok(()),
            }
        } else {
            self.commit_content(content, before.as_deref(), worktree).await?
        };
        if before.as_ref() != Some(&commit) {
            self.git(GitDirAccess::Add)?.text(&["update-ref", name, &commit]).await?;
        }
        Ok(())
    }

    async fn is_in(&self, commit: &str, base: Option<&str>) -> Result<bool, Rejection> {
        match base {
            Some(base) => self.is_ancestor(commit, base).await,
            None => Ok(false),
        }
    }

    async fn commit_content(
        &self,
        content: &WorktreeContent,
        before: Option<&str>,
        worktree: &VerifiedWorktree,
    ) -> Result<String, Rejection> {
        let git = self.git(GitDirAccess::Add)?.identity(Identity::rookery());
        let path = worktree.path.display();
        let commit = async |tree: &str, parents: Vec<&str>, message: String| {
            let mut arguments = vec!["commit-tree", tree, "-m", &message];
            parents.into_iter().for_each(|parent| arguments.extend(["-p", parent]));
            git.text(&arguments).await
        };
        let mut parents: Vec<&str> = content.head.as_deref().into_iter().collect();
        let staged = match &content.staged {
            Some(tree) if content.staged != content.committed && content.staged != content.files => {
                Some(commit(tree, parents.clone(), format!("Changes staged in {path}")).await?)
            }
            _ => None,
        };
        parents.extend(staged.as_deref());
        parents.extend(content.set_aside.iter().map(String::as_str));
        let tree = content.files.as_ref().or(content.staged.as_ref()).or(content.committed.as_ref());
        let Some(tree) = tree else {
            return Err(Rejection::new(Code::GitFailed, format!("cannot read anything of {path}")));
        };
        // An unchanged state is not committed twice.
        if let Some(before) = before
            && self.commit_holds(before, tree, &parents).await?
        {
            return Ok(before.to_owned());
        }
        parents.extend(before.filter(|before| content.head.as_deref() != Some(*before)));
        commit(tree, parents, format!("Files in {path} when it was removed")).await
    }

    /// Whether a commit has exactly this tree and these parents.
    async fn commit_holds(&self, commit: &str, tree: &str, parents: &[&str]) -> Result<bool, Rejection> {
        let git = self.git(GitDirAccess::Read)?;
        let of_it = git.text(&["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).await?;
        let line = git.text(&["rev-list", "--parents", "--max-count=1", "--end-of-options", commit]).await?;
        Ok(of_it == tree && line.split_whitespace().skip(1).eq(parents.iter().copied()))
    }

    async fn content(&self, worktree: &VerifiedWorktree) -> Result<WorktreeContent, Rejection> {
        let head =
            match &worktree.admin.read("HEAD", POINTER_BYTES).ok().flatten().and_then(|head| GitHead::parse(&head)) {
                Some(head) => self.commit(head.name()).await?,
                None => None,
            };
        let committed = match &head {
            Some(head) => {
                let tree = format!("{head}^{{tree}}");
                Some(self.git(GitDirAccess::Read)?.text(&["rev-parse", "--verify", &tree]).await?)
            }
            None => None,
        };
        let staged = self.staged(worktree).await?;
        let files = match &worktree.folder {
            Some(folder) => Some(self.files(worktree, folder, head.as_deref()).await?),
            None => None,
        };
        let mut set_aside = BTreeSet::new();
        for name in SET_ASIDE {
            let Ok(Some(bytes)) = worktree.admin.read(name, POINTER_BYTES) else { continue };
            for named in String::from_utf8_lossy(&bytes).lines().map(str::trim).filter(|line| is_object(line)) {
                set_aside.extend(self.commit(named).await?.filter(|commit| Some(commit) != head.as_ref()));
            }
        }
        Ok(WorktreeContent { head, committed, staged, files, set_aside })
    }

    async fn staged(&self, worktree: &VerifiedWorktree) -> Result<Option<String>, Rejection> {
        let view = self.view_of(None)?;
        let copy = view.path("staged");
        if !copy_index(&worktree.admin, &copy)? {
            return Ok(None);
        }
        self.git_with(&view, None, GitDirAccess::Add)?.index(&copy).maybe(&["write-tree"]).await
    }

    /// Writes the files of a worktree as a tree, with a separate index.
    async fn files(
        &self,
        worktree: &VerifiedWorktree,
        folder: &HeldFolder,
        head: Option<&str>,
    ) -> Result<String, Rejection> {
        let view = self.view_of(head.map(|head| GitHead::Commit(head.to_owned())).as_ref())?;
        let index = view.path("files");
        let git =
            self.git_with(&view, Some((folder, WorktreeAccess::Read)), GitDirAccess::Add)?.index(&index).lasting(LONG);
        let copied = copy_index(&worktree.admin, &index)?;
        // A file that is marked as unchanged may have changed all the same.
        if !copied || (hides_changes(&git).await? && !self.is_sparse(worktree).await?) {
            fs::remove_file(&index).ok();
            match head {
                Some(head) => git.text(&["read-tree", head]).await?,
                None => git.text(&["read-tree", "--empty"]).await?,
            };
        }
        check_repositories(&git, worktree, folder).await?;
        add_all(&git).await?;
        check_added(&git, worktree, head).await?;
        git.text(&["write-tree"]).await
    }

    /// Whether only a part of the files is checked out. A worktree may have its own settings for that. Agents can write them,
    /// but they decide only how the agent's own work is saved.
    async fn is_sparse(&self, worktree: &VerifiedWorktree) -> Result<bool, Rejection> {
        let own = worktree.admin.read("config.worktree", POINTER_BYTES).ok().flatten().unwrap_or_default();
        let asked = ["config", "--file", "-", "--no-includes", "--type=bool", "--get", "core.sparseCheckout"];
        Ok(self.settings.is_sparse || ask_git(&asked, own).await?.text() == "true")
    }
}

async fn hides_changes(git: &Git<'_>) -> Result<bool, Rejection> {
    let listed = git.text(&["ls-files", "-v"]).await?;
    Ok(listed.lines().any(|line| line.starts_with(|c: char| c.is_ascii_lowercase() || c == 'S')))
}

/// Rejects nested repositories that git knows as such: changes in them cannot be saved.
async fn check_repositories(git: &Git<'_>, worktree: &VerifiedWorktree, folder: &HeldFolder) -> Result<(), Rejection> {
    let staged = git.bytes(&["ls-files", "--stage", "-z"]).await?;
    let entries = staged.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
    for path in entries.filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('\t').map(|(_, path)| path)) {
        if holds_repository(folder, path) {
            return Err(repository_inside(worktree, path));
        }
    }
    Ok(())
}

fn holds_repository(folder: &HeldFolder, path: &str) -> bool {
    let mut here = folder.try_clone();
    for part in path.split('/') {
        here = here.and_then(|here| here.child(part));
    }
    here.is_ok_and(|inside| inside.has(".git"))
}

fn repository_inside(worktree: &VerifiedWorktree, path: &str) -> Rejection {
    let place = worktree.path.join(path);
    Rejection::new(Code::InvalidState, format!("{} is a separate git repository", place.display()))
        .hint("its files cannot be saved from here: move it away, then try again")
}

/// Rejects nested repositories that were just added: git keeps only the name of their commit, so their files would be lost.
async fn check_added(git: &Git<'_>, worktree: &VerifiedWorktree, head: Option<&str>) -> Result<(), Rejection> {
    let changed = match head {
        Some(head) => git.text(&["diff-index", "--cached", "--raw", "--no-renames", head]).await?,
        None => git.text(&["ls-files", "--stage"]).await?,
    };
    let holds = |line: &str| -> Option<String> {
        let (modes, path) = line.split_once('\t')?;
        let mode = if head.is_some() { modes.split(' ').nth(1)? } else { modes.split(' ').next()? };
        (mode == "160000").then(|| path.to_owned())
    };
    match changed.lines().find_map(holds) {
        None => Ok(()),
        Some(path) => Err(repository_inside(worktree, &path)),
    }
}
