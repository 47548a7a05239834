//! Artifacts: bytes named by their SHA-256, written whole or not at all, verified when read. Here is what every store says
//! of them; `folder` keeps them as files, and `local` is the whole of it for a store that one process has.
//!
//! An artifact that something names (a row of the log for its body, a row of `artifact_refs`) is never removed. One that
//! nothing names stays for as long as whoever collects allows since it was last stored.

mod folder;
mod local;

use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use rookery_core::Timestamp;
pub(crate) use rookery_core::artifacts::is_sha256;
use sha2::{Digest, Sha256};

use crate::store::{Pending, ReadError};

pub use folder::ArtifactDir;
pub(crate) use folder::{Partial, Unread, sync_folder};
pub(crate) use local::{Artifacts, Only};

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
    /// Whether it is about one artifact, and not about where they are kept.
    pub fn is_of_one(&self) -> bool {
        matches!(self, ArtifactError::Absent { .. } | ArtifactError::Damaged { .. })
    }

    /// Why a file of an [`ArtifactDir`] could not be read.
    pub(crate) fn reading(sha256: &str, error: io::Error) -> ArtifactError {
        let sha256 = sha256.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => ArtifactError::Absent { sha256 },
            io::ErrorKind::InvalidData => ArtifactError::Damaged { sha256 },
            _ => unavailable(error),
        }
    }
}

impl From<ReadError> for ArtifactError {
    fn from(error: ReadError) -> ArtifactError {
        ArtifactError::Unavailable { reason: error.to_string() }
    }
}

fn unavailable(error: io::Error) -> ArtifactError {
    ArtifactError::Unavailable { reason: error.to_string() }
}

/// An artifact on its way in. Nobody finds it before it is finished; one that is dropped leaves nothing.
pub trait Incoming: Send {
    /// Takes the next bytes. What is kept in memory is bounded, however much there is.
    fn write(&mut self, bytes: Bytes) -> Pending<'_, Result<(), ArtifactError>>;

    /// Names it by its hash, durably. Bytes that were there already stay, whole again if they were damaged, and count as
    /// stored now.
    fn finish(self: Box<Self>) -> Pending<'static, Result<Stored, ArtifactError>>;
}

/// An artifact, or a part of it, on its way out.
pub trait Outgoing: Send {
    /// The next bytes; `None` at the end. Of a whole artifact the last bytes are handed out only if all of them are what
    /// their name says.
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, ArtifactError>>;
}

/// What came in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    pub sha256: String,
    pub size: u64,
}

/// An artifact as it is listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArtifactInfo {
    pub sha256: String,
    pub size: u64,
    /// When it was last stored.
    pub stored_at: Timestamp,
    /// Whether something in the log names it.
    pub named: bool,
}

/// An artifact that somebody is about to name: nobody erases it meanwhile. Let go of it through the store; a hold that is
/// dropped instead ends by itself.
#[derive(Debug)]
pub struct ArtifactHold {
    pub sha256: String,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    /// Ends with the guard.
    Here { _guard: Box<dyn Guard>, made: Option<Made> },
    /// A row that all nodes see, by its id. It ends after a while.
    Row { id: String, stored_at: Option<i64> },
}

pub(crate) trait Guard: std::fmt::Debug + Send + Sync {}

impl<T: std::fmt::Debug + Send + Sync> Guard for T {}

/// Tells what was stored under a hash from what somebody else stores there later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Made {
    pub(crate) place: (u64, u64),
    pub(crate) size: u64,
    pub(crate) modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

impl ArtifactHold {
    /// `made` is what was stored now; `None` if it was there before.
    pub(crate) fn here(sha256: String, guard: impl Guard + 'static, made: Option<Made>) -> ArtifactHold {
        ArtifactHold { sha256, hold: Hold::Here { _guard: Box::new(guard), made } }
    }

    /// `stored_at` is when it was stored now, by which that is told from a later time; `None` if it was there before.
    pub(crate) fn row(sha256: String, id: String, stored_at: Option<i64>) -> ArtifactHold {
        ArtifactHold { sha256, hold: Hold::Row { id, stored_at } }
    }

    pub(crate) fn hold_id(&self) -> Option<&str> {
        match &self.hold {
            Hold::Here { .. } => None,
            Hold::Row { id, .. } => Some(id),
        }
    }

    pub(crate) fn stored_at(&self) -> Option<i64> {
        match &self.hold {
            Hold::Here { .. } => None,
            Hold::Row { stored_at, .. } => *stored_at,
        }
    }

    pub(crate) fn made(&self) -> Option<Made> {
        match &self.hold {
            Hold::Here { made, .. } => *made,
            Hold::Row { .. } => None,
        }
    }
}

/// What became of an artifact that was to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Erased {
    /// It is gone, or was not there.
    Gone,
    /// Something in the log names it.
    Named,
    /// Somebody is about to name it; worth another try.
    Held,
    /// Somebody stored it, and not long enough ago.
    Young,
}

/// The hash of bytes that come piece by piece.
#[derive(Clone, Default, Debug)]
pub(crate) struct Hashing {
    digest: Sha256,
}

impl Hashing {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    pub(crate) fn hex(self) -> String {
        hex(&self.digest.finalize())
    }
}

/// Whether something was stored so long ago. On a clock that went back, it was stored now.
pub fn is_older(stored_at: Timestamp, now: Timestamp, age: Duration) -> bool {
    (now.0 - stored_at.0).max(0) >= i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}

/// A span within an artifact of this size.
pub(crate) fn clamp(span: Range<u64>, size: u64) -> Range<u64> {
    let end = span.end.min(size);
    span.start.min(end)..end
}

/// The name that bytes are stored under.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
