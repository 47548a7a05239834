//! Access control: hosts, origins, tokens, limits and malformed messages.

use reqwest::{Method, StatusCode};
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use serde_json::{Value, json};

use crate::support::setup;

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
}

async fn post(daemon: &Daemon, path: &str, headers: &[(&str, &str)], body: &Value) -> HttpReply {
    let mut request = daemon.request(Method::POST, path).header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    read(request.json(body)).await.unwrap()
}

#[tokio::test]
async fn foreign_host_or_origin_is_rejected() {
    let daemon = setup().start().unwrap();
    for path in ["/mcp", "/mcp/workflow", "/mcp/context", "/mcp/coord", "/mcp/team"] {
        assert_eq!(post(&daemon, path, &[], &initialize()).await.status, StatusCode::OK, "{path}");
        let host = post(&daemon, path, &[("host", "evil.example")], &initialize()).await;
        assert_eq!((host.status, &host.body["code"]), (StatusCode::FORBIDDEN, &json!("FOREIGN_HOST")), "{path}");
        for origin in ["http://evil.example", "null"] {
            let page = post(&daemon, path, &[("origin", origin)], &initialize()).await;
            assert_eq!((page.status, &page.body["code"]), (StatusCode::FORBIDDEN, &json!("FOREIGN_ORIGIN")), "{path}");
        }
    }
}

#[tokio::test]
async fn request_without_required_token_is_rejected() {
    let daemon = setup().arg("--require-token").start().unwrap();
    let bare = post(&daemon, "/mcp", &[], &initialize()).await;
    assert_eq!((bare.status, &bare.body["code"]), (StatusCode::UNAUTHORIZED, &json!("UNAUTHENTICATED")));
    let token = format!("Bearer {}", daemon.person_key().unwrap());
    let known = post(&daemon, "/mcp", &[("authorization", &token)], &initialize()).await;
    assert_eq!(known.status, StatusCode::OK);
}

#[tokio::test]
async fn oversized_request_is_rejected() {
    let daemon = setup().start().unwrap();
    let mut large = initialize();
    large["params"]["clientInfo"]["name"] = "x".repeat(2 << 20).into();
    let reply = post(&daemon, "/mcp", &[], &large).await;
    assert_eq!((reply.status, &reply.body["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("TOO_LARGE")));
}

fn setup_with(name: &str, value: &str) -> Setup {
    setup().arg("--set").arg(format!("{name}={value}"))
}

#[tokio::test]
async fn session_over_the_limit_is_rejected() {
    let daemon = setup_with("max_sessions", "2").start().unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let reply = post(&daemon, "/mcp", &[], &initialize()).await;
        ids.push(reply.headers["mcp-session-id"].to_str().unwrap().to_owned());
    }
    let full = post(&daemon, "/mcp/team", &[], &initialize()).await;
    assert_eq!((full.status, &full.body["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("TOO_MANY_SESSIONS")));
    let ended = daemon.request(Method::DELETE, "/mcp").header("mcp-session-id", &ids[0]);
    assert_eq!(read(ended).await.unwrap().status, StatusCode::NO_CONTENT, "clients treat 202 as a failure");
    assert_eq!(post(&daemon, "/mcp/team", &[], &initialize()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn request_without_session_is_answered_with_an_error() {
    let daemon = setup().start().unwrap();
    let early = json!({"jsonrpc": "2.0", "id": 1, "method": "no/such/thing"});
    let reply = post(&daemon, "/mcp", &[], &early).await;
    assert!(reply.status.is_client_error(), "{}", reply.status);
    assert_eq!(post(&daemon, "/mcp", &[("mcp-session-id", "none")], &early).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn malformed_message_gets_a_json_rpc_error() {
    let daemon = setup().start().unwrap();
    let post = async |kind: &str, body: &str| {
        let request = daemon.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
        read(request.header("content-type", kind).body(body.to_owned())).await.unwrap()
    };
    for (body, code, id) in [
        ("{\"jsonrpc\": \"2.0\", \"id\"", -32700, json!(null)),
        ("", -32700, json!(null)),
        ("hello", -32700, json!(null)),
        ("{}", -32600, json!(null)),
        ("7", -32600, json!(null)),
        ("[]", -32600, json!(null)),
        ("{\"jsonrpc\": \"1.0\", \"id\": 4, \"method\": \"ping\"}", -32600, json!(4)),
        ("{\"jsonrpc\": \"2.0\", \"id\": \"x\"}", -32600, json!("x")),
    ] {
        let reply = post("application/json", body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}: {}", reply.body);
        let error = (&reply.body["jsonrpc"], &reply.body["error"]["code"], &reply.body["id"]);
        assert_eq!(error, (&json!("2.0"), &json!(code), &id), "{body}");
        assert!(reply.body["error"]["message"].is_string(), "{body}");
    }
    let message = initialize().to_string();
    assert_eq!(post("text/plain", &message).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(post("application/json", &message).await.status, StatusCode::OK);
}
