//! Rows of the log as messages with their place. This is the one place where it is decided how a row is shown.

mod filter;

use rookery_core::kernel::time;
use rookery_core::{EventRef, Seq, Timestamp, envelope};
use std::collections::BTreeSet;
use std::sync::Arc;

use rookery_core::traits::LogRow;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use filter::{MessageFilter, Sender};

/// A message and its place in the log.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PositionedMessage {
    pub seq: Seq,
    pub message: Value,
    /// When the daemon received it; the message itself has its sender's time.
    #[serde(rename = "received_at", serialize_with = "as_iso")]
    pub at: Timestamp,
}

fn as_iso<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time::iso(*at))
}

/// What follows from an envelope is shown under its own kind: the protocol's type is the envelope's. A row does not tell that
/// by itself, so that rows are shown by whoever knows those before them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Envelopes(BTreeSet<Seq>);

impl Envelopes {
    pub(crate) fn among(rows: &[LogRow]) -> Envelopes {
        Envelopes(rows.iter().filter(|row| is_envelope(row)).map(|row| row.seq).collect())
    }

    /// Adds the envelopes among other rows.
    pub(crate) fn extend(&mut self, others: Envelopes) {
        self.0.extend(others.0);
    }

    fn led_to(&self, row: &LogRow) -> bool {
        row.cause.is_some_and(|cause| self.0.contains(&cause))
    }

    /// The type that a row is shown with.
    pub fn type_of<'r>(&self, row: &'r LogRow) -> &'r str {
        if self.led_to(row) { envelope::own_type(&row.event) } else { envelope::message_type(&row.event) }
    }

    /// A row as a message. Its body, if it has words of its own, is at hand.
    pub fn shown(&self, row: &LogRow) -> PositionedMessage {
        let message = if self.led_to(row) { envelope::following(row) } else { envelope::of(row) };
        PositionedMessage { seq: row.seq, message, at: row.at }
    }
}

fn is_envelope(row: &LogRow) -> bool {
    matches!(row.event.typed(), EventRef::EnvelopeReceived(_))
}

/// What stands between two entries of a rendering. JSON has no line breaks of its own: it can be split there again.
const BETWEEN: &[u8] = b",\n";

/// A stretch of the log as one JSON array, with an entry for each row. Shared by all who follow: whoever wants single
/// messages, or only some, takes slices of it.
#[derive(Clone, Debug)]
pub struct RenderedBatch {
    array: Arc<[u8]>,
    /// Where each entry begins and ends.
    entries: Vec<(usize, usize)>,
}

impl RenderedBatch {
    pub fn of(messages: impl IntoIterator<Item = PositionedMessage>) -> RenderedBatch {
        RenderedBatch::split(array(messages).into())
    }

    pub(crate) fn split(array: Arc<[u8]>) -> RenderedBatch {
        let mut entries = Vec::new();
        let (mut begin, end) = (1, array.len().saturating_sub(1));
        while begin < end {
            let inner = &array[begin..end];
            let length = inner.windows(BETWEEN.len()).position(|at| at == BETWEEN).unwrap_or(inner.len());
            entries.push((begin, begin + length));
            begin += length + BETWEEN.len();
        }
        RenderedBatch { array, entries }
    }

    /// The whole array.
    pub fn array(&self) -> Arc<[u8]> {
        self.array.clone()
    }

    /// Where in the array the message of each row stands.
    pub fn entries(&self) -> &[(usize, usize)] {
        &self.entries
    }
}

pub(crate) fn array(messages: impl IntoIterator<Item = PositionedMessage>) -> Vec<u8> {
    let mut bytes = vec![b'['];
    for (at, message) in messages.into_iter().enumerate() {
        if at > 0 {
            bytes.extend_from_slice(BETWEEN);
        }
        // A message is plain data: writing it to memory cannot fail.
        drop(serde_json::to_writer(&mut bytes, &message));
    }
    bytes.push(b']');
    bytes
}

#[cfg(test)]
mod tests {
    use rookery_core::files::Report;
    use rookery_core::kernel::caller::{Actor, Auth};

    use super::*;
    use rookery_core::AnyEvent;

    fn row(seq: u64, text: &str) -> LogRow {
        LogRow {
            seq: Seq(seq),
            at: Timestamp(0),
            run: None,
            thread: None,
            actor: Actor::System,
            auth: Auth::None,
            via: None,
            cause: None,
            part_index: 0,
            event: AnyEvent::new(Report {
                agent: "a".into(),
                action: "x.n".to_owned(),
                resource: None,
                task: None,
                before_hash: None,
                after_hash: None,
                metadata: [("text".to_owned(), text.into())].into_iter().collect(),
            }),
            body: None,
        }
    }

    #[test]
    fn a_rendering_is_one_array_and_its_entries() {
        // What separates entries cannot stand inside of one.
        let rows = [row(1, "a,\nb"), row(2, "},\n{"), row(3, "[]")];
        let rendered = RenderedBatch::of(rows.iter().map(|row| Envelopes::default().shown(row)));
        let array: Vec<Value> = serde_json::from_slice(&rendered.array()).unwrap();
        assert_eq!(
            array,
            rows.iter().map(|row| serde_json::to_value(Envelopes::default().shown(row)).unwrap()).collect::<Vec<_>>()
        );
        for (entry, whole) in rendered.entries().iter().zip(&array) {
            let single: Value = serde_json::from_slice(&rendered.array()[entry.0..entry.1]).unwrap();
            assert_eq!(single, *whole);
        }
        assert_eq!(rendered.entries().len(), 3);
        assert_eq!(RenderedBatch::of([]).entries(), []);
    }
}
