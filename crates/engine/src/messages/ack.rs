//! Acknowledging: message by message, and never what was not shown.

use rookery_core::model::DeliveryId;
use std::collections::BTreeMap;

use rookery_core::messages::{AckMessages, Shown};
use rookery_core::model::message::{Delivery, Form, Standing};
use rookery_core::{AgentId, Caller, Code, Key, MessageId, Rejection, Row, Seq, Timestamp};

use super::inbox::is_in_inbox;
use super::place::InboxDelivery;
use super::{LARGEST_PAGE, delivery_of};
use crate::error::EngineError;
use crate::messages::InboxHandle;
use crate::submit::Request;

/// Up to where an agent acknowledges its inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Until {
    /// Inclusive.
    Time(Timestamp),
    Message(MessageId),
}

impl InboxHandle<'_> {
    /// Acknowledges messages by their ids.
    pub async fn ack(&self, caller: &Caller, agent: &AgentId, messages: Vec<MessageId>) -> Result<(), EngineError> {
        let standings = self.standings(agent, &messages).await?;
        let queued = |id: &MessageId| standings.get(id).is_none_or(|standing| *standing == Standing::Queued);
        let peeked: Vec<MessageId> =
            messages.iter().filter(|id| queued(id) && self.engine.shown().has_peeked(agent, id)).cloned().collect();
        self.mark_read(caller, agent, peeked).await?;
        self.acknowledge(caller, agent, messages, Shown::Before).await
    }

    /// Acknowledges what an agent was shown of its inbox, up to a time or a message; which those were. The oldest
    /// [`LARGEST_PAGE`] of them at a time.
    pub async fn ack_until(
        &self,
        caller: &Caller,
        agent: &AgentId,
        until: Until,
    ) -> Result<Vec<MessageId>, EngineError> {
        let mut seen = self.open_positions(agent, is_in_inbox).await?;
        seen.retain(|place| !place.is_unseen() || self.engine.shown().has_peeked(agent, &place.message));
        seen.sort_by_key(|place| place.sent);
        if let Until::Message(id) = &until {
            let last = self.position_of(agent, id).await?;
            seen.retain(|place| place.sent <= last);
        }
        seen.truncate(LARGEST_PAGE as usize);
        let covered: Vec<MessageId> = match until {
            Until::Message(_) => seen.into_iter().map(|place| place.message).collect(),
            Until::Time(until) => self.messages_until(seen, until).await?,
        };
        self.ack(caller, agent, covered.clone()).await?;
        Ok(covered)
    }

    /// Those that are shown with a time up to this one.
    async fn messages_until(
        &self,
        places: Vec<InboxDelivery>,
        until: Timestamp,
    ) -> Result<Vec<MessageId>, EngineError> {
        let (envelopes, said): (Vec<InboxDelivery>, Vec<InboxDelivery>) =
            places.into_iter().partition(|place| place.form == Form::Envelope);
        let said = self.read_texts(said).await?.into_iter().filter(|pending| pending.message.at <= until);
        let envelopes = envelopes.into_iter().filter(|place| place.queued_at <= until);
        Ok(said.map(|pending| pending.message.id().clone()).chain(envelopes.map(|place| place.message)).collect())
    }

    /// The place of a message that is for the agent, acknowledged or not.
    async fn position_of(&self, agent: &AgentId, id: &MessageId) -> Result<Seq, EngineError> {
        let delivery = Key::Delivery(DeliveryId { message: id.clone(), agent: agent.clone() });
        let (rows, _) = self.engine.store().rows(vec![Key::Message(id.clone()), delivery]).await?;
        let mut rows = rows.into_iter();
        match (rows.next().flatten(), rows.next().flatten()) {
            (Some(Row::Message(message)), Some(_)) => Ok(message.sent),
            (None, Some(Row::Delivery(delivery))) => Ok(delivery.sent),
            _ => Err(Rejection::new(Code::MessageNotFound, format!("Message not found: '{id}' is not in your inbox"))
                .hint("give a time, or the id of a message as the inbox shows it")
                .into()),
        }
    }

    pub(super) async fn acknowledge(
        &self,
        caller: &Caller,
        agent: &AgentId,
        messages: Vec<MessageId>,
        shown: Shown,
    ) -> Result<(), EngineError> {
        if messages.is_empty() {
            return Ok(());
        }
        let command = AckMessages { agent: agent.clone(), messages: messages.clone(), shown };
        self.engine.submit(Request::new(caller.clone(), command)).await?;
        self.engine.shown().done(agent, &messages);
        Ok(())
    }

    pub(super) async fn standings(
        &self,
        agent: &AgentId,
        messages: &[MessageId],
    ) -> Result<BTreeMap<MessageId, Standing>, EngineError> {
        let deliveries = self.deliveries_of(agent, messages).await?.into_iter();
        Ok(deliveries.map(|(message, delivery)| (message, delivery.standing)).collect())
    }

    /// Where an agent stands with messages, by their ids.
    pub(super) async fn deliveries_of(
        &self,
        agent: &AgentId,
        messages: &[MessageId],
    ) -> Result<BTreeMap<MessageId, Delivery>, EngineError> {
        let key = |message: &MessageId| Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() });
        let (rows, _) = self.engine.store().rows(messages.iter().map(key).collect()).await?;
        let deliveries = rows.into_iter().flatten().filter_map(delivery_of);
        Ok(deliveries.map(|delivery| (delivery.message.clone(), delivery)).collect())
    }
}
