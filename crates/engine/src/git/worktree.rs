//! Makes worktrees, and finds the worktree of a workspace even after it was moved.
//!
//! A record in `.rookery/` is written before a worktree is made, and marked when it is complete. After a crash it tells which
//! worktree was being made and how far it got. Agents can write git's own files about a worktree, so those only suggest a
//! location: a folder counts as the worktree only if its `.git` points back to them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rookery_core::workspaces::BranchOrigin;
use rookery_core::{Code, Rejection};
use serde::{Deserialize, Serialize};

use super::process::LONG;
use super::repository::{
    GitDirAccess, GitHead, POINTER_BYTES, Repository, WorktreeAccess, plain_id, pointed_to, unreadable, unwritten,
};
use crate::held::HeldFolder;
use crate::paths::lexical;

/// The lock reason of a worktree while it is made, as git itself uses it.
const INITIALIZING: &str = "initializing";
/// A folder of this name gets a `.gitignore`, so that the repository around it ignores it.
const HIDDEN: &str = ".worktrees";
/// The most characters in the name of an admin folder, without the number that makes it unique.
const ADMIN_NAME_CHARS: usize = 100;
/// How many names are tried for an admin folder.
const ADMIN_TRIES: u32 = 10_000;

/// A worktree to be made.
#[derive(Clone, Copy, Debug)]
pub struct WorktreeRequest<'a> {
    /// The workspace of the worktree, which names the record.
    pub workspace: &'a str,
    pub path: &'a Path,
    pub branch: &'a str,
    pub base: Option<&'a str>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MadeWorktree {
    pub base_branch: String,
    pub branch: BranchOrigin,
}

/// The daemon's record of a worktree that it makes or made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct WorktreeRecord {
    workspace: String,
    path: PathBuf,
    base_branch: String,
    branch: BranchOrigin,
    /// The name of its admin folder in the git folder, once there is one.
    admin: Option<String>,
    state: RecordState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordState {
    Making,
    Made,
}

/// A worktree as git's files describe it.
#[derive(Debug)]
pub(super) struct ListedWorktree {
    pub path: PathBuf,
    pub head: Option<GitHead>,
    /// The reason of the lock, if it is locked.
    pub locked: Option<String>,
    /// Its admin folder in the git folder; `None` for the main folder.
    pub admin: Option<HeldFolder>,
}

impl ListedWorktree {
    pub fn branch(&self) -> Option<&str> {
        self.head.as_ref().and_then(GitHead::branch)
    }
}

/// A worktree that was verified to belong to the repository.
#[derive(Debug)]
pub struct VerifiedWorktree {
    pub path: PathBuf,
    /// `None` if the folder is gone.
    pub(super) folder: Option<HeldFolder>,
    /// Its admin folder in the git folder.
    pub(super) admin: HeldFolder,
    pub(super) head: Option<GitHead>,
    pub locked: Option<String>,
    /// Whether the branch was created with it, if recorded.
    pub(super) origin: Option<BranchOrigin>,
}

/// The folder of a worktree, its admin folder (for the main folder, the git folder), and its head.
#[derive(Debug)]
pub(super) struct CheckedOut {
    pub folder: HeldFolder,
    pub own: HeldFolder,
    pub head: Option<GitHead>,
}

impl Repository {
    /// Makes a worktree, or finishes one that was started before.
    pub async fn make(&self, wanted: WorktreeRequest<'_>) -> Result<MadeWorktree, Rejection> {
        if let Some(record) = self.record(wanted.workspace)? {
            let there = self.list_worktrees().into_iter().find(|listed| is_recorded(&record, listed));
            match (record.state, there) {
                (RecordState::Made, Some(_)) => return Ok(record.into_made()),
                (RecordState::Making, Some(listed)) if listed.locked.as_deref() != Some(INITIALIZING) => {
                    return self.finish(record);
                }
                (RecordState::Making, Some(_)) => self.discard_unfinished(&record).await,
                (_, None) => {}
            }
        }
        let base = self.base(wanted.base).await?;
        let there = self.branch(wanted.branch).await?.is_some();
        self.check_vacant(&wanted)?;
        let began = self.record(wanted.workspace)?.filter(|record| record.state == RecordState::Making);
        let created = !there || began.as_ref().is_some_and(|record| record.branch == BranchOrigin::Created);
        let record = WorktreeRecord {
            workspace: wanted.workspace.to_owned(),
            path: wanted.path.to_owned(),
            base_branch: began.map_or(base.name, |record| record.base_branch),
            branch: if created { BranchOrigin::Created } else { BranchOrigin::Reused },
            admin: None,
            state: RecordState::Making,
        };
        self.write_record(&record)?;
        self.add(wanted, record, &base.commit).await
    }

    async fn add(
        &self,
        wanted: WorktreeRequest<'_>,
        mut record: WorktreeRecord,
        from: &str,
    ) -> Result<MadeWorktree, Rejection> {
        match self.check_out(wanted, &mut record, from).await {
            Ok(()) => self.finish(record),
            Err(refused) => {
                self.undo(wanted, &record, from).await;
                Err(refused)
            }
        }
    }

    async fn check_out(
        &self,
        wanted: WorktreeRequest<'_>,
        record: &mut WorktreeRecord,
        from: &str,
    ) -> Result<(), Rejection> {
        let folder = self.empty_folder(wanted.path)?;
        let branch = format!("refs/heads/{}", wanted.branch);
        if self.branch(wanted.branch).await?.is_none() {
            let nothing = "0".repeat(from.len());
            self.git(GitDirAccess::Add)?.text(&["update-ref", &branch, from, &nothing]).await?;
        }
        let admin = self.new_admin(wanted.path)?;
        record.admin = admin.path().file_name().map(|name| name.to_string_lossy().into_owned());
        self.write_record(record)?;
        let head = GitHead::Ref(branch);
        write_admin(&admin, wanted.path, &head).map_err(|error| unwritten(admin.path(), &error))?;
        let pointer = format!("gitdir: {}\n", admin.path().display());
        folder.write_new(".git", pointer.as_bytes()).map_err(|error| unwritten(wanted.path, &error))?;
        let view = self.view_of(Some(&head))?;
        let git = self.git_with(&view, Some((&folder, WorktreeAccess::Write)), GitDirAccess::Write)?;
        let git = git.index(&admin.path().join("index")).lasting(LONG);
        git.text(&["read-tree", "--reset", "-u", head.name()]).await?;
        admin.remove_file("locked").map_err(|error| unwritten(admin.path(), &error))
    }

    /// Creates the folder of a new worktree without following links, and opens it.
    fn empty_folder(&self, path: &Path) -> Result<HeldFolder, Rejection> {
        let failed = |error: io::Error| unwritten(path, &error);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Rejection::new(Code::Invalid, format!("{} is no place for a worktree", path.display())));
        };
        let parent = HeldFolder::create(parent).map_err(failed)?;
        if parent.path().ends_with(HIDDEN) {
            match parent.write_new(".gitignore", b"*\n") {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                _ => {}
            }
        }
        let folder = parent.child_or_new(name).map_err(failed)?;
        if folder.names().map_err(failed)?.is_empty() { Ok(folder) } else { Err(already_exists(path)) }
    }

    /// Creates an admin folder, named after the folder of the worktree.
    fn new_admin(&self, path: &Path) -> Result<HeldFolder, Rejection> {
        let failed = |error: io::Error| unwritten(self.common.path(), &error);
        let all = self.common.child_or_new("worktrees").map_err(failed)?;
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' };
        let name: String = name.chars().map(plain).take(ADMIN_NAME_CHARS).collect();
        for number in 0..ADMIN_TRIES {
            let name = if number == 0 { name.clone() } else { format!("{name}{number}") };
            match all.new_child(&name) {
                Ok(admin) => return Ok(admin),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// Records that the worktree is complete.
    fn finish(&self, record: WorktreeRecord) -> Result<MadeWorktree, Rejection> {
        let record = WorktreeRecord { state: RecordState::Made, ..record };
        self.write_record(&record)?;
        Ok(record.into_made())
    }

    /// Removes the parts that a failed attempt left.
    async fn undo(&self, wanted: WorktreeRequest<'_>, record: &WorktreeRecord, from: &str) {
        self.discard_unfinished(record).await;
        if record.branch == BranchOrigin::Created {
            // Only if it still has its first commit.
            let undone = self.delete_ref(&format!("refs/heads/{}", wanted.branch), from).await;
            tracing::debug!(branch = wanted.branch, undone = undone.unwrap_or(false), "a worktree was not made");
        }
        self.forget(wanted.workspace);
    }

    /// Removes a worktree that was never finished, so that no agent knows it.
    async fn discard_unfinished(&self, record: &WorktreeRecord) {
        let listed = self.list_worktrees().into_iter().find(|listed| is_recorded(record, listed));
        if let Some(ListedWorktree { path, admin: Some(admin), .. }) = listed {
            let removed = match HeldFolder::open(&path) {
                Ok(folder) if leads_to(&folder, &admin) => remove_folder(folder).await,
                _ => Ok(()),
            };
            let removed = removed.and_then(|()| self.remove_admin(&admin));
            if let Err(error) = removed {
                tracing::warn!(%error, folder = %path.display(), "cannot remove an unfinished worktree");
            }
        }
        remove_empty(&record.path);
        remove_empty_parent(&record.path);
    }

    pub(super) fn remove_admin(&self, admin: &HeldFolder) -> io::Result<()> {
        let all = self.common.child("worktrees")?;
        if let Some(name) = admin.path().file_name() {
            admin.clear(None)?;
            all.remove_empty(name)?;
        }
        drop(self.common.remove_empty("worktrees"));
        Ok(())
    }

    fn check_vacant(&self, wanted: &WorktreeRequest<'_>) -> Result<(), Rejection> {
        let conflict = |message: String| Rejection::new(Code::NameConflict, message);
        for listed in self.list_worktrees() {
            if listed.branch() == Some(wanted.branch) {
                let message = format!("branch '{}' is checked out at {}", wanted.branch, listed.path.display());
                return Err(conflict(message).hint("work there, or choose another branch"));
            }
            if listed.path == wanted.path {
                return Err(conflict(format!("git has a worktree at {} already", wanted.path.display())).hint(
                    "if its folder is gone for good, 'git worktree prune' forgets it; else choose another path",
                ));
            }
        }
        match fs::symlink_metadata(wanted.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Ok(found)
                if found.is_dir() && fs::read_dir(wanted.path).is_ok_and(|mut inside| inside.next().is_none()) =>
            {
                Ok(())
            }
            Ok(_) => Err(already_exists(wanted.path)),
            Err(error) => Err(Rejection::new(Code::Invalid, format!("{}: {error}", wanted.path.display()))),
        }
    }

    /// The worktree of a workspace: the recorded one, even if it was moved; else the one at its path.
    pub async fn find(&self, workspace: &str, path: &Path) -> Result<Option<VerifiedWorktree>, Rejection> {
        let record = self.record(workspace)?;
        let mut linked: Vec<ListedWorktree> =
            self.list_worktrees().into_iter().filter(|listed| listed.admin.is_some()).collect();
        let recorded = |listed: &ListedWorktree| {
            record.as_ref().is_some_and(|record| record.state == RecordState::Made && is_recorded(record, listed))
        };
        let at = linked.iter().position(recorded).or_else(|| linked.iter().position(|listed| listed.path == path));
        let Some(listed) = at.map(|at| linked.swap_remove(at)) else { return Ok(None) };
        let origin = record.filter(|record| is_recorded(record, &listed)).map(|record| record.branch);
        self.open_linked(listed, origin).map(Some)
    }

    /// Opens a linked worktree, if its folder and its admin folder point to each other.
    fn open_linked(&self, listed: ListedWorktree, origin: Option<BranchOrigin>) -> Result<VerifiedWorktree, Rejection> {
        let ListedWorktree { path, head, locked, admin: Some(admin) } = listed else {
            return Err(not_a_worktree(&listed.path, self));
        };
        let folder = open_if_there(&path)?;
        if folder.as_ref().is_some_and(|folder| !leads_to(folder, &admin)) {
            return Err(not_a_worktree(&path, self));
        }
        Ok(VerifiedWorktree { path, folder, admin, head, locked, origin })
    }

    /// Opens any worktree of this repository, including the main folder; `None` if its folder is gone.
    pub(super) fn open_any(&self, listed: &ListedWorktree) -> Result<Option<CheckedOut>, Rejection> {
        let Some(folder) = open_if_there(&listed.path)? else { return Ok(None) };
        let own = match &listed.admin {
            Some(admin) => admin.try_clone(),
            None => self.common.try_clone(),
        };
        let own = own.map_err(|error| unreadable(&listed.path, &error))?;
        let is_main =
            || matches!((folder.child(".git"), own.inode()), (Ok(git), Ok(own)) if git.inode().ok() == Some(own));
        if leads_to(&folder, &own) || (listed.admin.is_none() && is_main()) {
            return Ok(Some(CheckedOut { folder, own, head: listed.head.clone() }));
        }
        Err(not_a_worktree(&listed.path, self))
    }

    /// The worktree at a path; rejected if the folder is no worktree of this repository.
    pub(super) fn worktree_at(&self, path: &Path) -> Result<CheckedOut, Rejection> {
        let listed = self.list_worktrees().into_iter().find(|listed| listed.path == path);
        let opened = listed.map(|listed| self.open_any(&listed)).transpose()?.flatten();
        opened.ok_or_else(|| not_a_worktree(path, self))
    }

    /// Rejects a folder that is not the root of one of the project's worktrees.
    pub fn check_worktree(&self, path: &Path) -> Result<(), Rejection> {
        self.worktree_at(path).map(drop)
    }

    /// Lists the worktrees that git's files describe, the main folder first. Unfinished ones of git are left out.
    pub(super) fn list_worktrees(&self) -> Vec<ListedWorktree> {
        let main = self.main.iter().map(|path| ListedWorktree {
            path: path.clone(),
            head: self.main_head(),
            locked: None,
            admin: None,
        });
        let all = self.common.child("worktrees").ok();
        let names = all.iter().flat_map(|all| all.names().unwrap_or_default());
        let linked = names.filter_map(|name| all.as_ref().and_then(|all| read_admin(all, name)));
        main.chain(linked).collect()
    }

    fn record(&self, workspace: &str) -> Result<Option<WorktreeRecord>, Rejection> {
        let path = self.record_path(workspace)?;
        Ok(fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    pub(super) fn record_path(&self, workspace: &str) -> Result<PathBuf, Rejection> {
        Ok(self.state().join("worktrees").join(format!("{}.json", plain_id(workspace)?)))
    }

    /// Writes a record atomically.
    fn write_record(&self, record: &WorktreeRecord) -> Result<(), Rejection> {
        let path = self.record_path(&record.workspace)?;
        let write = || {
            fs::create_dir_all(self.state().join("worktrees"))?;
            let temporary = path.with_extension("new");
            let mut file = File::create(&temporary)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|error| unwritten(&path, &error))
    }

    pub(super) fn forget(&self, workspace: &str) {
        if let Ok(path) = self.record_path(workspace) {
            fs::remove_file(path).ok();
        }
    }
}

impl WorktreeRecord {
    fn into_made(self) -> MadeWorktree {
        MadeWorktree { base_branch: self.base_branch, branch: self.branch }
    }
}

/// Whether a worktree is the one of a record.
fn is_recorded(record: &WorktreeRecord, listed: &ListedWorktree) -> bool {
    let name = listed.admin.as_ref().and_then(|admin| admin.path().file_name());
    record.admin.is_some() && name == record.admin.as_deref().map(OsStr::new)
}

/// Reads the admin folder of a worktree.
fn read_admin(all: &HeldFolder, name: OsString) -> Option<ListedWorktree> {
    let admin = all.child(name).ok()?;
    let read = |name: &str| admin.read(name, POINTER_BYTES).ok().flatten();
    let gitdir = String::from_utf8(read("gitdir")?).ok()?;
    // Relative to the git folder, if git is configured so.
    let path = lexical(&admin.path().join(gitdir.trim_end())).parent()?.to_owned();
    let head = read("HEAD").and_then(|bytes| GitHead::parse(&bytes));
    let locked = match read("locked") {
        Some(reason) => Some(String::from_utf8_lossy(&reason).trim().to_owned()),
        None => admin.has("locked").then(String::new),
    };
    Some(ListedWorktree { path, head, locked, admin: Some(admin) })
}

fn write_admin(admin: &HeldFolder, path: &Path, head: &GitHead) -> io::Result<()> {
    admin.write_new("locked", INITIALIZING.as_bytes())?;
    admin.write_new("gitdir", format!("{}\n", path.join(".git").display()).as_bytes())?;
    admin.write_new("HEAD", format!("{}\n", head.line()).as_bytes())?;
    admin.write_new("commondir", b"../..\n")
}

fn open_if_there(path: &Path) -> Result<Option<HeldFolder>, Rejection> {
    match HeldFolder::open(path) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Whether the `.git` of a folder points to an admin folder.
pub(super) fn leads_to(folder: &HeldFolder, admin: &HeldFolder) -> bool {
    let pointed = pointed_to(folder).and_then(|pointed| pointed.inode().ok());
    pointed.is_some() && pointed == admin.inode().ok()
}

/// Removes a folder with all its files; `.git` last, so that it is recognized as a worktree until then.
pub(super) async fn remove_folder(folder: HeldFolder) -> io::Result<()> {
    let remove = move || {
        folder.clear(Some(".git"))?;
        match (folder.path().parent(), folder.path().file_name()) {
            (Some(parent), Some(name)) => HeldFolder::open(parent)?.remove_empty(name),
            _ => Ok(()),
        }
    };
    tokio::task::spawn_blocking(remove).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Removes a folder if it is empty.
fn remove_empty(path: &Path) {
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
        drop(HeldFolder::open(parent).and_then(|parent| parent.remove_empty(name)));
    }
}

/// Removes the folder beside the repository after its last worktree was removed.
pub(super) fn remove_empty_parent(path: &Path) {
    let folder = path.parent();
    let ours = |folder: &&Path| folder.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-worktrees"));
    if let Some(folder) = folder.filter(ours) {
        remove_empty(folder);
    }
}

fn already_exists(path: &Path) -> Rejection {
    Rejection::new(Code::NameConflict, format!("{} already exists", path.display()))
        .hint("move it away, or choose another path")
}

fn not_a_worktree(path: &Path, repository: &Repository) -> Rejection {
    let message = format!("{} is not a worktree of {}", path.display(), repository.root.display());
    Rejection::new(Code::Forbidden, message).hint("name a worktree of the project's repository, or have one made")
}
