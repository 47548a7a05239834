//! A model that says what a test wrote down, over HTTP as real programs ask for it.
//!
//! [`Script`] is what one agent's model says, turn by turn; the key that an agent sends decides which one it gets.
//! `talk` has the words that all protocols share, and each protocol is one [`Wire`]: how a request reads and how an answer
//! is streamed. Everything that was asked is kept, for tests to look at.

mod anthropic;
mod responses;
mod script;
mod server;
mod talk;

pub use script::{Script, Story};
pub use server::ModelServer;
pub use talk::{Asked, Offered, ToolResult};

use axum::http::Uri;
use serde_json::Value;

use talk::{Answer, Frame};

/// One protocol by which programs speak to models.
#[derive(Clone, Copy, Debug)]
struct Wire {
    name: &'static str,
    /// What the path of a request ends with.
    path: &'static str,
    read: fn(&Value) -> anyhow::Result<Asked>,
    /// The whole answer, as the events of a stream. The number tells answers apart.
    write: fn(&Asked, &Answer, number: usize) -> Vec<Frame>,
    error: fn(message: &str) -> Value,
}

const WIRES: [Wire; 2] = [anthropic::WIRE, responses::WIRE];

fn wire_at(uri: &Uri) -> Option<Wire> {
    WIRES.into_iter().find(|wire| uri.path().ends_with(wire.path))
}
