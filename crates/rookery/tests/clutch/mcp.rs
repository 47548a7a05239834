//! Agents that speak MCP among those that speak Clutch: they find what they are given, read what they are sent, and
//! acknowledge what they were shown.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::inbox::{ids, inbox, to};
use crate::sending::{envelope, rows, sent, setup, team};
use crate::team::{Tools, announce, ok};

/// An agent that joins over MCP with what it can do.
async fn joins(daemon: &Daemon, id: &str, capabilities: &[&str]) -> Tools {
    let tools = Tools::connect(daemon, id).await;
    let joined = json!({"name": id, "runtime": "custom", "capabilities": capabilities});
    assert_eq!(tools.call("agent_register", joined).await["id"], id);
    tools
}

fn asks(task: &str, more: &Value) -> Value {
    let mut request = envelope(&format!("req_{task}"), "task.request", "ui", more.clone());
    request["task_id"] = json!(task);
    request
}

/// The messages of an inbox by their ids, which are shown by this.
async fn shown(tools: &Tools) -> Vec<String> {
    let checked = tools.call("inbox_check", json!({})).await;
    let entries = checked["messages"].as_array().unwrap().iter();
    entries.map(|message| message["entry"]["id"].as_str().unwrap().to_owned()).collect()
}

/// How many facts acknowledge a message.
fn acks(daemon: &Daemon, id: &str) -> usize {
    let acked = rows(daemon).into_iter().filter(|row| row["kind"] == "message.acked");
    acked.filter(|row| row["fact"]["messages"].as_array().is_some_and(|all| all.contains(&json!(id)))).count()
}

#[tokio::test]
async fn a_task_that_the_router_gives_to_it_is_found_claimed_and_done() {
    let daemon = team(&["lead", "ui"]).await;
    let (ken, other) = (joins(&daemon, "ken", &["law"]).await, joins(&daemon, "other", &["cooking"]).await);
    let (run, _) = ken.plan(json!([{"name": "free", "description": "for anybody"}])).await;
    let payload = json!({"query": "May we sell it?", "where": {"country": "NO"}});
    let request = asks("t", &json!({"requires": ["skill:law"], "payload": payload}));
    let asking = async { sent(&daemon, &request).await };
    let waiting = ken.call("inbox_wait", json!({"timeout_seconds": 60}));
    let (waited, _) = wait::within("the task", async { tokio::join!(waiting, asking) }).await.unwrap();
    let message = &waited["messages"][0];
    let about = &message["envelope"];
    assert_eq!(
        (&message["entry"]["from"], &about["type"]),
        (&json!("orchestrator"), &json!("task.request")),
        "{waited}"
    );
    assert_eq!((&about["task_id"], &about["run_id"]), (&json!("t"), &json!("run_work")));
    assert_eq!((&about["asked_by"], &about["title"]), (&json!("ui"), &json!("May we sell it?")));
    assert!(about["next"].as_str().unwrap().contains("task_claim"), "{about}");
    assert!(about["accept_within_seconds"].as_u64().unwrap() <= 30, "{about}");
    let words: Value = serde_json::from_str(message["entry"]["message"].as_str().unwrap()).unwrap();
    assert_eq!(words, payload, "all that was asked");

    // It goes before what anybody can take, in a list of its run and of all; nobody else finds it.
    let next = ken.call("workflow_next_tasks", json!({})).await;
    let found = next["tasks"].as_array().unwrap();
    assert_eq!((found.len(), &found[0]["id"], &found[0]["reserved_for_you"]), (2, &json!("t"), &json!(true)), "{next}");
    assert!(found[0]["accept_within_seconds"].is_u64() && found[1].get("reserved_for_you").is_none(), "{next}");
    assert!(next["notes"][0].as_str().unwrap().contains("Task t is given to you"), "{next}");
    let within = ken.call("workflow_next_tasks", json!({"workflow_id": "run_work"})).await;
    assert_eq!(within["tasks"][0]["id"], "t");
    assert_eq!(ken.call("workflow_next_tasks", json!({"workflow_id": run})).await["tasks"][0]["name"], "free");
    let others = other.call("workflow_next_tasks", json!({})).await;
    assert_eq!((others["tasks"].as_array().unwrap().len(), others.get("notes")), (1, None), "{others}");

    let claimed = ken.call("task_claim", json!({"task_id": "t"})).await;
    assert_eq!((&claimed["success"], &claimed["request"]["asked_by"]), (&json!(true), &json!("ui")), "{claimed}");
    assert_eq!(claimed["request"]["message"], message["entry"]["message"], "whoever takes it is shown the request");
    assert_eq!(ken.call("task_claim", json!({"task_id": "t"})).await, claimed, "and again");
    assert_eq!(acks(&daemon, message["entry"]["id"].as_str().unwrap()), 1, "which is done with by that");
    assert_eq!(ken.call("inbox_check", json!({})).await, json!({"messages": []}));
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0]);

    ken.call("checkpoint_add", json!({"task_id": "t", "type": "progress", "summary": "read the law"})).await;
    ken.call("task_update_status", json!({"id": "t", "status": "completed", "outcome": "We may."})).await;
    let results = ok(&daemon, "/messages?type=task.result&task_id=t").await;
    let result = &results["messages"][0]["message"];
    assert_eq!(
        (&result["from"]["agent_id"], &result["run_id"]),
        (&json!("agent:ken"), &json!("run_work")),
        "{results}"
    );
    assert!(result["payload"].to_string().contains("We may."), "{result}");
    assert_eq!(daemon.get("/tasks/t").await.unwrap().body["status"], "done");
    assert!(
        ids(&inbox(&daemon, "ui", "").await).contains(&result["id"].as_str().unwrap().to_owned()),
        "who asked is told"
    );
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn one_that_does_not_want_a_task_gives_it_back_and_is_told_of_it_no_more() {
    let daemon = team(&["lead", "ui"]).await;
    let ken = joins(&daemon, "ken", &["law"]).await;
    sent(&daemon, &asks("t", &json!({"requires": ["skill:law"], "payload": {"query": "?"}}))).await;
    let given = wait::eventually("the task", || async { Ok(shown(&ken).await.pop()) }).await.unwrap();
    let declined = json!({"id": "t", "status": "pending", "reason": "no time"});
    ken.call("task_update_status", declined).await;
    let next = ken.call("workflow_next_tasks", json!({"workflow_id": "run_work"})).await;
    assert!(next.get("notes").is_none() && next["tasks"][0].get("reserved_for_you").is_none(), "{next}");
    assert_eq!(shown(&ken).await, [""; 0], "the request has left the inbox: {given}");
}

#[tokio::test]
async fn whatever_else_is_sent_to_it_is_shown_until_it_is_acknowledged_once() {
    let mut daemon = team(&["lead"]).await;
    let ken = joins(&daemon, "ken", &[]).await;
    let note =
        |id: &str, payload: Value| envelope(id, "x.note", "lead", json!({"to": to(&["ken"]), "payload": payload}));
    let sending = async { sent(&daemon, &note("n1", json!({"n": 1.5}))).await };
    let waiting = ken.call("inbox_wait", json!({"timeout_seconds": 60}));
    let (waited, _) = wait::within("a note", async { tokio::join!(waiting, sending) }).await.unwrap();
    let message = &waited["messages"][0];
    assert_eq!((&message["entry"]["id"], &message["entry"]["from"]), (&json!("n1"), &json!("lead")), "{waited}");
    assert_eq!(
        (&message["envelope"]["type"], &message["entry"]["message"]),
        (&json!("x.note"), &json!(r#"{"n":1.5}"#))
    );
    assert!(waited.get("notes").is_none(), "what was shown is not unread: {waited}");

    // A call of a tool that is not there is answered at once; nothing of it is acknowledged before it was shown.
    let call = json!({"to": to(&["mcp:browser"]), "payload": {"tool": "mcp:browser"}});
    sent(&daemon, &envelope("c1", "tool.call", "ken", call)).await;
    let unread = ken.call("workflow_next_tasks", json!({})).await;
    assert!(unread["notes"][0].as_str().unwrap().contains("1 unread message"), "{unread}");
    let acked = ken.call("inbox_ack", json!({"until": "2100-01-01"})).await;
    assert_eq!((&acked["acknowledged"], &acked["remaining"]), (&json!(["n1"]), &json!(1)), "only what was shown");
    let checked = ken.call("inbox_check", json!({})).await;
    let error = &checked["messages"][0];
    assert_eq!(checked["messages"].as_array().unwrap().len(), 1);
    assert_eq!((&error["envelope"]["type"], &error["envelope"]["in_reply_to"]), (&json!("tool.error"), &json!("c1")));
    assert!(error["entry"]["message"].as_str().unwrap().contains("TOOL_UNAVAILABLE"), "{error}");

    // Something large: its beginning, and where the whole of it is.
    let long = "long ".repeat(20_000);
    sent(&daemon, &note("n2", json!({"text": long}))).await;
    let checked = ken.call("inbox_check", json!({})).await;
    let large = &checked["messages"][1];
    assert!(large["entry"]["message"].as_str().unwrap().chars().count() <= 8_001);
    assert_eq!(large["envelope"]["full_message_uri"], "rookery://messages/n2");
    let whole: Value = serde_json::from_str(&ken.read("rookery://messages/n2").await.unwrap()).unwrap();
    assert_eq!(whole["payload"]["text"], long);
    let lead = Tools::connect(&daemon, "lead").await;
    assert!(lead.read("rookery://messages/n2").await.is_err(), "it is not to lead");

    // What was shown and not acknowledged is there after the daemon died, and can be acknowledged then.
    let error = error["entry"]["id"].as_str().unwrap().to_owned();
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let ken = Tools::connect(&daemon, "ken").await;
    let acked = ken.call("inbox_ack", json!({"until": error})).await;
    assert_eq!((&acked["acknowledged"], &acked["remaining"]), (&json!([error.clone()]), &json!(1)));
    assert_eq!(shown(&ken).await, ["n2"]);
    assert_eq!(ken.call("inbox_ack", json!({"until": error})).await["acknowledged"], json!([]), "again covers nothing");
    ken.call("inbox_ack", json!({"until": "n2"})).await;
    for id in ["n1", error.as_str(), "n2"] {
        assert_eq!(acks(&daemon, id), 1, "{id}");
    }
    assert_eq!((shown(&ken).await, ids(&inbox(&daemon, "ken", "").await)), (vec![], vec![]));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn whoever_asked_over_mcp_reads_what_became_of_it() {
    let daemon = setup().start().unwrap();
    announce(&daemon, "lead").await;
    let (ui, ken) = (joins(&daemon, "ui", &[]).await, joins(&daemon, "ken", &["law"]).await);
    sent(&daemon, &asks("t", &json!({"requires": ["skill:law"], "payload": {"query": "?"}}))).await;
    wait::eventually("the task", || async { Ok(shown(&ken).await.pop()) }).await.unwrap();
    for (id, kind) in [("acc", "task.accept"), ("pro", "task.progress"), ("res", "task.result")] {
        sent(&daemon, &envelope(id, kind, "ken", json!({"task_id": "t", "payload": {"title": "yes"}}))).await;
    }
    assert_eq!(shown(&ui).await, ["acc", "pro", "res"]);
    let acked = ui.call("inbox_ack", json!({"until": "pro"})).await;
    assert_eq!(acked["acknowledged"], json!(["acc", "pro"]));
    assert_eq!(shown(&ui).await, ["res"]);
    ui.call("inbox_ack", json!({"until": "res"})).await;

    // What is done by another face comes as a message, too, and wakes whoever waits for it.
    sent(&daemon, &asks("u", &json!({"requires": ["skill:law"], "payload": {"query": "?"}}))).await;
    wait::eventually("the task", || async { Ok(shown(&ken).await.pop()) }).await.unwrap();
    ken.call("task_claim", json!({"task_id": "u"})).await;
    let done = json!({"id": "u", "status": "completed", "outcome": "no"});
    let working = ken.call("task_update_status", done);
    let waiting = async {
        loop {
            let waited = ui.call("inbox_wait", json!({"timeout_seconds": 60})).await;
            let about = |message: &&Value| message["envelope"]["type"] == "task.result";
            if let Some(result) = waited["messages"].as_array().unwrap().iter().find(about) {
                return result.clone();
            }
        }
    };
    let (result, _) = wait::within("the result", async { tokio::join!(waiting, working) }).await.unwrap();
    assert_eq!((&result["envelope"]["task_id"], &result["entry"]["from"]), (&json!("u"), &json!("ken")), "{result}");
    assert!(result["entry"]["message"].as_str().unwrap().contains("no"), "{result}");
    let until = &result["entry"]["id"];
    ui.call("inbox_ack", json!({"until": until})).await;
    assert_eq!((shown(&ui).await, acks(&daemon, until.as_str().unwrap())), (vec![], 1));
}
