//! Rows of the log as messages with their place. This is the one place where it is decided how a row is shown.

use std::sync::Arc;

use rookery_core::log::LogRow;
use rookery_core::{Seq, Timestamp, envelope};
use rookery_store::Published;
use rookery_store::publish::Slot;
use serde::Serialize;
use serde_json::Value;

/// A message and its place in the log.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shown {
    pub seq: Seq,
    pub message: Value,
    /// When the daemon received it; the message itself has its sender's time.
    #[serde(skip)]
    pub at: Timestamp,
}

pub fn shown(row: &LogRow) -> Shown {
    Shown { seq: row.seq, message: envelope::of(row), at: row.at }
}

/// The type that a row is shown with.
pub(super) fn type_of(row: &LogRow) -> &str {
    envelope::message_type(&row.fact)
}

/// What stands between two entries of a rendering. JSON has no line breaks of its own: it can be split there again.
const BETWEEN: &[u8] = b",\n";

/// A stretch of the log as one JSON array, with an entry for each row. Shared by all who follow: whoever wants single
/// messages, or only some, takes slices of it.
#[derive(Clone, Debug)]
pub struct Rendered {
    array: Arc<[u8]>,
    /// Where each entry begins and ends.
    entries: Vec<(usize, usize)>,
}

impl Rendered {
    /// A committed batch, which is rendered by whoever asks first.
    pub fn of_batch(batch: &Published) -> Rendered {
        Rendered::split(batch.rendered(Slot::Clutch, |rows| array(rows.iter().map(shown))))
    }

    pub fn of(messages: impl IntoIterator<Item = Shown>) -> Rendered {
        Rendered::split(array(messages).into())
    }

    fn split(array: Arc<[u8]>) -> Rendered {
        let mut entries = Vec::new();
        let (mut begin, end) = (1, array.len().saturating_sub(1));
        while begin < end {
            let inner = &array[begin..end];
            let length = inner.windows(BETWEEN.len()).position(|at| at == BETWEEN).unwrap_or(inner.len());
            entries.push((begin, begin + length));
            begin += length + BETWEEN.len();
        }
        Rendered { array, entries }
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

fn array(messages: impl IntoIterator<Item = Shown>) -> Vec<u8> {
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
    use rookery_core::Fact;
    use rookery_core::actor::{Actor, Auth};
    use rookery_core::report::Report;

    use super::*;

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
            fact: Fact::ReportAdded(Report {
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
        let rendered = Rendered::of(rows.iter().map(shown));
        let array: Vec<Value> = serde_json::from_slice(&rendered.array()).unwrap();
        assert_eq!(array, rows.iter().map(|row| serde_json::to_value(shown(row)).unwrap()).collect::<Vec<_>>());
        for (entry, whole) in rendered.entries().iter().zip(&array) {
            let single: Value = serde_json::from_slice(&rendered.array()[entry.0..entry.1]).unwrap();
            assert_eq!(single, *whole);
        }
        assert_eq!(rendered.entries().len(), 3);
        assert_eq!(Rendered::of([]).entries(), []);
        let batch = Published::new(rows.to_vec());
        assert_eq!(Rendered::of_batch(&batch).entries(), rendered.entries());
    }
}
