//! Spans of tasks, as a collector receives them.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as Ended;
use prost::Message;
use rookery_testkit::wait;
use serde_json::json;
use tokio::net::TcpListener;

use crate::sending::{envelope, send_ok, setup};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A collector that is unavailable for its first request.
#[derive(Clone, Default)]
struct Collector {
    requests: Arc<Mutex<u32>>,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = self.clone();
        let take = move |body: Bytes| async move { collector.take(&body) };
        let app = axum::Router::new().route("/v1/traces", post(take));
        tokio::spawn(async move { axum::serve(listener, app).await });
        address
    }

    fn take(&self, body: &[u8]) -> StatusCode {
        let mut requests = self.requests.lock().unwrap();
        *requests += 1;
        if *requests == 1 {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        for resource in request.resource_spans {
            let named = resource.resource.unwrap().attributes;
            assert!(named.iter().any(|attribute| attribute.key == "service.name"), "{named:?}");
            self.spans.lock().unwrap().extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        StatusCode::OK
    }

    /// Waits for the span with this name.
    async fn span(&self, name: &str) -> Span {
        let find = || self.spans.lock().unwrap().iter().find(|span| span.name == name).cloned();
        wait::eventually(&format!("a span '{name}'"), || async { Ok(find()) }).await.unwrap()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn ended_tasks_are_exported_as_spans_of_their_trace() {
    let collector = Collector::default();
    let endpoint = collector.listen().await;
    let daemon = setup().env("ROOKERY_OTLP_ENDPOINT", &endpoint).start().unwrap();
    for agent in ["ken", "ada"] {
        let card = json!({"v": "clutch/0.1", "agent_id": agent});
        send_ok(&daemon, &envelope(&format!("reg_{agent}"), "agent.register", agent, json!({"payload": card}))).await;
    }
    let to = |agent: &str| json!([{"agent_id": format!("agent:{agent}")}]);
    let trace = json!({"trace_id": TRACE, "span_id": "00f067aa0ba902b7"});
    let asked = json!({"task_id": "t", "to": to("ken"), "trace": trace, "payload": {"title": "Look it up"}});
    send_ok(&daemon, &envelope("req", "task.request", "ui", asked)).await;
    accept_when_given(&daemon, "ken", "t").await;
    // A subtask without its own trace belongs to the trace of its parent.
    let part = json!({"task_id": "p", "parent_task_id": "t", "to": to("ada"), "payload": {"title": "Ask around"}});
    send_ok(&daemon, &envelope("sub", "task.request", "ken", part)).await;
    accept_when_given(&daemon, "ada", "p").await;
    let failed =
        json!({"task_id": "p", "payload": {"code": "NO_ANSWER", "message": "nobody knows", "retryable": false}});
    send_ok(&daemon, &envelope("err", "task.error", "ada", failed)).await;
    let done = json!({"task_id": "t", "payload": {"title": "done"}});
    send_ok(&daemon, &envelope("res", "task.result", "ken", done)).await;

    let whole = collector.span("task Look it up").await;
    assert_eq!((hex(&whole.trace_id).as_str(), hex(&whole.parent_span_id).as_str()), (TRACE, "00f067aa0ba902b7"));
    assert_eq!(whole.status.as_ref().unwrap().code(), Ended::Ok);
    let part = collector.span("task Ask around").await;
    assert_eq!((hex(&part.trace_id).as_str(), &part.parent_span_id), (TRACE, &whole.span_id));
    assert_eq!(part.status.as_ref().unwrap().code(), Ended::Error);
    let work = collector.span("invoke_agent ken").await;
    assert_eq!((&work.trace_id, &work.parent_span_id), (&whole.trace_id, &whole.span_id));
    assert!(whole.start_time_unix_nano <= work.start_time_unix_nano);
    assert!(work.end_time_unix_nano <= whole.end_time_unix_nano);

    // Tasks without a trace share one per run.
    for task in ["a", "b"] {
        let plain = json!({"task_id": task, "to": to("ken"), "payload": {"title": format!("Plain {task}")}});
        send_ok(&daemon, &envelope(&format!("req_{task}"), "task.request", "ui", plain)).await;
        let dropped = json!({"task_id": task});
        send_ok(&daemon, &envelope(&format!("can_{task}"), "task.cancel", "ui", dropped)).await;
    }
    let (a, b) = (collector.span("task Plain a").await, collector.span("task Plain b").await);
    assert_eq!(a.trace_id, b.trace_id);
    assert!(hex(&a.trace_id) != TRACE && a.parent_span_id.is_empty() && a.span_id != b.span_id);
}

/// Accepts a task once it is reserved for the agent.
async fn accept_when_given(daemon: &rookery_testkit::daemon::Daemon, agent: &str, task: &str) {
    let given = || async {
        let found = daemon.get(&format!("/tasks/{task}")).await?.body;
        Ok((found["assigned_to"] == agent).then_some(()))
    };
    wait::eventually(&format!("{task} for {agent}"), given).await.unwrap();
    send_ok(daemon, &envelope(&format!("acc_{task}"), "task.accept", agent, json!({"task_id": task}))).await;
}

#[tokio::test]
async fn invalid_otlp_address_prevents_the_start() {
    let rejected = setup().env("ROOKERY_OTLP_ENDPOINT", "collector:4318").start().unwrap_err().to_string();
    assert!(rejected.contains("otlp_endpoint") && rejected.contains("http://127.0.0.1:4318"), "{rejected}");
}
