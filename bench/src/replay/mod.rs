//! Reading a long log back as messages: as events in this process, which is the ceiling, and from the daemon by pages and by
//! WebSocket. The same for a run of envelopes ([`run_log`]), with the rebuild of its tables.

mod rebuild;
mod run_log;

use std::path::Path;
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
use crate::{Plan, fanout, say, websocket, work};

use run_log::RunLog;

const PAGE: u32 = 1_000;

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(plan, report))
}

async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let log = LongLog::get(plan).await?;
    let read = read_events(plan, &log.database()).await?;
    let (head, events) = (read.rows, read.rows as f64 / read.seconds);
    say::note("events read");
    let daemon = Daemon::start(&log.root).await?;
    let pages = pages(&daemon, head).await?;
    say::note("pages read");
    let socket = socket(&daemon, head).await?;
    daemon.stop()?;
    let name = format!("replay of {} events", plan.events);
    report.add(Figure::new(format!("{name}: facts, in the process"), events, "/s"));
    report.add(Figure::new(format!("{name}: messages by pages"), pages, "/s"));
    report.add(Figure::new(format!("{name}: messages by WebSocket"), socket, "/s"));
    report.add(Figure::new(format!("{name}: WebSocket / facts in the process"), 100.0 * socket / events, "%"));
    run_of_envelopes(plan, report).await
}

/// Rates count envelopes, although an envelope causes more than one event on average.
async fn run_of_envelopes(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let log = RunLog::get(plan).await?;
    let folded = rebuild::in_memory(&log).await?;
    say::note("rows folded in memory");
    let rebuilt = rebuild::in_the_store(&log).await?;
    say::note("rows rebuilt");
    let read = read_events(plan, &log.database()).await?;
    let (head, events) = (read.rows, log.envelopes as f64 / read.seconds);
    let daemon = Daemon::start(&log.root).await?;
    let watch = Stopwatch::start();
    read_pages(&daemon, head, &format!("/clutch/v0/runs/{}/replay", run_log::RUN)).await?;
    let pages = log.envelopes as f64 / watch.elapsed().as_secs_f64();
    say::note("pages of the run read");
    let socket = socket(&daemon, head).await? * log.envelopes as f64 / head as f64;
    daemon.stop()?;
    let name = format!("a run of {} envelopes", log.envelopes);
    report.add(Figure::new(format!("{name}: facts read, in the process"), events, "/s"));
    report.add(Figure::new(format!("{name}: replay by pages"), pages, "/s"));
    report.add(Figure::new(format!("{name}: replay by WebSocket"), socket, "/s"));
    report.add(Figure::new(format!("{name}: rows folded in memory"), folded, "/s"));
    report.add(Figure::new(format!("{name}: derived tables rebuilt"), rebuilt, "/s"));
    Ok(())
}

struct Read {
    rows: u64,
    seconds: f64,
}

async fn read_events(plan: &Plan, database: &Path) -> anyhow::Result<Read> {
    let store = Arc::new(work::open(database)?);
    let engine = fanout::engine(plan, store.clone(), Arc::new(PresenceBoard::default()));
    let watch = Stopwatch::start();
    let (mut after, mut count) = (Seq::ZERO, 0);
    loop {
        let rows = engine.query().log(LogQuery::after(after, PAGE)).await?.value;
        let Some(last) = rows.last() else { break };
        (after, count) = (last.seq, count + rows.len() as u64);
    }
    let seconds = watch.elapsed().as_secs_f64();
    store.close().await;
    Ok(Read { rows: count, seconds })
}

async fn pages(daemon: &Daemon, head: u64) -> anyhow::Result<f64> {
    let watch = Stopwatch::start();
    read_pages(daemon, head, "/clutch/v0/messages").await?;
    Ok(head as f64 / watch.elapsed().as_secs_f64())
}

async fn read_pages(daemon: &Daemon, head: u64, what: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(daemon.address).await?;
    let mut after = 0;
    while after < head {
        let path = format!("{what}?limit={PAGE}&after={after}");
        let reply = connection.ask(&http::request("GET", &path, None)).await?;
        anyhow::ensure!(reply.status == 200, "{path} was answered with {}", reply.status);
        after = next(&reply.body).unwrap_or(head);
    }
    Ok(())
}

/// The position of the next page, from the end of a page.
fn next(body: &[u8]) -> Option<u64> {
    let digits = body.strip_suffix(b"}")?.rsplit(|byte| *byte == b':').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

async fn socket(daemon: &Daemon, head: u64) -> anyhow::Result<f64> {
    let (_target, target) = watch::channel(Some(head));
    let watch = Stopwatch::start();
    let seen = websocket::open(daemon.address, "/clutch/v0/stream?after=0&batch=1").await?.read(target).await;
    (seen >= head).then(|| head as f64 / watch.elapsed().as_secs_f64()).context("not every message came")
}
