//! Agents: announcing, who leads, heartbeats, statuses, leaving.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Team, assert_error, assert_json, assert_rejected, assert_reply, assert_time, eventually, fields, team, text,
};

const FIELDS: [&str; 8] =
    ["capabilities", "current_task", "id", "joined_at", "last_heartbeat", "role", "status", "tool"];

#[tokio::test]
async fn announce_returns_the_agent_with_defaults() {
    let team = team(&[]).await;
    let reply = team.post("/agents/announce", json!({"id": "claude-code-1", "tool": "claude-code"})).await.unwrap();
    assert_eq!(reply.status, 201);
    assert_json(&reply);
    let agent = &reply.body;
    assert_eq!(fields(agent), FIELDS);
    assert_time(&agent["joined_at"]);
    assert_time(&agent["last_heartbeat"]);
    let mut plain = agent.clone();
    plain.as_object_mut().unwrap().retain(|name, _| !["joined_at", "last_heartbeat"].contains(&name.as_str()));
    assert_eq!(
        plain,
        json!({"id": "claude-code-1", "tool": "claude-code", "role": "worker", "status": "idle",
            "current_task": null, "capabilities": ["code"]})
    );
    assert_eq!(team.ok("/agents/claude-code-1").await["joined_at"], agent["joined_at"]);
    assert_eq!(team.ok("/agents").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn announced_profile_is_returned_by_every_endpoint() {
    let team = team(&[]).await;
    let profile = json!({"id": "cursor-1", "tool": "cursor", "role": "specialist", "capabilities": ["code", "review"],
        "name": "Cursor", "workspace_path": "/tmp/elsewhere", "metadata": {"model": "x", "n": 1}, "unknown": [1]});
    let announced = team.post("/agents/announce", profile.clone()).await.unwrap().body;
    let listed = team.ok("/agents").await[0].clone();
    let in_state = team.ok("/state").await["agents"][0].clone();
    for agent in [announced, listed, team.ok("/agents/cursor-1").await, in_state] {
        for field in ["id", "tool", "role", "capabilities", "name", "workspace_path", "metadata"] {
            assert_eq!(agent[field], profile[field], "{field}");
        }
        assert_eq!(agent.get("unknown"), None);
    }
}

#[tokio::test]
async fn announce_without_id_or_tool_is_rejected() {
    let team = team(&[]).await;
    for body in [
        json!({}),
        json!({"id": "a"}),
        json!({"tool": "t"}),
        json!({"id": "", "tool": "t"}),
        json!({"id": null, "tool": "t"}),
    ] {
        let reply = team.post("/agents/announce", body).await.unwrap();
        assert_error(&reply, 400, "INVALID", "id and tool are required");
    }
    assert_eq!(team.head().await, 0);
}

#[tokio::test]
async fn reserved_or_malformed_agent_id_is_rejected() {
    let team = team(&[]).await;
    let odd = ["@x", "x@", "a@b@c", "a\u{200b}"];
    for id in ["system", "watcher", "person:anna", "group:workers", "a b", "a\nb"].into_iter().chain(odd) {
        let reply = team.post("/agents/announce", json!({"id": id, "tool": "t"})).await.unwrap();
        assert_rejected(&reply, 400, "INVALID", "id");
    }
    assert_eq!(team.head().await, 0);
}

#[tokio::test]
async fn repeated_announce_updates_profile_and_keeps_claims() {
    let team = team(&["a"]).await;
    let before = team.ok("/agents/a").await;
    team.claim("src/a.rs", "a").await;
    let task = team.create_task().await;
    team.move_task(&task, "in_progress", "a").await;
    let again = team.post("/agents/announce", json!({"id": "a", "tool": "other", "capabilities": []})).await.unwrap();
    assert_eq!(again.status, 201);
    assert_eq!((&again.body["tool"], &again.body["capabilities"]), (&json!("other"), &json!([])));
    assert_eq!(again.body["joined_at"], before["joined_at"]);
    assert_eq!((&again.body["status"], &again.body["current_task"]), (&json!("working"), &json!(task)));
    assert_eq!(team.resource("src/a.rs").await["owner"], "a");
    assert_eq!(team.ok(&format!("/tasks/{task}")).await["assigned_to"], "a");
    assert_eq!(team.ok("/status").await["agents"]["total"], 1);
    let head = team.head().await;
    team.post("/agents/announce", json!({"id": "a", "tool": "other", "capabilities": []})).await.unwrap();
    assert_eq!(team.head().await, head, "nothing changed");
}

#[tokio::test]
async fn announce_brings_offline_agent_back() {
    let team = team(&["a", "b"]).await;
    set_status(&team, "b", "offline").await;
    assert_eq!(team.ok("/status").await["agents"], json!({"total": 2, "active": 1, "lead": "a"}));
    assert_eq!(team.announce("b", "worker").await["status"], "idle");
    assert_eq!(team.ok("/status").await["agents"]["active"], 2);
}

#[tokio::test]
async fn first_agent_leads_until_another_asks_for_the_lead() {
    let team = team(&[]).await;
    assert_eq!(team.lead().await, Value::Null);
    team.announce("first", "worker").await;
    assert_eq!(team.lead().await, "first");
    team.announce("asks", "lead").await;
    assert_eq!(team.lead().await, "asks");
    // An agent that asked keeps the lead; the other keeps the role that it asked for.
    assert_eq!(team.announce("late", "lead").await["role"], "lead");
    assert_eq!(team.lead().await, "asks");
    assert_eq!(team.ok("/state").await["lead"], "asks");
    let decisions = team.events("authority.decision").await;
    let chosen: Vec<&Value> = decisions.iter().map(|event| &event["metadata"]["holder"]).collect();
    assert_eq!(chosen, ["first", "asks"]);
    assert_eq!(decisions[1]["metadata"]["previous"], "first");
}

#[tokio::test]
async fn lead_succession_prefers_oldest_asker_then_specialist_then_worker() {
    let team = team(&[]).await;
    for (id, role) in
        [("w1", "worker"), ("s1", "specialist"), ("l1", "lead"), ("s2", "specialist"), ("l2", "lead"), ("l3", "lead")]
    {
        team.announce(id, role).await;
    }
    let mut leads = vec![team.lead().await];
    for gone in ["l1", "l2", "l3", "s1", "s2", "w1"] {
        assert_reply(&team.delete(&format!("/agents/{gone}")).await.unwrap(), 200, json!({"ok": true}));
        leads.push(team.lead().await);
    }
    assert_eq!(leads, [json!("l1"), json!("l2"), json!("l3"), json!("s1"), json!("s2"), json!("w1"), Value::Null]);
    let decisions = team.events("authority.decision").await;
    assert_eq!(decisions.last().unwrap()["metadata"]["because"], "vacated");
    // A promoted lead that never asked yields to one that asks.
    team.announce("w2", "worker").await;
    team.announce("l4", "lead").await;
    assert_eq!(team.lead().await, "l4");
}

#[tokio::test]
async fn lead_returning_to_vacant_lead_is_chosen_once() {
    let team = team(&[]).await;
    team.announce("a", "lead").await;
    set_status(&team, "a", "offline").await;
    assert_eq!(team.lead().await, Value::Null);
    let before = team.events("authority.decision").await.len();
    team.announce("a", "lead").await;
    assert_eq!(team.lead().await, "a");
    assert_eq!(team.events("authority.decision").await.len(), before + 1);
}

#[tokio::test]
async fn heartbeat_of_online_agent_appends_no_event() {
    let team = team(&["a"]).await;
    let (head, before) = (team.head().await, team.ok("/agents/a").await["last_heartbeat"].as_i64().unwrap());
    eventually("a later heartbeat", || async {
        assert_reply(&send_heartbeat(&team, "a").await, 200, json!({"ok": true}));
        (team.ok("/agents/a").await["last_heartbeat"].as_i64().unwrap() > before).then_some(())
    })
    .await;
    assert_eq!(team.head().await, head);
    assert_error(&send_heartbeat(&team, "nobody-knows").await, 404, "AGENT_NOT_FOUND", "Agent not found");
}

#[tokio::test]
async fn heartbeat_brings_offline_agent_back() {
    let team = team(&["a", "b"]).await;
    set_status(&team, "b", "offline").await;
    assert_eq!(team.ok("/agents/b").await["status"], "offline");
    assert_reply(&send_heartbeat(&team, "b").await, 200, json!({"ok": true}));
    assert_eq!(team.ok("/agents/b").await["status"], "idle");
    let events = team.events("agent.heartbeat").await;
    assert_eq!(events.iter().map(|event| &event["agent_id"]).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn late_heartbeat_of_departed_agent_is_rejected() {
    let team = team(&["a", "b"]).await;
    team.delete("/agents/b").await.unwrap();
    let head = team.head().await;
    let late = send_heartbeat(&team, "b").await;
    assert_error(&late, 404, "AGENT_NOT_FOUND", "Agent not found: 'b' has left the team");
    assert_eq!(late.body["hint"], "register it again first");
    let status = team.patch("/agents/b/status", json!({"status": "idle"})).await.unwrap();
    assert_rejected(&status, 404, "AGENT_NOT_FOUND", "'b' has left");
    assert_eq!(team.head().await, head);
    assert_eq!(team.ok("/agents").await.as_array().unwrap().len(), 1);
    team.announce("b", "worker").await;
    assert_reply(&send_heartbeat(&team, "b").await, 200, json!({"ok": true}));
    assert_eq!(team.ok("/agents").await.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn every_agent_status_can_be_set_and_read() {
    let team = team(&["a", "b"]).await;
    for status in ["working", "blocked", "waiting_review", "idle", "offline", "idle"] {
        set_status(&team, "b", status).await;
        assert_eq!(team.ok("/agents/b").await["status"], status);
        let newest = team.ok("/events?limit=1&agent_id=b").await[0].clone();
        assert_eq!((&newest["action"], &newest["agent_id"]), (&json!("agent.status_changed"), &json!("b")), "{status}");
    }
    let head = team.head().await;
    set_status(&team, "b", "idle").await;
    assert_eq!(team.head().await, head, "the same status appends no event");
}

#[tokio::test]
async fn status_change_with_unknown_status_or_agent_is_rejected() {
    let team = team(&["a"]).await;
    let path = |id: &str| format!("/agents/{id}/status");
    assert_error(&team.patch(&path("a"), json!({})).await.unwrap(), 400, "INVALID", "status is required");
    assert_error(&team.patch(&path("a"), json!({"status": null})).await.unwrap(), 400, "INVALID", "status is required");
    let unknown = team.patch(&path("a"), json!({"status": "dreaming"})).await.unwrap();
    assert_rejected(&unknown, 400, "INVALID", "field 'status'");
    let stranger = team.patch(&path("x"), json!({"status": "idle"})).await.unwrap();
    assert_error(&stranger, 404, "AGENT_NOT_FOUND", "Agent not found");
}

#[tokio::test]
async fn offline_status_releases_claims_and_tasks() {
    let team = team(&["a", "b"]).await;
    team.claim("x", "a").await;
    let task = team.create_task().await;
    team.move_task(&task, "in_progress", "a").await;
    set_status(&team, "a", "offline").await;
    assert_eq!(team.resource("x").await["state"], "free");
    let task = team.ok(&format!("/tasks/{task}")).await;
    assert_eq!((&task["status"], &task["assigned_to"]), (&json!("queued"), &Value::Null));
    assert_eq!(team.lead().await, "b");
}

#[tokio::test]
async fn departure_releases_everything_and_keeps_agent_readable() {
    let team = team(&["a", "b"]).await;
    team.claim("x", "b").await;
    team.claim("dir/", "b").await;
    let task = team.create_task().await;
    team.move_task(&task, "in_progress", "b").await;
    let reserved = team.create_task_with(json!({"assigned_to": "b"})).await;
    assert_reply(&team.delete("/agents/b").await.unwrap(), 200, json!({"ok": true}));
    for path in ["x", "dir/"] {
        let resource = team.resource(path).await;
        assert_eq!((&resource["state"], &resource["owner"]), (&json!("free"), &Value::Null), "{path}");
    }
    for task in [&task, &text(&reserved["id"])] {
        assert_eq!(team.ok(&format!("/tasks/{task}")).await["status"], "queued");
    }
    let listed = team.ok("/agents").await;
    assert_eq!(listed.as_array().unwrap().iter().map(|agent| &agent["id"]).collect::<Vec<_>>(), ["a"]);
    assert_eq!(team.ok("/status").await["agents"], json!({"total": 1, "active": 1, "lead": "a"}));
    assert_error(&team.get("/agents/b").await.unwrap(), 404, "AGENT_NOT_FOUND", "Agent not found");
    assert_eq!(team.ok("/agents/b?include=left").await["status"], "offline");
    assert_eq!(team.ok("/agents/a?include=left").await["status"], "idle");
    assert_rejected(&team.get("/agents/b?include=all").await.unwrap(), 400, "INVALID", "include");
    assert_eq!(team.events("agent.left").await.len(), 1);
    assert_eq!(team.events("resource.released").await.len(), 2);
    let head = team.head().await;
    assert_reply(&team.delete("/agents/x").await.unwrap(), 200, json!({"ok": true}));
    assert_eq!(team.head().await, head);
    assert_error(&team.get("/agents/x").await.unwrap(), 404, "AGENT_NOT_FOUND", "Agent not found");
}

#[tokio::test]
async fn agent_ids_may_equal_path_segments_and_contain_slashes() {
    let team = team(&[]).await;
    for (id, path) in
        [("announce", "announce"), ("team/a", "team%2Fa"), ("ä", "%C3%A4"), ("name@instance", "name@instance")]
    {
        team.announce(id, "worker").await;
        assert_eq!(team.ok(&format!("/agents/{path}")).await["id"], id);
        assert_eq!(send_heartbeat(&team, path).await.status, 200, "{id}");
        assert_eq!(team.delete(&format!("/agents/{path}")).await.unwrap().status, 200, "{id}");
    }
}

#[tokio::test]
async fn agent_status_follows_its_task() {
    let team = team(&["lead", "a"]).await;
    let task = team.create_task().await;
    let seen = async || {
        let agent = team.ok("/agents/a").await;
        (text(&agent["status"]), agent["current_task"].as_str().map(str::to_owned))
    };
    team.move_task(&task, "assigned", "a").await;
    assert_eq!(seen().await, ("working".to_owned(), Some(task.clone())));
    set_status(&team, "a", "blocked").await;
    assert_eq!(seen().await.0, "blocked", "an explicit status lasts");
    team.move_task(&task, "in_progress", "a").await;
    assert_eq!(seen().await, ("working".to_owned(), Some(task.clone())));
    team.move_task(&task, "review", "a").await;
    assert_eq!(seen().await.0, "waiting_review");
    team.move_task(&task, "done", "a").await;
    assert_eq!(seen().await, ("idle".to_owned(), None));
}

#[tokio::test]
async fn identified_caller_acts_only_for_itself_unless_it_leads() {
    let team = team(&["lead", "a", "b"]).await;
    let as_b = [("x-agent-id", "b")];
    let status = Some(json!({"status": "blocked"}));
    let rejected = team.send(Method::PATCH, "/agents/a/status", &as_b, status.clone()).await;
    assert_rejected(&rejected, 403, "FORBIDDEN", "'b' may not act as 'a'");
    assert_rejected(
        &team.send(Method::DELETE, "/agents/a", &as_b, None).await,
        403,
        "FORBIDDEN",
        "'b' may not act as 'a'",
    );
    let refused_beat = team.send(Method::POST, "/agents/a/heartbeat", &as_b, None).await;
    assert_rejected(&refused_beat, 403, "FORBIDDEN", "'b' may not act as 'a'");
    let taken_id = Some(json!({"id": "a", "tool": "stolen"}));
    let refused_announce = team.send(Method::POST, "/agents/announce", &as_b, taken_id).await;
    assert_rejected(&refused_announce, 403, "FORBIDDEN", "'b' may not act as 'a'");
    assert_eq!(team.ok("/agents/a").await["status"], "idle");
    let by_lead = team.send(Method::PATCH, "/agents/a/status", &[("x-agent-id", "lead")], status).await;
    assert_reply(&by_lead, 200, json!({"ok": true}));
    assert_eq!(team.as_person(Method::DELETE, "/agents/a", None).await.status, 200);
}

async fn send_heartbeat(team: &Team, id: &str) -> rookery_testkit::daemon::HttpReply {
    team.send(Method::POST, &format!("/agents/{id}/heartbeat"), &[], None).await
}

async fn set_status(team: &Team, id: &str, status: &str) {
    let reply = team.patch(&format!("/agents/{id}/status"), json!({"status": status})).await.unwrap();
    assert_reply(&reply, 200, json!({"ok": true}));
}

#[tokio::test]
async fn custom_agent_role_is_kept_verbatim() {
    let team = team(&["a"]).await;
    for (role, shown) in [("reviewer", "reviewer"), ("coordinator", "coordinator"), ("specialist", "specialist")] {
        let announced = team.post("/agents/announce", json!({"id": "b", "tool": "t", "role": role})).await.unwrap();
        assert_eq!((announced.status.as_u16(), &announced.body["role"]), (201, &json!(shown)));
        assert_eq!(team.ok("/agents/b").await["role"], shown);
        let card = team.ok("/clutch/v0/agents/b").await;
        assert_eq!(card["meta"]["role"], shown, "{card}");
    }
    // A role without rules counts as a worker's.
    team.announce("c", "reviewer").await;
    let metadata = team.ok("/events?action=agent.joined&agent_id=c").await[0]["metadata"].clone();
    assert_eq!((&metadata["role"], &metadata["role_name"]), (&json!("worker"), &json!("reviewer")));
    let empty = json!({"id": "c", "tool": "t", "role": ""});
    assert_rejected(&team.post("/agents/announce", empty).await.unwrap(), 400, "INVALID", "role");
}

#[tokio::test]
async fn heartbeat_session_is_shown_with_its_agent_and_logged_once() {
    let team = team(&["a"]).await;
    assert!(team.ok("/agents/a").await.get("session_id").is_none());
    for _ in 0..2 {
        let body = json!({"session_id": "session-1738756800-12345", "anything": 1});
        assert_reply(&team.post("/agents/a/heartbeat", body).await.unwrap(), 200, json!({"ok": true}));
        assert_eq!(team.ok("/agents/a").await["session_id"], "session-1738756800-12345");
    }
    assert_eq!(team.events("x.agent.updated").await.len(), 1);
    team.announce("a", "worker").await;
    assert_eq!(team.ok("/agents").await[0]["session_id"], "session-1738756800-12345", "an announcement keeps it");
}
