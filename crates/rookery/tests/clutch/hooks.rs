//! Incoming webhooks end to end: signed requests become envelopes, each once.

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use rookery_engine::adapters::seal;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;

use crate::sending::{event_kinds, rejection, rejection_of, rows, setup};
use crate::team::ok;

const SECRET: &str = "correct horse battery staple";
const CONFIG: &str = r#"
[adapters.http.github]
scheme = "github"
secret_env = "TEST_GITHUB_SECRET"
thread_id = "/repository/full_name"
requires = ["skill:triage"]
when = { "header:X-GitHub-Event" = "issues", "/action" = ["opened", "reopened"] }
payload = { title = "/issue/title", description = "/issue/body", url = "/issue/html_url", labels = "/issue/labels", source = "github" }

[adapters.http.ci]
secret_file = "ci.secret"
from = "agent:builder"
type = "chat.message"
to = "/notify"
thread_id = "thr_builds"
delivery = "/build"
payload = { text = "/message" }

[adapters.http.raw]
secret_file = "ci.secret"
type = "x.raw"

[adapters.http.release]
secret_file = "ci.secret"
deadline = "/due"
limits = { max_runtime_sec = 600, max_attempts = "/tries" }
policy = { sandbox = true, network = "/network" }
attachments = "/reports"
trace = { trace_id = "header:X-Trace" }
workflow = "release"
step = "/stage"
payload = { title = "/name" }
"#;

struct HookedDaemon {
    daemon: Daemon,
    folder: TempDir,
}

fn start_with_hook(setup: Setup) -> HookedDaemon {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rookery.toml"), CONFIG).unwrap();
    std::fs::write(folder.path().join("ci.secret"), format!("{SECRET}\n")).unwrap();
    let daemon = setup.env("TEST_GITHUB_SECRET", SECRET).start_at(folder.path()).unwrap();
    HookedDaemon { daemon, folder }
}

fn now() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "a sender signs with its own clock")]
    let now = SystemTime::now();
    i64::try_from(now.duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

async fn send(daemon: &Daemon, hook: &str, body: &str, headers: &[(&str, &str)]) -> HttpReply {
    let mut request = daemon.request(Method::POST, &format!("/hooks/{hook}")).body(body.to_owned());
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    read(request).await.unwrap()
}

/// Sends a request signed as GitHub does.
async fn send_as_github(daemon: &Daemon, event: &str, delivery: &str, body: &str) -> HttpReply {
    let mut mac: Hmac<Sha256> = Hmac::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let signature = format!("sha256={digits}");
    let headers =
        [("x-github-event", event), ("x-github-delivery", delivery), ("x-hub-signature-256", signature.as_str())];
    send(daemon, "github", body, &headers).await
}

/// Sends a request with our own signature and this time.
async fn send_signed(daemon: &Daemon, hook: &str, at: i64, body: &str, delivery: Option<&str>) -> HttpReply {
    let signature = format!("t={at},v1={}", seal(SECRET.as_bytes(), at, body.as_bytes()));
    let mut headers = vec![("x-rookery-signature", signature.as_str())];
    headers.extend(delivery.map(|delivery| ("x-rookery-delivery", delivery)));
    send(daemon, hook, body, &headers).await
}

fn issue(number: u32) -> String {
    json!({
        "action": "opened", "repository": {"full_name": "acme/shop"},
        "issue": {"number": number, "title": format!("It is broken ({number})"), "body": null,
                  "html_url": "https://example.org/1", "labels": [{"name": "bug"}]},
    })
    .to_string()
}

#[tokio::test]
async fn duplicate_github_delivery_creates_one_task() {
    let HookedDaemon { daemon, folder: _folder } = start_with_hook(setup());
    let reply = send_as_github(&daemon, "issues", "d-1", &issue(1)).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let result = &reply.body["results"][0];
    assert_eq!(result["duplicate"], false);
    let id = result["id"].as_str().unwrap();
    let message = ok(&daemon, &format!("/messages/{id}")).await;
    assert_eq!((&message["type"], &message["from"]), (&json!("task.request"), &json!({"agent_id": "agent:github"})));
    assert_eq!(
        (&message["to"], &message["requires"]),
        (&json!([{"agent_id": "agent:orchestrator"}]), &json!(["skill:triage"]))
    );
    assert_eq!(
        (&message["thread_id"], &message["meta"]),
        (&json!("acme/shop"), &json!({"hook": "github", "delivery": "d-1"}))
    );
    let payload = json!({"title": "It is broken (1)", "description": null, "url": "https://example.org/1",
                         "labels": [{"name": "bug"}], "source": "github"});
    assert_eq!(message["payload"], payload);
    let task = message["task_id"].as_str().unwrap();
    let shown = daemon.get(&format!("/tasks/{task}")).await.unwrap().body;
    assert_eq!((&shown["title"], &shown["assigned_by"]), (&json!("It is broken (1)"), &json!("github")));
    let received = rows(&daemon).into_iter().find(|row| row["fact"]["message"] == id).unwrap();
    assert_eq!((&received["auth"], &received["via"]), (&json!("token"), &json!("hook:github")));

    let before = event_kinds(&daemon).iter().filter(|kind| *kind == "task.created").count();
    let again = send_as_github(&daemon, "issues", "d-1", &issue(1)).await;
    assert_eq!((again.status.as_u16(), &again.body["results"][0]["duplicate"]), (202, &json!(true)));
    assert_eq!(again.body["results"][0]["seq"], result["seq"]);
    let stolen = send_as_github(&daemon, "issues", "d-2", &issue(1)).await;
    assert_eq!((stolen.status.as_u16(), &stolen.body["code"]), (409, &json!("REPLAYED")), "under another name");
    assert_eq!(event_kinds(&daemon).iter().filter(|kind| *kind == "task.created").count(), before);
    assert_eq!(send_as_github(&daemon, "issues", "d-3", &issue(2)).await.status, 202);
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn hook_mapping_sets_the_terms_of_the_request() {
    let HookedDaemon { daemon, folder: _folder } = start_with_hook(setup());
    let expects = json!({"type": "task.result", "payload_type": "research.summary.v1", "required": ["findings"]});
    let steps = json!({"workflow": "release", "steps": [{"id": "build", "expects": expects}]});
    let defined = daemon.request(Method::PUT, "/clutch/v0/step-contracts/release").json(&steps);
    let defined = read(defined).await.unwrap();
    assert!(defined.status.is_success(), "{}", defined.body);
    let body = json!({"name": "v7", "due": "2099-01-01T00:00:00Z", "network": "none", "stage": "build",
                      "reports": ["artifact:log_1", "artifact:log_2"]})
    .to_string();
    let signature = |body: &str| format!("t={},v1={}", now(), seal(SECRET.as_bytes(), now(), body.as_bytes()));
    let (signed, trace) = (signature(&body), ("x-trace", "tr_1"));
    let reply = send(&daemon, "release", &body, &[("x-rookery-signature", &signed), trace]).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let id = reply.body["results"][0]["id"].as_str().unwrap();
    let message = ok(&daemon, &format!("/messages/{id}")).await;
    assert_eq!(
        (&message["deadline"], &message["limits"]),
        (&json!("2099-01-01T00:00:00Z"), &json!({"max_runtime_sec": 600}))
    );
    assert_eq!(message["security"], json!({"policy": {"sandbox": true, "network": "none"}}));
    let attached = |name: &str| json!({"kind": "artifact_ref", "ref": name});
    assert_eq!(message["attachments"], json!([attached("artifact:log_1"), attached("artifact:log_2")]));
    assert_eq!((&message["trace"]["trace_id"], &message["meta"]["step"]), (&json!("tr_1"), &json!("build")));
    assert_eq!(message["meta"]["workflow"], "release");

    // A missing restriction rejects the request: it never gets in with less than was configured.
    let loose = json!({"name": "v8", "stage": "build"}).to_string();
    let signed = signature(&loose);
    let reply = send(&daemon, "release", &loose, &[("x-rookery-signature", &signed)]).await;
    assert_eq!(rejection(&reply), rejection_of(400, "MISSING_FIELD", "/network"));
    assert_eq!(reply.body["details"]["field"], "security.policy.network");
}

#[tokio::test]
async fn unmatched_hook_event_is_answered_and_ignored() {
    let HookedDaemon { daemon, folder: _folder } = start_with_hook(setup());
    let before = event_kinds(&daemon);
    let ping = send_as_github(&daemon, "ping", "d-1", r#"{"zen": "Keep it logically awesome."}"#).await;
    let ignored = json!({"ignored": true, "reason": "/action is not opened or reopened"});
    assert_eq!((ping.status.as_u16(), &ping.body["ignored"]), (200, &json!(true)), "{}", ping.body);
    let closed = send_as_github(&daemon, "issues", "d-1", &issue(1).replace("opened", "closed")).await;
    assert_eq!((closed.status.as_u16(), closed.body), (200, ignored));
    assert_eq!(event_kinds(&daemon), before);
}

#[tokio::test]
async fn hook_without_a_valid_signature_is_rejected() {
    let HookedDaemon { daemon, folder: _folder } = start_with_hook(setup());
    let before = event_kinds(&daemon);
    let body = r#"{"notify": "agent:lead", "build": 7, "message": "it is red"}"#;
    let good = |at: i64, body: &str| format!("t={at},v1={}", seal(SECRET.as_bytes(), at, body.as_bytes()));
    let at = now();
    for (header, code) in [
        (None, "SIGNATURE_REQUIRED"),
        (Some("nonsense".to_owned()), "BAD_SIGNATURE"),
        (Some(format!("t={at},v1={}", seal(b"guess", at, body.as_bytes()))), "BAD_SIGNATURE"),
        (Some(good(at, "{}")), "BAD_SIGNATURE"),
        (Some(good(at, body).replace(&format!("t={at}"), &format!("t={}", at + 1))), "BAD_SIGNATURE"),
        (Some(good(at - 3_600, body)), "STALE_SIGNATURE"),
        (Some(good(at + 3_600, body)), "STALE_SIGNATURE"),
    ] {
        let headers: Vec<(&str, &str)> = header.iter().map(|value| ("x-rookery-signature", value.as_str())).collect();
        let reply = send(&daemon, "ci", body, &headers).await;
        assert_eq!(rejection(&reply), rejection_of(403, code, ""), "{header:?}");
        assert!(!reply.body.to_string().contains(SECRET));
    }
    assert_eq!(rejection(&send(&daemon, "github", body, &[]).await).1, "SIGNATURE_REQUIRED");
    assert_eq!(
        rejection(&send_signed(&daemon, "unknown", at, body, None).await),
        rejection_of(404, "HOOK_NOT_FOUND", "")
    );
    let large = format!("\"{}\"", "x".repeat(2 << 20));
    assert_eq!(rejection(&send_signed(&daemon, "ci", at, &large, None).await), rejection_of(413, "TOO_LARGE", ""));
    assert_eq!(rejection(&send_signed(&daemon, "ci", at, "{", None).await), rejection_of(400, "MALFORMED_JSON", ""));
    let form = daemon.request(Method::POST, "/hooks/ci").header("content-type", "text/plain").body(body);
    assert_eq!(read(form).await.unwrap().status, 415);
    assert_eq!(daemon.get("/hooks/ci").await.unwrap().status, 405);
    assert_eq!(event_kinds(&daemon), before, "nothing was stored");
}

#[tokio::test]
async fn hook_sends_as_its_agent_to_the_named_recipient() {
    let HookedDaemon { daemon, folder: _folder } = start_with_hook(setup().env("ROOKERY_SIGNATURES", "all"));
    daemon.post("/agents/announce", json!({"id": "lead", "tool": "test", "role": "lead"})).await.unwrap();
    let body = r#"{"notify": "agent:lead", "build": 7, "message": "it is red"}"#;
    let first = send_signed(&daemon, "ci", now(), body, None).await;
    assert_eq!(first.status, 202, "its secret is its credential: {}", first.body);
    let later = send_signed(&daemon, "ci", now() + 2, body, None).await;
    assert_eq!((later.status.as_u16(), &later.body["results"][0]["duplicate"]), (202, &json!(true)), "tried again");
    let listed = ok(&daemon, "/messages?thread_id=thr_builds&type=chat.message").await;
    let messages = listed["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(
        (&messages[0]["message"]["from"]["agent_id"], &messages[0]["message"]["payload"]["text"]),
        (&json!("agent:builder"), &json!("it is red"))
    );

    let unknown = r#"{"notify": "agent:ghost", "build": 8, "message": "it is red"}"#;
    let reply = send_signed(&daemon, "ci", now(), unknown, None).await;
    assert_eq!(rejection(&reply), rejection_of(400, "UNKNOWN_RECIPIENT", "/to/0/agent_id"));
    let nameless = send_signed(&daemon, "ci", now(), r#"{"build": 9, "message": "x"}"#, None).await;
    assert_eq!(rejection(&nameless), rejection_of(400, "MISSING_FIELD", "/notify"));
    assert_eq!(nameless.body["details"]["field"], "to");
    let silent = send_signed(&daemon, "ci", now(), r#"{"notify": "agent:lead", "build": 9}"#, None).await;
    assert_eq!(rejection(&silent), rejection_of(400, "MISSING_FIELD", "/payload/text"));
}

#[tokio::test]
async fn hook_accepts_any_json_body_and_detects_duplicate_deliveries() {
    let HookedDaemon { daemon, folder: _folder } = start_with_hook(setup());
    let at = now();
    for (body, payload) in
        [(r#"{"a": [1, 2]}"#, json!({"a": [1, 2]})), ("[1]", json!({"body": [1]})), ("null", json!({"body": null}))]
    {
        let reply = send_signed(&daemon, "raw", at, body, Some(body)).await;
        assert_eq!(reply.status, 202, "{}", reply.body);
        let id = reply.body["results"][0]["id"].as_str().unwrap().to_owned();
        assert_eq!(ok(&daemon, &format!("/messages/{id}")).await["payload"], payload);
    }
    let count = async || ok(&daemon, "/messages?type=x.raw").await["messages"].as_array().unwrap().len();
    assert_eq!(count().await, 3);
    let replayed = send_signed(&daemon, "raw", at, "[1]", Some("another")).await;
    assert_eq!(replayed.body["code"], "REPLAYED", "the header is not signed, and the time and the body are");
    let later = send_signed(&daemon, "raw", at + 1, "[1]", Some("another")).await;
    assert_eq!((later.status.as_u16(), &later.body["results"][0]["duplicate"]), (202, &json!(false)));
    assert_eq!(send_signed(&daemon, "raw", at, "[2]", None).await.status, 202);
    let same: Value = send_signed(&daemon, "raw", at, "[2]", None).await.body;
    assert_eq!(same["results"][0]["duplicate"], true, "without a delivery id, the signed bytes identify the delivery");
    assert_eq!(count().await, 5);
}

#[tokio::test]
async fn invalid_hook_configuration_fails_the_start_without_its_secret() {
    let folder = tempfile::tempdir().unwrap();
    for (config, reason) in [
        (
            "[adapters.http.x]\nsecret_env = \"TEST_ABSENT_SECRET\"\n",
            "no secret in the environment's TEST_ABSENT_SECRET",
        ),
        ("[adapters.http.x]\nsecret_file = \"nowhere\"\n", "cannot read"),
        ("[adapters.http.x]\n", "give either secret_env or secret_file"),
    ] {
        std::fs::write(folder.path().join("rookery.toml"), config).unwrap();
        let error = setup().start_at(folder.path()).unwrap_err().to_string();
        assert!(error.contains("adapters.http.x") && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn hook_secret_appears_in_no_log() {
    let HookedDaemon { daemon, folder } = start_with_hook(setup().env("ROOKERY_LOG", "trace"));
    let body = r#"{"notify": "agent:lead", "build": 7, "message": "x"}"#;
    send_signed(&daemon, "ci", now(), body, None).await;
    send(&daemon, "ci", body, &[("x-rookery-signature", "t=1,v1=ab")]).await;
    for row in rows(&daemon) {
        assert!(!row.to_string().contains(SECRET));
    }
    let logged = std::fs::read_to_string(folder.path().join("daemon.stderr")).unwrap();
    assert!(!logged.is_empty() && !logged.contains(SECRET), "{logged}");
}
