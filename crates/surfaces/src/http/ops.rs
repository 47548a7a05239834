//! What probes and operators ask: is it up, can it write, what does it measure.

use std::sync::OnceLock;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rookery_core::Code;
use rookery_engine::{Health, LeaderRole, NodeLiveness, ReadOnlyCause};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::HttpError;
use super::extract::Call;
use super::state::App;

pub fn routes() -> Router<App> {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).route("/metrics", get(show_metrics))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Probe {
    pub ok: bool,
}

/// The process is up.
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, body = Probe)))]
pub async fn healthz() -> Json<Probe> {
    Json(Probe { ok: true })
}

/// The store takes writes.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, body = Probe), (status = 503, body = super::error::ErrorBody)))]
pub async fn readyz(State(app): State<App>) -> Response {
    match app.engine().health() {
        Health::Writable => Json(Probe { ok: true }).into_response(),
        Health::ReadOnly { reason, cause } => {
            HttpError::new(Code::StoreUnavailable, format!("the store cannot write: {reason}"))
                .hint(next_step(cause))
                .retry_after(1)
                .into_response()
        }
    }
}

/// What a person does about a read-only store.
fn next_step(cause: ReadOnlyCause) -> &'static str {
    match cause {
        ReadOnlyCause::Interruption => {
            "reads continue, and writes resume by themselves when the cause is gone, such as when the disk has room again"
        }
        ReadOnlyCause::Damage => {
            "stop the daemon with `rookery down` and keep a copy of .rookery; then `rookery restore FILE --force` brings back \
             a backup, or `rookery export FILE` writes what can be read, for `rookery import` into an empty project"
        }
        ReadOnlyCause::Unfit => "reads continue; do what the reason says, then start the daemon again",
    }
}

/// Prometheus text.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, body = String, content_type = "text/plain"), (status = 503, body = super::error::ErrorBody)))]
pub async fn show_metrics(State(app): State<App>, call: Call) -> Result<Response, HttpError> {
    call.reader().await?;
    // What the process itself counts is worth showing also while the store is away, and then most of all.
    if let Ok(tallies) = app.engine().query().tallies().await {
        for (name, count) in &tallies.value {
            metrics::gauge!("rookery_rows", "tally" => name.clone()).set(*count as f64);
        }
        metrics::gauge!("rookery_log_head").set(tallies.head.head.0 as f64);
    }
    let writable = app.engine().health() == Health::Writable;
    metrics::gauge!("rookery_store_writable").set(f64::from(u8::from(writable)));
    measure_nodes(&app);
    metrics::gauge!("rookery_subscriptions").set(app.streams().taken() as f64);
    for pool in app.pools() {
        metrics::gauge!("rookery_places_taken", "pool" => pool.name()).set(pool.taken() as f64);
    }
    let text = recorder().map_or_else(String::new, |recorder| recorder.render());
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

fn measure_nodes(app: &App) {
    let attending = app.engine().cluster();
    let nodes = attending.nodes();
    for (state, whereabouts) in [("online", NodeLiveness::Online), ("offline", NodeLiveness::Offline)] {
        let count = nodes.iter().filter(|seen| seen.liveness == whereabouts).count();
        metrics::gauge!("rookery_nodes", "state" => state).set(count as f64);
    }
    for role in LeaderRole::ALL {
        let held = app.engine().cluster().leader_epoch(role).is_some();
        metrics::gauge!("rookery_leader_role_held", "leader_role" => role.name()).set(f64::from(u8::from(held)));
    }
    metrics::gauge!("rookery_clock_ahead_seconds").set(attending.clock_ahead_millis() as f64 / 1_000.0);
}

/// Bounds of the time that requests take, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The one recorder of this process; `None` if somebody else installed one.
pub fn recorder() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let install = || PrometheusBuilder::new().set_buckets(&BUCKETS).ok()?.install_recorder().ok();
    RECORDER.get_or_init(install).as_ref()
}

/// Folds what was measured into its buckets from time to time, so that it does not pile up when nobody looks.
pub async fn keep_up() {
    loop {
        tokio::time::sleep(UPKEEP_INTERVAL).await;
        if let Some(recorder) = recorder() {
            recorder.run_upkeep();
        }
    }
}
