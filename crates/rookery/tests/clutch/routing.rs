//! The router: gives requests to fitting agents, explains its choice, and waits if none fits.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::sending::{envelope, event_kinds, post_rejected, rejection, rejection_of, rows, send_ok, setup, team};
use crate::team::Tools;

/// Registers an agent by a card with these fields.
async fn register_by_card(daemon: &Daemon, id: &str, more: Value) {
    let mut card = json!({"v": "clutch/0.1", "agent_id": id});
    for (field, value) in more.as_object().unwrap() {
        card[field] = value.clone();
    }
    send_ok(daemon, &envelope(&format!("reg_{id}"), "agent.register", id, json!({"payload": card}))).await;
}

fn skilled(skill: &str) -> Value {
    json!({"capabilities": [{"id": skill, "version": "1.2.0"}]})
}

fn request(task: &str, more: Value) -> Value {
    let mut request = envelope(&format!("req_{task}"), "task.request", "ui", more);
    request["task_id"] = json!(task);
    request
}

/// Waits for the first event of a kind about a task.
async fn wait_for_row(daemon: &Daemon, kind: &str, task: &str) -> Value {
    let find = || rows(daemon).into_iter().find(|row| row["kind"] == kind && row["fact"]["task"] == task);
    let found = wait::eventually(&format!("{kind} of {task}"), || async { Ok(find()) }).await;
    found.unwrap_or_else(|error| panic!("{error}: {:?}", event_kinds(daemon)))
}

async fn message_of_row(daemon: &Daemon, row: &Value) -> Value {
    let seq = rookery_core::Seq(row["seq"].as_u64().unwrap());
    let id = rookery_core::kernel::event_id::of(seq);
    daemon.get(&format!("/clutch/v0/messages/{id}")).await.unwrap().body
}

#[tokio::test]
async fn request_is_routed_to_a_fitting_agent_with_its_reasons() {
    let daemon = team(&["lead"]).await;
    register_by_card(&daemon, "ken", skilled("skill:research")).await;
    register_by_card(&daemon, "old", json!({"capabilities": [{"id": "skill:research", "version": "0.9"}]})).await;
    let asked =
        json!({"payload": {"query": "Who sells it?"}, "requires": ["skill:research@^1.0"], "domain": "research"});
    send_ok(&daemon, &request("t", asked)).await;
    let decided = wait_for_row(&daemon, "routing.decided", "t").await;
    assert_eq!((&decided["run"], &decided["thread"]), (&json!("run_work"), &json!("thr_talk")));
    let decision = message_of_row(&daemon, &decided).await;
    assert_eq!(decision["type"], "routing.decision");
    assert_eq!((&decision["from"]["agent_id"], &decision["task_id"]), (&json!("agent:orchestrator"), &json!("t")));
    let payload = &decision["payload"];
    assert_eq!((&payload["selected"], &payload["candidates"]), (&json!("agent:ken"), &json!(["agent:ken"])));
    assert!(payload["scores"]["agent:ken"].is_number() && payload["reason"].is_string(), "{payload}");
    assert_eq!(payload["rejected"]["agent:lead"], "lacks skill:research@^1.0");
    assert!(payload["rejected"]["agent:old"].as_str().unwrap().contains("version"), "{payload}");

    let forwarded = wait_for_row(&daemon, "task.forwarded", "t").await;
    let id = forwarded["fact"]["message"].as_str().unwrap();
    let passed_on = daemon.get(&format!("/clutch/v0/messages/{id}")).await.unwrap().body;
    assert_eq!((&passed_on["type"], &passed_on["id"]), (&json!("task.request"), &json!(id)));
    assert_eq!(passed_on["from"], json!({"agent_id": "agent:orchestrator"}));
    assert_eq!(passed_on["to"], json!([{"agent_id": "agent:ken"}]));
    assert_eq!((&passed_on["payload"], &passed_on["run_id"]), (&json!({"query": "Who sells it?"}), &json!("run_work")));
    assert_eq!(passed_on["requires"], json!(["skill:research@^1.0"]));

    let task = daemon.get("/tasks/t").await.unwrap().body;
    assert_eq!((&task["status"], &task["assigned_to"]), (&json!("assigned"), &json!("ken")));
    let mut accept = envelope("acc", "task.accept", "old", json!({"task_id": "t"}));
    assert_eq!(post_rejected(&daemon, &accept).await, rejection_of(409, "RESERVED_FOR_OTHER", "/from/agent_id"));
    accept["from"] = json!({"agent_id": "agent:ken"});
    send_ok(&daemon, &accept).await;
    send_ok(&daemon, &envelope("res", "task.result", "ken", json!({"task_id": "t", "payload": {"title": "done"}})))
        .await;
    assert_eq!(daemon.get("/tasks/t").await.unwrap().body["status"], "done");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn unroutable_request_is_routed_when_a_fitting_agent_joins() {
    let mut daemon = team(&["lead"]).await;
    send_ok(&daemon, &request("t", json!({"requires": ["skill:law"]}))).await;
    let failed = wait_for_row(&daemon, "routing.failed", "t").await;
    let failure = message_of_row(&daemon, &failed).await;
    assert_eq!(failure["type"], "routing.failure");
    assert_eq!(failure["payload"]["rejected"]["agent:lead"], "lacks skill:law");
    // An unfitting agent joins and the daemon restarts: the failure is not reported again, and the task is not
    // forgotten.
    register_by_card(&daemon, "cook", skilled("skill:cooking")).await;
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    register_by_card(&daemon, "ken", skilled("skill:law")).await;
    let reserved = wait_for_row(&daemon, "task.reserved", "t").await;
    assert_eq!(reserved["fact"]["agent"], "ken");
    assert_eq!(event_kinds(&daemon).iter().filter(|kind| *kind == "routing.failed").count(), 1);
}

#[tokio::test]
async fn busy_agent_gets_the_next_task_when_free() {
    let daemon = team(&["lead"]).await;
    let mut ken = skilled("skill:law");
    ken["limits"] = json!({"max_concurrency": 1});
    register_by_card(&daemon, "ken", ken).await;
    let law = json!({"requires": ["skill:law"]});
    let both = json!([request("t1", law.clone()), request("t2", law)]);
    assert_eq!(daemon.post("/clutch/v0/messages", both).await.unwrap().status, 202);
    assert_eq!(wait_for_row(&daemon, "task.reserved", "t1").await["fact"]["agent"], "ken");
    let failure = message_of_row(&daemon, &wait_for_row(&daemon, "routing.failed", "t2").await).await;
    assert_eq!(failure["payload"]["rejected"]["agent:ken"], "has 1 of 1 tasks");
    send_ok(&daemon, &envelope("res", "task.result", "ken", json!({"task_id": "t1"}))).await;
    assert_eq!(wait_for_row(&daemon, "task.reserved", "t2").await["fact"]["agent"], "ken");
}

#[tokio::test]
async fn request_to_an_agent_or_group_is_routed_only_to_it() {
    let daemon = team(&["lead", "ada", "ben"]).await;
    let to = |name: &str| json!({"to": [{"agent_id": name}]});
    send_ok(&daemon, &request("t1", to("agent:ada"))).await;
    let decided = message_of_row(&daemon, &wait_for_row(&daemon, "routing.decided", "t1").await).await;
    assert_eq!((&decided["payload"]["selected"], &decided["payload"]["rejected"]), (&json!("agent:ada"), &json!({})));
    let mut sandboxed = to("agent:ada");
    sandboxed["security"] = json!({"policy": {"sandbox": true}});
    send_ok(&daemon, &request("t2", sandboxed)).await;
    let failure = message_of_row(&daemon, &wait_for_row(&daemon, "routing.failed", "t2").await).await;
    assert_eq!(
        failure["payload"]["rejected"],
        json!({"agent:ada": "is not sandboxed"}),
        "hard filters hold for it too"
    );
    send_ok(&daemon, &request("t3", to("group:specialists"))).await;
    wait_for_row(&daemon, "routing.failed", "t3").await;
    daemon.post("/agents/announce", json!({"id": "spec", "tool": "test", "role": "specialist"})).await.unwrap();
    assert_eq!(wait_for_row(&daemon, "task.reserved", "t3").await["fact"]["agent"], "spec");
}

#[tokio::test]
async fn tasks_are_spread_over_equal_agents() {
    let daemon = team(&["lead"]).await;
    for agent in ["a", "b", "c"] {
        register_by_card(&daemon, agent, skilled("skill:law")).await;
    }
    let tasks: Vec<Value> = (0..9).map(|n| request(&format!("t{n}"), json!({"requires": ["skill:law"]}))).collect();
    assert_eq!(daemon.post("/clutch/v0/messages", json!(tasks)).await.unwrap().status, 202);
    wait_for_row(&daemon, "task.reserved", "t8").await;
    let log = rows(&daemon);
    for agent in ["a", "b", "c"] {
        let given = log.iter().filter(|row| row["kind"] == "task.reserved" && row["fact"]["agent"] == agent).count();
        assert_eq!(given, 3, "{agent}");
    }
}

#[tokio::test]
async fn route_explain_lists_every_agent_and_stores_nothing() {
    let daemon = setup().start().unwrap();
    for agent in 0..25 {
        register_by_card(&daemon, &format!("a{agent}"), skilled("skill:cooking")).await;
    }
    register_by_card(&daemon, "ken", skilled("skill:law")).await;
    let before = event_kinds(&daemon);
    let explain = async |draft: Value| {
        read(daemon.request(Method::POST, "/clutch/v0/router/explain").json(&draft)).await.unwrap()
    };
    let reply = explain(json!({"requires": ["skill:law"]})).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.body["selected"], "agent:ken");
    assert_eq!(reply.body["rejected"].as_object().unwrap().len(), 25, "all of them by name");
    let none_fits = explain(request("t", json!({"requires": ["skill:magic"]}))).await;
    assert_eq!((none_fits.status.as_u16(), none_fits.body.get("selected")), (200, None));
    assert_eq!(
        rejection(&explain(json!({"requires": "skill:law"})).await),
        rejection_of(400, "WRONG_TYPE", "/requires")
    );
    assert_eq!(rejection(&explain(json!({"type": "task.result"})).await), rejection_of(400, "INVALID_FIELD", "/type"));
    assert_eq!(event_kinds(&daemon), before);
    let to = |group: &str| json!({"to": [{"agent_id": "agent:orchestrator"}, {"agent_id": group}]});
    assert_eq!(rejection(&explain(to("group:cooks")).await), rejection_of(400, "UNKNOWN_RECIPIENT", "/to/1/agent_id"));
    let list = daemon.request(Method::PUT, "/clutch/v0/groups/cooks").json(&json!({"members": ["a3", "ghost"]}));
    assert_eq!(read(list).await.unwrap().status, 200);
    let cooks = explain(to("group:cooks")).await;
    assert_eq!((&cooks.body["selected"], &cooks.body["candidates"]), (&json!("agent:a3"), &json!(["agent:a3"])));
    assert_eq!(cooks.body["rejected"].as_object().unwrap().len(), 1, "only members are considered");
    let workers = explain(to("group:workers")).await;
    assert_eq!(workers.body["eligible"], 26, "{}", workers.body);
}

/// Policies of a request, and the reasons for which other agents are rejected.
#[tokio::test]
async fn request_policies_exclude_agents() {
    let daemon = team(&["lead"]).await;
    register_by_card(&daemon, "box", json!({"security": {"sandbox": true, "network": "none"}})).await;
    let trusted = json!([{"id": "skill:ship", "tools": ["mcp:deploy"], "trust_level": "prod"}]);
    register_by_card(&daemon, "net", json!({"security": {"network": "egress-allowed"}, "capabilities": trusted})).await;
    for (task, policy, chosen, rejected) in [
        ("t1", json!({"sandbox": true}), "box", ["agent:lead", "agent:net"]),
        ("t2", json!({"network": "egress-allowed"}), "net", ["agent:lead", "agent:box"]),
        ("t3", json!({"trust_level": "prod"}), "net", ["agent:lead", "agent:box"]),
    ] {
        send_ok(&daemon, &request(task, json!({"security": {"policy": policy}}))).await;
        assert_eq!(wait_for_row(&daemon, "task.reserved", task).await["fact"]["agent"], chosen, "{task}");
        let decided = message_of_row(&daemon, &wait_for_row(&daemon, "routing.decided", task).await).await;
        for agent in rejected {
            assert!(decided["payload"]["rejected"][agent].is_string(), "{task}: {}", decided["payload"]);
        }
    }
    let strict = json!({"security": {"policy": {"sandbox": true, "network": "egress-allowed"}}});
    send_ok(&daemon, &request("t4", strict)).await;
    let failed = message_of_row(&daemon, &wait_for_row(&daemon, "routing.failed", "t4").await).await;
    assert_eq!(failed["payload"]["rejected"].as_object().unwrap().len(), 3, "{}", failed["payload"]);
    register_by_card(&daemon, "both", json!({"security": {"sandbox": true, "network": "egress-allowed"}})).await;
    assert_eq!(wait_for_row(&daemon, "task.reserved", "t4").await["fact"]["agent"], "both");
    // A required tool outside of the request's own allowlist makes the task unroutable.
    let tools = json!({"requires": ["tool:deploy"], "security": {"policy": {"tool_allowlist": ["mcp:files"]}}});
    send_ok(&daemon, &request("t5", tools)).await;
    wait_for_row(&daemon, "routing.failed", "t5").await;
    send_ok(&daemon, &request("t6", json!({"requires": ["tool:deploy"]}))).await;
    assert_eq!(wait_for_row(&daemon, "task.reserved", "t6").await["fact"]["agent"], "net");
}

/// Assigns a task as a person.
async fn assign_as_person(daemon: &Daemon, task: &str, agent: &str) {
    let request = daemon.request(Method::POST, &format!("/tasks/{task}/assign"));
    let reply =
        read(request.bearer_auth(daemon.person_key().unwrap()).json(&json!({"agent_id": agent}))).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[tokio::test]
async fn excluded_agent_cannot_claim_the_task_by_any_surface() {
    let daemon = team(&["lead", "ken"]).await;
    send_ok(&daemon, &request("t", json!({"security": {"policy": {"sandbox": true}}}))).await;
    wait_for_row(&daemon, "routing.failed", "t").await;
    let rest = daemon.patch("/tasks/t", json!({"status": "in_progress", "agent_id": "ken"})).await.unwrap();
    assert_eq!((rest.status.as_u16(), &rest.body["code"]), (409, &json!("NOT_ELIGIBLE")));
    assert_eq!(rest.body["error"], "task t is not for ken: it is not sandboxed");
    assert!(rest.body["hint"].as_str().unwrap().contains("have the lead or a person assign it"), "{}", rest.body);
    let accept = envelope("acc", "task.accept", "ken", json!({"task_id": "t"}));
    assert_eq!(post_rejected(&daemon, &accept).await, rejection_of(409, "NOT_ELIGIBLE", "/from/agent_id"));
    let ken = Tools::connect(&daemon, "ken").await;
    let error = ken.attempt("task_claim", json!({"task_id": "t"})).await.unwrap_err();
    assert!(error.contains("NOT_ELIGIBLE") && error.contains("is not sandboxed"), "{error}");
    assert_eq!(daemon.get("/tasks/t").await.unwrap().body["assigned_to"], Value::Null);
    assign_as_person(&daemon, "t", "ken").await;
    send_ok(&daemon, &accept).await;
    assert_eq!(daemon.get("/tasks/t").await.unwrap().body["status"], "in_progress");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn request_to_two_groups_reaches_both() {
    let daemon = team(&["lead", "ada"]).await;
    let list = daemon.request(Method::PUT, "/clutch/v0/groups/cooks").json(&json!({"members": ["ada"]}));
    assert_eq!(read(list).await.unwrap().status, 200);
    let to = json!([{"agent_id": "group:specialists"}, {"agent_id": "group:cooks"}]);
    send_ok(&daemon, &request("t", json!({"to": to}))).await;
    assert_eq!(wait_for_row(&daemon, "task.reserved", "t").await["fact"]["agent"], "ada");
}

#[tokio::test]
async fn assigned_task_is_rerouted_after_the_accept_timeout() {
    let daemon = setup().env("ROOKERY_ACCEPT_TIMEOUT", "200ms").start().unwrap();
    for agent in ["lead", "ken"] {
        register_by_card(&daemon, agent, json!({})).await;
    }
    send_ok(&daemon, &request("t", json!({"requires": ["skill:law"]}))).await;
    wait_for_row(&daemon, "routing.failed", "t").await;
    assign_as_person(&daemon, "t", "ken").await;
    let released = wait_for_row(&daemon, "task.released", "t").await;
    assert_eq!(
        (&released["fact"]["because"], &released["fact"]["reserved_for"]),
        (&json!("not_accepted"), &json!("ken"))
    );
    register_by_card(&daemon, "ada", skilled("skill:law")).await;
    let given = |row: &Value| row["kind"] == "routing.decided" && row["fact"]["choice"]["selected"] == "ada";
    let found = || async { Ok(rows(&daemon).into_iter().find(|row| given(row))) };
    wait::eventually("ada to be asked", found).await.unwrap();
}
