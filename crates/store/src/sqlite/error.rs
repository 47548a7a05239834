//! What can go wrong with a database file, and what that means for the commands that were on their way.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rusqlite::ErrorCode;

use crate::offline::OfflineError;
use crate::store::{Health, ReadError, ReadOnlyCause, SubmitError};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another daemon holds the store{}", holder(.pid, .url))]
    Locked { pid: Option<u32>, url: Option<String> },
    #[error("cannot lock {path}", path = .path.display())]
    Lock { path: PathBuf, source: std::io::Error },
    #[error("{path} is on a network file system ({kind}), where SQLite's write-ahead log cannot work", path = .path.display())]
    NetworkFileSystem { path: PathBuf, kind: String },
    #[error("cannot prepare the folder of {path}", path = .path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("there is no store at {path}", path = .path.display())]
    Absent { path: PathBuf },
    #[error("{path} is empty: a log that was there is gone", path = .path.display())]
    Empty { path: PathBuf },
    #[error("{path} is a database of another program", path = .path.display())]
    Foreign { path: PathBuf },
    #[error(
        "{path} was written by a development version of rookery from before the first release, and cannot be read",
        path = .path.display()
    )]
    Development { path: PathBuf },
    #[error("the file system of {path} does not take a write-ahead log", path = .path.display())]
    NoWriteAheadLog { path: PathBuf },
    #[error("cannot open {path}", path = .path.display())]
    Sql { path: PathBuf, source: rusqlite::Error },
    #[error("cannot copy {path} before changing its schema", path = .path.display())]
    Copy { path: PathBuf, source: Box<OfflineError> },
    #[error("cannot bring {path} to schema version {version}", path = .path.display())]
    Migrate { path: PathBuf, version: u32, source: rusqlite::Error },
    #[error("cannot rebuild the derived rows of {path}", path = .path.display())]
    Rebuild { path: PathBuf, source: Problem },
    /// `to` is an address without secrets.
    #[error("the store at {path} has moved to {to} and is not written any more", path = .path.display())]
    Moved { path: PathBuf, to: String },
    #[error("cannot start the store's threads")]
    Thread { source: std::io::Error },
}

fn holder(pid: &Option<u32>, url: &Option<String>) -> String {
    let pid = pid.map(|pid| format!(": process {pid}")).unwrap_or_default();
    let url = url.as_ref().map(|url| format!(" at {url}")).unwrap_or_default();
    format!("{pid}{url}")
}

/// Something that a statement, or what it brought back, had against it.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("{0}")]
    Unreadable(String),
}

impl From<Problem> for ReadError {
    fn from(problem: Problem) -> ReadError {
        match problem {
            Problem::Unreadable(reason) => ReadError::Corrupt { reason },
            Problem::Sql(error) if is_damage(&error) => ReadError::Corrupt { reason: error.to_string() },
            Problem::Sql(error) => ReadError::Unavailable { reason: error.to_string() },
        }
    }
}

/// The damage that a read or a write has met in the file of a store. The first one is kept until the store is closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Damage(Arc<OnceLock<String>>);

impl Damage {
    /// Notes an error that says that the file is damaged.
    pub(super) fn note(&self, reason: &str) {
        if self.0.set(damage_notice(reason)).is_ok() {
            tracing::error!(reason, "the store is damaged and takes no writes any more");
        }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// The reason why a damaged store is only read, with what to do about it.
fn damage_notice(problem: &str) -> String {
    format!("the file is damaged ({problem}); restore a backup, or export what can be read and import it elsewhere")
}

/// What a failed transaction means for its commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// The disk has no room left. What was written of the batch ends before its commit.
    Full(String),
    /// The disk takes nothing, whatever the command.
    Disk(String),
    /// A part of the file cannot be read. Nothing is written to it any more.
    Damage(String),
    /// A command that cannot be carried out.
    Poison(String),
    /// Nobody can tell whether the batch was written.
    Unknown(String),
    /// This store is not to be written by this program.
    Closed(String),
}

impl Trouble {
    /// Whether the commands of a batch are worth another try, each alone.
    pub(super) fn may_spare_others(&self) -> bool {
        matches!(self, Trouble::Poison(_))
    }

    pub(super) fn makes_unhealthy(&self) -> bool {
        !matches!(self, Trouble::Poison(_))
    }

    /// The health of a store that met this.
    pub(super) fn health(&self) -> Health {
        let cause = match self {
            Trouble::Closed(_) => ReadOnlyCause::Unfit,
            Trouble::Damage(_) => ReadOnlyCause::Damage,
            Trouble::Full(_) | Trouble::Disk(_) | Trouble::Poison(_) | Trouble::Unknown(_) => {
                ReadOnlyCause::Interruption
            }
        };
        Health::ReadOnly { reason: self.reason().to_owned(), cause }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Trouble::Full(reason)
            | Trouble::Disk(reason)
            | Trouble::Damage(reason)
            | Trouble::Poison(reason)
            | Trouble::Unknown(reason)
            | Trouble::Closed(reason) => reason,
        }
    }

    pub(super) fn error(&self) -> SubmitError {
        match self.clone() {
            Trouble::Full(reason) | Trouble::Disk(reason) | Trouble::Damage(reason) | Trouble::Closed(reason) => {
                SubmitError::Unavailable { reason }
            }
            Trouble::Poison(reason) => SubmitError::Broken { reason },
            Trouble::Unknown(reason) => SubmitError::OutcomeUnknown { reason },
        }
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Trouble::Full(reason),
            Some(ErrorCode::SystemIoFailure) if is_refused_write(&error) => Trouble::Full(reason),
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::NoLargeFileSupport
                | ErrorCode::FileLockingProtocolFailed,
            ) => Trouble::Disk(reason),
            _ if is_damage(&error) => Trouble::Damage(reason),
            _ => Trouble::Poison(reason),
        }
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        match problem {
            Problem::Sql(error) => error.into(),
            Problem::Unreadable(reason) => Trouble::Poison(reason),
        }
    }
}

/// The system took a page of the batch not at all, as beyond a quota or the largest size of a file. The page that
/// commits is the last one, so that there is no doubt about the outcome; a failed sync would leave one.
fn is_refused_write(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE)
}

pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
