//! Messages by run, thread, task, sender and type: each is an index of the log, and a page costs what it holds.

use rookery_core::kernel::caller::Actor;
use rookery_core::model::Table;
use rookery_core::model::addressee::Address;
use rookery_core::model::message_type::MessageType;
use rookery_core::traits::LogRow;
use rookery_core::{Row, RunId, Seq, TaskId, ThreadId, envelope};
use rookery_store::query::ColumnTest;
use rookery_store::{LogQuery, RowQuery};

use super::show::{Envelopes, Shown};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::queries::At;

/// Reads the log as messages: envelopes with their texts, and traces of tasks.
#[derive(Clone, Copy, Debug)]
pub struct HistoryHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`HistoryHandle`].
    pub fn history(&self) -> HistoryHandle<'_> {
        HistoryHandle { engine: self }
    }
}

/// What a page reads of the log at most, in bytes of its facts, and what it holds in bytes of bodies: it may have fewer
/// messages than were asked for.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How many rows are looked at for one page, where only some of a kind are wanted.
const LOOKED_AT: usize = 10_000;
const READ_ON: u32 = 1_000;

/// Which messages; every given condition holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MessageFilter {
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
    pub task: Option<TaskId>,
    pub from: Option<Sender>,
    /// The type that it is shown with.
    pub message_type: Option<String>,
}

/// Who a message is shown to be from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sender {
    /// As the log names authors.
    Author(String),
    /// The router, which tells what it does.
    Orchestrator,
}

impl Sender {
    /// An agent with or without `agent:`, a person with `person:`, the router, or one that the log names by itself.
    pub fn parse(text: &str) -> Option<Sender> {
        if matches!(Actor::parse(text), Actor::System | Actor::Watcher | Actor::Anonymous) {
            return Some(Sender::Author(text.to_owned()));
        }
        match Address::parse(text)? {
            Address::Agent(id) => Some(Sender::Author(id.to_string())),
            Address::Person(name) => Some(Sender::Author(Actor::Person(name).to_string())),
            Address::Orchestrator => Some(Sender::Orchestrator),
            Address::Group(_) | Address::Server(_) => None,
        }
    }
}

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
    pub messages: Vec<Shown>,
    /// The place to go on after, if there may be more.
    pub next: Option<Seq>,
}

impl MessageFilter {
    /// Whether everything passes.
    pub fn is_open(&self) -> bool {
        *self == MessageFilter::default()
    }

    /// Whether a row passes, given the envelopes that it may follow from.
    pub fn takes(&self, row: &LogRow, envelopes: &Envelopes) -> bool {
        let run = || row.run.as_ref().map_or("run_default", RunId::as_str);
        let thread = || row.thread.as_ref().map_or("thr_default", ThreadId::as_str);
        self.run.as_ref().is_none_or(|wanted| wanted.as_str() == run())
            && self.thread.as_ref().is_none_or(|wanted| wanted.as_str() == thread())
            && self.task.as_ref().is_none_or(|wanted| row.task() == Some(wanted))
            && self.takes_shown(row, envelopes)
    }

    /// Whether what a row is shown with passes, which no index of the log tells alone.
    fn takes_shown(&self, row: &LogRow, envelopes: &Envelopes) -> bool {
        let of_the_router = envelope::is_of_the_router(&row.event);
        self.message_type.as_ref().is_none_or(|wanted| envelopes.type_of(row) == wanted)
            && self.from.as_ref().is_none_or(|wanted| match wanted {
                Sender::Author(author) => !of_the_router && row.actor.to_string() == *author,
                Sender::Orchestrator => of_the_router,
            })
    }

    /// The type, if nothing else is asked for: the envelopes of a type have an index of their own.
    fn type_alone(&self) -> Option<&str> {
        let wanted = self.message_type.as_deref().filter(|wanted| MessageType::parse(wanted).is_some())?;
        let open = MessageFilter { message_type: None, ..self.clone() };
        open.is_open().then_some(wanted)
    }

    /// The kinds of facts to look for.
    fn kinds(&self) -> Option<Vec<&'static str>> {
        let mut kinds = self.message_type.as_deref().map(envelope::kinds_shown_as);
        if self.type_alone().is_some() {
            kinds.iter_mut().for_each(|kinds| kinds.retain(|kind| !envelope::FILED_KINDS.contains(kind)));
        }
        if self.from != Some(Sender::Orchestrator) {
            return kinds;
        }
        let told = envelope::ROUTERS_KINDS.into_iter();
        Some(told.filter(|kind| kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))).collect())
    }

    fn query(&self, stretch: Stretch) -> LogQuery {
        let actor = match &self.from {
            Some(Sender::Author(author)) => Some(author.clone()),
            Some(Sender::Orchestrator) | None => None,
        };
        LogQuery {
            upto: stretch.upto,
            actor,
            kinds: self.kinds().map(|kinds| kinds.into_iter().map(str::to_owned).collect()),
            run: self.run.as_ref().map(ToString::to_string),
            thread: self.thread.as_ref().map(ToString::to_string),
            task: self.task.as_ref().map(ToString::to_string),
            bytes: PAGE_BYTES,
            ..LogQuery::after(stretch.after, stretch.limit.saturating_add(1))
        }
    }
}

impl HistoryHandle<'_> {
    /// The messages of a stretch in order. What is committed meanwhile is left out, so that all of it is true at the head
    /// of the first read.
    pub async fn messages(&self, filter: &MessageFilter, stretch: Stretch) -> Result<At<MessagePage>, EngineError> {
        let limit = stretch.limit as usize;
        let mut query = filter.query(stretch);
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
                break messages.last().map(|message: &Shown| message.seq);
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
