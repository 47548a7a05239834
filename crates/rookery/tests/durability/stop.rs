//! Starting and stopping: SIGTERM ends everything in good time, one daemon serves a project, and a crash is in nobody's way.

use std::time::Duration;

use anyhow::{Context, ensure};
use rookery_testkit::daemon::Daemon;
use serde_json::Value;

use crate::wire::{Follower, ReceiveBuffer, announce, create_task, half_a_request, report, within};

/// What `rookery down` promises.
const STOP_TIME: Duration = Duration::from_secs(10);

/// Stops the daemon without blocking the test's own tasks.
async fn stop(mut daemon: Daemon) -> anyhow::Result<(Daemon, Option<i32>)> {
    let stopping = tokio::task::spawn_blocking(move || {
        let code = daemon.stop();
        code.map(|code| (daemon, code))
    });
    tokio::time::timeout(STOP_TIME, stopping).await.context("it took too long to stop")??
}

fn left_behind(daemon: &Daemon) -> Vec<&'static str> {
    ["daemon.json", "rookery.sock"]
        .into_iter()
        .filter(|name| daemon.root().join(".rookery").join(name).exists())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_streams_and_requests_and_cleans_up() -> anyhow::Result<()> {
    let daemon = crate::daemon().start()?;
    announce(&daemon, "writer").await?;
    ensure!(left_behind(&daemon) == ["daemon.json", "rookery.sock"]);
    let follower = Follower::open(daemon.url(), "", None).await?;
    let mut never = Vec::new();
    for _ in 0..2 {
        never.push(Follower::request(daemon.url(), "", None, ReceiveBuffer::Small).await?);
    }
    // The socket of those who never read is full, so that their streams cannot even be told.
    for _ in 0..150 {
        ensure!(report(&daemon, "writer", 60_000).await?.status.as_u16() == 201);
    }
    let _half = half_a_request(daemon.url(), "late").await?;
    let reading = tokio::spawn(follower.rest());
    let acknowledged = create_task(&daemon, "the last one").await?;
    ensure!(acknowledged.status.as_u16() == 201);
    let (mut daemon, code) = stop(daemon).await?;
    ensure!(code == Some(0), "it ended with {code:?}");
    within("the stream ends", reading).await???;
    let left = left_behind(&daemon);
    ensure!(left.is_empty(), "{left:?} are still there");
    daemon.restart()?;
    let tasks = daemon.get("/tasks").await?.body;
    ensure!(tasks[0]["title"] == "the last one", "{tasks}");
    Ok(())
}

#[tokio::test]
async fn a_stop_at_the_very_first_moment_is_a_clean_one() -> anyhow::Result<()> {
    for _ in 0..5 {
        let (daemon, code) = stop(crate::daemon().start()?).await?;
        ensure!(code == Some(0), "it ended with {code:?}");
        let left = left_behind(&daemon);
        ensure!(left.is_empty(), "{left:?} are still there");
    }
    Ok(())
}

#[tokio::test]
async fn a_second_daemon_fails_at_once_and_names_the_first() -> anyhow::Result<()> {
    let daemon = crate::daemon().start()?;
    let pid = daemon.pid().context("no process")?;
    let second = crate::daemon().start_at(daemon.root()).map(drop);
    let said = second.err().context("two daemons serve one project")?.to_string();
    ensure!(said.contains(&format!("process {pid}")), "{said}");
    ensure!(daemon.get("/healthz").await?.status.is_success(), "the first one does not mind");
    ensure!(left_behind(&daemon) == ["daemon.json", "rookery.sock"], "what the first one shows is still there");
    Ok(())
}

#[tokio::test]
async fn what_a_crash_leaves_behind_stops_nobody() -> anyhow::Result<()> {
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
