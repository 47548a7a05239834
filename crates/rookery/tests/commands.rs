//! The program as people and scripts use it: exit codes, standard output and standard error.
//!
//! The daemon is a stand-in that answers from a table, so that these tests check the command line against the REST
//! contract
//! alone.

#![expect(clippy::unwrap_used, reason = "a stand-in that fails fails its test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use assert_cmd::Command;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A project whose daemon answers from a table of `METHOD /path?query [after LAST-EVENT-ID]` to status and body.
struct Project {
    folder: TempDir,
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

type Answers = BTreeMap<String, (u16, String)>;

impl Project {
    fn without_daemon() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, requests: Arc::default() }
    }

    fn with_daemon(answers: &[(&str, u16, Value)]) -> Self {
        let project = Self::without_daemon();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut table: Answers =
            answers.iter().map(|(route, status, body)| ((*route).into(), (*status, body_text(body)))).collect();
        table.insert("GET /healthz".into(), (200, "{}".into()));
        let seen = Arc::clone(&project.requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve_request(stream, &table, &seen);
            }
        });
        let rookery = project.folder.path().join(".rookery");
        std::fs::create_dir(&rookery).unwrap();
        let file =
            json!({"pid": 1, "url": url, "socket": null, "version": "0.1.0", "project": "prj_1", "started_at": 0});
        std::fs::write(rookery.join("daemon.json"), file.to_string()).unwrap();
        std::fs::write(rookery.join("person.key"), "rkp_secret\n").unwrap();
        project
    }

    /// Runs `rookery` in the project; returns exit code, stdout and stderr.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("rookery"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
            command.env_remove(name);
        }
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    /// The bodies of requests that the stand-in received for one route.
    fn bodies(&self, route: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|(received, _)| received == route).map(|(_, body)| body.clone()).collect()
    }
}

/// JSON as it is sent; a string stands for an event stream.
fn body_text(body: &Value) -> String {
    body.as_str().map_or_else(|| body.to_string(), str::to_owned)
}

fn serve_request(mut stream: TcpStream, table: &Answers, seen: &Mutex<Vec<(String, String)>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).unwrap();
    let mut route = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") && reader.read_line(&mut headers).unwrap() > 2 {}
    for header in headers.lines() {
        if let Some(text) = header.strip_prefix("content-length: ") {
            length = text.parse().unwrap();
        }
        if let Some(last) = header.strip_prefix("last-event-id: ") {
            route = format!("{route} after {last}");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let allowed = headers.contains("authorization: Bearer rkp_secret") && headers.contains("x-rookery-project: prj_1");
    seen.lock().unwrap().push((route.clone(), String::from_utf8(body).unwrap()));
    let not_found = (404, json!({"error": format!("nothing at {route}")}).to_string());
    let (status, body) = if allowed { table.get(&route).unwrap_or(&not_found) } else { &(401, "{}".into()) };
    let kind = if body.starts_with('{') || body.starts_with('[') { "application/json" } else { "text/event-stream" };
    let head =
        format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: {kind}\r\nx-rookery-seq: log_1:7\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
}

fn event_json(number: u32, action: &str) -> Value {
    let id = rookery_core::kernel::event_id::of(rookery_core::Seq(number.into()));
    json!({
        "id": id, "timestamp": 1_700_000_000_000_i64 + i64::from(number), "agent_id": "a", "action": action,
        "resource": null, "task_id": null, "before_hash": null, "after_hash": null, "metadata": {}, "seq": number,
    })
}

#[test]
fn check_of_workflow_file_needs_no_daemon() {
    let project = Project::without_daemon();
    let file = |text: &str| std::fs::write(project.folder.path().join("team.yaml"), text).unwrap();
    file(
        "params: [{name: pr, required: true}]\nagents:\n  ada: {backend: mock, tools: [channel_send], script: [pass]}\nkickoff: '@ada look at ${{ params.pr }}'\n",
    );
    let (code, stdout, stderr) = project.run(&["check", "team.yaml", "--instance", "pr-7", "--", "--pr", "7"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("team.yaml: workflow team, instance pr-7\n"), "{stdout}");
    assert!(stdout.contains("@ada look at 7") && stdout.contains(".workflow/pr-7/"), "{stdout}");

    let (code, _, stderr) = project.run(&["check", "team.yaml"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("team.yaml cannot be run here: missing required parameter `pr`: -- --pr VALUE"),
        "{stderr}"
    );
    let (code, stdout, _) = project.run(&["check", "team.yaml", "--json"]);
    let plan: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &plan["hindrances"]), (1, &json!([{"what": "missing_param", "name": "pr"}])));
    assert_eq!((&plan["agents"][0]["id"], &plan["woken_first"]), (&json!("ada@default"), &json!(["ada"])));

    let (code, _, stderr) = project.run(&["check", "team.yaml", "--", "--rp", "7"]);
    assert!(code == 2 && stderr.contains("did you mean `--pr`?"), "{stderr}");

    file("agents:\n  ada: {backend: mock, tools: [chanel_send], scirpt: [pass]}\n");
    let (code, stdout, stderr) = project.run(&["check", "team.yaml"]);
    assert_eq!(code, 2);
    assert!(
        stdout.contains("team.yaml:2:46: agents.ada.scirpt: unknown key `scirpt`; did you mean `script`?"),
        "{stdout}"
    );
    assert!(
        stdout.contains("agents.ada.tools[0]: there is no tool `chanel_send`; did you mean `channel_send`?"),
        "{stdout}"
    );
    assert!(stderr.contains("error: 2 errors in the file"), "{stderr}");
    let (code, stdout, _) = project.run(&["check", "team.yaml", "--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &report["faults"][1]["line"], &report["omitted"]), (2, &json!(2), &json!(0)));
    let (code, _, _) = project.run(&["check", "nothing.yaml"]);
    assert_eq!(code, 2);
    assert!(!project.folder.path().join(".rookery").exists(), "nothing was created");
}

#[test]
fn commands_without_a_daemon_exit_with_three_and_create_nothing() {
    let project = Project::without_daemon();
    let file = "agents:\n  ada: {backend: mock, script: [pass]}\nkickoff: '@ada hello'\n";
    std::fs::write(project.folder.path().join("team.yaml"), file).unwrap();
    for arguments in [
        &["status"][..],
        &["doctor"],
        &["agents"],
        &["tasks"],
        &["log"],
        &["list"],
        &["stop"],
        &["peek"],
        &["send", "hello", "--to", "bob"],
        &["cancel", "task_1"],
        &["token", "list"],
        &["worktree", "list"],
        &["context", "read"],
        &["mcp"],
        &["start", "team.yaml", "--no-start"],
    ] {
        let (code, _, stderr) = project.run(arguments);
        assert_eq!(code, 3, "{arguments:?}: {stderr}");
        assert!(stderr.contains("error: no daemon runs for "), "{stderr}");
        assert!(stderr.contains("hint: start one with `rookery up`"), "{stderr}");
    }
    assert!(!project.folder.path().join(".rookery").exists(), "failing leaves no trace");
}

#[test]
fn errors_are_json_with_the_json_flag() {
    let (code, stdout, stderr) = Project::without_daemon().run(&["status", "--json"]);
    let error: Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!((code, stdout.as_str()), (3, ""));
    assert_eq!(error["hint"], "start one with `rookery up`, or name another folder with --dir");
}

#[test]
fn down_without_daemon_succeeds() {
    let (code, stdout, stderr) = Project::without_daemon().run(&["down"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", "no daemon runs for this project\n"));
}

#[test]
fn wrong_usage_exits_with_code_two() {
    let project = Project::without_daemon();
    for arguments in [&["frobnicate"][..], &["resolve", "a.rs"], &["redact"], &["redact", "1", "--match", "x"]] {
        assert_eq!(project.run(arguments).0, 2, "{arguments:?}");
    }
    let (code, _, stderr) = project.run(&["config", "--set", "prot=1"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("did you mean `port`?"), "{stderr}");
}

#[test]
fn lists_are_tables_for_people_and_json_for_scripts() {
    let agents = json!([{
        "id": "cursor-1", "tool": "cursor", "role": "lead", "status": "working", "current_task": "task_1",
        "capabilities": ["code", "test"], "joined_at": 0, "last_heartbeat": 9_000_000_000_000_000_i64,
    }]);
    let resources = json!([{
        "path": "src/a.rs", "state": "conflicted", "owner": "cursor-1", "claimed_at": 9_000_000_000_000_000_i64,
        "last_modified_by": null, "content_hash": "",
    }]);
    let project = Project::with_daemon(&[
        ("GET /agents", 200, agents.clone()),
        ("GET /resources?filter=conflicted", 200, resources),
        ("GET /tasks", 200, json!([])),
    ]);
    let (code, stdout, stderr) = project.run(&["agents"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    insta::assert_snapshot!(stdout, @r"
    AGENT     TOOL    ROLE  STATUS   TASK    SEEN    CAPABILITIES
    cursor-1  cursor  lead  working  task_1  0s ago  code, test
    ");
    let (_, stdout, _) = project.run(&["agents", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), agents);
    let (_, stdout, _) = project.run(&["resources", "--conflicted"]);
    insta::assert_snapshot!(stdout, @r"
    PATH      STATE       OWNER     CLAIMED  LAST CHANGED BY
    src/a.rs  conflicted  cursor-1  0s ago   -
    ");
    assert_eq!(project.run(&["tasks"]), (0, String::new(), "no tasks\n".into()));
    assert_eq!(project.run(&["tasks", "--quiet"]), (0, String::new(), String::new()));
}

#[test]
fn rejection_is_printed_with_code_and_hint() {
    let refusal = json!({"error": "Task is done", "code": "INVALID_TRANSITION", "hint": "make a new one"});
    let project = Project::with_daemon(&[("POST /tasks/task_1/retry", 409, refusal)]);
    let (code, stdout, stderr) = project.run(&["retry", "task_1"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(stderr, "error: Task is done [INVALID_TRANSITION]\nhint: make a new one\n");
}

#[test]
fn person_commands_send_documented_requests() {
    let held = json!({"path": "src/a b.rs", "state": "claimed", "owner": "cursor-1", "claimed_at": 1});
    let project = Project::with_daemon(&[
        ("GET /resources/src/a%20b.rs", 200, held),
        ("POST /resources/release", 200, json!({"released": true})),
        ("POST /resources/resolve", 200, json!({"ok": true})),
        ("POST /tasks/task_1/assign", 200, json!({"ok": true})),
        ("POST /tasks/task_1/cancel", 200, json!({"ok": true})),
        ("POST /admin/redact", 200, json!({"redacted": [4, 9]})),
        ("POST /admin/tokens", 201, json!({"id": "tok_1", "token": "rk_secret"})),
        ("DELETE /admin/tokens/tok_1", 200, json!({"ok": true})),
    ]);
    for (arguments, route, body, stdout) in [
        (
            &["release", "src/a b.rs"][..],
            "POST /resources/release",
            json!({"path": "src/a b.rs", "agent_id": "cursor-1"}),
            "src/a b.rs is free; cursor-1 held it\n",
        ),
        (
            &["resolve", "a.rs", "--pick", "b"],
            "POST /resources/resolve",
            json!({"path": "a.rs", "winner": "b"}),
            "a.rs belongs to b\n",
        ),
        (
            &["assign", "task_1", "b"],
            "POST /tasks/task_1/assign",
            json!({"agent_id": "b"}),
            "task_1 is assigned to b\n",
        ),
        (
            &["cancel", "task_1", "--reason", "no use"],
            "POST /tasks/task_1/cancel",
            json!({"reason": "no use"}),
            "task_1 is cancelled\n",
        ),
        (&["redact", "4", "9"], "POST /admin/redact", json!({"seqs": [4, 9]}), "redacted 4 9\n"),
        (
            &["token", "create", "--agent", "b", "--expires", "30d"],
            "POST /admin/tokens",
            json!({"agent": "b", "role": "agent", "expires_in_seconds": 2_592_000}),
            "rk_secret\n",
        ),
        (&["token", "revoke", "tok_1"], "DELETE /admin/tokens/tok_1", Value::Null, "tok_1 is revoked\n"),
    ] {
        let (code, printed, stderr) = project.run(arguments);
        assert_eq!((code, printed.as_str()), (0, stdout), "{arguments:?}: {stderr}");
        let sent = project.bodies(route).pop().unwrap();
        let sent = if sent.is_empty() { Value::Null } else { serde_json::from_str(&sent).unwrap() };
        assert_eq!(sent, body, "{arguments:?}");
    }
}

#[test]
fn run_tree_joins_all_pages_of_a_run() {
    let task = |id: &str, parent: Option<&str>, children: Value| json!({"task_id": id, "parent_task_id": parent, "title": id, "state": "pending", "children": children});
    let page = |next: Value, tasks: Value| json!({"run_id": "run_1", "title": "run_1", "status": "in_progress", "task_count": 6, "next": next, "tasks": tasks});
    let first =
        page(json!(2), json!([task("a", None, json!([task("a1", Some("a"), json!([]))])), task("b", None, json!([]))]));
    let second = page(json!(4), json!([task("a11", Some("a1"), json!([])), task("a2", Some("a"), json!([]))]));
    let third = page(Value::Null, json!([task("b1", Some("b"), json!([])), task("x", Some("gone"), json!([]))]));
    let project = Project::with_daemon(&[
        ("GET /clutch/v0/runs/run_1?limit=1000", 200, first),
        ("GET /clutch/v0/runs/run_1?limit=1000&after=2", 200, second),
        ("GET /clutch/v0/runs/run_1?limit=1000&after=4", 200, third),
    ]);
    let (code, stdout, stderr) = project.run(&["run-tree", "run_1"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let drawn: Vec<&str> = stdout.lines().map(|line| line.split(" (").next().unwrap()).collect();
    assert_eq!(
        drawn,
        [
            "run_1  in_progress",
            "|- [ ] a",
            "|  |- [ ] a1",
            "|  |  `- [ ] a11",
            "|  `- [ ] a2",
            "|- [ ] b",
            "|  `- [ ] b1",
            "`- [ ] x",
        ]
    );
}

#[test]
fn release_of_unclaimed_file_fails() {
    let free = json!({"path": "a.rs", "state": "free", "owner": null});
    let project = Project::with_daemon(&[("GET /resources/a.rs", 200, free)]);
    let (code, _, stderr) = project.run(&["release", "a.rs"]);
    assert_eq!(code, 1);
    assert!(stderr.starts_with("error: nobody holds a.rs\nhint: "), "{stderr}");
}

#[test]
fn log_is_printed_oldest_first() {
    let newest_first = json!([event_json(2, "task.completed"), event_json(1, "task.created")]);
    let project = Project::with_daemon(&[("GET /events?agent_id=a&action=task.completed&limit=2", 200, newest_first)]);
    let (code, stdout, stderr) = project.run(&["log", "-n", "2", "--agent", "a", "--type", "task.completed"]);
    assert_eq!(code, 0, "{stderr}");
    let actions: Vec<&str> = stdout.lines().map(|line| line.split_whitespace().nth(3).unwrap()).collect();
    assert_eq!(actions, ["task.created", "task.completed"], "{stdout}");
}

#[test]
fn log_with_unknown_type_suggests_the_nearest() {
    let project = Project::with_daemon(&[]);
    let (code, stdout, stderr) = project.run(&["log", "--type", "task.complete"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("no event is called 'task.complete'"), "{stderr}");
    assert!(stderr.contains("did you mean 'task.completed'?"), "{stderr}");
}

#[test]
fn log_shows_each_message_and_action_in_one_line() {
    let mut message = event_json(2, "x.message.sent");
    message["metadata"] = json!({"from": "coder", "form": "entry", "text": "@reviewer please\nlook"});
    let mut completed = event_json(1, "task.completed");
    completed["task_id"] = "tk_1".into();
    let project = Project::with_daemon(&[
        ("GET /events?limit=50", 200, json!([message, completed])),
        ("GET /tasks/tk_1", 200, json!({"id": "tk_1", "title": "Fix login"})),
    ]);
    let (code, stdout, stderr) = project.run(&["log"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines[0].ends_with("  task.completed              task 'Fix login' completed by a"), "{stdout}");
    assert!(lines[1].ends_with("  message.sent                coder: @reviewer please look"), "{stdout}");
}

#[test]
fn failed_task_is_listed_as_failed() {
    let task = |id: &str, status: &str, state: &str| json!({"id": id, "title": id, "status": status, "state": state, "created_at": 9_000_000_000_000_000_i64});
    let tasks =
        json!([task("t1", "blocked", "failed"), task("t2", "blocked", "paused"), task("t3", "done", "completed")]);
    let failed = json!([tasks[0]]);
    let project = Project::with_daemon(&[("GET /tasks", 200, tasks), ("GET /tasks?status=failed", 200, failed)]);
    let (_, stdout, _) = project.run(&["tasks"]);
    insta::assert_snapshot!(stdout, @r"
    TASK  STATUS            AGENT  CREATED  TITLE
    t1    failed            -      0s ago   t1
    t2    blocked (paused)  -      0s ago   t2
    t3    done              -      0s ago   t3
    ");
    let (code, stdout, _) = project.run(&["tasks", "--status", "failed"]);
    assert_eq!((code, stdout.lines().count()), (0, 2), "{stdout}");
}

#[test]
fn followed_log_resumes_after_a_lost_connection() {
    let stream =
        |number: u32| json!(format!(": hello\n\nid: log_1:{number}\ndata: {}\n\n", event_json(number, "task.x")));
    // The stand-in closes every stream after its events, and finally rejects one, which ends the command.
    let project = Project::with_daemon(&[
        ("GET /events?limit=1", 200, json!([event_json(1, "task.created")])),
        ("GET /events/stream after log_1:7", 200, stream(8)),
        ("GET /events/stream after log_1:8", 200, stream(9)),
        ("GET /events/stream after log_1:9", 403, json!({"error": "enough"})),
    ]);
    let (code, stdout, stderr) = project.run(&["log", "-f", "-n", "1", "--json"]);
    let seqs: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone()).collect();
    assert_eq!(seqs, [1, 8, 9], "{stderr}");
    assert_eq!(code, 1);
}

#[test]
fn completions_man_pages_and_schemas_need_no_daemon() {
    let project = Project::without_daemon();
    for shell in ["bash", "zsh", "fish"] {
        assert!(project.run(&["completions", shell]).1.contains("rookery"));
    }
    assert!(project.run(&["man"]).1.contains(".TH rookery"));
    assert_eq!(project.run(&["man", "pages"]).0, 0);
    assert!(project.folder.path().join("pages/rookery-up.1").exists());
    let schema: Value = serde_json::from_str(&project.run(&["schema", "config"]).1).unwrap();
    assert_eq!(schema["properties"]["port"]["default"], 4700);
    assert!(project.run(&["reference"]).1.starts_with("# The `rookery` command\n"));
}

#[test]
fn instructions_are_text_for_people_and_json_for_scripts() {
    let project = Project::without_daemon();
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&project.run(arguments).1).unwrap() };
    let instructions = project.run(&["instructions"]).1;
    assert!(instructions.starts_with("## Working in a team"), "{instructions}");
    assert_eq!(json(&["instructions", "--json"]), json!({"text": instructions}));
    let file = project.folder.path().join("AGENTS.md");
    std::fs::write(&file, "# Mine\r\n").unwrap();
    let into = ["instructions", "--into", "AGENTS.md", "--json"];
    assert_eq!(json(&into), json!({"file": "AGENTS.md", "changed": true}));
    assert_eq!(json(&into), json!({"file": "AGENTS.md", "changed": false}));
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.matches('\n').count(), written.matches("\r\n").count());
}

#[test]
fn config_command_shows_the_origin_of_each_setting() {
    let project = Project::without_daemon();
    std::fs::write(project.folder.path().join("rookery.toml"), "port = 5\n").unwrap();
    let output =
        project.command(&["config", "--json", "--set", "watch=no"]).env("ROOKERY_HOST", "::1").output().unwrap();
    let config: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(config["host"], json!({"value": "::1", "origin": "ROOKERY_HOST"}));
    assert_eq!(config["watch"], json!({"value": false, "origin": "flag"}));
    assert_eq!(config["log_level"], json!({"value": "info", "origin": "default"}));
    let origin = config["port"]["origin"].as_str().unwrap();
    assert!(Path::new(origin.trim_end_matches(":1")).ends_with("rookery.toml"), "{origin}");
}

#[test]
fn agent_worker_is_the_same_program() {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("agent-worker"));
    let output = command.arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("Usage: agent-worker"), "{help}");
}

/// A project with its own log, imported without a daemon.
fn project_with_log() -> Project {
    let project = Project::without_daemon();
    let report = rookery_core::files::Report {
        agent: "a".into(),
        action: "x.note".to_owned(),
        resource: None,
        task: None,
        before_hash: None,
        after_hash: None,
        metadata: Default::default(),
    };
    let event = rookery_core::AnyEvent::new(report);
    let row = json!({
        "seq": 1, "at": 1, "kind": event.kind(), "version": event.version(), "run": null, "thread": null, "actor": "a",
        "auth": "none", "cause": null, "part_index": 0, "fact": serde_json::from_slice::<Value>(&event.encode()).unwrap(), "body": null,
    });
    let header = json!({"rookery_export": 1, "log": "log_a", "floor": 1, "head": 1, "format": 1, "project": "p"});
    let lines = format!("{header}\n{row}\n");
    let sha256 = rookery_store::artifact::sha256_hex(lines.as_bytes());
    let footer = format!(r#"{{"rookery_export_end":1,"rows":1,"sha256":"{sha256}"}}"#);
    std::fs::write(project.folder.path().join("log.jsonl"), format!("{lines}{footer}\n")).unwrap();
    let (code, _, stderr) = project.run(&["import", "log.jsonl"]);
    assert_eq!(code, 0, "{stderr}");
    project
}

#[test]
fn store_migration_happens_once_and_the_old_store_names_the_new() {
    let project = project_with_log();
    let to = format!("sqlite:{}", project.folder.path().canonicalize().unwrap().join("moved.db").display());
    let (code, stdout, stderr) = project.run(&["migrate", "--to", "sqlite:.rookery/rookery.db"]);
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("is both the store to move and where it goes"), "{stderr}");

    let (code, stdout, stderr) = project.run(&["migrate", "--to", "sqlite:copy.db", "--copy", "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let copied: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&copied["events"], &copied["source"], &copied["verified"]),
        (&json!(1), &json!("in_use"), &json!(true))
    );

    let (code, _, stderr) = project.run(&["migrate", "--to", "sqlite:copy.db"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("hint: name a place where there is no store yet, or an empty one"), "{stderr}");

    // The old store is in use: it can be copied, not moved.
    let database = project.folder.path().join(".rookery/rookery.db");
    let artifacts = rookery_store::artifact::ArtifactDir::new(project.folder.path().join(".rookery/artifacts"));
    let held = rookery_store::sqlite::offline::origin(&database, artifacts).unwrap();
    let (code, _, stderr) = project.run(&["migrate", "--to", "sqlite:moved.db"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("hint: stop the daemon first with `rookery down`"), "{stderr}");
    assert_eq!(project.run(&["migrate", "--to", "sqlite:second.db", "--copy"]).0, 0);
    drop(held);

    let (code, stdout, stderr) =
        project.run(&["migrate", "--from", "sqlite:.rookery/rookery.db", "--to", "sqlite:moved.db"]);
    let summary = format!(
        "moved 1 events, 0 artifacts, 0 tokens and 0 remembered replies to {to}; the new store agrees with its log\n"
    );
    assert_eq!((code, stdout), (0, summary), "{stderr}");
    assert!(stderr.contains(&format!("start with `rookery up --store {to}`")), "{stderr}");

    // The old store is readable, but a daemon does not open it; the new store has the same log.
    assert_eq!(project.run(&["replay", "--verify"]).0, 0);
    let (code, _, stderr) = project.run(&["up", "--port", "0"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains(&format!("has moved to {to} and is not written any more")), "{stderr}");
    assert!(stderr.contains(&format!("hint: start with `rookery up --store {to}`")), "{stderr}");
    assert!(project.run(&["doctor"]).1.contains(&format!("it has moved to {to}")));
    let export = |store: &str| project.command(&["export"]).env("ROOKERY_STORE", store).output().unwrap().stdout;
    assert_eq!(export("sqlite:.rookery/rookery.db"), export(&to));
    let (code, _, stderr) = project.run(&["migrate", "--to", "sqlite:again.db"]);
    assert_eq!(code, 1);
    assert!(stderr.contains(&format!("the store has moved to {to}")), "{stderr}");
}

#[test]
fn export_to_a_dash_writes_the_log_to_stdout() {
    let project = project_with_log();
    let (code, plain, _) = project.run(&["export"]);
    assert!(code == 0 && plain.lines().count() > 1, "{plain}");
    assert_eq!(project.run(&["export", "-"]), project.run(&["export"]));
    assert!(!project.folder.path().join("-").exists());
}

#[test]
fn doctor_names_a_missing_webhook_secret_and_the_variable_of_a_wrong_store() {
    let project = project_with_log();
    let settings = "[adapters.http.github]\nsecret_env = \"ABSENT_HOOK_SECRET\"\n";
    std::fs::write(project.folder.path().join("rookery.toml"), settings).unwrap();
    let (_, doctor, _) = project.run(&["doctor"]);
    assert!(doctor.contains("there is no secret in the environment's ABSENT_HOOK_SECRET"), "{doctor}");
    assert!(doctor.contains("set it where `rookery up` is run"), "{doctor}");
    let output = project.command(&["doctor"]).env("ROOKERY_STORE", "sqlite:absent.db").output().unwrap();
    let doctor = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(doctor.contains("check the address in ROOKERY_STORE"), "{doctor}");
}

#[test]
fn backup_of_postgres_store_names_the_right_tool() {
    let project = Project::without_daemon();
    std::fs::write(project.folder.path().join("backup"), "").unwrap();
    for (arguments, hint) in [
        (&["backup", "new"][..], "`pg_dump --schema=NAME` backs up a store on PostgreSQL"),
        (&["restore", "backup"], "`pg_restore` brings back a dump on PostgreSQL"),
    ] {
        let output = project.command(arguments).env("ROOKERY_STORE", "postgres://me:secret@db/x").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("hint: {hint}")) && !stderr.contains("secret"), "{stderr}");
    }
}

/// The output of common mistakes: command, message and exit code.
#[test]
fn common_errors_name_cause_and_remedy() {
    let lone = Project::without_daemon();
    let save = |project: &Project, text: &str| std::fs::write(project.folder.path().join("team.yaml"), text).unwrap();
    save(&lone, "agents:\n  ada: {backend: clade}\nkickof: '@ada hello'\n");
    let member = |id: &str| json!({"name": id, "id": id, "state": "idle"});
    let team = |members: &[&str]| {
        let agents: Vec<Value> = members.iter().map(|id| member(id)).collect();
        json!({"teams": [{"id": "@default", "instance": "default", "generation": 1, "live": true, "mode": "start", "agents": agents}]})
    };
    let refusal = json!({"error": "task tk_1 is claimed by coder", "code": "ALREADY_CLAIMED", "hint": "ask for a handoff, or take another task"});
    let with = |teams: Value| {
        Project::with_daemon(&[
            ("GET /teams?live=true&limit=1000", 200, teams),
            ("GET /agents", 200, json!([])),
            ("POST /tasks/tk_1/assign", 409, refusal.clone()),
        ])
    };
    let (none, two) = (with(json!({"teams": []})), with(team(&["coder", "reviewer"])));
    let needy = "params: [{name: pr, required: true}]\nagents:\n  ada: {backend: mock, script: [pass]}\nkickoff: '@ada ${{ params.pr }}'\n";
    save(&none, needy);
    let cases: [(&Project, &[&str]); 22] = [
        (&lone, &["tasks"]),
        (&lone, &["task"]),
        (&lone, &["tasks", "--stauts", "done"]),
        (&lone, &["tasks", "--status", "open"]),
        (&lone, &["log", "--type", "message"]),
        (&lone, &["mcp"]),
        (&lone, &["check", "team.yaml"]),
        (&lone, &["check", "teem.yaml"]),
        (&lone, &["new", "helper"]),
        (&lone, &["new", "helper", "--backend", "clade"]),
        (&lone, &["resolve", "src/a.rs"]),
        (&lone, &["redact"]),
        (&lone, &["config", "--set", "prot=1"]),
        (&none, &["run", "team.yaml"]),
        (&none, &["check", "team.yaml"]),
        (&none, &["send", " "]),
        (&none, &["send", "hello"]),
        (&none, &["send", "hello", "--to", "bob"]),
        (&none, &["send", "hello", "--to", "system"]),
        (&none, &["stop", "bob"]),
        (&two, &["peek"]),
        (&two, &["assign", "tk_1", "ada"]),
    ];
    let mut shown = String::new();
    for (project, arguments) in cases {
        let mut command = project.command(arguments);
        for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"] {
            command.env_remove(name);
        }
        let output = command.env("PATH", "").output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // A valid plan is printed to stdout too, and is no part of the error.
        let faults = if output.status.code() == Some(2) { stdout } else { String::new().into() };
        let text = format!(
            "$ rookery {}\n{faults}{stderr}exit code {}\n\n",
            arguments.join(" "),
            output.status.code().unwrap()
        );
        let root = project.folder.path().canonicalize().unwrap();
        shown.push_str(&text.replace(&*root.to_string_lossy(), "PROJECT"));
    }
    insta::assert_snapshot!(shown);
}
