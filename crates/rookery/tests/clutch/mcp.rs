//! Agents that speak MCP among agents that speak Clutch: they find routed tasks, read envelopes, and acknowledge the
//! messages that they were shown.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::inbox::{ids, inbox, to};
use crate::sending::{envelope, rows, send_ok, setup, team};
use crate::team::{Tools, announce, ok};

/// Registers an agent over MCP with these capabilities.
async fn register_by_mcp(daemon: &Daemon, id: &str, capabilities: &[&str]) -> Tools {
    let tools = Tools::connect(daemon, id).await;
    let joined = json!({"name": id, "runtime": "custom", "capabilities": capabilities});
    assert_eq!(tools.call("agent_register", joined).await["id"], id);
    tools
}

fn task_request(task: &str, more: &Value) -> Value {
    let mut request = envelope(&format!("req_{task}"), "task.request", "ui", more.clone());
    request["task_id"] = json!(task);
    request
}

/// The message ids in an inbox, which this check shows to the agent.
async fn read_inbox_ids(tools: &Tools) -> Vec<String> {
    let checked = tools.call("inbox_check", json!({})).await;
    let entries = checked["messages"].as_array().unwrap().iter();
    entries.map(|message| message["entry"]["id"].as_str().unwrap().to_owned()).collect()
}

/// The number of events that acknowledge a message.
fn count_acks(daemon: &Daemon, id: &str) -> usize {
    let acked = rows(daemon).into_iter().filter(|row| row["kind"] == "message.acked");
    acked.filter(|row| row["fact"]["messages"].as_array().is_some_and(|all| all.contains(&json!(id)))).count()
}

#[tokio::test]
async fn routed_task_is_found_claimed_and_completed_over_mcp() {
    let daemon = team(&["lead", "ui"]).await;
    let (ken, other) =
        (register_by_mcp(&daemon, "ken", &["law"]).await, register_by_mcp(&daemon, "other", &["cooking"]).await);
    let (run, _) = ken.plan(json!([{"name": "free", "description": "for anybody"}])).await;
    let payload = json!({"query": "May we sell it?", "where": {"country": "NO"}});
    let request = task_request("t", &json!({"requires": ["skill:law"], "payload": payload}));
    let asking = async { send_ok(&daemon, &request).await };
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

    // The routed task precedes unreserved ones in both lists; other agents do not see it.
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
    assert_eq!(claimed["request"]["message"], message["entry"]["message"], "the claim returns the request");
    assert_eq!(ken.call("task_claim", json!({"task_id": "t"})).await, claimed, "and again");
    assert_eq!(count_acks(&daemon, message["entry"]["id"].as_str().unwrap()), 1, "the claim acknowledges it once");
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
    let waiting = inbox(&daemon, "ui", "").await;
    let mut delivered = waiting["messages"].as_array().unwrap().iter().map(|entry| &entry["message"]);
    let notification = delivered.rfind(|message| message["type"] == "task.result").unwrap();
    assert_eq!((&notification["task_id"], &notification["payload"]), (&json!("t"), &result["payload"]));
    let id = notification["id"].as_str().unwrap();
    assert_eq!(ok(&daemon, &format!("/messages/{id}")).await, *notification, "it is found by its id");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn declined_task_leaves_the_inbox_of_the_agent() {
    let daemon = team(&["lead", "ui"]).await;
    let ken = register_by_mcp(&daemon, "ken", &["law"]).await;
    send_ok(&daemon, &task_request("t", &json!({"requires": ["skill:law"], "payload": {"query": "?"}}))).await;
    let given = wait::eventually("the task", || async { Ok(read_inbox_ids(&ken).await.pop()) }).await.unwrap();
    let declined = json!({"id": "t", "status": "pending", "reason": "no time"});
    ken.call("task_update_status", declined).await;
    let next = ken.call("workflow_next_tasks", json!({"workflow_id": "run_work"})).await;
    assert!(next.get("notes").is_none() && next["tasks"][0].get("reserved_for_you").is_none(), "{next}");
    assert_eq!(read_inbox_ids(&ken).await, [""; 0], "the request has left the inbox: {given}");
}

#[tokio::test]
async fn envelope_to_an_mcp_agent_is_shown_until_acknowledged() {
    let mut daemon = team(&["lead"]).await;
    let ken = register_by_mcp(&daemon, "ken", &[]).await;
    let note =
        |id: &str, payload: Value| envelope(id, "x.note", "lead", json!({"to": to(&["ken"]), "payload": payload}));
    let sending = async { send_ok(&daemon, &note("n1", json!({"n": 1.5}))).await };
    let waiting = ken.call("inbox_wait", json!({"timeout_seconds": 60}));
    let (waited, _) = wait::within("a note", async { tokio::join!(waiting, sending) }).await.unwrap();
    let message = &waited["messages"][0];
    assert_eq!((&message["entry"]["id"], &message["entry"]["from"]), (&json!("n1"), &json!("lead")), "{waited}");
    assert_eq!(
        (&message["envelope"]["type"], &message["entry"]["message"]),
        (&json!("x.note"), &json!(r#"{"n":1.5}"#))
    );
    assert!(waited.get("notes").is_none(), "a shown message is not unread: {waited}");

    // A call of a missing tool is answered at once; the answer is not acknowledged before it was shown.
    let call = json!({"to": to(&["mcp:browser"]), "payload": {"tool": "mcp:browser"}});
    send_ok(&daemon, &envelope("c1", "tool.call", "ken", call)).await;
    let unread = ken.call("workflow_next_tasks", json!({})).await;
    assert!(unread["notes"][0].as_str().unwrap().contains("1 unread message"), "{unread}");
    let acked = ken.call("inbox_ack", json!({"until": "2100-01-01"})).await;
    assert_eq!((&acked["acknowledged"], &acked["remaining"]), (&json!(["n1"]), &json!(1)), "only what was shown");
    let checked = ken.call("inbox_check", json!({})).await;
    let error = &checked["messages"][0];
    assert_eq!(checked["messages"].as_array().unwrap().len(), 1);
    assert_eq!((&error["envelope"]["type"], &error["envelope"]["in_reply_to"]), (&json!("tool.error"), &json!("c1")));
    assert!(error["entry"]["message"].as_str().unwrap().contains("TOOL_UNAVAILABLE"), "{error}");

    // A large message: its beginning, and the address of the whole.
    let long = "long ".repeat(20_000);
    send_ok(&daemon, &note("n2", json!({"text": long}))).await;
    let checked = ken.call("inbox_check", json!({})).await;
    let large = &checked["messages"][1];
    assert!(large["entry"]["message"].as_str().unwrap().chars().count() <= 8_001);
    assert_eq!(large["envelope"]["full_message_uri"], "rookery://messages/n2");
    let whole: Value = serde_json::from_str(&ken.read("rookery://messages/n2").await.unwrap()).unwrap();
    assert_eq!(whole["payload"]["text"], long);
    let lead = Tools::connect(&daemon, "lead").await;
    assert!(lead.read("rookery://messages/n2").await.is_err(), "the lead is no recipient");

    // Shown messages survive a daemon crash, and can be acknowledged afterwards.
    let error = error["entry"]["id"].as_str().unwrap().to_owned();
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let ken = Tools::connect(&daemon, "ken").await;
    let acked = ken.call("inbox_ack", json!({"until": error})).await;
    assert_eq!((&acked["acknowledged"], &acked["remaining"]), (&json!([error.clone()]), &json!(1)));
    assert_eq!(read_inbox_ids(&ken).await, ["n2"]);
    assert_eq!(
        ken.call("inbox_ack", json!({"until": error})).await["acknowledged"],
        json!([]),
        "a repeated acknowledgement covers nothing"
    );
    ken.call("inbox_ack", json!({"until": "n2"})).await;
    for id in ["n1", error.as_str(), "n2"] {
        assert_eq!(count_acks(&daemon, id), 1, "{id}");
    }
    assert_eq!((read_inbox_ids(&ken).await, ids(&inbox(&daemon, "ken", "").await)), (vec![], vec![]));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn mcp_requester_reads_progress_and_result_of_its_request() {
    let daemon = setup().start().unwrap();
    announce(&daemon, "lead").await;
    let (ui, ken) = (register_by_mcp(&daemon, "ui", &[]).await, register_by_mcp(&daemon, "ken", &["law"]).await);
    send_ok(&daemon, &task_request("t", &json!({"requires": ["skill:law"], "payload": {"query": "?"}}))).await;
    wait::eventually("the task", || async { Ok(read_inbox_ids(&ken).await.pop()) }).await.unwrap();
    for (id, kind) in [("acc", "task.accept"), ("pro", "task.progress"), ("res", "task.result")] {
        send_ok(&daemon, &envelope(id, kind, "ken", json!({"task_id": "t", "payload": {"title": "yes"}}))).await;
    }
    assert_eq!(read_inbox_ids(&ui).await, ["acc", "pro", "res"]);
    let acked = ui.call("inbox_ack", json!({"until": "pro"})).await;
    assert_eq!(acked["acknowledged"], json!(["acc", "pro"]));
    assert_eq!(read_inbox_ids(&ui).await, ["res"]);
    ui.call("inbox_ack", json!({"until": "res"})).await;

    // The result of a task completed over MCP is a message too, and wakes the waiting requester.
    send_ok(&daemon, &task_request("u", &json!({"requires": ["skill:law"], "payload": {"query": "?"}}))).await;
    wait::eventually("the task", || async { Ok(read_inbox_ids(&ken).await.pop()) }).await.unwrap();
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
    assert_eq!((read_inbox_ids(&ui).await, count_acks(&daemon, until.as_str().unwrap())), (vec![], 1));
}
