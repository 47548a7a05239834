//! `rookery worktree`: sessions in worktrees, from a person's terminal, as the other agents see them.

use std::fs;
use std::path::Path;

use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::support::{Client, Way, connect, setup, text};
use crate::workspaces::{git, project};

/// Exit code, stdout and stderr of `rookery worktree …` somewhere in the project.
fn worktree(daemon: &Daemon, folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
        command.env_remove(name);
    }
    assert!(folder.starts_with(daemon.root()));
    let output = command.current_dir(folder).args(["worktree", "--no-start"]).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

async fn told(client: &Client) -> Vec<(String, String, String, String)> {
    let pending = client.call("coord_check_messages", json!({})).await["pending"].as_array().unwrap().clone();
    let part = |message: &Value, name: &str| text(&message[name]);
    let mut all = vec![];
    for message in &pending {
        all.push((part(message, "type"), part(message, "from"), part(message, "subject"), part(message, "body")));
        client.call("coord_ack_message", json!({"message_id": message["id"]})).await;
    }
    all
}

fn ended(name: &str, reason: &str) -> (String, String, String, String) {
    let end = |text: &str| text.to_owned();
    (end("SESSION_END"), end(name), format!("Session ended: {name}"), format!("Session ended. Reason: {reason}"))
}

#[tokio::test]
async fn a_session_begins_and_ends_with_its_worktree() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let other = connect(&daemon, Way::Session, Some("other")).await;
    other.register("other").await;
    let (code, said, _) = worktree(&daemon, &root, &["new", "p11-guardrails"]);
    let path = root.join(".worktrees/p11-guardrails");
    let shown = path.display();
    assert_eq!(code, 0);
    assert_eq!(said, format!("{shown}\ncd {shown} && export ROOKERY_AGENT_ID=p11-guardrails\n"));
    assert_eq!(git(&path, &["branch", "--show-current"]), "feature/p11-guardrails\n");
    assert_eq!(git(&root, &["status", "--porcelain"]), "", "the repository does not see them");
    let [(kind, from, subject, body)] = &told(&other).await[..] else { panic!("one message") };
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

    let (code, again, _) = worktree(&daemon, &path, &["new", "p11-guardrails", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((code, &again["created"], &again["message_id"]), (0, &json!(false), &Value::Null));
    assert_eq!(told(&other).await, []);

    fs::write(path.join("work.txt"), "work").unwrap();
    let (code, _, why) = worktree(&daemon, &root, &["remove", "p11-guardrails"]);
    assert!(code == 1 && why.contains("--merge") && why.contains("--abandon"), "{why}");
    let (code, _, why) = worktree(&daemon, &root, &["merge", "p11-guardrails"]);
    assert!(code == 1 && why.contains("not committed"), "{why}");
    assert!(told(&other).await.is_empty() && path.is_dir(), "nothing has ended");
    let (code, said, why) = worktree(&daemon, &root, &["remove", "p11-guardrails", "--merge"]);
    assert_eq!(code, 0, "{why}");
    assert!(said.contains("is deleted"), "{said}");
    assert!(root.join("work.txt").is_file() && !path.exists());
    assert_eq!(told(&other).await, [ended("p11-guardrails", "task_complete")]);
    assert_eq!(worktree(&daemon, &root, &["remove", "p11-guardrails"]).0, 1, "it is gone");
    let (code, ..) = worktree(&daemon, &root, &["new", "p11-guardrails"]);
    assert_eq!((code, told(&other).await.len()), (0, 1), "whoever left begins anew");
}

#[tokio::test]
async fn what_is_abandoned_is_kept_and_the_reasons_are_told() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let other = connect(&daemon, Way::Session, Some("other")).await;
    other.register("other").await;
    for name in ["clean", "dirty", "stuck"] {
        assert_eq!(worktree(&daemon, &root, &["new", name]).0, 0);
    }
    told(&other).await;
    fs::write(root.join(".worktrees/dirty/work.txt"), "precious").unwrap();
    let (_, listed, _) = worktree(&daemon, &root, &["list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let status = |at: usize| (text(&listed[at]["context"]), text(&listed[at]["status"]));
    assert_eq!(status(0), ("clean".to_owned(), "clean".to_owned()));
    assert_eq!(status(1), ("dirty".to_owned(), "modified".to_owned()));
    assert_eq!(listed[1]["path"], json!(root.join(".worktrees/dirty")));

    let (code, said, note) = worktree(&daemon, &root, &["remove", "dirty", "--abandon"]);
    assert!(code == 0 && said.contains("removed"), "{said}");
    let kept = note.split_whitespace().find(|word| word.starts_with("refs/rookery/backup/")).unwrap();
    let kept = kept.trim_end_matches(';');
    assert_eq!(git(&root, &["show", &format!("{kept}:work.txt")]), "precious");
    assert_eq!(worktree(&daemon, &root, &["remove", "clean"]).0, 0);
    assert_eq!(told(&other).await, [ended("dirty", "user_exit"), ended("clean", "user_exit")]);

    git(&root, &["worktree", "lock", root.join(".worktrees/stuck").to_str().unwrap()]);
    let (code, _, why) = worktree(&daemon, &root, &["remove", "stuck", "--abandon"]);
    assert!(code == 1 && why.contains("locked"), "{why}");
    assert_eq!(told(&other).await, [ended("stuck", "error")], "the session is over, the folder is not");
    git(&root, &["worktree", "unlock", root.join(".worktrees/stuck").to_str().unwrap()]);
    assert_eq!(worktree(&daemon, &root, &["remove", "stuck"]).0, 0);
    let (_, none, _) = worktree(&daemon, &root, &["list", "--json"]);
    assert_eq!(none, "[]\n");
}

#[tokio::test]
async fn a_conflict_ends_nothing() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let other = connect(&daemon, Way::Session, Some("other")).await;
    other.register("other").await;
    worktree(&daemon, &root, &["new", "x", "--branch", "topic", "--base", "main"]);
    told(&other).await;
    let path = root.join(".worktrees/x");
    assert_eq!(git(&path, &["branch", "--show-current"]), "topic\n");
    fs::write(path.join("a.txt"), "theirs\n").unwrap();
    fs::write(root.join("a.txt"), "ours\n").unwrap();
    git(&root, &["commit", "--quiet", "-am", "ours"]);
    let (code, _, why) = worktree(&daemon, &root, &["remove", "x", "--merge"]);
    assert!(code == 1 && why.contains("a.txt") && why.contains("MERGE_CONFLICT"), "{why}");
    assert!(path.is_dir() && told(&other).await.is_empty());
    assert_eq!(git(&root, &["status", "--porcelain"]), "");
    git(&path, &["merge", "--quiet", "--strategy=ours", "-m", "resolved", "main"]);
    let (code, merged, _) = worktree(&daemon, &root, &["merge", "x", "--json"]);
    let merged: Value = serde_json::from_str(&merged).unwrap();
    assert_eq!((code, text(&merged["merge_commit"])), (0, git(&root, &["rev-parse", "main"]).trim().to_owned()));
    assert_eq!(worktree(&daemon, &root, &["merge", "x"]).0, 0, "nothing more to merge");
    assert_eq!(worktree(&daemon, &root, &["remove", "x"]).0, 0);
    assert_eq!(told(&other).await, [ended("x", "user_exit")]);
}

#[tokio::test]
async fn worktrees_made_by_hand_are_taken_over_and_bad_names_are_refused() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let path = root.join(".worktrees/mine");
    git(&root, &["worktree", "add", "--quiet", "-b", "own", path.to_str().unwrap()]);
    let (code, said, _) = worktree(&daemon, &root, &["new", "mine", "--json"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(worktree(&daemon, &root, &["remove", "mine"]).0, 0);
    assert!(!path.exists());
    git(&root, &["rev-parse", "--verify", "own"]);
    for bad in ["../x", "a b", "-x", ".git", "a/b"] {
        let (code, ..) = worktree(&daemon, &root, &["new", bad]);
        assert_eq!(code, 2, "{bad}");
    }
    let (code, _, why) = worktree(&daemon, &root, &["new", "x", "--base", "--upload-pack=x"]);
    assert_eq!(code, 2, "{why}");
    let (code, _, why) = worktree(&daemon, &root, &["new", "x", "--base", "nope"]);
    assert!(code == 1 && why.contains("no base branch"), "{why}");
    let (code, _, why) = worktree(&daemon, &root, &["new", "x", "--branch=--force"]);
    assert!(code == 1 && why.contains("not a name"), "{why}");
    let (_, none, _) = worktree(&daemon, &root, &["list", "--json"]);
    assert_eq!(none, "[]\n");
}
