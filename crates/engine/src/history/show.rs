//! Reads rows of the log with their texts and shows them as messages.

use std::collections::BTreeSet;

use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{Seq, envelope};
use rookery_store::publish::Slot;
use rookery_store::query::Bodies;
use rookery_store::{LogQuery, Published};

use super::HistoryHandle;
use super::envelope::without_words;
use crate::error::EngineError;
use crate::message_view::{Envelopes, PositionedMessage, RenderedBatch, array};

/// How many bodies are read at once.
const BODIES: usize = 50;

impl HistoryHandle<'_> {
    /// The envelopes that these rows may follow from, wherever they are: what one node committed together, another may be
    /// handed in pieces.
    pub async fn source_envelopes(&self, rows: &[LogRow]) -> Result<Envelopes, EngineError> {
        let mut envelopes = Envelopes::among(rows);
        let elsewhere = causes_elsewhere(rows);
        if !elsewhere.is_empty() {
            let causes = self.engine.query().log(LogQuery::at(elsewhere)).await?.value;
            envelopes.extend(Envelopes::among(&causes));
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
    ) -> Result<Vec<PositionedMessage>, EngineError> {
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
    pub(crate) async fn show_full(
        &self,
        row: &LogRow,
        envelopes: &Envelopes,
    ) -> Result<PositionedMessage, EngineError> {
        let mut read = self.read_bodies(std::slice::from_ref(row)).await?.pop().unwrap_or_else(|| row.clone());
        self.read_texts(&mut read).await?;
        Ok(envelopes.shown(&read))
    }

    /// A committed batch, rendered by whoever asks first.
    pub async fn render(&self, batch: &Published) -> Result<RenderedBatch, EngineError> {
        let rendering = async {
            let (envelopes, mut all) = (self.source_envelopes(batch.rows()).await?, usize::MAX);
            Ok::<_, EngineError>(array(self.show_rows(batch.rows(), &envelopes, &mut all).await?))
        };
        Ok(RenderedBatch::split(batch.rendered_by(Slot::Clutch, rendering).await?))
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
    let matters = |row: &&LogRow| envelope::message_type(&row.event) != envelope::own_type(&row.event);
    let causes = rows.iter().filter(matters).filter_map(|row| row.cause).filter(|cause| !is_here(cause));
    causes.collect::<BTreeSet<Seq>>().into_iter().collect()
}

fn length(row: &LogRow) -> usize {
    match &row.body {
        Some(Body { bytes: BodyBytes::Here(bytes), .. }) => bytes.len(),
        _ => 0,
    }
}
