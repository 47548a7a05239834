//! Clutch over HTTP, under `/clutch/v0`.
//!
//! | file | what it owns |
//! |---|---|
//! | `agents` | the registry: cards of agents, whichever face they joined by |
//! | `artifacts` | content by its hash: upload, download, ranges |
//! | `call` | a request as every handler needs it |
//! | `envelopes` | envelopes that come in, and each by its id |
//! | `error` | the map from what can go wrong to this protocol's errors |
//! | `groups` | lists of agents that messages can be sent to |
//! | `page` | pages of what has a place in the log |
//! | `router` | what the router would do with a request |
//! | `schemas` | schemas of payloads |
//! | `workflows` | what the steps of workflows expect |

pub(crate) mod agents;
pub(crate) mod artifacts;
mod call;
pub(crate) mod envelopes;
mod error;
pub(crate) mod groups;
mod page;
pub(crate) mod router;
pub(crate) mod schemas;
pub(crate) mod wire;
pub(crate) mod workflows;

use axum::Router;
use axum::routing::{get, post};

pub use error::ClutchError;
pub(crate) use error::ClutchErrorBody;

use crate::app::App;

/// Where this face begins.
pub const ROOT: &str = "/clutch/v0";

pub fn routes() -> Router<App> {
    let routes = Router::new()
        .route("/agents", get(agents::list))
        .route("/agents/{id}", get(agents::get).put(agents::register).delete(agents::leave))
        .route("/agents/{id}/heartbeat", post(agents::heartbeat))
        .route("/artifacts", get(artifacts::list).post(artifacts::upload))
        .route("/artifacts/{id}", get(artifacts::download))
        .route("/groups", get(groups::list))
        .route("/groups/{name}", get(groups::get).put(groups::set).delete(groups::remove))
        .route("/messages", post(envelopes::ingest))
        .route("/messages/{id}", get(envelopes::get))
        .route("/router/explain", post(router::explain))
        .route("/schemas", get(schemas::list))
        .route("/schemas/{payload_type}", get(schemas::get).put(schemas::register))
        .route("/workflows", get(workflows::list))
        .route("/workflows/{name}", get(workflows::get).put(workflows::define));
    Router::new().nest(ROOT, routes)
}

/// Whether a request takes as long as there are bytes to carry, and bounds that by itself.
pub(crate) fn takes_its_time(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|path| path == "/artifacts" || path.starts_with("/artifacts/"))
}
