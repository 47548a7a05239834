//! Handoffs: offers, their single answer, and the transfer of task and claims.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Team, assert_error, assert_json, assert_rejected, assert_reply, assert_time, fields, team, text};

/// A task in progress that `a` holds.
async fn task_in_progress(team: &Team, resources: Value) -> String {
    let task = text(&team.create_task_with(json!({"resources": resources})).await["id"]);
    team.move_task(&task, "in_progress", "a").await;
    task
}

async fn offer_handoff(team: &Team, task: &str, to: Value) -> String {
    let body = json!({"from_agent": "a", "to_agent": to, "task_id": task, "summary": "half done"});
    let reply = team.post("/handoffs", body).await.unwrap();
    assert_eq!(reply.status, 201, "{}", reply.body);
    text(&reply.body["id"])
}

async fn answer_handoff(team: &Team, handoff: &str, how: &str, agent: &str) -> rookery_testkit::daemon::HttpReply {
    team.patch(&format!("/handoffs/{handoff}/{how}"), json!({"agent_id": agent})).await.unwrap()
}

#[tokio::test]
async fn handoff_offer_is_returned_as_given() {
    let team = team(&["lead", "a", "b"]).await;
    let task = task_in_progress(&team, json!([])).await;
    let body = json!({"from_agent": "a", "to_agent": "b", "task_id": task, "summary": "Completed the structure",
        "files_modified": ["src/auth.ts"], "files_created": ["src/auth-utils.ts"],
        "context": "JWT with 1h expiry", "blockers": ["Need rate limiting on /login"]});
    let reply = team.post("/handoffs", body.clone()).await.unwrap();
    assert_eq!(reply.status, 201);
    assert_json(&reply);
    let handoff = &reply.body;
    assert_eq!(
        fields(handoff),
        [
            "blockers",
            "context",
            "created_at",
            "files_created",
            "files_modified",
            "from_agent",
            "id",
            "status",
            "summary",
            "task_id",
            "to_agent"
        ]
    );
    assert!(text(&handoff["id"]).starts_with("hoff_"));
    assert_time(&handoff["created_at"]);
    assert_eq!(handoff["status"], "pending");
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(handoff[field], *value, "{field}");
    }
    assert_eq!(team.ok(&format!("/handoffs/{}", text(&handoff["id"]))).await, *handoff);
    assert_eq!(team.ok("/handoffs").await, json!([handoff]));
    assert_eq!(team.ok("/state").await["handoffs"], json!([handoff]));
    let event = team.events("handoff.initiated").await.pop().unwrap();
    assert_eq!((&event["agent_id"], &event["task_id"]), (&json!("a"), &json!(task)));
}

#[tokio::test]
async fn handoff_offer_has_defaults_and_required_fields() {
    let team = team(&["lead", "a"]).await;
    let task = task_in_progress(&team, json!([])).await;
    let full = json!({"from_agent": "a", "task_id": task, "summary": "s"});
    for missing in ["from_agent", "task_id", "summary"] {
        let mut body = full.clone();
        body.as_object_mut().unwrap().remove(missing);
        let reply = team.post("/handoffs", body).await.unwrap();
        assert_error(&reply, 400, "INVALID", "from_agent, task_id and summary are required");
    }
    let handoff = team.post("/handoffs", full.clone()).await.unwrap().body;
    assert_eq!(handoff["to_agent"], Value::Null);
    for list in ["files_modified", "files_created", "blockers"] {
        assert_eq!(handoff[list], json!([]), "{list}");
    }
    assert_eq!(handoff["context"], "");
    let with = |field: &str, value: &str| {
        let mut body = full.clone();
        body[field] = json!(value);
        body
    };
    assert_rejected(
        &team.post("/handoffs", with("task_id", "task_ghost")).await.unwrap(),
        404,
        "TASK_NOT_FOUND",
        "Task not found",
    );
    assert_rejected(
        &team.post("/handoffs", with("from_agent", "ghost")).await.unwrap(),
        404,
        "AGENT_NOT_FOUND",
        "Agent not found",
    );
    assert_rejected(
        &team.post("/handoffs", with("to_agent", "ghost")).await.unwrap(),
        400,
        "UNKNOWN_REFERENCE",
        "to_agent",
    );
}

#[tokio::test]
async fn accepted_handoff_moves_task_and_claims_in_one_step() {
    let team = team(&["lead", "a", "b"]).await;
    let task = task_in_progress(&team, json!(["listed.rs"])).await;
    team.claim("listed.rs", "a").await;
    team.claim("own.rs", "a").await;
    let for_task = json!({"path": "for-task.rs", "agent_id": "a", "task_id": task});
    team.post("/resources/claim", for_task).await.unwrap();
    let fence = team.ok(&format!("/tasks/{task}")).await["fence"].to_string();
    let handoff = offer_handoff(&team, &task, json!("b")).await;
    let head = team.head().await;
    let accepted = answer_handoff(&team, &handoff, "accept", "b").await;
    assert_reply(&accepted, 200, json!({"accepted": true}));
    let moved = team.ok(&format!("/tasks/{task}")).await;
    assert_eq!(accepted.headers["x-fence"].to_str().unwrap(), moved["fence"].to_string());
    assert_eq!((&moved["assigned_to"], &moved["status"]), (&json!("b"), &json!("in_progress")));
    for (path, owner) in [("listed.rs", "b"), ("for-task.rs", "b"), ("own.rs", "a")] {
        assert_eq!(team.resource(path).await["owner"], owner, "{path}");
    }
    // One step: the events follow each other without a gap.
    let events = team.ok(&format!("/events?after={head}")).await;
    let actions: Vec<&Value> = events.as_array().unwrap().iter().map(|event| &event["action"]).collect();
    assert_eq!(actions, ["handoff.accepted", "task.assigned", "resource.claimed", "resource.claimed"]);
    assert_eq!(team.ok("/agents/a").await["current_task"], Value::Null);
    assert_eq!(team.ok("/agents/b").await["current_task"], json!(task));
    assert_eq!(team.ok(&format!("/handoffs/{handoff}")).await["status"], "accepted");
    // The previous holder has an outdated fence now.
    let late = team
        .send(
            Method::PATCH,
            &format!("/tasks/{task}"),
            &[("x-fence", &fence)],
            Some(json!({"status": "done", "agent_id": "a"})),
        )
        .await;
    assert_rejected(&late, 409, "STALE_FENCE", &fence);
    assert_rejected(&team.try_move_task(&task, "done", "a").await, 403, "NOT_HOLDER", "belongs to b");
    team.move_task(&task, "done", "b").await;
}

#[tokio::test]
async fn rejected_handoff_keeps_holder_and_records_reason() {
    let team = team(&["lead", "a", "b"]).await;
    let task = task_in_progress(&team, json!([])).await;
    let handoff = offer_handoff(&team, &task, json!("b")).await;
    let body = json!({"agent_id": "b", "reason": "Missing test coverage"});
    let reply = team.patch(&format!("/handoffs/{handoff}/reject"), body).await.unwrap();
    assert_reply(&reply, 200, json!({"rejected": true}));
    assert_eq!(team.ok(&format!("/tasks/{task}")).await["assigned_to"], "a");
    assert_eq!(team.ok(&format!("/handoffs/{handoff}")).await["status"], "rejected");
    let event = team.events("handoff.rejected").await.pop().unwrap();
    assert_eq!((&event["agent_id"], &event["metadata"]["reason"]), (&json!("b"), &json!("Missing test coverage")));
    let plain = offer_handoff(&team, &task, json!("b")).await;
    assert_reply(&answer_handoff(&team, &plain, "reject", "b").await, 200, json!({"rejected": true}));
    assert_eq!(team.events("handoff.rejected").await.pop().unwrap()["metadata"]["reason"], "");
}

#[tokio::test]
async fn handoff_is_answered_once_by_its_recipient() {
    let team = team(&["lead", "a", "b", "c"]).await;
    let task = task_in_progress(&team, json!([])).await;
    let handoff = offer_handoff(&team, &task, json!("b")).await;
    for how in ["accept", "reject"] {
        assert_rejected(&answer_handoff(&team, &handoff, how, "c").await, 403, "FORBIDDEN", "is for b");
        assert_rejected(
            &answer_handoff(&team, &handoff, how, "ghost").await,
            404,
            "AGENT_NOT_FOUND",
            "Agent not found",
        );
        assert_error(
            &answer_handoff(&team, "hoff_ghost", how, "b").await,
            404,
            "HANDOFF_NOT_FOUND",
            "Handoff not found",
        );
        let unnamed = team.patch(&format!("/handoffs/{handoff}/{how}"), json!({})).await.unwrap();
        assert_rejected(&unnamed, 400, "INVALID", "agent_id is required");
    }
    assert_reply(&answer_handoff(&team, &handoff, "accept", "b").await, 200, json!({"accepted": true}));
    for (how, agent) in [("accept", "b"), ("reject", "b"), ("accept", "b")] {
        assert_rejected(
            &answer_handoff(&team, &handoff, how, agent).await,
            409,
            "ALREADY_ANSWERED",
            "accepted already",
        );
    }
    assert_error(&team.get("/handoffs/hoff_ghost").await.unwrap(), 404, "HANDOFF_NOT_FOUND", "Handoff not found");
}

#[tokio::test]
async fn open_handoff_goes_to_the_first_that_accepts() {
    let team = team(&["lead", "a", "b", "c"]).await;
    let task = task_in_progress(&team, json!([])).await;
    let handoff = offer_handoff(&team, &task, Value::Null).await;
    assert_reply(&answer_handoff(&team, &handoff, "accept", "c").await, 200, json!({"accepted": true}));
    assert_rejected(&answer_handoff(&team, &handoff, "accept", "b").await, 409, "ALREADY_ANSWERED", "already");
    assert_eq!(team.ok(&format!("/tasks/{task}")).await["assigned_to"], "c");
}

#[tokio::test]
async fn handoff_offer_of_another_holder_is_rejected() {
    let team = team(&["lead", "a", "b"]).await;
    let task = task_in_progress(&team, json!([])).await;
    let by_b = json!({"from_agent": "b", "to_agent": "b", "task_id": task, "summary": "mine now"});
    assert_rejected(&team.post("/handoffs", by_b).await.unwrap(), 403, "NOT_HOLDER", "belongs to a");
    // An offer of a previous holder cannot be accepted.
    let first = offer_handoff(&team, &task, json!("lead")).await;
    let second = offer_handoff(&team, &task, json!("b")).await;
    assert_eq!(answer_handoff(&team, &second, "accept", "b").await.status, 200);
    assert_rejected(&answer_handoff(&team, &first, "accept", "lead").await, 409, "ALREADY_CLAIMED", "held by b");
}

#[tokio::test]
async fn handoff_list_is_filtered() {
    let team = team(&["lead", "a", "b"]).await;
    let task = task_in_progress(&team, json!([])).await;
    let pending = offer_handoff(&team, &task, json!("b")).await;
    let open = offer_handoff(&team, &task, Value::Null).await;
    let rejected = offer_handoff(&team, &task, json!("b")).await;
    answer_handoff(&team, &rejected, "reject", "b").await;
    let list = async |query: &str| -> Vec<String> {
        let found = team.ok(&format!("/handoffs{query}")).await;
        found.as_array().unwrap().iter().map(|handoff| text(&handoff["id"])).collect()
    };
    assert_eq!(list("").await, [pending.clone(), open.clone(), rejected.clone()]);
    assert_eq!(list("?status=pending").await, [pending.clone(), open]);
    assert_eq!(list("?status=accepted").await, Vec::<String>::new());
    assert_eq!(list("?to_agent=b").await, [pending.clone(), rejected.clone()]);
    assert_eq!(list("?to_agent=b&status=rejected").await, [rejected]);
    assert_rejected(&team.get("/handoffs?status=open").await.unwrap(), 400, "INVALID", "status");
}
