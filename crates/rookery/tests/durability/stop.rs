//! Start and shutdown: SIGTERM ends everything in time, one daemon serves a project, and the files of a crashed daemon do not
//! prevent a start.

use std::time::Duration;

use anyhow::{Context, ensure};
use rookery_testkit::daemon::Daemon;
use serde_json::Value;

use crate::wire::{Follower, ReceiveBuffer, announce, create_task, report, send_unfinished_request, within};

/// The time in which `rookery down` promises to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Stops the daemon without blocking the runtime of the test.
async fn stop(mut daemon: Daemon) -> anyhow::Result<(Daemon, Option<i32>)> {
    let stopping = tokio::task::spawn_blocking(move || {
        let code = daemon.stop();
        code.map(|code| (daemon, code))
    });
    tokio::time::timeout(STOP_TIMEOUT, stopping).await.context("timeout of the shutdown")??
}

/// The files of a running daemon that exist.
fn runtime_files(daemon: &Daemon) -> Vec<&'static str> {
    ["daemon.json", "rookery.sock"]
        .into_iter()
        .filter(|name| daemon.root().join(".rookery").join(name).exists())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_streams_and_requests_and_removes_files() -> anyhow::Result<()> {
    let daemon = crate::daemon().start()?;
    announce(&daemon, "writer").await?;
    ensure!(runtime_files(&daemon) == ["daemon.json", "rookery.sock"]);
    let follower = Follower::open(daemon.url(), "", None).await?;
    let mut never = Vec::new();
    for _ in 0..2 {
        never.push(Follower::request(daemon.url(), "", None, ReceiveBuffer::Small).await?);
    }
    // The sockets of the stalled readers are full, so that the daemon cannot end their streams with a message.
    for _ in 0..150 {
        ensure!(report(&daemon, "writer", 60_000).await?.status.as_u16() == 201);
    }
    let unfinished = send_unfinished_request(daemon.url(), "late").await?;
    let reading = tokio::spawn(follower.rest());
    let acknowledged = create_task(&daemon, "the last one").await?;
    ensure!(acknowledged.status.as_u16() == 201);
    let (mut daemon, code) = stop(daemon).await?;
    ensure!(code == Some(0), "the exit code is {code:?}");
    within("the end of the stream", reading).await???;
    let left = runtime_files(&daemon);
    ensure!(left.is_empty(), "{left:?} still exist");
    drop(unfinished);
    daemon.restart()?;
    let tasks = daemon.get("/tasks").await?.body;
    ensure!(tasks[0]["title"] == "the last one", "{tasks}");
    Ok(())
}

#[tokio::test]
async fn shutdown_right_after_start_is_clean() -> anyhow::Result<()> {
    for _ in 0..5 {
        let (daemon, code) = stop(crate::daemon().start()?).await?;
        ensure!(code == Some(0), "the exit code is {code:?}");
        let left = runtime_files(&daemon);
        ensure!(left.is_empty(), "{left:?} still exist");
    }
    Ok(())
}

#[tokio::test]
async fn second_daemon_of_project_fails_and_names_the_first() -> anyhow::Result<()> {
    let daemon = crate::daemon().start()?;
    let pid = daemon.pid().context("no process")?;
    let second = crate::daemon().start_at(daemon.root()).map(drop);
    let error = second.err().context("two daemons serve one project")?.to_string();
    ensure!(error.contains(&format!("process {pid}")), "{error}");
    ensure!(daemon.get("/healthz").await?.status.is_success(), "the first daemon must keep running");
    ensure!(runtime_files(&daemon) == ["daemon.json", "rookery.sock"], "the files of the first daemon must remain");
    Ok(())
}

#[tokio::test]
async fn daemon_starts_after_crash_with_stale_files() -> anyhow::Result<()> {
    let mut daemon = crate::daemon().start()?;
    let file = daemon.root().join(".rookery/daemon.json");
    daemon.kill()?;
    let stale: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    daemon.restart()?;
    let fresh: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    ensure!(stale["pid"] != fresh["pid"] && fresh["url"] == daemon.url(), "{fresh}");
    ensure!(daemon.get("/readyz").await?.status.is_success());
    Ok(())
}
