//! Clutch over HTTP, under `/clutch/v0`.
//!
//! | file | what it owns |
//! |---|---|
//! | `endpoints` | how adapters do that messages are passed on to |
//! | `agents` | the registry: cards of agents, whichever face they joined by |
//! | `artifacts` | content by its hash: upload, download, ranges |
//! | `call` | a request as every handler needs it |
//! | `deliveries` | where every message stands with each of its recipients |
//! | `envelopes` | envelopes that come in, and each by its id |
//! | `error` | the map from what can go wrong to this protocol's errors |
//! | `filter` | which messages, as addresses and frames say it |
//! | `hooks` | what other programs POST in forms of their own, at `/hooks/{name}` |
//! | `groups` | lists of agents that messages can be sent to |
//! | `inbox` | what waits for an agent, pulled and acknowledged |
//! | `openapi` | what of the description of this face is not made from its handlers |
//! | `messages` | messages by run, thread, task, sender and type |
//! | `parameters` | which parameters each call takes |
//! | `replay` | the messages of a run once more, at once or in their time |
//! | `retry` | a part of a run once more |
//! | `router` | what the router would do with a request |
//! | `runs` | runs, and each as a tree of its tasks |
//! | `schemas` | schemas of payloads |
//! | `stream` | messages as they come, by WebSocket |
//! | `step_contracts` | what the steps of workflows expect |

pub(crate) mod agents;
pub(crate) mod artifacts;
mod call;
pub(crate) mod deliveries;
pub(crate) mod endpoints;
pub(crate) mod envelopes;
mod error;
mod filter;
pub(crate) mod groups;
pub(crate) mod hooks;
pub(crate) mod inbox;
pub(crate) mod messages;
pub(crate) mod openapi;
mod parameters;
pub(crate) mod replay;
pub(crate) mod retry;
pub(crate) mod router;
pub(crate) mod runs;
pub(crate) mod schemas;
pub(crate) mod step_contracts;
pub(crate) mod stream;
pub(crate) mod wire;

use axum::Router;
use axum::routing::{get, post};

pub use error::ClutchError;
pub(crate) use error::ClutchErrorBody;
pub use step_contracts::{StepContractFormat, read_step_contracts};

use crate::http::App;

/// Where this face begins.
pub const ROOT: &str = "/clutch/v0";

pub fn routes() -> Router<App> {
    let routes = Router::new()
        .route("/endpoints", get(endpoints::list))
        .route("/endpoints/{name}/retry", post(endpoints::retry))
        .route("/endpoints/{name}/discard", post(endpoints::let_go))
        .route("/agents", get(agents::list))
        .route("/agents/{id}", get(agents::get).put(agents::register).delete(agents::leave))
        .route("/agents/{id}/heartbeat", post(agents::heartbeat))
        .route("/agents/{id}/inbox", get(inbox::pull))
        .route("/agents/{id}/inbox/ack", post(inbox::ack))
        .route("/artifacts", get(artifacts::list).post(artifacts::upload))
        .route("/artifacts/{id}", get(artifacts::download).head(artifacts::head))
        .route("/groups", get(groups::list))
        .route("/groups/{name}", get(groups::get).put(groups::set).delete(groups::remove))
        .route("/deliveries", get(deliveries::list))
        .route("/deliveries/{id}/retry", post(deliveries::retry))
        .route("/messages", get(messages::list).post(envelopes::ingest))
        .route("/messages/{id}", get(envelopes::get))
        .route("/router/explain", post(router::explain))
        .route("/schemas", get(schemas::list))
        .route("/schemas/{payload_type}", get(schemas::get).put(schemas::register))
        .route("/step-contracts", get(step_contracts::list))
        .route("/step-contracts/{name}", get(step_contracts::get).put(step_contracts::define))
        .route("/runs", get(runs::list))
        .route("/runs/{id}", get(runs::tree))
        .route("/runs/{id}/replay", get(replay::replay))
        .route("/runs/{id}/retry", post(retry::retry))
        .route("/stream", get(stream::stream));
    Router::new().nest(ROOT, routes).route("/hooks/{name}", post(hooks::receive))
}

/// Whether a path is one of this face, so that errors there are in its form.
pub(crate) fn is_at(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) || is_hook(path)
}

/// Whether a path takes what other programs post, in their own forms.
pub(crate) fn is_hook(path: &str) -> bool {
    path.starts_with("/hooks/")
}

/// Whether a request takes as long as there are bytes to carry or something to wait for, and bounds that itself.
pub(crate) fn is_long_lived(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|path| {
        let waits = path.starts_with("/agents/") && path.ends_with("/inbox");
        waits || path == "/artifacts" || path.starts_with("/artifacts/")
    })
}
