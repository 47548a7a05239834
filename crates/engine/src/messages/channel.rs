//! Channels: what was said in an instance, in order.

use rookery_core::messages::Shown;
use rookery_core::model::Table;
use rookery_core::model::message::{Message, Standing, Thread};
use rookery_core::{AgentId, Caller, Instance, Key, MessageId, Row, ThreadId, Timestamp};
use rookery_store::RowQuery;
use rookery_store::query::{ColumnTest, Order};

use super::{LARGEST_PAGE, is_to, message_of, page};
use crate::error::EngineError;
use crate::messages::InboxHandle;
use crate::query::At;

/// Which entries of a channel: those after a time and before another, and of these the last ones. No two entries of a
/// channel have the same time, so whoever goes back page by page misses none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Exclusive.
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub before: Option<Timestamp>,
    pub limit: Option<u32>,
}

/// The entries of a conversation after a time and until another, in order.
pub(crate) fn entries_query(thread: &ThreadId, after: Option<Timestamp>, until: Option<Timestamp>) -> RowQuery {
    let channel = ColumnTest::Is(thread.as_str().into());
    let mut query = RowQuery::all(Table::Messages).with("channel", channel).ordered_by("at");
    if let Some(after) = after {
        query = query.with("at", ColumnTest::Above(after.0));
    }
    if let Some(until) = until {
        query = query.with("at", ColumnTest::AtMost(until.0));
    }
    query
}

impl InboxHandle<'_> {
    /// The conversations in which something was said, as many as a page has.
    pub async fn threads(&self) -> Result<At<Vec<Thread>>, EngineError> {
        let (rows, head) = self.engine.store().list(RowQuery::all(Table::Threads).at_most(Some(LARGEST_PAGE))).await?;
        let threads = rows.into_iter().filter_map(|row| if let Row::Thread(row) = row { Some(row) } else { None });
        Ok(At { value: threads.collect(), head })
    }

    /// Entries of a channel in order. Nothing is marked.
    pub async fn channel(&self, instance: &Instance, span: Span) -> Result<At<Vec<Message>>, EngineError> {
        self.newest_entries(instance, span, page(span.limit)).await
    }

    /// How many entries of a span a page of so many has left out, counted as far as the largest page reaches and by one
    /// more. Without a beginning, it is only told whether there are any.
    pub async fn count_omitted(&self, instance: &Instance, span: Span, returned: usize) -> Result<usize, EngineError> {
        let most = page(span.limit);
        if returned < most as usize {
            return Ok(0);
        }
        let counted = if span.since.is_some() { LARGEST_PAGE } else { most };
        let all = self.newest_entries(instance, span, counted + 1).await?;
        Ok(all.value.len().saturating_sub(returned))
    }

    async fn newest_entries(
        &self,
        instance: &Instance,
        Span { since, before, .. }: Span,
        most: u32,
    ) -> Result<At<Vec<Message>>, EngineError> {
        let upto = before.map(|before| Timestamp(before.0.saturating_sub(1)));
        let (thread, after, until) = self.shown_entries(instance).await?;
        // A reader of the past sees the channel as it was, before its entries were archived.
        let after = after.filter(|after| upto.is_none_or(|upto| upto > *after));
        let mut query =
            entries_query(&thread, after.max(since), upto.into_iter().chain(until).min()).at_most(Some(most));
        query.order = Order::Descending;
        let (rows, head) = self.engine.store().list(query).await?;
        let mut entries: Vec<Message> = rows.into_iter().filter_map(message_of).collect();
        entries.reverse();
        Ok(At { value: entries, head })
    }

    /// The conversation that a channel shows, after and until which times.
    pub(crate) async fn shown_entries(
        &self,
        instance: &Instance,
    ) -> Result<(ThreadId, Option<Timestamp>, Option<Timestamp>), EngineError> {
        let thread = instance.thread();
        let (mut rows, _) = self.engine.store().rows(vec![Key::Thread(thread.clone())]).await?;
        Ok(match rows.pop().flatten() {
            Some(Row::Thread(known)) => known.entries(),
            _ => (thread, None, None),
        })
    }

    /// Entries that an agent reads, which acknowledges exactly those of them that are for it.
    pub async fn read_channel(
        &self,
        caller: &Caller,
        agent: &AgentId,
        instance: &Instance,
        span: Span,
    ) -> Result<At<Vec<Message>>, EngineError> {
        let entries = self.channel(instance, span).await?;
        let own: Vec<MessageId> =
            entries.value.iter().filter(|entry| is_to(entry, agent)).map(|entry| entry.id().clone()).collect();
        let standings = self.standings(agent, &own).await?;
        let open: Vec<MessageId> = own
            .into_iter()
            .filter(|id| standings.get(id).is_some_and(|standing| *standing != Standing::Acked))
            .collect();
        self.acknowledge(caller, agent, open, Shown::Now).await?;
        self.engine.shown().saw(agent, &entries.value);
        Ok(entries)
    }

    /// Entries that an agent looks at without acknowledging them.
    pub async fn peek_channel(
        &self,
        agent: &AgentId,
        instance: &Instance,
        span: Span,
    ) -> Result<At<Vec<Message>>, EngineError> {
        let entries = self.preview_channel(agent, instance, span).await?;
        let own = entries.value.iter().filter(|entry| is_to(entry, agent)).map(|entry| entry.id().clone());
        self.engine.shown().peeked(agent, own);
        Ok(entries)
    }

    /// Entries for whoever tells the agent. What of them the agent is told is not known by this, so that no acknowledgement
    /// covers them.
    pub async fn preview_channel(
        &self,
        agent: &AgentId,
        instance: &Instance,
        span: Span,
    ) -> Result<At<Vec<Message>>, EngineError> {
        let entries = self.channel(instance, span).await?;
        self.engine.shown().saw(agent, &entries.value);
        Ok(entries)
    }
}
