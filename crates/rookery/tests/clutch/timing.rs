//! Timeouts and deadlines of tasks on a real daemon. The tests wait for log entries, never for a time.

use std::path::Path;

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::sending::{envelope, post, post_rejected, rejection, rejection_of, send_ok, setup};
use crate::support::{ask_ok, rest};
use crate::team::{Team, Tools, ok, rookery, team_of};

/// A daemon whose timeouts do not expire during a test.
fn setup_without_timeouts() -> Setup {
    setup().env("ROOKERY_ACCEPT_TIMEOUT", "1h").env("ROOKERY_RETRY_BACKOFF", "10ms")
}

async fn register_by_card(daemon: &Daemon, id: &str, more: Value) {
    let mut card = json!({"v": "clutch/0.1", "agent_id": id, "capabilities": [{"id": "skill:law"}]});
    for (field, value) in more.as_object().unwrap() {
        card[field] = value.clone();
    }
    ask_ok(daemon, Method::PUT, &format!("/agents/{id}"), Some(card)).await;
}

fn request(task: &str, more: Value) -> Value {
    let mut request = envelope(&format!("req_{task}"), "task.request", "ui", more);
    request["task_id"] = json!(task);
    request["requires"] = json!(["skill:law"]);
    request
}

fn about(id: &str, kind: &str, from: &str, task: &str, payload: Value) -> Value {
    envelope(id, kind, from, json!({"task_id": task, "payload": payload}))
}

/// All messages of a type about a task.
async fn messages(daemon: &Daemon, task: &str, kind: &str) -> Vec<Value> {
    let page = ok(daemon, &format!("/messages?task_id={task}&type={kind}&limit=1000")).await;
    page["messages"].as_array().unwrap().iter().map(|placed| placed["message"].clone()).collect()
}

/// Waits for this many messages of a type about a task.
async fn wait_for_messages(daemon: &Daemon, task: &str, kind: &str, count: usize) -> Vec<Value> {
    let find = || async {
        let found = messages(daemon, task, kind).await;
        Ok((found.len() >= count).then_some(found))
    };
    wait::eventually(&format!("{count} of {kind} about {task}"), find).await.unwrap()
}

/// Waits for this many forwarded requests of a task.
async fn wait_for_forwards(daemon: &Daemon, task: &str, count: usize) -> Vec<Value> {
    let find = || async {
        let mut found = messages(daemon, task, "task.request").await;
        found.retain(|message| message["from"]["agent_id"] == "agent:orchestrator");
        Ok((found.len() >= count).then_some(found))
    };
    wait::eventually(&format!("{task} is given {count} times"), find).await.unwrap()
}

async fn task_state(daemon: &Daemon, task: &str) -> String {
    rest(daemon, &format!("/tasks/{task}")).await["state"].as_str().unwrap().to_owned()
}

/// Number, agent and outcome of each attempt in the tree of its run.
async fn attempts(daemon: &Daemon, run: &str, task: &str) -> Value {
    let tree = ok(daemon, &format!("/runs/{run}")).await;
    let found = tree["tasks"].as_array().unwrap().iter().find(|found| found["task_id"] == task).unwrap().clone();
    let attempt_fields = |attempt: &Value| json!([attempt["attempt"], attempt["agent"], attempt["outcome"]]);
    found["attempts"].as_array().unwrap().iter().map(attempt_fields).collect()
}

fn configure(root: &Path, settings: &str) {
    std::fs::write(root.join("rookery.toml"), settings).unwrap();
}

#[tokio::test]
async fn accept_timeout_reroutes_task_even_after_a_daemon_crash() {
    let folder = tempfile::tempdir().unwrap();
    // Long enough to kill the daemon before it expires.
    configure(folder.path(), "accept_timeout = \"5s\"\n");
    let mut daemon = setup().start_at(folder.path()).unwrap();
    register_by_card(&daemon, "ken", json!({})).await;
    send_ok(&daemon, &request("t", json!({}))).await;
    let first = wait_for_forwards(&daemon, "t", 1).await.remove(0);
    assert_eq!(first["to"], json!([{"agent_id": "agent:ken"}]));
    // The timeout expires while no daemon runs.
    daemon.kill().unwrap();
    configure(folder.path(), "accept_timeout = \"1h\"\n");
    daemon.restart().unwrap();
    let released = wait_for_messages(&daemon, "t", "task.released", 1).await.remove(0);
    assert_eq!((&released["payload"]["because"], &released["to"]), (&json!("not_accepted"), &first["to"]));
    assert!(released["payload"]["reason"].as_str().unwrap().starts_with("ken did not accept it until "), "{released}");
    assert_eq!(released["thread_id"], "thr_talk");
    let failed = wait_for_messages(&daemon, "t", "routing.failure", 1).await.remove(0);
    assert_eq!(failed["payload"]["rejected_counts"], json!({"tried": 1}));
    assert!(failed["payload"]["retry_at"].is_string(), "{failed}");
    // A new agent is asked at once, and the previous one accepts too late.
    register_by_card(&daemon, "ada", json!({})).await;
    assert_eq!(wait_for_forwards(&daemon, "t", 2).await[1]["to"], json!([{"agent_id": "agent:ada"}]));
    let late = post_rejected(&daemon, &about("late", "task.accept", "ken", "t", json!({}))).await;
    assert_eq!(late, rejection_of(409, "RESERVED_FOR_OTHER", "/from/agent_id"));
    send_ok(&daemon, &about("acc", "task.accept", "ada", "t", json!({}))).await;
    send_ok(&daemon, &about("res", "task.result", "ada", "t", json!({}))).await;
    let tried = attempts(&daemon, "run_work", "t").await;
    assert_eq!(tried, json!([[1, "agent:ken", "not_accepted"], [1, "agent:ada", "completed"]]));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn agents_that_missed_the_accept_timeout_are_asked_again_later() {
    let daemon = setup().env("ROOKERY_ACCEPT_TIMEOUT", "200ms").start().unwrap();
    register_by_card(&daemon, "ken", json!({})).await;
    register_by_card(&daemon, "ada", json!({})).await;
    send_ok(&daemon, &request("t", json!({}))).await;
    let given = wait_for_forwards(&daemon, "t", 3).await;
    assert_ne!(given[0]["to"], given[1]["to"], "each agent is asked once first");
    let seq = |message: &Value| message["meta"]["seq"].as_u64().unwrap();
    let failed = messages(&daemon, "t", "routing.failure").await.remove(0);
    let resumed = messages(&daemon, "t", "routing.resumed").await.remove(0);
    let decided = messages(&daemon, "t", "routing.decision").await;
    assert!(seq(&decided[1]) < seq(&failed) && seq(&failed) < seq(&resumed) && seq(&resumed) < seq(&decided[2]));
}

#[tokio::test]
async fn runtime_timeout_moves_the_task_to_another_agent() {
    let mut daemon = setup_without_timeouts().start().unwrap();
    register_by_card(&daemon, "lead", json!({"capabilities": []})).await;
    let fast = json!([{"id": "skill:law"}, {"id": "skill:fast"}]);
    register_by_card(&daemon, "ken", json!({"capabilities": fast, "limits": {"max_runtime_sec": 1}})).await;
    register_by_card(&daemon, "ada", json!({})).await;
    send_ok(&daemon, &request("t", json!({"prefers": ["skill:fast"], "limits": {"max_runtime_sec": 600}}))).await;
    wait_for_forwards(&daemon, "t", 1).await;
    send_ok(&daemon, &about("acc", "task.accept", "ken", "t", json!({}))).await;
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let timed_out = wait_for_messages(&daemon, "t", "task.timeout", 1).await.remove(0);
    assert_eq!(
        (&timed_out["from"]["agent_id"], &timed_out["to"][0]),
        (&json!("agent:orchestrator"), &json!({"agent_id": "agent:ken"}))
    );
    let payload = &timed_out["payload"];
    assert_eq!((&payload["code"], &payload["retryable"]), (&json!("RUNTIME_EXCEEDED"), &json!(true)), "{payload}");
    let again = wait_for_forwards(&daemon, "t", 2).await.remove(1);
    assert_eq!((&again["attempt"], &again["to"]), (&json!(2), &json!([{"agent_id": "agent:ada"}])));
    let late = post_rejected(&daemon, &about("res1", "task.result", "ken", "t", json!({}))).await;
    assert_eq!(late, rejection_of(403, "NOT_HOLDER", "/from/agent_id"));
    send_ok(&daemon, &about("res2", "task.result", "ada", "t", json!({"title": "done"}))).await;
    let tried = attempts(&daemon, "run_work", "t").await;
    assert_eq!(tried, json!([[1, "agent:ken", "timed_out"], [2, "agent:ada", "completed"]]));
    let tree = crate::team::rookery(daemon.root(), daemon.store(), &["run-tree", "run_work"]).1;
    assert!(tree.contains("attempt 1 by ken: timed out after") && tree.contains("RUNTIME_EXCEEDED: ken had"), "{tree}");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn deadline_timeout_ends_task_and_subtasks() {
    let daemon = setup_without_timeouts().start().unwrap();
    let over = json!({"deadline": "2020-01-01T00:00:00Z"});
    // No agent fits this task.
    send_ok(&daemon, &request("alone", over.clone())).await;
    let message = wait_for_messages(&daemon, "alone", "task.timeout", 1).await.remove(0);
    let payload = &message["payload"];
    assert_eq!((&payload["code"], &payload["retryable"]), (&json!("DEADLINE_EXCEEDED"), &json!(false)), "{payload}");
    assert_eq!(task_state(&daemon, "alone").await, "failed");
    let task = rest(&daemon, "/tasks/alone").await;
    assert_eq!(task["reason"], "DEADLINE_EXCEEDED: its deadline was 2020-01-01T00:00:00.000Z");
    // In one batch, so that the task is in progress when its deadline is noticed.
    register_by_card(&daemon, "ken", json!({})).await;
    let mut part = request("part", json!({"parent_task_id": "whole"}));
    part["from"] = json!({"agent_id": "agent:ken"});
    let accept = about("acc", "task.accept", "ken", "whole", json!({}));
    let reply = post(&daemon, &json!([request("whole", over), accept, part])).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let message = wait_for_messages(&daemon, "whole", "task.timeout", 1).await.remove(0);
    assert_eq!(message["to"], json!([{"agent_id": "agent:ken"}]));
    assert_eq!(
        (task_state(&daemon, "whole").await, task_state(&daemon, "part").await),
        ("failed".into(), "cancelled".into())
    );
    let late = post_rejected(&daemon, &about("res", "task.result", "ken", "whole", json!({}))).await;
    assert_eq!(late, rejection_of(409, "INVALID_TRANSITION", "/task_id"));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn retryable_error_is_retried_until_attempts_are_exhausted() {
    let daemon = setup_without_timeouts().start().unwrap();
    register_by_card(&daemon, "ken", json!({})).await;
    send_ok(&daemon, &request("t", json!({}))).await;
    let broken = json!({"code": "TOOL_UNAVAILABLE", "message": "no browser", "retryable": true});
    for attempt in 1..=3 {
        let forwarded = wait_for_forwards(&daemon, "t", attempt).await.remove(attempt - 1);
        assert_eq!(forwarded["attempt"], json!(attempt));
        send_ok(&daemon, &about(&format!("err{attempt}"), "task.error", "ken", "t", broken.clone())).await;
    }
    let exhausted = wait_for_messages(&daemon, "t", "task.attempts_exhausted", 1).await.remove(0);
    assert_eq!(exhausted["payload"]["attempts"], 3);
    assert_eq!(messages(&daemon, "t", "task.retried").await.len(), 2);
    let task = rest(&daemon, "/tasks/t").await;
    assert_eq!((&task["state"], &task["attempt"]), (&json!("failed"), &json!(3)));
    assert_eq!(task["reason"], "TOOL_UNAVAILABLE: no browser");
    let events = rest(&daemon, "/events?action=authority.escalation").await;
    assert_eq!((events.as_array().unwrap().len(), &events[0]["task_id"]), (1, &json!("t")), "{events}");
    let tried = attempts(&daemon, "run_work", "t").await;
    assert_eq!(tried, json!([[1, "agent:ken", "failed"], [2, "agent:ken", "failed"], [3, "agent:ken", "failed"]]));
    // The request limits its attempts, and a final error is not retried.
    send_ok(&daemon, &request("once", json!({"limits": {"max_attempts": 1}}))).await;
    wait_for_forwards(&daemon, "once", 1).await;
    send_ok(&daemon, &about("err_once", "task.error", "ken", "once", broken)).await;
    assert_eq!(messages(&daemon, "once", "task.attempts_exhausted").await.len(), 1);
    send_ok(&daemon, &request("final", json!({}))).await;
    wait_for_forwards(&daemon, "final", 1).await;
    send_ok(&daemon, &about("err_final", "task.error", "ken", "final", json!({"message": "no"}))).await;
    assert_eq!(
        (task_state(&daemon, "final").await.as_str(), messages(&daemon, "final", "task.retried").await.len()),
        ("failed", 0)
    );
}

async fn retry(daemon: &Daemon, run: &str, body: Value, key: Option<&str>) -> HttpReply {
    let mut request = daemon.request(Method::POST, &format!("/clutch/v0/runs/{run}/retry")).json(&body);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    read(request).await.unwrap()
}

#[tokio::test]
async fn ended_task_of_a_run_is_retried_once_per_key() {
    let daemon = setup_without_timeouts().start().unwrap();
    register_by_card(&daemon, "ken", json!({})).await;
    send_ok(&daemon, &request("t", json!({}))).await;
    wait_for_forwards(&daemon, "t", 1).await;
    assert_eq!(
        rejection(&retry(&daemon, "run_work", json!({"task_id": "t"}), None).await),
        rejection_of(409, "INVALID_TRANSITION", "/task_id")
    );
    send_ok(&daemon, &about("res", "task.result", "ken", "t", json!({"title": "one"}))).await;
    assert_eq!(ok(&daemon, "/runs/run_work").await["status"], "completed");
    for (run, body, refusal) in [
        ("run_nowhere", json!({"task_id": "t"}), rejection_of(404, "WORKFLOW_NOT_FOUND", "")),
        ("run_work", json!({"task_id": "ghost"}), rejection_of(404, "TASK_NOT_FOUND", "/task_id")),
        ("run_default", json!({"task_id": "t"}), rejection_of(400, "INVALID", "/task_id")),
        ("run_work", json!({}), rejection_of(400, "INVALID_FIELD", "/task_id")),
        ("run_work", json!({"task_id": 7}), rejection_of(400, "INVALID_FIELD", "/task_id")),
        ("run_work", json!({"task_id": ""}), rejection_of(400, "INVALID", "/task_id")),
        ("run_work", json!([]), rejection_of(400, "INVALID_FIELD", "/task_id")),
    ] {
        assert_eq!(rejection(&retry(&daemon, run, body.clone(), None).await), refusal, "{run} {body}");
    }
    let first = retry(&daemon, "run:run_work", json!({"task_id": "task:t"}), Some("again")).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(first.body, json!({"run_id": "run_work", "task_id": "t", "state": "pending", "attempt": 2}));
    let second = retry(&daemon, "run:run_work", json!({"task_id": "task:t"}), Some("again")).await;
    assert_eq!((second.status, second.body), (first.status, first.body), "a repeat returns the first reply");
    assert_eq!(messages(&daemon, "t", "task.reopened").await.len(), 1);
    let other = retry(&daemon, "run:run_work", json!({"task_id": "t"}), Some("again")).await;
    assert_eq!(rejection(&other).1, "IDEMPOTENCY_MISMATCH");
    let tree = ok(&daemon, "/runs/run_work").await;
    assert_eq!((&tree["status"], &tree["unfinished_count"]), (&json!("in_progress"), &json!(1)));
    assert_eq!(wait_for_forwards(&daemon, "t", 2).await[1]["attempt"], 2);
    send_ok(&daemon, &about("res2", "task.result", "ken", "t", json!({"title": "two"}))).await;
    assert_eq!(ok(&daemon, "/runs/run_work").await["status"], "completed");
    let tried = attempts(&daemon, "run_work", "t").await;
    assert_eq!(tried, json!([[1, "agent:ken", "completed"], [2, "agent:ken", "completed"]]));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn failed_run_is_reopened_on_every_surface_by_an_authorized_retry() {
    let team: Team = team_of(setup_without_timeouts(), &["lead", "ken", "mia"]).await;
    let ken = Tools::connect(&team, "ken").await;
    let (run, tasks) = ken.plan(json!([{"name": "find"}, {"name": "write", "depends_on": ["find"]}])).await;
    let update = async |tools: &Tools, task: &str, more: Value| {
        let mut asked = json!({"task_id": tasks[task]});
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tools.call("task_claim", json!({"task_id": tasks[task]})).await;
        tools.call("task_update_status", asked).await;
    };
    let assert_status = async |status: &str| {
        assert_eq!(ok(&team, &format!("/runs/{run}")).await["status"], status);
        let listed = ken.call("workflow_get", json!({"id": run})).await;
        assert_eq!(listed["status"], status, "{listed}");
        let (_, table, _) = rookery(team.root(), team.store(), &["runs"]);
        assert!(table.lines().any(|line| line.contains(&run) && line.contains(status)), "{table}");
    };
    update(&ken, "find", json!({"status": "failed", "error": "no network"})).await;
    assert_status("in_progress").await;
    let mia = Tools::connect(&team, "mia").await;
    update(&ken, "find", json!({"status": "completed", "outcome": "so"})).await;
    update(&mia, "write", json!({"status": "failed", "error": "no paper"})).await;
    assert_status("failed").await;
    let by = async |agent: &str| {
        let path = format!("/clutch/v0/runs/{run}/retry");
        let asked =
            team.request(Method::POST, &path).header("x-agent-id", agent).json(&json!({"task_id": tasks["find"]}));
        read(asked).await.unwrap()
    };
    assert_eq!(rejection(&by("mia").await).0, 403, "only the creator of the run may retry");
    assert_eq!(by("ken").await.status, 200);
    assert_status("in_progress").await;
    update(&ken, "find", json!({"status": "completed", "outcome": "so"})).await;
    mia.call("task_claim", json!({"task_id": tasks["write"]})).await;
    let rejected = by("ken").await;
    assert_eq!(rejection(&rejected), rejection_of(409, "ALREADY_CLAIMED", "/task_id"));
    let message = rejected.body["message"].as_str().unwrap();
    assert!(message.contains(&*tasks["write"]) && message.contains("mia"), "{message}");
    team.replay_verify().unwrap();
}

#[tokio::test]
async fn retry_from_run_tree_blocks_dependents_again() {
    let team: Team = team_of(setup_without_timeouts(), &["ken", "mia"]).await;
    let ken = Tools::connect(&team, "ken").await;
    let plan = json!([{"name": "find"}, {"name": "write", "depends_on": ["find"]}, {"name": "spare"}]);
    let (run, tasks) = ken.plan(plan).await;
    for task in ["find", "write"] {
        ken.call("task_claim", json!({"task_id": tasks[task]})).await;
        ken.call("task_update_status", json!({"task_id": tasks[task], "status": "completed", "outcome": "so"})).await;
    }
    let find = &tasks["find"];
    let (code, tree, stderr) = rookery(team.root(), team.store(), &["run-tree", &run, "--retry", find]);
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[1].starts_with("|- [ ] find") && lines[1].contains("pending"), "{tree}");
    assert!(tree.contains(&format!("waits for {find}")), "{tree}");
    let (code, _, stderr) = rookery(team.root(), team.store(), &["run-tree", &run, "--retry", find]);
    assert_eq!(code, 1);
    assert!(stderr.contains("only what has ended is tried again"), "{stderr}");
    team.replay_verify().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadline_timeout_takes_effect_once_across_nodes() {
    let schema = Schema::new().unwrap();
    let node = || setup().env("ROOKERY_ACCEPT_TIMEOUT", "1h").store(schema.url()).start().unwrap();
    let mut nodes = vec![node(), node()];
    let over = |n: usize| request(&format!("t{n}"), json!({"deadline": "2020-01-01T00:00:00Z"}));
    let many = |range: std::ops::Range<usize>| json!(range.map(over).collect::<Vec<_>>());
    assert_eq!(post(&nodes[0], &many(0..20)).await.status, 202);
    assert_eq!(post(&nodes[1], &many(20..40)).await.status, 202);
    // One of the two nodes held the leader role.
    nodes.remove(0).kill().unwrap();
    assert_eq!(post(&nodes[0], &many(40..60)).await.status, 202);
    for n in 0..60 {
        assert_eq!(wait_for_messages(&nodes[0], &format!("t{n}"), "task.timeout", 1).await.len(), 1);
    }
    nodes[0].replay_verify().unwrap();
}

#[tokio::test]
async fn runtime_timeout_of_a_card_applies_to_any_task() {
    let daemon = team_of(setup_without_timeouts(), &["lead"]).await;
    register_by_card(&daemon, "ken", json!({"limits": {"max_runtime_sec": 1}})).await;
    let task = crate::team::create_task(&daemon, "by hand").await;
    crate::team::patch_task(&daemon, &task, json!({"status": "in_progress", "agent_id": "ken"})).await;
    let timed_out = wait_for_messages(&daemon, &task, "task.timeout", 1).await.remove(0);
    assert_eq!(timed_out["payload"]["code"], "RUNTIME_EXCEEDED", "{timed_out}");
    assert_eq!(task_state(&daemon, &task).await, "failed");
    assert_eq!(messages(&daemon, &task, "task.retried").await.len(), 0, "no request permits another attempt");
}
