//! The runner is killed while a program works: the user's configuration is unchanged, and the next run does the work.

use rookery_testkit::model::{ModelServer, Script};
use rookery_testkit::wait::eventually;
use serde_json::json;

use crate::programs::setup;
use crate::runs::{agent, channel, turns};
use crate::user::User;

async fn kill_during_turn(backend: &'static str) {
    let daemon = setup().start().unwrap();
    let send = |_: &rookery_testkit::model::ToolHistory<'_>| Ok(json!({"message": "I am back"}));
    // The first request is never answered.
    let script = Script::new().hang().call("channel_send", send).say("Done.");
    let model = ModelServer::start([("solo", script)]).await.unwrap();
    let user = User::new(&daemon, &model);
    let workflow = format!("agents:\n{}kickoff: \"@solo begin\"\n", agent("solo", backend, &model));
    std::fs::write(daemon.root().join("team.yaml"), &workflow).unwrap();
    let mut running = user.start(&daemon, &["run", "team.yaml"]);
    let requested = async || Ok((!model.requests("solo").is_empty()).then_some(()));
    let waited = eventually("the model is asked", requested).await;
    waited.unwrap_or_else(|error| panic!("{error}\n{}", running.printed()));
    running.kill();
    user.assert_untouched();
    user.run_ok(&daemon, &workflow).await;
    model.check_finished("solo").unwrap();
    user.assert_untouched();
    assert_eq!(channel(&daemon).iter().filter(|(_, text)| text == "I am back").count(), 1);
    let outcomes: Vec<_> = turns(&daemon).iter().map(|turn| turn["how"].clone()).collect();
    assert_eq!(outcomes, ["interrupted", "done"]);
    daemon.replay_verify().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runner_crash_during_claude_turn_loses_nothing() {
    kill_during_turn("claude").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runner_crash_during_codex_turn_loses_nothing() {
    kill_during_turn("codex").await;
}
