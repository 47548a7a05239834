//! Workspaces: real worktrees in real repositories, created and removed by a daemon that may be killed at any moment.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rookery_testkit::daemon::Daemon;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::support::{Client, Transport, connect, connect_with, create_task, rows_of_kind, setup, text};

/// A project that is a repository with one commit.
pub fn project() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("app");
    fs::create_dir(&root).unwrap();
    git(&root, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(root.join("a.txt"), "one\n").unwrap();
    fs::write(root.join(".gitignore"), "daemon.stderr\n").unwrap();
    git(&root, &["add", "."]);
    git(&root, &["commit", "--quiet", "-m", "first"]);
    (folder, root)
}

#[expect(clippy::disallowed_methods, reason = "runs git as an agent would")]
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let output = std::process::Command::new("git").current_dir(folder).args(identity).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn worktree_request(root: &Path, branch: &str) -> Value {
    json!({"branch": branch, "create_worktree": true, "repo_path": root})
}

async fn create_worktree(client: &Client, root: &Path, branch: &str) -> (String, PathBuf) {
    let created = client.call("workspace_create", worktree_request(root, branch)).await;
    (text(&created["id"]), PathBuf::from(text(&created["path"])))
}

async fn list_workspaces(client: &Client) -> Vec<Value> {
    client.call("workspace_list", json!({})).await["workspaces"].as_array().unwrap().clone()
}

#[tokio::test]
async fn workspaces_of_two_agents_are_separate_until_merged() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let (a, b) = (
        connect(&daemon, Transport::Session, Some("a")).await,
        connect(&daemon, Transport::Stateless, Some("b")).await,
    );
    a.register("a").await;
    b.register("b").await;
    let task = create_task(&daemon, None).await;
    let with_task = json!({"branch": "feature/google-oauth", "base_branch": "main", "create_worktree": true,
        "repo_path": root, "task_ids": [task], "workflow_id": "run_default"});
    let (one, (second, _)) =
        tokio::join!(a.call("workspace_create", with_task), create_worktree(&b, &root, "feature/github-oauth"));
    let (first, path) = (text(&one["id"]), PathBuf::from(text(&one["path"])));
    assert!(first.starts_with("ws_"));
    assert_eq!(path, root.with_file_name("app-worktrees").join("feature-google-oauth"));
    assert_eq!(git(&path, &["branch", "--show-current"]), "feature/google-oauth\n");
    let all = list_workspaces(&b).await;
    assert_eq!(all.len(), 2);
    assert_eq!((&all[0]["worktree"], &all[0]["folder_exists"]), (&json!("present"), &json!(true)));
    let of_run = b.call("workspace_list", json!({"workflow_id": "run_default", "status": ["active"]})).await;
    assert_eq!(of_run["workspaces"][0]["task_ids"], json!([task]));

    let done = json!({"id": first, "status": "merged", "merge_commit": "abc123...", "cleanup_worktree": true});
    let rejected = b.call_rejected("workspace_update", done.clone()).await;
    assert_eq!(rejected["code"], "FORBIDDEN", "{rejected}");
    let updated = a.call("workspace_update", done.clone()).await;
    assert_eq!(updated, json!({"success": true, "worktree_removed": true, "branch": "deleted"}));
    assert!(!path.exists());
    assert_eq!(a.call("workspace_update", done).await["worktree_removed"], true, "a repeated update is harmless");
    let plain = b.call("workspace_update", json!({"id": second, "pr_url": "https://example.com/1"})).await;
    assert_eq!(plain, json!({"success": true}));
    let again = a.call_rejected("workspace_update", json!({"id": first, "status": "active"})).await;
    assert_eq!(again["code"], "INVALID_TRANSITION");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn workspace_belongs_to_a_workflow_and_its_tasks() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    let mut flows = vec![];
    for name in ["one", "two"] {
        let created = json!({"name": name, "source_type": "prompt", "source_content": "do it"});
        let id = text(&a.call("workflow_create", created).await["id"]);
        let plan = json!({"id": id, "plan": {"summary": "s", "tasks": [{"name": "build"}]}});
        a.call("workflow_set_plan", plan).await;
        let next = a.call("workflow_next_tasks", json!({"workflow_id": id})).await;
        flows.push((id, text(&next["tasks"][0]["id"])));
    }
    let with = |flow: &str, task: &str, branch: &str| {
        json!({"workflow_id": flow, "branch": branch, "base_branch": "main", "create_worktree": true,
            "repo_path": root, "task_ids": [task]})
    };
    let mixed = a.call_rejected("workspace_create", with(&flows[0].0, &flows[1].1, "x")).await;
    assert_eq!(mixed["code"], "WORKFLOW_MISMATCH");
    for (at, (flow, task)) in flows.iter().enumerate() {
        a.call("workspace_create", with(flow, task, &format!("b{at}"))).await;
    }
    let of_one = a.call("workspace_list", json!({"workflow_id": flows[0].0})).await;
    let rows = of_one["workspaces"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["task_ids"]), (1, &json!([flows[0].1])));
    let context = a.call("task_load_context", json!({"task_id": flows[0].1})).await;
    let shown = &context["current_task"]["workspace"];
    assert_eq!((&shown["path"], &shown["branch"]), (&rows[0]["path"], &json!("b0")), "{context}");
}

#[tokio::test]
async fn git_variables_of_the_daemon_do_not_reach_git() {
    let (_folder, root) = project();
    let misdirected = root.join("nowhere");
    let mut setup = setup();
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"] {
        setup = setup.env(name, misdirected.to_str().unwrap());
    }
    let daemon = setup.start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let (id, path) = create_worktree(&a, &root, "b").await;
    fs::write(path.join("work.txt"), "precious").unwrap();
    let removed = json!({"id": id, "status": "abandoned", "cleanup_worktree": true});
    let kept = text(&a.call("workspace_update", removed).await["backup_ref"]);
    assert_eq!(git(&root, &["show", &format!("{kept}:work.txt")]), "precious");
    assert!(!misdirected.exists());
}

#[tokio::test]
async fn token_agent_cannot_create_workspace_outside_its_project() {
    let ((_folder, root), (_elsewhere, other)) = (project(), project());
    let daemon = setup().arg("--require-token").start_at(&root).unwrap();
    let key = daemon.person_key().unwrap();
    let token = daemon.request(reqwest::Method::POST, "/admin/tokens").bearer_auth(&key).json(&json!({"agent": "a"}));
    let secret = text(&rookery_testkit::daemon::read(token).await.unwrap().body["token"]);
    let bearer = |secret: &str| {
        let value = reqwest::header::HeaderValue::from_str(&format!("Bearer {secret}")).unwrap();
        [(reqwest::header::AUTHORIZATION, value)].into_iter().collect()
    };
    let a = connect_with(&daemon, Transport::Session, "", None, bearer(&secret)).await;
    create_worktree(&a, &root, "b").await;
    let rejected = a.call_rejected("workspace_create", worktree_request(&other, "b")).await;
    assert_eq!(rejected["code"], "FORBIDDEN", "{rejected}");
    let person = connect_with(&daemon, Transport::Session, "", None, bearer(&key)).await;
    let rejected = person.call_rejected("workspace_create", worktree_request(&other, "b")).await;
    assert_eq!(rejected["code"], "FORBIDDEN", "{rejected}");
    let anywhere = root.with_file_name("anywhere");
    let mut chosen = worktree_request(&root, "c");
    chosen["path"] = json!(anywhere);
    assert_eq!(a.call_rejected("workspace_create", chosen.clone()).await["code"], "FORBIDDEN");
    person.call("workspace_create", chosen).await;
    assert!(anywhere.join("a.txt").is_file(), "people choose any folder");
}

#[tokio::test]
async fn slow_git_does_not_block_other_workspaces() {
    let (_folder, root) = project();
    let slow = SlowGit::new(&root, "read-tree*refs/heads/slow");
    let daemon = slow.setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let slow_call = spawn_call(&daemon, "workspace_create", worktree_request(&root, "slow")).await;
    wait_for_row(&daemon, "workspace.created").await;
    create_worktree(&a, &root, "quick").await;
    assert_eq!(rows_of_kind(&daemon, "workspace.ready").len(), 1, "the slow worktree is still under way");
    slow.release();
    slow_call.await.unwrap();
    assert_eq!(rows_of_kind(&daemon, "workspace.ready").len(), 2);
}

#[tokio::test]
async fn removed_workspace_saves_unmerged_changes() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let (id, path) = create_worktree(&a, &root, "b").await;
    fs::write(path.join("a.txt"), "changed\n").unwrap();
    fs::write(path.join("new.bin"), [0_u8, 159, 146, 150]).unwrap();
    let abandon = json!({"id": id, "status": "abandoned", "cleanup_worktree": true});
    let removed = a.call("workspace_update", abandon).await;
    let kept = format!("refs/rookery/backup/{id}");
    assert_eq!((&removed["worktree_removed"], &removed["backup_ref"]), (&json!(true), &json!(kept)));
    assert!(text(&removed["restore_with"]).contains(&kept));
    assert_eq!(git(&root, &["show", &format!("{kept}:a.txt")]), "changed\n");
    git(&root, &["worktree", "add", "--quiet", "--detach", path.to_str().unwrap(), &kept]);
    assert_eq!(fs::read(path.join("new.bin")).unwrap(), [0, 159, 146, 150]);
    let row = &list_workspaces(&a).await[0];
    assert_eq!((&row["worktree"], &row["backup_ref"]), (&json!("removed"), &json!(kept)));
}

#[tokio::test]
async fn locked_worktree_is_kept_with_its_reason() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let (id, path) = create_worktree(&a, &root, "b").await;
    git(&root, &["worktree", "lock", "--reason", "on a stick", path.to_str().unwrap()]);
    let abandon = json!({"id": id, "status": "abandoned", "cleanup_worktree": true});
    let kept = a.call("workspace_update", abandon.clone()).await;
    assert_eq!((&kept["success"], &kept["worktree_removed"]), (&json!(true), &json!(false)));
    assert!(text(&kept["kept_because"]).contains("on a stick"), "{kept}");
    assert!(path.is_dir());
    git(&root, &["worktree", "unlock", path.to_str().unwrap()]);
    assert_eq!(a.call("workspace_update", abandon).await["worktree_removed"], true);
}

#[tokio::test]
async fn workspace_merge_with_conflict_changes_nothing() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let (id, path) = create_worktree(&a, &root, "b").await;
    fs::write(path.join("a.txt"), "theirs\n").unwrap();
    let dirty = a.call_rejected("workspace_merge", json!({"id": id})).await;
    assert_eq!(dirty["code"], "INVALID_STATE", "{dirty}");
    fs::write(root.join("a.txt"), "ours\n").unwrap();
    git(&root, &["commit", "--quiet", "-am", "ours"]);
    let conflict = a.call_rejected("workspace_merge", json!({"id": id, "commit_changes": true})).await;
    assert_eq!(conflict["code"], "MERGE_CONFLICT");
    assert!(text(&conflict["message"]).contains("a.txt"), "{conflict}");
    assert_eq!(git(&root, &["status", "--porcelain"]), "");
    assert_eq!(list_workspaces(&a).await[0]["status"], "active");

    git(&path, &["merge", "--quiet", "--strategy=ours", "-m", "resolved", "main"]);
    let merged = a.call("workspace_merge", json!({"id": id})).await;
    assert_eq!(git(&root, &["rev-parse", "main"]).trim(), text(&merged["merge_commit"]));
    let row = &list_workspaces(&a).await[0];
    assert_eq!((&row["status"], &row["merge_commit"]), (&json!("merged"), &merged["merge_commit"]));
    let cleaned = a.call("workspace_update", json!({"id": id, "status": "merged", "cleanup_worktree": true})).await;
    assert_eq!(cleaned, json!({"success": true, "worktree_removed": true, "branch": "deleted"}));
}

#[tokio::test]
async fn invalid_workspace_request_creates_nothing() {
    let (folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), root.join("out")).unwrap();
    let with = |change: Value| {
        let mut asked = worktree_request(&root, "b");
        asked.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        asked
    };
    let cases = [
        (with(json!({"branch": "--upload-pack=x"})), "INVALID_INPUT"),
        (with(json!({"branch": "-b"})), "INVALID_INPUT"),
        (with(json!({"branch": "a..b"})), "INVALID_INPUT"),
        (with(json!({"branch": "a.lock"})), "INVALID_INPUT"),
        (with(json!({"branch": "/etc/passwd"})), "INVALID_INPUT"),
        (with(json!({"branch": "@{-1}"})), "INVALID_INPUT"),
        (with(json!({"branch": ""})), "INVALID_INPUT"),
        (with(json!({"branch": "x".repeat(10_000)})), "INVALID_INPUT"),
        (with(json!({"base_branch": "--force"})), "INVALID_INPUT"),
        (with(json!({"base_branch": "nope"})), "INVALID_INPUT"),
        (with(json!({"branch": "main"})), "NAME_CONFLICT"),
        (with(json!({"repo_path": folder.path()})), "INVALID_INPUT"),
        (with(json!({"repo_path": "/no/such/folder"})), "GIT_FAILED"),
        (with(json!({"repo_path": "--bare"})), "GIT_FAILED"),
        (with(json!({"repo_path": ""})), "INVALID_INPUT"),
        (with(json!({"path": "/etc/rookery-test"})), "FORBIDDEN"),
        (with(json!({"path": "out/w"})), "FORBIDDEN"),
        (with(json!({"path": "../../w"})), "FORBIDDEN"),
        (with(json!({"path": ".git/w"})), "INVALID_INPUT"),
        (with(json!({"path": ".rookery/w"})), "INVALID_INPUT"),
        (with(json!({"path": "a.txt"})), "FORBIDDEN"),
        (with(json!({"path": ".vscode"})), "FORBIDDEN"),
        (with(json!({"path": "../.config/autostart"})), "FORBIDDEN"),
        (with(json!({"path": ".worktrees"})), "FORBIDDEN"),
        (with(json!({"path": ".worktrees/../w"})), "FORBIDDEN"),
        (json!({"branch": "b", "path": "/etc"}), "FORBIDDEN"),
        (json!({"branch": "b", "path": "out"}), "FORBIDDEN"),
        (with(json!({"workflow_id": "wf_none"})), "WORKFLOW_NOT_FOUND"),
        (with(json!({"task_ids": ["tk_none"]})), "TASK_NOT_FOUND"),
        (json!({"branch": "b", "create_worktree": true}), "MISSING_REPO_PATH"),
        (json!({"branch": "b"}), "MISSING_PATH"),
    ];
    for (asked, code) in cases {
        let rejected = a.call_rejected("workspace_create", asked.clone()).await;
        assert_eq!(rejected["code"], code, "{asked}: {rejected}");
        assert!(!text(&rejected["message"]).is_empty());
    }
    assert_eq!(list_workspaces(&a).await, [Value::Null; 0]);
    assert_eq!(git(&root, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main\n");
    assert_eq!(git(&root, &["worktree", "list"]).lines().count(), 1);
    assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
    assert!(!root.with_file_name("app-worktrees").exists());
    let unnamed = connect(&daemon, Transport::Stateless, None).await;
    assert_eq!(unnamed.call_rejected("workspace_create", worktree_request(&root, "b")).await["code"], "NO_IDENTITY");
    assert_eq!(a.call_rejected("workspace_update", json!({"id": "ws_none"})).await["code"], "WORKSPACE_NOT_FOUND");
    assert_eq!(
        a.call_rejected("workspace_list", json!({"workflow_id": "wf_none"})).await["code"],
        "WORKFLOW_NOT_FOUND"
    );
}

#[tokio::test]
async fn workspace_in_repository_without_commit_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "--quiet"]);
    let daemon = setup().start_at(folder.path()).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let rejected = a.call_rejected("workspace_create", worktree_request(daemon.root(), "b")).await;
    assert_eq!(rejected["code"], "INVALID_STATE");
    assert!(text(&rejected["suggestion"]).contains("first commit"), "{rejected}");
}

#[tokio::test]
async fn existing_worktree_is_registered_and_cleaned_up() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let path = root.with_file_name("mine");
    git(&root, &["worktree", "add", "--quiet", "-b", "mine", path.to_str().unwrap()]);
    let registered = a.call("workspace_create", json!({"branch": "mine", "path": "../mine"})).await;
    assert_eq!(registered["path"], json!(path));
    fs::write(path.join("work.txt"), "mine").unwrap();
    let abandon = json!({"id": registered["id"], "status": "abandoned", "cleanup_worktree": true});
    let removed = a.call("workspace_update", abandon).await;
    assert_eq!((&removed["worktree_removed"], &removed["branch"]), (&json!(true), &json!("kept")));
    assert_eq!(git(&root, &["show", &format!("{}:work.txt", text(&removed["backup_ref"]))]), "mine");
}

/// A git program that executes each command, and delays the end of some commands until released.
struct SlowGit {
    folder: tempfile::TempDir,
    gate: PathBuf,
}

impl SlowGit {
    /// Delays commands whose arguments match a shell pattern.
    fn new(root: &Path, pattern: &str) -> SlowGit {
        use std::os::unix::fs::PermissionsExt;
        let slow = SlowGit { folder: tempfile::tempdir().unwrap(), gate: root.join(".git/gate") };
        let path = std::env::var_os("PATH").unwrap();
        let real = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file()).unwrap();
        let (real, gate, program) = (real.display(), slow.gate.display(), slow.bin().join("git"));
        let waits = format!("{real} \"$@\"; code=$?; while [ ! -e {gate} ]; do /bin/sleep 0.05; done; exit $code");
        let script = format!("#!/bin/sh\ncase \"$*\" in\n*{pattern}*) {waits};;\nesac\nexec {real} \"$@\"\n");
        fs::create_dir(slow.bin()).unwrap();
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        slow
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn setup(&self) -> rookery_testkit::daemon::Setup {
        let path = std::env::var_os("PATH").unwrap();
        let all = std::iter::once(self.bin()).chain(std::env::split_paths(&path));
        setup().env("PATH", std::env::join_paths(all).unwrap().to_str().unwrap())
    }

    fn release(&self) {
        fs::write(&self.gate, "").unwrap();
    }
}

async fn wait_for_row(daemon: &Daemon, kind: &str) {
    eventually(kind, async || Ok((!rows_of_kind(daemon, kind).is_empty()).then_some(()))).await.unwrap();
}

/// Calls a tool in the background and ignores the outcome.
async fn spawn_call(daemon: &Daemon, tool: &'static str, arguments: Value) -> tokio::task::JoinHandle<()> {
    let client = connect(daemon, Transport::Session, Some("a")).await;
    tokio::spawn(async move {
        let Value::Object(arguments) = arguments else { return };
        let call = rmcp::model::CallToolRequestParams::new(tool).with_arguments(arguments);
        drop(client.service.call_tool(call).await);
    })
}

#[tokio::test]
async fn worktree_creation_is_finished_after_a_daemon_crash() {
    let (_folder, root) = project();
    let slow = SlowGit::new(&root, "read-tree");
    let mut daemon = slow.setup().start_at(&root).unwrap();
    let pending_call = spawn_call(&daemon, "workspace_create", worktree_request(&root, "b")).await;
    let path = root.with_file_name("app-worktrees").join("b");
    eventually("git is at work", async || Ok(path.join("a.txt").exists().then_some(()))).await.unwrap();
    daemon.kill().unwrap();
    pending_call.abort();
    assert!(rows_of_kind(&daemon, "workspace.ready").is_empty());
    daemon.restart().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let row = &list_workspaces(&a).await[0];
    assert_eq!(
        (&row["worktree"], &row["being"]),
        (&json!("planned"), &json!("made")),
        "the unfinished creation is shown"
    );
    slow.release();
    wait_for_row(&daemon, "workspace.ready").await;
    let row = &list_workspaces(&a).await[0];
    assert_eq!((&row["worktree"], row.get("being")), (&json!("present"), None));
    assert_eq!(fs::read_to_string(path.join("a.txt")).unwrap(), "one\n");
    assert_eq!(git(&path, &["status", "--porcelain"]), "");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn daemon_crash_while_saving_work_loses_nothing() {
    let (_folder, root) = project();
    let slow = SlowGit::new(&root, "add*--all");
    let mut daemon = slow.setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let (id, path) = create_worktree(&a, &root, "b").await;
    fs::write(path.join("a.txt"), "precious\n").unwrap();
    let pending_call =
        spawn_call(&daemon, "workspace_update", json!({"id": id, "status": "abandoned", "cleanup_worktree": true}))
            .await;
    wait_for_row(&daemon, "workspace.updated").await;
    let views = || fs::read_dir(root.join(".rookery/git/views")).into_iter().flatten().flatten();
    eventually("the work is being saved", async || {
        Ok(views().any(|view| view.path().join("pathspecs").exists()).then_some(()))
    })
    .await
    .unwrap();
    daemon.kill().unwrap();
    pending_call.abort();
    assert_eq!(fs::read_to_string(path.join("a.txt")).unwrap(), "precious\n");
    slow.release();
    daemon.restart().unwrap();
    wait_for_row(&daemon, "workspace.removed").await;
    assert!(!path.exists());
    assert_eq!(git(&root, &["show", &format!("refs/rookery/backup/{id}:a.txt")]), "precious\n");
    daemon.replay_verify().unwrap();
}

/// Makes git run a program that leaves a mark, by every setting of a repository that can name one.
fn configure_marking_programs(repository: &Path, mark: &Path) {
    let run = format!("sh -c 'touch {}; cat'", mark.display());
    for name in ["filter.e.clean", "filter.e.smudge", "core.fsmonitor", "diff.external", "merge.e.driver"] {
        git(repository, &["config", name, &run]);
    }
    fs::write(repository.join(".gitattributes"), "* filter=e merge=e\n").unwrap();
}

#[tokio::test]
async fn workspace_in_another_repository_is_rejected_and_its_filter_does_not_run() {
    let (folder, root) = project();
    let mark = folder.path().canonicalize().unwrap().join("mark");
    let own = root.join("sub/own");
    fs::create_dir_all(&own).unwrap();
    git(&own, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(own.join("f"), "one\n").unwrap();
    git(&own, &["add", "f"]);
    git(&own, &["commit", "--quiet", "-m", "f"]);
    configure_marking_programs(&own, &mark);
    fs::write(own.join("f"), "two\n").unwrap();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    for asked in [json!({"branch": "main", "path": own}), json!({"branch": "x", "path": own, "repo_path": own})] {
        let rejected = a.call_rejected("workspace_create", asked).await;
        assert_eq!(rejected["code"], "FORBIDDEN", "{rejected}");
    }
    assert_eq!(a.call_rejected("workspace_create", worktree_request(&own, "x")).await["code"], "FORBIDDEN");
    a.call("workspace_list", json!({"include_changes": true})).await;
    assert!(!mark.exists(), "a program of that repository ran");
}

#[tokio::test]
async fn programs_in_the_settings_of_the_repository_do_not_run() {
    let (folder, root) = project();
    let mark = folder.path().canonicalize().unwrap().join("mark");
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    configure_marking_programs(&root, &mark);
    let (id, path) = create_worktree(&a, &root, "b").await;
    fs::write(path.join(".gitattributes"), "* filter=e merge=e\n").unwrap();
    fs::write(path.join("a.txt"), "two\n").unwrap();
    let changes = a.call("workspace_list", json!({"include_changes": true})).await;
    assert_eq!(changes["workspaces"][0]["changes"], "modified", "{changes}");
    fs::remove_file(root.join(".gitattributes")).unwrap();
    a.call("workspace_merge", json!({"id": id, "commit_changes": true})).await;
    a.call("workspace_update", json!({"id": id, "status": "merged", "cleanup_worktree": true})).await;
    assert!(!mark.exists(), "a program ran");
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "two\n");
}

#[tokio::test]
async fn merge_does_not_write_through_links_in_the_git_folder() {
    let (folder, root) = project();
    let victim = folder.path().canonicalize().unwrap().join("victim");
    fs::write(&victim, "precious").unwrap();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let (id, path) = create_worktree(&a, &root, "b").await;
    fs::write(path.join("work.txt"), "work").unwrap();
    fs::create_dir_all(root.join(".git/rookery")).unwrap();
    for name in [format!("{id}.lock"), format!("{id}.json"), format!("{id}.new")] {
        symlink(&victim, root.join(".git/rookery").join(name)).unwrap();
    }
    symlink(&victim, root.join(".git/worktrees/b/rookery-workspace")).unwrap();
    a.call("workspace_merge", json!({"id": id, "commit_changes": true})).await;
    fs::remove_file(root.join(".git/index")).unwrap();
    symlink(&victim, root.join(".git/index")).unwrap();
    fs::write(path.join("more.txt"), "more").unwrap();
    a.call_rejected("workspace_merge", json!({"id": id, "commit_changes": true})).await;
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[tokio::test]
async fn concurrent_workspaces_get_separate_folders() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let branches: Vec<String> = (0..8).map(|number| format!("b/{number}")).collect();
    let all = futures_util::future::join_all(branches.iter().map(|branch| create_worktree(&a, &root, branch))).await;
    for ((_, path), branch) in all.iter().zip(&branches) {
        assert_eq!(git(path, &["branch", "--show-current"]).trim(), branch);
        assert_eq!(git(path, &["status", "--porcelain"]), "");
    }
    // Two branches whose folder names would collide.
    let (_, other) = create_worktree(&a, &root, "b-0").await;
    assert!(all.iter().all(|(_, path)| *path != other));
}
