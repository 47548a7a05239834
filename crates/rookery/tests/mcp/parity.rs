//! One scenario through REST and through MCP appends the same events.

use std::collections::HashMap;

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use serde_json::{Value, json};

use crate::support::{Client, TRANSPORTS, Transport, connect, create_task, export_log, setup, text};

#[tokio::test]
async fn same_scenario_through_rest_and_mcp_appends_the_same_events() {
    let daemon = setup().start().unwrap();
    play_through_rest(&daemon).await;
    let by_rest = normalized_rows(&export_log(&daemon));
    assert!(by_rest.len() > 20, "{by_rest:?}");
    for transport in TRANSPORTS {
        let daemon = setup().start().unwrap();
        let a = connect_member(&daemon, transport, "a").await;
        let b = connect_member(&daemon, transport, "b").await;
        play_through_mcp(&daemon, &a, &b).await;
        assert_eq!(normalized_rows(&export_log(&daemon)), by_rest, "{transport:?}");
    }
}

/// Connects a client whose agent is part of the team. Most transports register it on connection.
async fn connect_member(daemon: &Daemon, transport: Transport, agent: &str) -> Client {
    let client = connect(daemon, transport, Some(agent)).await;
    client.call("coord_send_heartbeat", json!({})).await;
    client
}

async fn play_through_rest(daemon: &Daemon) {
    let call = async |method: Method, path: &str, agent: &str, body: Value| {
        let request = daemon.request(method, path).header("X-Agent-Id", agent).json(&body);
        let reply = read(request).await.unwrap();
        assert!(reply.status.is_success(), "{path}: {}", reply.body);
        reply.body
    };
    for id in ["a", "b"] {
        let unknown = json!({"id": id, "tool": "custom", "role": "worker", "capabilities": []});
        call(Method::POST, "/agents/announce", id, unknown).await;
    }
    for id in ["a", "b"] {
        let agent = json!({"id": id, "tool": "claude-code", "name": id, "role": "worker", "capabilities": ["rust"]});
        call(Method::POST, "/agents/announce", id, agent).await;
    }
    let task = create_task(daemon, None).await;
    let path = format!("/tasks/{task}");
    call(Method::PATCH, &path, "b", json!({"status": "assigned", "agent_id": "b"})).await;
    call(Method::PATCH, &path, "b", json!({"status": "in_progress", "agent_id": "b"})).await;
    call(Method::POST, "/resources/claim", "b", json!({"path": "./src//x", "agent_id": "b", "task_id": task})).await;
    call(Method::POST, "/resources/claim", "b", json!({"path": "docs/", "agent_id": "b"})).await;
    call(Method::POST, "/resources/release", "b", json!({"path": "docs/", "agent_id": "b"})).await;
    let offer = json!({"from_agent": "b", "to_agent": "a", "task_id": task, "summary": "half done", "blockers": ["x"]});
    let handoff = text(&call(Method::POST, "/handoffs", "b", offer).await["id"]);
    call(Method::PATCH, &format!("/handoffs/{handoff}/accept"), "a", json!({"agent_id": "a"})).await;
    call(Method::PATCH, &path, "a", json!({"status": "review", "agent_id": "a"})).await;
    let done = json!({"status": "done", "agent_id": "a", "outcome": "it works", "outcome_detail": {"n": 1}});
    call(Method::PATCH, &path, "a", done).await;
    let other = text(&call(Method::POST, "/tasks", "somebody", other_task()).await["id"]);
    let path = format!("/tasks/{other}");
    let offer = json!({"from_agent": "b", "to_agent": "a", "task_id": other, "summary": "yours?"});
    call(Method::PATCH, &path, "b", json!({"status": "in_progress", "agent_id": "b"})).await;
    let handoff = text(&call(Method::POST, "/handoffs", "b", offer).await["id"]);
    let rejection = json!({"agent_id": "a", "reason": "busy"});
    call(Method::PATCH, &format!("/handoffs/{handoff}/reject"), "a", rejection).await;
    call(Method::PATCH, &path, "b", json!({"status": "blocked", "agent_id": "b", "reason": "lunch"})).await;
    call(Method::PATCH, &path, "b", json!({"status": "in_progress", "agent_id": "b"})).await;
    call(Method::PATCH, &path, "b", json!({"status": "queued", "agent_id": "b", "reason": "not mine"})).await;
    call(Method::POST, &format!("{path}/cancel"), "a", json!({"reason": "not needed"})).await;
    call(Method::PATCH, "/agents/a/status", "a", json!({"status": "working"})).await;
    call(Method::DELETE, "/agents/b", "b", json!(null)).await;
}

/// The request of a task outside of a workflow, which only REST can create.
fn other_task() -> Value {
    json!({"title": "other", "assigned_by": "somebody", "resources": ["docs/"]})
}

async fn play_through_mcp(daemon: &Daemon, a: &Client, b: &Client) {
    for (client, name) in [(a, "a"), (b, "b")] {
        let agent = json!({"name": name, "runtime": "claude_code", "capabilities": ["rust"]});
        assert_eq!(client.call("agent_register", agent).await["id"], name);
    }
    let task = create_task(daemon, None).await;
    b.call("task_claim", json!({"task_id": task})).await;
    b.call("task_update_status", json!({"id": task, "status": "in_progress"})).await;
    b.call("resource_claim", json!({"path": "./src//x", "task_id": task})).await;
    b.call("resource_claim", json!({"path": "docs/"})).await;
    b.call("resource_release", json!({"path": "docs/"})).await;
    let offer = json!({"to_agent": "a", "task_id": task, "summary": "half done", "blockers": ["x"]});
    let handoff = b.call("handoff_create", offer).await;
    a.call("handoff_accept", json!({"handoff_id": handoff["id"]})).await;
    a.call("task_update_status", json!({"id": task, "status": "review"})).await;
    let done = json!({"id": task, "status": "completed", "outcome": "it works", "outcome_detail": {"n": 1}});
    a.call("task_update_status", done).await;
    let created = read(daemon.request(Method::POST, "/tasks").header("X-Agent-Id", "somebody").json(&other_task()))
        .await
        .unwrap();
    let other = text(&created.body["id"]);
    b.call("task_update_status", json!({"id": other, "status": "in_progress"})).await;
    let offer = json!({"to_agent": "a", "task_id": other, "summary": "yours?"});
    let handoff = b.call("handoff_create", offer).await;
    a.call("handoff_reject", json!({"handoff_id": handoff["id"], "reason": "busy"})).await;
    b.call("task_update_status", json!({"id": other, "status": "paused", "reason": "lunch"})).await;
    b.call("task_update_status", json!({"id": other, "status": "in_progress"})).await;
    b.call("task_release", json!({"task_id": other, "reason": "not mine"})).await;
    a.call("task_update_status", json!({"id": other, "status": "cancelled", "reason": "not needed"})).await;
    a.call("agent_update", json!({"status": "busy"})).await;
    b.call("agent_unregister", json!({})).await;
}

fn normalized_rows(rows: &[Value]) -> Vec<Value> {
    let mut ids: HashMap<String, String> = HashMap::new();
    let mut profiles: HashMap<String, Value> = HashMap::new();
    let kept = rows.iter().filter_map(|row| {
        let mut kept = json!({"kind": row["kind"], "actor": row["actor"], "auth": row["auth"], "fact": row["fact"]});
        // The bridge proves its agent: that is recorded with the event, and is no difference in content.
        if kept["auth"] == "session" {
            kept["auth"] = "asserted".into();
            if kept["fact"]["sealed"] == true {
                kept["fact"]["sealed"] = false.into();
            }
        }
        number_ids(&mut kept, &mut ids);
        // The bridge also reports the session of its program; an update with nothing else is no difference.
        if let Some(profile) = kept["fact"].as_object_mut().filter(|event| event.contains_key("capabilities")) {
            profile.remove("session_id");
            let profile = kept["fact"].clone();
            let before = profiles.insert(text(&profile["id"]), profile.clone());
            if kept["kind"] == "agent.updated" && before == Some(profile) {
                return None;
            }
        }
        Some(kept)
    });
    kept.collect()
}

/// Replaces generated ids by their number.
fn number_ids(value: &mut Value, ids: &mut HashMap<String, String>) {
    match value {
        Value::String(text) if ["task_", "hoff_", "site_"].iter().any(|kind| text.starts_with(kind)) => {
            let next = format!("id{}", ids.len());
            *text = ids.entry(text.clone()).or_insert(next).clone();
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| number_ids(entry, ids)),
        Value::Object(fields) => fields.values_mut().for_each(|field| number_ids(field, ids)),
        _ => {}
    }
}
