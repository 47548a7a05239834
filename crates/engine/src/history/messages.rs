//! Messages by run, thread, task, sender and type: each is an index of the log, and a page costs what it holds.

use rookery_core::model::Table;
use rookery_core::traits::LogRow;
use rookery_core::{Row, Seq};
use rookery_store::query::ColumnTest;
use rookery_store::{LogQuery, RowQuery};

use super::HistoryHandle;
use crate::error::EngineError;
use crate::message_view::{MessageFilter, PositionedMessage, Sender};
use crate::query::At;

/// What a page reads of the log at most, in bytes of its facts, and what it holds in bytes of bodies: it may have fewer
/// messages than were asked for.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How many rows are looked at for one page, where only some of a kind are wanted.
const LOOKED_AT: usize = 10_000;
const READ_ON: u32 = 1_000;

/// What lies between two places of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub after: Seq,
    /// The last place, if it is not the head.
    pub upto: Option<Seq>,
    /// How many messages at most.
    pub limit: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct MessagePage {
    pub messages: Vec<PositionedMessage>,
    /// The place to go on after, if there may be more.
    pub next: Option<Seq>,
}

impl HistoryHandle<'_> {
    /// The messages of a stretch in order. What is committed meanwhile is left out, so that all of it is true at the head
    /// of the first read.
    pub async fn messages(&self, filter: &MessageFilter, stretch: Stretch) -> Result<At<MessagePage>, EngineError> {
        let limit = stretch.limit as usize;
        let mut query = log_query(filter, stretch);
        let mut page = self.rows_of(filter, &query).await?;
        let head = page.head.clone();
        query.upto = Some(stretch.upto.map_or(head.head, |upto| upto.min(head.head)));
        let (mut messages, mut looked_at, mut bytes_left) = (Vec::new(), 0, PAGE_BYTES);
        let next = loop {
            let rows = page.value;
            looked_at += rows.len();
            let envelopes = self.source_envelopes(&rows).await?;
            let lacking = (limit + 1).saturating_sub(messages.len());
            let wanted: Vec<LogRow> =
                rows.iter().filter(|row| filter.takes_shown(row, &envelopes)).take(lacking).cloned().collect();
            let shown = self.show_rows(&wanted, &envelopes, &mut bytes_left).await?;
            let is_full = shown.len() < wanted.len();
            messages.extend(shown);
            if messages.len() > limit || is_full {
                messages.truncate(limit);
                break messages.last().map(|message: &PositionedMessage| message.seq);
            }
            let Some(last) = rows.last().map(|row| row.seq) else { break None };
            query.after = Some(last);
            if rows.len() < query.limit as usize {
                // It ended there, or with as many bytes as a page may have.
                let more = self.rows_of(filter, &LogQuery { limit: 1, ..query }).await?;
                break (!more.value.is_empty()).then_some(last);
            }
            if looked_at >= LOOKED_AT {
                break Some(last);
            }
            query.limit = READ_ON;
            page = self.rows_of(filter, &query).await?;
        };
        Ok(At { value: MessagePage { messages, next }, head })
    }

    /// The rows of a page, whole up to the last of them: facts by their kind, and the envelopes of a type by theirs.
    async fn rows_of(&self, filter: &MessageFilter, query: &LogQuery) -> Result<At<Vec<LogRow>>, EngineError> {
        let Some(wanted) = filter.type_alone() else { return self.engine.query().log(query.clone()).await };
        let envelopes = RowQuery::all(Table::Envelopes)
            .with("type", ColumnTest::Is(wanted.into()))
            .with("received", ColumnTest::Above(stored(query.after.unwrap_or(Seq::ZERO))))
            .with("received", ColumnTest::AtMost(query.upto.map_or(i64::MAX, stored)))
            .ordered_by("received")
            .at_most(Some(query.limit));
        let (found, head) = self.engine.store().list(envelopes).await?;
        let filed = |row| if let Row::Envelope(filed) = row { Some(filed.received) } else { None };
        let places: Vec<Seq> = found.into_iter().filter_map(filed).collect();
        // Of one position: what was committed since the first read is left for the next page.
        let query = LogQuery { upto: Some(query.upto.map_or(head.head, |upto| upto.min(head.head))), ..query.clone() };
        let facts = self.engine.query().log(query.clone()).await?.value;
        let bound = self.page_end(&facts, &query).await?;
        let mut rows = self.engine.query().log(LogQuery::at(places)).await?.value;
        rows.extend(facts);
        rows.sort_by_key(|row| row.seq);
        rows.retain(|row| bound.is_none_or(|bound| row.seq <= bound));
        rows.truncate(query.limit as usize);
        Ok(At { value: rows, head })
    }

    /// Where facts end that were cut short by their bytes.
    async fn page_end(&self, facts: &[LogRow], query: &LogQuery) -> Result<Option<Seq>, EngineError> {
        let Some(last) = facts.last().map(|row| row.seq).filter(|_| facts.len() < query.limit as usize) else {
            return Ok(None);
        };
        let more = self.engine.query().log(LogQuery { after: Some(last), limit: 1, ..query.clone() }).await?;
        Ok((!more.value.is_empty()).then_some(last))
    }
}

fn stored(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

/// The rows of a stretch that may pass.
fn log_query(filter: &MessageFilter, stretch: Stretch) -> LogQuery {
    let actor = match &filter.from {
        Some(Sender::Author(author)) => Some(author.clone()),
        Some(Sender::Orchestrator) | None => None,
    };
    LogQuery {
        upto: stretch.upto,
        actor,
        kinds: filter.kinds().map(|kinds| kinds.into_iter().map(str::to_owned).collect()),
        run: filter.run.as_ref().map(ToString::to_string),
        thread: filter.thread.as_ref().map(ToString::to_string),
        task: filter.task.as_ref().map(ToString::to_string),
        bytes: PAGE_BYTES,
        ..LogQuery::after(stretch.after, stretch.limit.saturating_add(1))
    }
}
