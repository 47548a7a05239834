//! Cursor, by a stand-in that takes only the documented flags and speaks MCP. The real program was never run here.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::model::ModelServer;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::programs::setup;
use crate::runs::{channel, turns};
use crate::user::User;

/// A daemon, and a user whose Cursor is a stand-in.
async fn daemon_with_cursor() -> (Daemon, User) {
    let daemon = setup().start().unwrap();
    let model = ModelServer::start([]).await.unwrap();
    let user = User::new(&daemon, &model);
    (daemon, user)
}

/// A team file entry of an agent that plays a list of turns.
fn agent(daemon: &Daemon, name: &str, turns: &Value) -> String {
    let script = daemon.root().join(format!("{name}.json"));
    std::fs::write(&script, turns.to_string()).unwrap();
    let env = format!("{{FAKE_CURSOR_SCRIPT: \"{}\"}}", script.display());
    format!("  {name}:\n    backend: cursor\n    sandbox: false\n    env: {env}\n")
}

/// Runs a team until one of its agents has the file, and kills the runner.
async fn kill_during_turn(daemon: &Daemon, user: &User) {
    let servers = daemon.root().join(".cursor/mcp.json");
    let is_overridden = || std::fs::read_to_string(&servers).unwrap_or_default().contains("\"rookery\"");
    let mut running = user.start(daemon, &["run", "team.yaml"]);
    let waited = eventually("the file is overridden", async || Ok(is_overridden().then_some(()))).await;
    waited.unwrap_or_else(|error| panic!("{error}\n{}", running.printed()));
    running.kill();
    assert!(is_overridden(), "no runner was left to restore it");
}

fn send(message: &str) -> Value {
    json!({"tool": "channel_send", "arguments": {"message": message}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_resumes_its_conversation() {
    let (daemon, user) = daemon_with_cursor().await;
    let one = json!([[send("@two are you there?"), {"say": "Asked."}], [{"say": "Good."}]]);
    let two = json!([[send("@one I am"), {"say": "Answered."}]]);
    let agents = [agent(&daemon, "one", &one), agent(&daemon, "two", &two)].concat();
    user.run_ok(&daemon, &format!("agents:\n{agents}kickoff: \"@one begin\"\n")).await;
    let messages: Vec<_> = channel(&daemon).into_iter().filter(|(by, _)| by != "system").collect();
    let messages: Vec<_> = messages.iter().map(|(by, text)| (by.as_str(), text.as_str())).collect();
    assert_eq!(messages, [("one", "@two are you there?"), ("two", "@one I am"), ("one", "Good.")]);
    assert!(turns(&daemon).iter().all(|turn| turn["how"] == "done"));
    user.assert_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_concurrent_agents_share_the_file() {
    let (daemon, user) = daemon_with_cursor().await;
    let greeting = |name: &str| json!([[send(&format!("{name} is here")), {"say": "Done."}]]);
    let agents = ["one", "two", "three"].map(|name| agent(&daemon, name, &greeting(name))).concat();
    user.run_ok(&daemon, &format!("agents:\n{agents}kickoff: \"@one @two @three begin\"\n")).await;
    let mut messages: Vec<_> = channel(&daemon).into_iter().filter(|(by, _)| by != "system").collect();
    messages.sort();
    let expected = ["one", "three", "two"].map(|name| (name.to_owned(), format!("{name} is here")));
    assert_eq!(messages, expected);
    user.assert_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_next_run_restores_file_after_runner_crash() {
    let (daemon, user) = daemon_with_cursor().await;
    let team = agent(&daemon, "one", &json!([[{"hang": true}]]));
    let workflow = format!("agents:\n{team}kickoff: \"@one begin\"\n");
    std::fs::write(daemon.root().join("team.yaml"), &workflow).unwrap();
    kill_during_turn(&daemon, &user).await;
    // Another team is enough, even without Cursor.
    let mock = "agents:\n  m:\n    backend: mock\n    script: [{say: hello}]\nkickoff: \"@m begin\"\n";
    std::fs::write(daemon.root().join("mock.yaml"), mock).unwrap();
    let mut other = user.start(&daemon, &["run", "mock.yaml", "--instance", "other"]);
    assert_eq!(other.wait().await, Some(0), "{}", other.printed());
    user.assert_untouched();
    // The interrupted team resumes.
    agent(&daemon, "one", &json!([[send("here I am"), {"say": "Done."}]]));
    user.run_ok(&daemon, &workflow).await;
    assert_eq!(channel(&daemon).iter().filter(|(_, text)| text == "here I am").count(), 1);
    user.assert_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_stop_restores_file_after_runner_crash() {
    let (daemon, user) = daemon_with_cursor().await;
    let team = agent(&daemon, "one", &json!([[{"hang": true}]]));
    std::fs::write(daemon.root().join("team.yaml"), format!("agents:\n{team}kickoff: \"@one begin\"\n")).unwrap();
    kill_during_turn(&daemon, &user).await;
    let mut stop = user.start(&daemon, &["stop", "--all"]);
    assert_eq!(stop.wait().await, Some(0), "{}", stop.printed());
    user.assert_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_tool_limit_is_rejected() {
    let (daemon, user) = daemon_with_cursor().await;
    let team = agent(&daemon, "one", &json!([]));
    let workflow = format!("agents:\n{team}    tools: [channel_send]\nkickoff: \"@one begin\"\n");
    let (code, printed) = user.run(&daemon, &workflow).await;
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("Cursor cannot be limited"), "{printed}");
    user.assert_untouched();
}
