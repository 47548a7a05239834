//! A model that says what a test wrote down, over HTTP as real programs ask for it.
//!
//! [`Script`] is what one agent's model says, turn by turn; the key that an agent sends decides which one it gets.
//! `exchange` has the words that all protocols share, and each protocol is one [`Wire`]: how a request reads and how an answer
//! is written, streamed or whole. Everything that was asked is kept, for tests to look at.

mod anthropic;
mod chat;
mod exchange;
mod gemini;
mod ollama;
mod responses;
mod script;
mod server;
#[cfg(test)]
mod tests;

pub use exchange::{Asked, Offered, ToolResult};
pub use script::{Script, Story};
pub use server::ModelServer;

use axum::http::Uri;
use serde_json::Value;

use exchange::{Answer, Frame};

/// One protocol by which programs speak to models.
#[derive(Clone, Copy, Debug)]
struct Wire {
    name: &'static str,
    is_at: fn(path: &str) -> bool,
    /// Whether the answer is wanted piece by piece.
    is_streamed: fn(&Uri, &Value) -> bool,
    read: fn(&Uri, &Value) -> anyhow::Result<Asked>,
    /// The answer, as the pieces of a stream. The number tells answers apart.
    stream: fn(&Asked, &Answer, number: usize) -> Vec<Frame>,
    /// What kind of stream that is.
    media: &'static str,
    /// The answer at once.
    whole: fn(&Asked, &Answer, number: usize) -> Value,
    error: fn(status: u16, message: &str) -> Value,
}

const EVENTS: &str = "text/event-stream";

const WIRES: [Wire; 5] = [anthropic::WIRE, responses::WIRE, chat::WIRE, gemini::WIRE, ollama::WIRE];

fn wire_at(uri: &Uri) -> Option<Wire> {
    WIRES.into_iter().find(|wire| (wire.is_at)(uri.path()))
}

/// As most protocols ask for a stream: by saying so.
fn says_stream(_: &Uri, body: &Value) -> bool {
    body["stream"] == true
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A text, or the texts of a list of blocks.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        blocks => list(blocks).iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
    }
}
