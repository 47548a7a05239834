//! What people do to teams from elsewhere than their terminal: starting a workflow file through the daemon, and pausing agents.

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

async fn asks(stage: &Stage, path: &str, body: Value) -> anyhow::Result<HttpReply> {
    let request = stage.daemon.request(Method::POST, path).bearer_auth(stage.daemon.person_key()?);
    daemon::read(request.json(&body)).await
}

async fn kinds(stage: &Stage, kind: &str) -> anyhow::Result<usize> {
    Ok(stage.events(&format!("x.{kind}")).await?.len())
}

#[tokio::test]
async fn a_person_starts_a_workflow_file_through_the_daemon() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", TEAM)?;
    let listed = stage.daemon.get("/team-files").await?.body;
    assert_eq!(listed["files"], json!([{"path": "team.yaml", "name": "greeting"}]));

    let file = json!({"file": "team.yaml", "params": ["--whom", "anna"]});
    let checked = asks(&stage, "/teams/@pr-1/dry-run", file.clone()).await?;
    assert_eq!((&checked.body["ok"], &checked.body["reason"]), (&json!(true), &Value::Null), "{}", checked.body);
    assert!(checked.body["plan"].to_string().contains("greet anna"), "{}", checked.body);
    assert_eq!(kinds(&stage, "team.start_requested").await?, 0, "checking does nothing");

    let launched = asks(&stage, "/teams/@pr-1/start-request", file).await?;
    assert_eq!(launched.status, StatusCode::OK, "{}", launched.body);
    assert_eq!((&launched.body["live"], &launched.body["workflow"]), (&json!(true), &json!("greeting")));
    eventually("the agent answers", async || {
        let said = stage.events("x.message.sent").await?;
        Ok(said.iter().any(|event| event["metadata"]["text"] == "done for anna").then_some(()))
    })
    .await?;
    for (kind, count) in
        [("team.start_requested", 1), ("team.spawned", 1), ("team.started", 1), ("team.start_failed", 0)]
    {
        assert_eq!(kinds(&stage, kind).await?, count, "{kind}");
    }
    let again = asks(&stage, "/teams/@pr-1/start-request", json!({"file": "team.yaml"})).await?;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.body);
    assert_eq!(kinds(&stage, "team.start_failed").await?, 1);
    stage.run(&["stop", "--all"]).await?;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_started_is_told_and_leaves_nothing_behind() -> Outcome {
    let stage = Stage::new()?;
    stage.save("bad.yaml", "agents:\n  coder: {backend: mock, scrpt: []}\nkickoff: '@coder go'\n")?;
    let checked = asks(&stage, "/teams/@pr-1/dry-run", json!({"file": "bad.yaml"})).await?.body;
    assert_eq!(checked["ok"], false);
    assert!(checked["faults"].to_string().contains("script"), "the key that was meant: {checked}");

    let launched = asks(&stage, "/teams/@pr-1/start-request", json!({"file": "bad.yaml"})).await?;
    assert_eq!(launched.status, StatusCode::CONFLICT, "{}", launched.body);
    let failed = stage.events("x.team.start_failed").await?;
    assert_eq!(failed.len(), 1);
    for (team, file, status) in [
        ("@pr-1", "../outside.yaml", StatusCode::BAD_REQUEST),
        ("@pr-1", "/etc/hostname", StatusCode::BAD_REQUEST),
        ("@pr-1", "missing.yaml", StatusCode::BAD_REQUEST),
        ("helper", "bad.yaml", StatusCode::BAD_REQUEST),
    ] {
        for call in ["dry-run", "start-request"] {
            let reply = asks(&stage, &format!("/teams/{team}/{call}"), json!({"file": file})).await?;
            assert_eq!(reply.status, status, "{team} {file} {call}: {}", reply.body);
        }
    }
    let nobody = stage.daemon.request(Method::POST, "/teams/@pr-1/start-request").json(&json!({"file": "bad.yaml"}));
    assert_eq!(nobody.send().await?.status(), StatusCode::FORBIDDEN);
    assert_eq!((kinds(&stage, "team.start_requested").await?, kinds(&stage, "team.started").await?), (1, 0));
    Ok(())
}

#[tokio::test]
async fn an_agent_that_is_paused_is_not_woken_until_it_may_go_on() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", TEAM)?;
    let ran = stage.run(&["start", "team.yaml", "--background", "--instance", "pr-1", "--json"]).await?;
    let log = ran.json()?["log"].as_str().context("no log")?.to_owned();
    let turns = async |count: usize| {
        eventually("the turns are over", async || {
            let all = stage.turns("@pr-1").await?;
            let over = all.iter().filter(|turn| turn["outcome"] == "done").count();
            Ok((over == count).then_some(()))
        })
        .await
    };
    turns(1).await?;

    let ran = stage.run(&["pause", "coder@pr-1", "--reason", "the budget"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = stage.run(&["send", "more", "--to", "coder@pr-1"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Its runner looks at the message and says why nothing happens.
    eventually("the runner holds it", async || {
        Ok(std::fs::read_to_string(&log)?.contains("paused by person").then_some(()))
    })
    .await?;
    assert_eq!(stage.turns("@pr-1").await?.len(), 1);
    let agents = stage.run(&["agents"]).await?;
    assert!(agents.stdout.contains("paused"), "{agents:?}");

    let ran = stage.run(&["resume", "coder@pr-1"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    turns(2).await?;
    stage.run(&["stop", "--all"]).await?;
    Ok(())
}

#[tokio::test]
async fn a_team_whose_runner_is_gone_is_told_as_that_and_ended_by_a_person() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", TEAM)?;
    let ran = stage.run(&["start", "team.yaml", "--background", "--instance", "pr-1", "--json"]).await?;
    let pid = i32::try_from(ran.json()?["pid"].as_u64().context("no pid")?)?;
    let early = asks(&stage, "/teams/@pr-1/force-end", json!({})).await?;
    assert_eq!(early.status, StatusCode::CONFLICT, "{}", early.body);
    let pid = rustix::process::Pid::from_raw(pid).context("no pid")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    eventually("it is lost", async || Ok((stage.team("@pr-1").await?["lost"] == true).then_some(()))).await?;
    let buried = asks(&stage, "/teams/@pr-1/force-end", json!({})).await?;
    assert_eq!(buried.status, StatusCode::OK, "{}", buried.body);
    assert_eq!((&buried.body["live"], &buried.body["lost"]), (&json!(false), &json!(false)), "{}", buried.body);
    Ok(())
}
