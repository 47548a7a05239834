//! The project's repository: its location, its branches, and git commands on it.
//!
//! A project has one repository, found from the project's folder. Git never locates it: it would follow files that agents
//! can write (`.git`, `commondir`). These files are read here, without following links, and a path that does not lead back
//! to the project's git folder is rejected.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rookery_core::kernel::limit;
use rookery_core::{Code, Rejection};

use super::process::{Git, LONG, Programs, ask_git};
use super::sandbox::Mount;
use super::settings::RepositorySettings;
use super::view::GitView;
use crate::held::HeldFolder;
use crate::paths::lexical;

/// The interval at which a held lock is tried again.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The default base branches, in this order; after them, the branch of the main folder.
const USUAL_BASES: [&str; 2] = ["main", "master"];
/// The project's own folder.
const ROOKERY: &str = ".rookery";
/// The largest pointer file, such as `.git`, `HEAD` or `commondir`.
pub(super) const POINTER_BYTES: u64 = 8 << 10;
/// Parts of the git folder that a person's own git would run or read settings from: never written.
const GUARDED: [&str; 4] = ["config", "config.worktree", "commondir", "hooks"];

/// The repository of the project, opened for one operation.
#[derive(Debug)]
pub struct Repository {
    /// The main folder; for a bare repository, its git folder.
    pub root: PathBuf,
    project: PathBuf,
    /// The folder that the repository itself has checked out, unless it is bare.
    pub(super) main: Option<PathBuf>,
    /// The git folder that all worktrees share.
    pub(super) common: HeldFolder,
    pub(super) settings: RepositorySettings,
    programs: Programs,
    view: GitView,
    /// The lock of the workspace that is being worked on, if any.
    held: Option<Arc<File>>,
}

/// Which parts of the git folder a command may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GitDirAccess {
    /// None.
    Read,
    /// Objects and refs, except that no ref can be deleted.
    Add,
    /// All parts except those that a person's own git would run or read settings from.
    Write,
}

/// Whether a command may write the files of a worktree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WorktreeAccess {
    Read,
    Write,
}

/// The branch or commit that is checked out in a worktree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum GitHead {
    Ref(String),
    Commit(String),
}

impl GitHead {
    /// Parses a `HEAD` file; `None` if it is not valid.
    pub fn parse(bytes: &[u8]) -> Option<GitHead> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        let is_plain = |name: &str| !name.chars().any(|c| c.is_control() || c == ' ') && !name.contains("..");
        if let Some(name) = text.strip_prefix("ref:").map(str::trim_start) {
            return (name.starts_with("refs/") && is_plain(name)).then(|| GitHead::Ref(name.to_owned()));
        }
        is_object(text).then(|| GitHead::Commit(text.to_owned()))
    }

    /// The branch without `refs/heads/`; `None` if no branch is checked out.
    pub fn branch(&self) -> Option<&str> {
        match self {
            GitHead::Ref(name) => name.strip_prefix("refs/heads/"),
            GitHead::Commit(_) => None,
        }
    }

    /// The name of the commit for git.
    pub fn name(&self) -> &str {
        match self {
            GitHead::Ref(name) | GitHead::Commit(name) => name,
        }
    }

    /// The line in a `HEAD` file.
    pub fn line(&self) -> String {
        match self {
            GitHead::Ref(name) => format!("ref: {name}"),
            GitHead::Commit(commit) => commit.clone(),
        }
    }
}

/// Whether a text is the full name of an object.
pub(super) fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A base commit and the name that it was found by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BaseCommit {
    pub name: String,
    pub commit: String,
}

/// Checks the name of a branch by git's rules, outside of any repository, where shorthands have no meaning.
pub async fn check_branch(field: &'static str, name: &str) -> Result<(), Rejection> {
    let refused = || {
        Rejection::new(
            Code::Invalid,
            format!("{field} '{}' is not a name that git takes for a branch", name.escape_debug()),
        )
        .hint("use letters, digits, '-', '_' and '/', as in feature/login")
    };
    // Git reads '@' as the head where it expects a commit.
    if name == "@" || name.chars().any(char::is_control) || name.len() > limit::NAME_BYTES {
        return Err(refused());
    }
    let said = ask_git(&["check-ref-format", "--branch", name], vec![]).await?;
    if said.status.success() && said.text() == name { Ok(()) } else { Err(refused()) }
}

/// The location of a project's repository.
struct RepositoryLocation {
    root: PathBuf,
    main: Option<PathBuf>,
    common: HeldFolder,
}

impl Repository {
    /// Opens the repository that a project belongs to. Git runs in a sandbox if `bwrap` is there and works.
    pub async fn of_project(project: &Path, bwrap: Option<&Path>) -> Result<Repository, Rejection> {
        let RepositoryLocation { root, main, common } = locate(project)?;
        let programs = Programs::find(bwrap).await?;
        let settings = RepositorySettings::read(&common).await?;
        if programs.sandbox.is_some() && common.has("objects/info/alternates") {
            let message = format!("{} borrows objects from another repository", root.display());
            return Err(Rejection::new(Code::GitFailed, message)
                .hint("'git repack -a -d' copies them; then remove .git/objects/info/alternates"));
        }
        let views = views(project);
        let view = GitView::bare(&views, common.path(), &settings).map_err(|error| unwritten(&views, &error))?;
        let main = main.filter(|_| !settings.is_bare);
        Ok(Repository { root, project: project.to_owned(), main, common, settings, programs, view, held: None })
    }

    /// Rejects a folder that belongs to another repository than the project's.
    pub fn check_named(&self, folder: &Path) -> Result<(), Rejection> {
        let other = locate(folder)?.common;
        if matches!((other.inode(), self.common.inode()), (Ok(one), Ok(own)) if one == own) {
            return Ok(());
        }
        Err(Rejection::new(Code::Forbidden, format!("{} is not in the project's repository", folder.display()))
            .hint(format!("name {}, or start Rookery in the other repository", self.root.display())))
    }

    /// Takes the lock of a workspace. Waits for a git that an earlier daemon started and that still runs.
    pub async fn for_workspace(mut self, workspace: &str) -> Result<Repository, Rejection> {
        let path = self.lock_of(workspace)?;
        let failed = |error: io::Error| unwritten(&path, &error);
        fs::create_dir_all(self.state().join("locks")).map_err(failed)?;
        let file = File::create(&path).map_err(failed)?;
        let waiting = async {
            while let Err(TryLockError::WouldBlock) = file.try_lock() {
                tokio::time::sleep(LOCK_POLL_INTERVAL).await;
            }
        };
        if tokio::time::timeout(LONG, waiting).await.is_err() {
            return Err(Rejection::new(
                Code::GitFailed,
                format!("an earlier git is still running in {}", self.root.display()),
            )
            .hint("end it, or wait until it ends"));
        }
        self.held = Some(Arc::new(file));
        Ok(self)
    }

    /// Releases the lock of a workspace.
    pub fn release(self, workspace: &str) {
        if let Ok(path) = self.lock_of(workspace) {
            fs::remove_file(path).ok();
        }
    }

    fn lock_of(&self, workspace: &str) -> Result<PathBuf, Rejection> {
        Ok(self.state().join("locks").join(format!("{}.lock", plain_id(workspace)?)))
    }

    /// The folder for records of worktrees, in the project's `.rookery/`, which agents cannot write.
    pub(super) fn state(&self) -> PathBuf {
        state(&self.project)
    }

    pub fn common(&self) -> &Path {
        self.common.path()
    }

    pub fn project(&self) -> &Path {
        &self.project
    }

    /// A git command without a worktree.
    pub(super) fn git(&self, access: GitDirAccess) -> Result<Git<'_>, Rejection> {
        self.git_with(&self.view, None, access)
    }

    /// A view of a worktree with this head, if it has one.
    pub(super) fn view_of(&self, head: Option<&GitHead>) -> Result<GitView, Rejection> {
        let views = views(&self.project);
        GitView::of_worktree(&views, self.common.path(), &self.settings, head.map(GitHead::line).as_deref())
            .map_err(|error| unwritten(&views, &error))
    }

    /// A git command on a view, with a worktree if given.
    pub(super) fn git_with<'a>(
        &'a self,
        view: &'a GitView,
        worktree: Option<(&HeldFolder, WorktreeAccess)>,
        access: GitDirAccess,
    ) -> Result<Git<'a>, Rejection> {
        Ok(Git {
            programs: &self.programs,
            view,
            mounts: self.mounts(worktree, access).map_err(|error| unreadable(self.common.path(), &error))?,
            worktree: worktree.map(|(folder, _)| folder.path().to_owned()),
            index: None,
            identity: self.settings.identity.clone(),
            most: super::process::QUICK,
            held: self.held.clone(),
        })
    }

    fn mounts(&self, worktree: Option<(&HeldFolder, WorktreeAccess)>, access: GitDirAccess) -> io::Result<Vec<Mount>> {
        let mut mounts = Vec::new();
        match worktree {
            Some((folder, WorktreeAccess::Read)) => mounts.push(Mount::Read(folder.path().to_owned(), folder.inode()?)),
            Some((folder, WorktreeAccess::Write)) => {
                mounts.push(Mount::Write(folder.path().to_owned(), folder.inode()?))
            }
            None => {}
        }
        let (common, inode) = (self.common.path(), self.common.inode()?);
        match access {
            GitDirAccess::Read => mounts.push(Mount::Read(common.to_owned(), inode)),
            GitDirAccess::Add => {
                mounts.push(Mount::Read(common.to_owned(), inode));
                for name in ["objects", "refs"] {
                    mounts.push(Mount::Write(common.join(name), self.common.child(name)?.inode()?));
                }
            }
            GitDirAccess::Write => {
                mounts.push(Mount::Write(common.to_owned(), inode));
                let guarded = GUARDED.iter().filter_map(|name| Some((name, self.common.inode_at(name)?)));
                mounts.extend(guarded.map(|(name, inode)| Mount::Read(common.join(name), inode)));
            }
        }
        let own = self.project.join(ROOKERY);
        let shown = worktree.is_some_and(|(folder, _)| own.starts_with(folder.path())) || own.starts_with(common);
        if shown {
            mounts.push(Mount::Hidden(own));
        }
        Ok(mounts)
    }

    /// The branch or commit that is checked out in the main folder.
    pub(super) fn main_head(&self) -> Option<GitHead> {
        self.common.read("HEAD", POINTER_BYTES).ok().flatten().and_then(|bytes| GitHead::parse(&bytes))
    }

    /// The commit that a name refers to.
    pub async fn commit(&self, name: &str) -> Result<Option<String>, Rejection> {
        let name = format!("{name}^{{commit}}");
        self.git(GitDirAccess::Read)?.maybe(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await
    }

    pub async fn branch(&self, name: &str) -> Result<Option<String>, Rejection> {
        self.commit(&format!("refs/heads/{name}")).await
    }

    pub async fn is_ancestor(&self, one: &str, of: &str) -> Result<bool, Rejection> {
        self.git(GitDirAccess::Read)?.succeeds(&["merge-base", "--is-ancestor", "--end-of-options", one, of]).await
    }

    /// The commit that a new branch starts from.
    pub async fn base(&self, named: Option<&str>) -> Result<BaseCommit, Rejection> {
        let Some(name) = named else { return self.usual_base().await };
        for candidate in [format!("refs/heads/{name}"), format!("refs/remotes/origin/{name}"), name.to_owned()] {
            if let Some(commit) = self.commit(&candidate).await? {
                return Ok(BaseCommit { name: name.to_owned(), commit });
            }
        }
        self.check_has_commits().await?;
        Err(Rejection::new(Code::Invalid, format!("there is no base branch '{name}' in {}", self.root.display()))
            .hint("name a branch that exists, or leave base_branch out"))
    }

    async fn usual_base(&self) -> Result<BaseCommit, Rejection> {
        let current = self.main_head().and_then(|head| head.branch().map(str::to_owned));
        for name in USUAL_BASES.into_iter().map(str::to_owned).chain(current) {
            if let Some(commit) = self.branch(&name).await? {
                return Ok(BaseCommit { name, commit });
            }
        }
        self.check_has_commits().await?;
        Err(Rejection::new(Code::Invalid, format!("{} has neither main nor master", self.root.display()))
            .hint("set base_branch to the branch to start from"))
    }

    /// Rejects a repository without commits: a worktree needs one to start from.
    async fn check_has_commits(&self) -> Result<(), Rejection> {
        if self.git(GitDirAccess::Read)?.maybe(&["rev-list", "--all", "--max-count=1"]).await?.is_some() {
            return Ok(());
        }
        Err(Rejection::new(Code::InvalidState, format!("{} has no commits yet", self.root.display()))
            .hint("make a first commit, then try again"))
    }

    /// Deletes a ref, if it still has the given commit.
    pub(super) async fn delete_ref(&self, name: &str, was: &str) -> Result<bool, Rejection> {
        self.git(GitDirAccess::Write)?.succeeds(&["update-ref", "-d", name, was]).await
    }
}

/// Locates the repository of a folder, by the nearest `.git` at or above it.
fn locate(folder: &Path) -> Result<RepositoryLocation, Rejection> {
    let refused = |message: String| {
        Rejection::new(Code::Invalid, message).hint("give the folder of a git repository that is not set up by links")
    };
    let start = HeldFolder::open(folder).map_err(|error| {
        let what = if error.kind() == io::ErrorKind::NotFound { "there is no folder" } else { "cannot open" };
        Rejection::new(Code::GitFailed, format!("{what} {}: {error}", folder.display()))
    })?;
    if start.has("HEAD") && start.child("objects").is_ok() && start.child("refs").is_ok() && !start.has(".git") {
        check_commondir(&start)?;
        return Ok(RepositoryLocation { root: folder.to_owned(), main: None, common: start });
    }
    for folder in folder.ancestors() {
        let Ok(held) = HeldFolder::open(folder) else { continue };
        if !held.has(".git") {
            continue;
        }
        if let Ok(common) = held.child(".git") {
            check_commondir(&common)?;
            return Ok(RepositoryLocation { root: folder.to_owned(), main: Some(folder.to_owned()), common });
        }
        let Some(own) = pointed_to(&held) else {
            return Err(refused(format!("{} does not say where its repository is", folder.join(".git").display())));
        };
        return locate_by_file(folder, own);
    }
    Err(refused(format!("{} is not in a git repository", folder.display())))
}

/// Locates the repository of a folder whose `.git` is a file that points to `own`.
fn locate_by_file(folder: &Path, own: HeldFolder) -> Result<RepositoryLocation, Rejection> {
    let worktrees = own.path().parent().filter(|parent| parent.ends_with("worktrees"));
    let Some(common) = worktrees.and_then(Path::parent).filter(|_| own.has("commondir")) else {
        check_commondir(&own)?;
        return Ok(RepositoryLocation { root: folder.to_owned(), main: Some(folder.to_owned()), common: own });
    };
    let said = own.read("commondir", POINTER_BYTES).ok().flatten().unwrap_or_default();
    if lexical(&own.path().join(String::from_utf8_lossy(&said).trim_end())) != common {
        return Err(leads_elsewhere(own.path()));
    }
    let common = HeldFolder::open(common).map_err(|error| unreadable(common, &error))?;
    check_commondir(&common)?;
    let main = common.path().parent().filter(|_| common.path().ends_with(".git")).map(Path::to_owned);
    Ok(RepositoryLocation { root: main.clone().unwrap_or_else(|| common.path().to_owned()), main, common })
}

/// Rejects a shared git folder whose `commondir` points to another folder.
fn check_commondir(common: &HeldFolder) -> Result<(), Rejection> {
    if !common.has("commondir") {
        return Ok(());
    }
    let said = common.read("commondir", POINTER_BYTES).ok().flatten().unwrap_or_default();
    let leads_to = lexical(&common.path().join(String::from_utf8_lossy(&said).trim_end()));
    if !said.is_empty() && leads_to == common.path() { Ok(()) } else { Err(leads_elsewhere(common.path())) }
}

/// Opens the folder that a `.git` file points to.
pub(super) fn pointed_to(folder: &HeldFolder) -> Option<HeldFolder> {
    let bytes = folder.read(".git", POINTER_BYTES).ok().flatten()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let path = lexical(&folder.path().join(text.strip_prefix("gitdir:")?.trim()));
    HeldFolder::open(&path).ok()
}

fn leads_elsewhere(folder: &Path) -> Rejection {
    Rejection::new(Code::Forbidden, format!("{} leads to another repository", folder.join("commondir").display()))
        .hint("remove that file if you did not make it")
}

fn state(project: &Path) -> PathBuf {
    project.join(ROOKERY).join("git")
}

fn views(project: &Path) -> PathBuf {
    state(project).join("views")
}

/// Checks that the id of a workspace can be part of a file name.
pub(super) fn plain_id(workspace: &str) -> Result<&str, Rejection> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !workspace.is_empty() && workspace.chars().all(plain) {
        return Ok(workspace);
    }
    Err(Rejection::new(Code::Invalid, format!("'{}' is not the id of a workspace", workspace.escape_debug())))
}

pub(super) fn unwritten(path: &Path, error: &io::Error) -> Rejection {
    Rejection::new(Code::GitFailed, format!("cannot write in {}: {error}", path.display()))
        .hint("check who owns it, whether a part of the path is a link, and whether the disk is full")
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Rejection {
    Rejection::new(Code::GitFailed, format!("cannot read {}: {error}", path.display()))
        .hint("check who owns it, and whether a part of the path is a link")
}
