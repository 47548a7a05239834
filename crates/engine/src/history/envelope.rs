//! Rows of the log as envelopes.

use rookery_core::clutch::LegacyType;
use rookery_core::kernel::event_id;
use rookery_core::model::message::Message;
use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{Key, MessageId, Row, Seq, Timestamp, envelope};
use rookery_store::LogQuery;
use rookery_store::artifact::ArtifactError;
use rookery_store::query::Bodies;
use serde_json::{Value, json};

use crate::error::EngineError;
use crate::history::HistoryHandle;
use crate::query::{At, QueryHandle};

/// A message as it is shown.
#[derive(Clone, PartialEq, Debug)]
pub enum Envelope {
    /// As it was sent, byte for byte.
    Verbatim(Vec<u8>),
    Shown(Value),
}

/// A message where it stands in the log.
#[derive(Clone, PartialEq, Debug)]
pub struct Located {
    pub seq: Seq,
    /// When the daemon received it.
    pub at: Timestamp,
    pub envelope: Envelope,
}

impl QueryHandle<'_> {
    /// The message of an id: an envelope that came in, a message of another face, or a fact by the id that it is shown with.
    pub async fn envelope(&self, id: &MessageId) -> Result<At<Option<Located>>, EngineError> {
        let (rows, head) = self.engine.store().rows(vec![Key::Envelope(id.clone()), Key::Message(id.clone())]).await?;
        let seq = match rows.into_iter().flatten().next() {
            Some(Row::Envelope(filed)) => Some(filed.received),
            Some(Row::Message(message)) => match message.source() {
                Some(_) => return Ok(At { value: self.engine.history().notification(&message).await?, head }),
                None => Some(message.sent),
            },
            _ => event_id::parse(id.as_str()).filter(|seq| *seq <= head.head),
        };
        let row = match seq {
            Some(seq) => self.engine.history().row_at(seq).await?,
            None => None,
        };
        let value = match row {
            Some(row) => {
                Some(Located { seq: row.seq, at: row.at, envelope: self.engine.history().show_envelope(row).await? })
            }
            None => None,
        };
        Ok(At { value, head })
    }
}

impl HistoryHandle<'_> {
    /// What the log knows of a message whose body cannot be read.
    pub(crate) async fn header_of(&self, id: &MessageId, why: &ArtifactError) -> Result<Option<Located>, EngineError> {
        let (mut rows, _) = self.engine.store().rows(vec![Key::Envelope(id.clone())]).await?;
        let Some(Row::Envelope(filed)) = rows.pop().flatten() else { return Ok(None) };
        let Some(row) = self.row_at(filed.received).await? else { return Ok(None) };
        let header = without_words(envelope::of(&row), why);
        Ok(Some(Located { seq: row.seq, at: row.at, envelope: Envelope::Shown(header) }))
    }

    /// A notification as it is delivered; nothing if its event cannot be read.
    async fn notification(&self, message: &Message) -> Result<Option<Located>, EngineError> {
        let Some(source) = message.source() else { return Ok(None) };
        let event = self.row_at(source).await?;
        Ok(event.map(|event| Located {
            seq: message.sent,
            at: message.at,
            envelope: Envelope::Shown(envelope::of_notification(message, &event)),
        }))
    }

    async fn row_at(&self, seq: Seq) -> Result<Option<LogRow>, EngineError> {
        let before = Seq(seq.0.saturating_sub(1));
        let query = LogQuery { upto: Some(seq), bodies: Bodies::Read, ..LogQuery::after(before, 1) };
        Ok(self.engine.store().log(query).await?.0.into_iter().next().filter(|row| row.seq == seq))
    }

    async fn show_envelope(&self, mut row: LogRow) -> Result<Envelope, EngineError> {
        let envelopes = self.source_envelopes(std::slice::from_ref(&row)).await?;
        self.read_texts(&mut row).await?;
        let shown = envelopes.shown(&row).message;
        match row.body {
            Some(Body { bytes: BodyBytes::Here(bytes), .. })
                if envelope::has_own_words(&row.event) && !is_legacy(&shown) =>
            {
                Ok(Envelope::Verbatim(bytes))
            }
            _ => Ok(Envelope::Shown(shown)),
        }
    }

    /// Puts the words of a row at hand that was read with its body, if it has words of its own and they are kept elsewhere.
    pub(super) async fn read_texts(&self, row: &mut LogRow) -> Result<(), EngineError> {
        if envelope::has_own_words(&row.event)
            && let Some(body) = &mut row.body
            && matches!(body.bytes, BodyBytes::Artifact)
        {
            body.bytes = BodyBytes::Here(self.engine.store().artifact(body.sha256.clone()).await?);
        }
        Ok(())
    }

    /// A request as it was sent; nothing if it was redacted.
    pub(crate) async fn request_body(&self, request: &MessageId) -> Result<Vec<u8>, EngineError> {
        let (mut rows, _) = self.engine.store().rows(vec![Key::Envelope(request.clone())]).await?;
        let Some(Row::Envelope(filed)) = rows.pop().flatten() else { return Ok(vec![]) };
        match self.row_at(filed.received).await? {
            Some(row) => Ok(self.body_of(&row).await?.unwrap_or_default()),
            None => Ok(vec![]),
        }
    }

    /// The body of a row, wherever it is kept.
    async fn body_of(&self, row: &LogRow) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(match &row.body {
            Some(Body { bytes: BodyBytes::Here(bytes), .. }) => Some(bytes.clone()),
            Some(Body { bytes: BodyBytes::Artifact, sha256 }) => {
                Some(self.engine.store().artifact(sha256.clone()).await?)
            }
            Some(Body { bytes: BodyBytes::Gone, .. }) | None => None,
        })
    }
}

/// What the log knows of a message, which says that this is not all of it.
pub(super) fn without_words(mut header: Value, why: &ArtifactError) -> Value {
    header["meta"]["body_unreadable"] = json!(format!("{why}; this is what the log knows of the message"));
    header
}

/// Whether it was translated.
fn is_legacy(shown: &Value) -> bool {
    let word = shown["meta"]["legacy_type"].as_str();
    word.is_some_and(|word| LegacyType::parse(word).is_some())
}
