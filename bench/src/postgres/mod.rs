//! PostgreSQL beside SQLite: durable task creation by one, two and four daemons, with growing numbers of clients; the
//! delay until another node's streams show an event; reads and starts on a long log.

mod delivery;
mod long;
mod raw;
mod server;

pub(crate) use server::{Databases, available};

use crate::report::{Figure, Report};
use crate::rest::Rest;
use crate::sample::Spread;
use crate::turns::{Runner, rotate, share, slices};
use crate::{Plan, say};

/// The numbers of clients, each of which waits for its answer.
const CLIENTS: [usize; 4] = [1, 8, 64, 256];
const MOST: usize = 256;
/// The number of clients for which figures are promised.
const USUAL: usize = 64;

const SQLITE: &str = "SQLite over REST";
const RAW: &str = "raw PostgreSQL group commit";
const ONE: &str = "PostgreSQL over REST";
const TWO: &str = "PostgreSQL over REST, 2 daemons";
const FOUR: &str = "PostgreSQL over REST, 4 daemons";

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let databases = Databases::start()?;
    create(plan, &databases, report)?;
    delivery::run(plan, &databases, report)?;
    long::run(plan, &databases, report)
}

fn create(plan: &Plan, databases: &Databases, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sqlite = load.block_on(Rest::start(scratch.path(), MOST))?;
    let raw = raw::Raw::open(databases, &load)?;
    let shared = |daemons| {
        // One database each, since a notification wakes all listeners of its database.
        let store = databases.create(&format!("daemons_{daemons}"))?;
        load.block_on(Rest::shared(scratch.path(), &store, daemons, MOST))
    };
    let (one, two, four) = (shared(1)?, shared(2)?, shared(4)?);
    let mut runners = Vec::new();
    for clients in CLIENTS {
        runners.push(Runner::rest(SQLITE, &load, &sqlite, clients));
        runners.push(Runner::rest(ONE, &load, &one, clients));
        runners.push(Runner::crowd(RAW, &load, raw.clients(clients)));
        runners.push(Runner::rest(TWO, &load, &two, clients));
        runners.push(Runner::rest(FOUR, &load, &four, clients));
    }
    rotate(&mut runners, plan)?;
    absolute(&runners, report);
    ratios(&runners, report);
    say::note("creation measured");
    Ok(())
}

fn absolute(runners: &[Runner<'_>], report: &mut Report) {
    for runner in runners {
        let label = runner.label();
        report.add(Figure::spread(&label, runner.spread(|slice| slice.per_second), "/s"));
        report.add(Figure::spread(format!("{label}: p50"), runner.spread(|slice| slice.p50_ms), "ms"));
        if runner.clients == USUAL {
            report.add(Figure::spread(format!("{label}: p99"), runner.spread(|slice| slice.p99_ms), "ms"));
        }
        let batch: Vec<f64> = runner.slices.iter().filter_map(|slice| slice.batch).collect();
        if runner.clients == USUAL && !batch.is_empty() {
            report.add(Figure::spread(format!("{label}: events per commit"), Spread::of(batch), ""));
        }
    }
}

fn ratios(runners: &[Runner<'_>], report: &mut Report) {
    let find = |name: &str, clients: usize| slices(runners, name, clients);
    let compared = [
        (ONE, SQLITE, "PostgreSQL / SQLite", Some(70.0)),
        (ONE, RAW, "PostgreSQL / raw PostgreSQL", None),
        (TWO, ONE, "2 daemons / 1 daemon", None),
        (FOUR, ONE, "4 daemons / 1 daemon", Some(35.0)),
    ];
    for (one, other, name, bound) in compared {
        for clients in CLIENTS {
            let share = share(find(one, clients), find(other, clients));
            let figure = Figure::spread(format!("{name}, {clients} clients"), share, "%");
            report.add(match bound.filter(|_| clients == USUAL) {
                Some(bound) => figure.at_least(bound),
                None => figure,
            });
        }
    }
    let tail = Spread::of(find(ONE, USUAL).iter().map(|slice| slice.p99_ms / slice.p50_ms));
    report.add(Figure::spread(format!("{ONE}, {USUAL} clients: p99 / p50"), tail, "").at_most(3.0));
}
