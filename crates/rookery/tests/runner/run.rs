//! `rookery run` and `rookery start` with scripted agents: the examples of the document, the rule by which a run ends, limits,
//! loops, signals and exit codes.

use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::stage::{Ran, Stage};

type Outcome = anyhow::Result<()>;

fn said(channel: &[(String, String)]) -> Vec<(&str, &str)> {
    channel.iter().map(|(from, text)| (from.as_str(), text.trim_end())).collect()
}

/// The document's first example, with a script in place of the model.
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
async fn a_simple_review_runs_as_the_document_describes() -> Outcome {
    let stage = Stage::new()?;
    stage.save("review.yaml", REVIEW)?;
    let ran = stage.run(&["run", "review.yaml"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout, "# Findings\n\n1. no check in line 42\n", "the result is the entry document");
    let kickoff = "Please review this PR:\n\nline 42 of the diff\n\n@reviewer";
    let expected = [("system", "Workflow started"), ("system", kickoff), ("reviewer", "One finding, see the notes")];
    assert_eq!(said(&stage.channel("default").await?), expected);
    stage.everything_is_acknowledged_once().await?;
    let team = stage.team("@default").await?;
    assert_eq!((&team["live"], &team["outcome"], &team["turns"]), (&json!(false), &json!("completed"), &json!(1)));
    let agents = stage.daemon.get("/agents").await?.body;
    assert_eq!(agents.as_array().map(Vec::len), Some(0), "they have left: {agents}");
    stage.daemon.replay_verify()
}

/// The document's second example: a coordinator, a reviewer and a coder.
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
async fn a_team_of_three_collaborates_as_the_document_describes() -> Outcome {
    let stage = Stage::new()?;
    stage.save("review.yaml", COLLABORATION)?;
    let ran = stage.run(&["run", "review.yaml", "--instance", "pr-123", "--json"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let summary = ran.json()?;
    assert_eq!((&summary["outcome"], &summary["team"]), (&json!("completed"), &json!("@pr-123")));
    assert_eq!(summary["document"]["text"], "Fixed line 42.\nDone: fixed and verified.\n");
    let channel = stage.channel("pr-123").await?;
    assert_eq!(
        said(&channel)[2..],
        [
            ("coordinator", "@reviewer please look at the pull request"),
            ("reviewer", "@coder line 42 lacks a check"),
            ("coder", "Fixed, @reviewer please verify"),
            ("reviewer", "@coordinator verified"),
            ("coordinator", "All is well."),
        ]
    );
    assert_eq!(summary["messages"], json!(channel.len()));
    stage.everything_is_acknowledged_once().await
}

#[tokio::test]
async fn a_file_that_nobody_begins_is_refused_by_run_and_waits_in_start() -> Outcome {
    let stage = Stage::new()?;
    stage.save("quiet.yaml", "agents: {a: {backend: mock, script: [{say: \"Hello, @person\"}]}}\nkickoff: nobody\n")?;
    let ran = stage.run(&["run", "quiet.yaml"]).await?;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("mentions no agent"), "{ran:?}");
    stage.save("wrong.yaml", "agents: {a: {backend: mock, skript: []}}\n")?;
    let ran = stage.run(&["run", "wrong.yaml"]).await?;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("did you mean `script`?"), "{ran:?}");
    let started = stage.start(&["start", "quiet.yaml"])?;
    eventually("it is kicked off", async || Ok((stage.team("@default").await?["kicked_off"] == true).then_some(())))
        .await?;
    started.interrupt()?;
    let ran = started.ended().await?;
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.stderr.contains("waits for messages"), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn what_fails_is_tried_again_and_then_given_up_for_all_to_see() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  lucky: {backend: mock, script: [{fail: the model is overloaded}, {say: done}]}
  unlucky: {backend: mock, script: {turns: [{fail: no luck}], then: repeat}}
kickoff: "@lucky @unlucky go"
"#;
    stage.save("team.yaml", file)?;
    let ran = stage.run(&["run", "team.yaml"]).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("no luck"), "{ran:?}");
    let turns = stage.turns("@default").await?;
    let of = |agent: &str| -> Vec<(Value, Value)> {
        let own = turns.iter().filter(|turn| turn["agent"] == agent);
        own.map(|turn| (turn["attempt"].clone(), turn["outcome"].clone())).collect()
    };
    assert_eq!(of("lucky"), [(json!(1), json!("failed")), (json!(2), json!("done"))]);
    assert_eq!(of("unlucky"), [1, 2, 3, 4].map(|attempt| (json!(attempt), json!("failed"))));
    let counts = stage.acknowledged().await?;
    let acked: Vec<(&str, usize)> = counts.iter().map(|((_, agent), count)| (agent.as_str(), *count)).collect();
    assert_eq!(acked, [("lucky", 1), ("unlucky", 0)], "what was given up was never acknowledged");
    let channel = stage.channel("default").await?;
    assert!(channel.iter().any(|(from, text)| from == "system" && text.contains("no luck")), "{channel:?}");
    assert_eq!(stage.team("@default").await?["outcome"], "failed");
    Ok(())
}

#[tokio::test]
async fn a_limit_ends_a_run_and_says_which() -> Outcome {
    let chatter = |limits: &str| {
        format!(
            "limits: {{{limits}}}\nagents:\n  a: {{backend: mock, script: {{turns: [{{do: [{{append: \"x\"}}, {{spend: {{cost_usd: 0.5}}}}, {{send: \"@b go on\"}}]}}], then: repeat}}}}\n  \
             b: {{backend: mock, script: {{turns: [{{do: [{{append: \"y\"}}, {{send: \"@a go on\"}}]}}], then: repeat}}}}\nkickoff: \"@a go\"\n"
        )
    };
    for (nth, (limits, told)) in
        [("max_turns: 4", "max_turns"), ("max_messages: 5", "max_messages"), ("max_cost_usd: 1.0", "max_cost_usd")]
            .into_iter()
            .enumerate()
    {
        let stage = Stage::new()?;
        stage.save("team.yaml", &chatter(limits))?;
        let ran = stage.run(&["run", "team.yaml", "--json"]).await?;
        assert_eq!(ran.code, Some(1), "{limits}: {ran:?}");
        let summary = ran.json()?;
        assert!(summary["reason"].as_str().is_some_and(|reason| reason.contains(told)), "{nth}: {summary}");
        let channel = stage.channel("default").await?;
        assert!(channel.iter().any(|(from, text)| from == "system" && text.contains(told)), "{channel:?}");
        if told == "max_turns" {
            assert_eq!(summary["turns"], json!(4));
        }
    }
    Ok(())
}

#[tokio::test]
async fn agents_that_go_round_in_circles_are_held() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  ping: {backend: mock, script: {turns: [{send: "@pong over to you"}], then: repeat}}
  pong: {backend: mock, script: {turns: [{send: "@ping back to you"}], then: repeat}}
kickoff: "@ping begin"
"#;
    stage.save("team.yaml", file)?;
    let ran = stage.run(&["run", "team.yaml", "--json"]).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let summary = ran.json()?;
    assert!(summary["reason"].as_str().is_some_and(|reason| reason.contains("circles")), "{summary}");
    assert_eq!(summary["turns"], json!(13));
    let channel = stage.channel("default").await?;
    assert!(channel.iter().any(|(from, text)| from == "system" && text.contains("circles")), "{channel:?}");
    Ok(())
}

#[tokio::test]
async fn ctrl_c_ends_everything_and_says_so() -> Outcome {
    let stage = Stage::new()?;
    let marker = format!("rookery-test-{}", std::process::id());
    let file = format!(
        "agents:\n  sleeper:\n    backend: command\n    sandbox: false\n    command: [sh, -c, \"sleep 600; echo {marker}\"]\nkickoff: \"@sleeper go\"\n"
    );
    stage.save("team.yaml", &file)?;
    let runner = stage.start(&["run", "team.yaml"])?;
    eventually("it works", async || Ok(stage.is_running(&marker).then_some(()))).await?;
    stage.until_working("@default", "sleeper").await?;
    runner.interrupt()?;
    let ran = runner.ended().await?;
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(!stage.is_running(&marker), "its program is gone");
    let team = stage.team("@default").await?;
    assert_eq!((&team["live"], &team["outcome"]), (&json!(false), &json!("interrupted")));
    let turns = stage.turns("@default").await?;
    assert_eq!(turns.iter().map(|turn| turn["outcome"].clone()).collect::<Vec<_>>(), ["interrupted"]);
    assert!(stage.acknowledged().await?.values().all(|count| *count == 0), "nothing was acknowledged");
    Ok(())
}

/// Hangs in its first turn, and answers in every other.
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

/// A team whose runner was told to end, by nobody of the project, and what that runner said.
async fn terminated() -> anyhow::Result<(Stage, Ran)> {
    let stage = Stage::new()?;
    stage.save("team.yaml", SLOW)?;
    let runner = stage.start(&["run", "team.yaml", "--", "--task", "this"])?;
    stage.until_working("@default", "slow").await?;
    eventually("its program is there", async || Ok(stage.daemon.root().join("once").exists().then_some(()))).await?;
    runner.terminate()?;
    let ran = runner.ended().await?;
    Ok((stage, ran))
}

#[tokio::test]
async fn a_team_whose_process_is_told_to_end_goes_on_when_it_is_started_again() -> Outcome {
    let (stage, ran) = terminated().await?;
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.stderr.contains("start it again to go on"), "{ran:?}");
    let team = stage.team("@default").await?;
    assert_eq!((&team["live"], &team["outcome"]), (&json!(true), &Value::Null), "it is not over");
    let turns = stage.turns("@default").await?;
    assert_eq!(turns.iter().map(|turn| turn["outcome"].clone()).collect::<Vec<_>>(), ["interrupted"]);
    let ran = stage.run(&["run", "team.yaml", "--", "--task", "this"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let channel = stage.channel("default").await?;
    let said: Vec<&str> = channel.iter().map(|(_, text)| text.trim()).collect();
    assert_eq!(said, ["Workflow started", "@slow do this", "here I am"], "there is one kickoff");
    assert_eq!(std::fs::read_to_string(stage.daemon.root().join("setup.txt"))?, "ran\n", "setup ran once");
    stage.everything_is_acknowledged_once().await
}

#[tokio::test]
async fn whoever_wants_something_else_does_not_go_on_with_what_was_killed() -> Outcome {
    let (stage, _) = terminated().await?;
    stage.save("other.yaml", "agents: {a: {backend: mock, script: [{say: hi}]}}\nkickoff: \"@a go\"\n")?;
    for (arguments, why) in [
        (&["run", "other.yaml"][..], "is a team of the workflow `team`"),
        (&["start", "team.yaml", "--background"], "another value for `task`"),
        (&["run", "team.yaml", "--", "--task", "that"], "another value for `task`"),
        (&["run", "team.yaml"], "another value for `task`"),
    ] {
        let ran = stage.run(arguments).await?;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(why) && ran.stderr.contains("rookery stop @default"), "{why}: {ran:?}");
    }
    assert_eq!(stage.team("@default").await?["live"], true, "it can still be gone on with");
    let ran = stage.run(&["stop", "@default"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = stage.run(&["run", "other.yaml"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(stage.channel("default").await?.contains(&("a".to_owned(), "hi".to_owned())));
    Ok(())
}

#[tokio::test]
async fn what_can_only_fail_is_told_before_anything_is_done() -> Outcome {
    let stage = Stage::new()?;
    let file = "agents: {a: {AGENT}}\nsetup: [{shell: touch ran.txt}]\nkickoff: \"@a go\"\n";
    for (agent, why) in [
        ("model: openai/x, provider: {api_key: $NO_SUCH_KEY_ANYWHERE}", "the environment has no NO_SUCH_KEY_ANYWHERE"),
        ("backend: gemini, env: {PATH: /nowhere}", "`gemini` is not on the PATH"),
    ] {
        stage.save("team.yaml", &file.replace("AGENT", agent))?;
        let ran = stage.run(&["run", "team.yaml"]).await?;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(why), "{why}: {ran:?}");
        assert!(!stage.daemon.root().join("ran.txt").exists(), "setup ran: {ran:?}");
        assert_eq!(stage.daemon.get("/teams/@default").await?.status, 404, "nothing was begun");
    }
    Ok(())
}

#[tokio::test]
async fn setup_that_takes_long_is_ended_by_whoever_stops_the_team_and_by_the_time() -> Outcome {
    let stage = Stage::new()?;
    let file = "agents: {a: {backend: mock, script: [{say: hi}]}}\nsetup: [{shell: touch begun; sleep 4242}]\nkickoff: \"@a go\"\n";
    stage.save("team.yaml", file)?;
    let started = stage.start(&["start", "team.yaml"])?;
    eventually("setup runs", async || Ok(stage.daemon.root().join("begun").exists().then_some(()))).await?;
    let ran = stage.run(&["stop", "@default"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = started.ended().await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(stage.team("@default").await?["outcome"], "stopped");
    let ran = stage.run(&["run", "team.yaml", "--timeout", "1s"]).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("longer than 1s (--timeout)"), "{ran:?}");
    assert_eq!(stage.team("@default").await?["outcome"], "failed");
    assert!(!stage.is_running("sleep 4242"), "the command is gone");
    assert_eq!(stage.channel("default").await?, [], "nobody was told anything");
    Ok(())
}

#[tokio::test]
async fn time_is_up() -> Outcome {
    let stage = Stage::new()?;
    stage.save("team.yaml", "agents: {a: {backend: mock, script: [{wait: 10m}]}}\nkickoff: \"@a go\"\n")?;
    let ran = stage.run(&["run", "team.yaml", "--timeout", "1s", "--json"]).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.json()?["reason"].as_str().is_some_and(|reason| reason.contains("--timeout")), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn a_team_in_the_background_takes_messages_until_it_is_stopped() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  helper:
    backend: mock
    script: {turns: [{say: "You said: ${{ inbox.text }}"}], then: repeat}
kickoff: "@helper hello"
"#;
    stage.save("team.yaml", file)?;
    let ran = stage.run(&["start", "team.yaml", "--instance", "bg", "--background"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("rookery stop @bg"), "{ran:?}");
    let heard = async |text: &str| -> anyhow::Result<()> {
        eventually("it answers", async || {
            let channel = stage.channel("bg").await?;
            Ok(channel.iter().any(|(from, said)| from == "helper" && said.contains(text)).then_some(()))
        })
        .await
    };
    heard("hello").await?;
    let again = stage.run(&["start", "team.yaml", "--instance", "bg"]).await?;
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("is run by another process"), "{again:?}");
    stage.as_person("/teams/@bg/announcements", json!({"text": "@helper what now?"})).await?;
    heard("what now?").await?;
    stage.as_person("/teams/@bg/stop", json!({"reason": "enough"})).await?;
    eventually("it has ended", async || Ok((stage.team("@bg").await?["live"] == false).then_some(()))).await?;
    assert_eq!(stage.team("@bg").await?["outcome"], "stopped");
    stage.everything_is_acknowledged_once().await
}

#[tokio::test]
async fn setup_that_fails_lets_nothing_begin() -> Outcome {
    let stage = Stage::new()?;
    let file = "agents: {a: {backend: mock, script: [{say: hi}]}}\nsetup: [{shell: \"echo broken >&2; exit 3\"}]\nkickoff: \"@a go\"\n";
    stage.save("team.yaml", file)?;
    let ran = stage.run(&["run", "team.yaml"]).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("code 3") && ran.stderr.contains("broken"), "{ran:?}");
    let ran = stage.run(&["start", "team.yaml", "--background"]).await?;
    // A machine that is very busy may not have come to it yet.
    let told = ran.code == Some(1) && ran.stderr.contains("code 3");
    assert!(told || ran.stderr.contains("its setup commands still run"), "{ran:?}");
    eventually("it has failed", async || Ok((stage.team("@default").await?["outcome"] == "failed").then_some(())))
        .await?;
    assert_eq!(stage.channel("default").await?, []);
    Ok(())
}

#[tokio::test]
async fn a_schedule_wakes_an_agent_and_keeps_no_run_alive() -> Outcome {
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
    eventually("it was woken twice", async || {
        let turns = stage.turns("@default").await?;
        let by_clock = turns.iter().filter(|turn| turn["cause"] == "wakeup" && turn["outcome"] == "done").count();
        Ok((by_clock >= 2).then_some(()))
    })
    .await?;
    started.interrupt()?;
    assert_eq!(started.ended().await?.code, Some(130));
    stage.save("team.yaml", &file.replace("wakeup: 1s", "wakeup: 10m"))?;
    let ran = stage.run(&["run", "team.yaml"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn one_agent_is_stopped_and_the_others_go_on() -> Outcome {
    let stage = Stage::new()?;
    let file = r#"
agents:
  stuck: {backend: mock, script: [hang]}
  other: {backend: mock, script: {turns: [{say: "Here I am."}], then: repeat}}
kickoff: "@stuck go"
"#;
    stage.save("team.yaml", file)?;
    let started = stage.start(&["start", "team.yaml", "--instance", "two"])?;
    stage.until_working("@two", "stuck").await?;
    stage.as_person("/teams/@two/stop", json!({"agent": "stuck"})).await?;
    eventually("its turn is over", async || {
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
    let ran = started.ended().await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(stage.team("@two").await?["outcome"], "stopped");
    Ok(())
}

#[tokio::test]
async fn an_agent_may_have_a_worktree_of_its_own_and_finds_it_again() -> Outcome {
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
        let ran = stage.run(&["run", "team.yaml", "--instance", "own"]).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert!(!stage.daemon.root().join("mine.txt").exists(), "the project's own folder is left alone");
    let trees = stage.git(&["worktree", "list", "--porcelain"])?;
    let paths: Vec<&str> = trees.lines().filter_map(|line| line.strip_prefix("worktree ")).collect();
    assert_eq!(paths.len(), 2, "{trees}");
    assert!(trees.contains("branch refs/heads/rookery/own/writer"), "{trees}");
    let own = std::path::Path::new(paths[1]).join("mine.txt");
    assert_eq!(std::fs::read_to_string(own)?, "written here");
    Ok(())
}
