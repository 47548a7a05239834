//! Messages of the Clutch protocol as an inbox shows them. What their authors said stands in the message alone; what is
//! told beside it is our own word.

use rookery_core::Timestamp;
use rookery_engine::messages::{Mail, Offer, Request};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::mcp::resources;
use crate::mcp::translate::seconds_until;

/// How much of a payload is shown. The whole of a longer one can be read as a resource.
const SHOWN_CHARACTERS: usize = 8_000;
/// How many attachments are named.
const ATTACHMENTS: usize = 20;

/// What a message of the Clutch protocol is about.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Envelope {
    /// task.request, task.result, tool.error and so on.
    #[serde(rename = "type")]
    message_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// Of a task that you are asked to do: what it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Who wants the task done.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_by: Option<String>,
    /// After so many seconds the task is given to somebody else, if you have not claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_within_seconds: Option<u64>,
    /// The message that this one answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<String>,
    /// The artifacts that come with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<String>,
    /// The resource with the whole message, if only the beginning of its payload is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_message_uri: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// What a message says: its payload as JSON, or the beginning of that.
#[derive(Debug)]
pub struct PayloadText {
    pub text: String,
    is_cut: bool,
}

impl PayloadText {
    pub fn of(mail: &Mail) -> PayloadText {
        let readable = |envelope: &&Value| !envelope["meta"]["body_unreadable"].is_string();
        let Some(envelope) = mail.envelope.as_ref().filter(readable) else {
            return PayloadText { text: "(its words are gone, or cannot be read)".to_owned(), is_cut: false };
        };
        let payload = envelope["payload"].to_string();
        match payload.char_indices().nth(SHOWN_CHARACTERS) {
            Some((end, _)) => PayloadText { text: format!("{}…", &payload[..end]), is_cut: true },
            None => PayloadText { text: payload, is_cut: false },
        }
    }

    /// The resource with the whole, if this is only the beginning.
    pub fn whole(&self, mail: &Mail) -> Option<String> {
        self.is_cut.then(|| resources::message(&mail.id))
    }
}

impl Envelope {
    pub fn of(mail: &Mail, words: &PayloadText, now: Timestamp) -> Envelope {
        let envelope = mail.envelope.as_ref().unwrap_or(&Value::Null);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let request = mail.request.as_ref();
        Envelope {
            message_type: mail.message_type.clone(),
            task_id: mail.task.as_ref().map(ToString::to_string),
            run_id: request.map(|request| request.run.to_string()).or_else(|| text(&envelope["run_id"])),
            title: request.map(|request| request.title.clone()),
            asked_by: request.map(|request| request.asked_by.clone()),
            accept_within_seconds: request.and_then(|request| match request.offer {
                Offer::Open { accept_by } => accept_by.map(|due| seconds_until(due, now)),
                Offer::Taken | Offer::Over => None,
            }),
            in_reply_to: text(&envelope["meta"]["in_reply_to"]),
            attachments: attachments(mail),
            full_message_uri: words.whole(mail),
            next: request.and_then(next),
        }
    }
}

/// What the artifacts that come with a message are called.
pub fn attachments(mail: &Mail) -> Vec<String> {
    let attached = mail.envelope.as_ref().and_then(|envelope| envelope["attachments"].as_array());
    let named = attached.into_iter().flatten().filter_map(|one| one["ref"].as_str());
    named.take(ATTACHMENTS).map(str::to_owned).collect()
}

fn next(request: &Request) -> Option<String> {
    let task = &request.task;
    match request.offer {
        Offer::Open { .. } => Some(format!(
            "Claim it with task_claim (task_id {task}), then task_load_context. If you cannot do it, give it back: \
             task_update_status with status pending."
        )),
        Offer::Taken => None,
        Offer::Over => Some(format!("Nothing: task {task} is not given to you any more. inbox_ack this.")),
    }
}
