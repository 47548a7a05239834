//! Saving what is only in a worktree: to a ref of its own, without touching branch, index or files.
//!
//! Saved are the files that git does not ignore as they are, what is staged where that differs, the commit they are based
//! on, and what an operation in progress has set aside. Ignored files are not.

use std::collections::BTreeSet;
use std::fs;

use rookery_core::{Code, Rejection};

use super::merge::{add_all, copy_index};
use super::process::{Git, LONG, ask_git};
use super::repository::{Access, Files, GitHead, POINTER_BYTES, Repository, is_object};
use super::settings::Identity;
use super::worktree::Worktree;
use crate::held::HeldFolder;

/// How often we look again while somebody writes.
const TRIES: usize = 3;
/// Where operations in progress keep commits that may be nowhere else, in a worktree's part of the git folder.
const SET_ASIDE: [&str; 7] = [
    "MERGE_HEAD",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "rebase-merge/orig-head",
    "rebase-merge/autostash",
    "rebase-apply/orig-head",
    "rebase-apply/autostash",
];

/// The ref that keeps the work of a workspace.
pub fn backup_ref(workspace: &str) -> String {
    format!("refs/rookery/backup/{workspace}")
}

/// What a worktree holds, as objects of the repository.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Content {
    head: Option<String>,
    /// The tree of `head`.
    committed: Option<String>,
    /// What is staged; none if git cannot make a tree of it, as in the midst of a merge.
    staged: Option<String>,
    /// The files as they are; none if the folder is gone.
    files: Option<String>,
    set_aside: BTreeSet<String>,
}

impl Content {
    fn is_committed(&self) -> bool {
        let same = |tree: &Option<String>| tree.is_none() || *tree == self.committed;
        let nothing = self.head.is_none() && self.staged.is_none() && self.files.is_none();
        nothing || (same(&self.staged) && same(&self.files) && self.set_aside.is_empty())
    }
}

impl Repository {
    /// Saves what would be lost with a worktree; the ref that keeps it, or none if nothing would be. `base` is what has all
    /// of it if it was merged.
    pub async fn save(
        &self,
        worktree: &Worktree,
        workspace: &str,
        base: Option<&str>,
    ) -> Result<Option<String>, Rejection> {
        let name = backup_ref(workspace);
        let mut content = self.content(worktree).await?;
        // Somebody may be writing right now. Once two looks in a row find the same, there is nothing between them.
        for _ in 0..TRIES {
            self.keep(&name, &content, worktree, base).await?;
            let again = self.content(worktree).await?;
            if again == content {
                return Ok(self.commit(&name).await?.map(|_| name));
            }
            content = again;
        }
        Err(Rejection::new(Code::InvalidState, format!("files in {} are still changing", worktree.path.display()))
            .hint("stop whoever works there, then try again"))
    }

    /// Puts content under a ref, on top of what it held before, unless all of it is safe elsewhere.
    async fn keep(
        &self,
        name: &str,
        content: &Content,
        worktree: &Worktree,
        base: Option<&str>,
    ) -> Result<(), Rejection> {
        let before = self.commit(name).await?;
        let commit = if content.is_committed() {
            match &content.head {
                Some(head) if !self.is_in(head, base).await? => head.clone(),
                Some(_) | None => return Ok(()),
            }
        } else {
            self.committed(content, before.as_deref(), worktree).await?
        };
        if before.as_ref() != Some(&commit) {
            self.git(Access::Add)?.text(&["update-ref", name, &commit]).await?;
        }
        Ok(())
    }

    async fn is_in(&self, commit: &str, base: Option<&str>) -> Result<bool, Rejection> {
        match base {
            Some(base) => self.is_ancestor(commit, base).await,
            None => Ok(false),
        }
    }

    async fn committed(
        &self,
        content: &Content,
        before: Option<&str>,
        worktree: &Worktree,
    ) -> Result<String, Rejection> {
        let git = self.git(Access::Add)?.identity(Identity::rookery());
        let path = worktree.path.display();
        let commit = async |tree: &str, parents: Vec<&str>, message: String| {
            let mut arguments = vec!["commit-tree", tree, "-m", &message];
            parents.into_iter().for_each(|parent| arguments.extend(["-p", parent]));
            git.text(&arguments).await
        };
        let mut parents: Vec<&str> = content.head.as_deref().into_iter().collect();
        let staged = match &content.staged {
            Some(tree) if content.staged != content.committed && content.staged != content.files => {
                Some(commit(tree, parents.clone(), format!("What was staged in {path}")).await?)
            }
            _ => None,
        };
        parents.extend(staged.as_deref());
        parents.extend(content.set_aside.iter().map(String::as_str));
        let tree = content.files.as_ref().or(content.staged.as_ref()).or(content.committed.as_ref());
        let Some(tree) = tree else {
            return Err(Rejection::new(Code::GitFailed, format!("nothing can be read of {path}")));
        };
        // The same as before is not kept twice.
        if let Some(before) = before
            && self.commit_holds(before, tree, &parents).await?
        {
            return Ok(before.to_owned());
        }
        parents.extend(before.filter(|before| content.head.as_deref() != Some(*before)));
        commit(tree, parents, format!("What was in {path} when it was removed")).await
    }

    /// Whether a commit is of exactly this tree on top of exactly these.
    async fn commit_holds(&self, commit: &str, tree: &str, parents: &[&str]) -> Result<bool, Rejection> {
        let git = self.git(Access::Read)?;
        let of_it = git.text(&["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).await?;
        let line = git.text(&["rev-list", "--parents", "--max-count=1", "--end-of-options", commit]).await?;
        Ok(of_it == tree && line.split_whitespace().skip(1).eq(parents.iter().copied()))
    }

    async fn content(&self, worktree: &Worktree) -> Result<Content, Rejection> {
        let head =
            match &worktree.admin.read("HEAD", POINTER_BYTES).ok().flatten().and_then(|head| GitHead::parse(&head)) {
                Some(head) => self.commit(head.name()).await?,
                None => None,
            };
        let committed = match &head {
            Some(head) => {
                let tree = format!("{head}^{{tree}}");
                Some(self.git(Access::Read)?.text(&["rev-parse", "--verify", &tree]).await?)
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
        Ok(Content { head, committed, staged, files, set_aside })
    }

    async fn staged(&self, worktree: &Worktree) -> Result<Option<String>, Rejection> {
        let view = self.view_of(None)?;
        let copy = view.path("staged");
        if !copy_index(&worktree.admin, &copy)? {
            return Ok(None);
        }
        self.git_with(&view, None, Access::Add)?.index(&copy).maybe(&["write-tree"]).await
    }

    /// The files of a worktree as a tree, by an index of ours.
    async fn files(&self, worktree: &Worktree, folder: &HeldFolder, head: Option<&str>) -> Result<String, Rejection> {
        let view = self.view_of(head.map(|head| GitHead::Commit(head.to_owned())).as_ref())?;
        let index = view.path("files");
        let git = self.git_with(&view, Some((folder, Files::Read)), Access::Add)?.index(&index).lasting(LONG);
        let copied = copy_index(&worktree.admin, &index)?;
        // A file that git was told not to look at may have changed all the same.
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

    /// Whether only a part of the files is checked out. Worktrees may have settings of their own for that; they are an
    /// agent's to write, and all that they decide here is how its own work is saved.
    async fn is_sparse(&self, worktree: &Worktree) -> Result<bool, Rejection> {
        let own = worktree.admin.read("config.worktree", POINTER_BYTES).ok().flatten().unwrap_or_default();
        let asked = ["config", "--file", "-", "--no-includes", "--type=bool", "--get", "core.sparseCheckout"];
        Ok(self.settings.is_sparse || ask_git(&asked, own).await?.text() == "true")
    }
}

async fn hides_changes(git: &Git<'_>) -> Result<bool, Rejection> {
    let listed = git.text(&["ls-files", "-v"]).await?;
    Ok(listed.lines().any(|line| line.starts_with(|c: char| c.is_ascii_lowercase() || c == 'S')))
}

/// Refuses repositories that are checked out in folders which git knows as such: what changed in them is not saved.
async fn check_repositories(git: &Git<'_>, worktree: &Worktree, folder: &HeldFolder) -> Result<(), Rejection> {
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

fn repository_inside(worktree: &Worktree, path: &str) -> Rejection {
    let place = worktree.path.join(path);
    Rejection::new(Code::InvalidState, format!("{} is a git repository of its own", place.display()))
        .hint("what is in it cannot be saved from here: move it away, then try again")
}

/// Of a repository in a folder below, git keeps only the name of a commit: its files would be lost.
async fn check_added(git: &Git<'_>, worktree: &Worktree, head: Option<&str>) -> Result<(), Rejection> {
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
