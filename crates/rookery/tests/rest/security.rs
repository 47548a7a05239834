//! Permissions: browsers, tokens, bound ids, files and sockets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use reqwest::Method;
use rookery_testkit::daemon::{HttpReply, read};
use rookery_testkit::postgres::Schema;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::support::{
    DEADLINE, Sse, Team, assert_error, assert_rejected, assert_reply, eventually, setup, team, team_of, text,
};

#[tokio::test]
async fn foreign_host_header_is_rejected() {
    let team = team(&["a"]).await;
    let port = team.url().rsplit(':').next().unwrap().to_owned();
    for host in [
        "evil.example",
        "evil.example:4700",
        &format!("evil.example:{port}"),
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
    ] {
        for path in ["/status", "/events/stream", "/openapi.json", "/healthz", "/"] {
            let reply = team.send(Method::GET, path, &[("host", host)], None).await;
            assert_rejected(&reply, 403, "FOREIGN_HOST", "Host");
        }
    }
    for host in ["localhost", &format!("localhost:{port}"), "127.0.0.1", "[::1]:1", "LOCALHOST"] {
        assert_eq!(team.send(Method::GET, "/status", &[("host", host)], None).await.status, 200, "{host}");
    }
    let named = team_of(setup().arg("--no-watch").env("ROOKERY_ALLOWED_HOSTS", "rookery.lan"), &[]).await;
    assert_eq!(named.send(Method::GET, "/status", &[("host", "rookery.lan:80")], None).await.status, 200);
}

#[tokio::test]
async fn foreign_origin_is_rejected_without_cors_headers() {
    let team = team(&["a"]).await;
    let head = team.head().await;
    let own_origin = team.url().to_owned();
    let note = Some(json!({"agent_id": "a", "action": "x.n"}));
    for origin in
        ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "file://", "chrome-extension://x"]
    {
        let with = [("origin", origin)];
        assert_rejected(
            &team.send(Method::POST, "/events", &with, note.clone()).await,
            403,
            "FOREIGN_ORIGIN",
            "origin",
        );
        assert_rejected(&team.send(Method::GET, "/events/stream", &with, None).await, 403, "FOREIGN_ORIGIN", "origin");
        assert_rejected(&team.send(Method::GET, "/state", &with, None).await, 403, "FOREIGN_ORIGIN", "origin");
        let asked = [("origin", origin), ("access-control-request-method", "POST")];
        let preflight = team.send(Method::OPTIONS, "/events", &asked, None).await;
        assert_eq!(preflight.status, 403, "{origin}");
        assert!(preflight.headers.keys().all(|name| !name.as_str().starts_with("access-control")));
    }
    assert_eq!(team.head().await, head);
    let reply = team.send(Method::POST, "/events", &[("origin", &own_origin)], note).await;
    assert_eq!(reply.status, 201);
    assert!(!reply.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn get_requests_append_no_event() {
    let team = team(&["a"]).await;
    team.claim("x", "a").await;
    let head = team.head().await;
    for path in [
        "/",
        "/docs",
        "/status",
        "/state",
        "/agents",
        "/agents/a",
        "/resources",
        "/resources/x",
        "/resources/claim",
        "/tasks",
        "/handoffs",
        "/events",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/admin/info",
    ] {
        team.send(Method::GET, path, &[("x-agent-id", "a")], None).await;
    }
    assert_eq!(team.head().await, head);
}

#[tokio::test]
async fn request_for_another_project_is_rejected() {
    let team = team(&["a"]).await;
    let own = team.get("/status").await.unwrap().headers["x-rookery-project"].to_str().unwrap().to_owned();
    assert_eq!(team.send(Method::GET, "/status", &[("x-rookery-project", &own)], None).await.status, 200);
    let note = Some(json!({"agent_id": "a", "action": "x.n"}));
    for (method, path, body) in
        [(Method::GET, "/status", None), (Method::POST, "/events", note), (Method::GET, "/events/stream", None)]
    {
        let reply = team.send(method, path, &[("x-rookery-project", "prj_other")], body).await;
        assert_rejected(&reply, 421, "OTHER_PROJECT", &own);
    }
}

#[tokio::test]
async fn asserted_person_without_credential_has_no_authority() {
    let team = team(&["lead", "a"]).await;
    for name in ["person:anna", "system", "watcher"] {
        let reply =
            team.send(Method::POST, "/resources/lock", &[("x-agent-id", name)], Some(json!({"path": "x"}))).await;
        assert_eq!(reply.status, 403, "{name}: {}", reply.body);
    }
    for (method, path) in
        [(Method::GET, "/admin/tokens"), (Method::POST, "/admin/redact"), (Method::POST, "/admin/tokens")]
    {
        let body = (method == Method::POST).then(|| json!({"agent": "a", "seqs": [1]}));
        assert_rejected(&team.send(method, path, &[("x-agent-id", "lead")], body).await, 403, "FORBIDDEN", "person");
    }
    for secret in ["Bearer wrong", "Bearer ", "Basic abc", "wrong"] {
        let reply = team.send(Method::GET, "/status", &[("authorization", secret)], None).await;
        assert_eq!((reply.status.as_u16(), &reply.body["code"]), (401, &json!("UNAUTHENTICATED")), "{secret}");
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
    }
}

/// A daemon that requires tokens, and its agents' tokens.
struct Guarded(Team);

impl Guarded {
    async fn start() -> Guarded {
        Guarded(team_of(setup().args(["--no-watch", "--require-token"]), &[]).await)
    }

    /// Creates a token; returns its secret and its id.
    async fn create_token(&self, fields: Value) -> (String, String) {
        let reply = self.0.as_person(Method::POST, "/admin/tokens", Some(fields)).await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        (text(&reply.body["token"]), text(&reply.body["id"]))
    }

    async fn send(&self, secret: &str, method: Method, path: &str, body: Option<Value>) -> HttpReply {
        self.0.send(method, path, &[("authorization", &format!("Bearer {secret}"))], body).await
    }

    /// Announces an agent with its own token, and returns the token.
    async fn agent(&self, id: &str) -> String {
        let (secret, _) = self.create_token(json!({"agent": id})).await;
        let profile = json!({"id": id, "tool": "test"});
        assert_eq!(self.send(&secret, Method::POST, "/agents/announce", Some(profile)).await.status, 201);
        secret
    }
}

trait Args {
    fn args<const N: usize>(self, args: [&str; N]) -> Self;
}

impl Args for rookery_testkit::daemon::Setup {
    fn args<const N: usize>(self, args: [&str; N]) -> Self {
        args.into_iter().fold(self, |setup, arg| setup.arg(arg))
    }
}

#[tokio::test]
async fn request_without_token_is_rejected_except_probes() {
    let guarded = Guarded::start().await;
    let team = &guarded.0;
    for path in [
        "/session",
        "/channels",
        "/channels/default/messages",
        "/contexts/default/documents",
        "/status",
        "/state",
        "/agents",
        "/agents/a",
        "/resources",
        "/resources/x",
        "/tasks",
        "/tasks/x",
        "/handoffs",
        "/handoffs/x",
        "/events",
        "/events/x",
        "/events/stream",
        "/metrics",
        "/admin/info",
        "/admin/tokens",
    ] {
        let reply = team.send(Method::GET, path, &[("x-agent-id", "a")], None).await;
        assert_rejected(&reply, 401, "UNAUTHENTICATED", "token is required");
    }
    let writes = [
        ("/agents/announce", json!({"id": "a", "tool": "t"})),
        ("/tasks", json!({"title": "t", "assigned_by": "a"})),
        ("/resources/claim", json!({"path": "x", "agent_id": "a"})),
        ("/events", json!({"agent_id": "a", "action": "x.n"})),
        ("/admin/tokens", json!({"agent": "a"})),
    ];
    for (path, body) in writes {
        assert_rejected(&team.post(path, body).await.unwrap(), 401, "UNAUTHENTICATED", "token is required");
    }
    assert_eq!(team.get("/healthz").await.unwrap().status, 200);
    assert_eq!(team.get("/readyz").await.unwrap().status, 200);
    let status = guarded.0.as_person(Method::GET, "/status", None).await;
    assert_eq!(status.body["event_count"], 0);
}

#[tokio::test]
async fn token_acts_only_as_its_agent() {
    let guarded = Guarded::start().await;
    let lead = guarded.agent("lead").await;
    let (a, b) = (guarded.agent("a").await, guarded.agent("b").await);
    let task = guarded.send(&a, Method::POST, "/tasks", Some(json!({"title": "t", "assigned_by": "a"}))).await;
    let task = text(&task.body["id"]);
    let path = format!("/tasks/{task}");
    let start = Some(json!({"status": "in_progress", "agent_id": "a"}));
    assert_reply(&guarded.send(&a, Method::PATCH, &path, start).await, 200, json!({"ok": true}));
    let offered = guarded
        .send(
            &a,
            Method::POST,
            "/handoffs",
            Some(json!({"from_agent": "a", "to_agent": "a", "task_id": task, "summary": "s"})),
        )
        .await;
    let handoff = text(&offered.body["id"]);
    let head = guarded.0.as_person(Method::GET, "/status", None).await.body["event_count"].clone();
    for (method, path, body) in [
        (Method::PATCH, path.as_str(), json!({"status": "done", "agent_id": "a"})),
        (Method::PATCH, "/agents/a/status", json!({"status": "idle"})),
        (Method::POST, "/agents/a/heartbeat", Value::Null),
        (Method::DELETE, "/agents/a", Value::Null),
        (Method::POST, "/agents/announce", json!({"id": "a", "tool": "x"})),
        (Method::POST, "/agents/announce", json!({"id": "fresh", "tool": "x"})),
        (Method::POST, "/resources/claim", json!({"path": "x", "agent_id": "a"})),
        (Method::POST, "/tasks", json!({"title": "t", "assigned_by": "a"})),
        (Method::POST, "/handoffs", json!({"from_agent": "a", "task_id": task, "summary": "s"})),
        (Method::PATCH, &format!("/handoffs/{handoff}/accept"), json!({"agent_id": "a"})),
        (Method::POST, "/events", json!({"agent_id": "a", "action": "x.n"})),
        (Method::POST, "/events", json!({"agent_id": "a", "action": "resource.modified", "resource": "x"})),
    ] {
        let body = (!body.is_null()).then_some(body);
        let reply = guarded.send(&b, method.clone(), path, body).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.body["code"]),
            (403, &json!("FORBIDDEN")),
            "{method} {path}: {}",
            reply.body
        );
    }
    let headers = [("authorization", format!("Bearer {b}")), ("x-agent-id", "a".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_rejected(&guarded.0.send(Method::GET, "/status", &headers, None).await, 403, "FORBIDDEN", "not for 'a'");
    assert_eq!(guarded.0.as_person(Method::GET, "/status", None).await.body["event_count"], head);
    // The agent that holds the lead may act for others, whatever its token.
    let by_lead = Some(json!({"status": "review", "agent_id": "a"}));
    assert_reply(&guarded.send(&lead, Method::PATCH, &path, by_lead).await, 200, json!({"ok": true}));
}

#[tokio::test]
async fn token_roles_limit_permissions() {
    let guarded = Guarded::start().await;
    guarded.agent("first").await;
    let (observer, _) = guarded.create_token(json!({"agent": "eye", "role": "observer"})).await;
    let (lead, _) = guarded.create_token(json!({"agent": "boss", "role": "lead"})).await;
    let (person, _) = guarded.create_token(json!({"agent": "anna", "role": "person"})).await;
    let agent = guarded.agent("a").await;
    // An observer reads and changes nothing.
    for path in ["/status", "/state", "/events", "/agents"] {
        assert_eq!(guarded.send(&observer, Method::GET, path, None).await.status, 200, "{path}");
    }
    for (method, path, body) in [
        (Method::POST, "/agents/announce", json!({"id": "eye", "tool": "t"})),
        (Method::POST, "/events", json!({"agent_id": "eye", "action": "x.n"})),
        (Method::POST, "/tasks", json!({"title": "t", "assigned_by": "eye"})),
        (Method::POST, "/agents/a/heartbeat", json!({})),
        (Method::POST, "/resources/lock", json!({"path": "x"})),
        (Method::POST, "/admin/tokens", json!({"agent": "x"})),
    ] {
        let reply = guarded.send(&observer, method, path, Some(body)).await;
        assert_eq!((reply.status.as_u16(), &reply.body["code"]), (403, &json!("FORBIDDEN")), "{path}");
    }
    // Locks are for leads and people; tokens for people.
    let lock = |path: &str| Some(json!({"path": path}));
    assert_rejected(
        &guarded.send(&agent, Method::POST, "/resources/lock", lock("x")).await,
        403,
        "FORBIDDEN",
        "lead or a person",
    );
    assert_eq!(guarded.send(&lead, Method::POST, "/resources/lock", lock("x")).await.status, 200);
    assert_eq!(guarded.send(&person, Method::POST, "/resources/lock", lock("y")).await.status, 200);
    for (secret, status) in [(&agent, 403), (&lead, 403), (&person, 200)] {
        assert_eq!(guarded.send(secret, Method::GET, "/admin/tokens", None).await.status, status);
    }
    let locked = guarded.send(&person, Method::GET, "/events?action=x.file.locked", None).await;
    let by: Vec<&Value> = locked.body.as_array().unwrap().iter().map(|event| &event["agent_id"]).collect();
    assert_eq!(by, ["person:anna", "boss"]);
    // A lead speaks for agents only.
    let speaking_as = |name: &str| {
        vec![("authorization".to_owned(), format!("Bearer {lead}")), ("x-agent-id".to_owned(), name.to_owned())]
    };
    for (name, status) in [("a", 200), ("person:anna", 403), ("system", 403), ("watcher", 403), ("anonymous", 403)] {
        let headers = speaking_as(name);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let reply = guarded.0.send(Method::POST, "/resources/lock", &headers, lock("z")).await;
        assert_eq!(reply.status.as_u16(), status, "{name}: {}", reply.body);
    }
}

#[tokio::test]
async fn token_is_shown_once_and_ends_by_revocation_or_expiry() {
    let guarded = Guarded::start().await;
    let (secret, id) = guarded.create_token(json!({"agent": "a", "label": "laptop"})).await;
    assert!(secret.starts_with("rkt_") && secret.len() > 30, "{}", secret.len());
    let listed = guarded.0.as_person(Method::GET, "/admin/tokens", None).await.body;
    assert_eq!((&listed[0]["id"], &listed[0]["agent"]), (&json!(id), &json!("a")));
    assert_eq!((&listed[0]["role"], &listed[0]["label"]), (&json!("agent"), &json!("laptop")));
    assert!(!listed.to_string().contains(&secret));
    for file in std::fs::read_dir(guarded.0.root().join(".rookery")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{}", path.display());
    }
    assert_eq!(guarded.send(&secret, Method::GET, "/status", None).await.status, 200);
    let revoked = guarded.0.as_person(Method::DELETE, &format!("/admin/tokens/{id}"), None).await;
    assert_reply(&revoked, 200, json!({"ok": true}));
    assert_rejected(&guarded.send(&secret, Method::GET, "/status", None).await, 401, "UNAUTHENTICATED", "token");
    let again = guarded.0.as_person(Method::DELETE, &format!("/admin/tokens/{id}"), None).await;
    assert_error(&again, 404, "TOKEN_NOT_FOUND", "Token not found");
    let (short, _) = guarded.create_token(json!({"agent": "a", "expires_in_seconds": 1})).await;
    eventually("the token expires", || async {
        (guarded.send(&short, Method::GET, "/status", None).await.status == 401).then_some(())
    })
    .await;
    for body in [
        json!({}),
        json!({"agent": ""}),
        json!({"agent": "system"}),
        json!({"agent": "a b"}),
        json!({"agent": "a", "role": "god"}),
    ] {
        let reply = guarded.0.as_person(Method::POST, "/admin/tokens", Some(body)).await;
        assert_rejected(&reply, 400, "INVALID", "");
    }
}

#[tokio::test]
async fn revoked_token_ends_its_stream() {
    let guarded = Guarded::start().await;
    let (secret, id) = guarded.create_token(json!({"agent": "eye", "role": "observer"})).await;
    let bearer = format!("Bearer {secret}");
    let mut stream = Sse::open_with(&guarded.0, "/events/stream", &[("authorization", &bearer)]).await;
    guarded.agent("a").await;
    assert_eq!(stream.next().await.event["action"], "agent.joined");
    guarded.0.as_person(Method::DELETE, &format!("/admin/tokens/{id}"), None).await;
    guarded.agent("b").await;
    // Events under way may still arrive; the stream must end before any event about `b`.
    while let Some(block) = stream.block().await {
        assert!(!block.contains("\"b\""), "{block}");
    }
}

#[tokio::test]
async fn token_name_confusable_with_another_name_is_rejected() {
    let guarded = Guarded::start().await;
    guarded.create_token(json!({"agent": "anna", "role": "person"})).await;
    let (reviewer, _) = guarded.create_token(json!({"agent": "reviewer"})).await;
    let tokens = |body: Value| guarded.0.as_person(Method::POST, "/admin/tokens", Some(body));
    for name in ["Anna", "аnna"] {
        assert_rejected(&tokens(json!({"agent": name})).await, 400, "INVALID", "");
    }
    // A person named like an existing agent could be taken for it.
    let profile = json!({"id": "reviewer", "tool": "test"});
    assert_eq!(guarded.send(&reviewer, Method::POST, "/agents/announce", Some(profile)).await.status, 201);
    let person = tokens(json!({"agent": "Reviewer", "role": "person"})).await;
    assert_rejected(&person, 409, "ALREADY_EXISTS", "the agent 'reviewer' could be taken for that person");
}

#[tokio::test]
async fn tokens_survive_a_restart() {
    let mut guarded = Guarded::start().await;
    let secret = guarded.agent("a").await;
    guarded.0.restart().unwrap();
    assert_eq!(guarded.send(&secret, Method::GET, "/status", None).await.status, 200);
}

#[tokio::test]
async fn id_bound_to_a_token_cannot_be_asserted_without_it() {
    let team = team(&["lead"]).await;
    let created = team.as_person(Method::POST, "/admin/tokens", Some(json!({"agent": "a"}))).await;
    let bearer = format!("Bearer {}", text(&created.body["token"]));
    let own = [("authorization", bearer.as_str())];
    let announced = team.send(Method::POST, "/agents/announce", &own, Some(json!({"id": "a", "tool": "t"}))).await;
    assert_eq!(announced.status, 201, "{}", announced.body);
    let (head, seen) = (team.head().await, team.ok("/agents/a").await["last_heartbeat"].clone());
    for (method, path, body) in [
        (Method::POST, "/agents/announce", json!({"id": "a", "tool": "x"})),
        (Method::POST, "/agents/a/heartbeat", Value::Null),
        (Method::PATCH, "/agents/a/status", json!({"status": "working"})),
        (Method::DELETE, "/agents/a", Value::Null),
        (Method::POST, "/resources/claim", json!({"path": "x", "agent_id": "a"})),
        (Method::POST, "/tasks", json!({"title": "t", "assigned_by": "a"})),
        (Method::POST, "/events", json!({"agent_id": "a", "action": "x.n"})),
    ] {
        let body = (!body.is_null()).then_some(body);
        for headers in [&[][..], &[("x-agent-id", "a")]] {
            assert_rejected(
                &team.send(method.clone(), path, headers, body.clone()).await,
                403,
                "CREDENTIAL_REQUIRED",
                "'a'",
            );
        }
    }
    assert_eq!(team.head().await, head);
    // An asserted id is no sign of life either.
    team.send(Method::GET, "/status", &[("x-agent-id", "a")], None).await;
    assert_eq!(team.ok("/agents/a").await["last_heartbeat"], seen);
    assert_reply(&team.send(Method::POST, "/agents/a/heartbeat", &own, None).await, 200, json!({"ok": true}));
    let claim = Some(json!({"path": "x", "agent_id": "a"}));
    assert_reply(&team.send(Method::POST, "/resources/claim", &own, claim).await, 200, json!({"granted": true}));
}

#[tokio::test]
async fn shared_address_without_required_tokens_is_rejected() {
    for host in ["0.0.0.0", "::"] {
        let error = setup().arg("--host").arg(host).start().unwrap_err().to_string();
        assert!(error.contains("require-token") || error.contains("require_token"), "{error}");
    }
    let team = team_of(setup().args(["--host", "0.0.0.0", "--require-token", "--no-watch"]), &[]).await;
    assert_eq!(team.get("/status").await.unwrap().status, 401);
    assert_eq!(team.as_person(Method::GET, "/status", None).await.status, 200);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn files_and_socket_are_readable_by_their_user_only() {
    let team = team(&["a"]).await;
    let folder = team.root().join(".rookery");
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("person.key")), 0o600);
    let file: Value = serde_json::from_slice(&std::fs::read(folder.join("daemon.json")).unwrap()).unwrap();
    let socket = text(&file["socket"]);
    assert_eq!(mode(Path::new(&socket)), 0o600);
    assert_eq!(mode(Path::new(&socket).parent().unwrap()), 0o700);
    assert_eq!(file["url"], team.url());
    assert_eq!(file["pid"], json!(team.pid()));
    // HTTP over the socket, with any Host.
    let status =
        request_over_socket(&socket, "GET /status HTTP/1.1\r\nHost: rookery\r\nConnection: close\r\n\r\n").await;
    assert!(status.starts_with("HTTP/1.1 200 OK\r\n") && status.contains("\"version\":\"0.1\""), "{status}");
    let body = r#"{"path":"x","agent_id":"a"}"#;
    let claim = format!(
        "POST /resources/claim HTTP/1.1\r\nHost: rookery\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert!(request_over_socket(&socket, &claim).await.ends_with("{\"granted\":true}"));
    assert_eq!(team.resource("x").await["owner"], "a");
}

async fn request_over_socket(path: &str, request: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn second_daemon_on_the_same_folder_does_not_start() {
    let team = team(&["a"]).await;
    let error = setup().start_at(team.root()).unwrap_err().to_string();
    assert!(error.contains(&team.pid().unwrap().to_string()) || error.contains(team.url()), "{error}");
    assert_eq!(team.get("/status").await.unwrap().status, 200);
}

#[tokio::test]
async fn redaction_removes_secret_and_keeps_its_event() {
    let team = team(&["a"]).await;
    let secret = "sk-live-0123456789";
    let body = json!({"agent_id": "a", "action": "x.note", "metadata": {"text": format!("the key is {secret}")}});
    let event = team.post("/events", body).await.unwrap().body;
    let task = team.create_task_with(json!({"description": secret})).await;
    let redacted = team.as_person(Method::POST, "/admin/redact", Some(json!({"match": "sk-live-[0-9]+"}))).await;
    assert_eq!(redacted.status, 200, "{}", redacted.body);
    assert!(redacted.body["redacted"].as_array().unwrap().contains(&event["seq"]));
    let state = team.ok("/state").await.to_string() + &team.ok("/events?limit=1000").await.to_string();
    assert!(!state.contains(secret));
    let kept = team.ok(&format!("/events/{}", text(&event["id"]))).await;
    assert_eq!((&kept["seq"], &kept["action"]), (&event["seq"], &json!("x.note")), "the event itself stays");
    assert_eq!(team.ok(&format!("/tasks/{}", text(&task["id"]))).await["status"], "queued");
    let newest = team.ok("/events?limit=1").await[0].clone();
    assert_eq!(newest["action"], "x.log.redacted");
    for (body, word) in [
        (json!({}), "seqs or match"),
        (json!({"match": "("}), "match"),
        (json!({"seqs": [1], "match": "x"}), "seqs or match"),
    ] {
        assert_rejected(&team.as_person(Method::POST, "/admin/redact", Some(body)).await, 400, "INVALID", word);
    }
    let unknown = team.as_person(Method::POST, "/admin/redact", Some(json!({"seqs": [99999]}))).await;
    assert_rejected(&unknown, 404, "EVENT_NOT_FOUND", "99999");
}

/// Sends a request whose body is too long for the log, so that it becomes an artifact.
async fn send_long_body(team: &Team, method: Method, path: &str, body: Value) -> HttpReply {
    let body = body.to_string() + &" ".repeat(70_000);
    read(team.request(method, path).header("content-type", "application/json").body(body)).await.unwrap()
}

/// Reports a note with a long body; its bytes are the same each time.
async fn report_long_note(team: &Team) -> Value {
    send_long_body(team, Method::POST, "/events", json!({"agent_id": "a", "action": "x.note"})).await.body["seq"]
        .clone()
}

/// The number of artifacts in the store.
fn count_artifacts(team: &Team) -> usize {
    match team.schema() {
        Some(schema) => schema.psql("SELECT count(*) FROM artifacts").unwrap().trim().parse().unwrap(),
        None => std::fs::read_dir(team.root().join(".rookery/artifacts")).map_or(0, |entries| entries.count()),
    }
}

#[tokio::test]
async fn long_body_is_erased_with_its_last_redacted_event() {
    let team = team(&["a"]).await;
    let start = json!({"status": "in_progress", "agent_id": "a"});
    assert_eq!(send_long_body(&team, Method::PATCH, "/tasks/task_none", start).await.status, 404);
    assert_eq!(count_artifacts(&team), 0, "a rejected request leaves nothing behind");
    let (first, second) = (report_long_note(&team).await, report_long_note(&team).await);
    assert_eq!(count_artifacts(&team), 1);
    for (seq, left) in [(first, 1), (second, 0)] {
        let redacted = team.as_person(Method::POST, "/admin/redact", Some(json!({"seqs": [seq]}))).await;
        assert_eq!((redacted.status.as_u16(), redacted.body.get("pending")), (200, None), "{}", redacted.body);
        assert_eq!(count_artifacts(&team), left);
    }
}

#[tokio::test]
async fn failed_erasure_is_pending_and_retried() {
    let team = team(&["a"]).await;
    if let Some(schema) = team.schema() {
        return check_erasure_waits_for_hold(&team, schema).await;
    }
    let seq = report_long_note(&team).await;
    let count_artifacts = team.root().join(".rookery/artifacts");
    let file = std::fs::read_dir(&count_artifacts).unwrap().next().unwrap().unwrap().path();
    // The removal fails: a folder stands in place of the file.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let redacted = team.as_person(Method::POST, "/admin/redact", Some(json!({"seqs": [seq]}))).await;
    assert_eq!(redacted.body["pending"].as_array().unwrap().len(), 1, "{}", redacted.body);
    std::fs::remove_dir(&file).unwrap();
    let closed = |events: &Value| (!events.as_array().unwrap().is_empty()).then_some(());
    team.wait_for("another try", "/events?action=x.intent.closed", closed).await;
}

/// In a database, a hold by a store under way keeps the artifact from being erased.
async fn check_erasure_waits_for_hold(team: &Team, schema: &Schema) {
    let seq = report_long_note(team).await;
    schema.psql("INSERT INTO artifact_holds SELECT 'somebody', sha256, 1e15 FROM artifacts").unwrap();
    let redacted = team.as_person(Method::POST, "/admin/redact", Some(json!({"seqs": [seq]}))).await;
    assert_eq!(redacted.body["pending"].as_array().unwrap().len(), 1, "{}", redacted.body);
    schema.psql("DELETE FROM artifact_holds").unwrap();
    let closed = |events: &Value| (!events.as_array().unwrap().is_empty()).then_some(());
    team.wait_for("another try", "/events?action=x.intent.closed", closed).await;
    assert_eq!(count_artifacts(team), 0);
}

#[tokio::test]
async fn probes_metrics_and_api_docs_are_served() {
    let team = team(&["a"]).await;
    assert_reply(&team.get("/healthz").await.unwrap(), 200, json!({"ok": true}));
    assert_reply(&team.get("/readyz").await.unwrap(), 200, json!({"ok": true}));
    let metrics = team.request(Method::GET, "/metrics").send().await.unwrap();
    assert!(metrics.headers()["content-type"].to_str().unwrap().starts_with("text/plain"));
    let text = metrics.text().await.unwrap();
    assert!(text.contains("rookery_log_head 2"), "{text}");
    let api = team.ok("/openapi.json").await;
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in [
        "/status",
        "/state",
        "/agents/announce",
        "/agents/{id}/heartbeat",
        "/resources/claim",
        "/tasks/{id}",
        "/events/stream",
    ] {
        assert!(api["paths"].get(path).is_some(), "{path}");
    }
    let docs = team.request(Method::GET, "/docs").send().await.unwrap();
    assert_eq!(docs.status(), 200);
    assert!(docs.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
}
