//! MCP over Streamable HTTP, for agents that call tools: protocol versions up to 2025-11-25 with sessions, and 2026-07-28
//! without, at the same addresses on TCP and on the Unix socket.
//!
//! `/mcp` offers every tool, `/mcp/<toolset>` a part of them. A tool is a function over (call, arguments) in `tools/`,
//! listed there and called at a `calls`; `protocol` answers the protocol's own methods, `http` stands between it and the router. Prompts, sampling,
//! elicitation and roots are left out: nothing here asks the client for anything.
//!
//! What is kept: sessions and their subscriptions, which end with their connections. Nobody ever waits for a client that
//! does not read: pushes go through `subscriptions`.

mod argument_error;
mod arguments;
mod auto_join;
mod bad_body;
mod call;
mod calls;
pub(crate) mod error;
pub mod examples;
mod http;
mod protocol;
pub mod reference;
mod resources;
mod schema;
mod sessions;
pub mod subscriptions;
mod tool;
pub mod tools;
mod toolset;
mod translate;
mod unread;
mod wake;

pub use call::Call;
pub use error::ToolError;
pub use http::{context_routes, route, routes};
pub use sessions::Sessions;
pub use subscriptions::Notices;
pub use tool::{Effect, Reply, Tool};
pub use toolset::Toolset;

use crate::app::App;

/// What this face does besides answering: tells subscribers what the log says, and ends sessions that nobody uses.
pub async fn keep_up(app: App) {
    tokio::join!(subscriptions::follow(&app), sessions::reap(&app));
}

/// Whether a path belongs to this face.
pub fn is_at(path: &str) -> bool {
    path.strip_prefix("/mcp").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
