//! A row of the log as it is stored: the fact in the very bytes that were written, whatever its version.

use rookery_core::kernel::caller::{Actor, Auth};
use rookery_core::traits::EventError;
use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{AnyEvent, RunId, Seq, ThreadId, Timestamp};
use sha2::{Digest, Sha256};

use super::OfflineError;
use crate::artifact::hex;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawRow {
    pub seq: Seq,
    pub at: Timestamp,
    pub kind: String,
    pub version: u32,
    pub run: Option<String>,
    pub thread: Option<String>,
    pub actor: String,
    pub auth: String,
    pub via: Option<String>,
    pub cause: Option<Seq>,
    pub part_index: u32,
    pub fact: Vec<u8>,
    /// Its bytes if the row has them, or where they went.
    pub body: Option<Body>,
}

/// A row in both forms: as it is stored, and what it says.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    pub raw: RawRow,
    /// Without the body, which is in `raw`.
    pub row: LogRow,
}

/// Why a row cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    #[error("is unreadable: {0}")]
    Fact(EventError),
    #[error("has auth {0}")]
    Auth(String),
}

impl RawRow {
    pub fn decode(self) -> Result<Entry, RowError> {
        let fact = AnyEvent::decode(&self.kind, self.version, &self.fact).map_err(RowError::Fact)?;
        let auth = Auth::parse(&self.auth).ok_or_else(|| RowError::Auth(self.auth.clone()))?;
        let row = LogRow {
            seq: self.seq,
            at: self.at,
            run: self.run.clone().map(RunId::new),
            thread: self.thread.clone().map(ThreadId::new),
            actor: Actor::parse(&self.actor),
            auth,
            via: self.via.clone(),
            cause: self.cause,
            part_index: self.part_index,
            event: fact,
            body: None,
        };
        Ok(Entry { raw: self, row })
    }

    /// The same, where there is nothing better to say than which row it is.
    pub fn entry(self) -> Result<Entry, OfflineError> {
        let seq = self.seq;
        self.decode().map_err(|reason| OfflineError::Row { seq, reason })
    }
}

/// Whether a row may follow one with another index: it begins a command, or goes on with the one before it. The first row
/// that is kept has none before it.
pub(super) fn is_next_part(previous: Option<u32>, part_index: u32) -> bool {
    part_index == 0 || previous.is_none_or(|previous| previous.checked_add(1) == Some(part_index))
}

/// The hash of all rows that were added, in order: two logs with the same one are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct LogDigest {
    digest: Sha256,
}

impl LogDigest {
    pub(super) fn add(&mut self, row: &RawRow) {
        self.bytes(&row.seq.0.to_be_bytes());
        self.bytes(&row.at.0.to_be_bytes());
        self.bytes(row.kind.as_bytes());
        self.bytes(&row.version.to_be_bytes());
        self.text(row.run.as_deref());
        self.text(row.thread.as_deref());
        self.bytes(row.actor.as_bytes());
        self.bytes(row.auth.as_bytes());
        self.text(row.via.as_deref());
        self.bytes(&row.cause.map_or([0; 8], |cause| cause.0.to_be_bytes()));
        self.bytes(&row.part_index.to_be_bytes());
        self.bytes(&row.fact);
        self.text(row.body.as_ref().map(|body| body.sha256.as_str()));
        let (place, bytes): (u8, &[u8]) = match row.body.as_ref().map(|body| &body.bytes) {
            None => (0, &[]),
            Some(BodyBytes::Gone) => (1, &[]),
            Some(BodyBytes::Artifact) => (2, &[]),
            Some(BodyBytes::Here(bytes)) => (3, bytes),
        };
        self.digest.update([place]);
        self.bytes(bytes);
    }

    pub(super) fn sha256(self) -> String {
        hex(&self.digest.finalize())
    }

    /// No value is told from an empty one.
    fn text(&mut self, text: Option<&str>) {
        self.digest.update([u8::from(text.is_some())]);
        self.bytes(text.unwrap_or_default().as_bytes());
    }

    /// With the length, so that no two fields can be taken for others.
    fn bytes(&mut self, bytes: &[u8]) {
        self.digest.update((bytes.len() as u64).to_be_bytes());
        self.digest.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> RawRow {
        RawRow {
            seq: Seq(1),
            at: Timestamp(2),
            kind: "task.created".to_owned(),
            version: 1,
            run: None,
            thread: None,
            actor: "a".to_owned(),
            auth: "none".to_owned(),
            via: None,
            cause: None,
            part_index: 0,
            fact: b"{}".to_vec(),
            body: None,
        }
    }

    fn digest(row: &RawRow) -> String {
        let mut digest = LogDigest::default();
        digest.add(row);
        digest.sha256()
    }

    #[test]
    fn part_index_starts_at_zero_or_continues() {
        assert!(is_next_part(Some(0), 0) && is_next_part(Some(7), 0) && is_next_part(Some(7), 8));
        assert!(!is_next_part(Some(0), 2) && !is_next_part(Some(3), 3) && !is_next_part(Some(u32::MAX), 1));
        assert!(is_next_part(None, 4), "the rows before the floor are gone");
    }

    #[test]
    fn every_difference_changes_the_hash() {
        let body = |bytes| Some(Body { sha256: "s".to_owned(), bytes });
        let rows = [
            row(),
            RawRow { seq: Seq(2), ..row() },
            RawRow { at: Timestamp(3), ..row() },
            RawRow { version: 2, ..row() },
            RawRow { run: Some(String::new()), ..row() },
            RawRow { thread: Some(String::new()), ..row() },
            RawRow { via: Some(String::new()), ..row() },
            RawRow { cause: Some(Seq(1)), ..row() },
            RawRow { part_index: 1, ..row() },
            RawRow { kind: "task.createda".to_owned(), actor: String::new(), ..row() },
            RawRow { fact: b"{ }".to_vec(), ..row() },
            RawRow { body: body(BodyBytes::Here(vec![])), ..row() },
            RawRow { body: body(BodyBytes::Artifact), ..row() },
            RawRow { body: body(BodyBytes::Gone), ..row() },
        ];
        let digests: std::collections::BTreeSet<String> = rows.iter().map(digest).collect();
        assert_eq!(digests.len(), rows.len());
    }
}
