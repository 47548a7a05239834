//! Endpoints that messages are sent to: their state, and how a person retries or discards their dead letters.

use axum::Json;
use axum::extract::State;
use rookery_core::Code;
use rookery_core::kernel::time::iso;
use rookery_engine::dispatcher::OutletStatus;
use rookery_engine::{DeadLetter, EndpointCursor, Failing};
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Call, Segment};
use super::{ClutchError, ClutchErrorBody};
use crate::http::App;

#[derive(Debug, Serialize, ToSchema)]
pub struct Endpoints {
    /// Those that messages are passed on to.
    endpoints: Vec<EndpointView>,
}

/// An endpoint that messages are sent to.
#[derive(Debug, Serialize, ToSchema)]
pub struct EndpointView {
    #[schema(examples("http:ci"))]
    name: String,
    /// `ok`, `failing`, or `full` if so much was put aside that nothing more is tried.
    state: &'static str,
    /// Everything in the log up to here is settled.
    place: Option<u64>,
    /// How many events of the log come after that, wanted or not.
    behind: u64,
    /// Since when nothing gets through.
    failing: Option<FailingView>,
    /// What was put aside, oldest first.
    dead: Vec<DeadView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FailingView {
    since: String,
    /// How often in a row.
    failures: u32,
    error: String,
    next_at: String,
}

/// A message that could not be passed on.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadView {
    /// Its place in the log.
    seq: u64,
    attempts: u32,
    error: String,
    at: String,
    /// It is about to be tried once more.
    again: bool,
}

fn shown(status: OutletStatus) -> EndpointView {
    let state = status.state();
    let OutletStatus { adapter, outbox, head } = status;
    let place = outbox.as_ref().map(|outbox| outbox.place.0);
    let (failing, dead) = outbox.map_or((None, vec![]), |EndpointCursor { failing, dead, .. }| (failing, dead));
    EndpointView {
        name: adapter,
        state,
        place,
        behind: place.map_or(0, |place| head.0.saturating_sub(place)),
        failing: failing.map(|Failing { since, failures, error, next_at }| FailingView {
            since: iso(since),
            failures,
            error,
            next_at: iso(next_at),
        }),
        dead: dead.into_iter().map(dead_view).collect(),
    }
}

fn dead_view(letter: DeadLetter) -> DeadView {
    let DeadLetter { seq, attempts, error, at, again } = letter;
    DeadView { seq: seq.0, attempts, error, at: iso(at), again }
}

/// List the endpoints that messages are sent to, such as outgoing webhooks.
#[utoipa::path(get, path = "/clutch/v0/endpoints", tag = "clutch", operation_id = "clutch_endpoints",
    responses((status = 200, body = Endpoints)))]
pub async fn list(State(app): State<App>, call: Call) -> Result<Json<Endpoints>, ClutchError> {
    call.reader().await?;
    let endpoints = app.engine().dispatcher().endpoints().await?.into_iter().map(shown).collect();
    Ok(Json(Endpoints { endpoints }))
}

/// Retry the dead letters of an endpoint, and at once the messages that wait: for a person.
#[utoipa::path(post, path = "/clutch/v0/endpoints/{name}/retry", tag = "clutch", operation_id = "clutch_endpoint_retry",
    params(("name" = String, Path)),
    responses((status = 200, body = EndpointView), (status = 403, body = ClutchErrorBody),
        (status = 404, body = ClutchErrorBody)))]
pub async fn retry(
    State(app): State<App>,
    call: Call,
    Segment(name): Segment,
) -> Result<Json<EndpointView>, ClutchError> {
    call.person()?;
    let status = known(&app, &name).await?;
    let outbox = app.engine().dispatcher().retry(&name).await?;
    Ok(Json(shown(OutletStatus { outbox, ..status })))
}

/// Discard the dead letters of an endpoint: for a person. They stay in the log, which records this.
#[utoipa::path(post, path = "/clutch/v0/endpoints/{name}/discard", tag = "clutch", operation_id = "clutch_endpoint_discard",
    params(("name" = String, Path)),
    responses((status = 200, body = EndpointView), (status = 403, body = ClutchErrorBody),
        (status = 404, body = ClutchErrorBody)))]
pub async fn let_go(
    State(app): State<App>,
    call: Call,
    Segment(name): Segment,
) -> Result<Json<EndpointView>, ClutchError> {
    let person = call.person()?;
    let status = known(&app, &name).await?;
    let outbox = app.engine().dispatcher().discard_dead_letters(&person, &name).await?;
    Ok(Json(shown(OutletStatus { outbox, ..status })))
}

async fn known(app: &App, name: &str) -> Result<OutletStatus, ClutchError> {
    let found = app.engine().dispatcher().endpoints().await?.into_iter().find(|status| status.adapter == name);
    found.ok_or_else(|| {
        let message = format!("there is no endpoint '{name}'");
        ClutchError::new(Code::AdapterNotFound, message)
            .hint("GET /clutch/v0/endpoints lists them; they are named in rookery.toml")
    })
}
