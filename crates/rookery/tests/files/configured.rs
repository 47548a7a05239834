//! The storage of contexts, configured by files, commands and requests.

use rookery_testkit::wait::eventually;
use serde_json::json;

use crate::support::{
    call_tool_by_http, configure, configure_folder, instance_folder, read, rookery, setup, start, wait_for_version,
};

#[tokio::test]
async fn context_configuration_needs_authority_and_valid_settings() {
    let daemon = start();
    let request = daemon.request(reqwest::Method::PUT, "/contexts/pr-1").json(&json!({})).header("x-agent-id", "ada");
    assert_eq!(rookery_testkit::daemon::read(request).await.unwrap().status, 403);
    for bad in [
        json!({"provider": "cloud"}),
        json!({"dir": "../elsewhere"}),
        json!({"dir": "/tmp/elsewhere"}),
        json!({"dir": ".rookery/x"}),
        json!({"channel": "channel.exe"}),
        json!({"document": "../notes.md"}),
        json!({"colour": "blue"}),
    ] {
        assert_eq!(configure(&daemon, "pr-1", bad.clone()).await.status, 400, "{bad}");
    }
    assert!(!daemon.root().join(".workflow").exists());
}

#[tokio::test]
async fn context_command_configures_and_shows_the_folder() {
    let daemon = start();
    let args = ["context", "configure", "--instance", "pr-1", "--folder", "team/notes", "--document", "workspace.md"];
    let output = rookery(&daemon, &args).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "the context of pr-1 is kept in team/notes");
    let notes = daemon.root().join("team/notes");
    eventually("the folder", || async { Ok(notes.join("channel.md").exists().then_some(())) }).await.unwrap();
    std::fs::write(notes.join("workspace.md"), "by hand").unwrap();
    wait_for_version(&daemon, "workspace.md", "by hand").await;
    let shown = rookery(&daemon, &["context", "where", "--json"]).await;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown[0]["dir"], &shown[0]["document"]), (&json!("team/notes"), &json!("workspace.md")));
    assert!(!daemon.root().join(".workflow").exists());
    let rejected = rookery(&daemon, &["context", "configure", "--folder", "team"]).await;
    assert!(!rejected.status.success() && String::from_utf8_lossy(&rejected.stderr).contains("pr-1"), "{rejected:?}");
}

#[tokio::test]
async fn project_file_sets_and_resets_the_default_context() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rookery.toml");
    std::fs::write(&file, "[context]\nprovider = \"memory\"\ndocument = \"start.md\"\n").unwrap();
    let mut daemon = setup().start_at(folder.path()).unwrap();
    let context = daemon.get("/contexts/any").await.unwrap().body;
    assert_eq!((&context["provider"], &context["document"]), (&json!("memory"), &json!("start.md")));
    daemon.stop().unwrap();
    std::fs::write(&file, "context = false\n").unwrap();
    daemon.restart().unwrap();
    assert_eq!(daemon.get("/contexts/any").await.unwrap().body["provider"], "off");
    std::fs::remove_file(&file).unwrap();
    daemon.restart().unwrap();
    let context = daemon.get("/contexts/any").await.unwrap().body;
    assert_eq!((&context["provider"], &context["document"]), (&json!("file"), &json!("notes.md")));
    assert!(!folder.path().join(".workflow").exists());
}

#[tokio::test]
async fn instance_starts_with_its_configured_documents() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("rookery.toml"), "[context]\ndocuments = [\"goals.md\"]\n").unwrap();
    let daemon = setup().start_at(root.path()).unwrap();
    assert!(!root.path().join(".workflow").exists(), "no agent has joined yet");
    let listed = call_tool_by_http(daemon.url(), "ada@pr-1", "document_list", json!({})).await;
    assert_eq!(listed, ("[\"goals.md\"]".to_owned(), false));
    let goals = instance_folder(&daemon).join("goals.md");
    eventually("the file", || async { Ok(goals.exists().then_some(())) }).await.unwrap();
    assert_eq!(read(&goals).as_deref(), Some(""));

    let mine = root.path().join(".workflow/pr-2/mine.md");
    std::fs::create_dir_all(mine.parent().unwrap()).unwrap();
    std::fs::write(&mine, "written before anybody was there").unwrap();
    let documents = json!({"documents": ["mine.md", "plans/next.md"]});
    assert_eq!(configure(&daemon, "pr-2", documents).await.status, 200);
    wait_for_version(&daemon, "mine.md", "written before anybody was there").await;
    let (text, _) = call_tool_by_http(daemon.url(), "ada@pr-2", "document_list", json!({})).await;
    assert_eq!(text, "[\"mine.md\",\"plans/next.md\"]");
    assert_eq!(read(&mine).as_deref(), Some("written before anybody was there"), "nothing is overwritten");
}

#[test]
fn project_with_one_folder_for_all_instances_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rookery.toml"), "[context]\ndir = \"team\"\n").unwrap();
    let error = setup().start_at(folder.path()).unwrap_err().to_string();
    assert!(error.contains("same folder for every instance") && error.contains("${{ instance }}"), "{error}");
    std::fs::write(folder.path().join("rookery.toml"), "[context]\nproviders = \"file\"\n").unwrap();
    let error = setup().start_at(folder.path()).unwrap_err().to_string();
    assert!(error.contains("rookery.toml:2") && error.contains("context_provider"), "{error}");
}

#[tokio::test]
async fn switch_to_memory_keeps_files_and_stops_watching_them() {
    let daemon = start();
    configure_folder(&daemon).await;
    let notes = instance_folder(&daemon).join("notes.md");
    std::fs::write(&notes, "one").unwrap();
    wait_for_version(&daemon, "notes.md", "one").await;
    assert_eq!(configure(&daemon, "pr-1", json!({"provider": "memory"})).await.status, 200);
    let socket = instance_folder(&daemon).join("context.sock");
    eventually("the socket is gone", || async { Ok((!socket.exists()).then_some(())) }).await.unwrap();
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "one");
}
