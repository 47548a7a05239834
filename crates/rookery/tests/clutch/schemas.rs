//! Schemas, step contracts and groups, over HTTP.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode, header};
use rookery_testkit::daemon::{Daemon, Engine, HttpReply, read};
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::support::{ask, setup, start};
use crate::team::Tools;

const ROOT: &str = "/clutch/v0";
const RULES: &str = "\
workflow: product-research
steps:
  - id: research
    expects:
      type: task.result
      payload_type: research.summary.v1
      required:
        - findings
        - citations
";

async fn get(daemon: &Daemon, path: &str) -> HttpReply {
    ask(daemon, Method::GET, path, None).await
}

async fn put(daemon: &Daemon, path: &str, body: &Value) -> HttpReply {
    ask(daemon, Method::PUT, path, Some(body.clone())).await
}

async fn put_text(daemon: &Daemon, path: &str, content_type: &str, body: &str) -> HttpReply {
    let request = daemon.request(Method::PUT, &format!("{ROOT}{path}"));
    read(request.header(header::CONTENT_TYPE, content_type).body(body.to_owned())).await.unwrap()
}

#[track_caller]
fn body_ok(reply: &HttpReply) -> &Value {
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
    &reply.body
}

/// Asserts a rejection and returns its pointer.
#[track_caller]
fn assert_rejected(reply: &HttpReply, status: u16, code: &str) -> String {
    assert_eq!((reply.status.as_u16(), reply.body["code"].as_str()), (status, Some(code)), "{}", reply.body);
    assert!(!reply.body["message"].as_str().unwrap().is_empty());
    assert_eq!(reply.body["retryable"], false);
    reply.body["details"]["pointer"].as_str().unwrap_or_default().to_owned()
}

fn count_rows(daemon: &Daemon) -> usize {
    daemon.export().unwrap().len()
}

#[tokio::test]
async fn built_in_schemas_are_registered_from_the_start() {
    let daemon = start();
    for (payload_type, required) in [
        ("research.query.v1", json!(["query"])),
        ("research.summary.v1", json!(["findings", "citations"])),
        ("research.sources.v1", json!(["sources", "relevance_scores"])),
        ("code.output.v1", json!(["files", "language", "tests_passed"])),
        ("code.review.v1", json!(["findings", "severity"])),
        ("review.feedback.v1", json!(["decision", "comments", "blocking_issues"])),
    ] {
        let reply = get(&daemon, &format!("/schemas/{payload_type}")).await;
        assert_eq!(body_ok(&reply)["required"], required);
        assert_eq!(reply.headers[header::CONTENT_TYPE], "application/json");
        body_ok(&put(&daemon, &format!("/schemas/{payload_type}"), &reply.body).await);
        let other = put(&daemon, &format!("/schemas/{payload_type}"), &json!({})).await;
        assert_rejected(&other, 409, "ALREADY_EXISTS");
    }
    let listed = get(&daemon, "/schemas").await;
    assert_eq!(body_ok(&listed)["schemas"].as_array().unwrap().len(), 6);
    assert_eq!(listed.body["schemas"][4]["schema_ref"], "schema://clutch/research/summary@1");
    assert_eq!((&listed.body["schemas"][4]["built_in"], &listed.body["next"]), (&json!(true), &Value::Null));
}

#[tokio::test]
async fn schema_version_is_immutable_and_survives_a_restart() {
    let mut daemon = start();
    let schema = json!({ "type": "object", "required": ["x"], "properties": { "x": { "$ref": "#/$defs/x" } },
                         "$defs": { "x": { "type": "integer" } } });
    let first = put(&daemon, "/schemas/own.thing.v1", &schema).await;
    assert_eq!(body_ok(&first)["schema_ref"], "schema://clutch/own/thing@1");
    assert_eq!((&first.body["built_in"], &first.body["registered_by"]), (&json!(false), &json!("anonymous")));
    let before = count_rows(&daemon);
    assert_eq!(body_ok(&put(&daemon, "/schemas/own.thing.v1", &schema).await)["seq"], first.body["seq"]);
    let spaced = serde_json::to_string_pretty(&schema).unwrap();
    body_ok(&put_text(&daemon, "/schemas/own.thing.v1", "application/json", &spaced).await);
    assert_rejected(&put(&daemon, "/schemas/own.thing.v1", &json!({ "type": "object" })).await, 409, "ALREADY_EXISTS");
    assert_eq!(count_rows(&daemon), before, "no repeat appended an event");
    body_ok(&put(&daemon, "/schemas/own.thing.v2", &json!({ "type": "object" })).await);

    daemon.kill().unwrap();
    daemon.restart().unwrap();
    assert_eq!(body_ok(&get(&daemon, "/schemas/own.thing.v1").await), &schema);
    let page = get(&daemon, "/schemas?limit=1").await;
    let own: Vec<&Value> =
        body_ok(&page)["schemas"].as_array().unwrap().iter().filter(|s| s["built_in"] == false).collect();
    assert_eq!((own.len(), &own[0]["payload_type"]), (1, &json!("own.thing.v1")));
    let rest = get(&daemon, &format!("/schemas?after={}", page.body["next"])).await;
    assert_eq!(
        (&rest.body["schemas"][0]["payload_type"], rest.body["schemas"].as_array().unwrap().len()),
        (&json!("own.thing.v2"), 1)
    );
    assert_rejected(&get(&daemon, "/schemas/own.thing.v3").await, 404, "SCHEMA_NOT_FOUND");
    daemon.stop().unwrap();
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn invalid_schema_is_rejected_and_not_stored() {
    let daemon = start();
    let before = count_rows(&daemon);
    for (schema, pointer) in [
        (json!({ "type": "objekt" }), "/type"),
        (json!({ "properties": { "a": { "pattern": "(" } } }), "/properties/a/pattern"),
        (json!({ "items": { "$ref": "https://example.com/x.json" } }), "/items/$ref"),
        (json!({ "allOf": [{ "$ref": "#" }] }), ""),
        (json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), "/$schema"),
        (json!(7), ""),
    ] {
        let reply = put(&daemon, "/schemas/own.thing.v1", &schema).await;
        assert_eq!(assert_rejected(&reply, 400, "INVALID_SCHEMA"), pointer, "{}", reply.body);
    }
    for text in ["", "{", r#"{"a":1,"a":2}"#] {
        assert_rejected(
            &put_text(&daemon, "/schemas/own.thing.v1", "application/json", text).await,
            400,
            "INVALID_SCHEMA",
        );
    }
    let large = json!({ "title": "x".repeat(100_000) });
    assert_rejected(&put(&daemon, "/schemas/own.thing.v1", &large).await, 400, "INVALID_SCHEMA");
    for name in ["thing", "own.thing", "own.thing.v0", "own..v1", "own thing.v1"] {
        assert_rejected(&put(&daemon, &format!("/schemas/{name}"), &json!({})).await, 400, "INVALID");
    }
    let plain = put_text(&daemon, "/schemas/own.thing.v1", "text/plain", "{}").await;
    assert_rejected(&plain, 415, "UNSUPPORTED_MEDIA_TYPE");
    assert_eq!(count_rows(&daemon), before);
}

#[tokio::test]
async fn step_contracts_are_defined_as_yaml_or_json_and_replaced() {
    let daemon = start();
    assert_rejected(&get(&daemon, "/step-contracts/product-research").await, 404, "WORKFLOW_NOT_FOUND");
    let defined = put_text(&daemon, "/step-contracts/product-research", "application/yaml", RULES).await;
    let rules = json!({ "workflow": "product-research", "steps": [{ "id": "research", "expects": {
        "type": "task.result", "payload_type": "research.summary.v1", "required": ["findings", "citations"] } }] });
    assert_eq!(body_ok(&defined), &rules);
    let before = count_rows(&daemon);
    assert_eq!(body_ok(&put(&daemon, "/step-contracts/product-research", &rules).await), &rules);
    assert_eq!(count_rows(&daemon), before, "a repeated definition appends nothing");
    assert_eq!(body_ok(&get(&daemon, "/step-contracts/product-research").await), &rules);

    let mut replaced = rules.clone();
    replaced["steps"][0]["id"] = json!("look");
    body_ok(&put(&daemon, "/step-contracts/product-research", &replaced).await);
    let listed = get(&daemon, "/step-contracts").await;
    assert_eq!(
        (&listed.body["workflows"][0]["steps"], listed.body["workflows"].as_array().unwrap().len()),
        (&json!(["look"]), 1)
    );
    let kinds: Vec<Value> = daemon.export().unwrap().into_iter().map(|row| row["kind"].clone()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "contract.defined").count(), 2, "both are in the log");
}

#[tokio::test]
async fn invalid_step_contracts_are_rejected_and_not_stored() {
    let daemon = start();
    let before = count_rows(&daemon);
    for (from, to, field) in [
        ("id: research", "id: research\n    colour: red", "colour"),
        ("task.result", "task.dance", "task.dance"),
        ("workflow: product-research", "workflow: other", "other"),
        ("id: research", "id: &anchor research", ""),
    ] {
        let reply =
            put_text(&daemon, "/step-contracts/product-research", "application/yaml", &RULES.replacen(from, to, 1))
                .await;
        assert_rejected(&reply, 400, "INVALID_FIELD");
        assert!(reply.body["message"].as_str().unwrap().contains(field), "{}", reply.body);
    }
    let unknown = RULES.replacen("research.summary.v1", "own.thing.v1", 1);
    let reply = put_text(&daemon, "/step-contracts/product-research", "application/yaml", &unknown).await;
    assert_rejected(&reply, 400, "UNKNOWN_REFERENCE");
    let twice = format!("{RULES}{}", RULES.lines().skip(2).map(|line| format!("{line}\n")).collect::<String>());
    assert_rejected(
        &put_text(&daemon, "/step-contracts/product-research", "application/yaml", &twice).await,
        400,
        "INVALID",
    );
    let plain = put_text(&daemon, "/step-contracts/product-research", "text/plain", RULES).await;
    assert_rejected(&plain, 415, "UNSUPPORTED_MEDIA_TYPE");
    let large = format!("{RULES}# {}", "x".repeat(300_000));
    let reply = put_text(&daemon, "/step-contracts/product-research", "application/yaml", &large).await;
    assert_rejected(&reply, 413, "TOO_LARGE");
    assert_eq!(count_rows(&daemon), before);
}

#[tokio::test]
async fn group_is_a_member_list_or_a_role() {
    let mut daemon = start();
    let set = put(&daemon, "/groups/reviewers", &json!({ "members": ["agent:ken", "ada", "ken"] })).await;
    let expected = json!({ "name": "reviewers", "members": ["agent:ada", "agent:ken"] });
    assert_eq!(body_ok(&set), &expected);
    daemon.restart().unwrap();
    assert_eq!(body_ok(&get(&daemon, "/groups/reviewers").await), &expected);
    body_ok(&put(&daemon, "/groups/reviewers", &json!({ "members": [], "name": "reviewers" })).await);
    assert_eq!(get(&daemon, "/groups").await.body["groups"], json!([{ "name": "reviewers", "members": [] }]));

    for (body, pointer) in [
        (json!({ "members": ["agent:ken", "person:anna"] }), "/members/1"),
        (json!({ "members": ["agent:orchestrator"] }), "/members/0"),
        (json!({ "members": [], "name": "others" }), "/name"),
    ] {
        assert_eq!(assert_rejected(&put(&daemon, "/groups/reviewers", &body).await, 400, "INVALID_FIELD"), pointer);
    }
    for (name, body) in [
        ("workers", json!({ "members": [] })),
        ("group:x", json!({ "members": [] })),
        ("x", json!({})),
        ("x", json!({ "members": [], "colour": "red" })),
    ] {
        assert_rejected(&put(&daemon, &format!("/groups/{name}"), &body).await, 400, "INVALID");
    }
    assert_eq!(body_ok(&get(&daemon, "/groups/workers").await)["members"], json!([]));
    for (agent, role) in [("ken", "worker"), ("sam", "specialist")] {
        let announced = json!({ "id": agent, "tool": "custom", "role": role });
        assert!(daemon.post("/agents/announce", announced).await.unwrap().status.is_success());
    }
    assert_eq!(get(&daemon, "/groups/workers").await.body["members"], json!(["agent:ken"]));
    assert_eq!(get(&daemon, "/groups/specialists").await.body["members"], json!(["agent:sam"]));

    body_ok(&daemon.delete(&format!("{ROOT}/groups/reviewers")).await.unwrap());
    assert_rejected(&get(&daemon, "/groups/reviewers").await, 404, "GROUP_NOT_FOUND");
    assert_rejected(&daemon.delete(&format!("{ROOT}/groups/reviewers")).await.unwrap(), 404, "GROUP_NOT_FOUND");
    daemon.stop().unwrap();
    daemon.replay_verify().unwrap();
}

/// Schemas registered on one node are known on another node of the same store.
#[tokio::test]
async fn schema_registered_on_one_node_is_known_on_another() {
    if Engine::from_env().unwrap() != Engine::Postgres {
        return;
    }
    let first = start();
    let second = setup().store(first.store().unwrap()).start().unwrap();
    body_ok(&put(&first, "/schemas/own.thing.v1", &json!({ "required": ["x"] })).await);
    assert_eq!(body_ok(&get(&second, "/schemas/own.thing.v1").await)["required"], json!(["x"]));
    let rules = RULES.replace("research.summary.v1", "own.thing.v1");
    body_ok(&put_text(&second, "/step-contracts/product-research", "application/yaml", &rules).await);
    body_ok(&get(&first, "/step-contracts/product-research").await);
}

fn envelope(id: &str, kind: &str, from: &str, more: &Value) -> Value {
    let mut envelope = json!({
        "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11.123Z", "thread_id": "thr_1", "run_id": "run_1",
        "task_id": "task_1", "from": { "agent_id": from }, "to": [{ "agent_id": "agent:orchestrator" }], "type": kind,
        "payload": {},
    });
    for (field, value) in more.as_object().unwrap() {
        envelope[field] = value.clone();
    }
    envelope
}

async fn send(daemon: &Daemon, message: &Value) -> HttpReply {
    ask(daemon, Method::POST, "/messages", Some(message.clone())).await
}

async fn send_ok(daemon: &Daemon, message: &Value) {
    let reply = send(daemon, message).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
}

#[track_caller]
fn violation_pointers(reply: &HttpReply) -> Vec<&str> {
    assert_rejected(reply, 422, "SCHEMA_VIOLATION");
    let violations = reply.body["details"]["violations"].as_array().unwrap();
    violations.iter().map(|violation| violation["pointer"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn result_breaking_its_step_contract_is_rejected_until_corrected() {
    let daemon = start();
    body_ok(&put_text(&daemon, "/step-contracts/product-research", "application/yaml", RULES).await);
    let card = json!({ "v": "clutch/0.1", "agent_id": "agent:ken" });
    body_ok(&put(&daemon, "/agents/ken", &card).await);
    let meta = json!({ "workflow": "product-research", "step": "research" });
    let request = json!({ "meta": meta, "to": [{ "agent_id": "agent:ken" }], "payload": { "query": "who?" } });
    send_ok(&daemon, &envelope("req", "task.request", "ui", &request)).await;
    let accepted = eventually("ken gets the task", || async {
        let reply = send(&daemon, &envelope("acc", "task.accept", "ken", &json!({}))).await;
        Ok((reply.status == 202).then_some(()))
    });
    accepted.await.unwrap();
    send_ok(&daemon, &envelope("pro", "task.progress", "ken", &json!({ "payload": { "half": true } }))).await;

    let result = |id: &str, payload_type: Option<&str>, payload: Value| {
        envelope(id, "task.result", "ken", &json!({ "payload_type": payload_type, "payload": payload }))
    };
    let summary = Some("research.summary.v1");
    let before = count_rows(&daemon);
    for (id, payload_type, payload, pointers) in [
        ("r1", summary, json!({}), vec!["/payload/citations", "/payload/findings"]),
        ("r2", summary, json!({ "findings": "one", "citations": [] }), vec!["/payload/findings"]),
        ("r3", None, json!({ "findings": [], "citations": [] }), vec!["/payload_type"]),
        ("r4", Some("code.review.v1"), json!({ "findings": [] }), vec!["/payload/citations", "/payload_type"]),
    ] {
        assert_eq!(violation_pointers(&send(&daemon, &result(id, payload_type, payload)).await), pointers, "{id}");
    }
    let two =
        json!(
            [envelope("pro2", "task.progress", "ken", &json!({})), result("r5", summary, json!({ "findings": [] })),]
        );
    assert_eq!(violation_pointers(&send(&daemon, &two).await), ["/1/payload/citations"]);
    assert_eq!(count_rows(&daemon), before, "none of these is stored");
    let task = daemon.get("/tasks/task_1").await.unwrap().body;
    assert_eq!(task["state"], "in_progress", "the step stays open: {task}");

    let good = result("r1", summary, json!({ "findings": ["a"], "citations": [] }));
    send_ok(&daemon, &good).await;
    assert_eq!(daemon.get("/tasks/task_1").await.unwrap().body["state"], "completed");
    let again = send(&daemon, &good).await;
    assert_eq!(again.body["results"][0]["duplicate"], true, "{}", again.body);
}

#[tokio::test]
async fn step_contract_is_checked_on_every_surface() {
    let daemon = start();
    body_ok(&put_text(&daemon, "/step-contracts/product-research", "application/yaml", RULES).await);
    body_ok(&put(&daemon, "/agents/ken", &json!({ "v": "clutch/0.1", "agent_id": "agent:ken" })).await);
    let ken = Tools::connect(&daemon, "ken").await;
    let meta = json!({ "workflow": "product-research", "step": "research" });
    for task in ["t1", "t2"] {
        let about = json!({ "task_id": task, "meta": meta, "to": [{ "agent_id": "agent:ken" }] });
        send_ok(&daemon, &envelope(&format!("req-{task}"), "task.request", "ui", &about)).await;
        let begun = eventually("ken gets the task", || async {
            let begin = json!({ "status": "in_progress", "agent_id": "ken" });
            let reply = daemon.patch(&format!("/tasks/{task}"), begin).await?;
            Ok((reply.status == 200).then_some(()))
        });
        begun.await.unwrap();
    }
    let before = count_rows(&daemon);
    let (lacking, whole) = (json!({ "findings": [] }), json!({ "findings": [], "citations": ["x"] }));
    let rest = async |detail: &Value| {
        let done = json!({ "status": "done", "agent_id": "ken", "outcome": "done", "outcome_detail": detail });
        daemon.patch("/tasks/t1", done).await.unwrap()
    };
    let mcp = async |detail: &Value| {
        let done = json!({ "task_id": "t2", "status": "completed", "outcome": "done", "outcome_detail": detail });
        ken.attempt("task_update_status", done).await
    };
    for detail in [&Value::Null, &lacking] {
        let rejected = rest(detail).await;
        assert_eq!(
            (rejected.status.as_u16(), &rejected.body["code"]),
            (422, &json!("SCHEMA_VIOLATION")),
            "{}",
            rejected.body
        );
        assert!(
            rejected.body["error"].as_str().unwrap().contains("/outcome_detail/citations is required"),
            "{}",
            rejected.body
        );
        let rejected = mcp(detail).await.unwrap_err();
        assert!(rejected.contains("SCHEMA_VIOLATION") && rejected.contains("/outcome_detail/citations"), "{rejected}");
    }
    assert_eq!(count_rows(&daemon), before, "none of these is stored");
    assert_eq!(rest(&whole).await.status, 200);
    mcp(&whole).await.unwrap();
    for task in ["t1", "t2"] {
        assert_eq!(daemon.get(&format!("/tasks/{task}")).await.unwrap().body["state"], "completed");
    }
}

#[tokio::test]
async fn result_without_step_contract_is_not_checked() {
    let daemon = start();
    body_ok(&put(&daemon, "/agents/ken", &json!({ "v": "clutch/0.1", "agent_id": "agent:ken" })).await);
    for (task, meta) in [("t1", json!({})), ("t2", json!({ "workflow": "nothing", "step": "s" }))] {
        let about = json!({ "task_id": task, "meta": meta, "to": [{ "agent_id": "agent:ken" }] });
        send_ok(&daemon, &envelope(&format!("req-{task}"), "task.request", "ui", &about)).await;
        let done = eventually("ken gets the task and ends it", || async {
            let result = json!({ "task_id": task, "payload_type": "research.summary.v1", "payload": { "x": 1 } });
            let reply = send(&daemon, &envelope(&format!("res-{task}"), "task.result", "ken", &result)).await;
            Ok((reply.status == 202).then_some(()))
        });
        done.await.unwrap();
    }
}

#[tokio::test]
async fn message_to_a_group_reaches_its_members() {
    let daemon = start();
    for agent in ["ken", "ada", "bob"] {
        let card = json!({ "v": "clutch/0.1", "agent_id": format!("agent:{agent}") });
        body_ok(&put(&daemon, &format!("/agents/{agent}"), &card).await);
    }
    body_ok(&put(&daemon, "/groups/reviewers", &json!({ "members": ["ada", "bob", "ghost"] })).await);
    let to = json!({ "to": [{ "agent_id": "group:reviewers" }] });
    send_ok(&daemon, &envelope("m1", "x.news", "ken", &to)).await;
    let rows = daemon.export().unwrap();
    let received = rows.iter().find(|row| row["kind"] == "envelope.received").unwrap();
    assert_eq!(received["fact"]["delivered"], json!(["ada", "bob"]), "{received}");
    let unknown = json!({ "to": [{ "agent_id": "group:ghosts" }] });
    let reply = send(&daemon, &envelope("m2", "x.news", "ken", &unknown)).await;
    assert_eq!(assert_rejected(&reply, 400, "UNKNOWN_RECIPIENT"), "/to/0/agent_id");
}

#[expect(clippy::disallowed_methods, reason = "the test measures how long an answer takes")]
fn now() -> Instant {
    Instant::now()
}

/// Sends payloads as results of a step that expects a schema.
struct Step {
    daemon: Daemon,
    sent: usize,
}

impl Step {
    async fn expecting(schema: &Value) -> Step {
        let daemon = start();
        body_ok(&put(&daemon, "/schemas/hostile.tree.v1", schema).await);
        let expects = json!({ "type": "task.result", "payload_type": "hostile.tree.v1" });
        let rules = json!({ "workflow": "w", "steps": [{ "id": "s", "expects": expects }] });
        body_ok(&put(&daemon, "/step-contracts/w", &rules).await);
        body_ok(&put(&daemon, "/agents/ken", &json!({ "v": "clutch/0.1", "agent_id": "agent:ken" })).await);
        let meta = json!({ "workflow": "w", "step": "s" });
        let request = json!({ "meta": meta, "to": [{ "agent_id": "agent:ken" }], "payload": { "query": "who?" } });
        send_ok(&daemon, &envelope("req", "task.request", "ui", &request)).await;
        let accepted = eventually("ken gets the task", || async {
            let reply = send(&daemon, &envelope("acc", "task.accept", "ken", &json!({}))).await;
            Ok((reply.status == 202).then_some(()))
        });
        accepted.await.unwrap();
        Step { daemon, sent: 0 }
    }

    async fn send(&mut self, payload: &Value) -> (HttpReply, Duration) {
        self.sent += 1;
        let fields = json!({ "payload_type": "hostile.tree.v1", "payload": payload });
        let began = now();
        let reply = send(&self.daemon, &envelope(&format!("r{}", self.sent), "task.result", "ken", &fields)).await;
        (reply, began.elapsed())
    }

    /// The processor time, in clock ticks, and memory, in KiB, of the daemon and its child processes.
    fn usage(&self) -> (u64, u64) {
        let daemon = self.daemon.pid().unwrap();
        let is_ours =
            |pid: &u32| *pid == daemon || stat_field(*pid, 1).is_some_and(|parent| parent == u64::from(daemon));
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            entry.unwrap().file_name().to_str().and_then(|name| name.parse::<u32>().ok()).filter(is_ours)
        });
        processes.fold((0, 0), |(ticks, memory), pid| {
            let field = |index| stat_field(pid, index).unwrap_or_default();
            (ticks + field(11) + field(12), memory + field(21) * 4)
        })
    }
}

/// A field of `/proc/PID/stat`, counted from the process state.
fn stat_field(pid: u32, index: usize) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(index)?.parse().ok()
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
}

/// A schema for which explaining a mismatch doubles the work at every level.
fn branching() -> Value {
    let branch = |required: &str| json!({ "properties": { "a": { "$ref": "#" } }, "required": [required] });
    json!({ "anyOf": [branch("x"), branch("y")] })
}

#[tokio::test]
async fn schema_check_with_exponential_errors_stops_with_its_answer() {
    let mut step = Step::expecting(&branching()).await;
    for _ in 0..6 {
        let (reply, took) = step.send(&nested(40)).await;
        assert_eq!(violation_pointers(&reply), ["/payload"]);
        assert!(took < Duration::from_secs(8), "{took:?}");
    }
    let (before, _) = step.usage();
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let (after, memory) = step.usage();
    assert!(after < before + 50, "the checks still use the processor: {before} ticks, and {after} a second later");
    assert!(memory < 700 * 1024, "{memory} KiB are in use");
    let (reply, _) = step.send(&json!({ "x": 1, "a": { "y": 1 } })).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
}

#[tokio::test]
async fn schema_check_over_its_timeout_rejects_the_payload() {
    // Each level applies the previous one twice to every item.
    let mut defs = serde_json::Map::from_iter([("d0".to_owned(), json!({ "type": "null" }))]);
    for level in 1..=10 {
        let before = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
        defs.insert(format!("d{level}"), json!({ "anyOf": [before, before] }));
    }
    // A number matches only after all branches were tried.
    let item = json!({ "anyOf": [{ "$ref": "#/$defs/d10" }, { "type": "integer" }] });
    let mut step = Step::expecting(&json!({ "properties": { "list": { "items": item } }, "$defs": defs })).await;
    let (reply, took) = step.send(&json!({ "list": vec![1; 200_000] })).await;
    assert_eq!(violation_pointers(&reply), ["/payload"]);
    let violation = reply.body["details"]["violations"][0]["message"].as_str().unwrap();
    assert!(
        violation.contains("cannot be checked against the schema of hostile.tree.v1 within 5 seconds"),
        "{violation}"
    );
    assert!(took < Duration::from_secs(15), "{took:?}");
    let (reply, _) = step.send(&json!({ "list": [null] })).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
}

#[tokio::test]
async fn schema_with_costly_patterns_is_rejected_at_registration() {
    let daemon = start();
    let patterns: serde_json::Map<String, Value> =
        (0..1_200).map(|n| (format!("(x{n}[a-z\\pL]{{50}}){{9}}"), json!(true))).collect();
    let began = now();
    let reply = put(&daemon, "/schemas/hostile.patterns.v1", &json!({ "patternProperties": patterns })).await;
    assert_rejected(&reply, 400, "INVALID_SCHEMA");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    body_ok(&put(&daemon, "/schemas/fine.v1", &json!({ "type": "object" })).await);
}

#[tokio::test]
async fn schema_check_of_ordinary_payload_takes_milliseconds() {
    let schema = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" },
        "list": { "type": "array", "items": { "type": "string", "maxLength": 20 } } } });
    let mut step = Step::expecting(&schema).await;
    let wrong = json!({ "list": ["a", "b"] });
    let (_, first) = step.send(&wrong).await;
    let mut rest = Duration::ZERO;
    for _ in 0..20 {
        let (reply, took) = step.send(&wrong).await;
        assert_eq!(violation_pointers(&reply), ["/payload/n"]);
        rest += took;
    }
    assert!(rest / 20 < Duration::from_millis(500), "the first took {first:?}, twenty more {rest:?}");
}
