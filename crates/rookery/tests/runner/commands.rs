//! `list`, `stop`, `new`, `send`, `peek` and the program `agent-worker`, with runners as separate processes.

use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::stage::{CommandResult, Stage};

type Outcome = anyhow::Result<()>;

/// A coder that never ends its turn, and a reviewer with nothing to do.
const BUSY: &str = r#"
agents:
  coder: {backend: mock, script: [{hang: true, times: always}]}
  reviewer: {backend: mock, script: [{say: "I looked at ${{ inbox.text }}", times: always}]}
kickoff: "@coder begin"
"#;

/// Starts a team in the background.
async fn start_team(stage: &Stage, instance: &str) -> anyhow::Result<u64> {
    let output = stage.run(&["start", "team.yaml", "--background", "--instance", instance, "--json"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    Ok(output.json()?["pid"].as_u64().unwrap_or_default())
}

async fn start_busy_team(instance: &str) -> anyhow::Result<(Stage, u64)> {
    let stage = Stage::new()?;
    stage.save("team.yaml", BUSY)?;
    let pid = start_team(&stage, instance).await?;
    stage.wait_until_working(&format!("@{instance}"), "coder").await?;
    Ok((stage, pid))
}

/// Name, source and status of each listed agent.
async fn list_agents(stage: &Stage) -> anyhow::Result<Vec<(String, String, String)>> {
    let output = stage.run(&["list", "--json"]).await?;
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let rows = output.json()?.as_array().cloned().unwrap_or_default();
    Ok(rows.iter().map(|row| (text(row, "name"), text(row, "source"), text(row, "status"))).collect())
}

fn agent_row(name: &str, source: &str, status: &str) -> (String, String, String) {
    (name.to_owned(), source.to_owned(), status.to_owned())
}

fn assert_output(output: &CommandResult, code: i32, text: &str) {
    assert_eq!(output.code, Some(code), "{output:?}");
    assert!(output.stdout.contains(text) || output.stderr.contains(text), "{text:?} is not in {output:?}");
}

#[tokio::test]
async fn agents_are_listed_and_stopped_by_name_and_instance() -> Outcome {
    let (stage, _) = start_busy_team("pr-1").await?;
    start_team(&stage, "pr-2").await?;
    stage.wait_until_working("@pr-2", "coder").await?;
    let output = stage.run(&["ls"]).await?;
    let lines: Vec<Vec<&str>> = output.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "SOURCE", "STATUS"]);
    for line in [["coder@pr-1", "team.yaml", "running"], ["reviewer@pr-2", "team.yaml", "idle"]] {
        assert!(lines.iter().any(|found| *found == line), "{line:?} in {}", output.stdout);
    }
    let output = stage.run(&["stop"]).await?;
    assert_output(&output, 2, "say what to stop");
    for target in ["rookery stop @pr-1", "rookery stop coder@pr-2"] {
        assert!(output.stdout.lines().any(|line| line == target), "{target} in {output:?}");
    }
    assert_output(&stage.run(&["stop", "coder"]).await?, 1, "coder@pr-1");
    assert_output(&stage.run(&["stop", "@other"]).await?, 1, "@other does not run");
    assert_output(&stage.run(&["stop", "a b"]).await?, 2, "is not the name of an agent or an instance");
    assert_output(&stage.run(&["stop", "coder@pr-1"]).await?, 0, "stopped coder@pr-1");
    let rows = list_agents(&stage).await?;
    assert!(rows.contains(&agent_row("coder@pr-1", "team.yaml", "stopped")), "{rows:?}");
    assert!(rows.contains(&agent_row("reviewer@pr-1", "team.yaml", "idle")), "{rows:?}");
    assert_output(&stage.run(&["stop", "@pr-1"]).await?, 0, "stopped @pr-1");
    let team = stage.team("@pr-1").await?;
    assert_eq!((&team["live"], &team["outcome"]), (&json!(false), &json!("stopped")));
    assert_output(&stage.run(&["stop", "coder@pr-2"]).await?, 0, "stopped coder@pr-2");
    assert_output(&stage.run(&["send", "hello"]).await?, 0, "sent to reviewer@pr-2");
    assert_output(&stage.run(&["peek"]).await?, 0, "hello");
    assert_output(&stage.run(&["stop", "--all"]).await?, 0, "stopped @pr-2");
    assert_eq!(list_agents(&stage).await?, []);
    assert_output(&stage.run(&["stop"]).await?, 0, "nothing runs");
    assert_output(&stage.run(&["stop", "--all"]).await?, 0, "nothing runs");
    Ok(())
}

#[tokio::test]
async fn team_of_dead_runner_is_shown_as_lost_and_ended() -> Outcome {
    let (stage, pid) = start_busy_team("pr-1").await?;
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid)?);
    rustix::process::kill_process(pid.unwrap_or(rustix::process::Pid::INIT), rustix::process::Signal::KILL)?;
    eventually("the agents are lost", async || {
        let rows = list_agents(&stage).await?;
        Ok(rows.iter().all(|(_, _, status)| status == "lost").then_some(()))
    })
    .await?;
    assert_output(&stage.run(&["stop", "@pr-1"]).await?, 0, "whose runner was gone");
    let team = stage.team("@pr-1").await?;
    assert_eq!((&team["live"], &team["outcome"]), (&json!(false), &json!("stopped")));
    assert_eq!(stage.turns("@pr-1").await?[0]["outcome"], "interrupted");
    let pending = stage.daemon.get("/clutch/v0/deliveries?agent_id=coder@pr-1&state=acked").await?.body;
    assert_eq!(pending["deliveries"], json!([]), "an unfinished message is not acknowledged");
    stage.daemon.replay_verify()
}

#[tokio::test]
async fn message_reaches_its_agent_and_is_shown_by_peek() -> Outcome {
    let (stage, _) = start_busy_team("pr-1").await?;
    assert_output(&stage.run(&["send", "hello"]).await?, 2, "several agents run: coder@pr-1, reviewer@pr-1");
    assert_output(&stage.run(&["send", "hello", "--to", "stranger"]).await?, 1, "no agent named 'stranger' here");
    assert_output(&stage.run(&["send", "hello", "--to", "@pr-1"]).await?, 2, "is an instance, not an agent");
    assert_output(&stage.run(&["send", " ", "--to", "reviewer@pr-1"]).await?, 2, "nothing to send");
    let output = stage.run(&["send", "the diff", "--to", "reviewer@pr-1", "--json"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!((&output.json()?["to"], &output.json()?["mentions"]), (&json!("reviewer@pr-1"), &json!(["reviewer"])));
    let answered = async || {
        let output = stage.run(&["peek", "--to", "reviewer@pr-1", "--json"]).await?;
        let all = output.json()?.as_array().cloned().unwrap_or_default();
        Ok((all.last().is_some_and(|last| last["from"] == "reviewer@pr-1")).then_some(all))
    };
    let all = eventually("the agent answers", answered).await?;
    assert_eq!((&all[0]["message"], &all[0]["state"]), (&json!("@reviewer the diff"), &json!("read")));
    assert_eq!(all[1]["message"], "I looked at @reviewer the diff");
    let output = stage.run(&["peek", "--to", "coder@pr-1"]).await?;
    assert_output(&output, 0, "@coder begin");
    assert!(!output.stdout.contains("the diff"), "a message for another agent: {output:?}");
    assert_output(&stage.run(&["stop", "--all"]).await?, 0, "stopped @pr-1");
    assert_output(
        &stage.run(&["send", "still there?", "--to", "coder@pr-1"]).await?,
        1,
        "no agent named 'coder@pr-1' here",
    );
    Ok(())
}

/// Sends a channel message with an asserted agent name, and returns the answer.
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
async fn member_needs_no_credential_on_its_socket_or_after_its_team() -> Outcome {
    let (stage, _) = start_busy_team("pr-1").await?;
    let socket = stage.daemon.root().join(".workflow/pr-1/context.sock");
    let by_socket = reqwest::Client::builder().no_proxy().unix_socket(socket).build()?;
    let answers = async || Ok(by_socket.get("http://localhost/mcp").send().await.ok().map(drop));
    eventually("the socket answers", answers).await?;
    let by_port = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("{}/mcp/context", stage.daemon.url());
    for agent in ["reviewer@pr-1", "reviewer"] {
        let answer = say_as(&by_socket, "http://localhost/mcp", agent).await?;
        assert!(answer.contains("\"sent\""), "{agent}: {answer}");
    }
    let rows = stage.daemon.export()?;
    let rows =
        rows.iter().rfind(|agent_row| agent_row["kind"] == "message.sent" && agent_row["actor"] == "reviewer@pr-1");
    assert_eq!(rows.map(|agent_row| &agent_row["auth"]), Some(&json!("asserted")));
    let rejected = say_as(&by_port, &url, "reviewer@pr-1").await?;
    assert!(rejected.contains("CREDENTIAL_REQUIRED"), "{rejected}");
    for option in ["X-Rookery-Session", "rookery mcp --agent reviewer@pr-1"] {
        assert!(rejected.contains(option), "{option} in {rejected}");
    }
    assert_output(&stage.run(&["stop", "@pr-1"]).await?, 0, "stopped @pr-1");
    // The members and their credentials leave when the team ends.
    let speaks = async || Ok(say_as(&by_port, &url, "reviewer@pr-1").await?.contains("\"sent\"").then_some(()));
    eventually("the name is free", speaks).await?;
    stage.daemon.replay_verify()
}

#[tokio::test]
async fn agent_without_context_receives_messages() -> Outcome {
    let stage = Stage::new()?;
    let file = "context: false\nagents:\n  hermit:\n    backend: mock\n    script: [{do: [{save: {path: heard.txt, text: \"${{ inbox.text }}\"}}, {say: Thanks.}]}]\n";
    stage.save("team.yaml", file)?;
    start_team(&stage, "cave").await?;
    assert_output(&stage.run(&["send", "is anybody there?"]).await?, 0, "sent to hermit@cave");
    eventually("the agent handles the message", async || {
        let turns = stage.turns("@cave").await?;
        Ok(turns.iter().any(|turn| turn["outcome"] == "done").then_some(()))
    })
    .await?;
    assert_eq!(std::fs::read_to_string(stage.daemon.root().join("heard.txt"))?, "is anybody there?");
    let output = stage.run(&["peek"]).await?;
    assert_output(&output, 0, "is anybody there?");
    assert_output(&stage.run(&["context", "send", "@hermit hello", "--instance", "cave"]).await?, 1, "is turned off");
    assert_output(&stage.run(&["stop", "--all"]).await?, 0, "stopped @cave");
    Ok(())
}

#[tokio::test]
async fn standalone_agent_answers_and_resumes_after_a_crash() -> Outcome {
    let stage = Stage::new()?;
    let script = "cat > /dev/null; echo I am here";
    let new = ["new", "helper", "--no-sandbox", "--json", "--", "sh", "-c", script];
    let output = stage.run(&new).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let pid = i32::try_from(output.json()?["pid"].as_i64().unwrap_or_default())?;
    assert_eq!(list_agents(&stage).await?, [agent_row("helper", "(standalone)", "idle")]);
    assert_output(&stage.run(&["new", "helper", "--", "true"]).await?, 1, "helper");
    assert_output(&stage.run(&["send", "are you there?"]).await?, 0, "sent to helper");
    eventually("the agent answers", async || {
        let messages = stage.channel("default").await?;
        Ok(messages.contains(&("helper".to_owned(), "I am here".to_owned())).then_some(()))
    })
    .await?;
    let output = stage.run(&["peek"]).await?;
    assert!(output.stdout.contains("@helper are you there?") && output.stdout.contains("I am here"), "{output:?}");
    let runner = rustix::process::Pid::from_raw(pid).unwrap_or(rustix::process::Pid::INIT);
    rustix::process::kill_process(runner, rustix::process::Signal::KILL)?;
    eventually("the agent is lost", async || {
        Ok((list_agents(&stage).await? == [agent_row("helper", "(standalone)", "lost")]).then_some(()))
    })
    .await?;
    assert_output(&stage.run(&["send", "once more"]).await?, 0, "sent to helper");
    let output = stage.run(&new).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    eventually("the agent answers again", async || {
        let messages = stage.channel("default").await?;
        Ok((messages.iter().filter(|(from, _)| from == "helper").count() == 2).then_some(()))
    })
    .await?;
    assert_eq!(stage.team("helper").await?["generation"], 1, "the same team resumes");
    stage.check_acknowledged_once().await?;
    assert_output(&stage.run(&["stop", "helper"]).await?, 0, "stopped helper");
    assert_eq!(list_agents(&stage).await?, []);
    Ok(())
}

#[tokio::test]
async fn invalid_agent_argument_is_named_in_the_error() -> Outcome {
    let stage = Stage::new()?;
    let cases: [(&[&str], &str); 7] = [
        (&["new", "helper", "--backend", "cursor"], "say --context"),
        (&["new", "9lives", "--model", "anthropic/x"], "NAME: is not a valid name of an agent"),
        (&["new", "helper", "--model", "gpt"], "--model: must be provider/model"),
        (&["new", "helper", "--backend", "clod"], "--backend: must be one of"),
        (&["new", "helper@a", "--instance", "b", "--model", "anthropic/x"], "is not in the instance b"),
        (&["new", "helper", "--model", "anthropic/x", "--wakeup", "sometimes"], "--wakeup"),
        (&["new", "helper", "--model", "anthropic/x", "--system-prompt", "no-such.md"], "--system-prompt"),
    ];
    for (arguments, expected) in cases {
        assert_output(&stage.run(arguments).await?, 2, expected);
    }
    assert_eq!(list_agents(&stage).await?, []);
    Ok(())
}

#[tokio::test]
async fn program_runs_under_both_names() -> Outcome {
    let stage = Stage::new()?;
    let output = stage.start_as(env!("CARGO_BIN_EXE_agent-worker"), &["ls", "--json"])?.finish().await?;
    assert_eq!((output.code, output.json()?), (Some(0), json!([])));
    let output = stage.start_as(env!("CARGO_BIN_EXE_agent-worker"), &["--help"])?.finish().await?;
    assert_output(&output, 0, "Usage: agent-worker");
    for command in ["run", "start", "stop", "list", "new", "send", "peek", "context"] {
        assert!(output.stdout.lines().any(|line| line.trim_start().starts_with(command)), "{command} in {output:?}");
    }
    let output = stage.start_as(env!("CARGO_BIN_EXE_agent-worker"), &["completions", "bash"])?.finish().await?;
    stage.save("completions", &output.stdout)?;
    let asked = "source ./completions; complete -p agent-worker; COMP_WORDS=(agent-worker stop --a); COMP_CWORD=2; \
                 _agent_worker agent-worker --a stop; echo \"${COMPREPLY[@]}\"";
    let output = stage.start_as("bash", &["-c", asked])?.finish().await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.stdout.lines().last(), Some("--all"), "{output:?}");
    let pages = stage.daemon.root().join("man");
    let output = stage.run(&["man", &pages.to_string_lossy()]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    for page in ["rookery.1", "rookery-stop.1", "agent-worker.1", "agent-worker-stop.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    assert!(!pages.join("agent-worker-tasks.1").exists(), "only commands of agents have pages");
    Ok(())
}
