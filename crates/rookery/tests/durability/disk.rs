//! A full disk: no write is acknowledged, reads continue, every surface reports it, and writes resume without a restart.
//!
//! A limit on the size of files takes the place of a full disk. It makes the daemon's writes fail for real, needs no mount
//! and no privilege, and can be lifted while the daemon runs.

use anyhow::{Context, ensure};
use rookery_testkit::daemon::Daemon;
use rustix::process::{Pid, Resource, Rlimit};

use crate::store_checks::verify;
use crate::wire::{announce, code, create_task, eventually, report};

/// Limits the size of the daemon's files to `bytes`; `None` lifts the limit.
fn limit_files(daemon: &Daemon, bytes: Option<u64>) -> anyhow::Result<()> {
    let pid = daemon.pid().and_then(|pid| Pid::from_raw(pid.cast_signed())).context("no process")?;
    let own = rustix::process::getrlimit(Resource::Fsize);
    let limit = Rlimit { current: bytes.or(own.maximum), maximum: own.maximum };
    rustix::process::prlimit(Some(pid), Resource::Fsize, limit)?;
    Ok(())
}

/// The output of `rookery status`.
fn status(daemon: &Daemon) -> anyhow::Result<String> {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    let output = command.args(["status", "--dir"]).arg(daemon.root()).env_remove("ROOKERY_DIR").output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_rejects_writes_and_recovers() -> anyhow::Result<()> {
    let mut daemon = crate::daemon().start()?;
    announce(&daemon, "writer").await?;
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        for number in 0..20 {
            let title = format!("{round}-{number}");
            ensure!(create_task(&daemon, &title).await?.status.as_u16() == 201);
            acknowledged.push(title);
        }
        limit_files(&daemon, Some(1))?;
        for number in 0..20 {
            let refused = create_task(&daemon, &format!("refused {round}-{number}")).await?;
            ensure!(refused.status.as_u16() == 503 && code(&refused) == "STORE_UNAVAILABLE", "{refused:?}");
            ensure!(refused.headers.contains_key("retry-after"), "{refused:?}");
        }
        // A body that is stored in a separate file fails in the same way.
        let large = report(&daemon, "writer", 200_000).await?;
        ensure!(large.status.as_u16() == 503 && code(&large) == "STORE_UNAVAILABLE", "{large:?}");
        check_full_disk_is_reported(&daemon, acknowledged.len()).await?;

        limit_files(&daemon, None)?;
        let ready = || async { Ok(daemon.get("/readyz").await?.status.is_success().then_some(())) };
        eventually("the store to be writable again", ready).await?;
        ensure!(!status(&daemon)?.contains("the store cannot write"));
    }
    let listed = daemon.get("/tasks").await?.body;
    let listed: Vec<_> = listed.as_array().context("no tasks")?.iter().map(|task| task["title"].clone()).collect();
    ensure!(listed == acknowledged, "{listed:?} exist, {acknowledged:?} were acknowledged");
    daemon.kill()?;
    verify(&daemon).await
}

async fn check_full_disk_is_reported(daemon: &Daemon, tasks: usize) -> anyhow::Result<()> {
    let ready = daemon.get("/readyz").await?;
    ensure!(ready.status.as_u16() == 503 && code(&ready) == "STORE_UNAVAILABLE", "{ready:?}");
    ensure!(daemon.get("/healthz").await?.status.is_success(), "the process must be up");
    let listed = daemon.get("/tasks").await?;
    ensure!(listed.body.as_array().map(Vec::len) == Some(tasks), "reads must continue: {listed:?}");
    ensure!(daemon.get("/events?limit=5").await?.status.is_success(), "reads must continue");
    let output = status(daemon)?;
    ensure!(output.contains("the store cannot write"), "{output}");
    Ok(())
}
