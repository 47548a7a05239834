//! The artifacts of a store that one process has: files, who is about to name one, and which were found whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rookery_core::Timestamp;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, Semaphore};

use super::folder::{look_through, made};
use super::{
    ArtifactDir, ArtifactError, ArtifactHold, ArtifactInfo, Erased, Hashing, Incoming, Made, Outgoing, Partial, Stored,
    clamp, is_older, is_sha256, unavailable,
};
use crate::clock::Clock;
use crate::store::{Pending, ReadError};

/// How much is written in one go, and how much is handed out.
const WRITE_BYTES: usize = 1024 * 1024;
const PIECE_BYTES: u64 = 256 * 1024;
/// How many files that were found whole are remembered, and how many are looked through at once.
const REMEMBERED: usize = 4_096;
const AT_ONCE: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct Artifacts {
    folder: ArtifactDir,
    clock: Arc<dyn Clock>,
    /// Read by those on their way to name an artifact, written by whoever removes one.
    naming: Arc<RwLock<()>>,
    /// Held by a commit that names an artifact, and while one is removed: what is said of names stays true until then.
    committing: Arc<Mutex<()>>,
    whole: Arc<Whole>,
}

/// Which files were found whole. A file that was changed since is another one.
#[derive(Debug)]
struct Whole {
    files: Mutex<HashMap<String, Made>>,
    looking: Semaphore,
}

impl Whole {
    fn knows(&self, sha256: &str, file: Made) -> bool {
        self.files().get(sha256) == Some(&file)
    }

    fn remember(&self, sha256: &str, file: Made) {
        let mut files = self.files();
        if files.len() >= REMEMBERED {
            files.clear();
        }
        files.insert(sha256.to_owned(), file);
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, Made>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which file may be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Only {
    Any,
    /// Unless somebody else stored it.
    Made(Option<Made>),
    /// Last stored so long ago.
    Older(Duration),
}

/// Whether something names an artifact, asked where blocking is allowed.
pub(crate) type Named = Box<dyn FnOnce() -> Result<bool, ReadError> + Send>;

impl Artifacts {
    pub(crate) fn new(folder: ArtifactDir, clock: Arc<dyn Clock>) -> Artifacts {
        let whole = Whole { files: Mutex::default(), looking: Semaphore::new(AT_ONCE) };
        Artifacts { folder, clock, naming: Arc::default(), committing: Arc::default(), whole: Arc::new(whole) }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.folder()
    }

    /// What a commit that names an artifact takes before it writes.
    pub(crate) fn committing(&self) -> Arc<Mutex<()>> {
        self.committing.clone()
    }

    pub(crate) async fn put(&self, bytes: Vec<u8>) -> Result<ArtifactHold, ArtifactError> {
        let hold = self.naming.clone().read_owned().await;
        let now = self.clock.now();
        let (sha256, made) = self.blocking(move |folder| put(&folder, &bytes, now)).await?.map_err(unavailable)?;
        Ok(ArtifactHold::here(sha256, hold, made))
    }

    pub(crate) async fn get(&self, sha256: String) -> Result<Vec<u8>, ArtifactError> {
        let name = sha256.clone();
        let found = self.blocking(move |folder| folder.get(&name)).await?;
        found.map_err(|error| ArtifactError::reading(&sha256, error))
    }

    pub(crate) async fn receive(&self) -> Result<Box<dyn Incoming>, ArtifactError> {
        let partial = self.blocking(|folder| folder.begin()).await?.map_err(unavailable)?;
        Ok(Box::new(Receiving { artifacts: self.clone(), partial: Some(partial), buffer: Vec::new() }))
    }

    pub(crate) async fn size(&self, sha256: String) -> Result<u64, ArtifactError> {
        let name = sha256.clone();
        let found = self.blocking(move |folder| folder.made(&name)).await?;
        found.map(|made| made.size).map_err(|error| ArtifactError::reading(&sha256, error))
    }

    /// Opens a file that is whole: it is looked through unless it was before, and is the same file still.
    pub(crate) async fn read(&self, sha256: String, span: Range<u64>) -> Result<Box<dyn Outgoing>, ArtifactError> {
        let failed = |error| ArtifactError::reading(&sha256, error);
        let name = sha256.clone();
        let open = move |folder: ArtifactDir| {
            let file = folder.open(&name)?;
            let made = made(&file.metadata()?);
            Ok((file, made))
        };
        let (mut file, made) = self.blocking(open).await?.map_err(failed)?;
        if !self.whole.knows(&sha256, made) {
            let _turn = self.whole.looking.acquire().await;
            let name = sha256.clone();
            let look = move |_| -> io::Result<File> {
                look_through(&mut file, &name)?;
                Ok(file)
            };
            file = self.blocking(look).await?.map_err(failed)?;
            self.whole.remember(&sha256, made);
        }
        let all = 0..made.size;
        let span = clamp(span, made.size);
        file.seek(SeekFrom::Start(span.start)).map_err(failed)?;
        let hashing = (span == all).then(Hashing::default);
        Ok(Box::new(Sending { sha256, file: Some(file), left: span.end - span.start, hashing }))
    }

    /// Artifacts after a name, in order, at most so many.
    pub(crate) async fn page(&self, after: Option<String>, limit: usize) -> Result<Vec<ArtifactInfo>, ArtifactError> {
        self.blocking(move |folder| page(&folder, after.as_deref(), limit)).await?.map_err(unavailable)
    }

    /// Removes the file if it is the one that is meant and `named` says that nothing names it. Those on their way to name
    /// one are waited for, and no commit that names one comes between: the answer stays true until the file is gone.
    pub(crate) async fn erase(&self, sha256: String, only: Only, named: Named) -> Result<Erased, ArtifactError> {
        if !is_sha256(&sha256) {
            return Ok(Erased::Gone);
        }
        let _alone = self.naming.write().await;
        let (committing, now) = (self.committing.clone(), self.clock.now());
        let work = move |folder: ArtifactDir| {
            let nobody_commits = committing.lock().unwrap_or_else(PoisonError::into_inner);
            if named()? {
                return Ok(Erased::Named);
            }
            if !only.allows(folder.made(&sha256), now).map_err(unavailable)? {
                return Ok(Erased::Young);
            }
            folder.unlink(&sha256).map_err(unavailable)?;
            drop(nobody_commits);
            folder.settle().map_err(unavailable)?;
            Ok(Erased::Gone)
        };
        self.blocking(work).await?
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

impl Only {
    fn allows(self, found: io::Result<Made>, now: Timestamp) -> io::Result<bool> {
        let found = match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            found => found?,
        };
        Ok(match self {
            Only::Any => true,
            Only::Made(made) => made == Some(found),
            Only::Older(age) => is_older(found.stored_at(), now, age),
        })
    }
}

/// Stores bytes, and tells which file that made; none if it was there.
fn put(folder: &ArtifactDir, bytes: &[u8], now: Timestamp) -> io::Result<(String, Option<Made>)> {
    let sha256 = super::sha256_hex(bytes);
    if folder.get(&sha256).is_ok() {
        folder.renew(&sha256, now)?;
        // Whoever wrote it may have stopped before its name was durable.
        folder.settle()?;
        return Ok((sha256, None));
    }
    let mut partial = folder.begin()?;
    partial.write(bytes)?;
    partial.place(Some(now)).map(|(sha256, made)| (sha256, Some(made)))
}

fn page(folder: &ArtifactDir, after: Option<&str>, limit: usize) -> io::Result<Vec<ArtifactInfo>> {
    let names = folder.list()?;
    let mut found = Vec::new();
    for sha256 in names.into_iter().filter(|name| after.is_none_or(|after| name.as_str() > after)) {
        if found.len() >= limit {
            break;
        }
        match folder.made(&sha256) {
            Ok(made) => {
                found.push(ArtifactInfo { sha256, size: made.size, stored_at: made.stored_at(), named: false });
            }
            // Removed since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A file that is being received. What was written is on its way to disk on another thread: given up there, it is removed
/// there.
struct Receiving {
    artifacts: Artifacts,
    /// `None` only while it is written, and after that failed.
    partial: Option<Partial>,
    buffer: Vec<u8>,
}

impl Receiving {
    async fn flush(&mut self) -> Result<(), ArtifactError> {
        let bytes = std::mem::take(&mut self.buffer);
        let mut partial = self.taken()?;
        let written = self.artifacts.blocking(move |_| partial.write(&bytes).map(|()| (partial, bytes))).await?;
        let (partial, mut bytes) = written.map_err(unavailable)?;
        bytes.clear();
        (self.partial, self.buffer) = (Some(partial), bytes);
        Ok(())
    }

    fn taken(&mut self) -> Result<Partial, ArtifactError> {
        let gone = || ArtifactError::Unavailable { reason: "an earlier part of it could not be written".to_owned() };
        self.partial.take().ok_or_else(gone)
    }

    async fn place(mut self: Box<Self>) -> Result<Stored, ArtifactError> {
        self.flush().await?;
        let partial = self.taken()?;
        let _hold: OwnedRwLockReadGuard<()> = self.artifacts.naming.clone().read_owned().await;
        let now = self.artifacts.clock.now();
        let placed = self.artifacts.blocking(move |_| partial.place(Some(now))).await?;
        let (sha256, made) = placed.map_err(unavailable)?;
        self.artifacts.whole.remember(&sha256, made);
        Ok(Stored { sha256, size: made.size })
    }
}

impl Incoming for Receiving {
    fn write(&mut self, bytes: Bytes) -> Pending<'_, Result<(), ArtifactError>> {
        Box::pin(async move {
            self.buffer.extend_from_slice(&bytes);
            if self.buffer.len() >= WRITE_BYTES { self.flush().await } else { Ok(()) }
        })
    }

    fn finish(self: Box<Self>) -> Pending<'static, Result<Stored, ArtifactError>> {
        Box::pin(self.place())
    }
}

/// A file, or a part of it, that is being sent.
struct Sending {
    sha256: String,
    /// `None` only while it is read, and after that failed.
    file: Option<File>,
    left: u64,
    /// Of a whole file.
    hashing: Option<Hashing>,
}

impl Sending {
    async fn piece(&mut self) -> Result<Option<Bytes>, ArtifactError> {
        if self.left == 0 {
            return Ok(None);
        }
        let damaged = || ArtifactError::Damaged { sha256: self.sha256.clone() };
        let mut file = self.file.take().ok_or_else(damaged)?;
        let (length, mut hashing) = (self.left.min(PIECE_BYTES), self.hashing.take());
        let work = move || -> io::Result<(File, Vec<u8>, Option<Hashing>)> {
            let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
            (&mut file).take(length).read_to_end(&mut bytes)?;
            if let Some(hashing) = &mut hashing {
                hashing.add(&bytes);
            }
            Ok((file, bytes, hashing))
        };
        let read = tokio::task::spawn_blocking(work).await.map_err(|error| unavailable(io::Error::other(error)))?;
        let (file, bytes, hashing) = read.map_err(unavailable)?;
        if bytes.len() as u64 != length {
            return Err(damaged());
        }
        self.left -= length;
        if self.left == 0 && hashing.clone().is_some_and(|hashing| hashing.hex() != self.sha256) {
            return Err(damaged());
        }
        (self.file, self.hashing) = (Some(file), hashing);
        Ok(Some(bytes.into()))
    }
}

impl Outgoing for Sending {
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, ArtifactError>> {
        Box::pin(self.piece())
    }
}
