//! One registry for all surfaces: an agent registered by one is shown by the others in their own form.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::mcp;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::support::{ask, ask_ok, rest, setup, start};

/// The card of the protocol's description, with unknown fields.
fn ken() -> Value {
    json!({
        "v": "clutch/0.1",
        "agent_id": "agent:ken",
        "display": { "name": "Ken", "desc": "Research specialist", "avatar": "ken.png" },
        "endpoints": {
            "a2a": { "url": "http://ken:8080/a2a" },
            "clutch": { "url": "http://ken:8080/clutch" },
            "x-pager": { "number": 7 },
        },
        "capabilities": [
            { "id": "skill:research", "version": "1.0", "tags": ["market", "competitive", "fintech"],
              "tools": ["mcp:browser", "mcp:files"], "trust_level": "sandbox", "cost_hint": "medium" },
            { "id": "tool:mcp", "servers": ["mcp:browser", "mcp:files"], "x-speed": 2.5 },
        ],
        "limits": { "max_concurrency": 2, "max_runtime_sec": 600, "x-per-day": 20 },
        "security": { "sandbox": true, "network": "egress-restricted" },
        "x-team": { "name": "markets", "floor": [1, 2, null] },
    })
}

async fn put(daemon: &Daemon, card: &Value) -> Value {
    ask_ok(daemon, Method::PUT, "/agents/ken", Some(card.clone())).await
}

async fn card(daemon: &Daemon, id: &str) -> Value {
    ask_ok(daemon, Method::GET, &format!("/agents/{id}"), None).await
}

#[tokio::test]
async fn card_is_returned_as_sent_and_shown_by_every_surface() {
    let mut daemon = start();
    assert_eq!(put(&daemon, &ken()).await, ken());
    assert_eq!(
        ask_ok(&daemon, Method::PUT, "/agents/agent:ken", Some(ken())).await,
        ken(),
        "the prefix may be written"
    );
    assert_eq!(
        rest(&daemon, "/events?action=agent.joined").await.as_array().unwrap().len(),
        1,
        "a repeated card appends no event"
    );
    let by_rest = rest(&daemon, "/agents/ken").await;
    assert_eq!(
        (&by_rest["tool"], &by_rest["role"], &by_rest["name"], &by_rest["capabilities"]),
        (&json!("custom"), &json!("worker"), &json!("Ken"), &json!(["research", "tool:mcp"])),
    );
    let by_mcp = mcp::call_tool(&daemon, "ken", "agent_list", json!({})).await.unwrap()["agents"][0].clone();
    assert_eq!(
        (&by_mcp["id"], &by_mcp["name"], &by_mcp["runtime"], &by_mcp["capabilities"]),
        (&json!("ken"), &json!("Ken"), &json!("custom"), &json!(["research", "tool:mcp"])),
    );
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    assert_eq!(card(&daemon, "ken").await, ken());
    assert_eq!(ask_ok(&daemon, Method::GET, "/agents", None).await, json!({ "agents": [ken()] }));
    daemon.stop().unwrap();
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn agent_registered_by_another_surface_has_a_card() {
    let daemon = start();
    let announced = json!({ "id": "cursor-1", "tool": "cursor", "role": "specialist", "name": "Cora",
                            "capabilities": ["code", "code review", "research@1.2"] });
    assert_eq!(daemon.post("/agents/announce", announced).await.unwrap().status, 201);
    let registering = json!({ "name": "Cleo", "runtime": "claude_code", "capabilities": ["writing"] });
    mcp::call_tool(&daemon, "claude-1", "agent_register", registering).await.unwrap();
    let cora = json!({
        "v": "clutch/0.1",
        "agent_id": "agent:cursor-1",
        "display": { "name": "Cora" },
        "capabilities": [
            { "id": "skill:code" },
            { "id": "skill:code-review" },
            { "id": "skill:research", "version": "1.2" },
        ],
        "endpoints": {},
        "limits": {},
        "security": {},
        "meta": { "framework": "cursor", "role": "specialist" },
    });
    let cleo = json!({
        "v": "clutch/0.1",
        "agent_id": "agent:claude-1",
        "display": { "name": "Cleo" },
        "capabilities": [{ "id": "skill:writing" }],
        "endpoints": {},
        "limits": {},
        "security": {},
        "meta": { "framework": "claude-code", "role": "worker" },
    });
    assert_eq!(ask_ok(&daemon, Method::GET, "/agents", None).await, json!({ "agents": [cora, cleo] }));
    let sent_back = ask_ok(&daemon, Method::PUT, "/agents/cursor-1", Some(cora.clone())).await;
    assert_eq!(sent_back, cora, "a generated card can be sent back");
    let known = rest(&daemon, "/agents/cursor-1").await;
    assert_eq!((&known["tool"], &known["role"]), (&json!("cursor"), &json!("specialist")));
}

#[tokio::test]
async fn registration_by_another_surface_keeps_the_rest_of_the_card() {
    let daemon = start();
    put(&daemon, &ken()).await;
    let again = json!({ "id": "ken", "tool": "langgraph" });
    assert_eq!(daemon.post("/agents/announce", again).await.unwrap().status, 201);
    assert_eq!(card(&daemon, "ken").await, ken(), "the announcement has no field of a card");
    assert_eq!(rest(&daemon, "/agents/ken").await["tool"], "langgraph");
    let registering = json!({ "name": "Kenneth", "runtime": "langgraph", "capabilities": ["research", "law"] });
    mcp::call_tool(&daemon, "ken", "agent_register", registering).await.unwrap();
    let mut expected = ken();
    expected["display"]["name"] = json!("Kenneth");
    expected["capabilities"][1] = json!({ "id": "skill:law" });
    assert_eq!(card(&daemon, "ken").await, expected);
}

#[tokio::test]
async fn departure_releases_claims_on_every_surface() {
    let daemon = start();
    put(&daemon, &ken()).await;
    let task = json!({ "title": "look", "assigned_by": "ken", "assigned_to": "ken" });
    let task = daemon.post("/tasks", task).await.unwrap().body["id"].as_str().unwrap().to_owned();
    let begun = json!({ "status": "in_progress", "agent_id": "ken" });
    assert_eq!(daemon.patch(&format!("/tasks/{task}"), begun).await.unwrap().status, 200);
    mcp::call_tool(&daemon, "ken", "resource_claim", json!({ "path": "src/x" })).await.unwrap();
    assert_eq!(rest(&daemon, "/resources/src/x").await["owner"], "ken");
    assert_eq!(ask_ok(&daemon, Method::DELETE, "/agents/agent:ken", None).await, json!({ "ok": true }));
    assert_eq!(rest(&daemon, &format!("/tasks/{task}")).await["status"], "queued");
    assert_eq!(rest(&daemon, "/resources/src/x").await["owner"], Value::Null);
    assert_eq!(ask_ok(&daemon, Method::GET, "/agents", None).await, json!({ "agents": [] }));
    assert_eq!(rest(&daemon, "/agents").await, json!([]));
    assert_eq!(card(&daemon, "ken").await, ken(), "a departed agent stays readable by id");
}

#[tokio::test]
async fn heartbeat_counts_on_every_surface() {
    let daemon = setup().env("ROOKERY_OFFLINE_AFTER", "1s").start().unwrap();
    put(&daemon, &ken()).await;
    let beaten = ask_ok(&daemon, Method::POST, "/agents/agent:ken/heartbeat", None).await;
    assert_eq!(beaten["ok"], true);
    assert!(beaten["next_heartbeat_ms"].as_u64().unwrap() > 0);
    let missed = || async { Ok((rest(&daemon, "/agents/ken").await["status"] == "offline").then_some(())) };
    eventually("the silent agent is offline", missed).await.unwrap();
    assert_eq!(
        rest(&daemon, "/events?action=agent.heartbeat").await,
        json!([]),
        "an unchanged heartbeat appends no event"
    );
    // A busy daemon may declare the agent offline just after a heartbeat; then the next one brings it back.
    let back = || async {
        ask_ok(&daemon, Method::POST, "/agents/ken/heartbeat", Some(json!({}))).await;
        Ok((rest(&daemon, "/events?action=agent.heartbeat").await != json!([])).then_some(()))
    };
    eventually("the agent is back", back).await.unwrap();
    let reply = ask(&daemon, Method::POST, "/agents/nobody-here/heartbeat", None).await;
    assert_eq!((reply.status.as_u16(), &reply.body["code"]), (404, &json!("AGENT_NOT_FOUND")));
}

#[tokio::test]
async fn invalid_card_is_rejected_with_every_fault() {
    let daemon = start();
    let mut bad = ken();
    bad["v"] = json!("clutch/9");
    bad["capabilities"][0]["version"] = json!("newest");
    bad["limits"]["max_concurrency"] = json!(-1);
    bad["endpoints"]["clutch"]["url"] = json!("http://user:secret@ken/");
    let reply = ask(&daemon, Method::PUT, "/agents/ken", Some(bad)).await;
    assert_eq!((reply.status.as_u16(), &reply.body["retryable"]), (400, &json!(false)));
    assert_eq!((&reply.body["code"], &reply.body["details"]["pointer"]), (&json!("UNSUPPORTED_VERSION"), &json!("/v")));
    let faults = reply.body["details"]["faults"].as_array().unwrap();
    let pointers: Vec<&Value> = faults.iter().map(|fault| &fault["pointer"]).collect();
    assert_eq!(pointers, ["/v", "/endpoints/clutch/url", "/capabilities/0/version", "/limits/max_concurrency"]);
    assert!(!reply.body.to_string().contains("secret"), "{}", reply.body);
    let other = ask(&daemon, Method::PUT, "/agents/barbie", Some(ken())).await;
    assert_eq!((other.status.as_u16(), &other.body["details"]["pointer"]), (400, &json!("/agent_id")));
    for name in ["orchestrator", "agent:router", "person:anna", "group:workers"] {
        let reply = ask(&daemon, Method::PUT, &format!("/agents/{name}"), Some(ken())).await;
        assert_eq!(reply.status, 400, "{name}: {}", reply.body);
    }
    let url = "/clutch/v0/agents/ken";
    let broken = daemon.request(Method::PUT, url).header("content-type", "application/json").body(r#"{"v":"#);
    let reply = read(broken).await.unwrap();
    assert_eq!((reply.status.as_u16(), &reply.body["code"]), (400, &json!("MALFORMED_JSON")));
    let plain = read(daemon.request(Method::PUT, url).body(ken().to_string())).await.unwrap();
    assert_eq!((plain.status.as_u16(), &plain.body["code"]), (415, &json!("UNSUPPORTED_MEDIA_TYPE")));
    let missing = ask(&daemon, Method::GET, "/agents/ken", None).await;
    assert_eq!((missing.status.as_u16(), &missing.body["code"]), (404, &json!("AGENT_NOT_FOUND")));
    assert_eq!(rest(&daemon, "/status").await["event_count"], 0);
}

#[tokio::test]
async fn card_of_another_agent_is_rejected() {
    let daemon = start();
    put(&daemon, &ken()).await;
    put_as(&daemon, "ada", "ada").await;
    let stolen = daemon.request(Method::PUT, "/clutch/v0/agents/ken").header("x-agent-id", "ada").json(&ken());
    let reply = read(stolen).await.unwrap();
    assert_eq!((reply.status.as_u16(), &reply.body["code"]), (403, &json!("FORBIDDEN")));
    assert!(reply.body["details"]["hint"].is_string());
}

async fn put_as(daemon: &Daemon, caller: &str, id: &str) {
    let card = json!({ "v": "clutch/0.1", "agent_id": id });
    let request = daemon.request(Method::PUT, &format!("/clutch/v0/agents/{id}")).header("x-agent-id", caller);
    assert_eq!(read(request.json(&card)).await.unwrap().status, 200);
}
