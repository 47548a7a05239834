//! Everything that waits for an agent, as envelopes, the oldest first: what it pulls, what is streamed to it, and what is
//! posted to its endpoint.

use rookery_core::kernel::limit;
use rookery_core::messages::Shown;
use rookery_core::model::agent::Agent;
use rookery_core::model::message::{Delivery, Message};
use rookery_core::model::{DeliveryId, ReadItem, Table, Undecided, View};
use rookery_core::{AgentId, Caller, Code, Key, MessageId, Rejection, Row, Seq, TaskId, Timestamp, envelope};
use rookery_store::query::ColumnTest;
use rookery_store::{RowQuery, SubmitError};
use serde_json::Value;

use super::place::InboxDelivery;
use super::{READ, delivery_of, page, stored};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::history;
use crate::messages::InboxHandle;
use crate::projections::arrival::Arrival;
use crate::subscribe::{SubscribeError, Subscription};

/// How much one page holds: it may have fewer messages than were asked for.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// What of an inbox is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pull {
    /// Only what was queued for the agent after this place.
    pub after: Seq,
    pub most: Option<u32>,
}

/// What waits for an agent, in the order in which it was queued.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pulled {
    pub messages: Vec<Parcel>,
    /// The place to go on after: nothing if there was nothing.
    pub next: Option<Seq>,
}

/// A message that waits for an agent, as an envelope.
#[derive(Clone, PartialEq, Debug)]
pub struct Parcel {
    pub id: MessageId,
    /// The place of the envelope in the log.
    pub seq: Seq,
    /// When the daemon received it.
    pub at: Timestamp,
    pub message: Value,
}

impl Parcel {
    fn of(id: &MessageId, found: history::Located) -> Parcel {
        Parcel { id: id.clone(), seq: found.seq, at: found.at, message: worded(found.envelope) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
}

/// Waits for what comes for one agent.
#[derive(Debug)]
pub struct Mailbox {
    engine: Engine,
    agent: AgentId,
    log: Subscription,
}

impl Mailbox {
    /// What waits now, or as soon as there is something. Safe to drop while it waits.
    pub async fn next(&mut self, pull: Pull) -> Result<Pulled, PullError> {
        loop {
            let pulled = self.engine.inbox().pull(&self.agent, pull).await?;
            if !pulled.messages.is_empty() {
                return Ok(pulled);
            }
            self.arrival().await?;
        }
    }

    async fn arrival(&mut self) -> Result<(), SubscribeError> {
        loop {
            let chunk = self.log.next().await?;
            if chunk.rows().iter().any(|row| Arrival::of(&row.event).concerns(&self.agent)) {
                return Ok(());
            }
        }
    }
}

/// What is to be delivered, without its words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waits {
    pub(crate) message: MessageId,
    pub(crate) sent: Seq,
    pub(crate) task: Option<TaskId>,
    pub(crate) dead: bool,
}

impl InboxHandle<'_> {
    /// Begins to wait for what comes for an agent.
    pub async fn stream(&self, agent: &AgentId) -> Result<Mailbox, SubscribeError> {
        // Listening begins before the first look, so that nothing falls in between.
        Ok(Mailbox { engine: self.engine.clone(), agent: agent.clone(), log: self.engine.subscribe(None).await? })
    }

    /// What waits for an agent, which counts as notified by this.
    pub async fn pull(&self, agent: &AgentId, pull: Pull) -> Result<Pulled, EngineError> {
        let waiting = self.list_waiting(agent, pull.after, page(pull.most)).await?;
        let mut pulled = Pulled::default();
        let mut bytes = 0;
        for waits in waiting {
            let Some(parcel) = self.parcel_or_header(&waits.message).await? else { continue };
            bytes += parcel.message.to_string().len();
            if bytes > PAGE_BYTES && !pulled.messages.is_empty() {
                break;
            }
            self.engine.attempt_log().notified(agent, &parcel.id, self.engine.clock().now());
            pulled.messages.push(parcel);
            pulled.next = Some(waits.sent);
        }
        Ok(pulled)
    }

    /// A message as it is delivered. What became of the body of one holds up no other: it is shown without.
    pub(super) async fn parcel_or_header(&self, id: &MessageId) -> Result<Option<Parcel>, EngineError> {
        match self.parcel(id).await {
            Err(EngineError::Artifact(error)) if error.is_of_one() => {
                tracing::warn!(%error, message = %id, "the body of a message cannot be read; its header is shown");
                let header = self.engine.history().header_of(id, &error).await?;
                Ok(header.map(|header| Parcel::of(id, header)))
            }
            parcel => parcel,
        }
    }

    /// A message as it is delivered; nothing if there is none of that id.
    pub(crate) async fn parcel(&self, id: &MessageId) -> Result<Option<Parcel>, EngineError> {
        let (rows, _) = self.engine.store().rows(vec![Key::Envelope(id.clone()), Key::Message(id.clone())]).await?;
        match <[Option<Row>; 2]>::try_from(rows) {
            Ok([None, Some(Row::Message(message))]) if message.source().is_none() => Ok(Some(parcel_of(&message))),
            // An envelope, a notification, or an event by the id that it is shown with.
            _ => {
                let found = self.engine.query().envelope(id).await?.value;
                Ok(found.map(|found| Parcel::of(id, found)))
            }
        }
    }

    /// The same in bytes: those that were sent, if it came as an envelope.
    pub(crate) async fn parcel_bytes(&self, id: &MessageId) -> Result<Option<Vec<u8>>, EngineError> {
        let found = self.engine.query().envelope(id).await?.value;
        if let Some(history::Envelope::Verbatim(bytes)) = found.map(|found| found.envelope) {
            return Ok(Some(bytes));
        }
        Ok(self.parcel(id).await?.map(|parcel| parcel.message.to_string().into_bytes()))
    }

    /// The oldest that an agent has not acknowledged after a place, in order.
    pub(crate) async fn list_waiting(&self, agent: &AgentId, after: Seq, most: u32) -> Result<Vec<Waits>, EngineError> {
        let known = self.engine.query().agent(agent).await?.value;
        let mut waiting = self.list_queued(agent, known.as_ref(), after, most).await?;
        let broadcasts = self.broadcasts(known.as_ref()).await?.into_iter().filter(|place| place.sent > after);
        waiting.extend(broadcasts.map(|place| Waits {
            message: place.message,
            sent: place.sent,
            task: None,
            dead: place.dead,
        }));
        waiting.sort_by_key(|waits| waits.sent);
        waiting.truncate(most as usize);
        Ok(waiting)
    }

    async fn list_queued(
        &self,
        agent: &AgentId,
        known: Option<&Agent>,
        after: Seq,
        most: u32,
    ) -> Result<Vec<Waits>, EngineError> {
        let now = self.engine.clock().now();
        let (mut found, mut after) = (Vec::new(), stored(after));
        loop {
            let query = RowQuery::all(Table::Deliveries)
                .with("pending", ColumnTest::Is(agent.as_str().into()))
                .with("sent", ColumnTest::Above(after))
                .ordered_by("sent")
                .at_most(Some(READ));
            let (rows, _) = self.engine.store().list(query).await?;
            let full = rows.len() >= READ as usize;
            let deliveries: Vec<Delivery> = rows.into_iter().filter_map(delivery_of).collect();
            let last = deliveries.last().map(|delivery| delivery.sent);
            let counting = deliveries.into_iter().filter_map(|delivery| {
                let (task, dead) = (delivery.task.clone(), delivery.is_dead());
                let place = InboxDelivery::of(delivery, known, now)?;
                Some(Waits { message: place.message, sent: place.sent, task, dead })
            });
            found.extend(counting);
            match last {
                Some(last) if full && found.len() < most as usize => after = stored(last),
                _ => return Ok(found),
            }
        }
    }

    /// Acknowledges messages by their ids, which nobody knows who was not shown them. Either all of them or none.
    pub async fn ack_by_id(
        &self,
        caller: &Caller,
        agent: &AgentId,
        ids: Vec<MessageId>,
    ) -> Result<Result<(), Vec<MessageId>>, EngineError> {
        let unknown = self.not_addressed_to(agent, &ids).await?;
        if !unknown.is_empty() {
            return Ok(Err(unknown));
        }
        self.acknowledge(caller, agent, ids, Shown::Now).await.map(Ok)
    }

    /// Those of some messages that are not for an agent.
    async fn not_addressed_to(&self, agent: &AgentId, ids: &[MessageId]) -> Result<Vec<MessageId>, EngineError> {
        limit::list("ids", ids)?;
        let delivery = |id: &MessageId| Key::Delivery(DeliveryId { message: id.clone(), agent: agent.clone() });
        let keys = ids.iter().flat_map(|id| [delivery(id), Key::Message(id.clone())]).collect();
        let (rows, _) = self.engine.store().rows(keys).await?;
        let unknown = ids.iter().zip(rows.chunks(2)).filter(|(_, rows)| match rows {
            [Some(_), _] => false,
            [None, Some(Row::Message(message))] => !message.is_broadcast_for(agent),
            _ => true,
        });
        Ok(unknown.map(|(id, _)| id.clone()).collect())
    }

    /// Whether a caller may look into an agent's inbox: the agent itself, the lead and people; and who says no name of its own.
    /// One that left has none.
    pub async fn ensure_may_open(&self, caller: &Caller, agent: &AgentId) -> Result<(), EngineError> {
        if self.engine.query().agent(agent).await?.value.is_none_or(|known| known.has_left()) {
            return Err(Rejection::new(Code::AgentNotFound, format!("there is no agent '{agent}', or it has left"))
                .hint("register it first, by its card")
                .into());
        }
        self.apply_rule(|view| view.ensure_may_act_for(caller, agent)).await.map_err(|error| match error {
            EngineError::Submit(SubmitError::Refused(rejection)) if rejection.code == Code::Forbidden => {
                Rejection::new(Code::Forbidden, format!("'{}' may not open the inbox of '{agent}'", caller.actor))
                    .hint("every agent has its own inbox; the lead and people may look into others")
                    .into()
            }
            other => other,
        })
    }

    /// Ensures that a caller may read as the agent that its call names, by the rule that commands are decided by.
    pub async fn ensure_may_act_for(&self, caller: &Caller) -> Result<(), EngineError> {
        match &caller.acting_for {
            Some(agent) => self.apply_rule(|view| view.ensure_may_act_for(caller, agent)).await,
            None => Ok(()),
        }
    }

    /// Applies a rule of the core to the rows that it asks for, as the store has them now.
    async fn apply_rule(&self, rule: impl Fn(&View) -> Result<(), Undecided>) -> Result<(), EngineError> {
        let mut view = View::default();
        loop {
            let keys: Vec<Key> = match rule(&view) {
                Ok(()) => return Ok(()),
                Err(Undecided::Rejected(rejection)) => return Err(rejection.into()),
                Err(Undecided::Missing(read_set)) => read_set.into_iter().filter_map(row_key).collect(),
            };
            if keys.is_empty() {
                return Err(Rejection::new(Code::Internal, "a rule on reading needs more than single rows").into());
            }
            let (rows, _) = self.engine.store().rows(keys.clone()).await?;
            keys.into_iter().zip(rows).for_each(|(key, row)| view.load(key, row));
        }
    }
}

fn row_key(item: ReadItem) -> Option<Key> {
    match item {
        ReadItem::Row(key) => Some(key),
        ReadItem::Rows(_) | ReadItem::Presence(_) => None,
    }
}

fn parcel_of(message: &Message) -> Parcel {
    Parcel { id: message.id().clone(), seq: message.sent, at: message.at, message: envelope::of_message(message) }
}

fn worded(shown: history::Envelope) -> Value {
    match shown {
        history::Envelope::Verbatim(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        history::Envelope::Shown(message) => message,
    }
}
