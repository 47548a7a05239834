//! A repository: where it is, which branches it has, and which worktrees.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rookery_core::{Code, Refusal, limit};

use super::process::{Git, LONG};

/// How often we look whether a lock is free.
const LOCKED_POLL: Duration = Duration::from_millis(100);
/// Tried in this order where nobody named a base branch; else it is the branch of the main folder.
const USUAL_BASES: [&str; 2] = ["main", "master"];

#[derive(Clone, Debug)]
pub struct Repository {
    /// The main folder; for a bare repository, its own.
    pub root: PathBuf,
    /// The git folder that all worktrees share.
    pub common: PathBuf,
    /// What says that we are at work on a workspace, if we are.
    held: Option<Arc<File>>,
}

/// A worktree as git lists it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listed {
    pub path: PathBuf,
    /// Without `refs/heads/`; none if the head is detached.
    pub branch: Option<String>,
    pub bare: bool,
    /// Why it is locked, if it is.
    pub locked: Option<String>,
}

/// A commit and the name that it was found by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub name: String,
    pub commit: String,
}

/// A name for a branch, by git's own rules. Asked outside of any repository, where no shorthand means anything.
pub async fn check_branch(field: &'static str, name: &str) -> Result<(), Refusal> {
    let refused = || {
        Refusal::new(
            Code::Invalid,
            format!("{field} '{}' is not a name that git takes for a branch", name.escape_debug()),
        )
        .hint("use letters, digits, '-', '_' and '/', as in feature/login")
    };
    // Git takes '@' for the head where it expects a commit.
    if name == "@" || name.chars().any(char::is_control) || name.len() > limit::NAME_BYTES {
        return Err(refused());
    }
    let said = Git::at(Path::new("/")).run(&["check-ref-format", "--branch", name]).await?;
    if said.status.success() && said.text() == name {
        return Ok(());
    }
    Err(refused())
}

/// Whether everything in a worktree is committed. Takes no lock, so that whoever works there is not in its way.
pub async fn is_clean(folder: &Path) -> Result<bool, Refusal> {
    let asked = ["--no-optional-locks", "status", "--porcelain", "--ignore-submodules=none"];
    Ok(Git::at(folder).text(&asked).await?.is_empty())
}

impl Repository {
    /// The repository that a folder belongs to, whichever of its worktrees that is.
    pub async fn of(folder: &Path) -> Result<Repository, Refusal> {
        let asked = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let said = Git::at(folder).run(&asked).await?;
        if !said.status.success() {
            let told = super::process::complaint(&said);
            let message = format!("{} is not a git repository that can be used: {}", folder.display(), told.message);
            return Err(Refusal::new(Code::Invalid, message).hint("give the folder of a git repository"));
        }
        let common = PathBuf::from(said.text());
        let common = common.canonicalize().unwrap_or(common);
        let root = match (common.file_name(), common.parent()) {
            (Some(name), Some(parent)) if name == ".git" => parent.to_owned(),
            _ => common.clone(),
        };
        Ok(Repository { root, common, held: None })
    }

    /// The repository to work in for a workspace, once nobody else does: a git that a process before us started may still
    /// be at it.
    pub async fn for_workspace(mut self, workspace: &str) -> Result<Repository, Refusal> {
        let path = self.notes().join(format!("{workspace}.lock"));
        let failed = |error: io::Error| Refusal::new(Code::GitFailed, format!("{}: {error}", path.display()));
        fs::create_dir_all(self.notes()).map_err(failed)?;
        let file = File::create(&path).map_err(failed)?;
        let waiting = async {
            while let Err(TryLockError::WouldBlock) = file.try_lock() {
                tokio::time::sleep(LOCKED_POLL).await;
            }
        };
        if tokio::time::timeout(LONG, waiting).await.is_err() {
            return Err(Refusal::new(
                Code::GitFailed,
                format!("a git of before is still at work in {}", self.root.display()),
            )
            .hint("end it, or wait until it is done"));
        }
        self.held = Some(Arc::new(file));
        Ok(self)
    }

    /// The work for a workspace is over.
    pub fn release(self, workspace: &str) {
        drop(fs::remove_file(self.notes().join(format!("{workspace}.lock"))));
        // Stays while there is something in it.
        drop(fs::remove_dir(self.notes()));
    }

    /// Where we keep what we know of worktrees that are not whole.
    pub(super) fn notes(&self) -> PathBuf {
        self.common.join("rookery")
    }

    /// Git in the folder that no worktree owns.
    pub fn git(&self) -> Git {
        self.git_at(&self.common)
    }

    pub fn git_at(&self, folder: &Path) -> Git {
        Git::at(folder).holding(self.held.clone())
    }

    pub async fn worktrees(&self) -> Result<Vec<Listed>, Refusal> {
        let said = self.git().text(&["worktree", "list", "--porcelain", "-z"]).await?;
        Ok(listed(&said))
    }

    /// The commit that a name stands for.
    pub async fn commit(&self, name: &str) -> Result<Option<String>, Refusal> {
        let name = format!("{name}^{{commit}}");
        self.git().maybe(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await
    }

    pub async fn branch(&self, name: &str) -> Result<Option<String>, Refusal> {
        self.commit(&format!("refs/heads/{name}")).await
    }

    pub async fn is_ancestor(&self, one: &str, of: &str) -> Result<bool, Refusal> {
        self.git().succeeds(&["merge-base", "--is-ancestor", "--end-of-options", one, of]).await
    }

    /// What a branch is to be made from.
    pub async fn base(&self, named: Option<&str>) -> Result<Found, Refusal> {
        let Some(name) = named else { return self.usual_base().await };
        for candidate in [format!("refs/heads/{name}"), format!("refs/remotes/origin/{name}"), name.to_owned()] {
            if let Some(commit) = self.commit(&candidate).await? {
                return Ok(Found { name: name.to_owned(), commit });
            }
        }
        self.has_commits().await?;
        Err(Refusal::new(Code::Invalid, format!("there is no base branch '{name}' in {}", self.root.display()))
            .hint("name a branch that exists, or leave base_branch out"))
    }

    async fn usual_base(&self) -> Result<Found, Refusal> {
        let current = self.git().maybe(&["symbolic-ref", "--short", "--quiet", "HEAD"]).await?;
        for name in USUAL_BASES.into_iter().map(str::to_owned).chain(current) {
            if let Some(commit) = self.branch(&name).await? {
                return Ok(Found { name, commit });
            }
        }
        self.has_commits().await?;
        Err(Refusal::new(Code::Invalid, format!("{} has neither main nor master", self.root.display()))
            .hint("say in base_branch what to begin from"))
    }

    /// Git cannot make a worktree of nothing.
    async fn has_commits(&self) -> Result<(), Refusal> {
        if self.git().maybe(&["rev-list", "--all", "--max-count=1"]).await?.is_some() {
            return Ok(());
        }
        Err(Refusal::new(Code::InvalidState, format!("{} has no commits yet", self.root.display()))
            .hint("make a first commit, then try again"))
    }
}

/// Reads what `git worktree list --porcelain -z` says.
fn listed(said: &str) -> Vec<Listed> {
    let mut all: Vec<Listed> = vec![];
    for line in said.split('\0') {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, all.last_mut()) {
            ("worktree", _) => all.push(Listed { path: rest.into(), ..Listed::default() }),
            ("branch", Some(last)) => last.branch = Some(rest.trim_start_matches("refs/heads/").to_owned()),
            ("bare", Some(last)) => last.bare = true,
            ("locked", Some(last)) => last.locked = Some(rest.to_owned()),
            _ => {}
        }
    }
    all
}
