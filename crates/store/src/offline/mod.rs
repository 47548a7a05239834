//! Work on a whole store, whichever engine keeps it: prove it, write its log as JSON lines, make a store out of such
//! lines, move it into another one. All of it blocks.
//!
//! | file | what it owns |
//! |---|---|
//! | `raw` | a row of the log in the very bytes that are stored |
//! | `verify` | folding the log anew and comparing |
//! | `disk_fold` | the fold of a log that does not fit in memory |
//! | `line`, `export`, `import` | the log as JSON lines, out and in |
//! | `relocate` | moving and copying a store into another one |
//!
//! An engine implements [`Source`] for reading, [`Origin`] for a store that moves away and [`Sink`] for one that is made
//! anew. It must not know what the rows are carried for.

mod disk_fold;
mod error;
mod export;
mod import;
mod line;
mod raw;
mod relocate;
mod verify;

use std::collections::BTreeSet;

use rookery_core::model::ColumnValue;
use rookery_core::{Key, LogId, Row, Seq, Table};

pub use error::OfflineError;
pub use export::{ExportReport, export};
pub use import::{ImportReport, import};
pub use raw::{Entry, RawRow, RowError};
pub use relocate::{RelocateReport, copy_store, move_store};
pub(crate) use verify::other_format;
pub use verify::{VerifyReport, verify, verify_within};

use crate::artifact::ArtifactError;
use crate::operational::{EndpointCursor, PresenceRecord, Token};
use crate::query::LogHead;
use crate::replay::Fold;
use crate::store::Tallies;

/// How many rows are read or written in one go.
pub const CHUNK: u32 = 1_000;

/// What takes an artifact piece by piece.
pub type Take<'a> = dyn FnMut(&[u8]) -> Result<(), OfflineError> + 'a;

/// How far something has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// A store at one moment, opened for reading beside whoever writes it. Everything it hands out is of that moment, but for
/// artifacts: one that was erased since is absent.
pub trait Source: Send {
    /// What was read when it was opened.
    fn snapshot(&self) -> &Snapshot;

    /// Rows of the log after a place, in order: at most `limit`, and none only at the end. Nothing is decoded.
    fn log(&mut self, after: Seq, limit: u32) -> Result<Vec<RawRow>, OfflineError>;

    /// Derived rows of a table after a key, in the order of their keys byte by byte: at most `limit`, and none only at the
    /// end.
    fn rows(&mut self, table: Table, after: Option<&Key>, limit: u32) -> Result<Vec<DerivedRow>, OfflineError>;

    fn tallies(&mut self) -> Result<Tallies, OfflineError>;

    /// Hands out the bytes of this hash piece by piece, and fails at the end if they were not what it says.
    fn artifact(&mut self, sha256: &str, take: &mut Take<'_>) -> Result<(), OfflineError>;

    /// All artifacts, whether something names them or not.
    fn artifacts(&mut self) -> Result<Vec<String>, OfflineError>;

    /// All tokens, the oldest first.
    fn tokens(&mut self) -> Result<Vec<Token>, OfflineError>;

    /// How far each adapter has come with the log.
    fn outboxes(&mut self) -> Result<Vec<EndpointCursor>, OfflineError>;

    fn presence(&mut self) -> Result<Vec<PresenceRecord>, OfflineError>;

    /// Remembered replies after one, in the order of scope and key byte by byte: at most `limit`, and none only at the end.
    fn replies(&mut self, after: Option<&Reply>, limit: u32) -> Result<Vec<Reply>, OfflineError>;
}

/// A store that may move away: nobody else writes it while this lives.
pub trait Origin: Send {
    fn source(&mut self) -> &mut dyn Source;

    /// Says for good where the store went. From then on nobody opens it for writing. The last that is read of the source
    /// was read before.
    fn leave(&mut self, to: &str) -> Result<(), OfflineError>;

    /// Takes back what [`Origin::leave`] said.
    fn stay(&mut self) -> Result<(), OfflineError>;
}

/// A store that is made anew where there is none, or one with an empty log.
///
/// The calls come in the order of the methods. Until [`Sink::publish`] nobody finds a store there; what a process that
/// was killed left behind is in nobody's way and is taken away by the next [`Sink::begin`].
pub trait Sink: Send {
    /// Refuses with [`OfflineError::Exists`] where something would be lost, and keeps others from making a store there.
    fn begin(&mut self, beginning: &Beginning) -> Result<(), OfflineError>;

    /// Takes the next rows of the log, which follow each other from the floor without a gap.
    fn append(&mut self, rows: &[Entry]) -> Result<(), OfflineError>;

    /// Takes the next bytes of an artifact.
    fn artifact_piece(&mut self, bytes: &[u8]) -> Result<(), OfflineError>;

    /// Stores the bytes that came since the last one under their hash, and tells it.
    fn put_artifact(&mut self) -> Result<String, OfflineError>;

    fn remember(&mut self, replies: &[Reply]) -> Result<(), OfflineError>;

    /// Writes the rest and makes all of it durable; reads back what was written.
    fn finish(&mut self, ending: &Ending<'_>) -> Result<Box<dyn Source + '_>, OfflineError>;

    /// Makes it the store, at once and for good.
    fn publish(&mut self) -> Result<(), OfflineError>;

    /// Takes away what was made since [`Sink::begin`], if that was done, also after a [`Sink::publish`] that failed. `Ok`
    /// says that there is certainly no store.
    fn abort(&mut self) -> Result<(), OfflineError>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub head: LogHead,
    /// The version of the fold that made the derived rows.
    pub format: u32,
    pub project: ProjectName,
    /// Where the store went, if it was moved away.
    pub moved_to: Option<String>,
}

/// What a project is called.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProjectName {
    /// `None` where the folder alone says which project it is.
    pub id: Option<String>,
    pub name: String,
}

/// What a new store begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beginning {
    pub log: LogId,
    /// The first seq that is kept.
    pub floor: Seq,
    pub project: ProjectName,
}

/// What a new store ends with, after its log, its artifacts and its replies.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// The newest seq; one less than the floor if the log is empty.
    pub head: Seq,
    /// The derived rows and tallies.
    pub fold: &'a Fold,
    pub tokens: &'a [Token],
    pub outboxes: &'a [EndpointCursor],
    pub presence: &'a [PresenceRecord],
}

/// A derived row with its columns as they are stored beside it.
#[derive(Clone, PartialEq, Debug)]
pub struct DerivedRow {
    pub key: Key,
    pub row: Row,
    pub columns: Vec<ColumnValue>,
}

/// A remembered reply, its answer in the very bytes that are stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub scope: String,
    pub key: String,
    pub hash: String,
    pub answer: Vec<u8>,
    /// When it may be forgotten, in epoch milliseconds.
    pub keep_until: i64,
}

/// Carries one artifact into another store. One that is not there or not whole is told apart from other troubles.
fn carry_artifact(source: &mut dyn Source, sink: &mut dyn Sink, sha256: &str) -> Result<(), OfflineError> {
    source.artifact(sha256, &mut |piece| sink.artifact_piece(piece))?;
    sink.put_artifact().map(drop)
}

/// Whether an artifact is there and whole.
fn has_artifact(source: &mut dyn Source, sha256: &str) -> Result<bool, OfflineError> {
    match source.artifact(sha256, &mut |_| Ok(())) {
        Ok(()) => Ok(true),
        Err(OfflineError::Artifact(ArtifactError::Absent { .. } | ArtifactError::Damaged { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The artifacts that something in these rows refers to.
fn referred<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeSet<String> {
    let named = |row: &Row| match row {
        Row::ArtifactRef(row) => Some(row.sha256.clone()),
        _ => None,
    };
    rows.filter_map(named).collect()
}

/// Ends what was begun: the store is made, or nothing of it is left.
fn publish(sink: &mut dyn Sink) -> Result<(), OfflineError> {
    let published = sink.publish();
    if published.is_err() {
        give_up(sink);
    }
    published
}

/// Takes away what was made. The first failure is the one to tell.
fn give_up(sink: &mut dyn Sink) {
    if let Err(error) = sink.abort() {
        tracing::warn!(%error, "cannot take away what was made of a store");
    }
}

/// Reads the whole log piece by piece, from the first row there is.
fn each_chunk(
    source: &mut dyn Source,
    mut take: impl FnMut(&mut dyn Source, Vec<RawRow>) -> Result<(), OfflineError>,
) -> Result<(), OfflineError> {
    let mut after = Seq::ZERO;
    loop {
        let rows = source.log(after, CHUNK)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.seq;
        take(source, rows)?;
    }
}
