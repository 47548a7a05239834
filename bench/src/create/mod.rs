//! Durable task creation: the machine's floor, a bare SQLite writer, our store in this process, and the daemon over REST,
//! all running at the same time and measured in turns.

pub(super) mod echo;
mod floor;
mod own;

use std::path::Path;

use rookery_store::Store;

use crate::Plan;
use crate::raw::{Pattern, Raw, Target};
use crate::report::{Figure, Report};
use crate::rest::Rest;
use crate::sample::Spread;
use crate::turns::{Runner, ratio, rotate, share, slices};
use crate::work::{self, Order};

/// The numbers of clients, each of which waits for its answer.
const CLIENTS: [usize; 3] = [1, 8, 64];
const MOST: usize = 64;

const FLOOR: &str = "fdatasync of a 4 KiB append";
const RAW: &str = "raw SQLite group commit";
const OWN: &str = "our store in-process";
const REST: &str = "task creation over REST";
const ECHO: &str = "bare axum, JSON echoed";

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    // All clients share one thread, so that those in this process have no advantage over those over sockets.
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut floor = floor::Floor::open(scratch.path())?;
    let raw = load.block_on(raw(&scratch.path().join("raw.db")))?;
    let own = own::Own::open(scratch.path(), &load)?;
    let rest = load.block_on(Rest::start(scratch.path(), MOST))?;
    let echo = echo::Echo::start()?;

    let mut runners = vec![Runner::new(FLOOR, 1, move |length| floor.slice(length))];
    for clients in CLIENTS {
        runners.push(Runner::crowd(RAW, &load, raw.clients(clients)));
        runners.push(Runner::crowd(OWN, &load, own.clients(clients)));
        runners.push(Runner::rest(REST, &load, &rest, clients));
    }
    runners.push(Runner::crowd(ECHO, &load, load.block_on(echo.clients(MOST))?));

    rotate(&mut runners, plan)?;
    absolute(&runners, report);
    ratios(&runners, report);
    drop(runners);
    load.block_on(own.close());
    Ok(())
}

/// Makes a database with our store, and writes a task of each agent, for the bare writer to copy.
async fn raw(path: &Path) -> anyhow::Result<Raw> {
    let store = work::open(path)?;
    work::announce(&store, MOST).await?;
    let mut patterns = Vec::new();
    for at in 0..MOST {
        let id = work::mint();
        let committed = store.submit(Order::by(at).create(id.clone())).await?;
        patterns.push(Pattern { id: id.to_string(), seq: committed.at.0 });
    }
    store.close().await;
    let mint = || work::mint().to_string();
    Raw::open(path, Target { table: "tasks", place: "created", tallies: "tasks%", mint }, patterns)
}

fn absolute(runners: &[Runner<'_>], report: &mut Report) {
    for runner in runners {
        let label = runner.label();
        if runner.name == FLOOR {
            report.add(Figure::spread(format!("{FLOOR}: p50"), runner.spread(|slice| slice.p50_ms), "ms"));
            continue;
        }
        report.add(Figure::spread(&label, runner.spread(|slice| slice.per_second), "/s"));
        report.add(Figure::spread(format!("{label}: p50"), runner.spread(|slice| slice.p50_ms), "ms"));
    }
}

fn ratios(runners: &[Runner<'_>], report: &mut Report) {
    let find = |name: &str, clients: usize| slices(runners, name, clients);
    for clients in CLIENTS {
        for (name, bound) in [(OWN, None), (REST, (clients == MOST).then_some(60.0))] {
            let share = share(find(name, clients), find(RAW, clients));
            let figure = Figure::spread(format!("{name} / raw, {clients} clients"), share, "%");
            report.add(match bound {
                Some(bound) => figure.at_least(bound),
                None => figure,
            });
        }
    }
    let share = share(find(REST, MOST), find(ECHO, MOST));
    report.add(Figure::spread(format!("{REST} / bare axum, {MOST} clients"), share, "%"));
    let syncs = ratio(find(REST, 1), find(FLOOR, 1), |slice| slice.p50_ms);
    report.add(Figure::spread(format!("{REST}, 1 client: p50 in fdatasyncs"), syncs, "").at_most(2.0));
    let tail = Spread::of(find(REST, MOST).iter().map(|slice| slice.p99_ms / slice.p50_ms));
    report.add(Figure::spread(format!("{REST}, {MOST} clients: p99 / p50"), tail, "").at_most(3.0));
    let batch = Spread::of(find(REST, MOST).iter().filter_map(|slice| slice.batch));
    report.add(Figure::spread(format!("{REST}, {MOST} clients: events per fsync"), batch, "").at_least(32.0));
}
