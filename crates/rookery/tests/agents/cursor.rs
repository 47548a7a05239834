//! Cursor, by a stand-in that takes the documented flags and no others and speaks MCP for real. The real program was never
//! run here.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::model::ModelServer;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::programs::setup;
use crate::runs::{channel, turns};
use crate::user::User;

/// A daemon, and a user whose Cursor is a stand-in.
async fn stage() -> (Daemon, User) {
    let daemon = setup().start().unwrap();
    let model = ModelServer::start([]).await.unwrap();
    let user = User::new(&daemon, &model);
    (daemon, user)
}

/// An agent that does what a list of turns says.
fn agent(daemon: &Daemon, name: &str, turns: &Value) -> String {
    let script = daemon.root().join(format!("{name}.json"));
    std::fs::write(&script, turns.to_string()).unwrap();
    let env = format!("{{FAKE_CURSOR_SCRIPT: \"{}\"}}", script.display());
    format!("  {name}:\n    backend: cursor\n    sandbox: false\n    env: {env}\n")
}

/// Runs a team until one of its agents has the file, and kills the runner.
async fn killed_in_a_turn(daemon: &Daemon, user: &User) {
    let servers = daemon.root().join(".cursor/mcp.json");
    let is_ours = || std::fs::read_to_string(&servers).unwrap_or_default().contains("\"rookery\"");
    let mut running = user.starts(daemon, &["run", "team.yaml"]);
    let waited = eventually("the file is ours", async || Ok(is_ours().then_some(()))).await;
    waited.unwrap_or_else(|error| panic!("{error}\n{}", running.printed()));
    running.kill();
    assert!(is_ours(), "nobody was left to put it back");
}

fn send(message: &str) -> Value {
    json!({"tool": "channel_send", "arguments": {"message": message}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_goes_on_with_its_conversation() {
    let (daemon, user) = stage().await;
    let one = json!([[send("@two are you there?"), {"say": "Asked."}], [{"say": "Good."}]]);
    let two = json!([[send("@one I am"), {"say": "Answered."}]]);
    let agents = [agent(&daemon, "one", &one), agent(&daemon, "two", &two)].concat();
    user.runs(&daemon, &format!("agents:\n{agents}kickoff: \"@one begin\"\n")).await;
    let said: Vec<_> = channel(&daemon).into_iter().filter(|(by, _)| by != "system").collect();
    let said: Vec<_> = said.iter().map(|(by, text)| (by.as_str(), text.as_str())).collect();
    assert_eq!(said, [("one", "@two are you there?"), ("two", "@one I am"), ("one", "Good.")]);
    assert!(turns(&daemon).iter().all(|turn| turn["how"] == "done"));
    user.is_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_two_at_once_share_the_file_and_each_speaks_for_itself() {
    let (daemon, user) = stage().await;
    let greets = |name: &str| json!([[send(&format!("{name} is here")), {"say": "Done."}]]);
    let agents = ["one", "two", "three"].map(|name| agent(&daemon, name, &greets(name))).concat();
    user.runs(&daemon, &format!("agents:\n{agents}kickoff: \"@one @two @three begin\"\n")).await;
    let mut said: Vec<_> = channel(&daemon).into_iter().filter(|(by, _)| by != "system").collect();
    said.sort();
    let expected = ["one", "three", "two"].map(|name| (name.to_owned(), format!("{name} is here")));
    assert_eq!(said, expected);
    user.is_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_a_kill_in_the_middle_of_a_turn_is_put_right_by_the_next_run() {
    let (daemon, user) = stage().await;
    let team = agent(&daemon, "one", &json!([[{"hang": true}]]));
    let workflow = format!("agents:\n{team}kickoff: \"@one begin\"\n");
    std::fs::write(daemon.root().join("team.yaml"), &workflow).unwrap();
    killed_in_a_turn(&daemon, &user).await;
    // Another team, without Cursor, is enough.
    let mock = "agents:\n  m:\n    backend: mock\n    script: [{say: hello}]\nkickoff: \"@m begin\"\n";
    std::fs::write(daemon.root().join("mock.yaml"), mock).unwrap();
    let mut other = user.starts(&daemon, &["run", "mock.yaml", "--instance", "other"]);
    assert_eq!(other.ended().await, Some(0), "{}", other.printed());
    user.is_untouched();
    // And the team goes on where it was.
    agent(&daemon, "one", &json!([[send("here I am"), {"say": "Done."}]]));
    user.runs(&daemon, &workflow).await;
    assert_eq!(channel(&daemon).iter().filter(|(_, text)| text == "here I am").count(), 1);
    user.is_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_whoever_ends_a_team_whose_runner_was_killed_puts_the_file_back() {
    let (daemon, user) = stage().await;
    let team = agent(&daemon, "one", &json!([[{"hang": true}]]));
    std::fs::write(daemon.root().join("team.yaml"), format!("agents:\n{team}kickoff: \"@one begin\"\n")).unwrap();
    killed_in_a_turn(&daemon, &user).await;
    let mut stop = user.starts(&daemon, &["stop", "--all"]);
    assert_eq!(stop.ended().await, Some(0), "{}", stop.printed());
    user.is_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_contract_fake_tools_cannot_be_limited_and_that_is_said() {
    let (daemon, user) = stage().await;
    let team = agent(&daemon, "one", &json!([]));
    let workflow = format!("agents:\n{team}    tools: [channel_send]\nkickoff: \"@one begin\"\n");
    let (code, printed) = user.ends(&daemon, &workflow).await;
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("Cursor cannot be limited"), "{printed}");
    user.is_untouched();
}
