//! What people do to files.

use rookery_testkit::wait::eventually;

use rookery_testkit::daemon::Setup;

use crate::support::{folder, read, run, start, until_version, versions, with_folder};

#[tokio::test]
async fn what_a_person_saves_with_any_editor_is_a_version() {
    let daemon = start();
    with_folder(&daemon).await;
    let notes = folder(&daemon).join("notes.md");
    let path = notes.to_str().unwrap();
    std::fs::write(&notes, "# Notes\n").unwrap();
    until_version(&daemon, "notes.md", "# Notes\n").await;
    // By a new file that takes the place of the old one.
    assert!(run("sed", &["-i", "s/Notes/Plan/", path]).await.status.success());
    until_version(&daemon, "notes.md", "# Plan\n").await;
    // In place.
    assert!(run("sh", &["-c", &format!("echo more >> '{path}'")]).await.status.success());
    until_version(&daemon, "notes.md", "# Plan\nmore\n").await;
    // By way of another name, as most editors do.
    assert!(
        run("sh", &["-c", &format!("cp '{path}' '{path}~' && printf done > '{path}~' && mv '{path}~' '{path}'")])
            .await
            .status
            .success()
    );
    until_version(&daemon, "notes.md", "done").await;
    let all = versions(&daemon, "notes.md").await;
    assert!(all.iter().all(|(author, _)| author == "external"), "{all:?}");
    assert_eq!(read(&notes).as_deref(), Some("done"));
}

#[tokio::test]
async fn new_files_in_folders_are_documents_and_deleted_ones_come_back() {
    let daemon = start();
    with_folder(&daemon).await;
    let finding = folder(&daemon).join("findings/auth.md");
    std::fs::create_dir(finding.parent().unwrap()).unwrap();
    std::fs::write(&finding, "weak").unwrap();
    until_version(&daemon, "findings/auth.md", "weak").await;
    std::fs::remove_dir_all(finding.parent().unwrap()).unwrap();
    eventually("it is there again", || async { Ok(read(&finding).filter(|text| text == "weak").map(drop)) })
        .await
        .unwrap();
    assert_eq!(versions(&daemon, "findings/auth.md").await.len(), 1);
}

#[tokio::test]
async fn what_people_saved_while_the_daemon_was_away_is_a_version() {
    let mut daemon = start();
    with_folder(&daemon).await;
    let notes = folder(&daemon).join("notes.md");
    std::fs::write(&notes, "one").unwrap();
    until_version(&daemon, "notes.md", "one").await;
    daemon.kill().unwrap();
    std::fs::write(&notes, "two").unwrap();
    std::fs::write(folder(&daemon).join("new.md"), "new").unwrap();
    daemon.restart().unwrap();
    until_version(&daemon, "notes.md", "two").await;
    until_version(&daemon, "new.md", "new").await;
    daemon.stop().unwrap();
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn what_cannot_be_a_document_is_told_to_whoever_asks() {
    let daemon = start();
    with_folder(&daemon).await;
    std::fs::write(folder(&daemon).join("image.md"), b"\xff\xd8\xff").unwrap();
    let warned = || async {
        let info = daemon.get("/admin/info").await?.body;
        let warnings = info["warnings"].as_array().cloned().unwrap_or_default();
        Ok(warnings.iter().any(|warning| warning.as_str().unwrap().contains("image.md is left alone")).then_some(()))
    };
    eventually("a warning", warned).await.unwrap();
    assert_eq!(std::fs::read(folder(&daemon).join("image.md")).unwrap(), b"\xff\xd8\xff");
}

#[tokio::test]
async fn the_watcher_of_the_projects_files_says_nothing_about_renderings() {
    let daemon = Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "warn").start().unwrap();
    with_folder(&daemon).await;
    std::fs::write(folder(&daemon).join("notes.md"), "by hand").unwrap();
    until_version(&daemon, "notes.md", "by hand").await;
    // Even where somebody wants them committed.
    std::fs::remove_file(daemon.root().join(".workflow/.gitignore")).unwrap();
    std::fs::write(folder(&daemon).join("notes.md"), "again").unwrap();
    until_version(&daemon, "notes.md", "again").await;
    std::fs::write(daemon.root().join("main.rs"), "fn main() {}").unwrap();
    let told = || async {
        let events = daemon.get("/events?limit=1000").await?.body;
        let others = events.as_array().unwrap().iter().filter(|event| event["action"] == "x.file.untracked_changed");
        let told: String = others.map(|event| event["metadata"].to_string()).collect();
        Ok(Some(told).filter(|told| told.contains("main.rs")))
    };
    let told = eventually("the watcher tells of the project's own file", told).await.unwrap();
    assert!(!told.contains(".workflow"), "{told}");
}
