//! The row of an envelope that was received.

use serde::{Deserialize, Serialize};

use super::message_type::MessageType;
use super::tool_call::Denial;
use super::{Column, ColumnValue, Entity};
use crate::kernel::id::{MessageId, Seq};

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
