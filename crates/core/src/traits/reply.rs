//! What a command answers with: its type follows from the command, and the store keeps it as an [`AnyReply`].

use std::marker::PhantomData;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::kernel::id::Seq;
use crate::model::file::{FileClaimOutcome, FileReleaseOutcome};
use crate::model::{Key, Row, Stored, Table};

/// The reply of a command: a row, a position or an outcome.
pub trait CommandReply: Sized {
    /// The reply as its own type; `None` if the store kept one of another type.
    fn from_any(reply: AnyReply) -> Option<Self>;
}

/// A reply of any type. It is self-contained, so that a repeated request gets the same one again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnyReply {
    Done,
    Row(Key, Box<StoredRow>),
    FileClaim(FileClaimOutcome),
    FileRelease(FileReleaseOutcome),
    FirstSeq(FirstSeq),
}

impl AnyReply {
    /// Whether it shows the row of this key.
    pub fn shows(&self, key: &Key) -> bool {
        matches!(self, AnyReply::Row(shown, _) if shown == key)
    }

    /// The reply with a row as it is now. Without the row, nothing is left to show.
    #[must_use]
    pub fn of_row(key: Key, row: Option<Row>) -> AnyReply {
        row.map_or(AnyReply::Done, |row| AnyReply::Row(key, Box::new(StoredRow(row))))
    }
}

/// The position of the first event that a command appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FirstSeq(pub Seq);

impl CommandReply for () {
    fn from_any(reply: AnyReply) -> Option<()> {
        (reply == AnyReply::Done).then_some(())
    }
}

impl<E: Stored> CommandReply for E {
    fn from_any(reply: AnyReply) -> Option<E> {
        if let AnyReply::Row(_, row) = reply { E::take_row(row.0) } else { None }
    }
}

impl CommandReply for FirstSeq {
    fn from_any(reply: AnyReply) -> Option<FirstSeq> {
        if let AnyReply::FirstSeq(seq) = reply { Some(seq) } else { None }
    }
}

/// A reply that some decisions of the command do not give.
impl<R: CommandReply> CommandReply for Option<R> {
    fn from_any(reply: AnyReply) -> Option<Option<R>> {
        if reply == AnyReply::Done { Some(None) } else { R::from_any(reply).map(Some) }
    }
}

impl CommandReply for FileClaimOutcome {
    fn from_any(reply: AnyReply) -> Option<FileClaimOutcome> {
        if let AnyReply::FileClaim(outcome) = reply { Some(outcome) } else { None }
    }
}

impl CommandReply for FileReleaseOutcome {
    fn from_any(reply: AnyReply) -> Option<FileReleaseOutcome> {
        if let AnyReply::FileRelease(outcome) = reply { Some(outcome) } else { None }
    }
}

impl CommandReply for AnyReply {
    fn from_any(reply: AnyReply) -> Option<AnyReply> {
        Some(reply)
    }
}

/// The source of a command's reply, which the store reads once the events are applied.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplySource<R> {
    source: AnyReplySource,
    reply: PhantomData<fn() -> R>,
}

/// The source of a reply of any type.
#[derive(Clone, PartialEq, Debug)]
pub enum AnyReplySource {
    Value(AnyReply),
    /// The row as the command leaves it.
    Row(Key),
    /// The position of the first event that the command appends.
    FirstSeq,
}

impl<R> ReplySource<R> {
    fn new(source: AnyReplySource) -> ReplySource<R> {
        ReplySource { source, reply: PhantomData }
    }

    pub(super) fn into_any(self) -> AnyReplySource {
        self.source
    }
}

impl ReplySource<()> {
    pub fn done() -> ReplySource<()> {
        ReplySource::new(AnyReplySource::Value(AnyReply::Done))
    }
}

impl<E: Stored> ReplySource<E> {
    pub fn row(id: E::Id) -> ReplySource<E> {
        ReplySource::new(AnyReplySource::Row(E::key(id)))
    }
}

impl ReplySource<FirstSeq> {
    pub fn first_seq() -> ReplySource<FirstSeq> {
        ReplySource::new(AnyReplySource::FirstSeq)
    }
}

impl<R> ReplySource<R> {
    /// Makes it the source of a reply that other decisions do not give.
    pub fn some(self) -> ReplySource<Option<R>> {
        ReplySource::new(self.source)
    }

    pub fn none() -> ReplySource<Option<R>> {
        ReplySource::new(AnyReplySource::Value(AnyReply::Done))
    }
}

impl ReplySource<FileClaimOutcome> {
    pub fn claim(outcome: FileClaimOutcome) -> ReplySource<FileClaimOutcome> {
        ReplySource::new(AnyReplySource::Value(AnyReply::FileClaim(outcome)))
    }
}

impl ReplySource<FileReleaseOutcome> {
    pub fn release(outcome: FileReleaseOutcome) -> ReplySource<FileReleaseOutcome> {
        ReplySource::new(AnyReplySource::Value(AnyReply::FileRelease(outcome)))
    }
}

/// A row inside of a reply, kept with its table so that it reads back as the same type.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredRow(pub Row);

impl Serialize for StoredRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0.table(), &self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StoredRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StoredRow, D::Error> {
        let (table, document) = <(Table, Value)>::deserialize(deserializer)?;
        let bytes = serde_json::to_vec(&document).map_err(D::Error::custom)?;
        Row::decode(table, &bytes).map(StoredRow).map_err(D::Error::custom)
    }
}
