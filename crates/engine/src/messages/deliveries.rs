//! Every delivery and where it stands: what is under way, what is done with, and what was given up on.

use rookery_core::kernel::hex::hex;
use rookery_core::model::Table;
use rookery_core::model::message::{Delivery, SUPERSEDED, Standing};
use rookery_core::{AgentId, MessageId, Seq, Timestamp};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;

use super::{READ, delivery_of, page, stored};
use crate::error::EngineError;
use crate::messages::InboxHandle;
use crate::state::delivery_attempts::AttemptState;

/// How many deliveries are looked at for one page, where only some of them are wanted.
const LOOKED_AT: usize = 10_000;

/// Names one delivery: its message and its recipient, so that nothing has to be looked up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryId {
    pub message: MessageId,
    pub agent: AgentId,
}

const PREFIX: &str = "dlv_";

impl DeliveryId {
    pub fn parse(text: &str) -> Option<DeliveryId> {
        let digits: Option<Vec<u8>> = text
            .strip_prefix(PREFIX)?
            .chars()
            .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
        let bytes = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let text = String::from_utf8(bytes).ok()?;
        let (message, agent) = text.split_once(' ')?;
        Some(DeliveryId { message: message.into(), agent: agent.into() })
    }
}

impl std::fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{}", hex(format!("{} {}", self.message, self.agent).as_bytes()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryState {
    /// Nobody has told the recipient of it, as far as this node knows.
    Pending,
    /// It was handed or shown to the recipient, or tried to be, and is not acknowledged.
    Notified,
    Acked,
    /// Given up on.
    Dead,
    /// What it asks for is somebody else's by now, or nobody's.
    Superseded,
}

impl DeliveryState {
    pub const ALL: [DeliveryState; 5] = [
        DeliveryState::Pending,
        DeliveryState::Notified,
        DeliveryState::Acked,
        DeliveryState::Dead,
        DeliveryState::Superseded,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryState::Pending => "pending",
            DeliveryState::Notified => "notified",
            DeliveryState::Acked => "acked",
            DeliveryState::Dead => "dead",
            DeliveryState::Superseded => SUPERSEDED,
        }
    }

    pub fn parse(text: &str) -> Option<DeliveryState> {
        DeliveryState::ALL.into_iter().find(|state| state.as_str() == text)
    }

    fn of(delivery: &Delivery, handing: Option<&AttemptState>) -> DeliveryState {
        match delivery.standing {
            _ if delivery.is_superseded() => DeliveryState::Superseded,
            _ if delivery.is_dead() => DeliveryState::Dead,
            Standing::Acked => DeliveryState::Acked,
            Standing::Queued if handing.is_none() => DeliveryState::Pending,
            Standing::Queued | Standing::Read => DeliveryState::Notified,
        }
    }

    /// What the index of deliveries knows of it: whether the recipient was notified is not among that.
    fn stored(self) -> &'static [&'static str] {
        match self {
            DeliveryState::Pending => &["queued"],
            DeliveryState::Notified => &["queued", "read"],
            DeliveryState::Acked => &["acked"],
            DeliveryState::Dead => &["dead"],
            DeliveryState::Superseded => &[SUPERSEDED],
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeliveryFilter {
    pub state: Option<DeliveryState>,
    pub agent: Option<AgentId>,
    /// Only those that were queued after this place.
    pub after: Seq,
    pub most: Option<u32>,
}

/// A delivery, with what this node knows of how it goes.
#[derive(Clone, PartialEq, Debug)]
pub struct DeliveryStatus {
    pub id: DeliveryId,
    pub delivery: Delivery,
    pub state: DeliveryState,
    pub handing: Option<AttemptState>,
    /// Until when the recipient's endpoint is left alone, if it is.
    pub spared_until: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct DeliveryPage {
    pub deliveries: Vec<DeliveryStatus>,
    /// The place to go on after, if there may be more.
    pub next: Option<Seq>,
}

impl DeliveryFilter {
    fn stored(&self) -> &'static [&'static str] {
        self.state.map_or(&["queued", "read", "acked", "dead", SUPERSEDED], DeliveryState::stored)
    }
}

/// Those of a state after a place: one range of an index.
fn in_state(state: &str, after: Seq) -> RowQuery {
    let all = RowQuery::all(Table::Deliveries).with("state", ColumnTest::Is(state.into()));
    all.with("sent", ColumnTest::Above(stored(after))).ordered_by("sent")
}

impl InboxHandle<'_> {
    /// Deliveries in the order in which they were queued. One to everybody is among them once its recipient was shown it.
    pub async fn list_deliveries(&self, filter: &DeliveryFilter) -> Result<DeliveryPage, EngineError> {
        let most = page(filter.most) as usize;
        let (mut found, mut after, mut looked_at) = (Vec::new(), filter.after, 0);
        loop {
            let (deliveries, whole) = self.stored_deliveries(filter, after).await?;
            looked_at += deliveries.len();
            for delivery in deliveries {
                // All of a place come on one page, so that the next can begin after it.
                if found.len() >= most && delivery.sent > after {
                    return Ok(DeliveryPage { deliveries: found, next: Some(after) });
                }
                after = delivery.sent;
                found.extend(self.filter_status(delivery, filter));
            }
            if whole {
                return Ok(DeliveryPage { deliveries: found, next: None });
            }
            if looked_at >= LOOKED_AT {
                return Ok(DeliveryPage { deliveries: found, next: Some(after) });
            }
        }
    }

    /// The next of those that may be wanted, in order, and whether these are all.
    async fn stored_deliveries(
        &self,
        filter: &DeliveryFilter,
        after: Seq,
    ) -> Result<(Vec<Delivery>, bool), EngineError> {
        let queries = filter.stored().iter().map(|state| in_state(state, after).at_most(Some(READ))).collect();
        let (lists, _) = self.engine.store().lists(queries).await?;
        // Where one of them ends early, what comes after that place is not known yet.
        let full = lists.iter().filter(|rows| rows.len() >= READ as usize);
        let end = full.filter_map(|rows| rows.last().cloned().and_then(delivery_of)).map(|last| last.sent).min();
        let mut deliveries: Vec<Delivery> = lists.into_iter().flatten().filter_map(delivery_of).collect();
        if let Some(end) = end {
            deliveries.retain(|delivery| delivery.sent < end);
            deliveries.extend(self.deliveries_at(end, filter).await?);
        }
        deliveries.sort_by(|a, b| (a.sent, &a.message, &a.agent).cmp(&(b.sent, &b.message, &b.agent)));
        Ok((deliveries, end.is_none()))
    }

    /// All of one place: a message has as many as it has recipients.
    async fn deliveries_at(&self, place: Seq, filter: &DeliveryFilter) -> Result<Vec<Delivery>, EngineError> {
        let before = Seq(place.0.saturating_sub(1));
        let here = |state: &&str| in_state(state, before).with("sent", ColumnTest::AtMost(stored(place)));
        let (lists, _) = self.engine.store().lists(filter.stored().iter().map(here).collect()).await?;
        Ok(lists.into_iter().flatten().filter_map(delivery_of).collect())
    }

    fn filter_status(&self, delivery: Delivery, filter: &DeliveryFilter) -> Option<DeliveryStatus> {
        if filter.agent.as_ref().is_some_and(|agent| *agent != delivery.agent) {
            return None;
        }
        let status = self.delivery_status(delivery);
        filter.state.is_none_or(|state| state == status.state).then_some(status)
    }

    pub fn delivery_status(&self, delivery: Delivery) -> DeliveryStatus {
        let handing = self.engine.attempt_log().of(&delivery.agent, &delivery.message);
        let id = DeliveryId { message: delivery.message.clone(), agent: delivery.agent.clone() };
        let state = DeliveryState::of(&delivery, handing.as_ref());
        let waits = matches!(state, DeliveryState::Pending | DeliveryState::Notified);
        let spared_until = self.engine.attempt_log().circuit_open(&delivery.agent).filter(|_| waits);
        DeliveryStatus { id, delivery, state, handing, spared_until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_a_message_and_its_recipient() {
        let id = DeliveryId { message: "msg_ü/1".into(), agent: "ken@pr-1".into() };
        assert_eq!(DeliveryId::parse(&id.to_string()), Some(id));
        for other in ["", "dlv_", "dlv_6", "dlv_zz", "msg_1", "dlv_6d7367"] {
            assert_eq!(DeliveryId::parse(other), None, "{other}");
        }
    }
}
