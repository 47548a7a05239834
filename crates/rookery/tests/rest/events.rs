//! Events: their actions, reports, queries and positions.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Team, assert_json, assert_rejected, assert_time, eventually, fields, team, text};

const CONTRACT: [&str; 9] =
    ["action", "after_hash", "agent_id", "before_hash", "id", "metadata", "resource", "task_id", "timestamp"];

async fn report_event(team: &Team, body: Value) -> Value {
    let reply = team.post("/events", body).await.unwrap();
    assert_eq!(reply.status, 201, "{}", reply.body);
    assert_json(&reply);
    reply.body
}

#[tokio::test]
async fn reported_event_is_returned_with_server_fields() {
    let team = team(&["a"]).await;
    let task = team.create_task().await;
    let reported = json!({"agent_id": "a", "action": "x.note", "resource": "./src//a.rs", "task_id": task,
        "before_hash": "00", "after_hash": "11", "metadata": {"text": "hi", "n": [1]}, "id": "evt_mine", "timestamp": 1});
    let event = report_event(&team, reported).await;
    let beyond: Vec<&str> = fields(&event).into_iter().filter(|name| !CONTRACT.contains(name)).collect();
    assert_eq!(beyond, ["seq"]);
    assert!(text(&event["id"]).starts_with("evt_") && event["id"] != "evt_mine", "the server chooses the id");
    assert_time(&event["timestamp"]);
    assert_eq!(event["resource"], "src/a.rs");
    assert_eq!(event["task_id"], json!(task));
    assert_eq!((&event["before_hash"], &event["after_hash"]), (&json!("00"), &json!("11")));
    assert_eq!(event["metadata"], json!({"text": "hi", "n": [1]}));
    assert_eq!(team.ok("/events?limit=1").await, json!([event]));
    assert_eq!(team.ok(&format!("/events/{}", text(&event["id"]))).await, event);
    let plain = report_event(&team, json!({"agent_id": "a", "action": "x.note"})).await;
    for field in ["resource", "task_id", "before_hash", "after_hash"] {
        assert_eq!(plain[field], Value::Null, "{field}");
    }
    assert_eq!(plain["metadata"], json!({}));
    assert_rejected(&team.get("/events/evt_ghost").await.unwrap(), 404, "EVENT_NOT_FOUND", "Event not found");
}

#[tokio::test]
async fn unknown_action_is_rejected_unless_prefixed_with_x() {
    let team = team(&["a"]).await;
    for action in ["task.exploded", "note", "x.", "x", "X.note", "agent"] {
        let reply = team.post("/events", json!({"agent_id": "a", "action": action})).await.unwrap();
        assert_rejected(&reply, 400, "INVALID", "action");
    }
    for action in ["x.note", "x.team.note", "authority.decision", "agent.heartbeat"] {
        assert_eq!(report_event(&team, json!({"agent_id": "a", "action": action})).await["action"], action);
    }
    for body in [json!({}), json!({"agent_id": "a"}), json!({"action": "x.note"})] {
        let reply = team.post("/events", body).await.unwrap();
        assert_rejected(&reply, 400, "INVALID", "agent_id and action are required");
    }
    // Without a path it is no evidence of a change, and still a valid report.
    let no_path = report_event(&team, json!({"agent_id": "a", "action": "resource.modified"})).await;
    assert_eq!((&no_path["action"], &no_path["resource"]), (&json!("resource.modified"), &Value::Null));
}

#[tokio::test]
async fn reported_event_changes_no_state() {
    let team = team(&["lead", "a"]).await;
    let task = team.create_task().await;
    team.move_task(&task, "in_progress", "a").await;
    team.claim("x", "a").await;
    let state = async || {
        let mut state = team.ok("/state").await;
        state["event_count"] = Value::Null;
        state["agents"].as_array_mut().unwrap().iter_mut().for_each(|agent| agent["last_heartbeat"] = Value::Null);
        state
    };
    let before = state().await;
    for action in [
        "agent.joined",
        "agent.left",
        "agent.heartbeat",
        "agent.status_changed",
        "resource.claimed",
        "resource.released",
        "resource.conflict_detected",
        "resource.conflict_resolved",
        "task.created",
        "task.assigned",
        "task.started",
        "task.completed",
        "task.blocked",
        "handoff.initiated",
        "handoff.accepted",
        "handoff.rejected",
        "authority.decision",
        "authority.escalation",
    ] {
        report_event(&team, json!({"agent_id": "a", "action": action, "task_id": task, "resource": "x"})).await;
    }
    assert_eq!(state().await, before);
    assert_eq!(team.events("task.completed").await.len(), 1, "the report itself is listed");
}

#[tokio::test]
async fn report_in_the_name_of_another_agent_is_rejected() {
    let team = team(&["lead", "a", "b"]).await;
    team.claim("x", "a").await;
    let head = team.head().await;
    for action in ["x.note", "resource.modified"] {
        let body = Some(json!({"agent_id": "a", "action": action, "resource": "x"}));
        let reply = team.send(Method::POST, "/events", &[("x-agent-id", "b")], body).await;
        assert_rejected(&reply, 403, "FORBIDDEN", "'b' may not act as 'a'");
    }
    assert_eq!(team.head().await, head);
}

#[tokio::test]
async fn each_event_kind_has_its_action() {
    let team = team(&[]).await;
    let newest = async |count: usize| -> Vec<(String, String)> {
        let events = team.ok(&format!("/events?limit={count}")).await;
        let shown = |event: &Value| (text(&event["action"]), text(&event["agent_id"]));
        events.as_array().unwrap().iter().rev().map(shown).collect()
    };
    let expected_pairs = |expected: &[(&str, &str)]| -> Vec<(String, String)> {
        expected.iter().map(|(action, agent)| ((*action).to_owned(), (*agent).to_owned())).collect()
    };
    team.announce("lead", "lead").await;
    assert_eq!(newest(2).await, expected_pairs(&[("agent.joined", "lead"), ("authority.decision", "lead")]));
    team.announce("a", "worker").await;
    team.announce("b", "worker").await;
    team.announce("b", "specialist").await;
    assert_eq!(newest(1).await, expected_pairs(&[("x.agent.updated", "b")]));
    let task = text(&team.create_task_with(json!({"assigned_to": "a", "assigned_by": "lead"})).await["id"]);
    assert_eq!(newest(2).await, expected_pairs(&[("task.created", "lead"), ("task.assigned", "a")]));
    team.move_task(&task, "in_progress", "a").await;
    assert_eq!(newest(2).await, expected_pairs(&[("task.assigned", "a"), ("task.started", "a")]));
    team.move_task(&task, "review", "a").await;
    assert_eq!(newest(1).await, expected_pairs(&[("x.task.step_set", "a")]));
    team.move_task(&task, "in_progress", "a").await;
    team.move_task(&task, "blocked", "a").await;
    assert_eq!(newest(1).await, expected_pairs(&[("task.blocked", "a")]));
    team.move_task(&task, "in_progress", "a").await;
    team.move_task(&task, "queued", "a").await;
    assert_eq!(newest(1).await, expected_pairs(&[("x.task.released", "a")]));
    team.claim("x", "a").await;
    assert_eq!(newest(1).await, expected_pairs(&[("resource.claimed", "a")]));
    report_event(&team, json!({"agent_id": "b", "action": "resource.modified", "resource": "x", "after_hash": "ff"}))
        .await;
    assert_eq!(newest(2).await, expected_pairs(&[("resource.modified", "b"), ("resource.conflict_detected", "b")]));
    let resolve = json!({"path": "x", "winner": "a", "agent_id": "lead"});
    team.post("/resources/resolve", resolve).await.unwrap();
    assert_eq!(newest(1).await, expected_pairs(&[("resource.conflict_resolved", "lead")]));
    team.release("x", "a").await;
    assert_eq!(newest(1).await, expected_pairs(&[("resource.released", "a")]));
    team.post("/resources/lock", json!({"path": "x", "agent_id": "lead"})).await.unwrap();
    team.post("/resources/unlock", json!({"path": "x", "agent_id": "lead"})).await.unwrap();
    assert_eq!(newest(2).await, expected_pairs(&[("x.file.locked", "lead"), ("x.file.unlocked", "lead")]));
    team.send(Method::POST, &format!("/tasks/{task}/cancel"), &[("x-agent-id", "lead")], None).await;
    assert_eq!(newest(1).await[0].0, "x.task.cancelled");
    let offline = json!({"status": "offline"});
    team.patch("/agents/b/status", offline).await.unwrap();
    assert_eq!(newest(1).await, expected_pairs(&[("agent.status_changed", "b")]));
    team.send(Method::POST, "/agents/b/heartbeat", &[], None).await;
    assert_eq!(newest(1).await, expected_pairs(&[("agent.heartbeat", "b")]));
    team.delete("/agents/b").await.unwrap();
    assert_eq!(newest(1).await, expected_pairs(&[("agent.left", "b")]));
    // Each event counts once, and every event that is counted can be listed.
    let all = team.ok("/events?limit=1000").await;
    assert_eq!(all.as_array().unwrap().len() as u64, team.head().await);
    for event in all.as_array().unwrap() {
        for field in CONTRACT {
            assert!(event.get(field).is_some(), "{field} of {event}");
        }
        let found = team.ok(&format!("/events?limit=1000&action={}", text(&event["action"]))).await;
        assert!(found.as_array().unwrap().contains(event), "{event} is found by its action");
    }
}

#[tokio::test]
async fn event_filter_accepts_action_kind_or_x_form_and_rejects_unknown_names() {
    let team = team(&["a"]).await;
    let task = team.create_task().await;
    team.move_task(&task, "in_progress", "a").await;
    let found = async |name: &str| team.ok(&format!("/events?action={name}")).await;
    let claimed = found("task.claimed").await;
    assert_eq!((claimed.as_array().unwrap().len(), &claimed[0]["action"]), (1, &json!("task.assigned")));
    for name in ["task.assigned", "x.task.assigned", "x.task.claimed"] {
        assert_eq!(found(name).await, claimed, "{name}");
    }
    for path in ["/events?action=task.complete", "/events/stream?action=task.complete"] {
        let rejected = team.get(path).await.unwrap();
        assert_rejected(&rejected, 400, "INVALID", "no event is called 'task.complete'");
        assert!(text(&rejected.body["hint"]).starts_with("did you mean 'task.completed'?"), "{}", rejected.body);
    }
}

#[tokio::test]
async fn event_list_is_newest_first_filtered_and_limited() {
    let team = team(&["a", "b"]).await;
    let head = team.head().await;
    for n in 0..120 {
        let agent = if n % 2 == 0 { "a" } else { "b" };
        let resource = if n % 3 == 0 { json!("src/x.rs") } else { Value::Null };
        report_event(&team, json!({"agent_id": agent, "action": "x.n", "resource": resource, "metadata": {"n": n}}))
            .await;
    }
    let list = async |query: &str| -> Vec<i64> {
        let found = team.ok(&format!("/events?{query}")).await;
        found.as_array().unwrap().iter().map(|event| event["metadata"]["n"].as_i64().unwrap_or(-1)).collect()
    };
    assert_eq!(list("").await, (20..120).rev().collect::<Vec<_>>(), "100 by default");
    assert_eq!(list("limit=3").await, [119, 118, 117]);
    assert_eq!(list("limit=3&agent_id=a").await, [118, 116, 114]);
    assert_eq!(list("limit=2&resource=./src//x.rs").await, [117, 114]);
    assert_eq!(list("limit=2&agent_id=b&resource=src/x.rs&action=x.n").await, [117, 111]);
    assert_eq!(list("limit=5000&action=x.n").await.len(), 120, "larger limits are clamped");
    assert_eq!(list("action=x.never").await, Vec::<i64>::new());
    for query in ["limit=0", "limit=-1", "limit=many", "since=yesterday", "after=x", "after=-1"] {
        let name = query.split('=').next().unwrap();
        assert_rejected(&team.get(&format!("/events?{query}")).await.unwrap(), 400, "INVALID", name);
    }
    // Forward, page by page, from the position of the last event seen.
    let (mut after, mut seen) = (head, Vec::new());
    loop {
        let page = team.ok(&format!("/events?after={after}&limit=50")).await;
        let Some(last) = page.as_array().unwrap().last() else { break };
        after = last["seq"].as_u64().unwrap();
        seen.extend(page.as_array().unwrap().iter().map(|event| event["metadata"]["n"].as_i64().unwrap()));
    }
    assert_eq!(seen, (0..120).collect::<Vec<_>>());
}

#[tokio::test]
async fn since_filter_is_exclusive() {
    let team = team(&["a"]).await;
    let first = report_event(&team, json!({"agent_id": "a", "action": "x.first"})).await;
    let at = first["timestamp"].as_i64().unwrap();
    eventually("a later event", || async {
        let later = report_event(&team, json!({"agent_id": "a", "action": "x.later"})).await;
        (later["timestamp"].as_i64().unwrap() > at).then_some(())
    })
    .await;
    let found = team.ok(&format!("/events?since={at}")).await;
    assert!(found.as_array().unwrap().iter().all(|event| event["timestamp"].as_i64().unwrap() > at));
    assert_eq!(found[0]["action"], "x.later");
    let before = team.ok(&format!("/events?since={}", at - 1)).await;
    assert!(before.as_array().unwrap().contains(&first));
}

#[tokio::test]
async fn position_outside_this_log_is_gone() {
    let team = team(&["a"]).await;
    let reply = team.get("/status").await.unwrap();
    let (head, log) = (team.head().await, reply.headers["x-rookery-log"].to_str().unwrap().to_owned());
    for position in [head.to_string(), format!("{log}:{head}"), "0".to_owned()] {
        assert_eq!(team.get(&format!("/events?after={position}")).await.unwrap().status, 200, "{position}");
    }
    let last = team.ok("/events?limit=1").await[0].clone();
    assert_eq!(team.ok(&format!("/events?after={}", text(&last["id"]))).await, json!([]));
    let largest = u64::MAX.to_string();
    for position in [(head + 1).to_string(), format!("{log}:{}", head + 1), format!("log_other:{head}"), largest] {
        for path in ["/events", "/events/stream"] {
            let reply = team.get(&format!("{path}?after={position}")).await.unwrap();
            assert_rejected(&reply, 410, "POSITION_GONE", &position);
            assert_eq!(reply.body["snapshot"], "/state");
        }
        let resumed = team.send(Method::GET, "/events/stream", &[("last-event-id", &position)], None).await;
        assert_rejected(&resumed, 410, "POSITION_GONE", &position);
    }
}

#[tokio::test]
async fn every_query_reply_names_its_log_position() {
    let team = team(&["a"]).await;
    let task = team.create_task().await;
    team.claim("x", "a").await;
    team.move_task(&task, "in_progress", "a").await;
    let offered = json!({"from_agent": "a", "task_id": task, "summary": "s"});
    let handoff = text(&team.post("/handoffs", offered).await.unwrap().body["id"]);
    let event = text(&report_event(&team, json!({"agent_id": "a", "action": "x.note"})).await["id"]);
    let head = team.head().await.to_string();
    for path in [
        "/status",
        "/state",
        "/agents",
        "/agents/a",
        "/agents/ghost",
        "/resources",
        "/resources/x",
        "/resources/ghost",
        "/tasks",
        &format!("/tasks/{task}"),
        "/tasks/ghost",
        "/handoffs",
        &format!("/handoffs/{handoff}"),
        "/handoffs/ghost",
        "/events",
        &format!("/events/{event}"),
        "/events/evt_ghost",
    ] {
        let reply = team.get(path).await.unwrap();
        let seq = reply.headers.get("x-rookery-seq").map(|seq| seq.to_str().unwrap());
        assert_eq!(seq, Some(head.as_str()), "{path}");
        assert!(reply.headers.contains_key("x-rookery-project"), "{path}");
    }
}

#[tokio::test]
async fn single_daemon_is_a_node_with_every_leader_role() {
    let team = team(&[]).await;
    let status = team.ok("/status").await;
    let [node] = status["nodes"].as_array().unwrap().as_slice() else { panic!("{status}") };
    let names =
        ["host", "id", "last_seen", "leader_roles", "pid", "site", "started_at", "state", "this", "url", "version"];
    assert_eq!(fields(node), names);
    assert_eq!((&node["state"], &node["this"]), (&json!("online"), &json!(true)));
    assert_eq!(node["leader_roles"], json!(["sweeper", "timers", "effects", "upkeep", "router", "courier"]));
    assert_eq!(node["url"], team.url());
    let site: Value = serde_json::from_slice(&std::fs::read(team.root().join(".rookery/site.json")).unwrap()).unwrap();
    assert_eq!(node["site"], json!({"id": site["id"], "root": site["root"]}));
    let metrics = team.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    for line in [
        "rookery_nodes{state=\"online\"} 1",
        "rookery_nodes{state=\"offline\"} 0",
        "rookery_leader_role_held{leader_role=\"sweeper\"} 1",
        "rookery_clock_ahead_seconds ",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn status_counts_agents_tasks_and_resources() {
    let team = team(&["lead", "a", "b"]).await;
    let status = team.ok("/status").await;
    assert_eq!(fields(&status), ["agents", "event_count", "nodes", "port", "project", "resources", "tasks", "version"]);
    assert_eq!(status["version"], "0.1");
    assert_eq!(team.url().rsplit(':').next().unwrap(), status["port"].to_string());
    assert_eq!(status["project"], team.root().file_name().unwrap().to_str().unwrap());
    let (one, two) = (team.create_task().await, team.create_task().await);
    team.create_task().await;
    team.move_task(&one, "in_progress", "a").await;
    team.move_task(&two, "in_progress", "b").await;
    team.move_task(&two, "done", "b").await;
    team.claim("x", "a").await;
    team.claim("y", "a").await;
    team.claim("z", "a").await;
    team.release("z", "a").await;
    report_event(&team, json!({"agent_id": "b", "action": "resource.modified", "resource": "x", "after_hash": "00"}))
        .await;
    team.patch("/agents/b/status", json!({"status": "offline"})).await.unwrap();
    let status = team.ok("/status").await;
    assert_eq!(status["agents"], json!({"total": 3, "active": 2, "lead": "lead"}));
    assert_eq!(status["tasks"], json!({"total": 3, "in_progress": 1, "done": 1}));
    assert_eq!(status["resources"], json!({"total": 3, "claimed": 2, "conflicted": 1}));
    let state = team.ok("/state").await;
    assert_eq!(fields(&state), ["agents", "event_count", "handoffs", "lead", "resources", "tasks"]);
    assert_eq!(state["event_count"], status["event_count"]);
    for (kind, count) in [("agents", 3), ("tasks", 3), ("resources", 3), ("handoffs", 0)] {
        assert_eq!(state[kind].as_array().unwrap().len(), count, "{kind}");
    }
}
