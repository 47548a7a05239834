//! An envelope that came in: the first fact of whatever it does. Its body, as it was sent, is that of the fact.

use serde::{Deserialize, Serialize};

use crate::kernel::id::{AgentId, MessageId, RunId, TaskId, ThreadId, Timestamp};
use crate::model::addressee::Address;
use crate::model::envelope::Filed;
use crate::model::message::Delivery;
use crate::model::message_type::MessageType;
use crate::model::payload_type::PayloadType;
use crate::model::tool_call::Denial;
use crate::model::{DeliveryId, EventStamp, Key, RowWriter};
use crate::traits::{Event, NamedArtifacts, Subject};

/// What is known of an envelope without its body, which may be redacted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EnvelopeReceived {
    pub message: MessageId,
    /// In today's words.
    #[serde(rename = "type")]
    pub message_type: MessageType,
    pub run: RunId,
    pub thread: ThreadId,
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// The sender's time.
    pub ts: Timestamp,
    /// What the sender says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub to: Vec<Address>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_type: Option<PayloadType>,
    /// What makes another message of the same id the same message; see [`super::canon::sameness`].
    pub hash: String,
    /// Who finds it in its inbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivered: Vec<AgentId>,
    /// The key that its signature was found to be by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// Why a call of a tool comes to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denial>,
    /// What is attached to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// The channel that people see it in, if it is another than its thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui_channel: Option<String>,
}

impl EnvelopeReceived {
    pub(crate) fn keys(&self) -> Vec<Key> {
        let delivery =
            |agent: &AgentId| Key::Delivery(DeliveryId { message: self.message.clone(), agent: agent.clone() });
        std::iter::once(Key::Envelope(self.message.clone())).chain(self.delivered.iter().map(delivery)).collect()
    }
}

impl Event for EnvelopeReceived {
    const KIND: &'static str = "envelope.received";

    fn subject(&self) -> Subject<'_> {
        Subject { thread: Some(&self.thread), ..Subject::task(&self.task, Some(&self.run)) }
    }

    fn write_set(&self) -> Vec<Key> {
        self.keys()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let filed = Filed {
            id: self.message.clone(),
            message_type: self.message_type.clone(),
            received: stamp.seq,
            hash: self.hash.clone(),
            denied: self.denied.clone(),
        };
        rows.put(self.message.clone(), filed);
        for agent in &self.delivered {
            let id = DeliveryId { message: self.message.clone(), agent: agent.clone() };
            Delivery::open_envelope(rows, id, Some(&self.task), stamp);
        }
    }

    fn artifacts(&self) -> Option<NamedArtifacts<'_>> {
        NamedArtifacts::of("message", &self.message, &self.artifacts)
    }
}
