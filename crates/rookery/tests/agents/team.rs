//! Two different programs work as one team: each registers, claims a task, loads its context, adds a checkpoint,
//! mentions the other, reads the other's message, and completes its task.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::external_program::ProgramOutcome;
use rookery_testkit::mcp::call_tool;
use rookery_testkit::model::{ModelServer, Script, ToolHistory};
use serde_json::{Value, json};

use crate::programs::{Agent, Transport, claude, codex, setup};

const CLAUDE: &str = "claude";
const CODEX: &str = "codex";
const PARSED: &str = "the parser reads every example";
const READY: &str = "@codex the parser is ready: take the printer";
const THANKS: &str = "@claude the printer prints what the parser read";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_by_http_and_codex_by_bridge_work_as_a_team() {
    work_together(Transport::Http, Transport::Bridge).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_by_bridge_and_codex_by_http_work_as_a_team() {
    work_together(Transport::Bridge, Transport::Http).await;
}

async fn work_together(claudes: Transport, codexes: Transport) {
    let daemon = setup().start().unwrap();
    let workflow = create_workflow(&daemon).await;
    let scripts = [(CLAUDE, parser_script(workflow.clone())), (CODEX, printer_script(workflow))];
    let model = ModelServer::start(scripts).await.unwrap();
    let (one, other) = (Agent { id: CLAUDE, transport: claudes }, Agent { id: CODEX, transport: codexes });
    let outcome = tokio::join!(
        claude(one, &daemon, &model, "Do the parser, and tell codex when it is done."),
        codex(other, &daemon, &model, "Wait for the parser, then do the printer."),
    );
    for (name, outcome) in [(CLAUDE, &outcome.0), (CODEX, &outcome.1)] {
        assert!(
            model.check_finished(name).is_ok(),
            "{}\n{}",
            model.check_finished(name).unwrap_err(),
            describe_outcome(outcome)
        );
    }
    check_log(&daemon);
    check_model_requests(&model);
    daemon.replay_verify().unwrap();
}

fn describe_outcome(ended: &ProgramOutcome) -> String {
    format!("it ended with {:?}\n{}\n{}", ended.status, ended.stdout, ended.stderr)
}

/// Creates a workflow of two tasks, the second depending on the first.
async fn create_workflow(daemon: &Daemon) -> String {
    let made = json!({"name": "a formatter", "source_type": "prompt", "source_content": "write a formatter"});
    call_tool(daemon, "planner", "agent_register", json!({"name": "planner", "runtime": "custom"})).await.unwrap();
    let workflow = call_tool(daemon, "planner", "workflow_create", made).await.unwrap();
    let workflow = workflow["id"].as_str().unwrap().to_owned();
    let tasks = json!([
        {"name": "parser", "description": "read the language"},
        {"name": "printer", "description": "write it again", "depends_on": ["parser"]},
    ]);
    let plan = json!({"id": workflow, "plan": {"summary": "read, then write", "tasks": tasks}});
    call_tool(daemon, "planner", "workflow_set_plan", plan).await.unwrap();
    workflow
}

/// The script of Claude's model.
fn parser_script(workflow: String) -> Script {
    Script::new()
        .call("agent_register", |_| Ok(json!({"name": "Claude", "runtime": "claude_code"})))
        .call("workflow_next_tasks", move |_| Ok(json!({"workflow_id": workflow})))
        .call("task_claim", |story| Ok(json!({"task_id": next(story)?})))
        .call("task_load_context", |story| Ok(json!({"task_id": next(story)?})))
        .call("checkpoint_add", |story| {
            let summary = "recursive descent: the grammar is small";
            Ok(json!({"task_id": next(story)?, "type": "decision", "summary": summary}))
        })
        .call("task_update_status", |story| Ok(json!({"id": next(story)?, "status": "completed", "outcome": PARSED})))
        // Codex can be mentioned only after it registered.
        .call_until("agent_list", |_| Ok(json!({})), |team| team.to_string().contains(CODEX))
        .call("channel_send", |_| Ok(json!({"message": READY})))
        .call_until("inbox_wait", |_| Ok(json!({"timeout_seconds": 5})), |inbox| has_message(inbox, THANKS))
        .call("inbox_check", |_| Ok(json!({})))
        .call("inbox_ack", |story| Ok(json!({"until": last_message(story)?})))
        .say("The parser is done, and codex has used it.")
}

/// The script of Codex's model.
fn printer_script(workflow: String) -> Script {
    Script::new()
        .call("agent_register", |_| Ok(json!({"name": "Codex", "runtime": "codex"})))
        .call_until("inbox_wait", |_| Ok(json!({"timeout_seconds": 5})), |inbox| has_message(inbox, READY))
        .call("inbox_check", |_| Ok(json!({})))
        .call("inbox_ack", |story| Ok(json!({"until": last_message(story)?})))
        .call("workflow_next_tasks", move |_| Ok(json!({"workflow_id": workflow})))
        .call("task_claim", |story| Ok(json!({"task_id": next(story)?})))
        .call("task_load_context", |story| Ok(json!({"task_id": next(story)?})))
        .call("checkpoint_add", |story| {
            let summary = "prints what the parser gives";
            Ok(json!({"task_id": next(story)?, "type": "progress", "summary": summary}))
        })
        .call("channel_send", |_| Ok(json!({"message": THANKS})))
        .call("task_update_status", |story| {
            Ok(json!({"id": next(story)?, "status": "completed", "outcome": "it prints"}))
        })
        .say("The printer is done.")
}

/// The first task that can be claimed.
fn next(story: &ToolHistory<'_>) -> anyhow::Result<String> {
    story.text("workflow_next_tasks", "/tasks/0/id")
}

/// The messages of an inbox. One program shows its model the text of a result, the other its structure.
pub fn messages(inbox: &Value) -> &[Value] {
    let list = inbox.as_array().or_else(|| inbox["messages"].as_array());
    list.map_or(&[], Vec::as_slice)
}

fn has_message(inbox: &Value, text: &str) -> bool {
    messages(inbox).iter().any(|message| message["entry"]["message"] == text)
}

fn last_message(story: &ToolHistory<'_>) -> anyhow::Result<Value> {
    let inbox = story.result("inbox_check")?;
    let last = messages(&inbox).last().ok_or_else(|| anyhow::anyhow!("the inbox is empty: {inbox}"))?;
    Ok(last["entry"]["id"].clone())
}

/// Checks that each step happened once, in a sensible order, by the right agent.
fn check_log(daemon: &Daemon) {
    let log = daemon.export().unwrap();
    let only = |kind: &str, actor: &str| {
        let rows: Vec<_> = log.iter().filter(|row| row["kind"] == kind && actor_of(row) == actor).collect();
        let [row] = rows.as_slice() else { panic!("{} rows of {kind} by {actor}: {rows:?}", rows.len()) };
        row["seq"].as_u64().unwrap()
    };
    for agent in [CLAUDE, CODEX] {
        let life =
            ["agent.registered", "task.claimed", "checkpoint.added", "task.completed"].map(|kind| only(kind, agent));
        assert!(life.is_sorted(), "{agent}: {life:?}");
        assert!(only("message.sent", agent) > life[2], "{agent}");
    }
    assert!(only("task.completed", CLAUDE) < only("task.claimed", CODEX));
    // Each has acknowledged the other's message.
    assert!(only("message.acked", CODEX) > only("message.sent", CLAUDE));
    assert!(only("message.acked", CLAUDE) > only("message.sent", CODEX));
    let sent: Vec<_> = log.iter().filter(|row| row["kind"] == "message.sent").map(|row| row.to_string()).collect();
    assert!(sent[0].contains(READY) && sent[1].contains(THANKS), "{sent:?}");
}

fn actor_of(row: &Value) -> &str {
    row["actor"]["agent"].as_str().or(row["actor"].as_str()).unwrap_or_default()
}

/// Checks that the models were shown each other's work.
fn check_model_requests(model: &ModelServer) {
    let last = |agent: &str| model.requests(agent).pop().unwrap();
    let shown: Vec<String> = last(CODEX).results.iter().flat_map(|result| result.texts.clone()).collect();
    let context = shown.iter().find(|text| text.contains("dependency_outcomes")).expect("a task's context");
    assert!(context.contains(PARSED), "{context}");
    for agent in [CLAUDE, CODEX] {
        let asked = last(agent);
        assert!(asked.tools.iter().any(|tool| tool.is("handoff_create")), "{:?}", asked.tools);
        assert!(
            asked.body.to_string().contains("You are one of several agents"),
            "{agent} has no instructions of ours"
        );
    }
}
