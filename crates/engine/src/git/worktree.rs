//! Making a worktree, and finding the one that was made for a workspace wherever it is now.
//!
//! Before a worktree is made, a record in `.rookery/` says which one is meant; when it is whole, the record says so. After
//! a crash it tells what is ours and how far it got. Git's own files about a worktree are written by agents too: they say
//! where a worktree may be, and it is taken for one only if its `.git` leads back to them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rookery_core::workspaces::BranchOrigin;
use rookery_core::{Code, Rejection};
use serde::{Deserialize, Serialize};

use super::process::LONG;
use super::repository::{
    Access, Files, GitHead, POINTER_BYTES, Repository, plain_id, pointed_to, unreadable, unwritten,
};
use crate::held::HeldFolder;
use crate::paths::lexical;

/// Why a worktree is locked while it is made, in git's own words.
const INITIALIZING: &str = "initializing";
/// A folder of this name is kept out of the repository that it lies in.
const HIDDEN: &str = ".worktrees";
/// The longest name of a worktree's part of the git folder, without the number that makes it unique.
const ADMIN_NAME: usize = 100;
/// How many names are tried for a worktree's part of the git folder.
const ADMIN_TRIES: u32 = 10_000;

/// A worktree to be made.
#[derive(Clone, Copy, Debug)]
pub struct WorktreeRequest<'a> {
    /// The workspace that it is for: names the record.
    pub workspace: &'a str,
    pub path: &'a Path,
    pub branch: &'a str,
    pub base: Option<&'a str>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    pub base_branch: String,
    pub branch: BranchOrigin,
}

/// Our own record of a worktree that we make or made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Record {
    workspace: String,
    path: PathBuf,
    base_branch: String,
    branch: BranchOrigin,
    /// The name of its part of the git folder, once there is one.
    admin: Option<String>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Making,
    Made,
}

/// A worktree as git's files tell of it.
#[derive(Debug)]
pub(super) struct Listed {
    pub path: PathBuf,
    pub head: Option<GitHead>,
    /// Why it is locked, if it is.
    pub locked: Option<String>,
    /// Its own part of the git folder; none for the main folder.
    pub admin: Option<HeldFolder>,
}

impl Listed {
    pub fn branch(&self) -> Option<&str> {
        self.head.as_ref().and_then(GitHead::branch)
    }
}

/// A worktree that belongs to the repository for certain.
#[derive(Debug)]
pub struct Worktree {
    pub path: PathBuf,
    /// None if the folder is gone.
    pub(super) folder: Option<HeldFolder>,
    /// Its own part of the git folder.
    pub(super) admin: HeldFolder,
    pub(super) head: Option<GitHead>,
    pub locked: Option<String>,
    /// Whether the branch was made along with it, as far as we recorded it.
    pub(super) origin: Option<BranchOrigin>,
}

/// The folder of a worktree, its part of the git folder (of the main folder, all of it), and what it is on.
#[derive(Debug)]
pub(super) struct CheckedOut {
    pub folder: HeldFolder,
    pub own: HeldFolder,
    pub head: Option<GitHead>,
}

impl Repository {
    /// Makes a worktree, or finishes one that was begun before.
    pub async fn make(&self, wanted: WorktreeRequest<'_>) -> Result<Made, Rejection> {
        if let Some(record) = self.record(wanted.workspace)? {
            let there = self.listed().into_iter().find(|listed| is_recorded(&record, listed));
            match (record.state, there) {
                (State::Made, Some(_)) => return Ok(record.made()),
                (State::Making, Some(listed)) if listed.locked.as_deref() != Some(INITIALIZING) => {
                    return self.finish(record);
                }
                (State::Making, Some(_)) => self.discard_unfinished(&record).await,
                (_, None) => {}
            }
        }
        let base = self.base(wanted.base).await?;
        let there = self.branch(wanted.branch).await?.is_some();
        self.check_vacant(&wanted)?;
        let began = self.record(wanted.workspace)?.filter(|record| record.state == State::Making);
        let created = !there || began.as_ref().is_some_and(|record| record.branch == BranchOrigin::Created);
        let record = Record {
            workspace: wanted.workspace.to_owned(),
            path: wanted.path.to_owned(),
            base_branch: began.map_or(base.name, |record| record.base_branch),
            branch: if created { BranchOrigin::Created } else { BranchOrigin::Reused },
            admin: None,
            state: State::Making,
        };
        self.write_record(&record)?;
        self.add(wanted, record, &base.commit).await
    }

    async fn add(&self, wanted: WorktreeRequest<'_>, mut record: Record, from: &str) -> Result<Made, Rejection> {
        match self.check_out(wanted, &mut record, from).await {
            Ok(()) => self.finish(record),
            Err(refused) => {
                self.undo(wanted, &record, from).await;
                Err(refused)
            }
        }
    }

    async fn check_out(&self, wanted: WorktreeRequest<'_>, record: &mut Record, from: &str) -> Result<(), Rejection> {
        let folder = self.empty_folder(wanted.path)?;
        let branch = format!("refs/heads/{}", wanted.branch);
        if self.branch(wanted.branch).await?.is_none() {
            let nothing = "0".repeat(from.len());
            self.git(Access::Add)?.text(&["update-ref", &branch, from, &nothing]).await?;
        }
        let admin = self.new_admin(wanted.path)?;
        record.admin = admin.path().file_name().map(|name| name.to_string_lossy().into_owned());
        self.write_record(record)?;
        let head = GitHead::Ref(branch);
        write_admin(&admin, wanted.path, &head).map_err(|error| unwritten(admin.path(), &error))?;
        let pointer = format!("gitdir: {}\n", admin.path().display());
        folder.write_new(".git", pointer.as_bytes()).map_err(|error| unwritten(wanted.path, &error))?;
        let view = self.view_of(Some(&head))?;
        let git = self.git_with(&view, Some((&folder, Files::Write)), Access::Write)?;
        let git = git.index(&admin.path().join("index")).lasting(LONG);
        git.text(&["read-tree", "--reset", "-u", head.name()]).await?;
        admin.remove_file("locked").map_err(|error| unwritten(admin.path(), &error))
    }

    /// The folder of a new worktree, made without following a link, and held.
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
        if folder.names().map_err(failed)?.is_empty() { Ok(folder) } else { Err(occupied(path)) }
    }

    /// A new part of the git folder, named after the folder of the worktree.
    fn new_admin(&self, path: &Path) -> Result<HeldFolder, Rejection> {
        let failed = |error: io::Error| unwritten(self.common.path(), &error);
        let all = self.common.child_or_new("worktrees").map_err(failed)?;
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' };
        let name: String = name.chars().map(plain).take(ADMIN_NAME).collect();
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

    /// Records that the worktree is whole.
    fn finish(&self, record: Record) -> Result<Made, Rejection> {
        let record = Record { state: State::Made, ..record };
        self.write_record(&record)?;
        Ok(record.made())
    }

    /// Takes back what a failed attempt left, so that nothing is half there.
    async fn undo(&self, wanted: WorktreeRequest<'_>, record: &Record, from: &str) {
        self.discard_unfinished(record).await;
        if record.branch == BranchOrigin::Created {
            // Only as it was made: a commit on it would make it another.
            let undone = self.delete_ref(&format!("refs/heads/{}", wanted.branch), from).await;
            tracing::debug!(branch = wanted.branch, undone = undone.unwrap_or(false), "a worktree was not made");
        }
        self.forget(wanted.workspace);
    }

    /// Removes a worktree that was never finished and that nobody was told of.
    async fn discard_unfinished(&self, record: &Record) {
        let listed = self.listed().into_iter().find(|listed| is_recorded(record, listed));
        if let Some(Listed { path, admin: Some(admin), .. }) = listed {
            let removed = match HeldFolder::open(&path) {
                Ok(folder) if leads_to(&folder, &admin) => remove_folder(folder).await,
                _ => Ok(()),
            };
            let removed = removed.and_then(|()| self.remove_admin(&admin));
            if let Err(error) = removed {
                tracing::warn!(%error, folder = %path.display(), "an unfinished worktree stays behind");
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
        for listed in self.listed() {
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
            Ok(_) => Err(occupied(wanted.path)),
            Err(error) => Err(Rejection::new(Code::Invalid, format!("{}: {error}", wanted.path.display()))),
        }
    }

    /// The worktree of a workspace: the recorded one, wherever it was moved to; else the one at its path.
    pub async fn find(&self, workspace: &str, path: &Path) -> Result<Option<Worktree>, Rejection> {
        let record = self.record(workspace)?;
        let mut linked: Vec<Listed> = self.listed().into_iter().filter(|listed| listed.admin.is_some()).collect();
        let recorded = |listed: &Listed| {
            record.as_ref().is_some_and(|record| record.state == State::Made && is_recorded(record, listed))
        };
        let at = linked.iter().position(recorded).or_else(|| linked.iter().position(|listed| listed.path == path));
        let Some(listed) = at.map(|at| linked.swap_remove(at)) else { return Ok(None) };
        let origin = record.filter(|record| is_recorded(record, &listed)).map(|record| record.branch);
        self.open_linked(listed, origin).map(Some)
    }

    /// Opens a linked worktree, if its folder and its part of the git folder lead to each other.
    fn open_linked(&self, listed: Listed, origin: Option<BranchOrigin>) -> Result<Worktree, Rejection> {
        let Listed { path, head, locked, admin: Some(admin) } = listed else {
            return Err(foreign(&listed.path, self));
        };
        let folder = open_if_there(&path)?;
        if folder.as_ref().is_some_and(|folder| !leads_to(folder, &admin)) {
            return Err(foreign(&path, self));
        }
        Ok(Worktree { path, folder, admin, head, locked, origin })
    }

    /// Opens any worktree of this repository, the main folder too; none if its folder is gone.
    pub(super) fn open_any(&self, listed: &Listed) -> Result<Option<CheckedOut>, Rejection> {
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
        Err(foreign(&listed.path, self))
    }

    /// The worktree at a path; refused if the folder is no worktree of this repository.
    pub(super) fn worktree_at(&self, path: &Path) -> Result<CheckedOut, Rejection> {
        let listed = self.listed().into_iter().find(|listed| listed.path == path);
        let opened = listed.map(|listed| self.open_any(&listed)).transpose()?.flatten();
        opened.ok_or_else(|| foreign(path, self))
    }

    /// Refuses a folder that is not the root of one of the project's worktrees.
    pub fn check_worktree(&self, path: &Path) -> Result<(), Rejection> {
        self.worktree_at(path).map(drop)
    }

    /// Every worktree that git's files tell of, the main folder first. Half-made ones are left out.
    pub(super) fn listed(&self) -> Vec<Listed> {
        let main = self.main.iter().map(|path| Listed {
            path: path.clone(),
            head: self.main_head(),
            locked: None,
            admin: None,
        });
        let all = self.common.child("worktrees").ok();
        let names = all.iter().flat_map(|all| all.names().unwrap_or_default());
        let linked = names.filter_map(|name| all.as_ref().and_then(|all| listed_in(all, name)));
        main.chain(linked).collect()
    }

    fn record(&self, workspace: &str) -> Result<Option<Record>, Rejection> {
        let path = self.record_path(workspace)?;
        Ok(fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    pub(super) fn record_path(&self, workspace: &str) -> Result<PathBuf, Rejection> {
        Ok(self.state().join("worktrees").join(format!("{}.json", plain_id(workspace)?)))
    }

    /// Writes a record so that it is there whole or not at all.
    fn write_record(&self, record: &Record) -> Result<(), Rejection> {
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

impl Record {
    fn made(self) -> Made {
        Made { base_branch: self.base_branch, branch: self.branch }
    }
}

/// Whether a worktree is the one that a record is about.
fn is_recorded(record: &Record, listed: &Listed) -> bool {
    let name = listed.admin.as_ref().and_then(|admin| admin.path().file_name());
    record.admin.is_some() && name == record.admin.as_deref().map(OsStr::new)
}

/// Reads one part of the git folder that belongs to a worktree.
fn listed_in(all: &HeldFolder, name: OsString) -> Option<Listed> {
    let admin = all.child(name).ok()?;
    let read = |name: &str| admin.read(name, POINTER_BYTES).ok().flatten();
    let gitdir = String::from_utf8(read("gitdir")?).ok()?;
    // Relative to the git folder, where git was told so.
    let path = lexical(&admin.path().join(gitdir.trim_end())).parent()?.to_owned();
    let head = read("HEAD").and_then(|bytes| GitHead::parse(&bytes));
    let locked = match read("locked") {
        Some(reason) => Some(String::from_utf8_lossy(&reason).trim().to_owned()),
        None => admin.has("locked").then(String::new),
    };
    Some(Listed { path, head, locked, admin: Some(admin) })
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

/// Whether the `.git` of a folder leads to a part of the git folder.
pub(super) fn leads_to(folder: &HeldFolder, admin: &HeldFolder) -> bool {
    let pointed = pointed_to(folder).and_then(|pointed| pointed.inode().ok());
    pointed.is_some() && pointed == admin.inode().ok()
}

/// Removes a folder with everything in it; `.git` last, so that it is known for a worktree until then.
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

/// Removes a folder if nothing is in it.
fn remove_empty(path: &Path) {
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
        drop(HeldFolder::open(parent).and_then(|parent| parent.remove_empty(name)));
    }
}

/// The folder beside the repository goes with the last worktree in it.
pub(super) fn remove_empty_parent(path: &Path) {
    let folder = path.parent();
    let ours = |folder: &&Path| folder.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-worktrees"));
    if let Some(folder) = folder.filter(ours) {
        remove_empty(folder);
    }
}

fn occupied(path: &Path) -> Rejection {
    Rejection::new(Code::NameConflict, format!("there is something at {} already", path.display()))
        .hint("move it away, or choose another path")
}

fn foreign(path: &Path, repository: &Repository) -> Rejection {
    let message = format!("{} is not a worktree of {}", path.display(), repository.root.display());
    Rejection::new(Code::Forbidden, message).hint("name a worktree of the project's repository, or have one made")
}
