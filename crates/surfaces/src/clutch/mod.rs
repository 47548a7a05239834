//! Clutch v0: the gateway for agents that speak the protocol of envelopes and cards.
//!
//! Everything is under `/clutch/v0`. Ids are taken with or without their prefix (`agent:ken`), and shown with it. A handler
//! parses, submits and renders, as those of `rest` do, whose way of telling who calls it shares.

pub mod agents;
mod call;
mod error;
pub mod wire;

use axum::Router;
use axum::routing::{get, post};

pub use error::ClutchError;

use crate::app::App;

pub const PREFIX: &str = "/clutch/v0";

pub fn routes() -> Router<App> {
    let routes = Router::new()
        .route("/agents", get(agents::list))
        .route("/agents/{id}", get(agents::get).put(agents::register).delete(agents::leave))
        .route("/agents/{id}/heartbeat", post(agents::heartbeat));
    Router::new().nest(PREFIX, routes)
}
