//! The surfaces of Rookery. Each translates its protocol into requests to the engine and renders the answers; it keeps
//! no state besides connections.
//!
//! `rest` is the plain HTTP surface, `mcp` the one for agents that speak MCP, `clutch` the gateway of that protocol, `web` the
//! pages for browsers. None of these imports another, besides `web`, which shows what `rest` offers. `http` is the layer below
//! them and knows none of them; `router` assembles all of them.

pub mod clutch;
pub mod error_page;
pub mod http;
pub mod mcp;
pub mod openapi;
pub mod rest;
mod router;
pub mod web;

pub use http::server::{Listening, Server};
pub use http::{App, Limits};
pub use router::serve;
