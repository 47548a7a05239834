//! Making a worktree, and finding the one that was made for a workspace wherever it is now.
//!
//! Before git is asked for a worktree, a note in the repository says which one is meant; when it is whole, a mark in its own
//! part of the git folder takes the note's place. So whoever comes after a crash knows what is ours and how far it got.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rookery_core::workspace::BranchOrigin;
use rookery_core::{Code, Refusal};
use serde::{Deserialize, Serialize};

use super::process::LONG;
use super::repository::{Listed, Repository};

/// In a worktree's part of the git folder.
const MARK: &str = "rookery-workspace";
/// Why git says that a worktree is locked while it makes it.
const INITIALIZING: &str = "initializing";
/// A folder of this name is kept out of the repository that it lies in.
const HIDDEN: &str = ".worktrees";

/// A worktree to be made.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Whose it is: names the note and the mark.
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

/// What note and mark say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Record {
    workspace: String,
    path: PathBuf,
    base_branch: String,
    branch: BranchOrigin,
}

/// A worktree that git knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Worktree {
    pub path: PathBuf,
    /// Its own part of the git folder.
    pub admin: PathBuf,
    pub locked: Option<String>,
    /// Whether the branch was made along with it.
    pub origin: Option<BranchOrigin>,
}

impl Repository {
    /// Makes a worktree, or finishes one that was begun before.
    pub async fn make(&self, wanted: Wanted<'_>) -> Result<Made, Refusal> {
        if let Some(record) = self.marked(wanted.workspace).and_then(|admin| read(&admin.join(MARK))) {
            drop(fs::remove_file(self.note(wanted.workspace)));
            return Ok(record.made());
        }
        if let Some(record) = read(&self.note(wanted.workspace)) {
            return self.resume(wanted, record).await;
        }
        let base = self.base(wanted.base).await?;
        let there = self.branch(wanted.branch).await?.is_some();
        self.is_vacant(&wanted).await?;
        let record = Record {
            workspace: wanted.workspace.to_owned(),
            path: wanted.path.to_owned(),
            base_branch: base.name,
            branch: if there { BranchOrigin::Reused } else { BranchOrigin::Created },
        };
        write(&self.note(wanted.workspace), &record).map_err(|error| unwritten(&self.common, &error))?;
        self.add(wanted, record, &base.commit).await
    }

    /// What a process before us began and did not finish.
    async fn resume(&self, wanted: Wanted<'_>, record: Record) -> Result<Made, Refusal> {
        match self.listed_at(wanted.path).await? {
            Some(listed) if listed.locked.as_deref() != Some(INITIALIZING) => return self.finish(wanted, record),
            Some(_) => self.discard_unfinished(wanted.path),
            None => {}
        }
        let base = self.base(Some(&record.base_branch)).await?;
        self.is_vacant(&wanted).await?;
        self.add(wanted, record, &base.commit).await
    }

    async fn add(&self, wanted: Wanted<'_>, record: Record, from: &str) -> Result<Made, Refusal> {
        self.hide(wanted.path).map_err(|error| unwritten(wanted.path, &error))?;
        match self.check_out(wanted, from).await {
            Ok(()) => self.finish(wanted, record),
            Err(refused) => {
                self.undo(wanted, &record, from).await;
                Err(refused)
            }
        }
    }

    /// The branch apart from the worktree: each of the two can be asked for again if git comes across a half-made one.
    async fn check_out(&self, wanted: Wanted<'_>, from: &str) -> Result<(), Refusal> {
        if self.branch(wanted.branch).await?.is_none() {
            self.git().text(&["branch", "--no-track", "--", wanted.branch, from]).await?;
        }
        let path = wanted.path.to_string_lossy();
        self.git().lasting(LONG).text(&["worktree", "add", "--quiet", "--", &path, wanted.branch]).await?;
        Ok(())
    }

    /// The mark says from now on whose worktree it is.
    fn finish(&self, wanted: Wanted<'_>, record: Record) -> Result<Made, Refusal> {
        let Some(admin) = self.admin_of(wanted.path) else {
            let message = format!("git does not know the worktree at {} that it made", wanted.path.display());
            return Err(Refusal::new(Code::GitFailed, message));
        };
        write(&admin.join(MARK), &record).map_err(|error| unwritten(&admin, &error))?;
        drop(fs::remove_file(self.note(wanted.workspace)));
        Ok(record.made())
    }

    /// Takes back what a failed attempt left, so that nothing is half there.
    async fn undo(&self, wanted: Wanted<'_>, record: &Record, from: &str) {
        if let Ok(Some(listed)) = self.listed_at(wanted.path).await
            && listed.locked.as_deref() == Some(INITIALIZING)
        {
            self.discard_unfinished(wanted.path);
        }
        if record.branch == BranchOrigin::Created {
            // Only as it was made: had anybody put a commit on it, it would not be the same.
            let branch = format!("refs/heads/{}", wanted.branch);
            let undone = self.git().succeeds(&["update-ref", "-d", &branch, from]).await;
            tracing::debug!(branch, undone = undone.unwrap_or(false), "a branch of a worktree that was not made");
        }
        drop(fs::remove_file(self.note(wanted.workspace)));
    }

    /// Git never finished it and nobody was told of it, so nobody can have worked there.
    fn discard_unfinished(&self, path: &Path) {
        let Some(admin) = self.admin_of(path) else { return };
        for folder in [path, &admin] {
            if let Err(error) = fs::remove_dir_all(folder)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, folder = %folder.display(), "an unfinished worktree stays behind");
            }
        }
    }

    async fn is_vacant(&self, wanted: &Wanted<'_>) -> Result<(), Refusal> {
        let conflict = |message: String| Refusal::new(Code::NameConflict, message);
        for listed in self.worktrees().await?.iter().filter(|listed| !listed.bare) {
            if listed.branch.as_deref() == Some(wanted.branch) {
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
            Ok(_) => Err(conflict(format!("there is something at {} already", wanted.path.display()))
                .hint("move it away, or choose another path")),
            Err(error) => Err(Refusal::new(Code::Invalid, format!("{}: {error}", wanted.path.display()))),
        }
    }

    /// The worktree of a workspace: by its mark, wherever it was moved to; else by its path.
    pub async fn find(&self, workspace: &str, path: &Path) -> Result<Option<Worktree>, Refusal> {
        let admin = self.marked(workspace);
        let marked = admin.as_ref().and_then(|admin| read(&admin.join(MARK)));
        let Some(admin) = admin.or_else(|| self.admin_of(path)) else { return Ok(None) };
        let Some(path) = path_of(&admin) else { return Ok(None) };
        let listed = self.listed_at(&path).await?;
        let locked = listed.and_then(|listed| listed.locked);
        Ok(Some(Worktree { path, admin, locked, origin: marked.map(|record| record.branch) }))
    }

    async fn listed_at(&self, path: &Path) -> Result<Option<Listed>, Refusal> {
        Ok(self.worktrees().await?.into_iter().find(|listed| listed.path == path))
    }

    /// The part of the git folder that carries the mark of a workspace.
    fn marked(&self, workspace: &str) -> Option<PathBuf> {
        self.admins().find(|admin| read(&admin.join(MARK)).is_some_and(|record| record.workspace == workspace))
    }

    /// The part of the git folder that belongs to a worktree's folder.
    fn admin_of(&self, path: &Path) -> Option<PathBuf> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.admins().find(|admin| path_of(admin).is_some_and(|own| own.canonicalize().unwrap_or(own) == path))
    }

    fn admins(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten().map(|entry| entry.path())
    }

    fn note(&self, workspace: &str) -> PathBuf {
        self.notes().join(format!("{workspace}.json"))
    }

    /// Keeps a folder of worktrees out of the repository that it lies in.
    fn hide(&self, path: &Path) -> io::Result<()> {
        let Some(folder) = path.parent().filter(|parent| parent.file_name().is_some_and(|name| name == HIDDEN)) else {
            return Ok(());
        };
        fs::create_dir_all(folder)?;
        match fs::OpenOptions::new().write(true).create_new(true).open(folder.join(".gitignore")) {
            Ok(mut file) => file.write_all(b"*\n"),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Record {
    fn made(self) -> Made {
        Made { base_branch: self.base_branch, branch: self.branch }
    }
}

/// The folder that a part of the git folder belongs to.
fn path_of(admin: &Path) -> Option<PathBuf> {
    let gitdir = fs::read_to_string(admin.join("gitdir")).ok()?;
    // Relative to the git folder, where git was told so.
    let file = admin.join(gitdir.trim_end());
    let path = file.parent()?.to_owned();
    Some(path.canonicalize().unwrap_or(path))
}

fn read(file: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Writes a record so that it is there whole or not at all.
fn write(path: &Path, record: &Record) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

fn unwritten(path: &Path, error: &io::Error) -> Refusal {
    Refusal::new(Code::GitFailed, format!("cannot write in {}: {error}", path.display()))
        .hint("check who owns it and whether the disk is full")
}
