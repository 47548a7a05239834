//! A file of the project that is another one for a while, because a program reads its servers from nowhere else.
//!
//! What was there is moved to a ledger, where no agent sees it, and moved back, so that it is the same to the last byte. That it was moved is written down
//! first: whoever comes after a crash finds it and puts things right. Several agents, also of several teams, may use the same
//! file at once; the last one puts it back. Who uses it is known by locks, which end with whoever holds them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::held::HeldFolder;

/// Between the name of an overridden file and a random number, if it cannot get its own name back.
const ASIDE: &str = ".rookery-kept-";
/// The name of an overridden file in the ledger.
const KEPT: &str = "kept";
const ENTRY: &str = "entry.json";
const ENTRY_MODE: u32 = 0o600;
const FILE_MODE: u32 = 0o644;

/// Written before a file is touched.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Entry {
    file: PathBuf,
    /// Something was there before. It is kept in the ledger, where no agent can change it.
    existed: bool,
    /// Its folder was made for it.
    made_folder: bool,
    text: String,
}

/// The right to find a file as one needs it. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct OverriddenFile {
    place: OverrideLedger,
    /// Locked by everybody who uses the file.
    users: Option<File>,
}

/// Where it is written down what became of one file.
#[derive(Clone, Debug)]
struct OverrideLedger(PathBuf);

impl OverriddenFile {
    /// Puts `text` in the place of a file, or joins those for whom that was done. `ledger` is where that is written down.
    pub(crate) fn take(ledger: &Path, file: &Path, text: &str) -> io::Result<OverriddenFile> {
        let place = OverrideLedger::of(ledger, file)?;
        let _gate = place.gate()?;
        let users = place.users()?;
        match users.try_lock() {
            Ok(()) => {
                place.put_back()?;
                place.replace(file, text)?;
                users.unlock()?;
            }
            Err(TryLockError::WouldBlock) => place.is_the_same(text)?,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Never waits: it is locked for one alone only within the gate.
        users.lock_shared()?;
        Ok(OverriddenFile { place, users: Some(users) })
    }

    /// Puts back what was there, if nobody else needs the file as it is.
    pub(crate) fn give_back(mut self) -> io::Result<()> {
        self.users.take().map_or(Ok(()), |users| self.place.leave(&users))
    }

    /// As if the process had died.
    #[cfg(test)]
    fn die(mut self) {
        self.users = None;
    }
}

impl Drop for OverriddenFile {
    fn drop(&mut self) {
        if let Some(users) = self.users.take() {
            // Whatever stays undone is written down, and done by whoever comes next.
            let _later = self.place.leave(&users);
        }
    }
}

/// Puts back whatever a crash has left, unless it is in use. Tells which files.
pub fn put_back_all(ledger: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(ledger) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let (mut all, mut failed) = (Vec::new(), Ok(()));
    for entry in entries {
        let place = OverrideLedger(entry?.path());
        let _gate = place.gate()?;
        if place.users()?.try_lock().is_ok() {
            match place.put_back() {
                Ok(file) => all.extend(file),
                Err(error) => failed = Err(error),
            }
        }
    }
    // One that cannot be put back does not keep the others from it.
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

    /// Held by one at a time, and shortly.
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

    fn entry(&self) -> io::Result<Option<Entry>> {
        match fs::read(self.0.join(ENTRY)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_the_same(&self, text: &str) -> io::Result<()> {
        match self.entry()? {
            Some(entry) if entry.text == text => Ok(()),
            _ => Err(io::Error::other("another team uses this file, and needs something else in it")),
        }
    }

    fn replace(&self, file: &Path, text: &str) -> io::Result<()> {
        let (above, folder, name) = parts(file)?;
        let above = HeldFolder::open(above)?;
        let (held, made_folder) = above.make(folder)?;
        let existed = held.has(name)?;
        let entry = Entry { file: file.to_owned(), existed, made_folder, text: text.to_owned() };
        let ledger = self.folder()?;
        ledger.write(ENTRY.as_ref(), &serde_json::to_vec(&entry)?, ENTRY_MODE)?;
        if existed {
            held.rename(name, &ledger, KEPT.as_ref())?;
        }
        held.write(name, text.as_bytes(), FILE_MODE)
    }

    fn folder(&self) -> io::Result<HeldFolder> {
        HeldFolder::open(&self.0.canonicalize()?)
    }

    fn leave(&self, users: &File) -> io::Result<()> {
        let _gate = self.gate()?;
        users.unlock()?;
        match users.try_lock() {
            Ok(()) => self.put_back().map(drop),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Only by whoever is alone. Can be repeated from wherever it stopped.
    fn put_back(&self) -> io::Result<Option<PathBuf>> {
        let Some(entry) = self.entry()? else { return Ok(None) };
        let (above, folder, name) = parts(&entry.file)?;
        let ledger = self.folder()?;
        let above = HeldFolder::open(above)?;
        let is_kept = ledger.has(KEPT.as_ref())?;
        let held = match above.enter(folder) {
            // Somebody has removed it; nothing is lost if there is nothing to put back.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_kept => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(above.make(folder)?.0),
            held => Some(held?),
        };
        if let Some(held) = held {
            let is_ours = held.contains(name, entry.text.as_bytes());
            if is_kept {
                // A file that somebody else has written meanwhile stays, and the one from before is put beside it.
                let is_free = is_ours || !held.has(name)?;
                let to = if is_free { name.to_owned() } else { aside(name) };
                ledger.rename(KEPT.as_ref(), &held, &to)?;
            } else if !entry.existed && is_ours {
                held.remove(name)?;
                if entry.made_folder {
                    // Somebody else may have put something into it.
                    above.remove_folder(folder).ok();
                }
            }
        }
        fs::remove_file(self.0.join(ENTRY))?;
        Ok(Some(entry.file))
    }
}

/// The folder above the one of a file, and the names of both.
fn parts(file: &Path) -> io::Result<(&Path, &OsStr, &OsStr)> {
    let parts = || {
        let folder = file.parent()?;
        Some((folder.parent()?, folder.file_name()?, file.file_name()?))
    };
    parts().ok_or_else(|| io::Error::other(format!("{} is in no folder", file.display())))
}

fn aside(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(format!("{ASIDE}{:032x}", rand::random::<u128>()));
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

        /// The file that waits beside its place.
        fn kept(&self) -> PathBuf {
            let name = self.names().into_iter().find(|name| name.contains(ASIDE)).unwrap();
            self.file().with_file_name(name)
        }

        fn take(&self) -> OverriddenFile {
            OverriddenFile::take(&self.ledger(), &self.file(), "ours").unwrap()
        }

        fn ledger(&self) -> PathBuf {
            self.0.path().join("ledger")
        }

        fn text(&self) -> String {
            fs::read_to_string(self.file()).unwrap()
        }

        /// What is in the folder of the file.
        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.file().parent().unwrap()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn what_was_there_is_there_again() {
        let project = Project::with("theirs\r\n");
        fs::set_permissions(project.file(), fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(project.file()).unwrap();
        let lent = project.take();
        assert_eq!(project.text(), "ours");
        lent.give_back().unwrap();
        let after = fs::metadata(project.file()).unwrap();
        assert_eq!((project.text().as_str(), after.mode(), after.ino()), ("theirs\r\n", before.mode(), before.ino()));
        assert_eq!(project.names(), ["mcp.json"]);
    }

    #[test]
    fn where_nothing_was_nothing_stays() {
        let project = Project::new();
        project.take().give_back().unwrap();
        assert!(!project.file().parent().unwrap().exists());
    }

    #[test]
    fn a_link_stays_a_link() {
        let project = Project::with("");
        let target = project.0.path().join("elsewhere.json");
        fs::write(&target, "theirs").unwrap();
        fs::remove_file(project.file()).unwrap();
        std::os::unix::fs::symlink(&target, project.file()).unwrap();
        let lent = project.take();
        assert_eq!((project.text().as_str(), fs::read_to_string(&target).unwrap().as_str()), ("ours", "theirs"));
        drop(lent);
        assert_eq!(fs::read_link(project.file()).unwrap(), target);
    }

    #[test]
    fn nothing_is_done_beyond_a_folder_that_is_a_link() {
        let project = Project::new();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("mcp.json"), "theirs").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), project.file().parent().unwrap()).unwrap();
        assert!(OverriddenFile::take(&project.ledger(), &project.file(), "ours").is_err());
        assert_eq!(project.names(), ["mcp.json"]);
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn the_last_one_puts_it_back() {
        let project = Project::with("theirs");
        let (one, other) = (project.take(), project.take());
        one.give_back().unwrap();
        assert_eq!(project.text(), "ours");
        assert_eq!(put_back_all(&project.ledger()).unwrap(), Vec::<PathBuf>::new());
        other.give_back().unwrap();
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn what_another_needs_otherwise_is_refused() {
        let project = Project::with("theirs");
        let lent = project.take();
        let error = OverriddenFile::take(&project.ledger(), &project.file(), "other").unwrap_err();
        assert!(error.to_string().contains("another team"), "{error}");
        lent.give_back().unwrap();
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn whoever_comes_after_a_crash_puts_it_back() {
        for before in [Some("theirs"), None] {
            let project = before.map_or_else(Project::new, Project::with);
            project.take().die();
            assert_eq!(project.text(), "ours");
            assert_eq!(put_back_all(&project.ledger()).unwrap(), [project.file()]);
            assert_eq!(fs::read_to_string(project.file()).ok().as_deref(), before);
            assert_eq!(put_back_all(&project.ledger()).unwrap(), Vec::<PathBuf>::new());
        }
    }

    #[test]
    fn a_crash_between_any_two_steps_costs_nothing() {
        // Written down, and nothing done yet.
        let project = Project::with("theirs");
        project.take().die();
        let place = fs::read_dir(project.ledger()).unwrap().next().unwrap().unwrap().path();
        fs::rename(place.join(KEPT), project.file()).unwrap();
        put_back_all(&project.ledger()).unwrap();
        assert_eq!(project.text(), "theirs");
        // Moved aside, and ours not there yet.
        let project = Project::with("theirs");
        project.take().die();
        fs::remove_file(project.file()).unwrap();
        put_back_all(&project.ledger()).unwrap();
        assert_eq!((project.text().as_str(), project.names()), ("theirs", vec!["mcp.json".to_owned()]));
    }

    #[test]
    fn one_that_comes_after_a_crash_begins_with_what_was_there() {
        let project = Project::with("theirs");
        project.take().die();
        let lent = project.take();
        assert_eq!(project.text(), "ours");
        drop(lent);
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn what_a_person_writes_meanwhile_stays() {
        let project = Project::with("theirs");
        let lent = project.take();
        fs::write(project.file(), "newer").unwrap();
        lent.give_back().unwrap();
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
        let lent = project.take();
        assert_eq!(project.text(), "ours");
        lent.give_back().unwrap();
        assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), project.text().as_str()), ("secret", "theirs"));
    }

    #[test]
    fn removed_folder_is_made_again_for_the_file_that_was_there() {
        let project = Project::with("theirs");
        let lent = project.take();
        assert_eq!(project.names(), ["mcp.json"], "agents do not see the file that was there");
        fs::remove_dir_all(project.file().parent().unwrap()).unwrap();
        lent.give_back().unwrap();
        assert_eq!(project.text(), "theirs");
    }

    #[test]
    fn folder_exchanged_for_a_link_after_a_crash_is_refused_until_it_is_removed() {
        let project = Project::with("theirs");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("mcp.json"), "ours").unwrap();
        project.take().die();
        let folder = project.file().parent().unwrap().to_owned();
        let moved = folder.with_file_name("moved");
        fs::rename(&folder, &moved).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &folder).unwrap();
        assert!(put_back_all(&project.ledger()).unwrap_err().to_string().contains("is a link"));
        assert_eq!(fs::read_to_string(elsewhere.path().join("mcp.json")).unwrap(), "ours", "nothing beyond it changed");
        fs::remove_file(&folder).unwrap();
        fs::rename(&moved, &folder).unwrap();
        put_back_all(&project.ledger()).unwrap();
        assert_eq!(project.text(), "theirs");
    }

    /// Exchanges the folder and the file for links and back as fast as it can, until it is told to stop.
    fn exchange(file: &Path, elsewhere: &Path, stop: &std::sync::atomic::AtomicBool) {
        let (folder, moved) = (file.parent().unwrap(), file.parent().unwrap().with_file_name("moved"));
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            if fs::rename(folder, &moved).is_ok() {
                std::os::unix::fs::symlink(elsewhere, folder).ok();
                std::thread::yield_now();
                fs::remove_file(folder).ok();
                // The runner may have made another one meanwhile.
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
    fn concurrent_exchange_for_links_changes_nothing_elsewhere() {
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
                if let Ok(lent) = OverriddenFile::take(&project.ledger(), &project.file(), "ours") {
                    taken += 1;
                    drop(lent);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let names: Vec<_> = fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [OsString::from("mcp.json")], "after {taken} overrides");
        assert_eq!(fs::read_to_string(elsewhere.join("mcp.json")).unwrap(), "victim");
    }
}
