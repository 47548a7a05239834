//! The faces of Rookery. Each translates its protocol into requests to the engine and renders the answers; it keeps
//! nothing of its own.
//!
//! `rest` is the plain HTTP face; `mcp` is the one for agents that speak MCP; `clutch` is the gateway of that protocol; `web`
//! is what a browser sees; `ops` is what operators and probes ask for; `guard` stands before all of them; `serve` holds the
//! sockets.

pub mod app;
pub mod clutch;
pub mod error_page;
mod files;
pub mod guard;
pub mod mcp;
pub mod ops;
mod peer;
pub mod rest;
mod sender;
mod sent;
pub mod serve;
mod shares;
pub mod sockets;
pub mod web;

pub use app::{App, Limits};
pub use serve::{Listening, Server};

/// Every route of every face, with the guard before them.
pub fn router(app: App) -> axum::Router {
    let routes =
        rest::routes().merge(ops::routes()).merge(web::routes()).merge(mcp::routes(&app)).merge(clutch::routes());
    guard::around(routes, &app).with_state(app)
}

/// The routes of the socket of an instance: the tools, with those of its context first.
pub(crate) fn context_router(app: App, instance: rookery_core::Instance) -> axum::Router {
    let routes = mcp::context_routes(&app)
        .layer(axum::middleware::from_fn_with_state(app.clone(), sockets::name_members))
        .layer(axum::Extension(instance));
    guard::around(routes, &app).with_state(app)
}
