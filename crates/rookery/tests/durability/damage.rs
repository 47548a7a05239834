//! A damaged database file below a running daemon: it becomes read-only, every surface says so with the next step, and that
//! step brings back what can be read.

use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, ensure};
use rookery_testkit::daemon::Daemon;

use crate::wire::{announce, code, create_task};

const PAGE_BYTES: usize = 4096;

/// Overwrites all but the first quarter of the file's pages.
fn damage(database: &Path) -> anyhow::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).open(database)?;
    let pages = file.metadata()?.len() as usize / PAGE_BYTES;
    for page in pages / 4..pages {
        file.write_all_at(&[0xa5; PAGE_BYTES], (page * PAGE_BYTES) as u64)?;
    }
    Ok(())
}

/// The exit code and both outputs of a command.
fn rookery(root: &Path, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    let output = command.args(["--dir"]).arg(root).args(arguments).env_remove("ROOKERY_DIR").output()?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    Ok((output.status.code(), text))
}

/// A daemon whose database file is damaged, after one read met it.
async fn damaged() -> anyhow::Result<Daemon> {
    let mut daemon = crate::daemon().store("sqlite:").start()?;
    announce(&daemon, "writer").await?;
    for number in 0..200 {
        ensure!(create_task(&daemon, &format!("task {number}")).await?.status.as_u16() == 201);
    }
    // Stopped once, so that all pages are in the file and none in the write-ahead log.
    daemon.stop()?;
    daemon.restart()?;
    damage(&daemon.root().join(".rookery/rookery.db"))?;
    let read = daemon.get("/tasks").await?;
    ensure!(read.status.as_u16() == 500 && code(&read) == "STORE_CORRUPT", "{read:?}");
    Ok(daemon)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_database_makes_the_daemon_read_only_and_says_the_next_step() -> anyhow::Result<()> {
    let daemon = damaged().await?;
    let ready = daemon.get("/readyz").await?;
    ensure!(ready.status.as_u16() == 503 && code(&ready) == "STORE_UNAVAILABLE", "{ready:?}");
    let hint = ready.body["hint"].as_str().context("no hint")?;
    ensure!(hint.contains("rookery restore") && hint.contains("rookery export"), "{hint}");
    ensure!(daemon.get("/healthz").await?.status.is_success(), "the process must be up");
    let refused = create_task(&daemon, "one more").await?;
    ensure!(refused.status.as_u16() == 503 && code(&refused) == "STORE_UNAVAILABLE", "{refused:?}");

    let (_, status) = rookery(daemon.root(), &["status"])?;
    ensure!(status.contains("the store cannot write: the file is damaged"), "{status}");
    let (exit, doctor) = rookery(daemon.root(), &["doctor"])?;
    ensure!(exit == Some(1), "{doctor}");
    let bad = |name: &str| doctor.lines().find(|line| line.starts_with("bad ") && line.contains(name));
    ensure!(
        bad(" writing ").is_some_and(|line| line.contains("the store cannot write: the file is damaged")),
        "{doctor}"
    );
    ensure!(bad(" store ").is_some(), "{doctor}");
    ensure!(doctor.contains("`rookery restore FILE --force` brings back"), "{doctor}");
    ensure!(!doctor.contains("run 'rookery doctor'"), "the doctor must not send to itself: {doctor}");
    Ok(())
}
