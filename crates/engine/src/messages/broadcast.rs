//! Messages to everybody: not expanded, so what waits for an agent is what was sent since it joined and it is not done with.

use rookery_core::model::Table;
use rookery_core::model::agent::Agent;
use rookery_core::model::message::{Message, Standing, UNKNOWN_RECIPIENT_TTL_MILLIS};
use rookery_core::{MessageId, Seq, Timestamp};
use rookery_store::RowQuery;
use rookery_store::query::{ColumnTest, Order};

use super::place::{InboxDelivery, MAX_WAITING};
use super::{READ, has_expired, message_of, stored};
use crate::error::EngineError;
use crate::messages::InboxHandle;

/// How many messages from before it joined an agent gets, and from how long before.
const LATE_JOINER_MESSAGES: usize = 100;
const LATE_JOINER_MILLIS: u64 = UNKNOWN_RECIPIENT_TTL_MILLIS;

impl InboxHandle<'_> {
    /// Messages to everybody that an agent has not acknowledged: those since it joined, and a few from before.
    pub(super) async fn broadcasts(&self, known: Option<&Agent>) -> Result<Vec<InboxDelivery>, EngineError> {
        let Some(agent) = known.filter(|agent| !agent.has_left()) else { return Ok(vec![]) };
        let settled = self.engine.shown().settled(&agent.id, agent.joined);
        let (mut found, whole) = self.broadcasts_since(agent, settled.max(agent.joined)).await?;
        if settled < agent.joined {
            let earlier = self.sent_before_joining(agent).await?;
            found.extend(self.without_settled(agent, earlier).await?);
        }
        if let Some(head) = whole {
            let oldest = found.iter().map(|place| place.sent).min();
            let upto = oldest.map_or(head, |oldest| Seq(oldest.0.saturating_sub(1)));
            self.engine.shown().settle(&agent.id, agent.joined, upto);
        }
        Ok(found)
    }

    /// Those after a place, newest first; and up to where they were looked through, if all of them were.
    async fn broadcasts_since(
        &self,
        agent: &Agent,
        after: Seq,
    ) -> Result<(Vec<InboxDelivery>, Option<Seq>), EngineError> {
        let mut found = Vec::new();
        let (mut upto, mut newest) = (i64::MAX, None);
        loop {
            let mut query =
                to_everyone().with("sent", ColumnTest::Above(stored(after))).with("sent", ColumnTest::AtMost(upto));
            query = query.at_most(Some(READ));
            query.order = Order::Descending;
            let (rows, head) = self.engine.store().list(query).await?;
            let newest = *newest.get_or_insert(head.head);
            let full = rows.len() >= READ as usize;
            let messages: Vec<Message> = rows.into_iter().filter_map(message_of).collect();
            let last = messages.last().map(|message| message.sent);
            found.extend(self.without_settled(agent, messages).await?);
            match last {
                Some(last) if full && found.len() < MAX_WAITING => upto = stored(last).saturating_sub(1),
                Some(_) if full => return Ok((found, None)),
                _ => return Ok((found, Some(newest))),
            }
        }
    }

    /// Of the messages to everybody before the agent joined, the newest that want to be acknowledged.
    async fn sent_before_joining(&self, agent: &Agent) -> Result<Vec<Message>, EngineError> {
        let oldest = Timestamp(agent.joined_at.0.saturating_sub_unsigned(LATE_JOINER_MILLIS));
        let mut found: Vec<Message> = Vec::new();
        let mut upto = stored(agent.joined);
        loop {
            let mut query = to_everyone().with("sent", ColumnTest::AtMost(upto)).at_most(Some(READ));
            query.order = Order::Descending;
            let (rows, _) = self.engine.store().list(query).await?;
            let full = rows.len() >= READ as usize;
            let messages: Vec<Message> = rows.into_iter().filter_map(message_of).collect();
            let last = messages.last().map(|message| (message.sent, message.at));
            let wanted =
                messages.into_iter().filter(|message| message.at >= oldest && message.letter.header.requires_ack);
            found.extend(wanted);
            match last {
                Some((sent, at)) if full && at >= oldest && found.len() < LATE_JOINER_MESSAGES => {
                    upto = stored(sent).saturating_sub(1);
                }
                _ => break,
            }
        }
        found.truncate(LATE_JOINER_MESSAGES);
        found.reverse();
        Ok(found)
    }

    /// Those that the agent is not done with.
    async fn without_settled(&self, agent: &Agent, messages: Vec<Message>) -> Result<Vec<InboxDelivery>, EngineError> {
        let now = self.engine.clock().now();
        let own = |message: &Message| message.is_broadcast_for(&agent.id) && !has_expired(message, now);
        let messages: Vec<Message> = messages.into_iter().filter(own).collect();
        let ids: Vec<MessageId> = messages.iter().map(|message| message.id().clone()).collect();
        let known = self.deliveries_of(&agent.id, &ids).await?;
        let places = messages.iter().map(|message| InboxDelivery::of_broadcast(message, known.get(message.id())));
        Ok(places.filter(|place| place.standing != Standing::Acked).collect())
    }
}

fn to_everyone() -> RowQuery {
    RowQuery::all(Table::Messages).with("audience", ColumnTest::Is("everyone".into())).ordered_by("sent")
}
