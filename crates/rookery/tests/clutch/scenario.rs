//! The protocol's own example, end to end: a UI on the WebSocket requests research, the router chooses Ken, who
//! receives messages
//! at his endpoint, uses a tool that another agent serves from its inbox, and answers. Each participant is a separate
//! process.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::cast::{self, Actor};
use crate::inbox::to;
use crate::sending;
use crate::team::pages;

const TEST: &str = "scenario::documented_market_research_scenario_completes";

/// The participants are processes of this test.
#[tokio::test]
async fn documented_market_research_scenario_completes() {
    match cast::assigned_part() {
        Some(part) => cast::play_part(&part).await,
        None => play_story(&sending::setup().start().unwrap()).await,
    }
}

#[tokio::test]
async fn documented_market_research_scenario_completes_on_postgres() {
    let schema = Schema::new().unwrap();
    play_story(&sending::setup().store(schema.url()).start().unwrap()).await;
}

async fn play_story(daemon: &Daemon) {
    let (ken, browser) = (Actor::start("ken", TEST, daemon), Actor::start("browser", TEST, daemon));
    let both = || async {
        let cards = daemon.get("/clutch/v0/agents").await?.body;
        Ok(cards["agents"].as_array().filter(|cards| cards.len() == 2).map(|_| ()))
    };
    wait::eventually("both agents to join", both).await.unwrap();
    let shown = Actor::start("ui", TEST, daemon).finish_with_json().await;
    check_every_step(daemon, &shown).await;

    let acked = || async {
        let reply = daemon.get("/clutch/v0/deliveries?state=acked").await?.body;
        Ok(Some(reply["deliveries"].clone()).filter(|deliveries| deliveries.as_array().unwrap().len() == 3))
    };
    wait::eventually("all to be acknowledged", acked).await.unwrap();
    assert_eq!(daemon.get("/tasks/task_abc").await.unwrap().body["status"], "done");
    for actor in [ken, browser] {
        assert!(actor.stop().await.success(), "the participant exits successfully");
    }
    daemon.replay_verify().unwrap();
}

/// Checks the steps as the protocol numbers them; `shown` is the output of the UI.
async fn check_every_step(daemon: &Daemon, shown: &[Value]) {
    let (listed, _) = pages(daemon, "/messages?thread_id=thr_market&limit=1000").await;
    let listed: Vec<Value> = listed.into_iter().map(|placed| placed.message).collect();
    let numbered = ["task.request", "routing.decision", "task.accept", "tool.call", "tool.result", "task.result"];
    let is_step = |message: &&Value| numbered.contains(&message["type"].as_str().unwrap());
    let steps: Vec<&Value> = listed.iter().filter(is_step).collect();
    let orchestrator = to(&["agent:orchestrator"]);
    let step = |number: usize, kind: &str, from: &str, to: &Value| {
        let message = steps[number - 1];
        let header = (&message["type"], &message["from"]["agent_id"], &message["to"]);
        assert_eq!(header, (&json!(kind), &json!(from), to), "step {number}: {message}");
        let place = (&message["run_id"], &message["thread_id"], &message["task_id"]);
        assert_eq!(place, (&json!("run_xyz"), &json!("thr_market"), &json!("task_abc")), "step {number}");
        message
    };
    let request = step(1, "task.request", "agent:ui", &orchestrator);
    assert_eq!((&request["domain"], &request["payload_type"]), (&json!("research"), &json!("research.query.v1")));
    let decision = step(2, "routing.decision", "agent:orchestrator", &to(&["group:all"]));
    assert_eq!(decision["payload"]["selected"], "agent:ken");
    assert!(decision["payload"]["reason"].as_str().unwrap().contains("skill:research"), "{decision}");
    let forwarded = step(3, "task.request", "agent:orchestrator", &to(&["agent:ken"]));
    assert_eq!(forwarded["payload"], request["payload"]);
    step(4, "task.accept", "agent:ken", &orchestrator);
    let call = step(5, "tool.call", "agent:ken", &to(&["agent:browser"]));
    assert_eq!(call["payload"]["tool"], "mcp:browser");
    let answer = step(6, "tool.result", "agent:browser", &to(&["agent:ken"]));
    assert_eq!(answer["payload"]["result"], "two shops");
    let result = step(7, "task.result", "agent:ken", &orchestrator);
    assert_eq!((&result["domain"], &result["payload_type"]), (&json!("research"), &json!("research.summary.v1")));
    assert_eq!(result["payload"], json!({"findings": ["two shops"], "citations": ["https://x"]}));
    assert_eq!(steps.len(), 7, "{steps:?}");

    // 8. The UI has shown all messages of the thread up to the result, in order.
    let shown: Vec<&Value> = shown.iter().map(|placed| &placed["message"]).collect();
    assert_eq!(shown, listed.iter().take(shown.len()).collect::<Vec<_>>());
    assert_eq!(shown.last().map(|last| &last["id"]), Some(&json!("msg_7")));
    let replayed = daemon.get("/clutch/v0/runs/run_xyz/replay").await.unwrap().body;
    let replayed = replayed["messages"].as_array().unwrap().iter().map(|placed| &placed["message"]);
    assert_eq!(replayed.filter(is_step).collect::<Vec<_>>(), steps, "the run has the same steps in the same order");
}
