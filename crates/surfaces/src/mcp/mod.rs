//! MCP over Streamable HTTP, for agents that call tools: protocol versions up to 2025-11-25 with sessions, and 2026-07-28
//! without, at the same addresses on TCP and on the Unix socket.
//!
//! `/mcp` offers every tool, `/mcp/<toolset>` a part of them. A tool is a function over (call, arguments) in `tools/`,
//! listed there and called by `calls`; `protocol` answers the protocol's own methods, `http` stands between it and the
//! router. Prompts, sampling, elicitation and roots are left out: nothing here asks the client for anything.
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
use sessions::Sessions;
use subscriptions::Subscriptions;
pub use tool::{Effect, Tool, ToolAnswer, ToolReply};
pub use toolset::Toolset;

use std::sync::Arc;

use crate::http::App;

/// The connected clients: their sessions and what they follow. Shared by all addresses of this surface.
#[derive(Clone, Debug)]
pub struct Clients {
    sessions: Arc<Sessions>,
    subscriptions: Arc<Subscriptions>,
}

impl Clients {
    pub fn new(app: &App) -> Clients {
        let sessions = Arc::new(Sessions::new(app.limits(), app.engine().clock().clone()));
        Clients { sessions, subscriptions: Arc::default() }
    }
}

/// The work of this surface besides answering: notifies subscribers of changes, and ends sessions that are not used.
pub async fn keep_up(app: App, clients: Clients) {
    tokio::join!(subscriptions::follow(&app, &clients.subscriptions), sessions::reap(&app, &clients.sessions));
}

/// Whether a path belongs to this surface.
pub fn is_at(path: &str) -> bool {
    path.strip_prefix("/mcp").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
