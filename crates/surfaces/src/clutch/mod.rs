//! Clutch over HTTP, under `/clutch/v0`.
//!
//! | file | what it owns |
//! |---|---|
//! | `call` | a request as every handler needs it |
//! | `error` | the map from what can go wrong to this protocol's errors |
//! | `filter` | which messages, as addresses and frames say it |
//! | `messages` | messages by run, thread, task, sender and type |
//! | `replay` | the messages of a run once more, at once or in their time |
//! | `runs` | runs, and each as a tree of its tasks |
//! | `stream` | messages as they come, by WebSocket |

mod call;
mod error;
mod filter;
pub(crate) mod messages;
pub(crate) mod replay;
pub(crate) mod runs;
pub(crate) mod stream;

use axum::Router;
use axum::routing::get;

pub use error::ClutchError;
pub(crate) use error::ClutchErrorBody;

use crate::app::App;

/// Where this face begins.
pub const ROOT: &str = "/clutch/v0";

pub fn routes() -> Router<App> {
    let routes = Router::new()
        .route("/messages", get(messages::list))
        .route("/runs", get(runs::list))
        .route("/runs/{id}", get(runs::tree))
        .route("/runs/{id}/replay", get(replay::replay))
        .route("/stream", get(stream::stream));
    Router::new().nest(ROOT, routes)
}
