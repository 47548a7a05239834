//! The command line with a real daemon: tables, JSON, exit codes.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Team, setup, team, team_of, text};

/// Exit code, stdout and stderr of `rookery`, run in the project's folder.
pub fn rookery(root: &Path, args: &[&str]) -> (i32, String, String) {
    rookery_with_store(root, None, args)
}

/// As [`rookery`], in a project whose store is named by the environment.
pub fn rookery_with_store(root: &Path, store: Option<String>, args: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
        command.env_remove(name);
    }
    command.envs(store.map(|store| ("ROOKERY_STORE", store)));
    let output = command.current_dir(root).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn run(team: &Team, args: &[&str]) -> String {
    let (code, stdout, stderr) = rookery(team.root(), args);
    assert_eq!(code, 0, "{args:?}: {stderr}");
    stdout
}

fn run_json(team: &Team, args: &[&str]) -> Value {
    let stdout = run(team, &[args, &["--json"]].concat());
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {stdout}"))
}

#[track_caller]
fn assert_failure(team: &Team, args: &[&str], code: i32, expected: &str) {
    let (found, stdout, stderr) = rookery(team.root(), args);
    assert_eq!(found, code, "{args:?}: {stdout}{stderr}");
    assert!(stderr.contains(expected) && stderr.contains("hint"), "{args:?}: {stderr}");
    assert_eq!(stdout, "", "{args:?}");
}

#[tokio::test]
async fn tables_and_json_output_agree() {
    let team = team(&["lead", "a"]).await;
    let task = team.create_task().await;
    team.try_move_task(&task, "in_progress", "a").await;
    team.try_claim("src/x.rs", "a").await;
    let offered = json!({"from_agent": "a", "task_id": task, "summary": "half done"});
    let handoff = text(&team.post("/handoffs", offered).await.unwrap().body["id"]);
    for (args, path) in [
        (&["agents"][..], "/agents"),
        (&["tasks"], "/tasks"),
        (&["resources"], "/resources"),
        (&["handoffs"], "/handoffs"),
    ] {
        assert_eq!(run_json(&team, args), team.ok(path).await, "{args:?}");
    }
    assert_eq!(run_json(&team, &["status"])["status"]["agents"], team.ok("/status").await["agents"]);
    for (args, words) in [
        (&["agents"][..], vec!["AGENT", "lead", "working"]),
        (&["tasks"], vec![task.as_str(), "in_progress"]),
        (&["resources", "--claimed"], vec!["src/x.rs", "claimed"]),
        (&["handoffs"], vec![handoff.as_str(), "pending", "anyone"]),
        (&["status"], vec![team.url(), "1 in progress", "lead lead"]),
    ] {
        let shown = run(&team, args);
        for word in words {
            assert!(shown.contains(word), "{args:?} shows no {word}:\n{shown}");
        }
    }
    assert_eq!(run_json(&team, &["tasks", "--status", "done"]), json!([]));
    assert_eq!(run_json(&team, &["tasks", "--agent", "a"]).as_array().unwrap().len(), 1);
    assert_eq!(run_json(&team, &["resources", "--conflicted"]), json!([]));
    let (code, _, stderr) = rookery(team.root(), &["tasks", "--status", "open"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("in_progress"), "{stderr}");
}

#[tokio::test]
async fn log_is_listed_oldest_first_with_numbers_for_redact() {
    let team = team(&["a", "b"]).await;
    let note = json!({"agent_id": "b", "action": "x.note", "metadata": {"text": "secret-123"}});
    let event = team.post("/events", note).await.unwrap().body;
    let shown = run_json(&team, &["log"]);
    let mut listed = team.ok("/events").await;
    listed.as_array_mut().unwrap().reverse();
    assert_eq!(shown, listed);
    assert_eq!(run_json(&team, &["log", "-n", "1", "--type", "agent.joined", "--agent", "a"])[0]["agent_id"], "a");
    let text = run(&team, &["log", "-n", "1"]);
    let seq = event["seq"].to_string();
    assert!(text.trim_start().starts_with(&seq) && text.contains("  note  ") && !text.contains("x.note"), "{text}");
    assert_eq!(run_json(&team, &["redact", &seq])["redacted"], json!([event["seq"]]));
    assert!(!run(&team, &["log", "--json"]).contains("secret-123"));
    assert_failure(&team, &["redact", "9999"], 1, "9999");
    assert!(run(&team, &["redact", "--match", "never-there"]).contains("nothing to redact"));
}

#[tokio::test]
async fn retry_with_reopen_reopens_an_ended_task_and_its_dependents() {
    let team = team(&["lead", "a"]).await;
    let (first, other) = (team.create_task().await, team.create_task().await);
    let dependent = team.post("/tasks", json!({"title": "t", "assigned_by": "lead", "depends_on": [first]})).await;
    let dependent = text(&dependent.unwrap().body["id"]);
    for task in [&first, &dependent] {
        team.try_move_task(task, "in_progress", "a").await;
        team.try_move_task(task, "done", "a").await;
    }
    let state = async |task: &str| team.ok(&format!("/tasks/{task}")).await["state"].clone();
    assert_failure(&team, &["retry", &first], 1, "INVALID_TRANSITION");
    let answer = run_json(&team, &["retry", &first, "--reopen"]);
    assert_eq!(answer, json!({"run_id": "run_default", "task_id": first, "state": "pending", "attempt": 2}));
    assert_eq!((state(&first).await, state(&dependent).await), (json!("pending"), json!("pending")));
    assert_failure(&team, &["retry", &first, "--reopen"], 1, "INVALID_TRANSITION");
    assert_failure(&team, &["retry", "task_ghost", "--reopen"], 1, "TASK_NOT_FOUND");
    run(&team, &["cancel", &other]);
    let printed = run(&team, &["retry", &other, "--reopen"]);
    assert_eq!(
        printed,
        format!("{other} is open again for attempt 2, with its subtasks and the tasks that depend on it\n")
    );
}

#[tokio::test]
async fn agents_as_json_show_the_session_of_the_last_heartbeat() {
    let team = team(&["a"]).await;
    assert_eq!(run_json(&team, &["agents"])[0].get("session_id"), None);
    team.post("/agents/a/heartbeat", json!({"session_id": "session-1"})).await.unwrap();
    assert_eq!(run_json(&team, &["agents"])[0]["session_id"], "session-1");
}

#[tokio::test]
async fn log_tells_a_reserved_task_from_a_claimed_one() {
    let team = team(&["lead", "a"]).await;
    let task = json!({"title": "Build it", "assigned_by": "lead", "assigned_to": "a"});
    let task = text(&team.post("/tasks", task).await.unwrap().body["id"]);
    team.move_task(&task, "in_progress", "a").await;
    let log = run(&team, &["log"]);
    assert!(log.contains("task 'Build it' reserved for a"), "{log}");
    assert!(log.contains("task 'Build it' claimed by a"), "{log}");
}

#[tokio::test]
async fn adding_a_known_agent_keeps_its_card_and_adds_what_is_given() {
    let team = team(&[]).await;
    let url = "http://127.0.0.1:9/in";
    run(&team, &["agents", "add", "ken", "--url", "http://127.0.0.1:9/old", "--capability", "research"]);
    run(&team, &["agents", "add", "ken", "--url", url, "--capability", "research@1.2", "--capability", "tool:browser"]);
    run(&team, &["agents", "add", "ken", "--url", url]);
    let card = team.ok("/clutch/v0/agents/ken").await;
    assert_eq!(card["endpoints"]["clutch"]["url"], url);
    assert_eq!(card["capabilities"], json!([{"id": "skill:research", "version": "1.2"}, {"id": "tool:browser"}]));
}

#[tokio::test]
async fn person_can_assign_cancel_release_and_resolve_by_command() {
    let team = team(&["lead", "a", "b"]).await;
    let task = team.create_task().await;
    assert_eq!(run_json(&team, &["assign", &task, "a"])["assigned_to"], "a");
    team.try_move_task(&task, "in_progress", "a").await;
    assert!(run(&team, &["assign", &task, "b"]).contains("assigned to b"));
    assert_eq!(team.ok(&format!("/tasks/{task}")).await["assigned_to"], "b");
    let decision = team.events("authority.decision").await.pop().unwrap();
    assert_eq!((&decision["agent_id"], &decision["task_id"]), (&json!("person:local"), &json!(task)));
    assert_failure(&team, &["assign", &task, "ghost"], 1, "Agent not found");
    assert_failure(&team, &["assign", "task_ghost", "a"], 1, "Task not found");
    assert_failure(&team, &["retry", &task], 1, "INVALID_TRANSITION");
    assert_eq!(run_json(&team, &["cancel", &task, "--reason", "no need"])["state"], "cancelled");
    assert_failure(&team, &["cancel", &task], 1, "cancelled");

    team.try_claim("src/x.rs", "a").await;
    assert!(run(&team, &["release", "src/x.rs"]).contains("a held it"));
    assert_eq!(team.resource("src/x.rs").await["state"], "free");
    assert_failure(&team, &["release", "src/x.rs"], 1, "nobody holds");
    assert_failure(&team, &["release", "ghost"], 1, "not tracked");
    team.try_claim("src/x.rs", "a").await;
    let changed = json!({"agent_id": "b", "action": "resource.modified", "resource": "src/x.rs"});
    team.post("/events", changed).await.unwrap();
    assert!(run(&team, &["resources", "--conflicted"]).contains("conflicted"));
    assert_eq!(run_json(&team, &["resolve", "src/x.rs", "--pick", "b"])["owner"], "b");
    assert_failure(&team, &["resolve", "src/x.rs", "--pick", "b"], 1, "NOT_CONFLICTED");
}

#[tokio::test]
async fn folder_claim_is_released_by_its_name() {
    let team = team(&["a"]).await;
    team.try_claim("src/deep/", "a").await;
    run(&team, &["release", "src/deep/"]);
    assert_eq!(team.resource("src/deep/").await["state"], "free");
}

#[tokio::test]
async fn token_commands_create_list_and_revoke() {
    let team = team_of(setup().arg("--no-watch").arg("--require-token"), &[]).await;
    let (code, stdout, stderr) =
        rookery(team.root(), &["token", "create", "--agent", "a", "--expires", "30d", "--label", "ci"]);
    assert_eq!(code, 0, "{stderr}");
    let secret = stdout.trim();
    assert!(secret.starts_with("rkt_") && !stderr.contains(secret));
    let bearer = format!("Bearer {secret}");
    let with = [("authorization", bearer.as_str())];
    assert_eq!(team.send(Method::GET, "/status", &with, None).await.status, 200);
    let listed = run_json(&team, &["token", "list"]);
    assert_eq!(
        (&listed[0]["agent"], &listed[0]["role"], &listed[0]["label"]),
        (&json!("a"), &json!("agent"), &json!("ci"))
    );
    assert!(listed[0]["expires_at"].is_i64());
    let id = text(&listed[0]["id"]);
    run(&team, &["token", "revoke", &id]);
    assert_eq!(team.send(Method::GET, "/status", &with, None).await.status, 401);
    assert_failure(&team, &["token", "revoke", &id], 1, "Token not found");
    assert_eq!(rookery(team.root(), &["token", "create", "--agent", "a", "--role", "god"]).0, 2);
    // The command line still works: it uses the person's key.
    assert_eq!(run_json(&team, &["agents"]), json!([]));
}

#[tokio::test]
async fn command_without_daemon_exits_with_code_three() {
    let mut team = team(&["a"]).await;
    team.kill().unwrap();
    for args in [&["status"][..], &["agents"], &["log"], &["cancel", "task_x"]] {
        let (code, _, stderr) = rookery(team.root(), args);
        assert_eq!(code, 3, "{args:?}: {stderr}");
        assert!(stderr.contains("rookery up"), "{stderr}");
    }
    let (code, stdout, stderr) = rookery(team.root(), &["status", "--json"]);
    let error: Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!((code, stdout.as_str()), (3, ""));
    assert!(error["hint"].as_str().unwrap().contains("rookery up"));
}

#[tokio::test]
async fn command_in_subfolder_finds_the_project() {
    let team = team(&["a"]).await;
    let deep = team.root().join("src/deep");
    std::fs::create_dir_all(&deep).unwrap();
    let (code, stdout, stderr) = rookery(&deep, &["agents", "--json", "--no-start"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap()[0]["id"], "a");
}

#[tokio::test]
async fn down_command_is_a_clean_shutdown() {
    let mut team = team(&["a"]).await;
    run(&team, &["down"]);
    assert!(team.get("/healthz").await.is_err());
    let (code, ..) = rookery(team.root(), &["status"]);
    assert_eq!(code, 3);
    assert!(!team.root().join(".rookery/daemon.json").exists());
    team.restart().unwrap();
    assert_eq!(team.ok("/agents/a").await["id"], "a");
}
