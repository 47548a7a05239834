//! Tasks by envelopes: the same tasks and rules as on every surface.

use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::sending::{envelope, post_rejected, rejection_of, rows, send_ok, team};

/// Addresses an envelope to a person: it is not routed, so any agent may take its task.
fn to_person(mut more: Value) -> Value {
    more["to"] = json!([{"agent_id": "person:anna"}]);
    more
}

fn about(id: &str, kind: &str, from: &str, task: &str) -> Value {
    envelope(id, kind, from, to_person(json!({"task_id": task})))
}

async fn task_state(daemon: &Daemon, task: &str) -> String {
    let reply = daemon.get(&format!("/tasks/{task}")).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body["state"].as_str().unwrap().to_owned()
}

async fn patch_task(daemon: &Daemon, task: &str, change: Value) {
    let reply = daemon.patch(&format!("/tasks/{task}"), change).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[tokio::test]
async fn task_lifecycle_by_envelopes_from_request_to_result() {
    let daemon = team(&["lead", "ken", "ada"]).await;
    let asked = envelope(
        "m1",
        "task.request",
        "ui",
        to_person(json!({"payload": {"query": "Who sells it?"}, "domain": "research"})),
    );
    send_ok(&daemon, &asked).await;
    let task = daemon.get("/tasks/task_one").await.unwrap().body;
    assert_eq!((&task["title"], &task["assigned_by"]), (&json!("Who sells it?"), &json!("ui")));
    let unheld = [
        ("task.progress", rejection_of(403, "NOT_HOLDER", "/from/agent_id")),
        ("task.result", rejection_of(409, "INVALID_TRANSITION", "/task_id")),
        ("task.error", rejection_of(409, "INVALID_TRANSITION", "/task_id")),
    ];
    for (kind, rejection) in unheld {
        let foreign = envelope("m3", kind, "ada", json!({}));
        assert_eq!(post_rejected(&daemon, &foreign).await, rejection, "{kind}");
    }
    send_ok(&daemon, &envelope("m2", "task.accept", "ken", json!({}))).await;
    assert_eq!(task_state(&daemon, "task_one").await, "in_progress");
    for kind in ["task.accept", "task.progress", "task.result", "task.error", "task.cancel"] {
        let foreign = envelope("m3", kind, "ada", json!({}));
        let (status, code) = if kind == "task.accept" { (409, "ALREADY_CLAIMED") } else { (403, "NOT_HOLDER") };
        assert_eq!(post_rejected(&daemon, &foreign).await, rejection_of(status, code, "/from/agent_id"), "{kind}");
        let unknown = about("m3", kind, "ken", "ghost");
        assert_eq!(post_rejected(&daemon, &unknown).await, rejection_of(404, "TASK_NOT_FOUND", "/task_id"), "{kind}");
    }
    send_ok(&daemon, &envelope("m4", "task.progress", "ken", json!({"payload": {"percent": 50}}))).await;
    let found = json!({"title": "Found", "findings": ["a"], "citations": []});
    send_ok(&daemon, &envelope("m5", "task.result", "ken", json!({"payload": found}))).await;
    let done = daemon.get("/tasks/task_one").await.unwrap().body;
    assert_eq!((&done["status"], &done["outcome"]), (&json!("done"), &json!("Found")));
    assert_eq!(done["outcome_detail"], found);
    for kind in ["task.accept", "task.progress", "task.result", "task.error", "task.cancel"] {
        for from in ["ken", "ada", "ui"] {
            let late = envelope("m6", kind, from, json!({}));
            assert_eq!(
                post_rejected(&daemon, &late).await,
                rejection_of(409, "INVALID_TRANSITION", "/task_id"),
                "{kind} {from}"
            );
        }
    }
    let runs: Vec<Value> = rows(&daemon).into_iter().filter(|row| row["kind"] == "run.status_set").collect();
    assert_eq!(runs.last().unwrap()["fact"]["to"], "completed");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn task_started_by_one_surface_is_continued_by_another() {
    let daemon = team(&["lead", "ken"]).await;
    send_ok(&daemon, &about("m1", "task.request", "ui", "t1")).await;
    patch_task(&daemon, "t1", json!({"status": "in_progress", "agent_id": "ken"})).await;
    send_ok(&daemon, &about("m2", "task.result", "ken", "t1")).await;
    assert_eq!(task_state(&daemon, "t1").await, "completed");
    send_ok(&daemon, &about("m3", "task.request", "ui", "t2")).await;
    send_ok(&daemon, &about("m4", "task.accept", "ken", "t2")).await;
    patch_task(&daemon, "t2", json!({"status": "done", "agent_id": "ken", "outcome": "well"})).await;
    assert_eq!(task_state(&daemon, "t2").await, "completed");
    let created = daemon.post("/tasks", json!({"title": "plain", "assigned_by": "lead"})).await.unwrap().body;
    let plain = created["id"].as_str().unwrap();
    let own = json!({"task_id": plain, "run_id": "run_default", "thread_id": "thr_default"});
    send_ok(&daemon, &envelope("m5", "task.accept", "ken", own.clone())).await;
    let mut elsewhere = envelope("m6", "task.error", "ken", own);
    let failed = send_ok(&daemon, &elsewhere).await;
    assert_eq!((failed["duplicate"].clone(), task_state(&daemon, plain).await), (json!(false), "failed".to_owned()));
    elsewhere["id"] = json!("m7");
    elsewhere["run_id"] = json!("run_work");
    assert_eq!(post_rejected(&daemon, &elsewhere).await, rejection_of(400, "INVALID", "/run_id"));
}

#[tokio::test]
async fn cancelled_task_cancels_its_subtasks() {
    let daemon = team(&["lead", "ken", "ada"]).await;
    send_ok(&daemon, &about("m1", "task.request", "ui", "t")).await;
    send_ok(&daemon, &about("m2", "task.accept", "ken", "t")).await;
    for (id, part, whole) in [("m3", "a", "t"), ("m4", "b", "a"), ("m5", "c", "t")] {
        let part = to_person(json!({"task_id": part, "parent_task_id": whole}));
        send_ok(&daemon, &envelope(id, "task.request", "ken", part)).await;
    }
    send_ok(&daemon, &about("m6", "task.accept", "ada", "b")).await;
    send_ok(&daemon, &about("m7", "task.accept", "lead", "c")).await;
    send_ok(&daemon, &about("m8", "task.result", "lead", "c")).await;
    send_ok(&daemon, &envelope("m9", "task.cancel", "ui", json!({"task_id": "t", "payload": {"reason": "enough"}})))
        .await;
    for (task, expected) in [("t", "cancelled"), ("a", "cancelled"), ("b", "cancelled"), ("c", "completed")] {
        assert_eq!(task_state(&daemon, task).await, expected, "{task}");
    }
    assert_eq!(daemon.get("/agents/ada").await.unwrap().body["status"], "idle");
    let unknown = envelope("n1", "task.request", "ken", json!({"task_id": "d", "parent_task_id": "ghost"}));
    assert_eq!(post_rejected(&daemon, &unknown).await, rejection_of(404, "TASK_NOT_FOUND", "/parent_task_id"));
    daemon.replay_verify().unwrap();
}

/// The events about tasks, without fields that differ by surface.
fn task_events(daemon: &Daemon) -> Vec<Value> {
    let of_tasks = rows(daemon).into_iter().filter(|row| row["kind"].as_str().unwrap().starts_with("task."));
    of_tasks
        .map(|row| {
            let mut event = row["fact"].clone();
            // Ids, origin and texts depend on the surface.
            for own in ["task", "run", "origin", "title", "description", "assigned_by"] {
                event.as_object_mut().unwrap().remove(own);
            }
            // Events of a requested task name the thread of the request.
            if event["requested_in"] == json!({"thread": "thr_talk"}) {
                event.as_object_mut().unwrap().remove("requested_in");
            }
            json!({"kind": row["kind"], "actor": row["actor"], "fact": event})
        })
        .collect()
}

#[tokio::test]
async fn same_scenario_by_envelopes_and_rest_appends_the_same_events() {
    let by_envelopes = team(&["ken", "ada"]).await;
    let send = async |id: &str, kind: &str, from: &str, task: &str, payload: Value| {
        let more = to_person(json!({"task_id": task, "payload": payload, "run_id": "run_default"}));
        send_ok(&by_envelopes, &envelope(id, kind, from, more)).await;
    };
    send("m1", "task.request", "ken", "t1", json!({"title": "one"})).await;
    send("m2", "task.accept", "ada", "t1", json!({})).await;
    send("m3", "task.result", "ada", "t1", json!({"title": "well"})).await;
    send("m4", "task.request", "ken", "t2", json!({"title": "two"})).await;
    send("m5", "task.cancel", "ken", "t2", json!({"reason": "enough"})).await;

    let by_rest = team(&["ken", "ada"]).await;
    let create = async |title: &str| {
        let reply = by_rest.post("/tasks", json!({"title": title, "assigned_by": "ken"})).await.unwrap();
        reply.body["id"].as_str().unwrap().to_owned()
    };
    let one = create("one").await;
    patch_task(&by_rest, &one, json!({"status": "in_progress", "agent_id": "ada"})).await;
    let done = json!({"status": "done", "agent_id": "ada", "outcome": "well", "outcome_detail": {"title": "well"}});
    patch_task(&by_rest, &one, done).await;
    let two = create("two").await;
    let cancel = by_rest.request(reqwest::Method::POST, &format!("/tasks/{two}/cancel"));
    let cancel = cancel.header("x-agent-id", "ken").json(&json!({"reason": "enough"}));
    assert_eq!(cancel.send().await.unwrap().status(), 200);

    let events = task_events(&by_envelopes);
    assert_eq!(events.len(), 6, "{events:?}");
    assert_eq!(events, task_events(&by_rest));
}
