//! `rookery context`, by both program names.

use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::support::{Transport, connect_to, setup, text};

struct Shell<'a> {
    daemon: &'a Daemon,
    program: &'static str,
}

/// Exit code, stdout, stderr.
type Outcome = (i32, String, String);

impl Shell<'_> {
    fn command(&self, arguments: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(self.program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
            command.env_remove(name);
        }
        command.current_dir(self.daemon.root()).arg("context").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        run_command(&mut self.command(arguments))
    }

    /// Returns the standard output of a command that must succeed.
    fn call_text(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.call_text(&arguments)).unwrap()
    }
}

fn run_command(command: &mut assert_cmd::Command) -> Outcome {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const ROOKERY: &str = env!("CARGO_BIN_EXE_rookery");
const WORKER: &str = env!("CARGO_BIN_EXE_agent-worker");

#[test]
fn context_command_serves_an_agent_without_mcp() {
    let daemon = setup().start().unwrap();
    let (shell, worker) = (Shell { daemon: &daemon, program: ROOKERY }, Shell { daemon: &daemon, program: WORKER });
    let (reviewer, coder) = (["--agent", "reviewer@pr-123"], ["--agent", "coder@pr-123"]);
    let with = |agent: [&'static str; 2], arguments: &[&'static str]| -> Vec<&'static str> {
        arguments.iter().copied().chain(agent).collect()
    };
    assert_eq!(worker.call_text(&with(coder, &["inbox"])), "");
    assert_eq!(worker.call_text(&with(reviewer, &["send", "@coder please fix the auth issue"])), "sent\n");
    let (code, stdout, stderr) = shell.run(&with(reviewer, &["send", "@ghost are you there?"]));
    assert_eq!((code, stdout.as_str()), (0, "sent\n"));
    assert!(stderr.contains("Nobody is called @ghost") && stderr.contains("@coder"), "{stderr}");

    let peeked = shell.json(&with(coder, &["inbox", "--peek"]));
    assert_eq!(peeked["messages"][0]["entry"]["from"], "reviewer");
    let shown = worker.call_text(&with(coder, &["inbox"]));
    assert!(shown.contains("[reviewer]") && shown.contains("@coder please fix the auth issue\n"), "{shown}");
    assert_eq!(shell.json(&with(coder, &["mentions"])), peeked);
    let id = text(&peeked["messages"][0]["entry"]["id"]);
    let standing = shell.call_text(&["status", &id, reviewer[0], reviewer[1]]);
    assert!(standing.contains("coder@pr-123  read"), "{standing}");
    assert_eq!(shell.call_text(&["ack", &id, coder[0], coder[1]]), "acknowledged\n");
    assert_eq!(shell.json(&with(coder, &["inbox"])), json!({"messages": []}));
    assert_eq!(shell.json(&with(coder, &["read", "-n", "1"]))["entries"][0]["message"], "@ghost are you there?");
    assert_eq!(shell.json(&with(coder, &["peek"]))["entries"].as_array().unwrap().len(), 2);
    assert_eq!(shell.json(&with(coder, &["wait", "--timeout", "1s"])), json!({"messages": []}));

    let (code, _, stderr) = shell.run(&with(coder, &["ack", "never"]));
    assert_eq!(code, 1);
    assert!(stderr.contains("[MESSAGE_NOT_FOUND]") && stderr.contains("hint:"), "{stderr}");
    assert_eq!(shell.run(&["send"]).0, 2);
    let by_name = run_command(shell.command(&["inbox", "--json"]).env("ROOKERY_AGENT_ID", "coder@pr-123"));
    assert_eq!(by_name.0, 0, "{}", by_name.2);
}

#[test]
fn doc_command_reads_writes_and_lists_documents() {
    let daemon = setup().start().unwrap();
    let shell = Shell { daemon: &daemon, program: ROOKERY };
    assert_eq!(shell.call_text(&["doc", "read"]), "");
    let piped = run_command(shell.command(&["doc", "write", "-", "--base", "0"]).write_stdin("# Notes\n\n- one\n"));
    assert_eq!((piped.0, piped.1.as_str()), (0, "written\n"), "{}", piped.2);
    assert_eq!(shell.call_text(&["doc", "append", "- two"]), "appended\n");
    assert_eq!(shell.call_text(&["doc", "read"]), "# Notes\n\n- one\n- two", "byte for byte");
    assert_eq!(
        shell.call_text(&["doc", "create", "findings/auth.md", "-v"]),
        "created\n",
        "a text may begin with a dash"
    );
    assert_eq!(shell.call_text(&["doc", "list"]), "findings/auth.md\nnotes.md\n");
    assert_eq!(shell.call_text(&["doc", "history", "--at", "1"]), "# Notes\n\n- one\n");
    let history = shell.call_text(&["doc", "history"]);
    assert!(history.contains("appended") && history.contains("person:"), "{history}");
    let (code, _, stderr) = shell.run(&["doc", "write", "other", "--base", "1"]);
    assert!(code == 1 && stderr.contains("[STALE_VERSION]"), "{stderr}");
    let newer = "version 2 by person:local is newer: `rookery context doc read` shows it, and --base 2 writes over it";
    assert!(stderr.contains(newer), "{stderr}");
    let (_, _, stderr) = shell.run(&["doc", "write", "other", "--base", "1", "--json"]);
    let error: Value = serde_json::from_str(&stderr).unwrap();
    let text = json!({"version": 2, "author": "person:local", "content": "# Notes\n\n- one\n- two"});
    assert_eq!((&error["code"], &error["detail"]["newer"]), (&json!("STALE_VERSION"), &text));
    let (_, _, stderr) = shell.run(&["doc", "delete", "findings/auth.md", "--base", "7"]);
    assert!(stderr.contains("doc read findings/auth.md"), "{stderr}");
    assert_eq!(shell.call_text(&["doc", "delete", "findings/auth.md"]), "deleted\n");
    assert_eq!(shell.json(&["doc", "list"]), json!({"files": ["notes.md"]}));
    assert_eq!(shell.run(&["doc", "read", "../x.md"]).0, 1);
}

#[test]
fn person_sends_and_reads_in_any_instance() {
    let daemon = setup().start().unwrap();
    let shell = Shell { daemon: &daemon, program: ROOKERY };
    shell.call_text(&["inbox", "--agent", "coder", "--instance", "pr-1"]);
    assert_eq!(shell.call_text(&["send", "@coder look at this", "--instance", "pr-1"]), "sent\n");
    let waiting = shell.json(&["inbox", "--agent", "coder@pr-1"]);
    assert_eq!(waiting["messages"][0]["entry"]["message"], "@coder look at this");
    assert_eq!(shell.json(&["read", "--instance", "pr-1"])["entries"].as_array().unwrap().len(), 1);
    assert_eq!(shell.json(&["read"])["entries"], json!([]), "the channel of another instance");
    assert_eq!(shell.call_text(&["doc", "write", "for one", "--instance", "pr-1"]), "written\n");
    assert_eq!(shell.call_text(&["doc", "read", "--agent", "coder@pr-1"]), "for one");
    assert_eq!(shell.call_text(&["doc", "read"]), "");
}

#[test]
fn doc_command_rejects_oversized_document() {
    let daemon = setup().start().unwrap();
    let shell = Shell { daemon: &daemon, program: ROOKERY };
    for size in [1_100_000, 12_000_000] {
        let (code, _, stderr) = run_command(shell.command(&["doc", "write", "-"]).write_stdin("x".repeat(size)));
        assert!(code == 1 && stderr.contains("the body is larger than 1048576 bytes [TOO_LARGE]"), "{stderr}");
        assert!(stderr.contains("hint: nothing was done"), "{stderr}");
    }
    assert_eq!(shell.call_text(&["doc", "read"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coord_command_publishes_checks_and_acknowledges() {
    let daemon = setup().start().unwrap();
    let shell = Shell { daemon: &daemon, program: WORKER };
    let backend = connect_to(&daemon, Transport::Stateless, "coord", Some("backend")).await;
    backend.call("coord_send_heartbeat", json!({})).await;
    let publish = ["coord", "publish", "BLOCKING_ISSUE", "API endpoint missing", "see #4", "--to", "backend"];
    let sent = shell.call_text(&[&publish[..], &["--to", "ghost", "--agent", "frontend"]].concat());
    let id = sent.trim();
    assert!(id.starts_with("msg-"), "{id}");
    let pending = backend.call("coord_check_messages", json!({})).await["pending"][0].clone();
    assert_eq!((&pending["id"], &pending["from"]), (&json!(id), &json!("frontend")));
    shell.call_text(&["coord", "publish", "STATUS_UPDATE", "half done", "--agent", "backend"]);
    let shown = shell.call_text(&["coord", "check", "--agent", "frontend"]);
    assert!(shown.contains("[backend] STATUS_UPDATE msg-") && shown.contains("half done\n"), "{shown}");
    assert_eq!(shell.call_text(&["coord", "ack", id, "--agent", "backend"]), format!("{id} is acknowledged\n"));
    let present = shell.json(&["presence"]);
    assert_eq!(present["instances"].as_array().unwrap().len(), 2, "{present}");
}

#[test]
fn context_command_without_daemon_exits_with_code_three() {
    let mut daemon = setup().start().unwrap();
    daemon.stop().unwrap();
    let shell = Shell { daemon: &daemon, program: ROOKERY };
    let (code, stdout, stderr) = shell.run(&["inbox", "--no-start", "--agent", "a"]);
    assert_eq!((code, stdout.as_str()), (3, ""), "{stderr}");
}

#[test]
fn context_command_releases_and_discards_held_messages() {
    let daemon = setup().env("ROOKERY_MESSAGES_PER_MINUTE", "1").start().unwrap();
    let shell = Shell { daemon: &daemon, program: ROOKERY };
    shell.call_text(&["inbox", "--agent", "b"]);
    let ids: Vec<String> = (0..3).map(|_| text(&shell.json(&["send", "@b go", "--agent", "a"])["id"])).collect();
    let held = shell.call_text(&["held"]);
    assert!(
        held.contains(&ids[1]) && held.contains("more than 1 messages a minute") && !held.contains(&ids[0]),
        "{held}"
    );
    assert_eq!(shell.call_text(&["release", &ids[1]]), "released\n");
    assert_eq!(shell.call_text(&["discard", &ids[2], "--reason", "noise"]), "discarded\n");
    assert_eq!(shell.json(&["held"]), json!([]));
    assert_eq!(shell.json(&["inbox", "--agent", "b"])["messages"].as_array().unwrap().len(), 2);
}
