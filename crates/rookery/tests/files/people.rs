//! Edits of people.

use rookery_testkit::wait::eventually;

use rookery_testkit::daemon::Setup;

use crate::support::{configure_folder, instance_folder, read, run, start, versions, wait_for_version};

#[tokio::test]
async fn save_by_any_editor_becomes_a_version() {
    let daemon = start();
    configure_folder(&daemon).await;
    let notes = instance_folder(&daemon).join("notes.md");
    let path = notes.to_str().unwrap();
    std::fs::write(&notes, "# Notes\n").unwrap();
    wait_for_version(&daemon, "notes.md", "# Notes\n").await;
    // By a new file that replaces the old one.
    assert!(run("sed", &["-i", "s/Notes/Plan/", path]).await.status.success());
    wait_for_version(&daemon, "notes.md", "# Plan\n").await;
    // In place.
    assert!(run("sh", &["-c", &format!("echo more >> '{path}'")]).await.status.success());
    wait_for_version(&daemon, "notes.md", "# Plan\nmore\n").await;
    // By a temporary name, as most editors do.
    assert!(
        run("sh", &["-c", &format!("cp '{path}' '{path}~' && printf done > '{path}~' && mv '{path}~' '{path}'")])
            .await
            .status
            .success()
    );
    wait_for_version(&daemon, "notes.md", "done").await;
    let all = versions(&daemon, "notes.md").await;
    assert!(all.iter().all(|(author, _)| author == "external"), "{all:?}");
    assert_eq!(read(&notes).as_deref(), Some("done"));
}

#[tokio::test]
async fn new_file_becomes_a_document_and_deleted_file_is_restored() {
    let daemon = start();
    configure_folder(&daemon).await;
    let finding = instance_folder(&daemon).join("findings/auth.md");
    std::fs::create_dir(finding.parent().unwrap()).unwrap();
    std::fs::write(&finding, "weak").unwrap();
    wait_for_version(&daemon, "findings/auth.md", "weak").await;
    std::fs::remove_dir_all(finding.parent().unwrap()).unwrap();
    eventually("the file is restored", || async { Ok(read(&finding).filter(|text| text == "weak").map(drop)) })
        .await
        .unwrap();
    assert_eq!(versions(&daemon, "findings/auth.md").await.len(), 1);
}

#[tokio::test]
async fn save_during_downtime_becomes_a_version() {
    let mut daemon = start();
    configure_folder(&daemon).await;
    let notes = instance_folder(&daemon).join("notes.md");
    std::fs::write(&notes, "one").unwrap();
    wait_for_version(&daemon, "notes.md", "one").await;
    daemon.kill().unwrap();
    std::fs::write(&notes, "two").unwrap();
    std::fs::write(instance_folder(&daemon).join("new.md"), "new").unwrap();
    daemon.restart().unwrap();
    wait_for_version(&daemon, "notes.md", "two").await;
    wait_for_version(&daemon, "new.md", "new").await;
    daemon.stop().unwrap();
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn binary_file_is_reported_as_a_warning() {
    let daemon = start();
    configure_folder(&daemon).await;
    std::fs::write(instance_folder(&daemon).join("image.md"), b"\xff\xd8\xff").unwrap();
    let warned = || async {
        let info = daemon.get("/admin/info").await?.body;
        let warnings = info["warnings"].as_array().cloned().unwrap_or_default();
        Ok(warnings.iter().any(|warning| warning.as_str().unwrap().contains("image.md is left alone")).then_some(()))
    };
    eventually("a warning", warned).await.unwrap();
    assert_eq!(std::fs::read(instance_folder(&daemon).join("image.md")).unwrap(), b"\xff\xd8\xff");
}

#[tokio::test]
async fn project_watcher_ignores_rendered_documents() {
    let daemon = Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "warn").start().unwrap();
    configure_folder(&daemon).await;
    std::fs::write(instance_folder(&daemon).join("notes.md"), "by hand").unwrap();
    wait_for_version(&daemon, "notes.md", "by hand").await;
    // Even if the user wants them committed.
    std::fs::remove_file(daemon.root().join(".workflow/.gitignore")).unwrap();
    std::fs::write(instance_folder(&daemon).join("notes.md"), "again").unwrap();
    wait_for_version(&daemon, "notes.md", "again").await;
    std::fs::write(daemon.root().join("main.rs"), "fn main() {}").unwrap();
    let changes = || async {
        let events = daemon.get("/events?limit=1000").await?.body;
        let others = events.as_array().unwrap().iter().filter(|event| event["action"] == "x.file.untracked_changed");
        let changes: String = others.map(|event| event["metadata"].to_string()).collect();
        Ok(Some(changes).filter(|changes| changes.contains("main.rs")))
    };
    let changes = eventually("the watcher reports the project's own file", changes).await.unwrap();
    assert!(!changes.contains(".workflow"), "{changes}");
}
