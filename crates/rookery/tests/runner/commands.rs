//! `list`, `stop`, `new`, `send` and `peek`, and the program `agent-worker`, with runners in processes of their own.

use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::stage::{Ran, Stage};

type Outcome = anyhow::Result<()>;

/// A coder that never ends its turn, and a reviewer with nothing to do.
const BUSY: &str = r#"
agents:
  coder: {backend: mock, script: [{hang: true, times: always}]}
  reviewer: {backend: mock, script: [{say: "I looked at ${{ inbox.text }}", times: always}]}
kickoff: "@coder begin"
"#;

/// Starts a team in the background.
async fn started(stage: &Stage, instance: &str) -> anyhow::Result<u64> {
    let ran = stage.run(&["start", "team.yaml", "--background", "--instance", instance, "--json"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Ok(ran.json()?["pid"].as_u64().unwrap_or_default())
}

async fn busy(instance: &str) -> anyhow::Result<(Stage, u64)> {
    let stage = Stage::new()?;
    stage.save("team.yaml", BUSY)?;
    let pid = started(&stage, instance).await?;
    stage.until_working(&format!("@{instance}"), "coder").await?;
    Ok((stage, pid))
}

/// Who runs, from which file, and at what.
async fn listed(stage: &Stage) -> anyhow::Result<Vec<(String, String, String)>> {
    let ran = stage.run(&["list", "--json"]).await?;
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let rows = ran.json()?.as_array().cloned().unwrap_or_default();
    Ok(rows.iter().map(|row| (text(row, "name"), text(row, "source"), text(row, "status"))).collect())
}

fn row(name: &str, source: &str, status: &str) -> (String, String, String) {
    (name.to_owned(), source.to_owned(), status.to_owned())
}

fn says(ran: &Ran, code: i32, text: &str) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert!(ran.stdout.contains(text) || ran.stderr.contains(text), "{text:?} is not in {ran:?}");
}

#[tokio::test]
async fn who_runs_is_listed_and_can_be_stopped_by_name_and_by_instance() -> Outcome {
    let (stage, _) = busy("pr-1").await?;
    started(&stage, "pr-2").await?;
    stage.until_working("@pr-2", "coder").await?;
    let ran = stage.run(&["ls"]).await?;
    let lines: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "SOURCE", "STATUS"]);
    for line in [["coder@pr-1", "team.yaml", "running"], ["reviewer@pr-2", "team.yaml", "idle"]] {
        assert!(lines.iter().any(|found| *found == line), "{line:?} in {}", ran.stdout);
    }
    let ran = stage.run(&["stop"]).await?;
    says(&ran, 2, "say what to stop");
    for target in ["rookery stop @pr-1", "rookery stop coder@pr-2"] {
        assert!(ran.stdout.lines().any(|line| line == target), "{target} in {ran:?}");
    }
    says(&stage.run(&["stop", "coder"]).await?, 1, "coder@pr-1");
    says(&stage.run(&["stop", "@other"]).await?, 1, "@other does not run");
    says(&stage.run(&["stop", "a b"]).await?, 2, "is not the name of an agent or an instance");
    says(&stage.run(&["stop", "coder@pr-1"]).await?, 0, "stopped coder@pr-1");
    let rows = listed(&stage).await?;
    assert!(rows.contains(&row("coder@pr-1", "team.yaml", "stopped")), "{rows:?}");
    assert!(rows.contains(&row("reviewer@pr-1", "team.yaml", "idle")), "{rows:?}");
    says(&stage.run(&["stop", "@pr-1"]).await?, 0, "stopped @pr-1");
    let team = stage.team("@pr-1").await?;
    assert_eq!((&team["live"], &team["outcome"]), (&json!(false), &json!("stopped")));
    says(&stage.run(&["stop", "coder@pr-2"]).await?, 0, "stopped coder@pr-2");
    says(&stage.run(&["send", "hello"]).await?, 0, "sent to reviewer@pr-2");
    says(&stage.run(&["peek"]).await?, 0, "hello");
    says(&stage.run(&["stop", "--all"]).await?, 0, "stopped @pr-2");
    assert_eq!(listed(&stage).await?, []);
    says(&stage.run(&["stop"]).await?, 0, "nothing runs");
    says(&stage.run(&["stop", "--all"]).await?, 0, "nothing runs");
    Ok(())
}

#[tokio::test]
async fn a_team_whose_runner_died_is_shown_so_and_ended() -> Outcome {
    let (stage, pid) = busy("pr-1").await?;
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid)?);
    rustix::process::kill_process(pid.unwrap_or(rustix::process::Pid::INIT), rustix::process::Signal::KILL)?;
    eventually("it is seen to be gone", async || {
        let rows = listed(&stage).await?;
        Ok(rows.iter().all(|(_, _, status)| status == "lost").then_some(()))
    })
    .await?;
    says(&stage.run(&["stop", "@pr-1"]).await?, 0, "whose runner was gone");
    let team = stage.team("@pr-1").await?;
    assert_eq!((&team["live"], &team["outcome"]), (&json!(false), &json!("stopped")));
    assert_eq!(stage.turns("@pr-1").await?[0]["outcome"], "interrupted");
    let pending = stage.daemon.get("/clutch/v0/deliveries?agent_id=coder@pr-1&state=acked").await?.body;
    assert_eq!(pending["deliveries"], json!([]), "what it had not done is not acknowledged");
    stage.daemon.replay_verify()
}

#[tokio::test]
async fn a_message_reaches_the_agent_it_is_for_and_can_be_looked_at() -> Outcome {
    let (stage, _) = busy("pr-1").await?;
    says(&stage.run(&["send", "hello"]).await?, 2, "several agents run: coder@pr-1, reviewer@pr-1");
    says(&stage.run(&["send", "hello", "--to", "stranger"]).await?, 1, "no agent named 'stranger' here");
    says(&stage.run(&["send", "hello", "--to", "@pr-1"]).await?, 2, "is an instance, not an agent");
    says(&stage.run(&["send", " ", "--to", "reviewer@pr-1"]).await?, 2, "nothing to send");
    let ran = stage.run(&["send", "the diff", "--to", "reviewer@pr-1", "--json"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!((&ran.json()?["to"], &ran.json()?["mentions"]), (&json!("reviewer@pr-1"), &json!(["reviewer"])));
    let answered = async || {
        let ran = stage.run(&["peek", "--to", "reviewer@pr-1", "--json"]).await?;
        let all = ran.json()?.as_array().cloned().unwrap_or_default();
        Ok((all.last().is_some_and(|last| last["from"] == "reviewer@pr-1")).then_some(all))
    };
    let all = eventually("it answers", answered).await?;
    assert_eq!((&all[0]["message"], &all[0]["state"]), (&json!("@reviewer the diff"), &json!("read")));
    assert_eq!(all[1]["message"], "I looked at @reviewer the diff");
    let ran = stage.run(&["peek", "--to", "coder@pr-1"]).await?;
    says(&ran, 0, "@coder begin");
    assert!(!ran.stdout.contains("the diff"), "what is not for it: {ran:?}");
    says(&stage.run(&["stop", "--all"]).await?, 0, "stopped @pr-1");
    says(&stage.run(&["send", "still there?", "--to", "coder@pr-1"]).await?, 1, "no agent named 'coder@pr-1' here");
    Ok(())
}

/// Says something in the channel as an agent that only says who it is, and returns the answer.
async fn say_as(client: &reqwest::Client, url: &str, agent: &str) -> anyhow::Result<String> {
    let version = "2026-07-28";
    let arguments = json!({"message": "hello"});
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "channel_send", "arguments": arguments, "_meta": meta});
    let request = client
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", version)
        .header("mcp-method", "tools/call")
        .header("mcp-name", "channel_send")
        .header("x-agent-id", agent)
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    Ok(request.send().await?.text().await?)
}

#[tokio::test]
async fn member_speaks_by_name_on_its_socket_and_anywhere_after_its_team() -> Outcome {
    let (stage, _) = busy("pr-1").await?;
    let socket = stage.daemon.root().join(".workflow/pr-1/context.sock");
    let by_socket = reqwest::Client::builder().no_proxy().unix_socket(socket).build()?;
    let answers = async || Ok(by_socket.get("http://localhost/mcp").send().await.ok().map(drop));
    eventually("the socket answers", answers).await?;
    let by_port = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("{}/mcp/context", stage.daemon.url());
    for agent in ["reviewer@pr-1", "reviewer"] {
        let said = say_as(&by_socket, "http://localhost/mcp", agent).await?;
        assert!(said.contains("\"sent\""), "{agent}: {said}");
    }
    let said = stage.daemon.export()?;
    let said = said.iter().rfind(|row| row["kind"] == "message.sent" && row["actor"] == "reviewer@pr-1");
    assert_eq!(said.map(|row| &row["auth"]), Some(&json!("asserted")));
    let refused = say_as(&by_port, &url, "reviewer@pr-1").await?;
    assert!(refused.contains("CREDENTIAL_REQUIRED"), "{refused}");
    for way in ["X-Rookery-Session", "rookery mcp --agent reviewer@pr-1"] {
        assert!(refused.contains(way), "{way} in {refused}");
    }
    says(&stage.run(&["stop", "@pr-1"]).await?, 0, "stopped @pr-1");
    // Its members leave when the team has ended, and the credential with them.
    let speaks = async || Ok(say_as(&by_port, &url, "reviewer@pr-1").await?.contains("\"sent\"").then_some(()));
    eventually("the name is free", speaks).await?;
    stage.daemon.replay_verify()
}

#[tokio::test]
async fn an_agent_that_has_no_context_is_reached_too() -> Outcome {
    let stage = Stage::new()?;
    let file = "context: false\nagents:\n  hermit:\n    backend: mock\n    script: [{do: [{save: {path: heard.txt, text: \"${{ inbox.text }}\"}}, {say: Thanks.}]}]\n";
    stage.save("team.yaml", file)?;
    started(&stage, "cave").await?;
    says(&stage.run(&["send", "is anybody there?"]).await?, 0, "sent to hermit@cave");
    eventually("it has heard it", async || {
        let turns = stage.turns("@cave").await?;
        Ok(turns.iter().any(|turn| turn["outcome"] == "done").then_some(()))
    })
    .await?;
    assert_eq!(std::fs::read_to_string(stage.daemon.root().join("heard.txt"))?, "is anybody there?");
    let ran = stage.run(&["peek"]).await?;
    says(&ran, 0, "is anybody there?");
    says(&stage.run(&["context", "send", "@hermit hello", "--instance", "cave"]).await?, 1, "is turned off");
    says(&stage.run(&["stop", "--all"]).await?, 0, "stopped @cave");
    Ok(())
}

#[tokio::test]
async fn an_agent_stands_alone_answers_and_goes_on_after_a_crash() -> Outcome {
    let stage = Stage::new()?;
    let script = "cat > /dev/null; echo I am here";
    let new = ["new", "helper", "--no-sandbox", "--json", "--", "sh", "-c", script];
    let ran = stage.run(&new).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let pid = i32::try_from(ran.json()?["pid"].as_i64().unwrap_or_default())?;
    assert_eq!(listed(&stage).await?, [row("helper", "(standalone)", "idle")]);
    says(&stage.run(&["new", "helper", "--", "true"]).await?, 1, "helper");
    says(&stage.run(&["send", "are you there?"]).await?, 0, "sent to helper");
    eventually("it answers", async || {
        let said = stage.channel("default").await?;
        Ok(said.contains(&("helper".to_owned(), "I am here".to_owned())).then_some(()))
    })
    .await?;
    let ran = stage.run(&["peek"]).await?;
    assert!(ran.stdout.contains("@helper are you there?") && ran.stdout.contains("I am here"), "{ran:?}");
    let runner = rustix::process::Pid::from_raw(pid).unwrap_or(rustix::process::Pid::INIT);
    rustix::process::kill_process(runner, rustix::process::Signal::KILL)?;
    eventually("it is seen to be gone", async || {
        Ok((listed(&stage).await? == [row("helper", "(standalone)", "lost")]).then_some(()))
    })
    .await?;
    says(&stage.run(&["send", "once more"]).await?, 0, "sent to helper");
    let ran = stage.run(&new).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    eventually("it answers again", async || {
        let said = stage.channel("default").await?;
        Ok((said.iter().filter(|(from, _)| from == "helper").count() == 2).then_some(()))
    })
    .await?;
    assert_eq!(stage.team("helper").await?["generation"], 1, "the same team goes on");
    stage.everything_is_acknowledged_once().await?;
    says(&stage.run(&["stop", "helper"]).await?, 0, "stopped helper");
    assert_eq!(listed(&stage).await?, []);
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_with_an_agent_is_told_by_its_argument() -> Outcome {
    let stage = Stage::new()?;
    let cases: [(&[&str], &str); 7] = [
        (&["new", "helper", "--backend", "cursor"], "say --context"),
        (&["new", "9lives", "--model", "anthropic/x"], "NAME: no agent can be called so"),
        (&["new", "helper", "--model", "gpt"], "--model: must be provider/model"),
        (&["new", "helper", "--backend", "clod"], "--backend: must be one of"),
        (&["new", "helper@a", "--instance", "b", "--model", "anthropic/x"], "is not in the instance b"),
        (&["new", "helper", "--model", "anthropic/x", "--wakeup", "sometimes"], "--wakeup"),
        (&["new", "helper", "--model", "anthropic/x", "--system-prompt", "no-such.md"], "--system-prompt"),
    ];
    for (arguments, told) in cases {
        says(&stage.run(arguments).await?, 2, told);
    }
    assert_eq!(listed(&stage).await?, []);
    Ok(())
}

#[tokio::test]
async fn the_program_has_two_names() -> Outcome {
    let stage = Stage::new()?;
    let ran = stage.start_as(env!("CARGO_BIN_EXE_agent-worker"), &["ls", "--json"])?.ended().await?;
    assert_eq!((ran.code, ran.json()?), (Some(0), json!([])));
    let ran = stage.start_as(env!("CARGO_BIN_EXE_agent-worker"), &["--help"])?.ended().await?;
    says(&ran, 0, "Usage: agent-worker");
    for command in ["run", "start", "stop", "list", "new", "send", "peek", "context"] {
        assert!(ran.stdout.lines().any(|line| line.trim_start().starts_with(command)), "{command} in {ran:?}");
    }
    let ran = stage.start_as(env!("CARGO_BIN_EXE_agent-worker"), &["completions", "bash"])?.ended().await?;
    stage.save("completions", &ran.stdout)?;
    let asked = "source ./completions; complete -p agent-worker; COMP_WORDS=(agent-worker stop --a); COMP_CWORD=2; \
                 _agent_worker agent-worker --a stop; echo \"${COMPREPLY[@]}\"";
    let ran = stage.start_as("bash", &["-c", asked])?.ended().await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.lines().last(), Some("--all"), "{ran:?}");
    let pages = stage.daemon.root().join("man");
    let ran = stage.run(&["man", &pages.to_string_lossy()]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for page in ["rookery.1", "rookery-stop.1", "agent-worker.1", "agent-worker-stop.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    assert!(!pages.join("agent-worker-tasks.1").exists(), "it shows what it is for");
    Ok(())
}
