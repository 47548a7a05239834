//! Spans of tasks for an OpenTelemetry collector, if there is one.
//!
//! A task is told of when it has ended. One node tells, the one that has the duty of upkeep. What a collector does not take
//! is tried again for a while and then dropped: telemetry never holds up the work that it tells of.

mod span;

use rookery_core::{EventRef, TaskId, Timestamp};
use std::time::Duration;

use anyhow::Context;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use reqwest::Url;
use rookery_core::traits::LogRow;
use rookery_engine::Engine;
use rookery_engine::subscribe::{SubscribeError, Subscription};
use rookery_store::node::LeaderRole;
use tokio::task::JoinHandle;

/// How long a collector may take.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a collector is asked to take the same spans, and the first pause between; the next ones are longer.
const TRIES: u32 = 4;
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
/// Where a collector takes traces.
const PATH: &str = "/v1/traces";

/// Sends spans to the collector at an address until it is dropped or the daemon stops.
#[derive(Debug)]
pub struct Telemetry(JoinHandle<()>);

impl Telemetry {
    pub fn start(engine: &Engine, endpoint: &Url, project: &str) -> anyhow::Result<Telemetry> {
        let exporter = exporter(endpoint, project)?;
        Ok(Telemetry(tokio::spawn(tell(engine.clone(), exporter))))
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn exporter(endpoint: &Url, project: &str) -> anyhow::Result<SpanExporter> {
    // Fails only if it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .timeout(EXPORT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .context("cannot make an HTTP client")?;
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(address(endpoint))
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .with_context(|| format!("otlp_endpoint '{endpoint}' cannot be used"))?;
    let attributes = [
        opentelemetry::KeyValue::new("service.version", crate::daemon::VERSION),
        opentelemetry::KeyValue::new("service.namespace", project.to_owned()),
    ];
    exporter.set_resource(&Resource::builder().with_service_name("rookery").with_attributes(attributes).build());
    Ok(exporter)
}

/// The address that traces are sent to.
fn address(endpoint: &Url) -> String {
    let base = endpoint.as_str().trim_end_matches('/');
    if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") }
}

async fn tell(engine: Engine, exporter: SpanExporter) {
    loop {
        match engine.subscribe(None).await {
            Ok(subscription) => match follow(&engine, &exporter, subscription).await {
                SubscribeError::Stopped => return,
                error => tracing::warn!(%error, "spans of tasks that end now are not sent"),
            },
            Err(SubscribeError::Stopped) => return,
            Err(error) => tracing::warn!(%error, "the log cannot be followed for spans"),
        }
        tokio::time::sleep(INITIAL_BACKOFF).await;
    }
}

async fn follow(engine: &Engine, exporter: &SpanExporter, mut subscription: Subscription) -> SubscribeError {
    loop {
        let chunk = match subscription.next().await {
            Ok(chunk) => chunk,
            Err(error) => return error,
        };
        if engine.cluster().leader_epoch(LeaderRole::Upkeep).is_none() {
            continue;
        }
        let mut spans = Vec::new();
        for (task, at) in chunk.rows().iter().filter_map(ended) {
            match engine.history().trace(task).await {
                Ok(Some(traced)) => spans.extend(span::of(&traced, at)),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, %task, "a task could not be read for its spans"),
            }
        }
        if !spans.is_empty() {
            send(exporter, spans).await;
        }
    }
}

/// The task that a row ends.
fn ended(row: &LogRow) -> Option<(&TaskId, Timestamp)> {
    match row.event.typed() {
        EventRef::TaskCompleted(fact) => Some((&fact.task, row.at)),
        EventRef::TaskFailed(fact) => Some((&fact.task, row.at)),
        EventRef::TaskTimedOut(fact) => Some((&fact.task, row.at)),
        EventRef::TaskCancelled(fact) => Some((&fact.task, row.at)),
        EventRef::TaskSkipped(fact) => Some((&fact.task, row.at)),
        _ => None,
    }
}

async fn send(exporter: &SpanExporter, spans: Vec<SpanData>) {
    let mut pause = INITIAL_BACKOFF;
    for _ in 1..TRIES {
        if exporter.export(spans.clone()).await.is_ok() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    let count = spans.len();
    if let Err(error) = exporter.export(spans).await {
        tracing::warn!(%error, count, "the collector does not take spans: they are lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_by_its_base_or_by_the_whole_address() {
        for endpoint in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces", "http://c:4318/v1/traces/"] {
            assert_eq!(address(&endpoint.parse().unwrap()), "http://c:4318/v1/traces");
        }
        assert_eq!(address(&"https://c/otel".parse().unwrap()), "https://c/otel/v1/traces");
    }
}
