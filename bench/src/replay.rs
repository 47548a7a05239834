//! How quickly a long log is read back as messages: as facts in this process, which is the ceiling, and from the daemon
//! by pages and by WebSocket.

use std::sync::Arc;

use anyhow::Context;
use rookery_core::Seq;
use rookery_store::{LogQuery, PresenceBoard, Store};
use tokio::sync::watch;

use crate::daemon::Daemon;
use crate::data::LongLog;
use crate::http::{self, Connection};
use crate::report::{Figure, Report};
use crate::stopwatch::Stopwatch;
use crate::websocket::Reader;
use crate::{Plan, fanout, say, stream, work};

const PAGE: u32 = 1_000;

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(plan, report))
}

async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let log = LongLog::get(plan).await?;
    let facts = facts(plan, &log).await?;
    say::note("facts read");
    let daemon = Daemon::start(&log.root).await?;
    let head = stream::head(daemon.address).await?;
    let pages = pages(&daemon, head).await?;
    say::note("pages read");
    let socket = socket(&daemon, head).await?;
    daemon.stop()?;
    let name = format!("replay of {} events", plan.events);
    report.add(Figure::new(format!("{name}: facts, in the process"), facts, "/s"));
    report.add(Figure::new(format!("{name}: messages by pages"), pages, "/s"));
    report.add(Figure::new(format!("{name}: messages by WebSocket"), socket, "/s"));
    report.add(Figure::new(format!("{name}: WebSocket / facts in the process"), 100.0 * socket / facts, "%"));
    Ok(())
}

async fn facts(plan: &Plan, log: &LongLog) -> anyhow::Result<f64> {
    let store = Arc::new(work::open(&log.database())?);
    let engine = fanout::engine(plan, store.clone(), Arc::new(PresenceBoard::default()));
    let watch = Stopwatch::start();
    let (mut after, mut count) = (Seq::ZERO, 0);
    loop {
        let rows = engine.log(LogQuery::after(after, PAGE)).await?.value;
        let Some(last) = rows.last() else { break };
        (after, count) = (last.seq, count + rows.len());
    }
    let rate = count as f64 / watch.elapsed().as_secs_f64();
    store.close().await;
    Ok(rate)
}

async fn pages(daemon: &Daemon, head: u64) -> anyhow::Result<f64> {
    let mut connection = Connection::open(daemon.address).await?;
    let watch = Stopwatch::start();
    let mut after = 0;
    while after < head {
        let path = format!("/clutch/v0/messages?limit={PAGE}&after={after}");
        let reply = connection.ask(&http::request("GET", &path, None)).await?;
        anyhow::ensure!(reply.status == 200, "{path} was answered with {}", reply.status);
        after = next(&reply.body).unwrap_or(head);
    }
    Ok(head as f64 / watch.elapsed().as_secs_f64())
}

/// The place to go on from, which a page tells last.
fn next(body: &[u8]) -> Option<u64> {
    let digits = body.strip_suffix(b"}")?.rsplit(|byte| *byte == b':').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

async fn socket(daemon: &Daemon, head: u64) -> anyhow::Result<f64> {
    let (_target, target) = watch::channel(Some(head));
    let watch = Stopwatch::start();
    let seen = Reader::open(daemon.address, "/clutch/v0/stream?after=0&batch=1").await?.read(target).await;
    (seen == head).then(|| head as f64 / watch.elapsed().as_secs_f64()).context("not every message came")
}
