//! Event streams over sockets: 200 connections that read everything while others write.

use std::net::SocketAddr;

use anyhow::Context;
use futures_util::future::join_all;
use tokio::sync::watch;

use crate::Plan;
use crate::daemon::Daemon;
use crate::follower::{Follower, Tally};
use crate::http::{self, Connection};
use crate::report::{Figure, Report};
use crate::rest::HttpClient;
use crate::sample::closed_loop;
use crate::stopwatch::Stopwatch;

pub(crate) const STREAMS: usize = 200;
const WRITERS: usize = 8;

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(plan, report))
}

async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let daemon = Daemon::start(scratch.path()).await?;
    daemon.announce(WRITERS).await?;
    let begun = head(daemon.address).await?;
    // Readers learn the last event that they have to wait for when the writers are done.
    let (target, _) = watch::channel(None);
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(tokio::spawn(open(daemon.address).await?.read(target.subscribe())));
    }
    let mut writers = Vec::new();
    for at in 0..WRITERS {
        writers.push(HttpClient::creating(daemon.address, at).await?);
    }
    let watch = Stopwatch::start();
    let written = closed_loop(&mut writers, plan.steady).await?;
    let last = head(daemon.address).await?;
    target.send_replace(Some(last));
    let seen: Vec<u64> = join_all(streams).await.into_iter().map(|seen| seen.unwrap_or(0)).collect();
    let elapsed = watch.elapsed();

    let (delivered, expected) = (seen.iter().sum::<u64>(), (last - begun) * STREAMS as u64);
    let name = format!("{STREAMS} event streams");
    report.add(Figure::new(format!("{name}: events written beside them"), written.per_second, "/s"));
    report.add(Figure::new(format!("{name}: deliveries"), delivered as f64 / elapsed.as_secs_f64(), "/s"));
    let share = 100.0 * delivered as f64 / expected as f64;
    report.add(Figure::new(format!("{name}: delivered, in order and once"), share, "%").at_least(100.0));
    daemon.stop()
}

/// The newest seq of the log.
pub(crate) async fn head(address: SocketAddr) -> anyhow::Result<u64> {
    let mut connection = Connection::open(address).await?;
    let reply = connection.ask(&http::request("GET", "/status", None)).await?;
    let status: serde_json::Value = serde_json::from_slice(&reply.body)?;
    status["event_count"].as_u64().context("the status has no event count")
}

pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Follower> {
    Follower::open(address, &http::request("GET", "/events/stream", None), 200, scan).await
}

/// An event's position is on its own line.
fn scan(bytes: &[u8], tally: &mut Tally) -> usize {
    let mut done = 0;
    while let Some(end) = bytes[done..].iter().position(|byte| *byte == b'\n') {
        if let Some(id) = bytes[done..done + end].strip_prefix(b"id: ") {
            tally.saw(std::str::from_utf8(id).ok().and_then(|id| id.trim().rsplit_once(':')?.1.parse().ok()));
        }
        done += end + 1;
    }
    done
}
