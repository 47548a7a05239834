//! Where everybody stands with a message.

use std::collections::BTreeMap;

use rookery_core::model::Table;
use rookery_core::model::agent::Agent;
use rookery_core::model::message::{AddressedAs, Delivery, Fate, Message, Recipients, Standing};
use rookery_core::{AgentId, MessageId, Timestamp};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;

use super::{agent_of, delivery_of, has_expired};
use crate::error::EngineError;
use crate::messages::InboxHandle;

/// Where everybody stands with a message.
#[derive(Clone, PartialEq, Debug)]
pub struct MessageStatus {
    pub message: Message,
    pub recipients: Vec<RecipientStatus>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecipientStatus {
    pub agent: AgentId,
    pub reached: Reached,
    /// How often this node has notified it. Operational: other nodes count for themselves, and a restart begins anew.
    pub notified: u32,
    pub read_at: Option<Timestamp>,
    pub acked_at: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reached {
    Queued,
    Read,
    Acked,
    /// Nobody with this id has joined yet; it gets the message if it does until then.
    Awaited {
        until: Timestamp,
    },
    /// Nobody with this id joined in time, or the message matters no more.
    Expired,
    /// A person has to release it first.
    Held,
    /// A person decided against it.
    Discarded,
}

impl Reached {
    pub fn as_str(self) -> &'static str {
        match self {
            Reached::Queued => "queued",
            Reached::Read => "read",
            Reached::Acked => "acked",
            Reached::Awaited { .. } => "awaited",
            Reached::Expired => "expired",
            Reached::Held => "held",
            Reached::Discarded => "discarded",
        }
    }
}

impl InboxHandle<'_> {
    /// Where each recipient of a message stands.
    pub async fn message_status(&self, id: &MessageId) -> Result<Option<MessageStatus>, EngineError> {
        let of_message = RowQuery::all(Table::Deliveries).with("message", ColumnTest::Is(id.as_str().into()));
        let agents = RowQuery::all(Table::Agents).ordered_by("joined");
        let Some(message) = self.engine.query().message(id).await?.value else { return Ok(None) };
        let (lists, _) = self.engine.store().lists(vec![of_message, agents]).await?;
        let mut lists = lists.into_iter();
        let mut next = || lists.next().unwrap_or_default();
        let deliveries: Vec<Delivery> = next().into_iter().filter_map(delivery_of).collect();
        let agents: BTreeMap<AgentId, Agent> =
            next().into_iter().filter_map(agent_of).map(|agent| (agent.id.clone(), agent)).collect();
        let now = self.engine.clock().now();
        let recipients = recipients_of(&message, &deliveries, &agents, now);
        let notified = |status: RecipientStatus| RecipientStatus {
            notified: self.engine.wake_hub().attempts(&status.agent, id),
            ..status
        };
        Ok(Some(MessageStatus { message, recipients: recipients.into_iter().map(notified).collect() }))
    }
}

fn recipients_of(
    message: &Message,
    deliveries: &[Delivery],
    agents: &BTreeMap<AgentId, Agent>,
    now: Timestamp,
) -> Vec<RecipientStatus> {
    let header = &message.letter.header;
    let unreached = match message.fate {
        Fate::Sent => None,
        Fate::Held(_) => Some(Reached::Held),
        Fate::Discarded { .. } => Some(Reached::Discarded),
    };
    let named: Vec<AgentId> = match &header.to {
        Recipients::Agents(named) => {
            let awaited = header.unknown.iter().filter(|_| header.awaits_millis.is_some());
            named.iter().chain(awaited).cloned().collect()
        }
        Recipients::Everyone => {
            let here = agents.values().filter(|agent| !agent.has_left()).map(|agent| agent.id.clone());
            let answered = deliveries.iter().map(|delivery| delivery.agent.clone());
            let mut all: Vec<AgentId> = here.chain(answered).filter(|agent| *agent != header.from).collect();
            all.sort();
            all.dedup();
            all
        }
    };
    let status = |agent: AgentId| {
        let delivery = deliveries.iter().find(|delivery| delivery.agent == agent);
        let reached = unreached.unwrap_or_else(|| reached(message, delivery, agents.get(&agent), now));
        RecipientStatus {
            agent,
            reached,
            notified: 0,
            read_at: delivery.and_then(|delivery| delivery.read_at),
            acked_at: delivery.and_then(|delivery| delivery.acked_at),
        }
    };
    named.into_iter().map(status).collect()
}

fn reached(message: &Message, delivery: Option<&Delivery>, agent: Option<&Agent>, now: Timestamp) -> Reached {
    let standing = delivery.map_or(Standing::Queued, |delivery| delivery.standing);
    match (standing, delivery.map(|delivery| delivery.to)) {
        (Standing::Acked, _) => Reached::Acked,
        (Standing::Read, _) => Reached::Read,
        (Standing::Queued, Some(AddressedAs::Awaited { until, .. })) => match agent.filter(|agent| !agent.has_left()) {
            Some(agent) if agent.joined_at <= until => Reached::Queued,
            None if now <= until => Reached::Awaited { until },
            _ => Reached::Expired,
        },
        (Standing::Queued, _) if has_expired(message, now) => Reached::Expired,
        (Standing::Queued, _) => Reached::Queued,
    }
}
