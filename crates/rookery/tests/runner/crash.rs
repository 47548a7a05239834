//! Teams whose runner or daemon dies: nothing is lost, nothing is done twice, and a repeated turn lists earlier
//! actions.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::stage::Stage;

type Outcome = anyhow::Result<()>;

/// A team of three that passes work around; whatever dies, it ends with the same texts.
const RELAY: &str = r#"
name: relay
agents:
  one:
    backend: mock
    script:
      turns:
        - do: [{append: "one\n"}, {wait: 20ms}, {send: "@two your turn"}]
          times: 4
  two:
    backend: mock
    script:
      turns:
        - do: [{wait: 20ms}, {append: "two\n"}, {send: "@three your turn"}]
          times: 4
  three:
    backend: mock
    script:
      turns:
        - do: [{append: "three\n"}, {send: "@one your turn"}, {wait: 20ms}]
          times: 3
        - do: [{append: "end\n"}, {say: That was all.}]
setup:
  - shell: echo ran >> setup.txt; echo data
    as: data
kickoff: "@one begin with ${{ data }}"
"#;

/// The result of a run, which must not depend on crashes.
#[derive(Debug, PartialEq)]
struct RunResult {
    document: Value,
    channel: Vec<(String, String)>,
}

async fn run_to_the_end(stage: &Stage) -> anyhow::Result<RunResult> {
    let output = stage.run(&["run", "relay.yaml", "--json"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    stage.check_acknowledged_once().await?;
    assert_eq!(std::fs::read_to_string(stage.daemon.root().join("setup.txt"))?, "ran\n", "setup runs once");
    Ok(RunResult { document: output.json()?["document"]["text"].clone(), channel: stage.channel("default").await? })
}

async fn run_undisturbed() -> anyhow::Result<RunResult> {
    let stage = Stage::new()?;
    stage.save("relay.yaml", RELAY)?;
    run_to_the_end(&stage).await
}

#[tokio::test]
async fn repeated_runner_crashes_lead_to_the_same_end() -> Outcome {
    let expected = run_undisturbed().await?;
    assert_eq!(expected.document.as_str().map(|text| text.lines().count()), Some(12), "{expected:?}");
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(seed);
        let stage = Stage::new()?;
        stage.save("relay.yaml", RELAY)?;
        let mut runner = stage.start(&["run", "relay.yaml"])?;
        // After the kickoff: a crash before it repeats setup, which another test covers.
        eventually("the team is kicked off", async || {
            Ok((stage.team("@default").await?["kicked_off"] == true).then_some(()))
        })
        .await?;
        for _ in 0..4 {
            let count = stage.daemon.get("/status").await?.body["event_count"].as_u64().unwrap_or_default();
            let wanted = count + random.random_range(1..12);
            eventually("the log grows or the runner exits", async || {
                let status = stage.daemon.get("/status").await?.body;
                Ok((status["event_count"].as_u64() >= Some(wanted) || runner.has_exited()?).then_some(()))
            })
            .await?;
            if runner.has_exited()? {
                break;
            }
            runner.kill()?;
            runner = stage.start(&["run", "relay.yaml"])?;
        }
        let output = runner.finish().await?;
        assert_eq!(output.code, Some(0), "seed {seed}: {output:?}");
        stage.check_acknowledged_once().await?;
        let document = stage.team("@default").await?;
        assert_eq!(document["generation"], json!(1), "seed {seed}: the same team resumed");
        assert_eq!(stage.channel("default").await?, expected.channel, "seed {seed}");
        assert_eq!(json!(output.stdout), expected.document, "seed {seed}");
        assert_eq!(std::fs::read_to_string(stage.daemon.root().join("setup.txt"))?, "ran\n");
        stage.daemon.replay_verify()?;
    }
    Ok(())
}

#[tokio::test]
async fn runner_crash_before_kickoff_repeats_setup_in_one_team() -> Outcome {
    let expected = run_undisturbed().await?;
    let stage = Stage::new()?;
    let setup = "echo ran >> setup.txt; [ -e once ] || { touch once; exec sleep 6543; }; echo data";
    stage.save("relay.yaml", &RELAY.replace("echo ran >> setup.txt; echo data", setup))?;
    let runner = stage.start(&["run", "relay.yaml"])?;
    eventually("setup runs", async || Ok(stage.daemon.root().join("once").exists().then_some(()))).await?;
    runner.kill()?;
    eventually("the setup command died with the runner", async || Ok((!stage.is_running("sleep 6543")).then_some(())))
        .await?;
    let output = stage.run(&["run", "relay.yaml"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(stage.team("@default").await?["generation"], json!(1), "the same team resumed");
    assert_eq!(stage.channel("default").await?, expected.channel);
    assert_eq!(std::fs::read_to_string(stage.daemon.root().join("setup.txt"))?, "ran\nran\n", "setup had not ended");
    stage.check_acknowledged_once().await
}

#[tokio::test]
async fn daemon_crash_during_a_run_is_survived_by_the_runner() -> Outcome {
    let expected = run_undisturbed().await?;
    for seed in 10..13 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut stage = Stage::new()?;
        stage.save("relay.yaml", RELAY)?;
        let runner = stage.start(&["run", "relay.yaml"])?;
        for _ in 0..3 {
            let count = stage.daemon.get("/status").await?.body["event_count"].as_u64().unwrap_or_default();
            let wanted = count + random.random_range(1..15);
            eventually("the log grows or the runner exits", async || {
                let status = stage.daemon.get("/status").await?.body;
                Ok((status["event_count"].as_u64() >= Some(wanted) || runner.has_exited()?).then_some(()))
            })
            .await?;
            stage.daemon.restart()?;
        }
        let output = runner.finish().await?;
        assert_eq!(output.code, Some(0), "seed {seed}: {output:?}");
        stage.check_acknowledged_once().await?;
        assert_eq!(stage.channel("default").await?, expected.channel, "seed {seed}");
        assert_eq!(json!(output.stdout), expected.document, "seed {seed}");
    }
    Ok(())
}

/// One agent that gives up, and one that hangs.
const HALF_LOST: &str = r#"
agents:
  unlucky: {backend: command, sandbox: false, command: [no-such-program-anywhere]}
  slow:
    backend: command
    sandbox: false
    command: [sh, -c, "cat > /dev/null; if [ -e once ]; then echo Done.; else touch once; exec sleep 600; fi"]
kickoff: "@unlucky @slow go"
"#;

#[tokio::test]
async fn given_up_message_stays_given_up_after_a_crash() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", HALF_LOST)?;
    let runner = stage.start(&["run", "team.yaml"])?;
    eventually("one agent gave up and the other works", async || {
        let turns = stage.turns("@default").await?;
        let gave_up = turns.iter().any(|turn| turn["gave_up"] == true);
        Ok((gave_up && stage.daemon.root().join("once").exists()).then_some(()))
    })
    .await?;
    runner.kill()?;
    let output = stage.run(&["run", "team.yaml", "--json"]).await?;
    assert_eq!(output.code, Some(1), "the same end as without the crash: {output:?}");
    let summary = output.json()?;
    assert!(summary["reason"].as_str().is_some_and(|reason| reason.contains("unlucky gave up")), "{summary}");
    let ok: Vec<_> = summary["agents"].as_array().into_iter().flatten().map(|agent| agent["ok"].clone()).collect();
    assert_eq!(ok, [json!(true), json!(false)], "{summary}");
    Ok(())
}

/// An agent that is a program: its first turn acts and hangs, the next one saves its prompt.
const REPEATED: &str = r#"
agents:
  worker:
    backend: command
    sandbox: false
    command:
      - sh
      - -c
      - |
        cat > prompt.txt
        if [ -e once ]; then cp prompt.txt second.txt; echo I resumed.; exit 0; fi
        touch once
        "$PROGRAM" context doc append "half done" >/dev/null
        exec sleep 600
    env: {PROGRAM: "${{ env.TEST_PROGRAM }}"}
kickoff: "@worker go"
"#;

#[tokio::test]
async fn repeated_turn_lists_its_earlier_actions_and_leaves_no_process() -> Outcome {
    let stage = Stage::new()?;
    let file = REPEATED.replace("${{ env.TEST_PROGRAM }}", env!("CARGO_BIN_EXE_rookery"));
    stage.save("team.yaml", &file.replace("sleep 600", "sleep 7654"))?;
    let runner = stage.start(&["run", "team.yaml"])?;
    eventually("the agent wrote its document", async || {
        let written = stage.events("x.document.written").await?;
        let is_its = |event: &Value| event["agent_id"] == "worker@default";
        Ok(written.iter().any(is_its).then_some(()))
    })
    .await?;
    runner.kill()?;
    eventually(
        "the agent's program died with the runner",
        async || Ok((!stage.is_running("sleep 7654")).then_some(())),
    )
    .await?;
    let output = stage.run(&["run", "team.yaml"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let prompt = std::fs::read_to_string(stage.daemon.root().join("second.txt"))?;
    assert!(prompt.contains("This is attempt 2") && prompt.contains("It already did the following"), "{prompt}");
    let turns = stage.turns("@default").await?;
    let shown: Vec<_> = turns.iter().map(|turn| (turn["attempt"].clone(), turn["outcome"].clone())).collect();
    assert_eq!(shown, [(json!(1), json!("interrupted")), (json!(2), json!("done"))]);
    let channel = stage.channel("default").await?;
    assert_eq!(channel.iter().filter(|(from, _)| from == "system").count(), 2, "no second kickoff: {channel:?}");
    stage.check_acknowledged_once().await
}
