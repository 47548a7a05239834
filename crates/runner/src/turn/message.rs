//! What waits in an agent's inbox.

use rookery_client::{ClientError, Tools};
use serde::Deserialize;
use serde_json::json;

use crate::backend::WakingMessage;

/// How far into an inbox is looked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InboxDepth {
    /// As far as one turn goes. What is beyond waits for the next.
    OneTurn,
    /// As far as the daemon shows: what was told before comes after everything that was not, and may be far behind.
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

/// How much of one message a turn tells. The rest of it can be read in the channel.
pub(super) const MESSAGE_BYTES: usize = 128 << 10;
/// How much all messages of a turn may be together.
const INBOX_BYTES: usize = 192 << 10;

/// A message that an agent has not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Message {
    pub entry: Entry,
    pub priority: Priority,
    /// There if it is one of the Clutch protocol, which says what it is about.
    #[serde(default)]
    pub envelope: Option<serde_json::Value>,
}

/// An entry of a channel, or a message to few.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Entry {
    pub id: String,
    pub timestamp: String,
    /// As the reader would mention it.
    pub from: String,
    pub message: String,
    /// Whom one is for that is not in the channel.
    #[serde(default)]
    pub to: Option<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    High,
    Normal,
}

#[derive(Deserialize)]
struct Inbox {
    messages: Vec<InboxEntry>,
}

#[derive(Deserialize)]
struct InboxEntry {
    #[serde(flatten)]
    message: Message,
    /// It failed too often, and waits until somebody wants it to be tried again.
    #[serde(default)]
    given_up: bool,
}

impl Inbox {
    fn into_messages(self) -> Vec<Message> {
        self.messages.into_iter().filter(|waiting| !waiting.given_up).map(|waiting| waiting.message).collect()
    }
}

impl Message {
    /// Everything that waits for an agent, urgent first and then as it came. Nothing is marked as read by looking.
    pub async fn waiting(tools: &Tools, reach: InboxDepth) -> Result<Vec<Message>, ClientError> {
        // The agent has seen nothing of it by this: an acknowledgement of its own covers only what it is told.
        let asked = json!({"limit": reach.messages(), "on_behalf": true});
        let answer = tools.call("inbox_peek", asked).await?;
        let inbox: Inbox = serde_json::from_value(answer.value).map_err(ClientError::Garbled)?;
        let mut messages = inbox.into_messages();
        messages.sort_by_key(|message| message.priority);
        Ok(messages)
    }

    pub fn letter(&self) -> WakingMessage {
        let Entry { id, from, message, .. } = &self.entry;
        WakingMessage { id: id.clone(), from: from.clone(), text: message.clone() }
    }
}

/// How many of the messages one turn takes: as many as fit, in this order, and at least one. What was not told cannot be
/// acknowledged, so the others wait.
pub fn shown_in_one_turn(messages: &[Message]) -> usize {
    let mut room = INBOX_BYTES;
    let fits = |message: &&Message| {
        let size = message.entry.message.len().min(MESSAGE_BYTES);
        let enough = size <= room;
        room = room.saturating_sub(size);
        enough
    };
    messages.iter().take_while(fits).count().max(1).min(messages.len())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::turn) fn message(id: &str, from: &str, text: &str) -> Message {
        let entry = Entry {
            id: id.to_owned(),
            timestamp: "2026-02-05T10:00:00.000Z".to_owned(),
            from: from.to_owned(),
            message: text.to_owned(),
            to: None,
        };
        Message { entry, priority: Priority::Normal, envelope: None }
    }

    #[test]
    fn a_turn_takes_what_fits_and_at_least_one() {
        let sized = |sizes: &[usize]| -> Vec<Message> {
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
            assert_eq!(shown_in_one_turn(&sized(&sizes)), taken, "{sizes:?}");
        }
    }

    #[test]
    fn the_inbox_is_read_as_the_daemon_writes_it() {
        let told = json!({"messages": [{"entry": {"id": "msg_1", "timestamp": "t", "from": "a", "message": "hi",
            "mentions": ["b"]}, "unread": true, "priority": "high"}, {"entry": {"id": "msg_2", "timestamp": "t", "from": "a",
            "message": "no", "mentions": []}, "unread": true, "given_up": true, "priority": "high"}]});
        let messages = serde_json::from_value::<Inbox>(told).unwrap().into_messages();
        assert_eq!(messages.len(), 1, "nobody is woken for what was given up on");
        assert_eq!(messages[0].letter(), WakingMessage { id: "msg_1".into(), from: "a".into(), text: "hi".into() });
        assert_eq!(messages[0].priority, Priority::High);
    }
}
