//! An envelope that came in: the first fact of whatever it does. Its body, as it was sent, is that of the fact.

use crate::model::{Column, ColumnValue, DeliveryId, Entity, Key};
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::message_type::MessageType;
use super::payload_type::PayloadType;
use super::tool::Denial;
use crate::event::{Event, EventStamp, NamedArtifacts, RowWriter, Subject};
use crate::id::{AgentId, MessageId, RunId, Seq, TaskId, ThreadId, Timestamp};
use crate::message::Delivery;

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

/// Where an envelope is, by its id: one that came in, or that the daemon sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Filed {
    pub id: MessageId,
    #[serde(rename = "type")]
    pub message_type: MessageType,
    /// The place of its fact in the log.
    pub received: Seq,
    pub hash: String,
    /// Why it comes to nothing, as long as whoever called was not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denial>,
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

impl Entity for Filed {
    type Id = MessageId;

    const TABLE: &'static str = "envelopes";
    const COLUMNS: &'static [Column] = &[Column::text("type"), Column::integer("received")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.message_type.as_str().into(), self.received.0.into()]
    }
}

impl Filed {
    /// What the daemon sends has an id like any other, and no body that another could be the same as.
    pub(crate) fn own(id: &MessageId, message_type: MessageType, seq: Seq) -> Filed {
        Filed { id: id.clone(), message_type, received: seq, hash: String::new(), denied: None }
    }
}
