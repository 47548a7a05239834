//! How those adapters do that messages are passed on to, and what a person can do about what did not get through.

use axum::Json;
use axum::extract::State;
use rookery_core::Code;
use rookery_core::kernel::time::iso;
use rookery_engine::adapter::OutletStatus;
use rookery_engine::{DeadLetter, EndpointCursor, Failing};
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Call, Segment};
use super::{ClutchError, ClutchErrorBody};
use crate::http::App;

#[derive(Debug, Serialize, ToSchema)]
pub struct Adapters {
    /// Those that messages are passed on to.
    adapters: Vec<AdapterView>,
}

/// An adapter that messages are passed on to.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdapterView {
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

fn shown(status: OutletStatus) -> AdapterView {
    let state = status.state();
    let OutletStatus { adapter, outbox, head } = status;
    let place = outbox.as_ref().map(|outbox| outbox.place.0);
    let (failing, dead) = outbox.map_or((None, vec![]), |EndpointCursor { failing, dead, .. }| (failing, dead));
    AdapterView {
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

/// How the adapters do that messages are passed on to, such as webhooks that go out.
#[utoipa::path(get, path = "/clutch/v0/adapters", tag = "clutch", operation_id = "clutch_adapters",
    responses((status = 200, body = Adapters)))]
pub async fn list(State(app): State<App>, call: Call) -> Result<Json<Adapters>, ClutchError> {
    call.reader().await?;
    let adapters = app.engine().dispatcher().endpoints().await?.into_iter().map(shown).collect();
    Ok(Json(Adapters { adapters }))
}

/// Try again what an adapter put aside, and at once what waits: for a person.
#[utoipa::path(post, path = "/clutch/v0/adapters/{name}/retry", tag = "clutch", operation_id = "clutch_adapter_retry",
    params(("name" = String, Path)),
    responses((status = 200, body = AdapterView), (status = 403, body = ClutchErrorBody),
        (status = 404, body = ClutchErrorBody)))]
pub async fn retry(
    State(app): State<App>,
    call: Call,
    Segment(name): Segment,
) -> Result<Json<AdapterView>, ClutchError> {
    call.person()?;
    let status = known(&app, &name).await?;
    let outbox = app.engine().dispatcher().retry(&name).await?;
    Ok(Json(shown(OutletStatus { outbox, ..status })))
}

/// Let go of what an adapter put aside: for a person. It stays in the log, which tells that it was let go of.
#[utoipa::path(post, path = "/clutch/v0/adapters/{name}/drop", tag = "clutch", operation_id = "clutch_adapter_drop",
    params(("name" = String, Path)),
    responses((status = 200, body = AdapterView), (status = 403, body = ClutchErrorBody),
        (status = 404, body = ClutchErrorBody)))]
pub async fn let_go(
    State(app): State<App>,
    call: Call,
    Segment(name): Segment,
) -> Result<Json<AdapterView>, ClutchError> {
    let person = call.person()?;
    let status = known(&app, &name).await?;
    let outbox = app.engine().dispatcher().discard_dead_letters(&person, &name).await?;
    Ok(Json(shown(OutletStatus { outbox, ..status })))
}

async fn known(app: &App, name: &str) -> Result<OutletStatus, ClutchError> {
    let found = app.engine().dispatcher().endpoints().await?.into_iter().find(|status| status.adapter == name);
    found.ok_or_else(|| {
        let message = format!("messages are passed on to no adapter '{name}'");
        ClutchError::new(Code::AdapterNotFound, message)
            .hint("GET /clutch/v0/adapters lists them; they are named in rookery.toml")
    })
}
