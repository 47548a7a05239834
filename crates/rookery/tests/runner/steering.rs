//! Control of teams through the daemon: starting a workflow file, and pausing agents.

use anyhow::Context;
use reqwest::{Method, StatusCode};
use rookery_testkit::daemon::{self, HttpReply};
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::stage::Stage;

type Outcome = anyhow::Result<()>;

const TEAM: &str = r#"
name: greeting
params:
  - {name: whom, default: world}
agents:
  coder: {backend: mock, script: [{say: "done for ${{ params.whom }}", times: always}]}
kickoff: "@coder greet ${{ params.whom }}"
"#;

async fn post_as_person(stage: &Stage, path: &str, body: Value) -> anyhow::Result<HttpReply> {
    let request = stage.daemon.request(Method::POST, path).bearer_auth(stage.daemon.person_key()?);
    daemon::read(request.json(&body)).await
}

async fn count_events(stage: &Stage, kind: &str) -> anyhow::Result<usize> {
    Ok(stage.events(&format!("x.{kind}")).await?.len())
}

#[tokio::test]
async fn person_starts_a_workflow_file_through_the_daemon() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", TEAM)?;
    let listed = stage.daemon.get("/team-files").await?.body;
    assert_eq!(listed["files"], json!([{"path": "team.yaml", "name": "greeting"}]));

    let file = json!({"file": "team.yaml", "params": ["--whom", "anna"]});
    let checked = post_as_person(&stage, "/teams/@pr-1/dry-run", file.clone()).await?;
    assert_eq!((&checked.body["ok"], &checked.body["reason"]), (&json!(true), &Value::Null), "{}", checked.body);
    assert!(checked.body["plan"].to_string().contains("greet anna"), "{}", checked.body);
    assert_eq!(count_events(&stage, "team.start_requested").await?, 0, "a dry run starts nothing");

    let start = post_as_person(&stage, "/teams/@pr-1/start-request", file).await?;
    assert_eq!(start.status, StatusCode::OK, "{}", start.body);
    assert_eq!((&start.body["live"], &start.body["workflow"]), (&json!(true), &json!("greeting")));
    eventually("the agent answers", async || {
        let messages = stage.events("x.message.sent").await?;
        Ok(messages.iter().any(|event| event["metadata"]["text"] == "done for anna").then_some(()))
    })
    .await?;
    for (kind, count) in
        [("team.start_requested", 1), ("team.spawned", 1), ("team.started", 1), ("team.start_failed", 0)]
    {
        assert_eq!(count_events(&stage, kind).await?, count, "{kind}");
    }
    let again = post_as_person(&stage, "/teams/@pr-1/start-request", json!({"file": "team.yaml"})).await?;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.body);
    assert_eq!(count_events(&stage, "team.start_failed").await?, 1);
    stage.run(&["stop", "--all"]).await?;
    Ok(())
}

#[tokio::test]
async fn invalid_team_start_is_rejected_and_leaves_no_team() -> Outcome {
    let stage = Stage::new()?;
    stage.save("bad.yaml", "agents:\n  coder: {backend: mock, scrpt: []}\nkickoff: '@coder go'\n")?;
    let checked = post_as_person(&stage, "/teams/@pr-1/dry-run", json!({"file": "bad.yaml"})).await?.body;
    assert_eq!(checked["ok"], false);
    assert!(checked["faults"].to_string().contains("script"), "the intended key is suggested: {checked}");

    let start = post_as_person(&stage, "/teams/@pr-1/start-request", json!({"file": "bad.yaml"})).await?;
    assert_eq!(start.status, StatusCode::CONFLICT, "{}", start.body);
    let failed = stage.events("x.team.start_failed").await?;
    assert_eq!(failed.len(), 1);
    for (team, file, status) in [
        ("@pr-1", "../outside.yaml", StatusCode::BAD_REQUEST),
        ("@pr-1", "/etc/hostname", StatusCode::BAD_REQUEST),
        ("@pr-1", "missing.yaml", StatusCode::BAD_REQUEST),
        ("helper", "bad.yaml", StatusCode::BAD_REQUEST),
    ] {
        for call in ["dry-run", "start-request"] {
            let reply = post_as_person(&stage, &format!("/teams/{team}/{call}"), json!({"file": file})).await?;
            assert_eq!(reply.status, status, "{team} {file} {call}: {}", reply.body);
        }
    }
    let anonymous = stage.daemon.request(Method::POST, "/teams/@pr-1/start-request").json(&json!({"file": "bad.yaml"}));
    assert_eq!(anonymous.send().await?.status(), StatusCode::FORBIDDEN);
    assert_eq!(
        (count_events(&stage, "team.start_requested").await?, count_events(&stage, "team.started").await?),
        (1, 0)
    );
    Ok(())
}

#[tokio::test]
async fn paused_agent_is_not_woken_until_resumed() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", TEAM)?;
    let output = stage.run(&["start", "team.yaml", "--background", "--instance", "pr-1", "--json"]).await?;
    let log = output.json()?["log"].as_str().context("no log")?.to_owned();
    let turns = async |count: usize| {
        eventually("the turns have ended", async || {
            let all = stage.turns("@pr-1").await?;
            let ended = all.iter().filter(|turn| turn["outcome"] == "done").count();
            Ok((ended == count).then_some(()))
        })
        .await
    };
    turns(1).await?;

    let output = stage.run(&["pause", "coder@pr-1", "--reason", "the budget"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let output = stage.run(&["send", "more", "--to", "coder@pr-1"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    // The runner reads the message and logs why it does not act.
    eventually("the runner holds it", async || {
        Ok(std::fs::read_to_string(&log)?.contains("paused by person").then_some(()))
    })
    .await?;
    assert_eq!(stage.turns("@pr-1").await?.len(), 1);
    let agents = stage.run(&["agents"]).await?;
    assert!(agents.stdout.contains("paused"), "{agents:?}");

    let output = stage.run(&["resume", "coder@pr-1"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    turns(2).await?;
    stage.run(&["stop", "--all"]).await?;
    Ok(())
}

#[tokio::test]
async fn team_of_dead_runner_is_lost_and_force_ended_by_a_person() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", TEAM)?;
    let output = stage.run(&["start", "team.yaml", "--background", "--instance", "pr-1", "--json"]).await?;
    let pid = i32::try_from(output.json()?["pid"].as_u64().context("no pid")?)?;
    let early = post_as_person(&stage, "/teams/@pr-1/force-end", json!({})).await?;
    assert_eq!(early.status, StatusCode::CONFLICT, "{}", early.body);
    let pid = rustix::process::Pid::from_raw(pid).context("no pid")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    eventually("the team is lost", async || Ok((stage.team("@pr-1").await?["lost"] == true).then_some(()))).await?;
    let ended = post_as_person(&stage, "/teams/@pr-1/force-end", json!({})).await?;
    assert_eq!(ended.status, StatusCode::OK, "{}", ended.body);
    assert_eq!((&ended.body["live"], &ended.body["lost"]), (&json!(false), &json!(false)), "{}", ended.body);
    Ok(())
}
