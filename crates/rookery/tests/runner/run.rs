//! `rookery run` and `rookery start` with scripted agents: the documented examples, the end of a run, limits, loops,
//! signals and
//! exit codes.

use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::stage::{CommandResult, Stage};

type Outcome = anyhow::Result<()>;

fn trimmed_texts(channel: &[(String, String)]) -> Vec<(&str, &str)> {
    channel.iter().map(|(from, text)| (from.as_str(), text.trim_end())).collect()
}

/// The first documented example, with a script in place of the model.
const REVIEW: &str = r##"
name: review
context:
agents:
  reviewer:
    backend: mock
    system_prompt: You review code for quality and issues.
    script:
      - do:
          - write: "# Findings\n\n1. no check in line 42\n"
          - say: "One finding, see the notes"
setup:
  - shell: printf 'line 42 of the diff'
    as: diff
kickoff: |
  Please review this PR:

  ${{ diff }}

  @reviewer
"##;

#[tokio::test]
async fn review_team_runs_as_documented() -> Outcome {
    let stage = Stage::new()?;
    stage.save("review.yaml", REVIEW)?;
    let output = stage.run(&["run", "review.yaml"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.stdout, "# Findings\n\n1. no check in line 42\n", "the result is the entry document");
    let kickoff = "Please review this PR:\n\nline 42 of the diff\n\n@reviewer";
    let expected = [("system", "Workflow started"), ("system", kickoff), ("reviewer", "One finding, see the notes")];
    assert_eq!(trimmed_texts(&stage.channel("default").await?), expected);
    stage.check_acknowledged_once().await?;
    let team = stage.team("@default").await?;
    assert_eq!((&team["live"], &team["outcome"], &team["turns"]), (&json!(false), &json!("completed"), &json!(1)));
    let agents = stage.daemon.get("/agents").await?.body;
    assert_eq!(agents.as_array().map(Vec::len), Some(0), "all agents have left: {agents}");
    stage.daemon.replay_verify()
}

/// The second documented example: a coordinator, a reviewer and a coder.
const COLLABORATION: &str = r#"
name: code-review
context:
agents:
  coordinator:
    backend: mock
    script:
      - when: orchestrate
        send: "@reviewer please look at the pull request"
      - when: verified
        do:
          - append: "Done: fixed and verified.\n"
          - say: All is well.
  reviewer:
    backend: mock
    script:
      - when: {from: system}
        pass: true
      - when: look at
        send: "@coder line 42 lacks a check"
      - when: fixed
        send: "@coordinator verified"
  coder:
    backend: mock
    script:
      - when: {from: system}
        pass: true
      - when: line 42
        do:
          - append: "Fixed line 42.\n"
          - say: "Fixed, @reviewer please verify"
setup:
  - shell: printf '{"title":"A check"}'
    as: pr_info
kickoff: |
  New PR to review:
  ${{ pr_info }}

  @coordinator please orchestrate the review.
  - Use @reviewer for code review
  - Use @coder for any fixes needed
"#;

#[tokio::test]
async fn team_of_three_collaborates_as_documented() -> Outcome {
    let stage = Stage::new()?;
    stage.save("review.yaml", COLLABORATION)?;
    let output = stage.run(&["run", "review.yaml", "--instance", "pr-123", "--json"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let summary = output.json()?;
    assert_eq!((&summary["outcome"], &summary["team"]), (&json!("completed"), &json!("@pr-123")));
    assert_eq!(summary["document"]["text"], "Fixed line 42.\nDone: fixed and verified.\n");
    let channel = stage.channel("pr-123").await?;
    assert_eq!(
        trimmed_texts(&channel)[2..],
        [
            ("coordinator", "@reviewer please look at the pull request"),
            ("reviewer", "@coder line 42 lacks a check"),
            ("coder", "Fixed, @reviewer please verify"),
            ("reviewer", "@coordinator verified"),
            ("coordinator", "All is well."),
        ]
    );
    assert_eq!(summary["messages"], json!(channel.len()));
    stage.check_acknowledged_once().await
}

#[tokio::test]
async fn file_without_first_mention_is_rejected_by_run_and_waits_in_start() -> Outcome {
    let stage = Stage::new()?;
    stage.save("quiet.yaml", "agents: {a: {backend: mock, script: [{say: \"Hello, @person\"}]}}\nkickoff: nobody\n")?;
    let output = stage.run(&["run", "quiet.yaml"]).await?;
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("mentions no agent"), "{output:?}");
    stage.save("wrong.yaml", "agents: {a: {backend: mock, skript: []}}\n")?;
    let output = stage.run(&["run", "wrong.yaml"]).await?;
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stdout.contains("did you mean `script`?"), "{output:?}");
    let started = stage.start(&["start", "quiet.yaml"])?;
    eventually("the team is kicked off", async || {
        Ok((stage.team("@default").await?["kicked_off"] == true).then_some(()))
    })
    .await?;
    started.interrupt()?;
    let output = started.finish().await?;
    assert_eq!(output.code, Some(130), "{output:?}");
    assert!(output.stderr.contains("waits for messages"), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn failed_turn_is_retried_then_given_up_visibly() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  lucky: {backend: mock, script: [{fail: the model is overloaded}, {say: done}]}
  unlucky: {backend: mock, script: {turns: [{fail: no luck}], then: repeat}}
kickoff: "@lucky @unlucky go"
"#;
    stage.save("team.yaml", file)?;
    let output = stage.run(&["run", "team.yaml"]).await?;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("no luck"), "{output:?}");
    let turns = stage.turns("@default").await?;
    let of = |agent: &str| -> Vec<(Value, Value)> {
        let own = turns.iter().filter(|turn| turn["agent"] == format!("{agent}@default"));
        own.map(|turn| (turn["attempt"].clone(), turn["outcome"].clone())).collect()
    };
    assert_eq!(of("lucky"), [(json!(1), json!("failed")), (json!(2), json!("done"))]);
    assert_eq!(of("unlucky"), [1, 2, 3, 4].map(|attempt| (json!(attempt), json!("failed"))));
    let counts = stage.acknowledgement_counts().await?;
    let acked: Vec<(&str, usize)> = counts.iter().map(|((_, agent), count)| (agent.as_str(), *count)).collect();
    assert_eq!(acked, [("lucky@default", 1), ("unlucky@default", 0)], "given-up messages are not acknowledged");
    let channel = stage.channel("default").await?;
    assert!(channel.iter().any(|(from, text)| from == "system" && text.contains("no luck")), "{channel:?}");
    assert_eq!(stage.team("@default").await?["outcome"], "failed");
    Ok(())
}

#[tokio::test]
async fn reached_limit_ends_the_run_with_its_name() -> Outcome {
    let chatter = |limits: &str| {
        format!(
            "limits: {{{limits}}}\nagents:\n  a: {{backend: mock, script: {{turns: [{{do: [{{append: \"x\"}}, {{spend: {{cost_usd: 0.5}}}}, {{send: \"@b go on\"}}]}}], then: repeat}}}}\n  \
             b: {{backend: mock, script: {{turns: [{{do: [{{append: \"y\"}}, {{send: \"@a go on\"}}]}}], then: repeat}}}}\nkickoff: \"@a go\"\n"
        )
    };
    for (nth, (limits, limit)) in
        [("max_turns: 4", "max_turns"), ("max_messages: 5", "max_messages"), ("max_cost_usd: 1.0", "max_cost_usd")]
            .into_iter()
            .enumerate()
    {
        let stage = Stage::new()?;
        stage.save("team.yaml", &chatter(limits))?;
        let output = stage.run(&["run", "team.yaml", "--json"]).await?;
        assert_eq!(output.code, Some(1), "{limits}: {output:?}");
        let summary = output.json()?;
        assert!(summary["reason"].as_str().is_some_and(|reason| reason.contains(limit)), "{nth}: {summary}");
        let channel = stage.channel("default").await?;
        assert!(channel.iter().any(|(from, text)| from == "system" && text.contains(limit)), "{channel:?}");
        if limit == "max_turns" {
            assert_eq!(summary["turns"], json!(4));
        }
    }
    Ok(())
}

#[tokio::test]
async fn agents_in_a_loop_are_held() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  ping: {backend: mock, script: {turns: [{send: "@pong over to you"}], then: repeat}}
  pong: {backend: mock, script: {turns: [{send: "@ping back to you"}], then: repeat}}
kickoff: "@ping begin"
"#;
    stage.save("team.yaml", file)?;
    let output = stage.run(&["run", "team.yaml", "--json"]).await?;
    assert_eq!(output.code, Some(1), "{output:?}");
    let summary = output.json()?;
    assert!(summary["reason"].as_str().is_some_and(|reason| reason.contains("in a loop with")), "{summary}");
    assert_eq!(summary["turns"], json!(13));
    let channel = stage.channel("default").await?;
    assert!(channel.iter().any(|(from, text)| from == "system" && text.contains("in a loop with")), "{channel:?}");
    Ok(())
}

#[tokio::test]
async fn ctrl_c_ends_the_run_and_its_programs() -> Outcome {
    let stage = Stage::new()?;
    let marker = format!("rookery-test-{}", std::process::id());
    let file = format!(
        "agents:\n  sleeper:\n    backend: command\n    sandbox: false\n    command: [sh, -c, \"sleep 600; echo {marker}\"]\nkickoff: \"@sleeper go\"\n"
    );
    stage.save("team.yaml", &file)?;
    let runner = stage.start(&["run", "team.yaml"])?;
    eventually("the agent works", async || Ok(stage.is_running(&marker).then_some(()))).await?;
    stage.wait_until_working("@default", "sleeper").await?;
    runner.interrupt()?;
    let output = runner.finish().await?;
    assert_eq!(output.code, Some(130), "{output:?}");
    assert!(!stage.is_running(&marker), "the agent's program is gone");
    let team = stage.team("@default").await?;
    assert_eq!((&team["live"], &team["outcome"]), (&json!(false), &json!("interrupted")));
    let turns = stage.turns("@default").await?;
    assert_eq!(turns.iter().map(|turn| turn["outcome"].clone()).collect::<Vec<_>>(), ["interrupted"]);
    assert!(stage.acknowledgement_counts().await?.values().all(|count| *count == 0), "no message was acknowledged");
    Ok(())
}

/// Hangs in its first turn, and answers in every later one.
const SLOW: &str = r#"
agents:
  slow:
    backend: command
    sandbox: false
    command: [sh, -c, "cat > /dev/null; if [ -e once ]; then echo here I am; else touch once; exec sleep 600; fi"]
params: [{name: task, default: nothing}]
setup: [{shell: echo ran >> setup.txt}]
kickoff: "@slow do ${{ params.task }}"
"#;

/// A team whose runner got SIGTERM, and that runner's output.
async fn start_and_terminate() -> anyhow::Result<(Stage, CommandResult)> {
    let stage = Stage::new()?;
    stage.save("team.yaml", SLOW)?;
    let runner = stage.start(&["run", "team.yaml", "--", "--task", "this"])?;
    stage.wait_until_working("@default", "slow").await?;
    eventually("the agent's program runs", async || Ok(stage.daemon.root().join("once").exists().then_some(())))
        .await?;
    runner.terminate()?;
    let output = runner.finish().await?;
    Ok((stage, output))
}

#[tokio::test]
async fn terminated_runner_resumes_its_team_after_shutdown() -> Outcome {
    let (stage, output) = start_and_terminate().await?;
    assert_eq!(output.code, Some(130), "{output:?}");
    assert!(output.stderr.contains("start it again to go on"), "{output:?}");
    let team = stage.team("@default").await?;
    assert_eq!((&team["live"], &team["outcome"]), (&json!(true), &Value::Null), "the team is still live");
    let turns = stage.turns("@default").await?;
    assert_eq!(turns.iter().map(|turn| turn["outcome"].clone()).collect::<Vec<_>>(), ["interrupted"]);
    let output = stage.run(&["run", "team.yaml", "--", "--task", "this"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let channel = stage.channel("default").await?;
    let texts: Vec<&str> = channel.iter().map(|(_, text)| text.trim()).collect();
    assert_eq!(texts, ["Workflow started", "@slow do this", "here I am"], "one kickoff");
    assert_eq!(std::fs::read_to_string(stage.daemon.root().join("setup.txt"))?, "ran\n", "setup ran once");
    stage.check_acknowledged_once().await
}

#[tokio::test]
async fn interrupted_team_is_not_resumed_by_another_file_or_parameter() -> Outcome {
    let (stage, _) = start_and_terminate().await?;
    stage.save("other.yaml", "agents: {a: {backend: mock, script: [{say: hi}]}}\nkickoff: \"@a go\"\n")?;
    for (arguments, why) in [
        (&["run", "other.yaml"][..], "was started from the workflow `team`"),
        (&["start", "team.yaml", "--background"], "another value for `task`"),
        (&["run", "team.yaml", "--", "--task", "that"], "another value for `task`"),
        (&["run", "team.yaml"], "another value for `task`"),
    ] {
        let output = stage.run(arguments).await?;
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains(why) && output.stderr.contains("rookery stop @default"), "{why}: {output:?}");
    }
    assert_eq!(stage.team("@default").await?["live"], true, "the team can still be resumed");
    let output = stage.run(&["stop", "@default"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let output = stage.run(&["run", "other.yaml"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(stage.channel("default").await?.contains(&("a".to_owned(), "hi".to_owned())));
    Ok(())
}

#[tokio::test]
async fn run_with_missing_prerequisites_fails_before_setup() -> Outcome {
    let stage = Stage::new()?;
    let file = "agents: {a: {AGENT}}\nsetup: [{shell: touch ran.txt}]\nkickoff: \"@a go\"\n";
    for (agent, expected) in [
        ("model: openai/x, provider: {api_key: $NO_SUCH_KEY_ANYWHERE}", "the environment has no NO_SUCH_KEY_ANYWHERE"),
        ("backend: gemini, env: {PATH: /nowhere}", "`gemini` is not on the PATH"),
    ] {
        stage.save("team.yaml", &file.replace("AGENT", agent))?;
        let output = stage.run(&["run", "team.yaml"]).await?;
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains(expected), "{expected}: {output:?}");
        assert!(!stage.daemon.root().join("ran.txt").exists(), "setup ran: {output:?}");
        assert_eq!(stage.daemon.get("/teams/@default").await?.status, 404, "no team was started");
    }
    Ok(())
}

#[tokio::test]
async fn slow_setup_is_ended_by_stop_and_by_timeout() -> Outcome {
    let stage = Stage::new()?;
    let file = "agents: {a: {backend: mock, script: [{say: hi}]}}\nsetup: [{shell: touch begun; sleep 4242}]\nkickoff: \"@a go\"\n";
    stage.save("team.yaml", file)?;
    let started = stage.start(&["start", "team.yaml"])?;
    eventually("setup runs", async || Ok(stage.daemon.root().join("begun").exists().then_some(()))).await?;
    let output = stage.run(&["stop", "@default"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let output = started.finish().await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(stage.team("@default").await?["outcome"], "stopped");
    let output = stage.run(&["run", "team.yaml", "--timeout", "1s"]).await?;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("longer than 1s (--timeout)"), "{output:?}");
    assert_eq!(stage.team("@default").await?["outcome"], "failed");
    assert!(!stage.is_running("sleep 4242"), "the command is gone");
    assert_eq!(stage.channel("default").await?, [], "the channel stays empty");
    Ok(())
}

#[tokio::test]
async fn run_over_its_timeout_fails() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", "agents: {a: {backend: mock, script: [{wait: 10m}]}}\nkickoff: \"@a go\"\n")?;
    let output = stage.run(&["run", "team.yaml", "--timeout", "1s", "--json"]).await?;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.json()?["reason"].as_str().is_some_and(|reason| reason.contains("--timeout")), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn background_team_receives_messages_until_stopped() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  helper:
    backend: mock
    script: {turns: [{say: "You said: ${{ inbox.text }}"}], then: repeat}
kickoff: "@helper hello"
"#;
    stage.save("team.yaml", file)?;
    let output = stage.run(&["start", "team.yaml", "--instance", "bg", "--background"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("rookery stop @bg"), "{output:?}");
    let wait_for_answer = async |text: &str| -> anyhow::Result<()> {
        eventually("the helper answers", async || {
            let channel = stage.channel("bg").await?;
            Ok(channel.iter().any(|(from, answer)| from == "helper" && answer.contains(text)).then_some(()))
        })
        .await
    };
    wait_for_answer("hello").await?;
    let again = stage.run(&["start", "team.yaml", "--instance", "bg"]).await?;
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("is already running in another process"), "{again:?}");
    stage.as_person("/teams/@bg/announcements", json!({"text": "@helper what now?"})).await?;
    wait_for_answer("what now?").await?;
    stage.as_person("/teams/@bg/stop", json!({"reason": "enough"})).await?;
    eventually("the team has ended", async || Ok((stage.team("@bg").await?["live"] == false).then_some(()))).await?;
    assert_eq!(stage.team("@bg").await?["outcome"], "stopped");
    stage.check_acknowledged_once().await
}

#[tokio::test]
async fn failed_setup_prevents_the_kickoff() -> Outcome {
    let stage = Stage::new()?;
    let file = "agents: {a: {backend: mock, script: [{say: hi}]}}\nsetup: [{shell: \"echo broken >&2; exit 3\"}]\nkickoff: \"@a go\"\n";
    stage.save("team.yaml", file)?;
    let output = stage.run(&["run", "team.yaml"]).await?;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("code 3") && output.stderr.contains("broken"), "{output:?}");
    let output = stage.run(&["start", "team.yaml", "--background"]).await?;
    // On a busy machine, setup may still run.
    let reported = output.code == Some(1) && output.stderr.contains("code 3");
    assert!(reported || output.stderr.contains("its setup commands still run"), "{output:?}");
    eventually(
        "the team has failed",
        async || Ok((stage.team("@default").await?["outcome"] == "failed").then_some(())),
    )
    .await?;
    assert_eq!(stage.channel("default").await?, []);
    Ok(())
}

#[tokio::test]
async fn schedule_wakes_an_agent_and_does_not_prolong_a_run() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  nightly:
    backend: mock
    wakeup: 1s
    wakeup_prompt: See whether all is well.
    script: {turns: [{say: All is well.}], then: repeat}
  other: {backend: mock, script: [{say: hi}]}
kickoff: "@other go"
"#;
    stage.save("team.yaml", file)?;
    let started = stage.start(&["start", "team.yaml"])?;
    eventually("the agent was woken twice", async || {
        let turns = stage.turns("@default").await?;
        let by_clock = turns.iter().filter(|turn| turn["cause"] == "wakeup" && turn["outcome"] == "done").count();
        Ok((by_clock >= 2).then_some(()))
    })
    .await?;
    started.interrupt()?;
    assert_eq!(started.finish().await?.code, Some(130));
    stage.save("team.yaml", &file.replace("wakeup: 1s", "wakeup: 10m"))?;
    let output = stage.run(&["run", "team.yaml"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn stop_of_one_agent_leaves_the_others_running() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  stuck: {backend: mock, script: [hang]}
  other: {backend: mock, script: {turns: [{say: "Here I am."}], then: repeat}}
kickoff: "@stuck go"
"#;
    stage.save("team.yaml", file)?;
    let started = stage.start(&["start", "team.yaml", "--instance", "two"])?;
    stage.wait_until_working("@two", "stuck").await?;
    stage.as_person("/teams/@two/stop", json!({"agent": "stuck"})).await?;
    eventually("its turn has ended", async || {
        let turns = stage.turns("@two").await?;
        Ok(turns.iter().any(|turn| turn["outcome"] == "interrupted").then_some(()))
    })
    .await?;
    stage.as_person("/teams/@two/announcements", json!({"text": "@other are you there?"})).await?;
    eventually("the other answers", async || {
        let channel = stage.channel("two").await?;
        Ok(channel.iter().any(|(from, text)| from == "other" && text == "Here I am.").then_some(()))
    })
    .await?;
    stage.as_person("/teams/@two/stop", json!({})).await?;
    let output = started.finish().await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(stage.team("@two").await?["outcome"], "stopped");
    Ok(())
}

#[tokio::test]
async fn agent_worktree_is_separate_and_reused() -> Outcome {
    let stage = Stage::new()?;
    stage.git(&["init", "-q", "-b", "main"])?;
    stage.git(&["commit", "-q", "--allow-empty", "-m", "first"])?;
    let file = r#"
agents:
  writer:
    backend: mock
    workspace: worktree
    script: [{do: [{save: {path: mine.txt, text: "written here"}}, {say: Saved.}]}]
kickoff: "@writer go"
"#;
    stage.save("team.yaml", file)?;
    for _ in 0..2 {
        let output = stage.run(&["run", "team.yaml", "--instance", "own"]).await?;
        assert_eq!(output.code, Some(0), "{output:?}");
    }
    assert!(!stage.daemon.root().join("mine.txt").exists(), "the project folder is not touched");
    let trees = stage.git(&["worktree", "list", "--porcelain"])?;
    let paths: Vec<&str> = trees.lines().filter_map(|line| line.strip_prefix("worktree ")).collect();
    assert_eq!(paths.len(), 2, "{trees}");
    assert!(trees.contains("branch refs/heads/rookery/own/writer"), "{trees}");
    let own = std::path::Path::new(paths[1]).join("mine.txt");
    assert_eq!(std::fs::read_to_string(own)?, "written here");
    Ok(())
}
