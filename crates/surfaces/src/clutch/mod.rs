//! Clutch over HTTP, under `/clutch/v0`.
//!
//! | file | what it owns |
//! |---|---|
//! | `call` | a request as every handler needs it |
//! | `envelopes` | envelopes that come in, and each by its id |
//! | `error` | the map from what can go wrong to this protocol's errors |
//! | `router` | what the router would do with a request |

mod call;
pub(crate) mod envelopes;
mod error;
pub(crate) mod router;

use axum::Router;
use axum::routing::{get, post};

pub use error::ClutchError;
pub(crate) use error::ClutchErrorBody;

use crate::app::App;

/// Where this face begins.
pub const ROOT: &str = "/clutch/v0";

pub fn routes() -> Router<App> {
    let routes = Router::new()
        .route("/messages", post(envelopes::ingest))
        .route("/messages/{id}", get(envelopes::get))
        .route("/router/explain", post(router::explain));
    Router::new().nest(ROOT, routes)
}
