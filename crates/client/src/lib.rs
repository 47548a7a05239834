//! The client of a running daemon, used by the command line and the runner.
//!
//! It depends neither on the store nor on the engine, and prints nothing. [`Client`] calls the REST surface, [`Tools`] calls tools
//! as an agent, and [`EventFollower`] follows the event stream. A client with a retry timeout survives restarts of the daemon, also at
//! another address: it retries with an idempotency key, so that nothing is done twice.

mod address;
mod client;
mod credentials;
mod error;
mod follow;
mod idempotency_key;
mod mcp_message;
mod retry;
pub mod sse;
pub mod teams;
pub mod tools;
pub mod turns;
pub mod wire;

pub use address::{Address, Locate};
pub use client::{Client, GATE, INSTANCE, RestAnswer, SESSION};
pub use credentials::{Proof, SessionIssuer, session_key};
pub use error::ClientError;
pub use follow::{EventFollower, StreamItem};
pub use mcp_message::McpMessage;
pub use tools::Tools;
