//! The router: it gives what is asked for to whoever fits, tells why, and waits for somebody if nobody does.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::sending::{envelope, expected, kinds, refused, rows, sent, setup, team, told};
use crate::team::Tools;

/// Registers an agent by a card with these fields.
async fn joins(daemon: &Daemon, id: &str, more: Value) {
    let mut card = json!({"v": "clutch/0.1", "agent_id": id});
    for (field, value) in more.as_object().unwrap() {
        card[field] = value.clone();
    }
    sent(daemon, &envelope(&format!("reg_{id}"), "agent.register", id, json!({"payload": card}))).await;
}

fn skilled(skill: &str) -> Value {
    json!({"capabilities": [{"id": skill, "version": "1.2.0"}]})
}

fn request(task: &str, more: Value) -> Value {
    let mut request = envelope(&format!("req_{task}"), "task.request", "ui", more);
    request["task_id"] = json!(task);
    request
}

/// The first fact of a kind about a task, once there is one.
async fn told_of(daemon: &Daemon, kind: &str, task: &str) -> Value {
    let find = || rows(daemon).into_iter().find(|row| row["kind"] == kind && row["fact"]["task"] == task);
    let found = wait::eventually(&format!("{kind} of {task}"), || async { Ok(find()) }).await;
    found.unwrap_or_else(|error| panic!("{error}: {:?}", kinds(daemon)))
}

async fn shown(daemon: &Daemon, row: &Value) -> Value {
    let seq = rookery_core::Seq(row["seq"].as_u64().unwrap());
    let id = rookery_core::kernel::event_id::of(seq).replacen("evt_", "msg_", 1);
    daemon.get(&format!("/clutch/v0/messages/{id}")).await.unwrap().body
}

#[tokio::test]
async fn a_request_goes_to_whoever_fits_and_the_log_says_why() {
    let daemon = team(&["lead"]).await;
    joins(&daemon, "ken", skilled("skill:research")).await;
    joins(&daemon, "old", json!({"capabilities": [{"id": "skill:research", "version": "0.9"}]})).await;
    let asked =
        json!({"payload": {"query": "Who sells it?"}, "requires": ["skill:research@^1.0"], "domain": "research"});
    sent(&daemon, &request("t", asked)).await;
    let decided = told_of(&daemon, "routing.decided", "t").await;
    assert_eq!((&decided["run"], &decided["thread"]), (&json!("run_work"), &json!("thr_talk")));
    let decision = shown(&daemon, &decided).await;
    assert_eq!(decision["type"], "routing.decision");
    assert_eq!((&decision["from"]["agent_id"], &decision["task_id"]), (&json!("agent:orchestrator"), &json!("t")));
    let payload = &decision["payload"];
    assert_eq!((&payload["selected"], &payload["candidates"]), (&json!("agent:ken"), &json!(["agent:ken"])));
    assert!(payload["scores"]["agent:ken"].is_number() && payload["reason"].is_string(), "{payload}");
    assert_eq!(payload["rejected"]["agent:lead"], "lacks skill:research@^1.0");
    assert!(payload["rejected"]["agent:old"].as_str().unwrap().contains("version"), "{payload}");

    let forwarded = told_of(&daemon, "task.forwarded", "t").await;
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
    assert_eq!(refused(&daemon, &accept).await, expected(409, "RESERVED_FOR_OTHER", "/from/agent_id"));
    accept["from"] = json!({"agent_id": "agent:ken"});
    sent(&daemon, &accept).await;
    sent(&daemon, &envelope("res", "task.result", "ken", json!({"task_id": "t", "payload": {"title": "done"}}))).await;
    assert_eq!(daemon.get("/tasks/t").await.unwrap().body["status"], "done");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn what_nobody_fits_for_waits_and_is_routed_when_somebody_does() {
    let mut daemon = team(&["lead"]).await;
    sent(&daemon, &request("t", json!({"requires": ["skill:law"]}))).await;
    let failed = told_of(&daemon, "routing.failed", "t").await;
    let failure = shown(&daemon, &failed).await;
    assert_eq!(failure["type"], "routing.failure");
    assert_eq!(failure["payload"]["rejected"]["agent:lead"], "lacks skill:law");
    // Others come, and one goes down in between: nothing is told again, and nothing is forgotten.
    joins(&daemon, "cook", skilled("skill:cooking")).await;
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    joins(&daemon, "ken", skilled("skill:law")).await;
    let reserved = told_of(&daemon, "task.reserved", "t").await;
    assert_eq!(reserved["fact"]["agent"], "ken");
    assert_eq!(kinds(&daemon).iter().filter(|kind| *kind == "routing.failed").count(), 1);
}

#[tokio::test]
async fn who_has_enough_gets_the_next_when_it_is_free() {
    let daemon = team(&["lead"]).await;
    let mut ken = skilled("skill:law");
    ken["limits"] = json!({"max_concurrency": 1});
    joins(&daemon, "ken", ken).await;
    let law = json!({"requires": ["skill:law"]});
    let both = json!([request("t1", law.clone()), request("t2", law)]);
    assert_eq!(daemon.post("/clutch/v0/messages", both).await.unwrap().status, 202);
    assert_eq!(told_of(&daemon, "task.reserved", "t1").await["fact"]["agent"], "ken");
    let failure = shown(&daemon, &told_of(&daemon, "routing.failed", "t2").await).await;
    assert_eq!(failure["payload"]["rejected"]["agent:ken"], "has 1 of 1 tasks");
    sent(&daemon, &envelope("res", "task.result", "ken", json!({"task_id": "t1"}))).await;
    assert_eq!(told_of(&daemon, "task.reserved", "t2").await["fact"]["agent"], "ken");
}

#[tokio::test]
async fn a_request_by_name_or_to_a_group_goes_to_no_one_else() {
    let daemon = team(&["lead", "ada", "ben"]).await;
    let to = |name: &str| json!({"to": [{"agent_id": name}]});
    sent(&daemon, &request("t1", to("agent:ada"))).await;
    let decided = shown(&daemon, &told_of(&daemon, "routing.decided", "t1").await).await;
    assert_eq!((&decided["payload"]["selected"], &decided["payload"]["rejected"]), (&json!("agent:ada"), &json!({})));
    let mut sandboxed = to("agent:ada");
    sandboxed["security"] = json!({"policy": {"sandbox": true}});
    sent(&daemon, &request("t2", sandboxed)).await;
    let failure = shown(&daemon, &told_of(&daemon, "routing.failed", "t2").await).await;
    assert_eq!(
        failure["payload"]["rejected"],
        json!({"agent:ada": "is not sandboxed"}),
        "hard filters hold for it too"
    );
    sent(&daemon, &request("t3", to("group:specialists"))).await;
    told_of(&daemon, "routing.failed", "t3").await;
    daemon.post("/agents/announce", json!({"id": "spec", "tool": "test", "role": "specialist"})).await.unwrap();
    assert_eq!(told_of(&daemon, "task.reserved", "t3").await["fact"]["agent"], "spec");
}

#[tokio::test]
async fn work_is_spread_among_equals() {
    let daemon = team(&["lead"]).await;
    for agent in ["a", "b", "c"] {
        joins(&daemon, agent, skilled("skill:law")).await;
    }
    let tasks: Vec<Value> = (0..9).map(|n| request(&format!("t{n}"), json!({"requires": ["skill:law"]}))).collect();
    assert_eq!(daemon.post("/clutch/v0/messages", json!(tasks)).await.unwrap().status, 202);
    told_of(&daemon, "task.reserved", "t8").await;
    let log = rows(&daemon);
    for agent in ["a", "b", "c"] {
        let given = log.iter().filter(|row| row["kind"] == "task.reserved" && row["fact"]["agent"] == agent).count();
        assert_eq!(given, 3, "{agent}");
    }
}

#[tokio::test]
async fn a_dry_run_names_everybody_and_stores_nothing() {
    let daemon = setup().start().unwrap();
    for agent in 0..25 {
        joins(&daemon, &format!("a{agent}"), skilled("skill:cooking")).await;
    }
    joins(&daemon, "ken", skilled("skill:law")).await;
    let before = kinds(&daemon);
    let explain = async |draft: Value| {
        read(daemon.request(Method::POST, "/clutch/v0/router/explain").json(&draft)).await.unwrap()
    };
    let reply = explain(json!({"requires": ["skill:law"]})).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.body["selected"], "agent:ken");
    assert_eq!(reply.body["rejected"].as_object().unwrap().len(), 25, "all of them by name");
    let nobody = explain(request("t", json!({"requires": ["skill:magic"]}))).await;
    assert_eq!((nobody.status.as_u16(), nobody.body.get("selected")), (200, None));
    assert_eq!(told(&explain(json!({"requires": "skill:law"})).await), expected(400, "WRONG_TYPE", "/requires"));
    assert_eq!(told(&explain(json!({"type": "task.result"})).await), expected(400, "INVALID_FIELD", "/type"));
    assert_eq!(kinds(&daemon), before);
    let to = |group: &str| json!({"to": [{"agent_id": "agent:orchestrator"}, {"agent_id": group}]});
    assert_eq!(told(&explain(to("group:cooks")).await), expected(400, "UNKNOWN_RECIPIENT", "/to/1/agent_id"));
    let list = daemon.request(Method::PUT, "/clutch/v0/groups/cooks").json(&json!({"members": ["a3", "ghost"]}));
    assert_eq!(read(list).await.unwrap().status, 200);
    let cooks = explain(to("group:cooks")).await;
    assert_eq!((&cooks.body["selected"], &cooks.body["candidates"]), (&json!("agent:a3"), &json!(["agent:a3"])));
    assert_eq!(cooks.body["rejected"].as_object().unwrap().len(), 1, "only who is on the list is looked at");
    let workers = explain(to("group:workers")).await;
    assert_eq!(workers.body["eligible"], 26, "{}", workers.body);
}

/// What a policy demands of whoever does the task, and why each other agent does not get it.
#[tokio::test]
async fn policies_of_a_request_are_hard_limits() {
    let daemon = team(&["lead"]).await;
    joins(&daemon, "box", json!({"security": {"sandbox": true, "network": "none"}})).await;
    let trusted = json!([{"id": "skill:ship", "tools": ["mcp:deploy"], "trust_level": "prod"}]);
    joins(&daemon, "net", json!({"security": {"network": "egress-allowed"}, "capabilities": trusted})).await;
    for (task, policy, chosen, rejected) in [
        ("t1", json!({"sandbox": true}), "box", ["agent:lead", "agent:net"]),
        ("t2", json!({"network": "egress-allowed"}), "net", ["agent:lead", "agent:box"]),
        ("t3", json!({"trust_level": "prod"}), "net", ["agent:lead", "agent:box"]),
    ] {
        sent(&daemon, &request(task, json!({"security": {"policy": policy}}))).await;
        assert_eq!(told_of(&daemon, "task.reserved", task).await["fact"]["agent"], chosen, "{task}");
        let decided = shown(&daemon, &told_of(&daemon, "routing.decided", task).await).await;
        for agent in rejected {
            assert!(decided["payload"]["rejected"][agent].is_string(), "{task}: {}", decided["payload"]);
        }
    }
    let nobody = json!({"security": {"policy": {"sandbox": true, "network": "egress-allowed"}}});
    sent(&daemon, &request("t4", nobody)).await;
    let failed = shown(&daemon, &told_of(&daemon, "routing.failed", "t4").await).await;
    assert_eq!(failed["payload"]["rejected"].as_object().unwrap().len(), 3, "{}", failed["payload"]);
    joins(&daemon, "both", json!({"security": {"sandbox": true, "network": "egress-allowed"}})).await;
    assert_eq!(told_of(&daemon, "task.reserved", "t4").await["fact"]["agent"], "both");
    // A tool outside of the request's own allowlist is given to nobody, whoever offers it.
    let tools = json!({"requires": ["tool:deploy"], "security": {"policy": {"tool_allowlist": ["mcp:files"]}}});
    sent(&daemon, &request("t5", tools)).await;
    told_of(&daemon, "routing.failed", "t5").await;
    sent(&daemon, &request("t6", json!({"requires": ["tool:deploy"]}))).await;
    assert_eq!(told_of(&daemon, "task.reserved", "t6").await["fact"]["agent"], "net");
}

/// Assigns a task as a person does.
async fn assigns(daemon: &Daemon, task: &str, agent: &str) {
    let request = daemon.request(Method::POST, &format!("/tasks/{task}/assign"));
    let reply =
        read(request.bearer_auth(daemon.person_key().unwrap()).json(&json!({"agent_id": agent}))).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[tokio::test]
async fn whom_a_request_excludes_takes_its_task_by_no_face() {
    let daemon = team(&["lead", "ken"]).await;
    sent(&daemon, &request("t", json!({"security": {"policy": {"sandbox": true}}}))).await;
    told_of(&daemon, "routing.failed", "t").await;
    let rest = daemon.patch("/tasks/t", json!({"status": "in_progress", "agent_id": "ken"})).await.unwrap();
    assert_eq!((rest.status.as_u16(), &rest.body["code"]), (409, &json!("NOT_ELIGIBLE")));
    assert_eq!(rest.body["error"], "task t is not for ken: it is not sandboxed");
    assert!(rest.body["hint"].as_str().unwrap().contains("have the lead or a person assign it"), "{}", rest.body);
    let accept = envelope("acc", "task.accept", "ken", json!({"task_id": "t"}));
    assert_eq!(refused(&daemon, &accept).await, expected(409, "NOT_ELIGIBLE", "/from/agent_id"));
    let ken = Tools::connect(&daemon, "ken").await;
    let told = ken.attempt("task_claim", json!({"task_id": "t"})).await.unwrap_err();
    assert!(told.contains("NOT_ELIGIBLE") && told.contains("is not sandboxed"), "{told}");
    assert_eq!(daemon.get("/tasks/t").await.unwrap().body["assigned_to"], Value::Null);
    assigns(&daemon, "t", "ken").await;
    sent(&daemon, &accept).await;
    assert_eq!(daemon.get("/tasks/t").await.unwrap().body["status"], "in_progress");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn a_request_to_two_groups_is_to_both() {
    let daemon = team(&["lead", "ada"]).await;
    let list = daemon.request(Method::PUT, "/clutch/v0/groups/cooks").json(&json!({"members": ["ada"]}));
    assert_eq!(read(list).await.unwrap().status, 200);
    let to = json!([{"agent_id": "group:specialists"}, {"agent_id": "group:cooks"}]);
    sent(&daemon, &request("t", json!({"to": to}))).await;
    assert_eq!(told_of(&daemon, "task.reserved", "t").await["fact"]["agent"], "ada");
}

#[tokio::test]
async fn a_task_that_is_assigned_and_not_taken_goes_to_somebody_who_fits() {
    let daemon = setup().env("ROOKERY_ACCEPT_TIMEOUT", "200ms").start().unwrap();
    for agent in ["lead", "ken"] {
        joins(&daemon, agent, json!({})).await;
    }
    sent(&daemon, &request("t", json!({"requires": ["skill:law"]}))).await;
    told_of(&daemon, "routing.failed", "t").await;
    assigns(&daemon, "t", "ken").await;
    let released = told_of(&daemon, "task.released", "t").await;
    assert_eq!(
        (&released["fact"]["because"], &released["fact"]["reserved_for"]),
        (&json!("not_accepted"), &json!("ken"))
    );
    joins(&daemon, "ada", skilled("skill:law")).await;
    let given = |row: &Value| row["kind"] == "routing.decided" && row["fact"]["choice"]["selected"] == "ada";
    let found = || async { Ok(rows(&daemon).into_iter().find(|row| given(row))) };
    wait::eventually("ada to be asked", found).await.unwrap();
}
