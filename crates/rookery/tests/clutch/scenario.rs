//! The protocol's own example, end to end: a UI on the WebSocket asks for research, the router chooses Ken, who takes messages on
//! its own endpoint, uses a tool that another agent serves from its inbox, and answers.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::patience;
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Manner};
use crate::inbox::{ack, ids, inbox, to};
use crate::sending::{self, envelope, sent};
use crate::team::follow;

/// A message of the scenario, in its run and thread.
fn message(id: &str, kind: &str, from: &str, more: Value) -> Value {
    let mut message = envelope(id, kind, from, more);
    for (field, value) in [("run_id", "run_xyz"), ("thread_id", "thr_market"), ("task_id", "task_abc")] {
        message[field] = json!(value);
    }
    message
}

async fn register(daemon: &Daemon, card: Value) {
    let path = format!("/clutch/v0/agents/{}", card["agent_id"].as_str().unwrap());
    let reply = read(daemon.request(Method::PUT, &path).json(&card)).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[tokio::test]
async fn market_research_goes_from_the_ui_to_ken_and_back() {
    let daemon = sending::setup().start().unwrap();
    let endpoint = Endpoint::start(Manner::Answer(202)).await;
    let research = json!({"capabilities": [{"id": "skill:research", "version": "1.0", "tools": ["mcp:browser"]}]});
    endpoint.is_of(&daemon, "agent:ken", research).await;
    register(&daemon, json!({"v": "clutch/0.1", "agent_id": "agent:browser"})).await;
    let mut ui = follow(&daemon, "?thread_id=thr_market").await;

    // 1. The UI asks. 2. The router chooses. 3. Ken gets the request on its endpoint.
    let asked = json!({"domain": "research", "payload_type": "research.query.v1", "payload": {"query": "Who sells it?"},
        "requires": ["skill:research"]});
    sent(&daemon, &message("msg_1", "task.request", "ui", asked)).await;
    let request = endpoint.has(1).await.remove(0).body;
    assert_eq!(
        (&request["type"], &request["from"]["agent_id"]),
        (&json!("task.request"), &json!("agent:orchestrator"))
    );
    assert_eq!((&request["task_id"], &request["run_id"]), (&json!("task_abc"), &json!("run_xyz")));
    assert_eq!(request["payload"], json!({"query": "Who sells it?"}));

    // 4. Ken accepts. 5. It calls a tool. 6. Whoever serves it pulls the call, answers, and acknowledges.
    sent(&daemon, &message("msg_4", "task.accept", "agent:ken", json!({}))).await;
    let call = json!({"to": to(&["agent:browser"]), "payload": {"tool": "mcp:browser", "args": {"url": "https://x"}}});
    sent(&daemon, &message("msg_5", "tool.call", "agent:ken", call)).await;
    let pulled = inbox(&daemon, "browser", "?wait=30s").await;
    assert_eq!(ids(&pulled), ["msg_5"]);
    let page = json!({"to": to(&["agent:ken"]), "payload": {"tool": "mcp:browser", "result": "a page"}});
    sent(&daemon, &message("msg_6", "tool.result", "agent:browser", page)).await;
    assert_eq!(ack(&daemon, "browser", &["msg_5"]).await.status, 200);
    assert_eq!(endpoint.has(2).await[1].id(), "msg_6");

    // 7. Ken is done. 8. The UI has seen all of it, in order.
    let result = json!({"domain": "research", "payload_type": "research.summary.v1",
        "payload": {"findings": ["two do"], "citations": ["https://x"]}});
    sent(&daemon, &message("msg_7", "task.result", "agent:ken", result)).await;
    let steps =
        ["task.request", "routing.decision", "task.request", "task.accept", "tool.call", "tool.result", "task.result"];
    let mut seen: Vec<Value> = Vec::new();
    let all = async {
        while seen.last().is_none_or(|last| last["type"] != "task.result") {
            let message = ui.next().await.unwrap().message;
            if steps.contains(&message["type"].as_str().unwrap()) {
                seen.push(message);
            }
        }
    };
    patience::within("the UI to see the end", all).await.unwrap();
    assert_eq!(seen.iter().map(|message| message["type"].as_str().unwrap()).collect::<Vec<_>>(), steps);
    assert_eq!(seen[1]["payload"]["selected"], "agent:ken");
    let replayed = daemon.get("/clutch/v0/runs/run_xyz/replay").await.unwrap().body;
    let replayed = replayed["messages"].as_array().unwrap().iter().map(|placed| placed["message"].clone());
    let replayed: Vec<Value> = replayed.filter(|message| steps.contains(&message["type"].as_str().unwrap())).collect();
    assert_eq!(replayed, seen, "the log has the same steps in the same order");
    let acked = || async {
        let reply = daemon.get("/clutch/v0/deliveries?state=acked").await.unwrap().body;
        Ok(Some(reply["deliveries"].clone()).filter(|deliveries| deliveries.as_array().unwrap().len() == 3))
    };
    patience::eventually("all to be acknowledged", acked).await.unwrap();
    assert_eq!(daemon.get("/tasks/task_abc").await.unwrap().body["status"], "done");
    daemon.replay_verify().unwrap();
}
