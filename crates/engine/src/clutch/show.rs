//! Rows of the log as messages with their place. This is the one place where it is decided how a row is shown.

use rookery_core::kernel::time;
use rookery_core::{EventRef, Seq, Timestamp, envelope};
use std::collections::BTreeSet;
use std::sync::Arc;

use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_store::publish::Slot;
use rookery_store::query::Bodies;
use rookery_store::{LogQuery, Published};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::envelope::without_words;
use crate::clutch::HistoryHandle;
use crate::error::EngineError;

/// How many bodies are read at once.
const BODIES: usize = 50;

/// A message and its place in the log.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shown {
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
    fn among(rows: &[LogRow]) -> Envelopes {
        Envelopes(rows.iter().filter(|row| is_envelope(row)).map(|row| row.seq).collect())
    }

    /// What is told to somebody is a message of its own, whatever it follows from.
    fn led_to(&self, row: &LogRow) -> bool {
        row.event.tells().is_empty() && row.cause.is_some_and(|cause| self.0.contains(&cause))
    }

    /// The type that a row is shown with.
    pub fn type_of<'r>(&self, row: &'r LogRow) -> &'r str {
        if self.led_to(row) { row.event.kind() } else { envelope::message_type(&row.event) }
    }

    /// A row as a message. Its body, if it has words of its own, is at hand.
    pub fn shown(&self, row: &LogRow) -> Shown {
        let message = if self.led_to(row) { envelope::following(row) } else { envelope::of(row) };
        Shown { seq: row.seq, message, at: row.at }
    }
}

fn is_envelope(row: &LogRow) -> bool {
    matches!(row.event.typed(), EventRef::EnvelopeReceived(_))
}

impl HistoryHandle<'_> {
    /// The envelopes that these rows may follow from, wherever they are: what one node committed together, another may be
    /// handed in pieces.
    pub async fn source_envelopes(&self, rows: &[LogRow]) -> Result<Envelopes, EngineError> {
        let mut envelopes = Envelopes::among(rows);
        let elsewhere = causes_elsewhere(rows);
        if !elsewhere.is_empty() {
            let causes = self.engine.query().log(LogQuery::at(elsewhere)).await?.value;
            envelopes.0.extend(Envelopes::among(&causes).0);
        }
        Ok(envelopes)
    }

    /// Rows as messages, in order: all up to the one whose body uses up the bytes that are left. One whose words are damaged
    /// or lost is shown without them, and holds up no other.
    pub async fn show_rows(
        &self,
        rows: &[LogRow],
        envelopes: &Envelopes,
        left: &mut usize,
    ) -> Result<Vec<Shown>, EngineError> {
        let mut shown = Vec::with_capacity(rows.len());
        for rows in rows.chunks(BODIES) {
            let mut bodies = self.read_bodies(rows).await?.into_iter().peekable();
            for row in rows {
                if *left == 0 {
                    return Ok(shown);
                }
                let mut read = bodies.next_if(|read| read.seq == row.seq).unwrap_or_else(|| row.clone());
                let unreadable = match self.read_texts(&mut read).await {
                    Err(EngineError::Artifact(error)) if error.is_of_one() => Some(error),
                    outcome => outcome.map(|()| None)?,
                };
                *left = left.saturating_sub(length(&read));
                let mut one = envelopes.shown(&read);
                if let Some(error) = unreadable {
                    tracing::warn!(%error, seq = %read.seq, "the body of a message cannot be read; its header is shown");
                    one.message = without_words(one.message, &error);
                }
                shown.push(one);
            }
        }
        Ok(shown)
    }

    /// A row as a message with all of its words.
    pub(crate) async fn show_full(&self, row: &LogRow, envelopes: &Envelopes) -> Result<Shown, EngineError> {
        let mut read = self.read_bodies(std::slice::from_ref(row)).await?.pop().unwrap_or_else(|| row.clone());
        self.read_texts(&mut read).await?;
        Ok(envelopes.shown(&read))
    }

    /// A committed batch, rendered by whoever asks first.
    pub async fn render(&self, batch: &Published) -> Result<Rendered, EngineError> {
        let rendering = async {
            let (envelopes, mut all) = (self.source_envelopes(batch.rows()).await?, usize::MAX);
            Ok::<_, EngineError>(array(self.show_rows(batch.rows(), &envelopes, &mut all).await?))
        };
        Ok(Rendered::split(batch.rendered_by(Slot::Clutch, rendering).await?))
    }

    /// Those that have words of their own and came without them, read again.
    async fn read_bodies(&self, rows: &[LogRow]) -> Result<Vec<LogRow>, EngineError> {
        let lacking = rows.iter().filter(|row| row.body.is_none() && envelope::has_own_words(&row.event));
        let places: Vec<Seq> = lacking.map(|row| row.seq).collect();
        if places.is_empty() {
            return Ok(vec![]);
        }
        Ok(self.engine.query().log(LogQuery { bodies: Bodies::Read, ..LogQuery::at(places) }).await?.value)
    }
}

/// The causes that are not among the rows, which are in the order of the log. They only matter for facts that the protocol has a
/// type of its own for.
fn causes_elsewhere(rows: &[LogRow]) -> Vec<Seq> {
    let is_here = |cause: &Seq| rows.binary_search_by_key(cause, |row| row.seq).is_ok();
    let matters = |row: &&LogRow| envelope::message_type(&row.event) != row.event.kind();
    let causes = rows.iter().filter(matters).filter_map(|row| row.cause).filter(|cause| !is_here(cause));
    causes.collect::<BTreeSet<Seq>>().into_iter().collect()
}

fn length(row: &LogRow) -> usize {
    match &row.body {
        Some(Body { bytes: BodyBytes::Here(bytes), .. }) => bytes.len(),
        _ => 0,
    }
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
        let rendered = Rendered::of(rows.iter().map(|row| Envelopes::default().shown(row)));
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
        assert_eq!(Rendered::of([]).entries(), []);
    }
}
