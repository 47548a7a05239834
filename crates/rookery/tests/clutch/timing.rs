//! What time does to tasks of a real daemon: nothing here waits for a time, only for what the log tells of it.

use std::path::Path;

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::sending::{envelope, expected, post, refused, sent, setup, told};
use crate::support::{asked, rest};
use crate::team::{Team, Tools, ok, rookery, team_of};

/// A daemon on which no time is over before the test wants it to be.
fn patient() -> Setup {
    setup().env("ROOKERY_ACCEPT_TIMEOUT", "1h").env("ROOKERY_RETRY_BACKOFF", "10ms")
}

async fn joins(daemon: &Daemon, id: &str, more: Value) {
    let mut card = json!({"v": "clutch/0.1", "agent_id": id, "capabilities": [{"id": "skill:law"}]});
    for (field, value) in more.as_object().unwrap() {
        card[field] = value.clone();
    }
    asked(daemon, Method::PUT, &format!("/agents/{id}"), Some(card)).await;
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

/// So many messages of a type about a task, once there are.
async fn told_of(daemon: &Daemon, task: &str, kind: &str, count: usize) -> Vec<Value> {
    let find = || async {
        let found = messages(daemon, task, kind).await;
        Ok((found.len() >= count).then_some(found))
    };
    wait::eventually(&format!("{count} of {kind} about {task}"), find).await.unwrap()
}

/// The requests that were passed on for a task, once there are so many.
async fn given(daemon: &Daemon, task: &str, count: usize) -> Vec<Value> {
    let find = || async {
        let mut found = messages(daemon, task, "task.request").await;
        found.retain(|message| message["from"]["agent_id"] == "agent:orchestrator");
        Ok((found.len() >= count).then_some(found))
    };
    wait::eventually(&format!("{task} is given {count} times"), find).await.unwrap()
}

async fn state(daemon: &Daemon, task: &str) -> String {
    rest(daemon, &format!("/tasks/{task}")).await["state"].as_str().unwrap().to_owned()
}

/// Number, agent and outcome of each attempt, as the tree of its run tells.
async fn attempts(daemon: &Daemon, run: &str, task: &str) -> Value {
    let tree = ok(daemon, &format!("/runs/{run}")).await;
    let found = tree["tasks"].as_array().unwrap().iter().find(|found| found["task_id"] == task).unwrap().clone();
    let told = |attempt: &Value| json!([attempt["attempt"], attempt["agent"], attempt["outcome"]]);
    found["attempts"].as_array().unwrap().iter().map(told).collect()
}

fn configure(root: &Path, settings: &str) {
    std::fs::write(root.join("rookery.toml"), settings).unwrap();
}

#[tokio::test]
async fn what_is_not_accepted_goes_to_the_next_also_if_the_daemon_dies_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    // Long enough to end it before that is over.
    configure(folder.path(), "accept_timeout = \"5s\"\n");
    let mut daemon = setup().start_at(folder.path()).unwrap();
    joins(&daemon, "ken", json!({})).await;
    sent(&daemon, &request("t", json!({}))).await;
    let first = given(&daemon, "t", 1).await.remove(0);
    assert_eq!(first["to"], json!([{"agent_id": "agent:ken"}]));
    // Its clock goes, and nobody is there to look at it.
    daemon.kill().unwrap();
    configure(folder.path(), "accept_timeout = \"1h\"\n");
    daemon.restart().unwrap();
    let released = told_of(&daemon, "t", "task.released", 1).await.remove(0);
    assert_eq!((&released["payload"]["because"], &released["to"]), (&json!("not_accepted"), &first["to"]));
    assert!(released["payload"]["reason"].as_str().unwrap().starts_with("ken did not accept it until "), "{released}");
    assert_eq!(released["thread_id"], "thr_talk");
    let failed = told_of(&daemon, "t", "routing.failure", 1).await.remove(0);
    assert_eq!(failed["payload"]["rejected_counts"], json!({"tried": 1}));
    assert!(failed["payload"]["retry_at"].is_string(), "{failed}");
    // Somebody new is asked at once, and whoever was asked before comes too late.
    joins(&daemon, "ada", json!({})).await;
    assert_eq!(given(&daemon, "t", 2).await[1]["to"], json!([{"agent_id": "agent:ada"}]));
    let late = refused(&daemon, &about("late", "task.accept", "ken", "t", json!({}))).await;
    assert_eq!(late, expected(409, "RESERVED_FOR_OTHER", "/from/agent_id"));
    sent(&daemon, &about("acc", "task.accept", "ada", "t", json!({}))).await;
    sent(&daemon, &about("res", "task.result", "ada", "t", json!({}))).await;
    let told = attempts(&daemon, "run_work", "t").await;
    assert_eq!(told, json!([[1, "agent:ken", "not_accepted"], [1, "agent:ada", "completed"]]));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn those_who_do_not_accept_are_asked_again_after_a_pause() {
    let daemon = setup().env("ROOKERY_ACCEPT_TIMEOUT", "200ms").start().unwrap();
    joins(&daemon, "ken", json!({})).await;
    joins(&daemon, "ada", json!({})).await;
    sent(&daemon, &request("t", json!({}))).await;
    let given = given(&daemon, "t", 3).await;
    assert_ne!(given[0]["to"], given[1]["to"], "first everybody is asked once");
    let seq = |message: &Value| message["meta"]["seq"].as_u64().unwrap();
    let failed = messages(&daemon, "t", "routing.failure").await.remove(0);
    let resumed = messages(&daemon, "t", "routing.resumed").await.remove(0);
    let decided = messages(&daemon, "t", "routing.decision").await;
    assert!(seq(&decided[1]) < seq(&failed) && seq(&failed) < seq(&resumed) && seq(&resumed) < seq(&decided[2]));
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_tried_elsewhere() {
    let mut daemon = patient().start().unwrap();
    joins(&daemon, "lead", json!({"capabilities": []})).await;
    let fast = json!([{"id": "skill:law"}, {"id": "skill:fast"}]);
    joins(&daemon, "ken", json!({"capabilities": fast, "limits": {"max_runtime_sec": 1}})).await;
    joins(&daemon, "ada", json!({})).await;
    sent(&daemon, &request("t", json!({"prefers": ["skill:fast"], "limits": {"max_runtime_sec": 600}}))).await;
    given(&daemon, "t", 1).await;
    sent(&daemon, &about("acc", "task.accept", "ken", "t", json!({}))).await;
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let over = told_of(&daemon, "t", "task.timeout", 1).await.remove(0);
    assert_eq!(
        (&over["from"]["agent_id"], &over["to"][0]),
        (&json!("agent:orchestrator"), &json!({"agent_id": "agent:ken"}))
    );
    let payload = &over["payload"];
    assert_eq!((&payload["code"], &payload["retryable"]), (&json!("RUNTIME_EXCEEDED"), &json!(true)), "{payload}");
    let again = given(&daemon, "t", 2).await.remove(1);
    assert_eq!((&again["attempt"], &again["to"]), (&json!(2), &json!([{"agent_id": "agent:ada"}])));
    let late = refused(&daemon, &about("res1", "task.result", "ken", "t", json!({}))).await;
    assert_eq!(late, expected(403, "NOT_HOLDER", "/from/agent_id"));
    sent(&daemon, &about("res2", "task.result", "ada", "t", json!({"title": "done"}))).await;
    let told = attempts(&daemon, "run_work", "t").await;
    assert_eq!(told, json!([[1, "agent:ken", "timed_out"], [2, "agent:ada", "completed"]]));
    let tree = crate::team::rookery(daemon.root(), daemon.store(), &["run-tree", "run_work"]).1;
    assert!(tree.contains("attempt 1 by ken: timed out after") && tree.contains("RUNTIME_EXCEEDED: ken had"), "{tree}");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn a_deadline_ends_a_task_with_all_that_is_part_of_it() {
    let daemon = patient().start().unwrap();
    let over = json!({"deadline": "2020-01-01T00:00:00Z"});
    // Nobody fits, and nobody ever will.
    sent(&daemon, &request("alone", over.clone())).await;
    let message = told_of(&daemon, "alone", "task.timeout", 1).await.remove(0);
    let payload = &message["payload"];
    assert_eq!((&payload["code"], &payload["retryable"]), (&json!("DEADLINE_EXCEEDED"), &json!(false)), "{payload}");
    assert_eq!(state(&daemon, "alone").await, "failed");
    let task = rest(&daemon, "/tasks/alone").await;
    assert_eq!(task["reason"], "DEADLINE_EXCEEDED: its deadline was 2020-01-01T00:00:00.000Z");
    // All at once, so that it is under way when its time is found to be over.
    joins(&daemon, "ken", json!({})).await;
    let mut part = request("part", json!({"parent_task_id": "whole"}));
    part["from"] = json!({"agent_id": "agent:ken"});
    let accept = about("acc", "task.accept", "ken", "whole", json!({}));
    let reply = post(&daemon, &json!([request("whole", over), accept, part])).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let message = told_of(&daemon, "whole", "task.timeout", 1).await.remove(0);
    assert_eq!(message["to"], json!([{"agent_id": "agent:ken"}]));
    assert_eq!((state(&daemon, "whole").await, state(&daemon, "part").await), ("failed".into(), "cancelled".into()));
    let late = refused(&daemon, &about("res", "task.result", "ken", "whole", json!({}))).await;
    assert_eq!(late, expected(409, "INVALID_TRANSITION", "/task_id"));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn an_error_that_may_mend_is_tried_again_until_its_attempts_are_used_up() {
    let daemon = patient().start().unwrap();
    joins(&daemon, "ken", json!({})).await;
    sent(&daemon, &request("t", json!({}))).await;
    let broken = json!({"code": "TOOL_UNAVAILABLE", "message": "no browser", "retryable": true});
    for attempt in 1..=3 {
        let passed_on = given(&daemon, "t", attempt).await.remove(attempt - 1);
        assert_eq!(passed_on["attempt"], json!(attempt));
        sent(&daemon, &about(&format!("err{attempt}"), "task.error", "ken", "t", broken.clone())).await;
    }
    let exhausted = told_of(&daemon, "t", "task.attempts_exhausted", 1).await.remove(0);
    assert_eq!(exhausted["payload"]["attempts"], 3);
    assert_eq!(messages(&daemon, "t", "task.retried").await.len(), 2);
    let task = rest(&daemon, "/tasks/t").await;
    assert_eq!((&task["state"], &task["attempt"]), (&json!("failed"), &json!(3)));
    assert_eq!(task["reason"], "TOOL_UNAVAILABLE: no browser");
    let events = rest(&daemon, "/events?action=authority.escalation").await;
    assert_eq!((events.as_array().unwrap().len(), &events[0]["task_id"]), (1, &json!("t")), "{events}");
    let told = attempts(&daemon, "run_work", "t").await;
    assert_eq!(told, json!([[1, "agent:ken", "failed"], [2, "agent:ken", "failed"], [3, "agent:ken", "failed"]]));
    // As often as the request says, and never where another try helps nobody.
    sent(&daemon, &request("once", json!({"limits": {"max_attempts": 1}}))).await;
    given(&daemon, "once", 1).await;
    sent(&daemon, &about("err_once", "task.error", "ken", "once", broken)).await;
    assert_eq!(messages(&daemon, "once", "task.attempts_exhausted").await.len(), 1);
    sent(&daemon, &request("final", json!({}))).await;
    given(&daemon, "final", 1).await;
    sent(&daemon, &about("err_final", "task.error", "ken", "final", json!({"message": "no"}))).await;
    assert_eq!(
        (state(&daemon, "final").await.as_str(), messages(&daemon, "final", "task.retried").await.len()),
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
async fn a_part_of_a_run_is_tried_again() {
    let daemon = patient().start().unwrap();
    joins(&daemon, "ken", json!({})).await;
    sent(&daemon, &request("t", json!({}))).await;
    given(&daemon, "t", 1).await;
    assert_eq!(
        told(&retry(&daemon, "run_work", json!({"task_id": "t"}), None).await),
        expected(409, "INVALID_TRANSITION", "/task_id")
    );
    sent(&daemon, &about("res", "task.result", "ken", "t", json!({"title": "one"}))).await;
    assert_eq!(ok(&daemon, "/runs/run_work").await["status"], "completed");
    for (run, body, refusal) in [
        ("run_nowhere", json!({"task_id": "t"}), expected(404, "WORKFLOW_NOT_FOUND", "")),
        ("run_work", json!({"task_id": "ghost"}), expected(404, "TASK_NOT_FOUND", "/task_id")),
        ("run_default", json!({"task_id": "t"}), expected(400, "INVALID", "/task_id")),
        ("run_work", json!({}), expected(400, "INVALID_FIELD", "/task_id")),
        ("run_work", json!({"task_id": 7}), expected(400, "INVALID_FIELD", "/task_id")),
        ("run_work", json!({"task_id": ""}), expected(400, "INVALID", "/task_id")),
        ("run_work", json!([]), expected(400, "INVALID_FIELD", "/task_id")),
    ] {
        assert_eq!(told(&retry(&daemon, run, body.clone(), None).await), refusal, "{run} {body}");
    }
    let first = retry(&daemon, "run:run_work", json!({"task_id": "task:t"}), Some("again")).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(first.body, json!({"run_id": "run_work", "task_id": "t", "state": "pending", "attempt": 2}));
    let second = retry(&daemon, "run:run_work", json!({"task_id": "task:t"}), Some("again")).await;
    assert_eq!((second.status, second.body), (first.status, first.body), "it was done once");
    assert_eq!(messages(&daemon, "t", "task.reopened").await.len(), 1);
    let other = retry(&daemon, "run:run_work", json!({"task_id": "t"}), Some("again")).await;
    assert_eq!(told(&other).1, "IDEMPOTENCY_MISMATCH");
    let tree = ok(&daemon, "/runs/run_work").await;
    assert_eq!((&tree["status"], &tree["unfinished_count"]), (&json!("in_progress"), &json!(1)));
    assert_eq!(given(&daemon, "t", 2).await[1]["attempt"], 2);
    sent(&daemon, &about("res2", "task.result", "ken", "t", json!({"title": "two"}))).await;
    assert_eq!(ok(&daemon, "/runs/run_work").await["status"], "completed");
    let told = attempts(&daemon, "run_work", "t").await;
    assert_eq!(told, json!([[1, "agent:ken", "completed"], [2, "agent:ken", "completed"]]));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn a_run_fails_with_its_last_task_and_a_retry_by_who_may_opens_it_on_every_face() {
    let team: Team = team_of(patient(), &["lead", "ken", "mia"]).await;
    let ken = Tools::connect(&team, "ken").await;
    let (run, tasks) = ken.plan(json!([{"name": "find"}, {"name": "write", "depends_on": ["find"]}])).await;
    let update = async |tools: &Tools, task: &str, more: Value| {
        let mut asked = json!({"task_id": tasks[task]});
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tools.call("task_claim", json!({"task_id": tasks[task]})).await;
        tools.call("task_update_status", asked).await;
    };
    let stands = async |status: &str| {
        assert_eq!(ok(&team, &format!("/runs/{run}")).await["status"], status);
        let listed = ken.call("workflow_get", json!({"id": run})).await;
        assert_eq!(listed["status"], status, "{listed}");
        let (_, table, _) = rookery(team.root(), team.store(), &["runs"]);
        assert!(table.lines().any(|line| line.contains(&run) && line.contains(status)), "{table}");
    };
    update(&ken, "find", json!({"status": "failed", "error": "no network"})).await;
    stands("in_progress").await;
    let mia = Tools::connect(&team, "mia").await;
    update(&ken, "find", json!({"status": "completed", "outcome": "so"})).await;
    update(&mia, "write", json!({"status": "failed", "error": "no paper"})).await;
    stands("failed").await;
    let by = async |agent: &str| {
        let path = format!("/clutch/v0/runs/{run}/retry");
        let asked =
            team.request(Method::POST, &path).header("x-agent-id", agent).json(&json!({"task_id": tasks["find"]}));
        read(asked).await.unwrap()
    };
    assert_eq!(told(&by("mia").await).0, 403, "ken steers it");
    assert_eq!(by("ken").await.status, 200);
    stands("in_progress").await;
    update(&ken, "find", json!({"status": "completed", "outcome": "so"})).await;
    mia.call("task_claim", json!({"task_id": tasks["write"]})).await;
    let refused = by("ken").await;
    assert_eq!(told(&refused), expected(409, "ALREADY_CLAIMED", "/task_id"));
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains(&*tasks["write"]) && message.contains("mia"), "{message}");
    team.replay_verify().unwrap();
}

#[tokio::test]
async fn what_depends_on_it_waits_for_it_again_as_the_terminal_shows() {
    let team: Team = team_of(patient(), &["ken", "mia"]).await;
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
async fn whichever_node_sees_to_it_a_time_is_over_once() {
    let schema = Schema::new().unwrap();
    let node = || setup().env("ROOKERY_ACCEPT_TIMEOUT", "1h").store(schema.url()).start().unwrap();
    let mut nodes = vec![node(), node()];
    let over = |n: usize| request(&format!("t{n}"), json!({"deadline": "2020-01-01T00:00:00Z"}));
    let many = |range: std::ops::Range<usize>| json!(range.map(over).collect::<Vec<_>>());
    assert_eq!(post(&nodes[0], &many(0..20)).await.status, 202);
    assert_eq!(post(&nodes[1], &many(20..40)).await.status, 202);
    // One of them had the duty.
    nodes.remove(0).kill().unwrap();
    assert_eq!(post(&nodes[0], &many(40..60)).await.status, 202);
    for n in 0..60 {
        assert_eq!(told_of(&nodes[0], &format!("t{n}"), "task.timeout", 1).await.len(), 1);
    }
    nodes[0].replay_verify().unwrap();
}

#[tokio::test]
async fn a_card_limits_also_what_no_request_asked_for() {
    let daemon = team_of(patient(), &["lead"]).await;
    joins(&daemon, "ken", json!({"limits": {"max_runtime_sec": 1}})).await;
    let task = crate::team::task(&daemon, "by hand").await;
    crate::team::moved(&daemon, &task, json!({"status": "in_progress", "agent_id": "ken"})).await;
    let timed_out = told_of(&daemon, &task, "task.timeout", 1).await.remove(0);
    assert_eq!(timed_out["payload"]["code"], "RUNTIME_EXCEEDED", "{timed_out}");
    assert_eq!(state(&daemon, &task).await, "failed");
    assert_eq!(messages(&daemon, &task, "task.retried").await.len(), 0, "nobody asked for another attempt");
}
