//! A file of the project that is another one for a while, because a program reads its servers from nowhere else.
//!
//! What was there is moved aside and moved back, so that it is the same to the last byte. That it was moved is written down
//! first: whoever comes after a crash finds it and puts things right. Several agents, also of several teams, may use the same
//! file at once; the last one puts it back. Who uses it is known by locks, which end with whoever holds them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What is added to the name of what was there.
const ASIDE: &str = ".rookery-kept";

/// What is written down before a file is touched.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Entry {
    file: PathBuf,
    /// Something was there before.
    existed: bool,
    /// Its folder was made for it.
    made_folder: bool,
    text: String,
}

/// The right to find a file as one needs it. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Lent {
    place: Place,
    /// Locked by everybody who uses the file.
    users: Option<File>,
}

/// Where it is written down what became of one file.
#[derive(Clone, Debug)]
struct Place(PathBuf);

impl Lent {
    /// Puts `text` in the place of a file, or joins those for whom that was done. `ledger` is where that is written down.
    pub(crate) fn take(ledger: &Path, file: &Path, text: &str) -> io::Result<Lent> {
        let place = Place::of(ledger, file)?;
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
        Ok(Lent { place, users: Some(users) })
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

impl Drop for Lent {
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
    let mut all = Vec::new();
    for entry in entries {
        let place = Place(entry?.path());
        let _gate = place.gate()?;
        if place.users()?.try_lock().is_ok() {
            all.extend(place.put_back()?);
        }
    }
    Ok(all)
}

impl Place {
    fn of(ledger: &Path, file: &Path) -> io::Result<Place> {
        let hash = Sha256::digest(file.as_os_str().as_encoded_bytes());
        let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let place = ledger.join(name);
        fs::create_dir_all(&place)?;
        Ok(Place(place))
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
        OpenOptions::new().create(true).truncate(false).write(true).open(self.0.join(name))
    }

    fn entry(&self) -> io::Result<Option<Entry>> {
        match fs::read(self.0.join("entry.json")) {
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
        let folder = file.parent().unwrap_or(Path::new("."));
        stays(folder)?;
        let (existed, made_folder) = (fs::symlink_metadata(file).is_ok(), !folder.exists());
        let entry = Entry { file: file.to_owned(), existed, made_folder, text: text.to_owned() };
        write_durably(&self.0.join("entry.json"), &serde_json::to_vec(&entry)?)?;
        fs::create_dir_all(folder)?;
        if existed {
            fs::rename(file, aside(file))?;
        }
        write_durably(file, text.as_bytes())
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
        let (file, kept) = (&entry.file, aside(&entry.file));
        file.parent().map_or(Ok(()), stays)?;
        let is_ours = fs::read(file).is_ok_and(|text| text == entry.text.as_bytes());
        // What somebody else has written meanwhile stays, and so does what was there before, beside it.
        let is_free = is_ours || fs::symlink_metadata(file).is_err();
        if entry.existed && is_free && fs::symlink_metadata(&kept).is_ok() {
            fs::rename(&kept, file)?;
        } else if !entry.existed && is_ours {
            fs::remove_file(file)?;
            if let Some(folder) = file.parent().filter(|_| entry.made_folder) {
                // Somebody else may have put something into it.
                let _not_empty = fs::remove_dir(folder);
            }
        }
        fs::remove_file(self.0.join("entry.json"))?;
        Ok(Some(entry.file))
    }
}

/// Whatever agents have made of the folder, nothing is moved or written beyond it.
fn stays(folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(folder) {
        Ok(found) if !found.is_dir() => {
            Err(io::Error::other(format!("{} is a link, and what it leads to is not touched", folder.display())))
        }
        _ => Ok(()),
    }
}

fn aside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(ASIDE);
    file.with_file_name(name)
}

/// Either all of it is there or nothing, also after a power cut.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("rookery-new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
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
            self.0.path().join(".cursor/mcp.json")
        }

        fn take(&self) -> Lent {
            Lent::take(&self.ledger(), &self.file(), "ours").unwrap()
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
        assert!(Lent::take(&project.ledger(), &project.file(), "ours").is_err());
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
        let error = Lent::take(&project.ledger(), &project.file(), "other").unwrap_err();
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
        fs::rename(aside(&project.file()), project.file()).unwrap();
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
        assert_eq!(fs::read_to_string(aside(&project.file())).unwrap(), "theirs");
    }
}
