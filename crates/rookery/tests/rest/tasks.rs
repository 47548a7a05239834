//! Tasks: creation, the statuses of PATCH, dependencies, permissions, lists.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use reqwest::Method;
use rookery_testkit::daemon::read;
use serde_json::{Value, json};

use crate::support::{
    Team, assert_error, assert_json, assert_rejected, assert_reply, assert_time, eventually, fields, team, text,
};

#[tokio::test]
async fn new_task_has_documented_fields_and_defaults() {
    let team = team(&["claude-code-1"]).await;
    let reply = team.post("/tasks", json!({"title": "Implement auth", "assigned_by": "claude-code-1"})).await.unwrap();
    assert_eq!(reply.status, 201);
    assert_json(&reply);
    let task = &reply.body;
    let contract = [
        "assigned_by",
        "assigned_to",
        "completed_at",
        "created_at",
        "depends_on",
        "description",
        "id",
        "resources",
        "started_at",
        "status",
        "title",
    ];
    let beyond: Vec<&str> = fields(task).into_iter().filter(|name| !contract.contains(name)).collect();
    assert_eq!(beyond, ["attempt", "run_id", "state", "state_since"]);
    assert!(text(&task["id"]).starts_with("task_"));
    assert_time(&task["created_at"]);
    for (field, value) in [
        ("title", json!("Implement auth")),
        ("description", json!("")),
        ("assigned_to", Value::Null),
        ("assigned_by", json!("claude-code-1")),
        ("status", json!("queued")),
        ("state", json!("pending")),
        ("resources", json!([])),
        ("depends_on", json!([])),
        ("started_at", Value::Null),
        ("completed_at", Value::Null),
    ] {
        assert_eq!(task[field], value, "{field}");
    }
    assert_eq!(team.ok("/tasks").await, json!([task]));
    assert_eq!(team.ok(&format!("/tasks/{}", text(&task["id"]))).await, *task);
    assert_eq!(team.ok("/state").await["tasks"], json!([task]));
}

#[tokio::test]
async fn task_keeps_all_given_fields() {
    let team = team(&["a", "b"]).await;
    let dep = team.create_task().await;
    let task = team
        .create_task_with(
            json!({"description": "Build JWT auth", "assigned_to": "b", "resources": ["./src//auth.ts", "docs/"],
            "depends_on": [dep]}),
        )
        .await;
    assert_eq!(task["description"], "Build JWT auth");
    assert_eq!(task["assigned_to"], "b");
    assert_eq!(task["resources"], json!(["src/auth.ts", "docs/"]));
    assert_eq!(task["depends_on"], json!([dep]));
    let free = team.create_task_with(json!({"assigned_to": "b"})).await;
    assert_eq!((&free["status"], &free["assigned_to"]), (&json!("assigned"), &json!("b")));
    assert_eq!(team.ok("/agents/b").await["status"], "idle", "a reservation is not work yet");
    assert_eq!(team.ok("/resources").await, json!([]), "a task's resources claim nothing by themselves");
}

#[tokio::test]
async fn task_with_missing_or_unknown_fields_is_rejected() {
    let team = team(&["a"]).await;
    for body in
        [json!({}), json!({"title": "x"}), json!({"assigned_by": "a"}), json!({"title": "", "assigned_by": "a"})]
    {
        let reply = team.post("/tasks", body).await.unwrap();
        assert_error(&reply, 400, "INVALID", "title and assigned_by are required");
    }
    let base = |field: &str, value: Value| {
        let mut body = json!({"title": "x", "assigned_by": "a"});
        body[field] = value;
        body
    };
    for (field, value) in [("assigned_to", json!("ghost")), ("depends_on", json!(["task_ghost"]))] {
        assert_rejected(&team.post("/tasks", base(field, value)).await.unwrap(), 400, "UNKNOWN_REFERENCE", field);
    }
    let dep = team.create_task().await;
    assert_rejected(
        &team.post("/tasks", base("depends_on", json!([dep, dep]))).await.unwrap(),
        400,
        "INVALID",
        "twice",
    );
    assert_eq!(team.post("/tasks", base("resources", json!(["../out"]))).await.unwrap().status, 400);
    assert_eq!(team.ok("/tasks").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn patch_without_status_agent_or_known_task_is_rejected() {
    let team = team(&["a"]).await;
    let task = team.create_task().await;
    for body in
        [json!({}), json!({"status": "done"}), json!({"agent_id": "a"}), json!({"status": "done", "agent_id": ""})]
    {
        let reply = team.patch(&format!("/tasks/{task}"), body).await.unwrap();
        assert_error(&reply, 400, "INVALID", "status and agent_id are required");
    }
    let unknown = team.try_move_task(&task, "finished", "a").await;
    assert_rejected(&unknown, 400, "INVALID", "field 'status'");
    for status in ["queued", "assigned", "in_progress", "review", "done", "blocked"] {
        assert_error(&team.try_move_task("task_ghost", status, "a").await, 404, "TASK_NOT_FOUND", "Task not found");
    }
    assert_error(&team.get("/tasks/task_ghost").await.unwrap(), 404, "TASK_NOT_FOUND", "Task not found");
    let stranger = team.try_move_task(&task, "in_progress", "ghost").await;
    assert_error(&stranger, 404, "AGENT_NOT_FOUND", "Agent not found");
}

#[tokio::test]
async fn patch_statuses_move_the_task_state() {
    let team = team(&["lead", "a"]).await;
    let task = team.create_task().await;
    let shown = async || {
        let task = team.ok(&format!("/tasks/{task}")).await;
        (text(&task["status"]), text(&task["state"]), task["assigned_to"].as_str().map(str::to_owned))
    };
    let a = Some("a".to_owned());
    for (status, state, holder) in [
        ("assigned", "pending", &a),
        ("queued", "pending", &None),
        ("in_progress", "in_progress", &a),
        ("review", "review", &a),
        ("in_progress", "in_progress", &a),
        ("blocked", "paused", &a),
        ("in_progress", "in_progress", &a),
        ("queued", "pending", &None),
        ("in_progress", "in_progress", &a),
        ("done", "completed", &a),
    ] {
        team.move_task(&task, status, "a").await;
        assert_eq!(shown().await, (status.to_owned(), state.to_owned(), holder.clone()), "after {status}");
    }
    let done = team.ok(&format!("/tasks/{task}")).await;
    assert_time(&done["started_at"]);
    assert_time(&done["completed_at"]);
    let logged: Vec<String> = team.actions().await.into_iter().filter(|action| action.starts_with("task.")).collect();
    assert_eq!(
        logged,
        [
            "task.created",
            "task.assigned",
            "task.assigned",
            "task.started",
            "task.started",
            "task.blocked",
            "task.started",
            "task.assigned",
            "task.started",
            "task.completed"
        ]
    );
    assert_eq!(team.ok("/status").await["tasks"], json!({"total": 1, "in_progress": 0, "done": 1}));
}

#[tokio::test]
async fn repeated_patch_status_appends_no_event() {
    let team = team(&["a"]).await;
    let task = team.create_task().await;
    for status in ["queued", "assigned", "in_progress", "review"] {
        team.move_task(&task, status, "a").await;
        let head = team.head().await;
        team.move_task(&task, status, "a").await;
        assert_eq!(team.head().await, head, "{status}");
    }
}

#[tokio::test]
async fn blocked_task_shows_reason_and_done_task_its_outcome() {
    let team = team(&["a"]).await;
    let task = team.create_task().await;
    team.move_task(&task, "in_progress", "a").await;
    let path = format!("/tasks/{task}");
    team.patch(&path, json!({"status": "blocked", "agent_id": "a", "reason": "no key"})).await.unwrap();
    assert_eq!(team.ok(&path).await["reason"], "no key");
    assert_eq!(team.events("task.blocked").await[0]["metadata"]["reason"], "no key");
    team.move_task(&task, "in_progress", "a").await;
    assert_eq!(team.ok(&path).await.get("reason"), None);
    let done = json!({"status": "done", "agent_id": "a", "outcome": "merged", "outcome_detail": {"n": 1}});
    team.patch(&path, done).await.unwrap();
    let task = team.ok(&path).await;
    assert_eq!((&task["outcome"], &task["outcome_detail"]), (&json!("merged"), &json!({"n": 1})));
}

#[tokio::test]
async fn failed_task_is_listed_by_status_with_its_time() {
    let team = team(&["a"]).await;
    let (failed, blocked) = (team.create_task().await, team.create_task().await);
    for task in [&failed, &blocked] {
        team.move_task(task, "in_progress", "a").await;
    }
    let path = format!("/tasks/{failed}");
    let started = team.ok(&path).await["started_at"].as_i64().unwrap();
    let change = json!({"status": "failed", "agent_id": "a", "reason": "no key"});
    assert_eq!(team.patch(&path, change).await.unwrap().status, 200);
    team.move_task(&blocked, "blocked", "a").await;
    let shown = team.ok(&path).await;
    assert_eq!((&shown["status"], &shown["state"]), (&json!("blocked"), &json!("failed")));
    assert!(shown["state_since"].as_i64().unwrap() >= started, "{shown}");
    let found = team.ok("/tasks?status=failed").await;
    assert_eq!((found.as_array().unwrap().len(), &found[0]["id"]), (1, &json!(failed)));
    assert_eq!(team.ok("/tasks?status=blocked").await.as_array().unwrap().len(), 2);
    team.as_person(Method::POST, &format!("{path}/retry"), None).await;
    let queued = team.ok(&path).await;
    assert!(queued["state_since"].as_i64() >= shown["state_since"].as_i64(), "{queued}");
}

#[tokio::test]
async fn invalid_transition_is_a_conflict_with_a_code() {
    let team = team(&["lead", "a"]).await;
    let task = team.create_task().await;
    for status in ["review", "done", "blocked"] {
        assert_rejected(&team.try_move_task(&task, status, "a").await, 409, "INVALID_TRANSITION", &task);
    }
    team.move_task(&task, "in_progress", "a").await;
    team.move_task(&task, "done", "a").await;
    for agent in ["a", "lead"] {
        for status in ["queued", "assigned", "in_progress", "review", "done", "blocked"] {
            assert_rejected(&team.try_move_task(&task, status, agent).await, 409, "INVALID_TRANSITION", "completed");
        }
    }
    let head = team.head().await;
    let by_person = team
        .as_person(Method::PATCH, &format!("/tasks/{task}"), Some(json!({"status": "queued", "agent_id": "a"})))
        .await;
    assert_rejected(&by_person, 409, "INVALID_TRANSITION", "completed");
    assert_eq!(team.head().await, head);
}

#[tokio::test]
async fn task_with_open_dependencies_is_blocked_and_names_them() {
    let team = team(&["a"]).await;
    let (one, two) = (team.create_task().await, team.create_task().await);
    let waiting = team.create_task_with(json!({"depends_on": [one, two], "assigned_to": "a"})).await;
    assert_eq!((&waiting["status"], &waiting["state"]), (&json!("blocked"), &json!("pending")));
    let id = text(&waiting["id"]);
    let rejected = team.try_move_task(&id, "in_progress", "a").await;
    assert_rejected(&rejected, 409, "DEPENDENCIES_UNFINISHED", &one);
    assert_rejected(&rejected, 409, "DEPENDENCIES_UNFINISHED", &two);
    for (dep, left) in [(&one, json!([two])), (&two, Value::Null)] {
        team.move_task(dep, "in_progress", "a").await;
        team.move_task(dep, "done", "a").await;
        assert_eq!(team.ok(&format!("/tasks/{id}")).await.get("waiting_on").cloned().unwrap_or_default(), left);
    }
    assert_eq!(team.ok(&format!("/tasks/{id}")).await["status"], "assigned");
    team.move_task(&id, "in_progress", "a").await;
    // A finished dependency is not waited for.
    assert_eq!(team.create_task_with(json!({"depends_on": [one]})).await["status"], "queued");
}

#[tokio::test]
async fn held_task_is_changed_only_by_holder_lead_or_person() {
    let team = team(&["lead", "a", "b"]).await;
    let task = team.create_task().await;
    team.move_task(&task, "in_progress", "a").await;
    for status in ["queued", "review", "done", "blocked"] {
        assert_rejected(&team.try_move_task(&task, status, "b").await, 403, "NOT_HOLDER", "belongs to a");
    }
    for status in ["assigned", "in_progress"] {
        assert_rejected(&team.try_move_task(&task, status, "b").await, 409, "ALREADY_CLAIMED", "claimed by a");
    }
    let spoofed = team
        .send(
            Method::PATCH,
            &format!("/tasks/{task}"),
            &[("x-agent-id", "b")],
            Some(json!({"status": "done", "agent_id": "a"})),
        )
        .await;
    assert_rejected(&spoofed, 403, "FORBIDDEN", "'b' may not act as 'a'");
    team.move_task(&task, "review", "lead").await;
    let by_person = Some(json!({"status": "done", "agent_id": "a"}));
    assert_eq!(team.as_person(Method::PATCH, &format!("/tasks/{task}"), by_person).await.status, 200);
    let reserved = text(&team.create_task_with(json!({"assigned_to": "a"})).await["id"]);
    for status in ["assigned", "in_progress"] {
        assert_rejected(&team.try_move_task(&reserved, status, "b").await, 409, "RESERVED_FOR_OTHER", "reserved for a");
    }
    team.move_task(&reserved, "in_progress", "a").await;
}

#[tokio::test]
async fn concurrent_task_claims_have_one_winner() {
    let agents: Vec<String> = (0..8).map(|n| format!("agent-{n}")).collect();
    // The lead does not compete: it may start a task for its holder.
    let team = team(&["lead"]).await;
    for agent in &agents {
        team.announce(agent, "worker").await;
    }
    let task = team.create_task().await;
    let mut requests = tokio::task::JoinSet::new();
    for agent in agents {
        let body = json!({"status": "in_progress", "agent_id": agent});
        let request = team.request(Method::PATCH, &format!("/tasks/{task}")).json(&body);
        requests.spawn(async move { (agent, read(request).await.unwrap()) });
    }
    let mut winners = Vec::new();
    for (agent, reply) in requests.join_all().await {
        match reply.status.as_u16() {
            200 => winners.push(agent),
            status => assert_eq!((status, &reply.body["code"]), (409, &json!("ALREADY_CLAIMED"))),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(team.ok(&format!("/tasks/{task}")).await["assigned_to"], json!(winners[0]));
}

#[tokio::test]
async fn outdated_task_fence_is_rejected() {
    let team = team(&["a", "b"]).await;
    let task = team.create_task().await;
    let path = format!("/tasks/{task}");
    let granted = team.try_move_task(&task, "in_progress", "a").await;
    let fence = granted.headers["x-fence"].to_str().unwrap().to_owned();
    assert_eq!(team.ok(&path).await["fence"].to_string(), fence);
    let review = json!({"status": "review", "agent_id": "a"});
    let fenced = |fence: &str| vec![("x-fence".to_owned(), fence.to_owned())];
    let send = async |headers: Vec<(String, String)>, body: Value| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        team.send(Method::PATCH, &path, &headers, Some(body)).await
    };
    assert_reply(&send(fenced(&fence), review.clone()).await, 200, json!({"ok": true}));
    team.move_task(&task, "in_progress", "a").await;
    team.move_task(&task, "queued", "a").await;
    let again = team.try_move_task(&task, "in_progress", "a").await;
    assert_rejected(&send(fenced(&fence), review.clone()).await, 409, "STALE_FENCE", &fence);
    let newer = again.headers["x-fence"].to_str().unwrap().to_owned();
    assert_ne!(newer, fence);
    assert_eq!(send(fenced(&newer), review.clone()).await.status, 200);
    assert_rejected(&send(fenced("x"), review).await, 400, "INVALID", "X-Fence");
}

#[tokio::test]
async fn task_list_is_filtered_and_paged_in_creation_order() {
    let team = team(&["a", "b"]).await;
    let mut ids = Vec::new();
    for (n, to) in [None, Some("a"), Some("b"), None, None, None].into_iter().enumerate() {
        ids.push(text(&team.create_task_with(json!({"title": format!("t{n}"), "assigned_to": to})).await["id"]));
    }
    let dependent = text(&team.create_task_with(json!({"depends_on": [ids[0]]})).await["id"]);
    team.move_task(&ids[3], "in_progress", "a").await;
    team.move_task(&ids[4], "in_progress", "b").await;
    team.move_task(&ids[4], "review", "b").await;
    team.move_task(&ids[5], "in_progress", "b").await;
    team.move_task(&ids[5], "done", "b").await;
    let list = async |query: &str| -> Vec<String> {
        let tasks = team.ok(&format!("/tasks{query}")).await;
        tasks.as_array().unwrap().iter().map(|task| text(&task["id"])).collect()
    };
    let pick = |places: &[usize]| places.iter().map(|place| ids[*place].clone()).collect::<Vec<_>>();
    assert_eq!(list("").await, [ids.clone(), vec![dependent.clone()]].concat());
    assert_eq!(list("?status=queued").await, pick(&[0]));
    assert_eq!(list("?status=assigned").await, pick(&[1, 2]));
    assert_eq!(list("?status=in_progress").await, pick(&[3]));
    assert_eq!(list("?status=review").await, pick(&[4]));
    assert_eq!(list("?status=done").await, pick(&[5]));
    assert_eq!(list("?status=blocked").await, std::slice::from_ref(&dependent));
    assert_eq!(list("?assigned_to=a").await, pick(&[1, 3]));
    assert_eq!(list("?assigned_to=b&status=assigned").await, pick(&[2]));
    assert_eq!(list("?status=assigned&limit=1").await, pick(&[1]));
    assert_eq!(list("?limit=2").await, pick(&[0, 1]));
    assert_eq!(list(&format!("?limit=2&after={}", ids[1])).await, pick(&[2, 3]));
    assert_eq!(list(&format!("?after={dependent}")).await, Vec::<String>::new());
    assert_rejected(&team.get("/tasks?status=open").await.unwrap(), 400, "INVALID", "status");
    assert_rejected(&team.get("/tasks?limit=0").await.unwrap(), 400, "INVALID", "limit");
    assert_rejected(&team.get("/tasks?limit=x").await.unwrap(), 400, "INVALID", "limit");
    assert_rejected(&team.get("/tasks?after=task_ghost").await.unwrap(), 400, "INVALID", "after");
}

#[tokio::test]
async fn file_claims_for_a_task_end_with_it() {
    let team = team(&["a"]).await;
    let task = team.create_task_with(json!({"resources": ["own"]})).await;
    let id = text(&task["id"]);
    team.move_task(&id, "in_progress", "a").await;
    let with_task = json!({"path": "for-task", "agent_id": "a", "task_id": id});
    assert_reply(&team.post("/resources/claim", with_task).await.unwrap(), 200, json!({"granted": true}));
    team.claim("apart", "a").await;
    assert_eq!(team.resource("for-task").await["task_id"], json!(id));
    team.move_task(&id, "done", "a").await;
    assert_eq!(team.resource("for-task").await["state"], "free");
    assert_eq!(team.resource("apart").await["state"], "claimed");
}

#[tokio::test]
async fn lead_and_people_assign_and_cancel_tasks() {
    let team = team(&["lead", "a", "b"]).await;
    let task = team.create_task().await;
    let post = async |agent: &str, action: &str, body: Value| {
        team.send(Method::POST, &format!("/tasks/{task}/{action}"), &[("x-agent-id", agent)], Some(body)).await
    };
    assert_rejected(&post("a", "assign", json!({"agent_id": "b"})).await, 403, "FORBIDDEN", "lead or a person");
    let assigned = post("lead", "assign", json!({"agent_id": "a"})).await;
    assert_eq!((assigned.status.as_u16(), &assigned.body["assigned_to"]), (200, &json!("a")));
    team.move_task(&task, "in_progress", "a").await;
    let again = post("lead", "assign", json!({"agent_id": "b"})).await;
    assert_eq!((&again.body["assigned_to"], &again.body["status"]), (&json!("b"), &json!("assigned")));
    let decisions = team.events("authority.decision").await;
    assert_eq!(decisions.last().unwrap()["task_id"], json!(task));
    assert_rejected(
        &post("lead", "assign", json!({"agent_id": "ghost"})).await,
        404,
        "AGENT_NOT_FOUND",
        "Agent not found",
    );
    assert_rejected(&post("lead", "assign", json!({})).await, 400, "INVALID", "agent_id is required");
    assert_rejected(&post("lead", "retry", json!({})).await, 409, "INVALID_TRANSITION", &task);
    let cancelled =
        team.as_person(Method::POST, &format!("/tasks/{task}/cancel"), Some(json!({"reason": "not needed"}))).await;
    assert_eq!((&cancelled.body["status"], &cancelled.body["state"]), (&json!("done"), &json!("cancelled")));
    assert_eq!(cancelled.body["reason"], "not needed");
    assert_rejected(&post("lead", "cancel", json!({})).await, 409, "INVALID_TRANSITION", "cancelled");
}

#[tokio::test]
async fn idempotency_key_makes_duplicate_request_harmless() {
    let team = team(&["a"]).await;
    let body = json!({"title": "once", "assigned_by": "a"});
    let key = [("idempotency-key", "k-1")];
    let first = team.send(Method::POST, "/tasks", &key, Some(body.clone())).await;
    let second = team.send(Method::POST, "/tasks", &key, Some(body.clone())).await;
    assert_eq!((first.status, &first.body), (second.status, &second.body));
    assert_eq!(first.status, 201);
    assert_eq!(team.ok("/tasks").await.as_array().unwrap().len(), 1);
    let other = team.send(Method::POST, "/tasks", &key, Some(json!({"title": "two", "assigned_by": "a"}))).await;
    assert_rejected(&other, 422, "IDEMPOTENCY_MISMATCH", "");
    // Idempotency keys are per sender.
    let by_b = team.send(Method::POST, "/tasks", &key, Some(json!({"title": "two", "assigned_by": "b"}))).await;
    assert_eq!(by_b.status, 201);
    let long = "k".repeat(257);
    let rejected = team.send(Method::POST, "/tasks", &[("idempotency-key", &long)], Some(body)).await;
    assert_rejected(&rejected, 400, "INVALID", "Idempotency-Key");
}

#[tokio::test]
async fn idempotency_key_survives_a_restart_for_every_write() {
    let mut team = team(&["a", "b"]).await;
    let task = team.create_task().await;
    let writes = [
        (Method::POST, "/agents/announce".to_owned(), json!({"id": "c", "tool": "t"}), 201),
        (Method::PATCH, "/agents/b/status".to_owned(), json!({"status": "blocked"}), 200),
        (Method::PATCH, format!("/tasks/{task}"), json!({"status": "in_progress", "agent_id": "a"}), 200),
        (Method::POST, "/resources/claim".to_owned(), json!({"path": "p", "agent_id": "a"}), 200),
        (Method::POST, "/resources/release".to_owned(), json!({"path": "p", "agent_id": "a"}), 200),
        (Method::POST, "/handoffs".to_owned(), json!({"from_agent": "a", "task_id": task, "summary": "s"}), 201),
        (Method::POST, "/events".to_owned(), json!({"agent_id": "a", "action": "x.note"}), 201),
        (Method::DELETE, "/agents/b".to_owned(), Value::Null, 200),
    ];
    let mut answers = Vec::new();
    for (n, (method, path, body, status)) in writes.iter().enumerate() {
        let body = (!body.is_null()).then(|| body.clone());
        let reply = team.send(method.clone(), path, &[("idempotency-key", &format!("w{n}"))], body).await;
        assert_eq!(reply.status.as_u16(), *status, "{path}: {}", reply.body);
        answers.push(without_heartbeat(reply.body));
    }
    let head = team.head().await;
    team.restart().unwrap();
    for (n, (method, path, body, status)) in writes.iter().enumerate() {
        let body = (!body.is_null()).then(|| body.clone());
        let reply = team.send(method.clone(), path, &[("idempotency-key", &format!("w{n}"))], body).await;
        assert_eq!((reply.status.as_u16(), &without_heartbeat(reply.body)), (*status, &answers[n]), "{path}");
    }
    assert_eq!(team.head().await, head, "no repeat appended an event");
}

#[tokio::test]
async fn denied_claim_can_be_retried_with_the_same_idempotency_key() {
    let team = team(&["a", "b"]).await;
    team.claim("p", "a").await;
    let ask = || team.send(Method::POST, "/resources/claim", &[("idempotency-key", "k")], claim("p", "b"));
    assert_eq!(ask().await.status, 409);
    team.post("/resources/release", json!({"path": "p", "agent_id": "a"})).await.unwrap();
    assert_eq!(ask().await.body, json!({"granted": true}));
}

fn claim(path: &str, agent: &str) -> Option<Value> {
    Some(json!({"path": path, "agent_id": agent}))
}

/// Drops the last heartbeat, which a repeated request renews.
fn without_heartbeat(mut body: Value) -> Value {
    if let Some(body) = body.as_object_mut() {
        body.remove("last_heartbeat");
    }
    body
}

#[tokio::test]
async fn identified_caller_cannot_name_another_creator() {
    let team = team(&["lead", "a"]).await;
    let body = Some(json!({"title": "x", "assigned_by": "lead"}));
    let rejected = team.send(Method::POST, "/tasks", &[("x-agent-id", "a")], body.clone()).await;
    assert_rejected(&rejected, 403, "FORBIDDEN", "'a' may not act as 'lead'");
    assert_eq!(team.send(Method::POST, "/tasks", &[("x-agent-id", "lead")], body).await.status, 201);
}

/// More dependents than three events can name.
const DEPENDENTS: usize = 900;

#[tokio::test]
async fn dependents_are_announced_once_despite_daemon_crashes() {
    let mut team = team(&["a"]).await;
    let dep = team.create_task().await;
    let create = || async { text(&team.create_task_with(json!({"depends_on": [dep]})).await["id"]) };
    let created = futures_util::stream::iter(0..DEPENDENTS).map(|_| create()).buffer_unordered(16);
    let dependents: BTreeSet<String> = created.collect().await;
    team.move_task(&dep, "in_progress", "a").await;
    team.move_task(&dep, "done", "a").await;
    // Killed first before most of them are announced, then during the announcements.
    team.kill().unwrap();
    team.restart().unwrap();
    eventually("a further batch is announced", || async {
        (!team.events("x.task.dependents_unblocked").await.is_empty()).then_some(())
    })
    .await;
    team.kill().unwrap();
    team.restart().unwrap();
    let unblocked = |event: &Value| {
        let unblocks = &event["metadata"]["unblocks"];
        unblocks.as_array().unwrap_or_else(|| panic!("{event}")).iter().map(text).collect::<Vec<_>>()
    };
    let announced = eventually("all are announced", || async {
        let mut events = team.events("task.completed").await;
        events.extend(team.events("x.task.dependents_unblocked").await);
        let announced: Vec<String> = events.iter().flat_map(unblocked).collect();
        (announced.len() >= DEPENDENTS).then_some(announced)
    })
    .await;
    assert_eq!(announced.len(), DEPENDENTS, "no dependent twice");
    assert_eq!(BTreeSet::from_iter(announced), dependents);
    let tasks = team.ok("/tasks").await;
    let waiting = tasks.as_array().unwrap().iter().filter(|task| task["status"] == "blocked").count();
    assert_eq!(waiting, 0);
    team.replay_verify().unwrap();
}

#[tokio::test]
async fn crash_preserves_the_whole_state() {
    let mut team = team(&["a", "b"]).await;
    let task = team.create_task().await;
    team.move_task(&task, "in_progress", "a").await;
    team.claim("src/", "b").await;
    let steady = async |team: &Team| {
        let mut state = team.ok("/state").await;
        for agent in state["agents"].as_array_mut().unwrap() {
            agent["last_heartbeat"] = Value::Null;
        }
        state
    };
    let before = steady(&team).await;
    team.kill().unwrap();
    team.restart().unwrap();
    eventually("the daemon is ready", || async { (team.get("/readyz").await.ok()?.status == 200).then_some(()) }).await;
    assert_eq!(steady(&team).await, before);
}
