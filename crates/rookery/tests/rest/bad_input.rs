//! Faulty requests: each is rejected with a JSON error that names the fault, and changes nothing.

use std::time::Duration;

use reqwest::Method;
use rookery_testkit::daemon::{HttpReply, read};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{DEADLINE, Team, assert_json, assert_rejected, eventually, setup, team, team_of};

async fn send_raw_body(
    team: &Team,
    method: Method,
    path: &str,
    kind: Option<&str>,
    body: impl Into<Vec<u8>>,
) -> HttpReply {
    let mut request = team.request(method, path).body(body.into());
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    read(request).await.unwrap()
}

const WRITES: [(&str, &str); 14] = [
    ("POST", "/agents/announce"),
    ("PATCH", "/agents/a/status"),
    ("POST", "/resources/claim"),
    ("POST", "/resources/release"),
    ("POST", "/resources/resolve"),
    ("POST", "/resources/lock"),
    ("POST", "/resources/unlock"),
    ("POST", "/tasks"),
    ("PATCH", "/tasks/task_x"),
    ("POST", "/tasks/task_x/assign"),
    ("POST", "/handoffs"),
    ("PATCH", "/handoffs/hoff_x/accept"),
    ("PATCH", "/handoffs/hoff_x/reject"),
    ("POST", "/events"),
];

#[tokio::test]
async fn unknown_query_parameter_is_named_by_every_read() {
    let team = team(&["a"]).await;
    let paths = team.ok("/openapi.json").await["paths"].as_object().unwrap().clone();
    for (path, operations) in paths {
        if operations.get("get").is_none() {
            continue;
        }
        let path: String =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>().join("/");
        let reply = team.get(&format!("{path}?statuz=1")).await.unwrap();
        assert_eq!(reply.status.as_u16(), 400, "{path}: {reply:?}");
        assert!(reply.body.to_string().contains("unknown query parameter 'statuz'"), "{path}: {reply:?}");
    }
    let reply = team.get("/tasks?statuz=done&limit=1").await.unwrap();
    assert_rejected(&reply, 400, "INVALID", "unknown query parameter 'statuz'");
    assert_eq!(reply.body["hint"], "this path takes status, assigned_to, limit, after");
    let reply = team.get("/status?verbose").await.unwrap();
    assert_eq!(reply.body["hint"], "this path takes no query parameters");
    let reply = send_raw_body(&team, Method::POST, "/events?run=x", Some("application/json"), "{}").await;
    assert_rejected(&reply, 400, "INVALID", "unknown query parameter 'run'");
    // Added by clients against caches.
    assert_eq!(team.get("/tasks?_=1738756800&status=queued").await.unwrap().status.as_u16(), 200);
}

#[tokio::test]
async fn author_that_is_no_agent_is_rejected_with_what_to_name() {
    let team = team(&["a"]).await;
    for name in ["human", "system"] {
        let reply = team.post("/tasks", json!({"title": "t", "assigned_by": name})).await.unwrap();
        let hint = reply.body["hint"].as_str().unwrap_or_default();
        assert!(reply.status.as_u16() == 403 && hint.contains("person:NAME"), "{name}: {reply:?}");
    }
}

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

#[tokio::test]
async fn body_without_json_content_type_is_rejected() {
    let team = team(&["a"]).await;
    let head = team.head().await;
    let without_required_body = [
        ("POST", "/agents/a/heartbeat"),
        ("DELETE", "/agents/a"),
        ("POST", "/tasks/task_x/cancel"),
        ("POST", "/tasks/task_x/retry"),
    ];
    for (verb, path) in WRITES.into_iter().chain(without_required_body) {
        for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp")] {
            let reply = send_raw_body(&team, method(verb), path, kind, "{}").await;
            assert_rejected(&reply, 415, "UNSUPPORTED_MEDIA_TYPE", "application/json");
        }
    }
    assert_eq!(team.head().await, head);
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        let reply =
            send_raw_body(&team, Method::POST, "/events", Some(kind), r#"{"agent_id":"a","action":"x.n"}"#).await;
        assert_eq!(reply.status, 201, "{kind}");
    }
    // A request without a body needs no content type.
    for path in ["/agents/a/heartbeat"] {
        assert_eq!(team.send(Method::POST, path, &[], None).await.status, 200);
    }
}

#[tokio::test]
async fn malformed_json_is_rejected_by_every_write() {
    let team = team(&["a"]).await;
    let head = team.head().await;
    let broken: [&[u8]; 8] =
        [b"", b"{", b"null x", b"[1]", b"\"text\"", b"{\"id\":\"a\"}{}", b"\xff\xfe", b"{\"agent_id\":\"\xff\"}"];
    for (verb, path) in WRITES {
        for body in broken {
            let reply = send_raw_body(&team, method(verb), path, Some("application/json"), body).await;
            assert_rejected(&reply, 400, "INVALID", "");
        }
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        assert_rejected(
            &send_raw_body(&team, method(verb), path, Some("application/json"), deep).await,
            400,
            "INVALID",
            "",
        );
    }
    assert_eq!(team.head().await, head);
}

#[tokio::test]
async fn field_of_wrong_type_is_named_in_the_error() {
    let team = team(&["a"]).await;
    let head = team.head().await;
    let cases = [
        ("POST", "/agents/announce", json!({"id": 1, "tool": "t"}), "id"),
        ("POST", "/agents/announce", json!({"id": "x", "tool": "t", "role": 7}), "role"),
        ("POST", "/agents/announce", json!({"id": "x", "tool": "t", "capabilities": "code"}), "capabilities"),
        ("POST", "/agents/announce", json!({"id": "x", "tool": "t", "capabilities": [1]}), "capabilities[0]"),
        ("POST", "/agents/announce", json!({"id": "x", "tool": "t", "metadata": []}), "metadata"),
        ("PATCH", "/agents/a/status", json!({"status": 5}), "status"),
        ("PATCH", "/agents/a/status", json!({"status": "Idle"}), "status"),
        ("POST", "/resources/claim", json!({"path": ["x"], "agent_id": "a"}), "path"),
        ("POST", "/resources/claim", json!({"path": "x", "agent_id": "a", "force": "yes"}), "force"),
        ("POST", "/tasks", json!({"title": "t", "assigned_by": "a", "resources": {}}), "resources"),
        ("POST", "/tasks", json!({"title": "t", "assigned_by": "a", "depends_on": [null]}), "depends_on[0]"),
        ("PATCH", "/tasks/task_x", json!({"status": "completed", "agent_id": "a"}), "status"),
        ("POST", "/handoffs", json!({"from_agent": "a", "task_id": "t", "summary": {}}), "summary"),
        ("POST", "/handoffs", json!({"from_agent": "a", "task_id": "t", "summary": "s", "blockers": "x"}), "blockers"),
        ("POST", "/events", json!({"agent_id": "a", "action": "x.n", "metadata": "m"}), "metadata"),
    ];
    for (verb, path, body, field) in cases {
        let reply = team.send(method(verb), path, &[], Some(body)).await;
        assert_rejected(&reply, 400, "INVALID", &format!("field '{field}'"));
    }
    assert_eq!(team.head().await, head);
}

#[tokio::test]
async fn value_over_its_limit_is_named_in_the_error() {
    let team = team(&["a"]).await;
    let head = team.head().await;
    let long = |bytes: usize| "x".repeat(bytes);
    let cases = [
        ("/agents/announce", json!({"id": long(129), "tool": "t"}), "id"),
        ("/agents/announce", json!({"id": "x", "tool": long(257)}), "tool"),
        ("/tasks", json!({"title": long(4097), "assigned_by": "a"}), "title"),
        ("/tasks", json!({"title": "t", "assigned_by": "a", "description": long(256 * 1024 + 1)}), "description"),
        ("/tasks", json!({"title": "t", "assigned_by": "a", "resources": vec!["x"; 1001]}), "resources"),
        ("/events", json!({"agent_id": "a", "action": format!("x.{}", long(300))}), "action"),
        ("/events", json!({"agent_id": "a", "action": "x.n", "metadata": {"m": long(300_000)}}), "metadata"),
    ];
    for (path, body, field) in cases {
        let reply = team.post(path, body).await.unwrap();
        assert_rejected(&reply, 400, "TOO_LARGE", field);
    }
    let claim = json!({"path": long(5000), "agent_id": "a"});
    assert_rejected(&team.post("/resources/claim", claim).await.unwrap(), 400, "INVALID", "path");
    assert_eq!(team.head().await, head);
    // A value just below its limit is accepted and returned unchanged.
    let kept = team.create_task_with(json!({"description": long(200_000)})).await;
    assert_eq!(kept["description"].as_str().unwrap().len(), 200_000);
}

#[tokio::test]
async fn body_over_size_limit_is_rejected() {
    let team = team(&["a"]).await;
    let head = team.head().await;
    for path in ["/events", "/tasks", "/agents/a/heartbeat"] {
        let body = format!("{{\"x\":\"{}\"}}", "y".repeat(1024 * 1024));
        let reply = send_raw_body(&team, Method::POST, path, Some("application/json"), body).await;
        assert_rejected(&reply, 413, "TOO_LARGE", "1048576");
    }
    assert_eq!(team.head().await, head);
    let small = team_of(setup().arg("--no-watch").env("ROOKERY_MAX_BODY_BYTES", "100"), &["a"]).await;
    let reply = small.post("/tasks", json!({"title": "t".repeat(100), "assigned_by": "a"})).await.unwrap();
    assert_rejected(&reply, 413, "TOO_LARGE", "100");
}

#[tokio::test]
async fn unknown_path_or_method_returns_json_error() {
    let team = team(&["a"]).await;
    for path in ["/nothing", "/agents/a/b/c", "/task", "/uis", "/api/v1/agents", "/Agents"] {
        for verb in ["GET", "POST", "DELETE"] {
            let reply = team.send(method(verb), path, &[], None).await;
            assert_rejected(&reply, 404, "NOT_FOUND", "nothing at this path");
        }
    }
    for (verb, path, allowed) in [
        ("DELETE", "/status", "GET"),
        ("POST", "/agents", "GET"),
        ("PUT", "/agents/a", "GET,HEAD,DELETE"),
        ("GET", "/agents/a/heartbeat", "POST"),
        ("POST", "/agents/a/status", "PATCH"),
        ("DELETE", "/tasks", "GET"),
        ("POST", "/tasks/x", "PATCH"),
        ("POST", "/handoffs/x/accept", "PATCH"),
        ("DELETE", "/events", "POST"),
        ("POST", "/events/stream", "GET"),
        ("POST", "/resources/some/file", "GET"),
        ("PUT", "/resources/claim", "POST"),
    ] {
        let reply = team.send(method(verb), path, &[], None).await;
        assert_rejected(&reply, 405, "METHOD_NOT_ALLOWED", "method");
        let allow = reply.headers["allow"].to_str().unwrap();
        for verb in allowed.split(',') {
            assert!(allow.split(',').any(|known| known.trim() == verb), "{verb} {path}: {allow}");
        }
    }
}

#[tokio::test]
async fn invalid_query_parameter_is_named_in_the_error() {
    let team = team(&["a"]).await;
    for (path, field) in [
        ("/tasks?limit=-1", "limit"),
        ("/tasks?limit=99999999999", "limit"),
        ("/tasks?status=", "status"),
        ("/resources?filter=", "filter"),
        ("/handoffs?status=x", "status"),
        ("/events?since=1.5", "since"),
        ("/events?resource=../x", "path"),
        ("/events/stream?resource=/etc/passwd", "path"),
        ("/events/stream?after=x", "position"),
    ] {
        assert_rejected(&team.get(path).await.unwrap(), 400, "INVALID", field);
    }
}

#[tokio::test]
async fn address_over_length_limit_is_rejected() {
    let team = team(&["a"]).await;
    let reply = team.get(&format!("/resources/{}", "x".repeat(9000))).await.unwrap();
    assert_rejected(&reply, 414, "TOO_LARGE", "address");
}

/// Sends bytes and returns the answer, up to `wanted` or to the end of the connection.
async fn exchange_bytes(team: &Team, bytes: &[u8], wanted: &str) -> String {
    let mut stream = TcpStream::connect(team.url().trim_start_matches("http://")).await.unwrap();
    // The other side may close before it has read everything.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    let reading = async {
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&answer).contains(wanted) {
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(count) => answer.extend_from_slice(&chunk[..count]),
            }
        }
    };
    tokio::time::timeout(DEADLINE, reading).await.expect("the daemon answers or hangs up");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn oversized_headers_and_garbage_do_not_stop_the_daemon() {
    let team = team(&["a"]).await;
    let one = format!("GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Big: {}\r\n\r\n", "x".repeat(200_000));
    let many: String = (0..5000).map(|n| format!("X-{n}: y\r\n")).collect();
    let many = format!("GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n{many}\r\n");
    for request in [one, many] {
        let answer = exchange_bytes(&team, request.as_bytes(), "\r\n\r\n").await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    for garbage in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"\0\0\0\0\r\n\r\n"]
    {
        let answer = exchange_bytes(&team, garbage, "\r\n\r\n").await;
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    assert_eq!(team.get("/healthz").await.unwrap().status, 200);
}

#[tokio::test]
async fn missing_body_ends_in_a_timeout() {
    let team = team_of(setup().arg("--no-watch").env("ROOKERY_REQUEST_TIMEOUT", "1s"), &["a"]).await;
    let request = "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"agent_id\"";
    let answer = exchange_bytes(&team, request.as_bytes(), "\"code\"").await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("\"code\":\"TIMEOUT\""), "{answer}");
    assert_eq!(team.events("x.n").await, Vec::<Value>::new());
}

#[tokio::test]
async fn truncated_request_leaves_no_trace() {
    let team = team(&["a"]).await;
    let head = team.head().await;
    for _ in 0..20 {
        let mut stream = TcpStream::connect(team.url().trim_start_matches("http://")).await.unwrap();
        let request = "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"agent_id\":\"a\",\"action\":\"x.n\"}";
        stream.write_all(request.as_bytes()).await.unwrap();
    }
    let reply = tokio::time::timeout(Duration::from_secs(30), team.get("/status")).await.unwrap().unwrap();
    assert_json(&reply);
    assert_eq!(team.head().await, head);
}

#[tokio::test]
async fn in_flight_limit_per_agent_leaves_room_for_others() {
    let limited = setup().arg("--no-watch").env("ROOKERY_MAX_IN_FLIGHT_PER_AGENT", "1");
    let team = team_of(limited, &["a"]).await;
    // A request whose body has not arrived yet takes the only place, unless the call before still held it.
    let begun = "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Agent-Id: a\r\nContent-Type: application/json\r\n\
        Content-Length: 31\r\n\r\n";
    let (mut slow, rejected) = eventually("the place is taken", || async {
        let mut slow = TcpStream::connect(team.url().trim_start_matches("http://")).await.unwrap();
        slow.write_all(begun.as_bytes()).await.unwrap();
        let reply = team.send(Method::GET, "/status", &[("x-agent-id", "a")], None).await;
        (reply.status != 200).then_some((slow, reply))
    })
    .await;
    assert_rejected(&rejected, 429, "TOO_MANY_REQUESTS", "too many");
    assert!(rejected.headers.contains_key("retry-after"));
    assert_eq!(team.send(Method::GET, "/status", &[("x-agent-id", "b")], None).await.status, 200);
    drop(slow.write_all(br#"{"agent_id":"a","action":"x.n"}"#).await);
    eventually("the place is free", || async {
        let reply = team.send(Method::GET, "/status", &[("x-agent-id", "a")], None).await;
        (reply.status == 200).then_some(())
    })
    .await;
}
