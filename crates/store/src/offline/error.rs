//! Why work on a whole store failed.

use std::error::Error;
use std::path::PathBuf;

use rookery_core::Seq;

use super::RowError;
use crate::artifact::ArtifactError;
use crate::sqlite::{OpenError, Problem, is_damage};

#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the database cannot be read or written")]
    Sql(#[from] rusqlite::Error),
    /// The same of a database other than SQLite.
    #[error("the database cannot be read or written")]
    Database(#[source] Box<dyn Error + Send + Sync>),
    #[error("the store cannot be read")]
    Store(#[from] Problem),
    #[error("the store cannot be read: {0}")]
    Unreadable(String),
    #[error("log row {seq} {reason}")]
    Row { seq: Seq, reason: RowError },
    #[error("cannot access {path}", path = .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("cannot read or write the stream")]
    Stream { source: std::io::Error },
    #[error("{path} is not a backup of a store: {reason}", path = .path.display())]
    NotABackup { path: PathBuf, reason: String },
    #[error("{path} is damaged: {problem}", path = .path.display())]
    Damaged { path: PathBuf, problem: String },
    /// `store` is an address without secrets, or a path.
    #[error("there is a store at {store} already")]
    Exists { store: String },
    #[error("line {line} of the export {reason}")]
    Line { line: u64, reason: String },
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error("the log goes from {before} to {next}")]
    Gap { before: Seq, next: Seq },
    /// What was written is not what was read; nothing of it is kept.
    #[error("what was written is not what was read: {}", .differences.join("; "))]
    Unlike { differences: Vec<String> },
    #[error("the store has moved to {to}")]
    Moved { to: String },
    /// Others write the store, so that it cannot move.
    #[error("the store is in use by {by}")]
    InUse { by: String },
}

impl OfflineError {
    /// Whether the file of a database is damaged, or is none.
    pub fn is_damage(&self) -> bool {
        match self {
            OfflineError::Damaged { .. } => true,
            OfflineError::Sql(error)
            | OfflineError::Open(OpenError::Sql { source: error, .. })
            | OfflineError::Store(Problem::Sql(error)) => is_damage(error),
            _ => false,
        }
    }
}
