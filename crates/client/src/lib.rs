//! The client of a running daemon: what the command line and the runner speak to it with.
//!
//! It knows the rules' words and the wire, no store and no engine, and prints nothing. [`Client`] makes calls of the REST
//! face, [`Tools`] those of tools as an agent, [`Follower`] the event stream. A daemon may be restarted, also elsewhere: a
//! client that is told to be patient finds it again and asks again, under a key, so that nothing is done twice.

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

pub use address::{Address, Whereabouts};
pub use client::{Answer, Client, GATE, INSTANCE, SESSION};
pub use credentials::{Proof, SessionIssuer, session_key};
pub use error::ClientError;
pub use follow::{Followed, Follower};
pub use mcp_message::Message;
pub use tools::Tools;
