//! Two hundred readers of the stream, some slow, some that never read: every reader receives everything, no reader delays the
//! writers, and the daemon's memory stays bounded.

use anyhow::{Context, ensure};
use rookery_testkit::daemon::Daemon;
use serde_json::json;
use tokio::task::JoinSet;

use crate::wire::{Follower, ReceiveBuffer, announce, eventually, report, within};

const NEVER_READ: usize = 20;
const SLOW: usize = 5;
const FILTERED: usize = 10;
const READERS: usize = 200 - NEVER_READ - SLOW - FILTERED;
const WRITERS: usize = 16;
const EVENTS_EACH: usize = 125;
const EVENTS: usize = WRITERS * EVENTS_EACH;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_with_stalled_readers_lose_nothing() -> anyhow::Result<()> {
    let daemon = crate::daemon().start()?;
    for writer in 0..WRITERS {
        announce(&daemon, &format!("writer-{writer}")).await?;
    }
    let before = memory_mib(&daemon)?;
    let first = crate::wire::position(&daemon.get("/status").await?)? + 1;
    let mut never = Vec::new();
    for _ in 0..NEVER_READ {
        never.push(Follower::request(daemon.url(), "", None, ReceiveBuffer::Small).await?);
    }
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let follower = Follower::open(daemon.url(), "", None).await?;
        readers.spawn(read(follower, first, Pace::Quick));
    }
    for _ in 0..SLOW {
        let follower = Follower::open(daemon.url(), "", None).await?;
        readers.spawn(read(follower, first, Pace::Slow));
    }
    for reader in 0..FILTERED {
        let writer = format!("writer-{}", reader % WRITERS);
        let follower = Follower::open(daemon.url(), &format!("?agent_id={writer}&action=x.tick"), None).await?;
        readers.spawn(read_one_writer(follower, writer));
    }
    within("the writers", write(&daemon)).await??;
    while let Some(read) = within("the readers", readers.join_next()).await? {
        read??;
    }
    let used = memory_mib(&daemon)?.saturating_sub(before);
    ensure!(used < 300, "the daemon needs {used} MiB more than before");
    drop(never);
    Ok(())
}

async fn write(daemon: &Daemon) -> anyhow::Result<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (http, url) = (daemon.http().clone(), format!("{}/events", daemon.url()));
        writers.spawn(async move {
            for number in 0..EVENTS_EACH {
                let agent = format!("writer-{writer}");
                let body = json!({"agent_id": agent, "action": "x.tick", "metadata": {"number": number}});
                let reply = rookery_testkit::daemon::read(http.post(&url).json(&body)).await?;
                ensure!(reply.status.as_u16() == 201, "{reply:?}");
            }
            Ok(())
        });
    }
    while let Some(written) = writers.join_next().await {
        written??;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Pace {
    Quick,
    /// Pauses after every event.
    Slow,
}

async fn read(mut follower: Follower, first: u64, pace: Pace) -> anyhow::Result<()> {
    for seq in first..first + EVENTS as u64 {
        let sent = follower.next().await?.with_context(|| format!("the stream ended before {seq}"))?;
        ensure!(sent.seq == seq, "got {}, expected {seq}", sent.seq);
        if let Pace::Slow = pace {
            tokio::time::sleep(std::time::Duration::from_micros(500)).await;
        }
    }
    Ok(())
}

async fn read_one_writer(mut follower: Follower, writer: String) -> anyhow::Result<()> {
    for number in 0..EVENTS_EACH {
        let sent = follower.next().await?.with_context(|| format!("the stream ended before {number}"))?;
        let event = sent.event()?;
        ensure!(event["agent_id"] == *writer && event["metadata"]["number"] == number, "{event} is not {number}");
    }
    Ok(())
}

/// The daemon keeps a limited number of published events for slow readers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_events_with_stalled_readers_do_not_fill_memory() -> anyhow::Result<()> {
    const LARGE: usize = 60_000;
    const EACH: usize = 100;
    // On a busy machine, the writes take longer than the default timeout of a stalled stream.
    let daemon = crate::daemon().env("ROOKERY_WRITE_TIMEOUT", "300s").start()?;
    announce(&daemon, "writer").await?;
    let mut never = Vec::new();
    for _ in 0..NEVER_READ {
        never.push(Follower::request(daemon.url(), "", None, ReceiveBuffer::Small).await?);
    }
    let before = memory_mib(&daemon)?;
    let writing = async {
        for _ in 0..EACH {
            let eight = (0..8).map(|_| report(&daemon, "writer", LARGE));
            for reply in futures_util::future::join_all(eight).await {
                ensure!(reply?.status.as_u16() == 201);
            }
        }
        Ok(())
    };
    within("the writers", writing).await??;
    // Readers that start at the beginning are all behind, and do not receive the events that the daemon reads for them.
    for _ in 0..NEVER_READ {
        never.push(Follower::request(daemon.url(), "?after=0", None, ReceiveBuffer::Small).await?);
    }
    let open = || async { Ok((daemon.get("/admin/info").await?.body["subscriptions"] == never.len()).then_some(())) };
    eventually("all streams to be open", open).await?;
    for _ in 0..20 {
        ensure!(report(&daemon, "writer", LARGE).await?.status.as_u16() == 201);
    }
    let used = memory_mib(&daemon)?.saturating_sub(before);
    ensure!(used < 100, "the daemon needs {used} MiB more than before");
    drop(never);
    Ok(())
}

/// The daemon's resident memory, or 0 where the system has no `/proc`.
fn memory_mib(daemon: &Daemon) -> anyhow::Result<u64> {
    let pid = daemon.pid().context("the daemon does not run")?;
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return Ok(0) };
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024)
}
