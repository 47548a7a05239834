//! Deliveries whose message asks for nothing any more, because the offer that it made was withdrawn.

use serde::{Deserialize, Serialize};

use crate::kernel::id::{AgentId, MessageId};
use crate::model::message::Delivery;
use crate::model::{DeliveryId, EventStamp, Key, RowWriter};
use crate::traits::{Event, Subject};

/// An offer of a task was withdrawn before its recipient took it. A late acknowledgement still counts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeliverySuperseded {
    pub message: MessageId,
    pub agent: AgentId,
}

impl DeliverySuperseded {
    fn id(&self) -> DeliveryId {
        DeliveryId { message: self.message.clone(), agent: self.agent.clone() }
    }
}

impl Event for DeliverySuperseded {
    const KIND: &'static str = "delivery.superseded";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Delivery(self.id())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.replace(self.id(), |known: Option<Delivery>| known.map(|delivery| delivery.supersede(stamp.at)));
    }
}
