//! Agents that call models directly, in whole teams: real daemon, real runner, scripted model server.

use rookery_testkit::model::{ModelServer, Script};
use rookery_testkit::wait::eventually;
use serde_json::json;

use crate::stage::Stage;

type Outcome = anyhow::Result<()>;

/// The documented review team with another model.
fn review(url: &str) -> String {
    format!(
        r#"
name: review
context:

agents:
  reviewer:
    model: anthropic/claude-sonnet-4-5
    provider: {{base_url: "{url}"}}
    env: {{ANTHROPIC_API_KEY: the-key-of-reviewer}}
    system_prompt: |
      You review code for quality and issues.
      Use the channel tool to communicate.
      Use the document tool to record findings.

setup:
  - shell: printf 'line 42 of the diff'
    as: diff

kickoff: |
  Please review this PR:

  ${{{{ diff }}}}

  @reviewer
"#
    )
}

const REVIEWER: &str = "the-key-of-reviewer";
const FINDINGS: &str = "# Findings\n\n1. no check in line 42\n";

fn review_script(script: Script) -> Script {
    script
        .call_all("I look around.", [("inbox_check", json!({})), ("document_read", json!({}))])
        .call("document_write", |_| Ok(json!({"content": FINDINGS, "base_version": 0})))
        .call("channel_send", |_| Ok(json!({"message": "One finding, see the notes"})))
        .say("I have told everybody.")
}

fn trimmed_texts(channel: &[(String, String)]) -> Vec<(&str, &str)> {
    channel.iter().map(|(from, text)| (from.as_str(), text.trim_end())).collect()
}

#[tokio::test]
async fn review_team_runs_as_documented_with_a_model() -> Outcome {
    let models = ModelServer::start([(REVIEWER, review_script(Script::new().fail(529, "overloaded")))]).await?;
    let stage = Stage::new()?;
    stage.save("review.yaml", &review(models.url()))?;
    let output = stage.run(&["run", "review.yaml"]).await?;
    models.check_finished(REVIEWER)?;
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), FINDINGS), "{output:?}");
    let channel = stage.channel("default").await?;
    let texts = trimmed_texts(&channel);
    assert_eq!(texts[2..], [("reviewer", "One finding, see the notes")], "its other text is not posted: {texts:?}");
    stage.check_acknowledged_once().await?;
    let turns = stage.turns("@default").await?;
    let usage = &turns[0]["usage"];
    assert_eq!(
        (turns.len(), &usage["input_tokens"], &usage["output_tokens"]),
        (1, &json!(40), &json!(20)),
        "{turns:?}"
    );
    let requests = models.requests(REVIEWER);
    assert!(requests[0].system.contains("You review code for quality and issues."), "{}", requests[0].system);
    assert!(requests[0].body["messages"].to_string().contains("line 42 of the diff"));
    let tools: Vec<&str> = requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    for tool in ["channel_send", "document_append", "task_claim", "bash", "read", "edit"] {
        assert!(tools.contains(&tool), "{tool} in {tools:?}");
    }
    assert!(!tools.contains(&"inbox_wait"), "{tools:?}");
    stage.daemon.replay_verify()
}

/// A team in which each agent has another model provider.
fn team(url: &str) -> String {
    format!(
        r#"
name: mixed
agents:
  planner:
    model: anthropic/claude
    provider: {{base_url: "{url}"}}
    env: {{ANTHROPIC_API_KEY: planner}}
    tools: [channel_send]
  coder:
    model: lab/some/model
    provider: {{base_url: "{url}/v1", api_key: $HOME}}
    tools: [channel_send, edit]
  tester:
    model: ollama/tester
    provider: {{base_url: "{url}"}}
    tools: [channel_send, bash, read]
    sandbox: false
  judge:
    model: google/gemini
    provider: {{base_url: "{url}"}}
    env: {{GEMINI_API_KEY: judge}}
    tools: []
kickoff: "@planner please"
"#
    )
}

#[tokio::test]
async fn four_model_providers_work_as_one_team() -> Outcome {
    let home = std::env::var("HOME")?;
    let say =
        |message: &'static str| move |_: &rookery_testkit::model::ToolHistory<'_>| Ok(json!({"message": message}));
    let planner = Script::new().call("channel_send", say("@coder make hello.txt")).say("planned");
    let coder = Script::new()
        .call("edit", |_| Ok(json!({"path": "made/hello.txt", "new": "hello\n"})))
        .call("edit", |_| Ok(json!({"path": "../outside.txt", "new": "hello\n"})))
        .call("channel_send", |story| {
            let rejected = story.result("edit")?;
            anyhow::ensure!(rejected.to_string().contains("outside of your folder"), "{rejected}");
            Ok(json!({"message": "@tester it is there"}))
        })
        .say("made");
    let tester = Script::new()
        .call("bash", |_| Ok(json!({"command": "cat made/hello.txt; echo $ROOKERY_AGENT_ID; exit 3"})))
        .call("channel_send", |story| {
            let printed = story.result("bash")?;
            let printed = printed.as_str().unwrap_or_default();
            anyhow::ensure!(printed == "hello\ntester@mixed\n[it ended with code 3]", "{printed:?}");
            Ok(json!({"message": "@judge it says hello"}))
        })
        .say("tested");
    let scripts = [("planner", planner), (home.as_str(), coder), ("tester", tester)];
    let models = ModelServer::start(scripts.into_iter().chain([("judge", Script::new())])).await?;
    let stage = Stage::new()?;
    stage.save("mixed.yaml", &team(models.url()))?;
    let output = stage.run(&["run", "mixed.yaml", "--instance", "mixed"]).await?;
    for key in ["planner", home.as_str(), "tester"] {
        models.check_finished(key)?;
    }
    assert_eq!(output.code, Some(0), "{output:?}");
    let channel = stage.channel("mixed").await?;
    let expected = [
        ("planner", "@coder make hello.txt"),
        ("coder", "@tester it is there"),
        ("tester", "@judge it says hello"),
        // An agent without tools gets its answer posted.
        ("judge", "ok"),
    ];
    assert_eq!(trimmed_texts(&channel)[2..], expected);
    assert!(!stage.daemon.root().join("../outside.txt").exists());
    stage.check_acknowledged_once().await?;
    stage.daemon.replay_verify()
}

#[tokio::test]
async fn rejected_api_key_ends_the_run_and_names_its_variable() -> Outcome {
    let script = Script::new().fail_for_good(401, "invalid x-api-key");
    let models = ModelServer::start([(REVIEWER, script)]).await?;
    let stage = Stage::new()?;
    stage.save("review.yaml", &review(models.url()))?;
    let output = stage.run(&["run", "review.yaml"]).await?;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains("invalid x-api-key") && output.stderr.contains("ANTHROPIC_API_KEY"),
        "{}",
        output.stderr
    );
    assert!(!output.stderr.contains(REVIEWER) && !output.stdout.contains(REVIEWER), "{output:?}");
    assert_eq!(models.requests(REVIEWER).len(), 1, "the model is not called again");
    let turns = stage.turns("@default").await?;
    assert!(turns.len() == 1 && turns[0]["error"]["hint"].to_string().contains("ANTHROPIC_API_KEY"), "{turns:?}");
    Ok(())
}

#[tokio::test]
async fn rate_limited_account_delays_only_its_agents() -> Outcome {
    const SHARED: &str = "the-key-of-two-agents";
    let models = ModelServer::start([(SHARED, Script::new().limit(300).say("Never."))]).await?;
    let stage = Stage::new()?;
    let limited = format!(
        "{{model: anthropic/claude-sonnet-4-5, provider: {{base_url: \"{}\"}}, env: {{ANTHROPIC_API_KEY: {SHARED}}}}}",
        models.url()
    );
    let other = "{backend: mock, script: {turns: [{say: \"${{ inbox.text }}, indeed\"}], then: repeat}}";
    let file = format!("agents:\n  one: {limited}\n  two: {limited}\n  three: {other}\nkickoff: \"@one begin\"\n");
    stage.save("team.yaml", &file)?;
    let runner = stage.start(&["run", "team.yaml"])?;
    eventually("the account is out of requests", async || {
        Ok(stage.turns("@default").await?.iter().any(|turn| turn["outcome"] == "failed").then_some(()))
    })
    .await?;
    for text in ["@two @three first", "@two @three second"] {
        stage.as_person("/teams/@default/announcements", json!({ "text": text })).await?;
        wait_for_message(&stage, &format!("{text}, indeed")).await?;
    }
    let turns = stage.turns("@default").await?;
    assert!(!turns.iter().any(|turn| turn["agent"] == "two@default"), "agent two shares the account: {turns:?}");
    assert_eq!(models.requests(SHARED).len(), 1);
    runner.interrupt()?;
    let output = runner.finish().await?;
    assert_eq!(output.code, Some(130), "{output:?}");
    assert!(output.stderr.contains("all agents that use anthropic (ANTHROPIC_API_KEY) wait 300 s"), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn turn_is_repeated_after_runner_crash_during_a_model_call() -> Outcome {
    let models = ModelServer::start([(REVIEWER, review_script(Script::new().stall()))]).await?;
    let stage = Stage::new()?;
    stage.save("review.yaml", &review(models.url()))?;
    let runner = stage.start(&["run", "review.yaml"])?;
    eventually("the model is asked", async || Ok((!models.requests(REVIEWER).is_empty()).then_some(()))).await?;
    runner.kill()?;
    let output = stage.run(&["run", "review.yaml"]).await?;
    models.check_finished(REVIEWER)?;
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), FINDINGS), "{output:?}");
    assert_eq!(trimmed_texts(&stage.channel("default").await?)[2..], [("reviewer", "One finding, see the notes")]);
    stage.check_acknowledged_once().await?;
    stage.daemon.replay_verify()
}

async fn wait_for_message(stage: &Stage, text: &str) -> Outcome {
    eventually("the message is posted", async || {
        let channel = stage.channel("default").await?;
        Ok(channel.iter().any(|(_, message)| message.trim_end() == text).then_some(()))
    })
    .await
}

#[tokio::test]
async fn agent_remembers_its_turns_across_a_restart() -> Outcome {
    let script = Script::new().say("It is forty-two.").say("As I said: forty-two.");
    let models = ModelServer::start([(REVIEWER, script)]).await?;
    let stage = Stage::new()?;
    stage.save("review.yaml", &review(models.url()))?;
    let runner = stage.start(&["start", "review.yaml"])?;
    wait_for_message(&stage, "It is forty-two.").await?;
    // The turn ends before the next one starts.
    eventually("the turn has ended", async || {
        let turns = stage.turns("@default").await?;
        Ok(turns.iter().all(|turn| turn["outcome"] == "done").then_some(()))
    })
    .await?;
    runner.kill()?;
    let runner = stage.start(&["start", "review.yaml"])?;
    let sent = stage.run(&["send", "what was it?", "--to", "reviewer"]).await?;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    wait_for_message(&stage, "As I said: forty-two.").await?;
    let request = models.requests(REVIEWER).pop().unwrap();
    assert_eq!(request.said, ["It is forty-two."]);
    runner.interrupt()?;
    runner.finish().await?;
    Ok(())
}
