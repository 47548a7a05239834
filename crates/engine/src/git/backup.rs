//! Saving what is only in a worktree: to a ref of its own, without touching branch, index or files.
//!
//! Saved are the files that git does not ignore as they are, what is staged where that differs, the commit they are based
//! on, and what an operation in progress has set aside. Ignored files are not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rookery_core::{Code, Refusal};

use super::process::{Git, LONG};
use super::repository::Repository;
use super::worktree::Worktree;

/// The author of backups.
const NAME: &str = "rookery";
const EMAIL: &str = "rookery@localhost";
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

/// Index files of our own, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(admin: &Path) -> Result<Scratch, Refusal> {
        let folder = admin.join(format!("rookery-save-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder)
            .map_err(|error| Refusal::new(Code::GitFailed, format!("cannot write in {}: {error}", admin.display())))?;
        Ok(Scratch(folder))
    }

    fn index(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
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
    ) -> Result<Option<String>, Refusal> {
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
        Err(Refusal::new(Code::InvalidState, format!("files in {} are still changing", worktree.path.display()))
            .hint("stop whoever works there, then try again"))
    }

    /// Puts content under a ref, on top of what it held before, unless all of it is safe elsewhere.
    async fn keep(
        &self,
        name: &str,
        content: &Content,
        worktree: &Worktree,
        base: Option<&str>,
    ) -> Result<(), Refusal> {
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
            self.git().text(&["update-ref", "-m", "rookery: worktree removed", name, &commit]).await?;
        }
        Ok(())
    }

    async fn is_in(&self, commit: &str, base: Option<&str>) -> Result<bool, Refusal> {
        match base {
            Some(base) => self.is_ancestor(commit, base).await,
            None => Ok(false),
        }
    }

    async fn committed(&self, content: &Content, before: Option<&str>, worktree: &Worktree) -> Result<String, Refusal> {
        let git = self.git().identity(NAME, EMAIL);
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
            return Err(Refusal::new(Code::GitFailed, format!("nothing can be read of {path}")));
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
    async fn commit_holds(&self, commit: &str, tree: &str, parents: &[&str]) -> Result<bool, Refusal> {
        let said = self.git().text(&["show", "--no-patch", "--format=%T %P", "--end-of-options", commit]).await?;
        Ok(said.split_whitespace().eq(std::iter::once(tree).chain(parents.iter().copied())))
    }

    async fn content(&self, worktree: &Worktree) -> Result<Content, Refusal> {
        let head = self.own_head(worktree).await?;
        let committed = match &head {
            Some(head) => Some(self.git().text(&["rev-parse", "--verify", &format!("{head}^{{tree}}")]).await?),
            None => None,
        };
        let scratch = Scratch::new(&worktree.admin)?;
        let staged = self.staged(worktree, &scratch).await?;
        let files = match worktree.path.is_dir() {
            true => Some(self.files(worktree, &scratch, head.as_deref()).await?),
            false => None,
        };
        let mut set_aside = BTreeSet::new();
        for name in SET_ASIDE {
            let Ok(text) = fs::read_to_string(worktree.admin.join(name)) else { continue };
            for named in text.lines().map(str::trim).filter(|line| line.chars().all(|c| c.is_ascii_hexdigit())) {
                set_aside.extend(self.commit(named).await?.filter(|commit| Some(commit) != head.as_ref()));
            }
        }
        Ok(Content { head, committed, staged, files, set_aside })
    }

    async fn own_head(&self, worktree: &Worktree) -> Result<Option<String>, Refusal> {
        match worktree.admin.file_name() {
            Some(name) => self.commit(&format!("worktrees/{}/HEAD", name.to_string_lossy())).await,
            None => Ok(None),
        }
    }

    async fn staged(&self, worktree: &Worktree, scratch: &Scratch) -> Result<Option<String>, Refusal> {
        let copy = scratch.index("staged");
        if fs::copy(worktree.admin.join("index"), &copy).is_err() {
            return Ok(None);
        }
        self.git().index(&copy).maybe(&["write-tree"]).await
    }

    /// The files of a worktree as a tree, by an index of our own.
    async fn files(&self, worktree: &Worktree, scratch: &Scratch, head: Option<&str>) -> Result<String, Refusal> {
        let index = scratch.index("files");
        let git = self.git_at(&worktree.path).index(&index).lasting(LONG);
        let copied = fs::copy(worktree.admin.join("index"), &index).is_ok();
        // A file that git was told not to look at may have changed all the same.
        if !copied || (hides_changes(&git).await? && !is_sparse(&git).await?) {
            drop(fs::remove_file(&index));
            match head {
                Some(head) => git.text(&["read-tree", head]).await?,
                None => git.text(&["read-tree", "--empty"]).await?,
            };
        }
        git.text(&["-c", "core.safecrlf=false", "add", "--all", "--", "."]).await?;
        holds_no_repository(&git, worktree, head).await?;
        git.text(&["write-tree"]).await
    }
}

async fn hides_changes(git: &Git) -> Result<bool, Refusal> {
    let listed = git.text(&["ls-files", "-v"]).await?;
    Ok(listed.lines().any(|line| line.starts_with(|c: char| c.is_ascii_lowercase() || c == 'S')))
}

async fn is_sparse(git: &Git) -> Result<bool, Refusal> {
    Ok(git.maybe(&["config", "--type=bool", "core.sparseCheckout"]).await?.as_deref() == Some("true"))
}

/// Of a repository in a folder below, git keeps only the name of a commit: its files would be lost.
async fn holds_no_repository(git: &Git, worktree: &Worktree, head: Option<&str>) -> Result<(), Refusal> {
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
        Some(path) => {
            let place = worktree.path.join(&path);
            Err(Refusal::new(Code::InvalidState, format!("{} is a git repository of its own", place.display()))
                .hint("what is in it cannot be saved from here: move it away, then try again"))
        }
    }
}
