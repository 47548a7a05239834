//! Overrides a file of the project during a turn, for programs that read their servers from no other place.
//!
//! The original is moved to a ledger, where no agent sees it, and moved back afterwards, so that it stays the same to the last
//! byte. The move is recorded first, so that the next runner restores the file after a crash. Several agents, also of several
//! teams, may override the same file at once; the last one restores it. Users of an override hold locks, which end with their
//! processes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::open_folder::OpenFolder;

/// Separates the name of an original from a random number, if its own name is taken when it is restored.
const ASIDE_INFIX: &str = ".rookery-kept-";
/// The name of an original in the ledger.
const ORIGINAL: &str = "kept";
const ENTRY: &str = "entry.json";
const ENTRY_MODE: u32 = 0o600;
const FILE_MODE: u32 = 0o644;

/// The record of an override, written before the file is touched.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct OverrideEntry {
    file: PathBuf,
    /// Whether there was an original. It is kept in the ledger, where no agent can change it.
    existed: bool,
    /// Whether the folder of the file was created for the override.
    made_folder: bool,
    text: String,
}

/// An active override of a file. Dropping it restores the file, unless there are other users.
#[derive(Debug)]
pub(crate) struct OverriddenFile {
    place: OverrideLedger,
    /// Locked, shared, by every user of the override.
    users: Option<File>,
}

/// The ledger folder of one file.
#[derive(Clone, Debug)]
struct OverrideLedger(PathBuf);

impl OverriddenFile {
    /// Overrides a file with `text`, or joins an override with the same text. Records are kept in the folder `ledger`.
    pub(crate) fn apply(ledger: &Path, file: &Path, text: &str) -> io::Result<OverriddenFile> {
        let place = OverrideLedger::of(ledger, file)?;
        let gate = place.gate()?;
        let users = place.users()?;
        match users.try_lock() {
            Ok(()) => {
                place.restore_original()?;
                place.replace(file, text)?;
                users.unlock()?;
            }
            Err(TryLockError::WouldBlock) => place.ensure_same_text(text)?,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Never blocks: the exclusive lock is only taken while holding the gate.
        users.lock_shared()?;
        drop(gate);
        Ok(OverriddenFile { place, users: Some(users) })
    }

    /// Restores the original, unless there are other users.
    pub(crate) fn restore(mut self) -> io::Result<()> {
        self.users.take().map_or(Ok(()), |users| self.place.leave(&users))
    }

    /// Releases the lock without restoring the file, as a crash would.
    #[cfg(test)]
    fn crash(mut self) {
        self.users = None;
    }
}

impl Drop for OverriddenFile {
    fn drop(&mut self) {
        if let Some(users) = self.users.take() {
            // If that fails, the record remains, and the next runner restores the file.
            drop(self.place.leave(&users));
        }
    }
}

/// Restores all files of overrides that a crash left behind, and returns their paths. Overrides in use are kept.
pub fn restore_all(ledger: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(ledger) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let (mut all, mut failed) = (Vec::new(), Ok(()));
    for entry in entries {
        let place = OverrideLedger(entry?.path());
        let gate = place.gate()?;
        if place.users()?.try_lock().is_ok() {
            match place.restore_original() {
                Ok(file) => all.extend(file),
                Err(error) => failed = Err(error),
            }
        }
        drop(gate);
    }
    // A file that cannot be restored does not prevent the others.
    failed.map(|()| all)
}

impl OverrideLedger {
    fn of(ledger: &Path, file: &Path) -> io::Result<OverrideLedger> {
        let hash = Sha256::digest(file.as_os_str().as_encoded_bytes());
        let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let place = ledger.join(name);
        fs::create_dir_all(&place)?;
        Ok(OverrideLedger(place))
    }

    /// Takes the lock that guards changes of an override; held for a short time only.
    fn gate(&self) -> io::Result<File> {
        let gate = self.lock_file("gate")?;
        gate.lock()?;
        Ok(gate)
    }

    fn users(&self) -> io::Result<File> {
        self.lock_file("users")
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        OpenOptions::new().create(true).truncate(false).write(true).custom_flags(no_link).open(self.0.join(name))
    }

    fn entry(&self) -> io::Result<Option<OverrideEntry>> {
        match fs::read(self.0.join(ENTRY)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn ensure_same_text(&self, text: &str) -> io::Result<()> {
        match self.entry()? {
            Some(entry) if entry.text == text => Ok(()),
            _ => {
                Err(io::Error::other("another team uses this file with another content; wait until its turn has ended"))
            }
        }
    }

    fn replace(&self, file: &Path, text: &str) -> io::Result<()> {
        let (above, folder, name) = parts(file)?;
        let above = OpenFolder::open(above)?;
        let (held, made_folder) = above.create(folder)?;
        let existed = held.has(name)?;
        let entry = OverrideEntry { file: file.to_owned(), existed, made_folder, text: text.to_owned() };
        let ledger = self.folder()?;
        ledger.write(ENTRY.as_ref(), &serde_json::to_vec(&entry)?, ENTRY_MODE)?;
        if existed {
            held.rename(name, &ledger, ORIGINAL.as_ref())?;
        }
        held.write(name, text.as_bytes(), FILE_MODE)
    }

    fn folder(&self) -> io::Result<OpenFolder> {
        OpenFolder::open(&self.0.canonicalize()?)
    }

    fn leave(&self, users: &File) -> io::Result<()> {
        let gate = self.gate()?;
        users.unlock()?;
        let left = match users.try_lock() {
            Ok(()) => self.restore_original().map(drop),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        };
        drop(gate);
        left
    }

    /// Restores the original. Needs the exclusive lock; can be repeated after an interruption at any step.
    fn restore_original(&self) -> io::Result<Option<PathBuf>> {
        let Some(entry) = self.entry()? else { return Ok(None) };
        let (above, folder, name) = parts(&entry.file)?;
        let ledger = self.folder()?;
        let above = OpenFolder::open(above)?;
        let is_kept = ledger.has(ORIGINAL.as_ref())?;
        let held = match above.enter(folder) {
            // The folder was removed; without an original there is nothing to restore.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_kept => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(above.create(folder)?.0),
            held => Some(held?),
        };
        if let Some(held) = held {
            let is_ours = held.contains(name, entry.text.as_bytes());
            if is_kept {
                // If the file was changed meanwhile, it stays, and the original is put beside it.
                let is_free = is_ours || !held.has(name)?;
                let to = if is_free { name.to_owned() } else { aside(name) };
                ledger.rename(ORIGINAL.as_ref(), &held, &to)?;
            } else if !entry.existed && is_ours {
                held.remove(name)?;
                if entry.made_folder {
                    // Fails if the folder is not empty by now.
                    above.remove_folder(folder).ok();
                }
            }
        }
        fs::remove_file(self.0.join(ENTRY))?;
        Ok(Some(entry.file))
    }
}

/// Splits a path into the parent of its folder, and the names of folder and file.
fn parts(file: &Path) -> io::Result<(&Path, &OsStr, &OsStr)> {
    let parts = || {
        let folder = file.parent()?;
        Some((folder.parent()?, folder.file_name()?, file.file_name()?))
    };
    parts().ok_or_else(|| io::Error::other(format!("{} has no parent folder", file.display())))
}

fn aside(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(format!("{ASIDE_INFIX}{:032x}", rand::random::<u128>()));
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Project {
            Project(tempfile::tempdir().unwrap())
        }

        fn with(text: &str) -> Project {
            let project = Project::new();
            fs::create_dir(project.file().parent().unwrap()).unwrap();
            fs::write(project.file(), text).unwrap();
            project
        }

        fn file(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(".cursor/mcp.json")
        }

        /// The original beside its usual place.
        fn kept(&self) -> PathBuf {
            let name = self.names().into_iter().find(|name| name.contains(ASIDE_INFIX)).unwrap();
            self.file().with_file_name(name)
        }

        fn apply(&self) -> OverriddenFile {
            OverriddenFile::apply(&self.ledger(), &self.file(), "ours").unwrap()
        }

        fn ledger(&self) -> PathBuf {
            self.0.path().join("ledger")
        }

        fn text(&self) -> String {
            fs::read_to_string(self.file()).unwrap()
        }

        /// Names of the entries in the file's folder.
        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.file().parent().unwrap()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn original_file_is_restored_exactly() {
        let project = Project::with("theirs\r\n");
        fs::set_permissions(project.file(), fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(project.file()).unwrap();
        let overridden = project.apply();
        assert_eq!(project.text(), "ours");
        overridden.restore().unwrap();
        let after = fs::metadata(project.file()).unwrap();
        assert_eq!((project.text().as_str(), after.mode(), after.ino()), ("theirs\r\n", before.mode(), before.ino()));
        assert_eq!(project.names(), ["mcp.json"]);
    }

    #[test]
    fn new_file_and_folder_are_removed_again() {
        let project = Project::new();
        project.apply().restore().unwrap();
        assert!(!project.file().parent().unwrap().exists());
    }

    #[test]
    fn original_link_is_restored_as_a_link() {
        let project = Project::with("");
        let target = project.0.path().join("elsewhere.json");
        fs::write(&target, "theirs").unwrap();
        fs::remove_file(project.file()).unwrap();
        std::os::unix::fs::symlink(&target, project.file()).unwrap();
        let overridden = project.apply();
        assert_eq!((project.text().as_str(), fs::read_to_string(&target).unwrap().as_str()), ("ours", "theirs"));
        drop(overridden);
        assert_eq!(fs::read_link(project.file()).unwrap(), target);
    }

    #[test]
    fn folder_that_is_a_link_is_rejected() {
        let project = Project::new();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("mcp.json"), "theirs").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), project.file().parent().unwrap()).unwrap();
        assert!(OverriddenFile::apply(&project.ledger(), &project.file(), "ours").is_err());
        assert_eq!(project.names(), ["mcp.json"]);
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn last_user_restores_the_original() {
        let project = Project::with("theirs");
        let (one, other) = (project.apply(), project.apply());
        one.restore().unwrap();
        assert_eq!(project.text(), "ours");
        assert_eq!(restore_all(&project.ledger()).unwrap(), Vec::<PathBuf>::new());
        other.restore().unwrap();
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn override_with_another_text_is_rejected() {
        let project = Project::with("theirs");
        let overridden = project.apply();
        let error = OverriddenFile::apply(&project.ledger(), &project.file(), "other").unwrap_err();
        assert!(error.to_string().contains("another team"), "{error}");
        overridden.restore().unwrap();
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn original_is_restored_after_a_crash() {
        for before in [Some("theirs"), None] {
            let project = before.map_or_else(Project::new, Project::with);
            project.apply().crash();
            assert_eq!(project.text(), "ours");
            assert_eq!(restore_all(&project.ledger()).unwrap(), [project.file()]);
            assert_eq!(fs::read_to_string(project.file()).ok().as_deref(), before);
            assert_eq!(restore_all(&project.ledger()).unwrap(), Vec::<PathBuf>::new());
        }
    }

    #[test]
    fn crash_between_any_two_steps_loses_nothing() {
        // The record is written, and nothing else is done.
        let project = Project::with("theirs");
        project.apply().crash();
        let place = fs::read_dir(project.ledger()).unwrap().next().unwrap().unwrap().path();
        fs::rename(place.join(ORIGINAL), project.file()).unwrap();
        restore_all(&project.ledger()).unwrap();
        assert_eq!(project.text(), "theirs");
        // The original is moved, and ours is not written.
        let project = Project::with("theirs");
        project.apply().crash();
        fs::remove_file(project.file()).unwrap();
        restore_all(&project.ledger()).unwrap();
        assert_eq!((project.text().as_str(), project.names()), ("theirs", vec!["mcp.json".to_owned()]));
    }

    #[test]
    fn override_after_a_crash_restores_the_original_first() {
        let project = Project::with("theirs");
        project.apply().crash();
        let overridden = project.apply();
        assert_eq!(project.text(), "ours");
        drop(overridden);
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn concurrent_change_by_a_person_is_kept() {
        let project = Project::with("theirs");
        let overridden = project.apply();
        fs::write(project.file(), "newer").unwrap();
        overridden.restore().unwrap();
        assert_eq!(project.text(), "newer");
        assert_eq!(fs::read_to_string(project.kept()).unwrap(), "theirs");
    }

    #[test]
    fn planted_links_do_not_lead_the_writer_elsewhere() {
        let project = Project::with("theirs");
        let victim = project.0.path().join("person.key");
        fs::write(&victim, "secret").unwrap();
        for name in ["mcp.rookery-new", "mcp.json.rookery-kept", "mcp.json.rookery-new"] {
            std::os::unix::fs::symlink(&victim, project.file().with_file_name(name)).unwrap();
        }
        let overridden = project.apply();
        assert_eq!(project.text(), "ours");
        overridden.restore().unwrap();
        assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), project.text().as_str()), ("secret", "theirs"));
    }

    #[test]
    fn removed_folder_is_created_again_for_the_original() {
        let project = Project::with("theirs");
        let overridden = project.apply();
        assert_eq!(project.names(), ["mcp.json"], "agents do not see the file that was there");
        fs::remove_dir_all(project.file().parent().unwrap()).unwrap();
        overridden.restore().unwrap();
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn folder_replaced_by_a_link_after_a_crash_is_rejected_until_removed() {
        let project = Project::with("theirs");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("mcp.json"), "ours").unwrap();
        project.apply().crash();
        let folder = project.file().parent().unwrap().to_owned();
        let moved = folder.with_file_name("moved");
        fs::rename(&folder, &moved).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &folder).unwrap();
        assert!(restore_all(&project.ledger()).unwrap_err().to_string().contains("is a link"));
        assert_eq!(fs::read_to_string(elsewhere.path().join("mcp.json")).unwrap(), "ours", "nothing beyond it changed");
        fs::remove_file(&folder).unwrap();
        fs::rename(&moved, &folder).unwrap();
        restore_all(&project.ledger()).unwrap();
        assert_eq!(project.text(), "theirs");
    }

    /// Replaces the folder and the file by links and back, as fast as possible, until `stop` is set.
    fn exchange(file: &Path, elsewhere: &Path, stop: &std::sync::atomic::AtomicBool) {
        let (folder, moved) = (file.parent().unwrap(), file.parent().unwrap().with_file_name("moved"));
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            if fs::rename(folder, &moved).is_ok() {
                std::os::unix::fs::symlink(elsewhere, folder).ok();
                std::thread::yield_now();
                fs::remove_file(folder).ok();
                // The runner may have created another one meanwhile.
                if fs::rename(&moved, folder).is_err() {
                    fs::remove_dir_all(folder).ok();
                    fs::rename(&moved, folder).ok();
                }
            }
            fs::remove_file(file).ok();
            std::os::unix::fs::symlink(elsewhere.join("mcp.json"), file).ok();
        }
    }

    #[test]
    fn concurrent_replacement_by_links_changes_nothing_elsewhere() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let project = Project::with("theirs");
        let outside = tempfile::tempdir().unwrap();
        let elsewhere = outside.path().canonicalize().unwrap();
        fs::write(elsewhere.join("mcp.json"), "victim").unwrap();
        let stop = AtomicBool::new(false);
        let mut taken = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| exchange(&project.file(), &elsewhere, &stop));
            for _ in 0..400 {
                if let Ok(overridden) = OverriddenFile::apply(&project.ledger(), &project.file(), "ours") {
                    taken += 1;
                    drop(overridden);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let names: Vec<_> = fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [OsString::from("mcp.json")], "after {taken} overrides");
        assert_eq!(fs::read_to_string(elsewhere.join("mcp.json")).unwrap(), "victim");
    }
}
