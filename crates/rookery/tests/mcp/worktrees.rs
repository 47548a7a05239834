//! `rookery worktree`: sessions in worktrees, run from a terminal and seen by other agents.

use std::fs;
use std::path::Path;

use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::support::{Client, Transport, connect, setup, text};
use crate::workspaces::{git, project};

/// Runs `rookery worktree` in a folder of the project; returns exit code, stdout and stderr.
fn run_worktree(daemon: &Daemon, folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
        command.env_remove(name);
    }
    assert!(folder.starts_with(daemon.root()));
    let output = command.current_dir(folder).args(["worktree", "--no-start"]).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

async fn take_pending(client: &Client) -> Vec<(String, String, String, String)> {
    let pending = client.call("coord_check_messages", json!({})).await["pending"].as_array().unwrap().clone();
    let part = |message: &Value, name: &str| text(&message[name]);
    let mut all = vec![];
    for message in &pending {
        all.push((part(message, "type"), part(message, "from"), part(message, "subject"), part(message, "body")));
        client.call("coord_ack_message", json!({"message_id": message["id"]})).await;
    }
    all
}

fn session_end(name: &str, reason: &str) -> (String, String, String, String) {
    let end = |text: &str| text.to_owned();
    (end("SESSION_END"), end(name), format!("Session ended: {name}"), format!("Session ended. Reason: {reason}"))
}

#[tokio::test]
async fn worktree_session_is_announced_from_start_to_end() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let other = connect(&daemon, Transport::Session, Some("other")).await;
    other.register("other").await;
    let (code, stdout, _) = run_worktree(&daemon, &root, &["new", "p11-guardrails"]);
    let path = root.join(".worktrees/p11-guardrails");
    let shown = path.display();
    assert_eq!(code, 0);
    assert_eq!(stdout, format!("{shown}\ncd {shown} && export ROOKERY_AGENT_ID=p11-guardrails\n"));
    assert_eq!(git(&path, &["branch", "--show-current"]), "feature/p11-guardrails\n");
    assert_eq!(git(&root, &["status", "--porcelain"]), "", "the repository ignores worktrees");
    let [(kind, from, subject, body)] = &take_pending(&other).await[..] else { panic!("one message") };
    assert_eq!((kind.as_str(), from.as_str()), ("SESSION_START", "p11-guardrails"));
    assert_eq!(subject, "Session started: p11-guardrails");
    let session = body.strip_prefix(&format!("Session started. CWD: {shown}, Session ID: session-")).unwrap();
    let (epoch, number) = session.split_once('-').unwrap();
    assert!(epoch.parse::<u64>().is_ok() && number.parse::<u64>().is_ok(), "{body}");
    let present = other.call("coord_get_presence", json!({})).await["instances"].clone();
    assert!(
        present
            .as_array()
            .unwrap()
            .iter()
            .any(|one| { (&one["instance_id"], &one["status"]) == (&json!("p11-guardrails"), &json!("active")) })
    );

    let (code, again, _) = run_worktree(&daemon, &path, &["new", "p11-guardrails", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((code, &again["created"], &again["message_id"]), (0, &json!(false), &Value::Null));
    assert_eq!(take_pending(&other).await, []);

    fs::write(path.join("work.txt"), "work").unwrap();
    let (code, _, stderr) = run_worktree(&daemon, &root, &["remove", "p11-guardrails"]);
    assert!(code == 1 && stderr.contains("--merge") && stderr.contains("--abandon"), "{stderr}");
    let (code, _, stderr) = run_worktree(&daemon, &root, &["merge", "p11-guardrails"]);
    assert!(code == 1 && stderr.contains("not committed"), "{stderr}");
    assert!(take_pending(&other).await.is_empty() && path.is_dir(), "the session is still open");
    let (code, stdout, stderr) = run_worktree(&daemon, &root, &["remove", "p11-guardrails", "--merge"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("is deleted"), "{stdout}");
    assert!(root.join("work.txt").is_file() && !path.exists());
    assert_eq!(take_pending(&other).await, [session_end("p11-guardrails", "task_complete")]);
    assert_eq!(run_worktree(&daemon, &root, &["remove", "p11-guardrails"]).0, 1, "the worktree is gone");
    let (code, ..) = run_worktree(&daemon, &root, &["new", "p11-guardrails"]);
    assert_eq!((code, take_pending(&other).await.len()), (0, 1), "a new session starts");
}

#[tokio::test]
async fn abandoned_worktree_is_backed_up_and_its_end_announced() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let other = connect(&daemon, Transport::Session, Some("other")).await;
    other.register("other").await;
    for name in ["clean", "dirty", "stuck"] {
        assert_eq!(run_worktree(&daemon, &root, &["new", name]).0, 0);
    }
    take_pending(&other).await;
    fs::write(root.join(".worktrees/dirty/work.txt"), "precious").unwrap();
    let (_, listed, _) = run_worktree(&daemon, &root, &["list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let status = |at: usize| (text(&listed[at]["context"]), text(&listed[at]["status"]));
    assert_eq!(status(0), ("clean".to_owned(), "clean".to_owned()));
    assert_eq!(status(1), ("dirty".to_owned(), "modified".to_owned()));
    assert_eq!(listed[1]["path"], json!(root.join(".worktrees/dirty")));

    let (code, stdout, note) = run_worktree(&daemon, &root, &["remove", "dirty", "--abandon"]);
    assert!(code == 0 && stdout.contains("removed"), "{stdout}");
    let kept = note.split_whitespace().find(|word| word.starts_with("refs/rookery/backup/")).unwrap();
    let kept = kept.trim_end_matches(';');
    assert_eq!(git(&root, &["show", &format!("{kept}:work.txt")]), "precious");
    assert_eq!(run_worktree(&daemon, &root, &["remove", "clean"]).0, 0);
    assert_eq!(take_pending(&other).await, [session_end("dirty", "user_exit"), session_end("clean", "user_exit")]);

    git(&root, &["worktree", "lock", root.join(".worktrees/stuck").to_str().unwrap()]);
    let (code, _, stderr) = run_worktree(&daemon, &root, &["remove", "stuck", "--abandon"]);
    assert!(code == 1 && stderr.contains("locked"), "{stderr}");
    assert_eq!(
        take_pending(&other).await,
        [session_end("stuck", "error")],
        "the session has ended, the folder remains"
    );
    git(&root, &["worktree", "unlock", root.join(".worktrees/stuck").to_str().unwrap()]);
    assert_eq!(run_worktree(&daemon, &root, &["remove", "stuck"]).0, 0);
    let (_, none, _) = run_worktree(&daemon, &root, &["list", "--json"]);
    assert_eq!(none, "[]\n");
}

#[tokio::test]
async fn merge_conflict_keeps_the_worktree_session() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let other = connect(&daemon, Transport::Session, Some("other")).await;
    other.register("other").await;
    run_worktree(&daemon, &root, &["new", "x", "--branch", "topic", "--base", "main"]);
    take_pending(&other).await;
    let path = root.join(".worktrees/x");
    assert_eq!(git(&path, &["branch", "--show-current"]), "topic\n");
    fs::write(path.join("a.txt"), "theirs\n").unwrap();
    fs::write(root.join("a.txt"), "ours\n").unwrap();
    git(&root, &["commit", "--quiet", "-am", "ours"]);
    let (code, _, stderr) = run_worktree(&daemon, &root, &["remove", "x", "--merge"]);
    assert!(code == 1 && stderr.contains("a.txt") && stderr.contains("MERGE_CONFLICT"), "{stderr}");
    assert!(path.is_dir() && take_pending(&other).await.is_empty());
    assert_eq!(git(&root, &["status", "--porcelain"]), "");
    git(&path, &["merge", "--quiet", "--strategy=ours", "-m", "resolved", "main"]);
    let (code, merged, _) = run_worktree(&daemon, &root, &["merge", "x", "--json"]);
    let merged: Value = serde_json::from_str(&merged).unwrap();
    assert_eq!((code, text(&merged["merge_commit"])), (0, git(&root, &["rev-parse", "main"]).trim().to_owned()));
    assert_eq!(run_worktree(&daemon, &root, &["merge", "x"]).0, 0, "nothing is left to merge");
    assert_eq!(run_worktree(&daemon, &root, &["remove", "x"]).0, 0);
    assert_eq!(take_pending(&other).await, [session_end("x", "user_exit")]);
}

#[tokio::test]
async fn manual_worktree_is_adopted_and_invalid_name_is_rejected() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let path = root.join(".worktrees/mine");
    git(&root, &["worktree", "add", "--quiet", "-b", "own", path.to_str().unwrap()]);
    let (code, stdout, _) = run_worktree(&daemon, &root, &["new", "mine", "--json"]);
    assert_eq!(code, 0, "{stdout}");
    assert_eq!(run_worktree(&daemon, &root, &["remove", "mine"]).0, 0);
    assert!(!path.exists());
    git(&root, &["rev-parse", "--verify", "own"]);
    for bad in ["../x", "a b", "-x", ".git", "a/b"] {
        let (code, ..) = run_worktree(&daemon, &root, &["new", bad]);
        assert_eq!(code, 2, "{bad}");
    }
    let (code, _, stderr) = run_worktree(&daemon, &root, &["new", "x", "--base", "--upload-pack=x"]);
    assert_eq!(code, 2, "{stderr}");
    let (code, _, stderr) = run_worktree(&daemon, &root, &["new", "x", "--base", "nope"]);
    assert!(code == 1 && stderr.contains("no base branch"), "{stderr}");
    let (code, _, stderr) = run_worktree(&daemon, &root, &["new", "x", "--branch=--force"]);
    assert!(code == 1 && stderr.contains("not a name"), "{stderr}");
    let (_, none, _) = run_worktree(&daemon, &root, &["list", "--json"]);
    assert_eq!(none, "[]\n");
}
