//! Real programs in workflow files: `rookery run` starts them, their models are scripted, and the user's own configuration is
//! as before to the last byte. Cursor is a stand-in, and named so: the real one was never run here.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::model::{ModelServer, Script, ToolHistory};
use serde_json::{Value, json};

use crate::programs::setup;
use crate::user::User;

fn send(message: &'static str) -> impl Fn(&ToolHistory<'_>) -> anyhow::Result<Value> {
    move |_| Ok(json!({"message": message}))
}

/// An agent of a workflow file that has its own script, by the key of its model, and no sandbox.
pub fn agent(name: &str, backend: &str, model: &ModelServer) -> String {
    format!("{}    sandbox: false\n", boxed(name, backend, model))
}

/// The same in a sandbox.
fn boxed(name: &str, backend: &str, model: &ModelServer) -> String {
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

/// Who said what in the channel, in order.
pub fn channel(daemon: &Daemon) -> Vec<(String, String)> {
    let log = daemon.export().unwrap();
    let sent = log.iter().filter(|row| row["kind"] == "message.sent");
    let by = |row: &Value| row["fact"]["from"].as_str().unwrap_or_default().to_owned();
    let said = |row: &Value| row["fact"]["text"].as_str().unwrap_or_default().to_owned();
    sent.map(|row| (by(row), said(row))).collect()
}

pub fn turns(daemon: &Daemon) -> Vec<Value> {
    let log = daemon.export().unwrap();
    log.iter().filter(|row| row["kind"] == "turn.ended").map(|row| row["fact"].clone()).collect()
}

/// One agent that says hello, where `place` makes it of its name, its backend and its model.
async fn alone(backend: &'static str, place: fn(&str, &str, &ModelServer) -> String) {
    let daemon = setup().start().unwrap();
    let script = Script::new().call("channel_send", send("hello, I am here")).say("I have said hello.");
    let model = ModelServer::start([("solo", script)]).await.unwrap();
    let user = User::new(&daemon, &model);
    let team = place("solo", backend, &model);
    let workflow =
        format!("agents:\n{team}    system_prompt: You greet people.\nkickoff: \"@solo please say hello\"\n");
    user.runs(&daemon, &workflow).await;
    model.check_finished("solo").unwrap();
    let said = channel(&daemon);
    assert!(said.contains(&("solo".to_owned(), "hello, I am here".to_owned())), "{said:?}");
    // It said so itself, so that nothing is posted for it.
    assert!(!said.iter().any(|(_, text)| text.contains("I have said hello")), "{said:?}");
    let turns = turns(&daemon);
    assert_eq!(turns.len(), 1, "{turns:?}");
    assert_eq!(turns[0]["how"], "done", "{turns:?}");
    assert_eq!(turns[0]["usage"]["input_tokens"], 20, "{turns:?}");
    assert_eq!(turns[0]["usage"]["output_tokens"], 10, "{turns:?}");
    let first = model.requests("solo").into_iter().find(|asked| !asked.tools.is_empty()).unwrap().body.to_string();
    for told in ["You greet people.", "please say hello"] {
        assert!(first.contains(told), "the model was not told {told:?}");
    }
    user.is_untouched();
    daemon.replay_verify().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_runs_in_a_workflow() {
    alone("claude", agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_runs_in_a_workflow() {
    alone("codex", agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_runs_in_a_workflow() {
    alone("opencode", agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_runs_in_a_workflow() {
    alone("gemini", agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_runs_in_a_sandbox() {
    alone("claude", boxed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_claude_makes_for_its_user_in_a_sandbox_are_told() {
    let daemon = setup().start().unwrap();
    // It keeps an eye on its own folder, and does not see everything.
    let line = "python3 -c \"import os; os.mkdir(os.path.expanduser('~/.cla' + 'ude/hooks'))\"";
    let make = move |_: &ToolHistory<'_>| Ok(json!({"command": line, "description": "Make a folder"}));
    let script = Script::new().call("Bash", make).call("channel_send", send("made it")).say("Done.");
    let model = ModelServer::start([("solo", script)]).await.unwrap();
    let user = User::new(&daemon, &model);
    let workflow = format!("agents:\n{}kickoff: \"@solo begin\"\n", boxed("solo", "claude", &model));
    let (code, printed) = user.ends(&daemon, &workflow).await;
    assert_eq!(code, Some(0), "{printed}");
    let told: Vec<&str> = printed.lines().filter(|line| line.contains("was created in this turn")).collect();
    assert!(told.len() == 1 && told[0].contains(".claude/hooks "), "{printed}");
    user.is_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_runs_in_a_sandbox() {
    alone("codex", boxed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_runs_in_a_sandbox() {
    // Where its provider is stands in its own configuration, which nobody else reads.
    let place = |name: &str, backend: &str, model: &ModelServer| {
        let host = model.url().trim_start_matches("http://");
        format!("{}    sandbox: {{network: [\"{host}\"]}}\n", boxed(name, backend, model))
    };
    alone("opencode", place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_runs_in_a_sandbox() {
    alone("gemini", boxed).await;
}

/// Two programs hand work back and forth by mentions, each going on with its own conversation.
async fn hand_back_and_forth(reviewers: &'static str, coders: &'static str) {
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
    user.runs(&daemon, &format!("agents:\n{agents}kickoff: \"@reviewer please review\"\n")).await;
    for key in ["reviewer", "coder"] {
        model.check_finished(key).unwrap();
    }
    let said = channel(&daemon);
    let said: Vec<_> = said.iter().filter(|(by, _)| by != "system").map(|(_, text)| text.as_str()).collect();
    let expected = [
        "@coder line 42 has no check",
        "@reviewer line 42 is checked",
        "@coder line 43 has none either",
        "@reviewer line 43 too",
        // What it printed last, because it sent nothing itself.
        "All is well now.",
    ];
    assert_eq!(said, expected);
    let turns = turns(&daemon);
    assert_eq!(turns.len(), 5, "{turns:?}");
    for turn in &turns {
        assert_eq!(turn["how"], "done", "{turn}");
        // Of each turn, and not of the whole conversation.
        assert!(turn["usage"]["input_tokens"].as_u64().unwrap() <= 20, "{turn}");
    }
    user.is_untouched();
    daemon.replay_verify().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_and_codex_hand_work_back_and_forth() {
    hand_back_and_forth("claude", "codex").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_and_gemini_hand_work_back_and_forth() {
    hand_back_and_forth("opencode", "gemini").await;
}
