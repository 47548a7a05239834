//! Real programs in workflow files: `rookery run` starts them, their models are scripted, and the user's own
//! configuration stays
//! unchanged byte for byte. Cursor is a stand-in; the real one was never run here.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::model::{ModelServer, Script, ToolHistory};
use serde_json::{Value, json};

use crate::programs::setup;
use crate::user::User;

fn send(message: &'static str) -> impl Fn(&ToolHistory<'_>) -> anyhow::Result<Value> {
    move |_| Ok(json!({"message": message}))
}

/// A team file entry of an agent with its own scripted model and no sandbox.
pub fn agent(name: &str, backend: &str, model: &ModelServer) -> String {
    format!("{}    sandbox: false\n", sandboxed_agent(name, backend, model))
}

/// The same entry with a sandbox.
fn sandboxed_agent(name: &str, backend: &str, model: &ModelServer) -> String {
    let env = match backend {
        "claude" => format!("ANTHROPIC_BASE_URL: \"{}\", ANTHROPIC_API_KEY: {name}", model.url()),
        "gemini" => format!("GOOGLE_GEMINI_BASE_URL: \"{}\", GEMINI_API_KEY: {name}", model.url()),
        _ => format!("MODEL_KEY: {name}"),
    };
    let chosen = match backend {
        "claude" => "    model: claude-sonnet-4-5\n",
        "gemini" => "    model: gemini-2.5-flash\n",
        _ => "",
    };
    format!("  {name}:\n    backend: {backend}\n{chosen}    env: {{{env}}}\n")
}

/// Author and text of each channel message, oldest first. Authors have their names in the channel.
pub fn channel(daemon: &Daemon) -> Vec<(String, String)> {
    let log = daemon.export().unwrap();
    let sent = log.iter().filter(|row| row["kind"] == "message.sent");
    let by = |row: &Value| row["fact"]["name"].as_str().unwrap_or_default().to_owned();
    let text = |row: &Value| row["fact"]["text"].as_str().unwrap_or_default().to_owned();
    sent.map(|row| (by(row), text(row))).collect()
}

pub fn turns(daemon: &Daemon) -> Vec<Value> {
    let log = daemon.export().unwrap();
    log.iter().filter(|row| row["kind"] == "turn.ended").map(|row| row["fact"].clone()).collect()
}

/// Runs one agent that says hello; `entry` makes its team file entry of name, backend and model.
async fn run_single_agent(backend: &'static str, entry: fn(&str, &str, &ModelServer) -> String) {
    let daemon = setup().start().unwrap();
    let script = Script::new().call("channel_send", send("hello, I am here")).say("I have said hello.");
    let model = ModelServer::start([("solo", script)]).await.unwrap();
    let user = User::new(&daemon, &model);
    let team = entry("solo", backend, &model);
    let workflow =
        format!("agents:\n{team}    system_prompt: You greet people.\nkickoff: \"@solo please say hello\"\n");
    user.run_ok(&daemon, &workflow).await;
    model.check_finished("solo").unwrap();
    let messages = channel(&daemon);
    assert!(messages.contains(&("solo".to_owned(), "hello, I am here".to_owned())), "{messages:?}");
    // The agent sent a message itself, so nothing is posted for it.
    assert!(!messages.iter().any(|(_, text)| text.contains("I have said hello")), "{messages:?}");
    let turns = turns(&daemon);
    assert_eq!(turns.len(), 1, "{turns:?}");
    assert_eq!(turns[0]["how"], "done", "{turns:?}");
    assert_eq!(turns[0]["usage"]["input_tokens"], 20, "{turns:?}");
    assert_eq!(turns[0]["usage"]["output_tokens"], 10, "{turns:?}");
    let first = model.requests("solo").into_iter().find(|asked| !asked.tools.is_empty()).unwrap().body.to_string();
    for part in ["You greet people.", "please say hello"] {
        assert!(first.contains(part), "the model was not shown {part:?}");
    }
    user.assert_untouched();
    daemon.replay_verify().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_runs_in_a_workflow() {
    run_single_agent("claude", agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_runs_in_a_workflow() {
    run_single_agent("codex", agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_runs_in_a_workflow() {
    run_single_agent("opencode", agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_runs_in_a_workflow() {
    run_single_agent("gemini", agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_runs_in_a_sandbox() {
    run_single_agent("claude", sandboxed_agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_created_by_claude_in_a_sandbox_are_reported() {
    let daemon = setup().start().unwrap();
    // Claude protects its own folder, and does not recognize every path to it.
    let line = "python3 -c \"import os; os.mkdir(os.path.expanduser('~/.cla' + 'ude/hooks'))\"";
    let make = move |_: &ToolHistory<'_>| Ok(json!({"command": line, "description": "Make a folder"}));
    let script = Script::new().call("Bash", make).call("channel_send", send("made it")).say("Done.");
    let model = ModelServer::start([("solo", script)]).await.unwrap();
    let user = User::new(&daemon, &model);
    let workflow = format!("agents:\n{}kickoff: \"@solo begin\"\n", sandboxed_agent("solo", "claude", &model));
    let (code, printed) = user.run(&daemon, &workflow).await;
    assert_eq!(code, Some(0), "{printed}");
    let notes: Vec<&str> = printed.lines().filter(|line| line.contains("was created in this turn")).collect();
    assert!(notes.len() == 1 && notes[0].contains(".claude/hooks "), "{printed}");
    user.assert_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_runs_in_a_sandbox() {
    run_single_agent("codex", sandboxed_agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_runs_in_a_sandbox() {
    // The address of its provider is in its own configuration, which the sandbox does not read.
    let entry = |name: &str, backend: &str, model: &ModelServer| {
        let host = model.url().trim_start_matches("http://");
        format!("{}    sandbox: {{network: [\"{host}\"]}}\n", sandboxed_agent(name, backend, model))
    };
    run_single_agent("opencode", entry).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_runs_in_a_sandbox() {
    run_single_agent("gemini", sandboxed_agent).await;
}

/// Two programs exchange work by mentions, each resuming its own conversation.
async fn exchange_work(reviewers: &'static str, coders: &'static str) {
    let daemon = setup().start().unwrap();
    let reviewer = Script::new()
        .call("channel_send", send("@coder line 42 has no check"))
        .say("I have asked for a check.")
        .call("channel_send", send("@coder line 43 has none either"))
        .say("I have asked for another.")
        .say("All is well now.");
    let coder = Script::new()
        .call("channel_send", send("@reviewer line 42 is checked"))
        .say("I have added it.")
        .call("channel_send", send("@reviewer line 43 too"))
        .say("I have added the other.");
    let model = ModelServer::start([("reviewer", reviewer), ("coder", coder)]).await.unwrap();
    let user = User::new(&daemon, &model);
    let agents = [agent("reviewer", reviewers, &model), agent("coder", coders, &model)].concat();
    user.run_ok(&daemon, &format!("agents:\n{agents}kickoff: \"@reviewer please review\"\n")).await;
    for key in ["reviewer", "coder"] {
        model.check_finished(key).unwrap();
    }
    let messages = channel(&daemon);
    let messages: Vec<_> = messages.iter().filter(|(by, _)| by != "system").map(|(_, text)| text.as_str()).collect();
    let expected = [
        "@coder line 42 has no check",
        "@reviewer line 42 is checked",
        "@coder line 43 has none either",
        "@reviewer line 43 too",
        // Posted for the reviewer, because its turn sent no message.
        "All is well now.",
    ];
    assert_eq!(messages, expected);
    let turns = turns(&daemon);
    assert_eq!(turns.len(), 5, "{turns:?}");
    for turn in &turns {
        assert_eq!(turn["how"], "done", "{turn}");
        // Counted per turn, not per conversation.
        assert!(turn["usage"]["input_tokens"].as_u64().unwrap() <= 20, "{turn}");
    }
    user.assert_untouched();
    daemon.replay_verify().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_and_codex_exchange_work() {
    exchange_work("claude", "codex").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_and_gemini_exchange_work() {
    exchange_work("opencode", "gemini").await;
}
