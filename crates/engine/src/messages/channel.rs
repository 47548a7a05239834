//! Channels: what was said in an instance, in order.

use rookery_core::key::Table;
use rookery_core::message::{Message, Shown, Standing};
use rookery_core::{AgentId, Caller, Instance, MessageId, Timestamp};
use rookery_store::ListQuery;
use rookery_store::query::{Order, Test};

use super::{is_to, message_of, page};
use crate::engine::{Engine, EngineError};
use crate::queries::At;

/// Which entries of a channel: those after a time, and of these the last ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Exclusive.
    pub since: Option<Timestamp>,
    pub limit: Option<u32>,
}

impl Engine {
    /// Entries of a channel in order. Nothing is marked.
    pub async fn channel(&self, instance: &Instance, span: Span) -> Result<At<Vec<Message>>, EngineError> {
        let mut query = ListQuery::all(Table::Messages)
            .with("channel", Test::Is(instance.thread().as_str().into()))
            .ordered_by("at")
            .at_most(Some(page(span.limit)));
        if let Some(since) = span.since {
            query = query.with("at", Test::Above(since.0));
        }
        query.order = Order::Descending;
        let (rows, head) = self.store().list(query).await?;
        let mut entries: Vec<Message> = rows.into_iter().filter_map(message_of).collect();
        entries.reverse();
        Ok(At { value: entries, head })
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
        self.shown().saw(agent, &entries.value);
        Ok(entries)
    }

    /// Entries that an agent looks at without acknowledging them.
    pub async fn peek_channel(
        &self,
        agent: &AgentId,
        instance: &Instance,
        span: Span,
    ) -> Result<At<Vec<Message>>, EngineError> {
        let entries = self.channel(instance, span).await?;
        let own = entries.value.iter().filter(|entry| is_to(entry, agent)).map(|entry| entry.id().clone());
        self.shown().peeked(agent, own);
        self.shown().saw(agent, &entries.value);
        Ok(entries)
    }
}
