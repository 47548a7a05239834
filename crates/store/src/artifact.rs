//! Artifacts: bytes named by their SHA-256, written whole or not at all, verified when read. Here is what every store says
//! of them, and how a store of one process keeps them as files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use crate::store::ReadError;

/// Why an artifact could not be stored, read or removed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("there is no artifact {sha256}")]
    Absent { sha256: String },
    #[error("artifact {sha256} is damaged")]
    Damaged { sha256: String },
    #[error("artifacts cannot be used: {reason}")]
    Unavailable { reason: String },
}

impl ArtifactError {
    /// Why [`ArtifactDir::get`] failed.
    pub(crate) fn reading(sha256: &str, error: io::Error) -> ArtifactError {
        let sha256 = sha256.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => ArtifactError::Absent { sha256 },
            io::ErrorKind::InvalidData => ArtifactError::Damaged { sha256 },
            _ => unavailable(error),
        }
    }
}

/// An artifact that somebody is about to name: nobody erases it meanwhile. Let go of it through the store; a hold that is
/// dropped instead ends by itself.
#[derive(Debug)]
pub struct Held {
    pub sha256: String,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    /// Ends with the guard.
    Here { _guard: Box<dyn Guard> },
    /// A row that all nodes see, by its id. It ends after a while.
    Row(String),
}

pub(crate) trait Guard: std::fmt::Debug + Send + Sync {}

impl<T: std::fmt::Debug + Send + Sync> Guard for T {}

impl Held {
    pub(crate) fn here(sha256: String, guard: impl Guard + 'static) -> Held {
        Held { sha256, hold: Hold::Here { _guard: Box::new(guard) } }
    }

    pub(crate) fn row(sha256: String, id: String) -> Held {
        Held { sha256, hold: Hold::Row(id) }
    }

    pub(crate) fn hold_id(&self) -> Option<&str> {
        match &self.hold {
            Hold::Here { .. } => None,
            Hold::Row(id) => Some(id),
        }
    }
}

/// What became of an artifact that was to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Erased {
    /// It is gone, or was not there.
    Gone,
    /// A row of the log names it.
    Named,
    /// Somebody is about to name it; worth another try.
    Held,
}

/// The artifacts of a store that one process has: files, and who is about to name one.
#[derive(Clone, Debug)]
pub(crate) struct Artifacts {
    folder: ArtifactDir,
    /// Read by those on their way to name an artifact, written by whoever removes one.
    naming: Arc<tokio::sync::RwLock<()>>,
}

impl Artifacts {
    pub(crate) fn new(folder: ArtifactDir) -> Artifacts {
        Artifacts { folder, naming: Arc::default() }
    }

    pub(crate) async fn put(&self, bytes: Vec<u8>) -> Result<Held, ArtifactError> {
        let hold = self.naming.clone().read_owned().await;
        let sha256 = self.blocking(move |folder| folder.put(&bytes)).await?.map_err(unavailable)?;
        Ok(Held::here(sha256, hold))
    }

    pub(crate) async fn get(&self, sha256: String) -> Result<Vec<u8>, ArtifactError> {
        let name = sha256.clone();
        let found = self.blocking(move |folder| folder.get(&name)).await?;
        found.map_err(|error| ArtifactError::reading(&sha256, error))
    }

    /// Removes the file if `named` says that no row names it. Those on their way to name one are waited for, so that the
    /// answer stays true until the file is gone.
    pub(crate) async fn erase<F: Future<Output = Result<bool, ReadError>>>(
        &self,
        sha256: String,
        named: impl Fn() -> F,
    ) -> Result<Erased, ArtifactError> {
        let unreadable = |error: ReadError| ArtifactError::Unavailable { reason: error.to_string() };
        // Most often it is named; then nobody has to wait.
        if named().await.map_err(unreadable)? {
            return Ok(Erased::Named);
        }
        let _alone = self.naming.write().await;
        if named().await.map_err(unreadable)? {
            return Ok(Erased::Named);
        }
        self.blocking(move |folder| folder.erase(&sha256)).await?.map_err(unavailable)?;
        Ok(Erased::Gone)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(ArtifactDir) -> T + Send + 'static,
    ) -> Result<T, ArtifactError> {
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || work(folder)).await;
        done.map_err(|error| ArtifactError::Unavailable { reason: error.to_string() })
    }
}

fn unavailable(error: io::Error) -> ArtifactError {
    ArtifactError::Unavailable { reason: error.to_string() }
}

#[derive(Clone, Debug)]
pub struct ArtifactDir {
    folder: PathBuf,
}

/// Tells temporary files of one process apart.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

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
        let path = self.path(&sha256);
        if self.get(&sha256).is_ok() {
            // Whoever wrote it may have stopped before its name was durable.
            sync_folder(&self.folder)?;
            return Ok(sha256);
        }
        fs::create_dir_all(&self.folder)?;
        let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!(".{sha256}.{}.{number}", std::process::id()));
        let written = write_durably(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = written {
            // What is left of it is in nobody's way; the next start may find it and that is all.
            drop(fs::remove_file(&temporary));
            return Err(error);
        }
        sync_folder(&self.folder)?;
        Ok(sha256)
    }

    /// The bytes, if they are still what their name says.
    pub fn get(&self, sha256: &str) -> io::Result<Vec<u8>> {
        check_name(sha256)?;
        let bytes = fs::read(self.path(sha256))?;
        if sha256_hex(&bytes) != sha256 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("artifact {sha256} is damaged")));
        }
        Ok(bytes)
    }

    /// Removes the file durably; one that is not there counts as removed. Whoever calls this made sure that no row of
    /// the log names the file, and that none is about to.
    pub fn erase(&self, sha256: &str) -> io::Result<()> {
        check_name(sha256)?;
        let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match fs::remove_file(self.path(sha256)) {
            Err(error) if !absent(&error) => return Err(error),
            _ => {}
        }
        // Also where it was gone already: whoever removed it may have stopped before that was durable.
        match sync_folder(&self.folder) {
            Err(error) if !absent(&error) => Err(error),
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

    /// The names of all artifacts, in order.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().into_string().ok().filter(|name| check_name(name).is_ok()));
        }
        names.sort();
        Ok(names)
    }

    fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The name that bytes are stored under.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub(crate) fn is_sha256(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
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
}
