//! Receiving envelopes, one by one and many in a call, beside a bare SQLite writer of the same rows. All run at the same time
//! and are measured in turns.
//!
//! The envelope is of a type that is only recorded, so that its cost is the cost of every envelope.

mod client;
mod envelope;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rookery_core::clutch::Shape;
use rookery_engine::Engine;
use rookery_store::{PresenceBoard, Store};

use crate::daemon::Daemon;
use crate::raw::{Pattern, Raw, Target};
use crate::report::{Figure, Report};
use crate::sample::{Client, Slice, closed_loop};
use crate::turns::{Runner, rotate, share, slices};
use crate::{Plan, fanout, work};

pub(crate) use client::caller;
use client::{HttpSender, OwnSender};

/// The number of clients that send one envelope at a time.
const CLIENTS: [usize; 2] = [1, 32];
const MOST: usize = 32;
/// The number of envelopes in a large call.
const LINES: usize = 500;
/// Every client sends at least one request before the measurement.
const WARM_UP: Duration = Duration::from_millis(20);

const RAW: &str = "raw SQLite group commit of an envelope";
const OWN: &str = "an envelope, our engine in-process";
const HTTP: &str = "an envelope over HTTP";
const RAW_LINES: &str = "raw SQLite, 500 envelopes in a commit";
const OWN_LINES: &str = "500 envelopes, our engine in-process";
const HTTP_LINES: &str = "500 envelopes on lines over HTTP";

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let raw = load.block_on(raw(plan, &scratch.path().join("raw.db")))?;
    let store = Arc::new(work::open(&scratch.path().join("own.db"))?);
    load.block_on(work::announce(store.as_ref(), MOST))?;
    let engine = fanout::engine(plan, store.clone(), Arc::new(PresenceBoard::default()));
    let root = scratch.path().join("daemon");
    std::fs::create_dir(&root)?;
    let daemon = load.block_on(Daemon::start(&root))?;
    load.block_on(daemon.announce(MOST))?;

    let mut runners = Vec::new();
    for clients in CLIENTS {
        runners.push(Runner::crowd(RAW, &load, raw.clients(clients)));
        runners.push(Runner::crowd(OWN, &load, OwnSender::crowd(&engine, clients, 1)));
        runners.push(over_http(HTTP, &load, &daemon, clients, 1));
    }
    runners.push(counting_each(RAW_LINES, &load, raw.bulk_clients(1, LINES)));
    runners.push(counting_each(OWN_LINES, &load, OwnSender::crowd(&engine, 1, LINES)));
    runners.push(over_http(HTTP_LINES, &load, &daemon, 1, LINES));

    rotate(&mut runners, plan)?;
    figures(&runners, report);
    drop(runners);
    load.block_on(store.close());
    daemon.stop()
}

/// Makes a database with our store, and sends an envelope of each agent, for the bare writer to copy.
async fn raw(plan: &Plan, path: &Path) -> anyhow::Result<Raw> {
    let store = Arc::new(work::open(path)?);
    work::announce(store.as_ref(), MOST).await?;
    let engine = fanout::engine(plan, store.clone(), Arc::new(PresenceBoard::default()));
    let mut patterns = Vec::new();
    for at in 0..MOST {
        patterns.push(recorded(&engine, at).await?);
    }
    store.close().await;
    Raw::open(path, Target { table: "envelopes", place: "received", tallies: "", mint: envelope::mint }, patterns)
}

async fn recorded(engine: &Engine, at: usize) -> anyhow::Result<Pattern> {
    let bytes = envelope::Template::of(at).with(&envelope::mint());
    let taken = engine.intake().ingest(bytes.as_bytes(), Shape::Json, |from| Ok(client::caller(from))).await?;
    let placed = taken.first().and_then(|ingested| Some((ingested.id.to_string(), ingested.seq?.0)));
    let (id, seq) = placed.ok_or_else(|| anyhow::anyhow!("the envelope has no place in the log"))?;
    Ok(Pattern { id, seq })
}

/// Connects new clients each time, since a daemon would close connections that are idle for a whole round.
fn over_http<'a>(
    name: &'static str,
    load: &'a tokio::runtime::Runtime,
    daemon: &'a Daemon,
    clients: usize,
    at_once: usize,
) -> Runner<'a> {
    Runner::new(name, clients, move |length| {
        load.block_on(async {
            let mut crowd = HttpSender::crowd(daemon.address, clients, at_once).await?;
            closed_loop(&mut crowd, WARM_UP).await?;
            closed_loop(&mut crowd, length).await.map(|slice| each(slice, at_once))
        })
    })
}

fn counting_each<'a>(
    name: &'static str,
    load: &'a tokio::runtime::Runtime,
    mut crowd: Vec<impl Client + 'a>,
) -> Runner<'a> {
    Runner::new(name, crowd.len(), move |length| {
        load.block_on(closed_loop(&mut crowd, length)).map(|slice| each(slice, LINES))
    })
}

/// Rates count envelopes, not calls.
fn each(slice: Slice, at_once: usize) -> Slice {
    Slice { per_second: slice.per_second * at_once as f64, ..slice }
}

fn figures(runners: &[Runner<'_>], report: &mut Report) {
    for runner in runners {
        let label = runner.label();
        report.add(Figure::spread(&label, runner.spread(|slice| slice.per_second), "/s"));
        report.add(Figure::spread(format!("{label}: p50"), runner.spread(|slice| slice.p50_ms), "ms"));
    }
    let find = |name: &str, clients: usize| slices(runners, name, clients);
    for clients in CLIENTS {
        for name in [OWN, HTTP] {
            let share = share(find(name, clients), find(RAW, clients));
            report.add(Figure::spread(format!("{name} / raw, {clients} clients"), share, "%"));
        }
    }
    for name in [OWN_LINES, HTTP_LINES] {
        report.add(Figure::spread(format!("{name} / raw"), share(find(name, 1), find(RAW_LINES, 1)), "%"));
    }
    let share = share(find(HTTP_LINES, 1), find(HTTP, MOST));
    report.add(Figure::spread(format!("{HTTP_LINES} / one by one, {MOST} clients"), share, "%"));
}
