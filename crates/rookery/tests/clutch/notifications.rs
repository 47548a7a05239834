//! Notifications: state changes of tasks without a message are sent to the agents concerned.

use std::fs;

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Reaction};
use crate::inbox::{ack, ids, inbox, to};
use crate::sending::{envelope, send_ok, setup, team};
use crate::support::{ask_ok, rest};
use crate::team::{Tools, follow, ok, pages, rookery};

async fn register_by_card(daemon: &Daemon, id: &str) {
    let card = json!({"v": "clutch/0.1", "agent_id": id, "capabilities": [{"id": format!("skill:{id}")}]});
    ask_ok(daemon, Method::PUT, &format!("/agents/{id}"), Some(card)).await;
}

/// Posts a REST request as the lead.
async fn post_as_lead(daemon: &Daemon, path: &str, body: Value) {
    let reply = read(daemon.request(Method::POST, path).header("x-agent-id", "lead").json(&body)).await.unwrap();
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
}

async fn set_task_status(daemon: &Daemon, task: &str, status: &str, agent: &str) {
    let change = json!({"status": status, "agent_id": agent});
    let reply = daemon.patch(&format!("/tasks/{task}"), change).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// A request for a task that only one agent fits.
fn request(task: &str, asker: &str, skill: &str) -> Value {
    let mut request = envelope(&format!("req_{task}"), "task.request", asker, json!({"task_id": task}));
    request["requires"] = json!([format!("skill:{skill}")]);
    request
}

/// Waits for a message of a type about a task in an agent's inbox.
async fn wait_for_message(daemon: &Daemon, agent: &str, task: &str, kind: &str) -> Value {
    let find = || async {
        let page = inbox(daemon, agent, "").await;
        let mut messages = page["messages"].as_array().unwrap().iter().map(|placed| &placed["message"]);
        Ok(messages.find(|message| message["task_id"] == task && message["type"] == kind).cloned())
    };
    wait::eventually(&format!("{kind} about {task} for {agent}"), find).await.unwrap()
}

#[tokio::test]
async fn requester_is_notified_of_the_end_by_any_surface() {
    let mut daemon = team(&["lead", "plain"]).await;
    for agent in ["ui", "ken"] {
        register_by_card(&daemon, agent).await;
    }
    send_ok(&daemon, &request("t", "ui", "ken")).await;
    wait_for_message(&daemon, "ken", "t", "task.request").await;
    set_task_status(&daemon, "t", "in_progress", "ken").await;
    let accept = wait_for_message(&daemon, "ui", "t", "task.accept").await;
    assert_eq!((&accept["from"]["agent_id"], &accept["to"]), (&json!("agent:ken"), &to(&["agent:ui"])));
    assert_eq!(ack(&daemon, "ui", &[accept["id"].as_str().unwrap()]).await.status, 200);
    set_task_status(&daemon, "t", "done", "ken").await;
    let result = wait_for_message(&daemon, "ui", "t", "task.result").await;
    assert_eq!((&result["from"]["agent_id"], &result["to"]), (&json!("agent:ken"), &to(&["agent:ui"])));
    assert_eq!((&result["run_id"], &result["thread_id"]), (&json!("run_work"), &json!("thr_talk")));
    let id = result["id"].as_str().unwrap();
    assert_eq!(ok(&daemon, &format!("/messages/{id}")).await, result, "the log shows the same message");
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0], "an agent gets no notification of its own action");

    // The notification waits until acknowledged, even across a daemon crash.
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    assert_eq!(wait_for_message(&daemon, "ui", "t", "task.result").await["id"], id);
    assert_eq!(ack(&daemon, "ui", &[id]).await.status, 200);
    assert_eq!(ids(&inbox(&daemon, "ui", "").await), [""; 0]);

    // The task is completed over MCP, by an agent without a card.
    send_ok(&daemon, &request("u", "ui", "nobody")).await;
    post_as_lead(&daemon, "/tasks/u/assign", json!({"agent_id": "plain"})).await;
    let plain = Tools::connect(&daemon, "plain").await;
    plain.call("task_claim", json!({"task_id": "u"})).await;
    plain.call("task_update_status", json!({"task_id": "u", "status": "in_progress"})).await;
    let failed = json!({"task_id": "u", "status": "failed", "error": "no browser"});
    plain.call("task_update_status", failed).await;
    let error = wait_for_message(&daemon, "ui", "u", "task.error").await;
    assert_eq!((&error["payload"]["message"], &error["payload"]["retryable"]), (&json!("no browser"), &json!(false)));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn thread_stream_shows_task_events_of_other_surfaces() {
    let daemon = team(&["lead", "plain"]).await;
    let mut stream = follow(&daemon, "?thread_id=thr_talk").await;
    send_ok(&daemon, &request("t", "stranger", "nobody")).await;
    post_as_lead(&daemon, "/tasks/t/assign", json!({"agent_id": "plain"})).await;
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
async fn holder_is_notified_of_a_cancelled_task_and_its_subtasks() {
    let daemon = team(&["lead"]).await;
    let endpoint = Endpoint::start(Reaction::Answer(200)).await;
    endpoint.register_for(&daemon, "ada", json!({"capabilities": [{"id": "skill:ada"}]})).await;
    for agent in ["ui", "ken"] {
        register_by_card(&daemon, agent).await;
    }
    send_ok(&daemon, &request("whole", "ui", "ken")).await;
    wait_for_message(&daemon, "ken", "whole", "task.request").await;
    send_ok(&daemon, &envelope("acc", "task.accept", "ken", json!({"task_id": "whole"}))).await;
    let mut part = request("part", "ken", "ada");
    part["parent_task_id"] = json!("whole");
    send_ok(&daemon, &part).await;
    assert_eq!(endpoint.wait_for(1).await[0].body["type"], "task.request");
    post_as_lead(&daemon, "/tasks/whole/cancel", json!({"reason": "of no use"})).await;
    for agent in ["ui", "ken"] {
        let cancel = wait_for_message(&daemon, agent, "whole", "task.cancel").await;
        assert_eq!(
            (&cancel["from"]["agent_id"], &cancel["payload"]["reason"]),
            (&json!("agent:lead"), &json!("of no use"))
        );
        assert_eq!(cancel["to"], to(&["agent:ui", "agent:ken"]));
    }
    // Ken requested the subtask, and ada held it.
    wait_for_message(&daemon, "ken", "part", "task.cancel").await;
    let posted = &endpoint.wait_for(2).await[1];
    assert_eq!((&posted.body["type"], &posted.body["task_id"]), (&json!("task.cancel"), &json!("part")));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn handoff_and_its_answer_are_notified_to_the_other_side() {
    let daemon = team(&["lead", "plain"]).await;
    let endpoint = Endpoint::start(Reaction::Answer(200)).await;
    endpoint.register_for(&daemon, "ada", json!({})).await;
    register_by_card(&daemon, "ken").await;
    let mut task_request = request("t", "ui", "ken");
    task_request["trace"] = json!({"trace_id": "tr_1", "span_id": "sp_1"});
    send_ok(&daemon, &task_request).await;
    wait_for_message(&daemon, "ken", "t", "task.request").await;
    set_task_status(&daemon, "t", "in_progress", "ken").await;
    let offer =
        |to: &str| json!({"from_agent": "ken", "to_agent": to, "task_id": "t", "summary": "half of it is done"});
    let offered = daemon.post("/handoffs", offer("ada")).await.unwrap();
    assert_eq!(offered.status, 201, "{}", offered.body);
    let posted = endpoint.wait_for(1).await.remove(0).body;
    assert_eq!((&posted["type"], &posted["to"]), (&json!("x.handoff.initiated"), &to(&["agent:ada"])));
    assert_eq!(
        (&posted["payload"]["handoff"], &posted["payload"]["summary"]),
        (&offered.body["id"], &json!("half of it is done"))
    );
    let place = (&posted["run_id"], &posted["thread_id"], &posted["trace"]);
    assert_eq!(place, (&json!("run_work"), &json!("thr_talk"), &task_request["trace"]));
    let metadata = &rest(&daemon, "/events?action=handoff.initiated").await[0]["metadata"];
    assert!(metadata["summary"].is_string() && metadata.get("told").is_none(), "{metadata}");
    let id = offered.body["id"].as_str().unwrap();
    let rejected = json!({"agent_id": "ada", "reason": "busy"});
    assert_eq!(daemon.patch(&format!("/handoffs/{id}/reject"), rejected).await.unwrap().status, 200);
    assert_eq!(wait_for_message(&daemon, "ken", "t", "x.handoff.rejected").await["payload"]["reason"], "busy");
    // An agent of another surface finds its handoffs there, not in this inbox.
    let offered = daemon.post("/handoffs", offer("plain")).await.unwrap();
    let id = offered.body["id"].as_str().unwrap();
    assert_eq!(ids(&inbox(&daemon, "plain", "").await), [""; 0]);
    daemon.patch(&format!("/handoffs/{id}/reject"), json!({"agent_id": "plain", "reason": "no"})).await.unwrap();
    // All messages of the daemon about the task carry its trace.
    post_as_lead(&daemon, "/tasks/t/cancel", json!({})).await;
    assert_eq!(wait_for_message(&daemon, "ken", "t", "task.cancel").await["trace"], task_request["trace"]);
    for kind in ["routing.decision", "x.task.claimed", "task.accept"] {
        let shown = &ok(&daemon, &format!("/messages?task_id=t&type={kind}")).await["messages"][0]["message"];
        assert_eq!(shown["trace"], task_request["trace"], "{kind}: {shown}");
    }
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn assigned_task_arrives_as_request_and_is_superseded_on_reassignment() {
    let daemon = team(&["lead", "plain"]).await;
    for agent in ["ken", "ada"] {
        register_by_card(&daemon, agent).await;
    }
    let body = json!({"title": "Look", "description": "at the log", "assigned_by": "lead", "assigned_to": "ken"});
    let created = daemon.post("/tasks", body).await.unwrap();
    let task = created.body["id"].as_str().unwrap();
    let request = wait_for_message(&daemon, "ken", task, "task.request").await;
    assert_eq!(request["payload"], json!({"title": "Look", "description": "at the log"}));
    assert_eq!(request["from"]["agent_id"], "agent:orchestrator");
    post_as_lead(&daemon, &format!("/tasks/{task}/assign"), json!({"agent_id": "ada"})).await;
    wait_for_message(&daemon, "ada", task, "task.request").await;
    let lost = wait_for_message(&daemon, "ken", task, "x.task.released").await;
    assert_eq!(lost["payload"]["because"], "reassigned");
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [lost["id"].as_str().unwrap()], "the request is void");
    let superseded = ok(&daemon, "/deliveries?state=superseded").await;
    let one = &superseded["deliveries"][0];
    assert_eq!((&one["message_id"], &one["agent_id"]), (&request["id"], &json!("agent:ken")));
    assert!(one["superseded_at"].is_string(), "{one}");
    let (code, shown, error) = rookery(daemon.root(), daemon.store(), &["deliveries", "--state", "superseded"]);
    assert!(code == 0 && shown.contains("superseded"), "{shown}{error}");

    // An agent of another surface finds its task there, and its inbox stays empty.
    post_as_lead(&daemon, &format!("/tasks/{task}/assign"), json!({"agent_id": "plain"})).await;
    wait_for_message(&daemon, "ada", task, "x.task.released").await;
    set_task_status(&daemon, task, "in_progress", "plain").await;
    post_as_lead(&daemon, &format!("/tasks/{task}/cancel"), json!({})).await;
    assert_eq!(ids(&inbox(&daemon, "plain", "").await), [""; 0]);
    daemon.replay_verify().unwrap();
}

/// A daemon with a large and a small message to ken.
async fn two_messages() -> Daemon {
    let daemon = setup().store("sqlite:.rookery/rookery.db").start().unwrap();
    for agent in ["ken", "ada"] {
        register_by_card(&daemon, agent).await;
    }
    let large = json!({"to": to(&["ken"]), "payload": {"text": "x".repeat(100_000)}});
    send_ok(&daemon, &envelope("large", "x.note", "ada", large)).await;
    send_ok(&daemon, &envelope("small", "x.note", "ada", json!({"to": to(&["ken"]), "payload": {"n": 1}}))).await;
    daemon
}

/// Overwrites every artifact file.
fn damage_artifacts(daemon: &Daemon) {
    for file in fs::read_dir(daemon.root().join(".rookery/artifacts")).unwrap() {
        fs::write(file.unwrap().path(), "something else").unwrap();
    }
}

#[tokio::test]
async fn damaged_message_is_listed_and_streamed_without_its_payload() {
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
    // A GET of the message itself reports the damage.
    let one = daemon.get("/clutch/v0/messages/large").await.unwrap();
    assert_eq!((one.status.as_u16(), &one.body["code"]), (500, &json!("ARTIFACT_DAMAGED")), "{}", one.body);
}

#[tokio::test]
async fn damaged_message_does_not_block_the_inbox() {
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
    let rejected = ack(&daemon, "ken", &many).await;
    assert_eq!((rejected.status.as_u16(), &rejected.body["code"]), (400, &json!("TOO_LARGE")), "{}", rejected.body);
}
