//! The frames of a stream, both ways.

use axum::body::Bytes;
use axum::extract::ws::{Message, Utf8Bytes};
use rookery_core::{Actor, Position, Seq};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::source::Portion;
use crate::clutch::envelopes::IngestResults;
use crate::clutch::filter::{self, MessageFilterQuery};
use crate::clutch::{ClutchError, ClutchErrorBody};

/// What a client asks for.
#[derive(Debug)]
pub(super) enum Asked<'a> {
    /// Follow something else from here on.
    Subscribe(Subscribe),
    /// Take in an envelope, or several: as it was written.
    Publish(&'a RawValue),
    /// Be done with messages.
    Ack(Ack),
}

#[derive(Debug, Deserialize)]
struct Op<'a> {
    op: String,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subscribe {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    run_id: Option<String>,
    thread_id: Option<String>,
    task_id: Option<String>,
    agent_id: Option<String>,
    #[serde(rename = "type")]
    message_type: Option<String>,
    /// Where to begin: a number, or `log-id:number`. Left out, it goes on where it is.
    after: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ack {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) ids: Vec<String>,
    /// Whose; that of the connection if it is left out.
    pub(super) agent_id: Option<String>,
}

impl Asked<'_> {
    pub(super) fn read(text: &str) -> Result<Asked<'_>, ClutchError> {
        let Op { op, message } = serde_json::from_str(text).map_err(unexpected)?;
        match (op.as_str(), message) {
            ("subscribe", _) => serde_json::from_str(text).map(Asked::Subscribe).map_err(unexpected),
            ("publish", Some(message)) => Ok(Asked::Publish(message)),
            ("publish", None) => Err(ClutchError::parameter("message", "is what a publish needs: an envelope")),
            ("ack", _) => serde_json::from_str(text).map(Asked::Ack).map_err(unexpected),
            _ => Err(ClutchError::parameter("op", "must be 'subscribe', 'publish' or 'ack'")),
        }
    }
}

fn unexpected(error: serde_json::Error) -> ClutchError {
    let message = format!("the frame is not what is expected: {error}");
    ClutchError::from(rookery_core::Rejection::new(rookery_core::Code::Invalid, message)).hint(
        "send {\"op\": \"subscribe\", …} with the filters of the stream, or {\"op\": \"publish\", \"message\": …}",
    )
}

impl Subscribe {
    pub(super) fn wanted(&self) -> MessageFilterQuery {
        MessageFilterQuery {
            run_id: self.run_id.clone(),
            thread_id: self.thread_id.clone(),
            task_id: self.task_id.clone(),
            agent_id: self.agent_id.clone(),
            message_type: self.message_type.clone(),
        }
    }

    pub(super) fn position(&self) -> Result<Option<Position>, ClutchError> {
        match &self.after {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => filter::position(text).map(Some),
            Some(other) => filter::position(&other.to_string()).map(Some),
        }
    }
}

/// The page's half of a browser session, from the frame that has it.
pub(super) fn read_secret(text: &str) -> Result<String, ClutchError> {
    #[derive(Deserialize)]
    struct Authenticate {
        op: String,
        secret: String,
    }
    match serde_json::from_str(text) {
        Ok(Authenticate { op, secret }) if op == "authenticate" && !secret.is_empty() => Ok(secret),
        _ => Err(not_authenticated()),
    }
}

/// The first frame did not prove a browser session.
pub(super) fn not_authenticated() -> ClutchError {
    let message = "the first frame must be {\"op\": \"authenticate\", \"secret\": …}";
    ClutchError::from(rookery_core::Rejection::new(rookery_core::Code::Unauthenticated, message))
}

/// The stream is open for this caller.
pub(super) fn authenticated(caller: &Actor) -> Message {
    text(json!({ "op": "authenticated", "as": caller.to_string() }).to_string())
}

/// That a stream follows what was asked for, after this place.
pub(super) fn subscribed(after: Seq) -> Message {
    text(json!({ "op": "subscribed", "after": after }).to_string())
}

/// That messages are done with.
pub(super) fn acked(ids: &[String]) -> Message {
    text(json!({ "op": "acked", "ids": ids }).to_string())
}

/// What became of what was published.
pub(super) fn published(results: IngestResults) -> Message {
    #[derive(Serialize)]
    struct Frame {
        op: &'static str,
        #[serde(flatten)]
        results: IngestResults,
    }
    text(serde_json::to_string(&Frame { op: "published", results }).unwrap_or_default())
}

/// Why something was not done.
pub(super) fn error(error: &ClutchError) -> Message {
    #[derive(Serialize)]
    struct Frame<'a> {
        #[serde(rename = "type")]
        frame_type: &'static str,
        #[serde(flatten)]
        body: &'a ClutchErrorBody,
    }
    text(serde_json::to_string(&Frame { frame_type: "error", body: error.body() }).unwrap_or_default())
}

fn text(text: String) -> Message {
    Message::Text(text.into())
}

/// A frame for each message: slices of what everybody shares.
pub(super) fn single(portion: &Portion) -> Vec<Message> {
    let whole = Bytes::from_owner(portion.rendered.array());
    portion.ranges().filter_map(|(begin, end)| utf8(whole.slice(begin..end))).collect()
}

/// One frame with all messages.
pub(super) fn batch(portion: &Portion) -> Option<Message> {
    let whole = Bytes::from_owner(portion.rendered.array());
    if portion.picked.is_none() {
        return utf8(whole);
    }
    let mut bytes = Vec::new();
    for (begin, end) in portion.ranges() {
        bytes.push(if bytes.is_empty() { b'[' } else { b',' });
        bytes.extend_from_slice(&whole[begin..end]);
    }
    bytes.push(b']');
    utf8(bytes.into())
}

/// Renderings are JSON, which is UTF-8.
fn utf8(bytes: Bytes) -> Option<Message> {
    Utf8Bytes::try_from(bytes).ok().map(Message::Text)
}

impl Portion {
    fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        let entries = self.rendered.entries();
        let places: Vec<usize> = match &self.picked {
            Some(picked) => picked.clone(),
            None => (0..entries.len()).collect(),
        };
        places.into_iter().filter_map(|at| entries.get(at).copied())
    }
}
