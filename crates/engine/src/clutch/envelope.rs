//! Rows of the log as envelopes.

use std::collections::BTreeSet;

use rookery_core::clutch::LegacyType;
use rookery_core::log::{Body, BodyBytes, LogRow, event_id};
use rookery_core::{Key, MessageId, Row, Seq, envelope};
use rookery_store::LogQuery;
use rookery_store::query::Bodies;
use serde_json::Value;

use super::show::{Envelopes, is_envelope, is_whole};
use crate::engine::{Engine, EngineError};
use crate::queries::At;

/// A message as it is shown.
#[derive(Clone, PartialEq, Debug)]
pub enum Envelope {
    /// As it was sent, byte for byte.
    Verbatim(Vec<u8>),
    Shown(Value),
}

impl Engine {
    /// The message of an id: an envelope that came in, a message of another face, or a fact by the id that it is shown with.
    pub async fn envelope(&self, id: &MessageId) -> Result<At<Option<(Seq, Envelope)>>, EngineError> {
        let (rows, head) = self.store().rows(vec![Key::Envelope(id.clone()), Key::Message(id.clone())]).await?;
        let seq = match rows.into_iter().flatten().next() {
            Some(Row::Envelope(filed)) => Some(filed.received),
            Some(Row::Message(message)) => Some(message.sent),
            _ => event_id::parse(&id.as_str().replacen("msg_", "evt_", 1)).filter(|seq| *seq <= head.head),
        };
        let row = match seq {
            Some(seq) => self.row_at(seq).await?,
            None => None,
        };
        let value = match row {
            Some(row) => Some((row.seq, self.shown_in_full(row).await?)),
            None => None,
        };
        Ok(At { value, head })
    }

    async fn row_at(&self, seq: Seq) -> Result<Option<LogRow>, EngineError> {
        let before = Seq(seq.0.saturating_sub(1));
        let query = LogQuery { upto: Some(seq), bodies: Bodies::Read, ..LogQuery::after(before, 1) };
        Ok(self.store().log(query).await?.0.into_iter().next().filter(|row| row.seq == seq))
    }

    async fn shown_in_full(&self, row: LogRow) -> Result<Envelope, EngineError> {
        let (rows, envelopes) = self.to_show(vec![row]).await?;
        let Some(row) = rows.first() else { return Ok(Envelope::Shown(Value::Null)) };
        let shown = envelopes.shown(row).message;
        match &row.body {
            Some(Body { bytes: BodyBytes::Here(bytes), .. })
                if envelope::has_own_words(&row.fact) && !is_legacy(&shown) =>
            {
                Ok(Envelope::Verbatim(bytes.clone()))
            }
            _ => Ok(Envelope::Shown(shown)),
        }
    }

    /// Rows with all that is needed to show them: the bodies of envelopes, and which of them follow from one.
    pub async fn to_show(&self, mut rows: Vec<LogRow>) -> Result<(Vec<LogRow>, Envelopes), EngineError> {
        let mut envelopes = Envelopes::among(&rows);
        let seen: BTreeSet<Seq> = rows.iter().map(|row| row.seq).collect();
        let says_otherwise = |row: &&LogRow| envelope::message_type(&row.fact) != row.fact.kind();
        let causes: BTreeSet<Seq> = rows
            .iter()
            .filter(says_otherwise)
            .filter_map(|row| row.cause)
            .filter(|cause| !seen.contains(cause))
            .collect();
        for cause in causes {
            if self.row_at(cause).await?.is_some_and(|row| is_envelope(&row)) {
                envelopes.add(cause);
            }
        }
        for row in rows.iter_mut().filter(|row| !is_whole(row)) {
            let body = match &row.body {
                Some(body) => Some(body.clone()),
                None => self.row_at(row.seq).await?.and_then(|row| row.body),
            };
            row.body = body;
            if let Some(bytes) = self.body_of(row).await?
                && let Some(body) = &mut row.body
            {
                body.bytes = BodyBytes::Here(bytes);
            }
        }
        Ok((rows, envelopes))
    }

    /// A request as it was sent; nothing if it was redacted.
    pub(super) async fn request_body(&self, request: &MessageId) -> Result<Vec<u8>, EngineError> {
        let (mut rows, _) = self.store().rows(vec![Key::Envelope(request.clone())]).await?;
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
            Some(Body { bytes: BodyBytes::Artifact, sha256 }) => Some(self.store().artifact(sha256.clone()).await?),
            Some(Body { bytes: BodyBytes::Gone, .. }) | None => None,
        })
    }
}

/// Whether it was translated.
fn is_legacy(shown: &Value) -> bool {
    let word = shown["meta"]["legacy_type"].as_str();
    word.is_some_and(|word| LegacyType::parse(word).is_some())
}
