//! Results of single tools that no other surface has.

use std::collections::HashMap;

use reqwest::header::{HeaderName, HeaderValue};
use rookery_testkit::daemon::Daemon;
use serde_json::json;

use crate::support::{Client, Transport, connect, connect_with, create_task, first_text, rows_of_kind, setup};

#[tokio::test]
async fn task_lifecycle_from_claim_to_completion() {
    let daemon = setup().start().unwrap();
    let (a, b) = (
        connect(&daemon, Transport::Session, Some("a")).await,
        connect(&daemon, Transport::Stateless, Some("b")).await,
    );
    for (client, name) in [(&a, "a"), (&b, "b")] {
        assert_eq!(client.register(name).await, name);
    }
    let task = create_task(&daemon, None).await;
    assert_eq!(a.call("task_claim", json!({"task_id": task})).await["success"], true);
    assert_eq!(a.call("task_claim", json!({"task_id": task})).await["success"], true);
    let late = b.call("task_claim", json!({"task_id": task})).await;
    assert_eq!(late, json!({"success": false, "already_claimed_by": "a"}));

    let foreign = b.call_rejected("task_update_status", json!({"id": task, "status": "in_progress"})).await;
    assert_eq!(foreign["recoverable"], false, "{foreign}");
    a.call("task_update_status", json!({"id": task, "status": "in_progress"})).await;
    let bare = a.call_rejected("task_update_status", json!({"id": task, "status": "completed"})).await;
    assert_eq!((&bare["code"], &bare["recoverable"]), (&json!("MISSING_OUTCOME"), &json!(true)));
    let failed = a.call_rejected("task_update_status", json!({"id": task, "status": "failed"})).await;
    assert_eq!(failed["code"], "MISSING_ERROR");
    let done = json!({"id": task, "status": "completed", "outcome": "it works", "outcome_detail": {"files": 2}});
    a.call("task_update_status", done).await;
    let task_after = b.call("task_get", json!({"id": task})).await;
    assert_eq!((&task_after["status"], &task_after["outcome"]), (&json!("completed"), &json!("it works")));
    assert_eq!(task_after["outcome_detail"], json!({"files": 2}));
    let again = a.call_rejected("task_update_status", json!({"id": task, "status": "in_progress"})).await;
    assert_eq!(again["code"], "INVALID_TRANSITION");
    assert!(again["suggestion"].is_string());
}

#[tokio::test]
async fn departed_agent_must_register_again() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    assert_eq!(a.call("agent_unregister", json!({})).await["success"], true);
    for (tool, arguments) in [
        ("agent_heartbeat", json!({})),
        ("agent_heartbeat", json!({"status": "busy"})),
        ("agent_update", json!({"status": "online"})),
        ("agent_update", json!({"metadata": {"x": 1}})),
    ] {
        let rejected = a.call_rejected(tool, arguments).await;
        assert_eq!(rejected["code"], "AGENT_NOT_FOUND", "{tool}: {rejected}");
        assert_eq!(rejected["message"], "Agent not found: 'a' has left the team", "{tool}");
        assert!(rejected["suggestion"].as_str().unwrap().contains("agent_register"), "{rejected}");
    }
    assert_eq!(a.call("agent_list", json!({})).await["agents"], json!([]));
    a.register("a").await;
    assert_eq!(a.call("agent_heartbeat", json!({})).await["success"], true);
}

#[tokio::test]
async fn call_of_worker_for_unknown_agent_is_agent_not_found() {
    let daemon = setup().start().unwrap();
    let (lead, b) =
        (connect(&daemon, Transport::Session, Some("a")).await, connect(&daemon, Transport::Session, Some("b")).await);
    lead.register("a").await;
    b.register("b").await;
    for (tool, arguments) in [
        ("agent_heartbeat", json!({"agent_id": "ghost"})),
        ("agent_heartbeat", json!({"agent_id": "ghost", "status": "busy"})),
        ("agent_update", json!({"id": "ghost", "status": "online"})),
        ("agent_unregister", json!({"id": "ghost"})),
    ] {
        let rejected = b.call_rejected(tool, arguments).await;
        assert_eq!(rejected["code"], "AGENT_NOT_FOUND", "{tool}: {rejected}");
    }
    for (tool, arguments) in [
        ("agent_heartbeat", json!({"agent_id": "a"})),
        ("agent_update", json!({"id": "a", "status": "online"})),
        ("agent_unregister", json!({"id": "a"})),
    ] {
        let rejected = b.call_rejected(tool, arguments).await;
        assert_eq!(rejected["code"], "FORBIDDEN", "{tool}: {rejected}");
    }
}

#[tokio::test]
async fn file_claims_and_handoffs_move_between_agents() {
    let daemon = setup().start().unwrap();
    let (a, b) =
        (connect(&daemon, Transport::Socket, Some("a")).await, connect(&daemon, Transport::Bridge, Some("b")).await);
    a.register("a").await;
    b.register("b").await;
    let task = create_task(&daemon, None).await;
    a.call("task_claim", json!({"task_id": task})).await;
    assert_eq!(
        a.call("resource_claim", json!({"path": "./src/x.rs", "task_id": task})).await,
        json!({"granted": true})
    );
    let taken = b.call("resource_claim", json!({"path": "src/x.rs"})).await;
    assert_eq!((&taken["granted"], &taken["owner"]), (&json!(false), &json!("a")));
    let listed = b.call("resource_list", json!({})).await;
    assert_eq!(listed["resources"][0]["path"], "src/x.rs");

    let offer = json!({"task_id": task, "to_agent": "b", "summary": "half done"});
    let handoff = a.call("handoff_create", offer.clone()).await;
    b.call("handoff_accept", json!({"handoff_id": handoff["id"]})).await;
    assert_eq!(b.call("task_get", json!({"id": task})).await["assigned_agent_id"], "b");
    assert_eq!(b.call("resource_release", json!({"path": "src/x.rs"})).await, json!({"released": true}));
    let back = b.call("handoff_create", json!({"task_id": task, "to_agent": "a", "summary": "yours"})).await;
    let rejected = a.call("handoff_reject", json!({"handoff_id": back["id"], "reason": "busy"})).await;
    assert_eq!(rejected, json!({"rejected": true}));
    b.call("task_release", json!({"task_id": task})).await;
    assert_eq!(b.call("task_get", json!({"id": task})).await["status"], "pending");
}

#[tokio::test]
async fn named_caller_of_a_coordination_tool_is_present() {
    let daemon = setup().start().unwrap();
    let stranger = connect(&daemon, Transport::Session, Some("p11-guardrails")).await;
    let present = stranger.call("coord_get_presence", json!({})).await;
    assert_eq!(present["instances"][0]["instance_id"], "p11-guardrails");
    assert_eq!(present["instances"][0]["status"], "active");
    let beat = stranger.call("coord_send_heartbeat", json!({})).await;
    assert!(beat["timestamp"].as_str().unwrap().ends_with('Z'), "{beat}");
}

#[tokio::test]
async fn unnamed_caller_may_read_and_learns_how_to_identify() {
    let daemon = setup().start().unwrap();
    for transport in [Transport::Session, Transport::Stateless, Transport::Bridge] {
        let unnamed = connect(&daemon, transport, None).await;
        assert!(unnamed.call("agent_list", json!({})).await["agents"].is_array());
        let rejected = unnamed.call_rejected("resource_claim", json!({"path": "x"})).await;
        assert_eq!(rejected["code"], "NO_IDENTITY", "{transport:?}");
        let advice = rejected["suggestion"].as_str().unwrap();
        for option in ["agent_id", "X-Agent-Id", "--agent", "ROOKERY_AGENT_ID"] {
            assert!(advice.contains(option), "{advice}");
        }
        assert!(!advice.contains("agent_register"), "not every toolset has that tool: {advice}");
        let wrong = unnamed.call_rejected("task_claim", json!({"task_id": 7})).await;
        assert_eq!((&wrong["code"], &wrong["recoverable"]), (&json!("INVALID_INPUT"), &json!(true)), "{transport:?}");
        let missing = unnamed.call_rejected("task_get", json!({"id": "task_none"})).await;
        assert_eq!((&missing["code"], &missing["recoverable"]), (&json!("TASK_NOT_FOUND"), &json!(false)));
    }
}

#[tokio::test]
async fn identified_caller_does_not_act_for_others() {
    let daemon = setup().start().unwrap();
    let lead = connect(&daemon, Transport::Session, Some("lead")).await;
    let (a, b) =
        (connect(&daemon, Transport::Session, Some("a")).await, connect(&daemon, Transport::Session, Some("b")).await);
    for (client, name) in [(&lead, "lead"), (&a, "a"), (&b, "b")] {
        client.register(name).await;
    }
    let task = create_task(&daemon, None).await;
    let rejected = a.call_rejected("task_claim", json!({"task_id": task, "agent_id": "b"})).await;
    assert_eq!(rejected["code"], "FORBIDDEN");
    let text = first_text(&b.call_raw("task_claim", json!({"task_id": task})).await);
    assert!(text.starts_with(r#"{"#) && text.contains(r#""success":true"#), "{text}");
}

#[tokio::test]
async fn call_of_offline_agent_brings_it_back() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    a.call("agent_update", json!({"status": "offline", "metadata": {"k": 1}})).await;
    assert_eq!(daemon.get("/agents/a").await.unwrap().body["status"], "offline");
    let me = a.call("agent_get", json!({"id": "a"})).await;
    assert_eq!((&me["status"], &me["metadata"]), (&json!("online"), &json!({"k": 1})));
}

/// A client that sends the same idempotency key with every call.
async fn connect_with_key(daemon: &Daemon, agent: Option<&str>, key: &str) -> Client {
    let agent_header = agent.map(|agent| ("x-agent-id", agent));
    let headers: HashMap<_, _> = [("idempotency-key", key)]
        .into_iter()
        .chain(agent_header)
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    connect_with(daemon, Transport::Stateless, "", agent, headers).await
}

#[tokio::test]
async fn duplicate_call_under_one_key_is_executed_once() {
    let daemon = setup().start().unwrap();
    let new = connect_with_key(&daemon, None, "first").await;
    let id = new.register("one").await;
    assert_eq!(new.register("one").await, id);
    assert_eq!(rows_of_kind(&daemon, "agent.registered").len(), 1);
    assert!(rows_of_kind(&daemon, "agent.updated").is_empty());

    let task = create_task(&daemon, None).await;
    connect_with_key(&daemon, Some(&id), "second").await.call("task_claim", json!({"task_id": task})).await;
    let again = connect_with_key(&daemon, Some(&id), "third").await;
    let offer = json!({"task_id": task, "summary": "take it"});
    let (one, other) = (again.call("handoff_create", offer.clone()).await, again.call("handoff_create", offer).await);
    assert_eq!(one, other);
    assert_eq!(rows_of_kind(&daemon, "handoff.initiated").len(), 1);
    let different = again.call_rejected("task_release", json!({"task_id": task})).await;
    assert_eq!(different["code"], "IDEMPOTENCY_MISMATCH");
}
