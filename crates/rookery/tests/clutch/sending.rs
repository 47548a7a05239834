//! Short calls that send envelopes to a daemon.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use serde_json::{Value, json};

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

/// A daemon with these agents; the first of them leads.
pub async fn team(agents: &[&str]) -> Daemon {
    let daemon = setup().start().unwrap();
    for agent in agents {
        let announced = json!({"id": agent, "tool": "test", "role": "worker"});
        let reply = daemon.post("/agents/announce", announced).await.unwrap();
        assert_eq!(reply.status, 201, "{}", reply.body);
    }
    daemon
}

/// An envelope with the required fields, and `more` fields in addition.
pub fn envelope(id: &str, kind: &str, from: &str, more: Value) -> Value {
    let mut envelope = json!({
        "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11.123Z", "thread_id": "thr_talk", "run_id": "run_work",
        "task_id": "task_one", "from": {"agent_id": from}, "to": [{"agent_id": "agent:orchestrator"}], "type": kind,
        "payload": {},
    });
    for (field, value) in more.as_object().unwrap() {
        envelope[field] = value.clone();
    }
    envelope
}

pub async fn post(daemon: &Daemon, body: &Value) -> HttpReply {
    daemon.post("/clutch/v0/messages", body.clone()).await.unwrap()
}

pub async fn post_text(daemon: &Daemon, content_type: &str, body: impl Into<reqwest::Body>) -> HttpReply {
    let request = daemon.request(Method::POST, "/clutch/v0/messages").header("content-type", content_type).body(body);
    read(request).await.unwrap()
}

/// Sends an envelope that must be accepted, and returns its result.
pub async fn send_ok(daemon: &Daemon, envelope: &Value) -> Value {
    let reply = post(daemon, envelope).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    reply.body["results"][0].clone()
}

/// Sends an envelope that must be rejected; returns status, code and pointer.
pub async fn post_rejected(daemon: &Daemon, body: &Value) -> (u16, String, String) {
    rejection(&post(daemon, body).await)
}

/// Status, code and pointer of a rejection in the protocol's form.
pub fn rejection(reply: &HttpReply) -> (u16, String, String) {
    let body = &reply.body;
    assert!(body["message"].is_string() && body["retryable"].is_boolean() && body["details"].is_object(), "{body}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (reply.status.as_u16(), text(&body["code"]), text(&body["details"]["pointer"]))
}

pub fn rejection_of(status: u16, code: &str, pointer: &str) -> (u16, String, String) {
    (status, code.to_owned(), pointer.to_owned())
}

/// The kinds of all events so far.
pub fn event_kinds(daemon: &Daemon) -> Vec<String> {
    rows(daemon).iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
}

/// The number of events of envelopes and tool calls. Events of the router arrive in their own time.
pub fn count_incoming(daemon: &Daemon) -> usize {
    event_kinds(daemon).iter().filter(|kind| kind.starts_with("envelope.") || kind.starts_with("tool.")).count()
}

/// The rows of the log.
pub fn rows(daemon: &Daemon) -> Vec<Value> {
    daemon.export().unwrap().into_iter().filter(|row| row.get("seq").is_some()).collect()
}
