//! A program unaware of the Clutch protocol completes a request sent by it: the router gives it the task.

use rookery_testkit::mcp::call_tool;
use rookery_testkit::model::{ModelServer, Script, ToolHistory};
use serde_json::{Value, json};

use crate::programs::{Agent, Transport, claude, setup};
use crate::team::messages;

const CLAUDE: &str = "claude";

/// The task named in the inbox, which is the model's only source for it.
fn task_from_inbox(story: &ToolHistory<'_>) -> anyhow::Result<Value> {
    let inbox = story.result("inbox_wait")?;
    let task = messages(&inbox).iter().map(|message| &message["envelope"]["task_id"]).find(|task| task.is_string());
    task.cloned().ok_or_else(|| anyhow::anyhow!("no task in {inbox}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_completes_a_routed_task() {
    let daemon = setup().start().unwrap();
    call_tool(&daemon, "ui", "agent_register", json!({"name": "ui", "runtime": "custom"})).await.unwrap();
    let register = json!({"name": "Claude", "runtime": "claude_code", "capabilities": ["law"]});
    let script = Script::new()
        .call("agent_register", move |_| Ok(register.clone()))
        .call_until("inbox_wait", |_| Ok(json!({"timeout_seconds": 5})), |inbox| !messages(inbox).is_empty())
        .call("task_claim", |story| Ok(json!({"task_id": task_from_inbox(story)?})))
        .call("checkpoint_add", |story| {
            Ok(json!({"task_id": task_from_inbox(story)?, "type": "progress", "summary": "read the law"}))
        })
        .call("task_update_status", |story| {
            Ok(json!({"id": task_from_inbox(story)?, "status": "completed", "outcome": "we may"}))
        })
        .say("It is answered.");
    let model = ModelServer::start([(CLAUDE, script)]).await.unwrap();
    let request = json!({
        "v": "clutch/0.1", "id": "req", "ts": "2026-02-01T13:20:11.123Z", "thread_id": "thr_1", "run_id": "run_1",
        "task_id": "task_1", "from": {"agent_id": "agent:ui"}, "to": [{"agent_id": "agent:orchestrator"}],
        "type": "task.request", "requires": ["skill:law"], "payload": {"query": "May we sell it?"},
    });
    assert_eq!(daemon.post("/clutch/v0/messages", request).await.unwrap().status, 202);
    let outcome =
        claude(Agent { id: CLAUDE, transport: Transport::Bridge }, &daemon, &model, "Wait for work, and do it.").await;
    model.check_finished(CLAUDE).unwrap_or_else(|error| panic!("{error}\n{}\n{}", outcome.stdout, outcome.stderr));
    let task = daemon.get("/tasks/task_1").await.unwrap().body;
    assert_eq!((&task["status"], &task["assigned_to"]), (&json!("done"), &json!(CLAUDE)), "{task}");
    let inbox = daemon.get("/clutch/v0/agents/ui/inbox").await.unwrap().body;
    let types = inbox["messages"].as_array().unwrap().iter().map(|placed| &placed["message"]["type"]);
    assert!(types.into_iter().any(|kind| kind == "task.result"), "{inbox}");
    // The model was shown the request.
    let shown = model.requests(CLAUDE).pop().unwrap().results.into_iter().flat_map(|result| result.texts);
    assert!(shown.into_iter().any(|text| text.contains("May we sell it?")));
    daemon.replay_verify().unwrap();
}
