//! Assembles the surfaces: their routes, the guard before them, and the work that they do besides answering.

use std::sync::Arc;

use axum::middleware;
use axum::response::IntoResponse;
use axum::{Extension, Router};
use rookery_core::Instance;

use crate::clutch::{self, ClutchError};
use crate::http::guard::{self, GuardPolicy, RequestBounds};
use crate::http::server::{Listening, Server};
use crate::http::{App, instance_sockets, ops};
use crate::mcp::{self, Clients};
use crate::{openapi, rest, web};

/// How the guard treats the requests of each surface.
const POLICY: GuardPolicy = GuardPolicy {
    is_page: web::is_page,
    bounds: |path| match path {
        // A tool call outlasts the head of its answer.
        path if mcp::is_at(path) => RequestBounds::Own,
        path if clutch::is_long_lived(path) => RequestBounds::Place,
        _ => RequestBounds::PlaceAndTime,
    },
    query_parameters: openapi::query_parameters,
    render_error: |path, error| match clutch::is_at(path) {
        true => ClutchError::from(error).into_response(),
        false => error.into_response(),
    },
};

/// Serves every surface until the app is told to stop.
pub async fn serve(app: App, listening: Listening) {
    let clients = Clients::new(&app);
    let upkeep = tokio::spawn(mcp::keep_up(app.clone(), clients.clone()));
    let routes = routes(&app, &clients);
    let of_instance = {
        let app = app.clone();
        Arc::new(move |instance| instance_routes(&app, &clients, instance))
    };
    Server::new(app, routes).with_instance_routes(of_instance).run(listening).await;
    upkeep.abort();
}

/// Every route of every surface, with the guard before them.
fn routes(app: &App, clients: &Clients) -> Router {
    let routes = rest::routes()
        .merge(openapi::routes())
        .merge(ops::routes())
        .merge(web::routes())
        .merge(mcp::routes(app, clients))
        .merge(clutch::routes());
    guard::around(routes, app, POLICY).with_state(app.clone())
}

/// The routes of the socket of an instance: the tools, with those of its context first.
fn instance_routes(app: &App, clients: &Clients, instance: Instance) -> Router {
    let routes = mcp::context_routes(app, clients)
        .layer(middleware::from_fn_with_state(app.clone(), instance_sockets::name_members))
        .layer(Extension(instance));
    guard::around(routes, app, POLICY).with_state(app.clone())
}
