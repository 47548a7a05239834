//! A busy program learns that a message waits for it.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::mcp::call_tool;
use rookery_testkit::model::{ModelServer, Script};
use serde_json::json;

use crate::programs::{Agent, Transport, claude, codex, setup};

async fn send_waiting_message(daemon: &Daemon, agents: [&str; 3]) {
    for agent in agents {
        let profile = json!({"name": agent, "runtime": "custom"});
        call_tool(daemon, agent, "agent_register", profile).await.unwrap();
    }
    let message = format!("@{} @{} stop: the plan has changed", agents[1], agents[2]);
    let sent = call_tool(daemon, agents[0], "channel_send", json!({"message": message})).await.unwrap();
    assert_eq!(sent["mentions"].as_array().unwrap().len(), 2, "{sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_tool_call_announces_a_waiting_message() {
    let daemon = setup().start().unwrap();
    send_waiting_message(&daemon, ["planner", "claude", "codex"]).await;
    let busy =
        |path: &'static str| Script::new().call("resource_claim", move |_| Ok(json!({"path": path}))).say("done");
    let model = ModelServer::start([("claude", busy("src")), ("codex", busy("docs"))]).await.unwrap();
    let at = |id| Agent { id, transport: Transport::Http };
    tokio::join!(
        claude(at("claude"), &daemon, &model, "Claim the sources."),
        codex(at("codex"), &daemon, &model, "Claim the documents."),
    );
    for agent in ["claude", "codex"] {
        model.check_finished(agent).unwrap();
        let requests = model.requests(agent);
        let seen = requests.last().unwrap().results[0].texts.join("\n");
        assert!(seen.contains("1 unread message"), "{agent} was shown: {seen}");
    }
}
