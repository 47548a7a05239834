//! What happens to a task without a message is told to whom it concerns, as a message.

use std::fs;

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Manner};
use crate::inbox::{ack, ids, inbox, to};
use crate::sending::{envelope, sent, setup, team};
use crate::support::{asked, rest};
use crate::team::{Tools, follow, ok, pages, rookery};

async fn joins(daemon: &Daemon, id: &str) {
    let card = json!({"v": "clutch/0.1", "agent_id": id, "capabilities": [{"id": format!("skill:{id}")}]});
    asked(daemon, Method::PUT, &format!("/agents/{id}"), Some(card)).await;
}

/// A call of REST by the lead.
async fn leads(daemon: &Daemon, path: &str, body: Value) {
    let reply = read(daemon.request(Method::POST, path).header("x-agent-id", "lead").json(&body)).await.unwrap();
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
}

async fn moves(daemon: &Daemon, task: &str, status: &str, agent: &str) {
    let change = json!({"status": status, "agent_id": agent});
    let reply = daemon.patch(&format!("/tasks/{task}"), change).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// Asks for a task that only one agent fits for.
fn request(task: &str, asker: &str, who: &str) -> Value {
    let mut request = envelope(&format!("req_{task}"), "task.request", asker, json!({"task_id": task}));
    request["requires"] = json!([format!("skill:{who}")]);
    request
}

/// What waits for an agent about a task, once there is something of a type.
async fn waits(daemon: &Daemon, agent: &str, task: &str, kind: &str) -> Value {
    let find = || async {
        let page = inbox(daemon, agent, "").await;
        let mut messages = page["messages"].as_array().unwrap().iter().map(|placed| &placed["message"]);
        Ok(messages.find(|message| message["task_id"] == task && message["type"] == kind).cloned())
    };
    wait::eventually(&format!("{kind} about {task} for {agent}"), find).await.unwrap()
}

#[tokio::test]
async fn whoever_asked_hears_of_the_end_whichever_face_it_comes_by() {
    let mut daemon = team(&["lead", "plain"]).await;
    for agent in ["ui", "ken"] {
        joins(&daemon, agent).await;
    }
    sent(&daemon, &request("t", "ui", "ken")).await;
    waits(&daemon, "ken", "t", "task.request").await;
    moves(&daemon, "t", "in_progress", "ken").await;
    let accept = waits(&daemon, "ui", "t", "task.accept").await;
    assert_eq!((&accept["from"]["agent_id"], &accept["to"]), (&json!("agent:ken"), &to(&["agent:ui"])));
    assert_eq!(ack(&daemon, "ui", &[accept["id"].as_str().unwrap()]).await.status, 200);
    moves(&daemon, "t", "done", "ken").await;
    let result = waits(&daemon, "ui", "t", "task.result").await;
    assert_eq!((&result["from"]["agent_id"], &result["to"]), (&json!("agent:ken"), &to(&["agent:ui"])));
    assert_eq!((&result["run_id"], &result["thread_id"]), (&json!("run_work"), &json!("thr_talk")));
    let id = result["id"].as_str().unwrap();
    assert_eq!(ok(&daemon, &format!("/messages/{id}")).await, result, "it is what the log shows");
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0], "nobody is told what it did");

    // It waits until it is acknowledged, also if the daemon dies meanwhile.
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    assert_eq!(waits(&daemon, "ui", "t", "task.result").await["id"], id);
    assert_eq!(ack(&daemon, "ui", &[id]).await.status, 200);
    assert_eq!(ids(&inbox(&daemon, "ui", "").await), [""; 0]);

    // By MCP, of an agent that does not speak this protocol.
    sent(&daemon, &request("u", "ui", "nobody")).await;
    leads(&daemon, "/tasks/u/assign", json!({"agent_id": "plain"})).await;
    let plain = Tools::connect(&daemon, "plain").await;
    plain.call("task_claim", json!({"task_id": "u"})).await;
    plain.call("task_update_status", json!({"task_id": "u", "status": "in_progress"})).await;
    let failed = json!({"task_id": "u", "status": "failed", "error": "no browser"});
    plain.call("task_update_status", failed).await;
    let error = waits(&daemon, "ui", "u", "task.error").await;
    assert_eq!((&error["payload"]["message"], &error["payload"]["retryable"]), (&json!("no browser"), &json!(false)));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn whoever_follows_a_thread_sees_what_other_faces_make_of_it() {
    let daemon = team(&["lead", "plain"]).await;
    let mut stream = follow(&daemon, "?thread_id=thr_talk").await;
    sent(&daemon, &request("t", "stranger", "nobody")).await;
    leads(&daemon, "/tasks/t/assign", json!({"agent_id": "plain"})).await;
    let plain = Tools::connect(&daemon, "plain").await;
    plain.call("task_claim", json!({"task_id": "t"})).await;
    plain.call("task_update_status", json!({"task_id": "t", "status": "in_progress"})).await;
    plain.call("task_update_status", json!({"task_id": "t", "status": "completed", "outcome": "done"})).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "task.result") {
        seen.push(stream.next().await.unwrap().message_type().to_owned());
    }
    for kind in ["task.request", "x.task.claimed", "task.accept", "task.result"] {
        assert!(seen.iter().any(|seen| seen == kind), "{kind}: {seen:?}");
    }
}

#[tokio::test]
async fn whoever_has_a_task_hears_that_it_is_cancelled_with_all_that_is_part_of_it() {
    let daemon = team(&["lead"]).await;
    let endpoint = Endpoint::start(Manner::Answer(200)).await;
    endpoint.is_of(&daemon, "ada", json!({"capabilities": [{"id": "skill:ada"}]})).await;
    for agent in ["ui", "ken"] {
        joins(&daemon, agent).await;
    }
    sent(&daemon, &request("whole", "ui", "ken")).await;
    waits(&daemon, "ken", "whole", "task.request").await;
    sent(&daemon, &envelope("acc", "task.accept", "ken", json!({"task_id": "whole"}))).await;
    let mut part = request("part", "ken", "ada");
    part["parent_task_id"] = json!("whole");
    sent(&daemon, &part).await;
    assert_eq!(endpoint.has(1).await[0].body["type"], "task.request");
    leads(&daemon, "/tasks/whole/cancel", json!({"reason": "of no use"})).await;
    for agent in ["ui", "ken"] {
        let cancel = waits(&daemon, agent, "whole", "task.cancel").await;
        assert_eq!(
            (&cancel["from"]["agent_id"], &cancel["payload"]["reason"]),
            (&json!("agent:lead"), &json!("of no use"))
        );
        assert_eq!(cancel["to"], to(&["agent:ui", "agent:ken"]));
    }
    // Ken asked for the part, and ada had it.
    waits(&daemon, "ken", "part", "task.cancel").await;
    let posted = &endpoint.has(2).await[1];
    assert_eq!((&posted.body["type"], &posted.body["task_id"]), (&json!("task.cancel"), &json!("part")));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn a_handoff_is_told_to_the_colleague_and_its_answer_to_whoever_offered_it() {
    let daemon = team(&["lead", "plain"]).await;
    let endpoint = Endpoint::start(Manner::Answer(200)).await;
    endpoint.is_of(&daemon, "ada", json!({})).await;
    joins(&daemon, "ken").await;
    let mut asked = request("t", "ui", "ken");
    asked["trace"] = json!({"trace_id": "tr_1", "span_id": "sp_1"});
    sent(&daemon, &asked).await;
    waits(&daemon, "ken", "t", "task.request").await;
    moves(&daemon, "t", "in_progress", "ken").await;
    let offer =
        |to: &str| json!({"from_agent": "ken", "to_agent": to, "task_id": "t", "summary": "half of it is done"});
    let offered = daemon.post("/handoffs", offer("ada")).await.unwrap();
    assert_eq!(offered.status, 201, "{}", offered.body);
    let posted = endpoint.has(1).await.remove(0).body;
    assert_eq!((&posted["type"], &posted["to"]), (&json!("x.handoff.initiated"), &to(&["agent:ada"])));
    assert_eq!(
        (&posted["payload"]["handoff"], &posted["payload"]["summary"]),
        (&offered.body["id"], &json!("half of it is done"))
    );
    let place = (&posted["run_id"], &posted["thread_id"], &posted["trace"]);
    assert_eq!(place, (&json!("run_work"), &json!("thr_talk"), &asked["trace"]));
    let told = &rest(&daemon, "/events?action=handoff.initiated").await[0]["metadata"];
    assert!(told["summary"].is_string() && told.get("told").is_none(), "{told}");
    let id = offered.body["id"].as_str().unwrap();
    let rejected = json!({"agent_id": "ada", "reason": "busy"});
    assert_eq!(daemon.patch(&format!("/handoffs/{id}/reject"), rejected).await.unwrap().status, 200);
    assert_eq!(waits(&daemon, "ken", "t", "x.handoff.rejected").await["payload"]["reason"], "busy");
    // Who joined by another face finds its handoffs there.
    let offered = daemon.post("/handoffs", offer("plain")).await.unwrap();
    let id = offered.body["id"].as_str().unwrap();
    assert_eq!(ids(&inbox(&daemon, "plain", "").await), [""; 0]);
    daemon.patch(&format!("/handoffs/{id}/reject"), json!({"agent_id": "plain", "reason": "no"})).await.unwrap();
    // Whatever the daemon tells of the task belongs to its trace.
    leads(&daemon, "/tasks/t/cancel", json!({})).await;
    assert_eq!(waits(&daemon, "ken", "t", "task.cancel").await["trace"], asked["trace"]);
    for kind in ["routing.decision", "x.task.claimed", "task.accept"] {
        let shown = &ok(&daemon, &format!("/messages?task_id=t&type={kind}")).await["messages"][0]["message"];
        assert_eq!(shown["trace"], asked["trace"], "{kind}: {shown}");
    }
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn work_that_a_person_gives_arrives_as_a_request_and_is_void_when_it_goes_elsewhere() {
    let daemon = team(&["lead", "plain"]).await;
    for agent in ["ken", "ada"] {
        joins(&daemon, agent).await;
    }
    let body = json!({"title": "Look", "description": "at the log", "assigned_by": "lead", "assigned_to": "ken"});
    let created = daemon.post("/tasks", body).await.unwrap();
    let task = created.body["id"].as_str().unwrap();
    let request = waits(&daemon, "ken", task, "task.request").await;
    assert_eq!(request["payload"], json!({"title": "Look", "description": "at the log"}));
    assert_eq!(request["from"]["agent_id"], "agent:orchestrator");
    leads(&daemon, &format!("/tasks/{task}/assign"), json!({"agent_id": "ada"})).await;
    waits(&daemon, "ada", task, "task.request").await;
    let lost = waits(&daemon, "ken", task, "x.task.released").await;
    assert_eq!(lost["payload"]["because"], "reassigned");
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [lost["id"].as_str().unwrap()], "the request is void");
    let passed_on = ok(&daemon, "/deliveries?state=passed_on").await;
    let one = &passed_on["deliveries"][0];
    assert_eq!((&one["message_id"], &one["agent_id"]), (&request["id"], &json!("agent:ken")));
    assert!(one["passed_on_at"].is_string(), "{one}");
    let (code, shown, error) = rookery(daemon.root(), daemon.store(), &["deliveries", "--state", "passed_on"]);
    assert!(code == 0 && shown.contains("passed_on"), "{shown}{error}");

    // An agent of another face finds its work there, and nothing piles up for it.
    leads(&daemon, &format!("/tasks/{task}/assign"), json!({"agent_id": "plain"})).await;
    waits(&daemon, "ada", task, "x.task.released").await;
    moves(&daemon, task, "in_progress", "plain").await;
    leads(&daemon, &format!("/tasks/{task}/cancel"), json!({})).await;
    assert_eq!(ids(&inbox(&daemon, "plain", "").await), [""; 0]);
    daemon.replay_verify().unwrap();
}

/// A large message and a small one, both to ken.
async fn two_messages() -> Daemon {
    let daemon = setup().store("sqlite:.rookery/rookery.db").start().unwrap();
    for agent in ["ken", "ada"] {
        joins(&daemon, agent).await;
    }
    let large = json!({"to": to(&["ken"]), "payload": {"text": "x".repeat(100_000)}});
    sent(&daemon, &envelope("large", "x.note", "ada", large)).await;
    sent(&daemon, &envelope("small", "x.note", "ada", json!({"to": to(&["ken"]), "payload": {"n": 1}}))).await;
    daemon
}

/// Every file of an artifact is something else from here on.
fn damage_artifacts(daemon: &Daemon) {
    for file in fs::read_dir(daemon.root().join(".rookery/artifacts")).unwrap() {
        fs::write(file.unwrap().path(), "something else").unwrap();
    }
}

#[tokio::test]
async fn what_is_damaged_is_listed_and_followed_without_its_words() {
    let daemon = two_messages().await;
    damage_artifacts(&daemon);
    let notes = "?type=x.note";
    let (listed, _) = pages(&daemon, &format!("/messages{notes}&limit=1000")).await;
    let [large, small] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((&large.message["id"], &large.message["payload"]), (&json!("large"), &json!({})));
    assert!(large.message["meta"]["body_unreadable"].as_str().unwrap().contains("damaged"), "{}", large.message);
    assert_eq!(small.message["payload"], json!({"n": 1}));
    for query in ["?after=0&type=x.note", "?after=0&type=x.note&batch=0"] {
        assert_eq!(follow(&daemon, query).await.take(2).await.unwrap(), listed, "{query}");
    }
    let (all, _) = pages(&daemon, "/messages?limit=1000").await;
    assert_eq!(follow(&daemon, "?after=0").await.take(all.len()).await.unwrap(), all);
    assert!(all.contains(large) && all.contains(small));
    // The message itself is asked for in vain, and told so.
    let one = daemon.get("/clutch/v0/messages/large").await.unwrap();
    assert_eq!((one.status.as_u16(), &one.body["code"]), (500, &json!("ARTIFACT_DAMAGED")), "{}", one.body);
}

#[tokio::test]
async fn a_message_whose_body_is_damaged_holds_up_no_other() {
    let daemon = two_messages().await;
    assert_eq!(
        inbox(&daemon, "ken", "").await["messages"][0]["message"]["payload"]["text"].as_str().unwrap().len(),
        100_000
    );
    damage_artifacts(&daemon);
    let page = inbox(&daemon, "ken", "").await;
    assert_eq!(ids(&page), ["large", "small"]);
    let header = &page["messages"][0]["message"];
    assert_eq!((&header["type"], &header["from"]["agent_id"]), (&json!("x.note"), &json!("agent:ada")));
    assert_eq!(header["payload"], json!({}));
    assert!(header["meta"]["body_unreadable"].as_str().unwrap().contains("damaged"), "{header}");
    assert_eq!(page["messages"][1]["message"]["payload"], json!({"n": 1}));
    assert_eq!(ack(&daemon, "ken", &["large", "small"]).await.status, 200);
    let many = vec!["small"; 1_001];
    let refused = ack(&daemon, "ken", &many).await;
    assert_eq!((refused.status.as_u16(), &refused.body["code"]), (400, &json!("TOO_LARGE")), "{}", refused.body);
}
