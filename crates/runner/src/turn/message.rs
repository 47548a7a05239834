//! The unread messages in an agent's inbox.

use rookery_client::{ClientError, Tools};
use serde::Deserialize;
use serde_json::json;

use crate::backend::WakingMessage;

/// How much of an inbox is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InboxDepth {
    /// Enough for one turn. Later messages wait for the next.
    OneTurn,
    /// As much as the daemon returns: messages that were shown before come last, and may be far behind.
    Everything,
}

impl InboxDepth {
    fn messages(self) -> usize {
        match self {
            InboxDepth::OneTurn => 50,
            InboxDepth::Everything => 1000,
        }
    }
}

/// Maximum bytes of one message in a prompt. The rest can be read in the channel.
pub(super) const MESSAGE_BYTES: usize = 128 << 10;
/// Maximum bytes of all messages of a turn together.
const INBOX_BYTES: usize = 192 << 10;

/// A message that an agent has not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct TurnMessage {
    pub entry: ChannelPost,
    pub priority: MessagePriority,
    /// The envelope of a Clutch message.
    #[serde(default)]
    pub envelope: Option<serde_json::Value>,
}

/// An entry of a channel, or a direct message.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct ChannelPost {
    pub id: String,
    pub timestamp: String,
    /// The sender, as the reader would mention it.
    pub from: String,
    pub message: String,
    /// The recipients of a direct message; `None` for an entry of the channel.
    #[serde(default)]
    pub to: Option<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePriority {
    High,
    Normal,
}

#[derive(Deserialize)]
struct InboxResponse {
    messages: Vec<InboxRow>,
}

#[derive(Deserialize)]
struct InboxRow {
    #[serde(flatten)]
    message: TurnMessage,
    /// Whether all attempts failed: it waits until a person retries it.
    #[serde(default)]
    given_up: bool,
}

impl InboxResponse {
    fn into_messages(self) -> Vec<TurnMessage> {
        self.messages.into_iter().filter(|waiting| !waiting.given_up).map(|waiting| waiting.message).collect()
    }
}

impl TurnMessage {
    /// Reads an agent's unread messages, urgent ones first, otherwise in the order of arrival. Does not mark them as read.
    pub async fn load_unread(tools: &Tools, depth: InboxDepth) -> Result<Vec<TurnMessage>, ClientError> {
        // `on_behalf`: the agent itself has not seen them, so its own acknowledgement covers only those in a prompt.
        let arguments = json!({"limit": depth.messages(), "on_behalf": true});
        let answer = tools.call("inbox_peek", arguments).await?;
        let inbox: InboxResponse = serde_json::from_value(answer.value).map_err(ClientError::Garbled)?;
        let mut messages = inbox.into_messages();
        messages.sort_by_key(|message| message.priority);
        Ok(messages)
    }

    pub fn to_waking_message(&self) -> WakingMessage {
        let ChannelPost { id, from, message, .. } = &self.entry;
        WakingMessage { id: id.clone(), from: from.clone(), text: message.clone() }
    }
}

/// Counts the messages that fit into one turn, in this order, but at least one. The others wait, since a message that was
/// not shown cannot be acknowledged.
pub fn count_fitting(messages: &[TurnMessage]) -> usize {
    let mut remaining = INBOX_BYTES;
    let fits = |message: &&TurnMessage| {
        let size = message.entry.message.len().min(MESSAGE_BYTES);
        let fits = size <= remaining;
        remaining = remaining.saturating_sub(size);
        fits
    };
    messages.iter().take_while(fits).count().max(1).min(messages.len())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::turn) fn message(id: &str, from: &str, text: &str) -> TurnMessage {
        let entry = ChannelPost {
            id: id.to_owned(),
            timestamp: "2026-02-05T10:00:00.000Z".to_owned(),
            from: from.to_owned(),
            message: text.to_owned(),
            to: None,
        };
        TurnMessage { entry, priority: MessagePriority::Normal, envelope: None }
    }

    #[test]
    fn turn_takes_messages_that_fit_and_at_least_one() {
        let sized = |sizes: &[usize]| -> Vec<TurnMessage> {
            sizes.iter().map(|size| message("m", "a", &"x".repeat(*size))).collect()
        };
        for (sizes, taken) in [
            (vec![], 0),
            (vec![10], 1),
            (vec![1 << 20], 1),
            (vec![10; 50], 50),
            (vec![MESSAGE_BYTES, MESSAGE_BYTES / 2, 1], 2),
            (vec![1 << 20, 1 << 20], 1),
        ] {
            assert_eq!(count_fitting(&sized(&sizes)), taken, "{sizes:?}");
        }
    }

    #[test]
    fn inbox_response_of_the_daemon_is_parsed() {
        let response = json!({"messages": [{"entry": {"id": "msg_1", "timestamp": "t", "from": "a", "message": "hi",
            "mentions": ["b"]}, "unread": true, "priority": "high"}, {"entry": {"id": "msg_2", "timestamp": "t", "from": "a",
            "message": "no", "mentions": []}, "unread": true, "given_up": true, "priority": "high"}]});
        let messages = serde_json::from_value::<InboxResponse>(response).unwrap().into_messages();
        assert_eq!(messages.len(), 1, "a message that was given up wakes no agent");
        assert_eq!(
            messages[0].to_waking_message(),
            WakingMessage { id: "msg_1".into(), from: "a".into(), text: "hi".into() }
        );
        assert_eq!(messages[0].priority, MessagePriority::High);
    }
}
