//! A model server whose answers a test scripts. It speaks the HTTP protocols that real agent programs use.
//!
//! A [`Script`] holds the turns of one agent's model; the API key that the agent sends selects the script. `exchange` has
//! the types that all protocols share, and each protocol is one [`Protocol`]: how to read a request and how to write an
//! answer, streamed or whole. The server records all requests for the test.

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

pub use exchange::{ModelRequest, OfferedTool, ToolResult};
pub use script::{Script, ToolHistory};
pub use server::ModelServer;

use axum::http::Uri;
use serde_json::Value;

use exchange::{Frame, ModelAnswer};

/// A protocol between programs and models.
#[derive(Clone, Copy, Debug)]
struct Protocol {
    name: &'static str,
    accepts_path: fn(path: &str) -> bool,
    /// Whether the request asks for a stream.
    wants_stream: fn(&Uri, &Value) -> bool,
    read: fn(&Uri, &Value) -> anyhow::Result<ModelRequest>,
    /// Renders the answer as frames of a stream. The number makes ids of answers unique.
    stream: fn(&ModelRequest, &ModelAnswer, number: usize) -> Vec<Frame>,
    /// The content type of the stream.
    media_type: &'static str,
    /// Renders the answer as one document.
    whole: fn(&ModelRequest, &ModelAnswer, number: usize) -> Value,
    error: fn(status: u16, message: &str) -> Value,
}

const EVENT_STREAM: &str = "text/event-stream";

const PROTOCOLS: [Protocol; 5] =
    [anthropic::PROTOCOL, responses::PROTOCOL, chat::PROTOCOL, gemini::PROTOCOL, ollama::PROTOCOL];

fn protocol_at(uri: &Uri) -> Option<Protocol> {
    PROTOCOLS.into_iter().find(|protocol| (protocol.accepts_path)(uri.path()))
}

/// Whether the field `stream` is true, by which most protocols ask for a stream.
fn has_stream_field(_: &Uri, body: &Value) -> bool {
    body["stream"] == true
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a text, or joins the texts of a list of blocks.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        blocks => list(blocks).iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
    }
}
