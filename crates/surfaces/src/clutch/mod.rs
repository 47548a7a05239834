//! Clutch over HTTP, under `/clutch/v0`.
//!
//! | file | what it owns |
//! |---|---|
//! | `artifacts` | content by its hash: upload, download, ranges |
//! | `call` | a request as every handler needs it |
//! | `error` | the map from what can go wrong to this protocol's errors |

pub(crate) mod artifacts;
mod call;
mod error;

use axum::Router;
use axum::routing::get;

pub use error::ClutchError;
pub(crate) use error::ClutchErrorBody;

use crate::app::App;

/// Where this face begins.
pub const ROOT: &str = "/clutch/v0";

pub fn routes() -> Router<App> {
    let routes = Router::new()
        .route("/artifacts", get(artifacts::list).post(artifacts::upload))
        .route("/artifacts/{id}", get(artifacts::download));
    Router::new().nest(ROOT, routes)
}

/// Whether a request takes as long as there are bytes to carry, and bounds that by itself.
pub(crate) fn takes_its_time(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|path| path == "/artifacts" || path.starts_with("/artifacts/"))
}
