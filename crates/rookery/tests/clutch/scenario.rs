//! The protocol's own example, end to end: a UI on the WebSocket asks for research, the router chooses Ken, who takes messages on
//! its own endpoint, uses a tool that another agent serves from its inbox, and answers. Each of them is a process of its own.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::cast::{self, Actor};
use crate::inbox::to;
use crate::sending;
use crate::team::pages;

const TEST: &str = "scenario::market_research_goes_from_the_ui_to_ken_and_back";

/// Those who take part are this test again.
#[tokio::test]
async fn market_research_goes_from_the_ui_to_ken_and_back() {
    match cast::asked_to() {
        Some(part) => cast::play(&part).await,
        None => story(&sending::setup().start().unwrap()).await,
    }
}

#[tokio::test]
async fn market_research_goes_the_same_way_on_postgresql() {
    let schema = Schema::new().unwrap();
    story(&sending::setup().store(schema.url()).start().unwrap()).await;
}

async fn story(daemon: &Daemon) {
    let (ken, browser) = (Actor::starts("ken", TEST, daemon), Actor::starts("browser", TEST, daemon));
    let both = || async {
        let cards = daemon.get("/clutch/v0/agents").await?.body;
        Ok(cards["agents"].as_array().filter(|cards| cards.len() == 2).map(|_| ()))
    };
    wait::eventually("both agents to join", both).await.unwrap();
    let shown = Actor::starts("ui", TEST, daemon).prints().await;
    the_log_has_every_step(daemon, &shown).await;

    let acked = || async {
        let reply = daemon.get("/clutch/v0/deliveries?state=acked").await?.body;
        Ok(Some(reply["deliveries"].clone()).filter(|deliveries| deliveries.as_array().unwrap().len() == 3))
    };
    wait::eventually("all to be acknowledged", acked).await.unwrap();
    assert_eq!(daemon.get("/tasks/task_abc").await.unwrap().body["status"], "done");
    for actor in [ken, browser] {
        assert!(actor.leaves().await.success(), "it played its part to the end");
    }
    daemon.replay_verify().unwrap();
}

/// The steps as the protocol numbers them; `shown` is what the UI saw of them.
async fn the_log_has_every_step(daemon: &Daemon, shown: &[Value]) {
    let (listed, _) = pages(daemon, "/messages?thread_id=thr_market&limit=1000").await;
    let listed: Vec<Value> = listed.into_iter().map(|placed| placed.message).collect();
    let numbered = ["task.request", "routing.decision", "task.accept", "tool.call", "tool.result", "task.result"];
    let is_step = |message: &&Value| numbered.contains(&message["type"].as_str().unwrap());
    let steps: Vec<&Value> = listed.iter().filter(is_step).collect();
    let orchestrator = to(&["agent:orchestrator"]);
    let step = |number: usize, kind: &str, from: &str, to: &Value| {
        let message = steps[number - 1];
        let told = (&message["type"], &message["from"]["agent_id"], &message["to"]);
        assert_eq!(told, (&json!(kind), &json!(from), to), "step {number}: {message}");
        let place = (&message["run_id"], &message["thread_id"], &message["task_id"]);
        assert_eq!(place, (&json!("run_xyz"), &json!("thr_market"), &json!("task_abc")), "step {number}");
        message
    };
    let request = step(1, "task.request", "agent:ui", &orchestrator);
    assert_eq!((&request["domain"], &request["payload_type"]), (&json!("research"), &json!("research.query.v1")));
    let decision = step(2, "routing.decision", "agent:orchestrator", &to(&["group:all"]));
    assert_eq!(decision["payload"]["selected"], "agent:ken");
    assert!(decision["payload"]["reason"].as_str().unwrap().contains("skill:research"), "{decision}");
    let passed_on = step(3, "task.request", "agent:orchestrator", &to(&["agent:ken"]));
    assert_eq!(passed_on["payload"], request["payload"]);
    step(4, "task.accept", "agent:ken", &orchestrator);
    let call = step(5, "tool.call", "agent:ken", &to(&["agent:browser"]));
    assert_eq!(call["payload"]["tool"], "mcp:browser");
    let answer = step(6, "tool.result", "agent:browser", &to(&["agent:ken"]));
    assert_eq!(answer["payload"]["result"], "two shops");
    let result = step(7, "task.result", "agent:ken", &orchestrator);
    assert_eq!((&result["domain"], &result["payload_type"]), (&json!("research"), &json!("research.summary.v1")));
    assert_eq!(result["payload"], json!({"findings": ["two shops"], "citations": ["https://x"]}));
    assert_eq!(steps.len(), 7, "{steps:?}");

    // 8. The UI has shown everything that happened in the thread until then, in order.
    let shown: Vec<&Value> = shown.iter().map(|placed| &placed["message"]).collect();
    assert_eq!(shown, listed.iter().take(shown.len()).collect::<Vec<_>>());
    assert_eq!(shown.last().map(|last| &last["id"]), Some(&json!("msg_7")));
    let replayed = daemon.get("/clutch/v0/runs/run_xyz/replay").await.unwrap().body;
    let replayed = replayed["messages"].as_array().unwrap().iter().map(|placed| &placed["message"]);
    assert_eq!(replayed.filter(is_step).collect::<Vec<_>>(), steps, "the run has the same steps in the same order");
}
