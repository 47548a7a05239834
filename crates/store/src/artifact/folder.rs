//! A folder of artifacts: one file for each, named by its hash.
//!
//! A file gets its name when all of it is on disk. Until then its name begins with a dot; what a process that was killed
//! left of such files is cleared away by the next one that has the store for itself.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rookery_core::Timestamp;
use rustix::process::{Pid, test_kill_process};

use super::{Hashing, Made, is_sha256, sha256_hex};

/// How much is read in one go.
const READ_BYTES: usize = 1024 * 1024;
/// What files are called that are not whole, after a dot.
const INCOMING: &str = "incoming";

#[derive(Clone, Debug)]
pub struct ArtifactDir {
    folder: PathBuf,
}

/// Tells unfinished files of one process apart.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl ArtifactDir {
    pub fn new(folder: impl Into<PathBuf>) -> ArtifactDir {
        ArtifactDir { folder: folder.into() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stores the bytes durably; their name is their hash. Storing the same bytes again changes nothing, unless the file
    /// was damaged: then it is whole again.
    pub fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let sha256 = sha256_hex(bytes);
        if self.get(&sha256).is_ok() {
            // Whoever wrote it may have stopped before its name was durable.
            sync_folder(&self.folder)?;
            return Ok(sha256);
        }
        let mut partial = self.begin()?;
        partial.write(bytes)?;
        partial.place(None).map(|(sha256, _)| sha256)
    }

    /// A file that is not whole yet.
    pub(crate) fn begin(&self) -> io::Result<Partial> {
        fs::create_dir_all(&self.folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!(".{INCOMING}.{}.{number}", std::process::id()));
        let file = File::create(&path)?;
        Ok(Partial { file, path: Some(path), folder: self.clone(), hashing: Hashing::default(), size: 0 })
    }

    /// The bytes, if they are still what their name says.
    pub fn get(&self, sha256: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.read(sha256, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok::<(), Infallible>(())
        });
        read.map(|()| bytes).map_err(Unread::of_file)
    }

    /// Hands out the bytes piece by piece, and fails at the end if they were not what their name says.
    pub(crate) fn read<E>(&self, sha256: &str, take: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), Unread<E>> {
        let mut file = self.open(sha256).map_err(Unread::File)?;
        read_verified(&mut file, sha256, take)
    }

    /// Says that the artifact was stored now.
    pub(crate) fn renew(&self, sha256: &str, at: Timestamp) -> io::Result<()> {
        File::options().write(true).open(self.path(sha256))?.set_modified(system_time(at))
    }

    /// Removes the file durably; one that is not there counts as removed. Whoever calls this made sure that nothing names
    /// the file, and that nothing is about to.
    pub fn erase(&self, sha256: &str) -> io::Result<()> {
        self.unlink(sha256)?;
        self.settle()
    }

    pub(crate) fn unlink(&self, sha256: &str) -> io::Result<()> {
        check_name(sha256)?;
        match fs::remove_file(self.path(sha256)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes removals durable. Also where a file was gone already: whoever removed it may have stopped before that.
    pub(crate) fn settle(&self) -> io::Result<()> {
        match sync_folder(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub fn contains(&self, sha256: &str) -> bool {
        check_name(sha256).is_ok() && self.path(sha256).exists()
    }

    /// The file as it is, to be verified by whoever reads it.
    pub(crate) fn open(&self, sha256: &str) -> io::Result<File> {
        check_name(sha256)?;
        File::open(self.path(sha256))
    }

    /// Which file it is that bears this name.
    pub(crate) fn made(&self, sha256: &str) -> io::Result<Made> {
        check_name(sha256)?;
        Ok(made(&fs::metadata(self.path(sha256))?))
    }

    /// The names of all artifacts, in order.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| is_sha256(name));
        names.sort();
        Ok(names)
    }

    /// Clears away what processes left that are over. Only for whoever has the store for itself: what is of this process is
    /// of an earlier one with the same number.
    pub(crate) fn sweep(&self) -> io::Result<usize> {
        let unfinished: Vec<String> = self.names()?.into_iter().filter(|name| is_left(name)).collect();
        for name in &unfinished {
            fs::remove_file(self.folder.join(name))?;
        }
        Ok(unfinished.len())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }
}

/// Whether this is what is left of a file that a process did not finish which is over. One that goes on works on another
/// store that has the same folder.
fn is_left(name: &str) -> bool {
    let mut parts = name.split('.');
    let unfinished = parts.next() == Some("") && parts.next() == Some(INCOMING);
    let process = parts.next().and_then(|number| number.parse().ok());
    unfinished && process.is_some_and(|number: u32| number == std::process::id() || !is_alive(number))
}

fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    // One of another user may not be asked, but it is there.
    process.is_some_and(|process| !matches!(test_kill_process(process), Err(rustix::io::Errno::SRCH)))
}

/// Hands out what is left of a file piece by piece, and fails at the end if it was not what its name says.
fn read_verified<E>(
    file: &mut File,
    sha256: &str,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Unread<E>> {
    let (mut hashing, mut piece) = (Hashing::default(), vec![0; READ_BYTES]);
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(Unread::File)?,
        };
        if read == 0 {
            break;
        }
        hashing.add(&piece[..read]);
        take(&piece[..read]).map_err(Unread::Taking)?;
    }
    if hashing.hex() == sha256 {
        return Ok(());
    }
    Err(Unread::File(io::Error::new(io::ErrorKind::InvalidData, format!("artifact {sha256} is damaged"))))
}

/// Looks through a file, which fails if it is not what its name says.
pub(crate) fn look_through(file: &mut File, sha256: &str) -> io::Result<()> {
    read_verified(file, sha256, &mut |_| Ok::<(), Infallible>(())).map_err(Unread::of_file)
}

/// Why something was not read to its end.
#[derive(Debug)]
pub(crate) enum Unread<E> {
    File(io::Error),
    /// Whoever took the pieces failed.
    Taking(E),
}

impl Unread<Infallible> {
    fn of_file(self) -> io::Error {
        match self {
            Unread::File(error) => error,
        }
    }
}

pub(crate) fn made(found: &fs::Metadata) -> Made {
    Made {
        place: (found.dev(), found.ino()),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    }
}

impl Made {
    pub(crate) fn stored_at(&self) -> Timestamp {
        Timestamp(self.modified.0.saturating_mul(1_000).saturating_add(self.modified.1 / 1_000_000))
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

/// A file that is being written. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Partial {
    file: File,
    /// `None` once it has its name.
    path: Option<PathBuf>,
    folder: ArtifactDir,
    hashing: Hashing,
    size: u64,
}

impl Partial {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hashing.add(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// The name that it would get now.
    pub(crate) fn name(&self) -> String {
        self.hashing.clone().hex()
    }

    /// Makes it durable and gives it its name, in place of whatever bore it: that was the same or damaged.
    pub(crate) fn place(mut self, at: Option<Timestamp>) -> io::Result<(String, Made)> {
        if let Some(at) = at {
            self.file.set_modified(system_time(at))?;
        }
        self.file.sync_all()?;
        let sha256 = std::mem::take(&mut self.hashing).hex();
        if let Some(path) = &self.path {
            fs::rename(path, self.folder.path(&sha256))?;
        }
        self.path = None;
        sync_folder(&self.folder.folder)?;
        Ok((sha256, made(&self.file.metadata()?)))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What is left of it is in nobody's way; the next start clears it away.
            drop(fs::remove_file(path));
        }
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A name is a hash and nothing else: never a way out of the folder.
fn check_name(sha256: &str) -> io::Result<()> {
    if is_sha256(sha256) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "an artifact is named by its SHA-256 in hex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_got_back_until_it_is_erased_or_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = ArtifactDir::new(folder.path().join("artifacts"));
        let name = artifacts.put(b"hello").unwrap();
        assert_eq!(artifacts.put(b"hello").unwrap(), name);
        assert_eq!(artifacts.get(&name).unwrap(), b"hello");
        fs::write(folder.path().join("artifacts").join(&name), b"jello").unwrap();
        assert_eq!(artifacts.get(&name).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(artifacts.put(b"hello").unwrap(), name);
        assert_eq!(artifacts.get(&name).unwrap(), b"hello");
        assert_eq!(artifacts.list().unwrap(), std::slice::from_ref(&name));
        artifacts.erase(&name).unwrap();
        artifacts.erase(&name).unwrap();
        assert_eq!(artifacts.list().unwrap(), Vec::<String>::new());
        assert!(!artifacts.contains(&name));
        assert!(artifacts.get("../../etc/passwd").is_err());
    }

    #[test]
    fn what_is_not_whole_has_no_name_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = ArtifactDir::new(folder.path());
        let mut given_up = artifacts.begin().unwrap();
        given_up.write(b"half").unwrap();
        assert_eq!((artifacts.list().unwrap().len(), artifacts.names().unwrap().len()), (0, 1));
        drop(given_up);
        assert_eq!(artifacts.names().unwrap(), Vec::<String>::new());
        // A process that is killed drops nothing.
        std::mem::forget(artifacts.begin().unwrap());
        let nobody = i32::MAX;
        fs::write(folder.path().join(format!(".incoming.{nobody}.0")), b"of a process that ended").unwrap();
        fs::write(folder.path().join(".incoming.1.0"), b"of a process that goes on").unwrap();
        fs::write(folder.path().join(".keep"), b"of somebody else").unwrap();
        let kept = artifacts.put(b"whole").unwrap();
        assert_eq!(artifacts.sweep().unwrap(), 2);
        assert_eq!(artifacts.list().unwrap(), [kept]);
        assert!(folder.path().join(".keep").exists() && folder.path().join(".incoming.1.0").exists());
    }
}
