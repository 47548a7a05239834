//! Durable task creation: the machine's floor, a bare SQLite writer, our store in this process, and the daemon over REST,
//! all alive at the same time and measured in turns.

mod daemon;
pub(super) mod echo;
mod floor;
mod own;
mod raw;

use std::time::Duration;

pub(crate) use daemon::HttpClient;
use tokio::runtime::Runtime;

use crate::report::{Figure, Report};
use crate::sample::{Client, Slice, Spread, closed_loop};
use crate::{Plan, say};

/// How many clients are tried, each of them waiting for its answer.
const CLIENTS: [usize; 3] = [1, 8, 64];
const MOST: usize = 64;
/// Between two slices, for what the last one left behind.
const GAP: Duration = Duration::from_millis(30);

const FLOOR: &str = "fdatasync of a 4 KiB append";
const RAW: &str = "raw SQLite group commit";
const OWN: &str = "our store in-process";
const REST: &str = "task creation over REST";
const ECHO: &str = "bare axum, JSON echoed";

/// One of those that take turns.
struct Runner<'a> {
    name: &'static str,
    clients: usize,
    run: Box<dyn FnMut(Duration) -> anyhow::Result<Slice> + 'a>,
    slices: Vec<Slice>,
}

impl<'a> Runner<'a> {
    fn new(name: &'static str, clients: usize, run: impl FnMut(Duration) -> anyhow::Result<Slice> + 'a) -> Runner<'a> {
        Runner { name, clients, run: Box::new(run), slices: vec![] }
    }

    /// Clients in a closed loop.
    fn crowd(name: &'static str, load: &'a Runtime, mut crowd: Vec<impl Client + 'a>) -> Runner<'a> {
        Runner::new(name, crowd.len(), move |length| load.block_on(closed_loop(&mut crowd, length)))
    }

    fn label(&self) -> String {
        match self.clients {
            1 => format!("{}, 1 client", self.name),
            clients => format!("{}, {clients} clients", self.name),
        }
    }

    fn spread(&self, of: impl Fn(&Slice) -> f64) -> Spread {
        Spread::of(self.slices.iter().map(of))
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    // The clients share one thread, which is as lean for those in this process as for those over sockets.
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut floor = floor::Floor::open(scratch.path())?;
    let raw = raw::Raw::open(scratch.path(), &load)?;
    let own = own::Own::open(scratch.path(), &load)?;
    let rest = load.block_on(daemon::Rest::start(scratch.path()))?;
    let echo = echo::Echo::start()?;

    let mut runners = vec![Runner::new(FLOOR, 1, move |length| floor.slice(length))];
    for clients in CLIENTS {
        runners.push(Runner::crowd(RAW, &load, raw.clients(clients)));
        runners.push(Runner::crowd(OWN, &load, own.clients(clients)));
        let mut crowd = load.block_on(rest.clients(clients))?;
        let (rest, load) = (&rest, &load);
        runners.push(Runner::new(REST, clients, move |length| load.block_on(rest.slice(&mut crowd, length))));
    }
    runners.push(Runner::crowd(ECHO, &load, load.block_on(echo.clients(MOST))?));

    rotate(&mut runners, plan)?;
    absolute(&runners, report);
    ratios(&runners, report);
    drop(runners);
    load.block_on(own.close());
    Ok(())
}

/// Every round measures everyone once, each time beginning with another.
fn rotate(runners: &mut [Runner<'_>], plan: &Plan) -> anyhow::Result<()> {
    for runner in runners.iter_mut() {
        // Connections, caches and files are warm before anything counts.
        (runner.run)(plan.slice / 2)?;
    }
    let count = runners.len();
    for round in 0..plan.rounds {
        for turn in 0..count {
            let runner = &mut runners[(round * 5 + turn) % count];
            let slice = (runner.run)(plan.slice)?;
            runner.slices.push(slice);
            std::thread::sleep(GAP);
        }
        say::note(format_args!("round {} of {}", round + 1, plan.rounds));
    }
    Ok(())
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
    let find = |name: &str, clients: usize| {
        runners.iter().find(|runner| runner.name == name && runner.clients == clients).map_or(&[][..], |r| &r.slices)
    };
    let ratio = |one: &[Slice], other: &[Slice], of: fn(&Slice) -> f64| {
        Spread::of(one.iter().zip(other).map(|(one, other)| of(one) / of(other)))
    };
    let percent =
        |spread: Spread| Spread { median: spread.median * 100.0, low: spread.low * 100.0, high: spread.high * 100.0 };
    for clients in CLIENTS {
        for (name, bound) in [(OWN, None), (REST, (clients == MOST).then_some(60.0))] {
            let share = percent(ratio(find(name, clients), find(RAW, clients), |slice| slice.per_second));
            let figure = Figure::spread(format!("{name} / raw, {clients} clients"), share, "%");
            report.add(match bound {
                Some(bound) => figure.at_least(bound),
                None => figure,
            });
        }
    }
    let share = percent(ratio(find(REST, MOST), find(ECHO, MOST), |slice| slice.per_second));
    report.add(Figure::spread(format!("{REST} / bare axum, {MOST} clients"), share, "%"));
    let syncs = ratio(find(REST, 1), find(FLOOR, 1), |slice| slice.p50_ms);
    report.add(Figure::spread(format!("{REST}, 1 client: p50 in fdatasyncs"), syncs, "").at_most(2.0));
    let tail = Spread::of(find(REST, MOST).iter().map(|slice| slice.p99_ms / slice.p50_ms));
    report.add(Figure::spread(format!("{REST}, {MOST} clients: p99 / p50"), tail, "").at_most(3.0));
    let batch = Spread::of(find(REST, MOST).iter().filter_map(|slice| slice.batch));
    report.add(Figure::spread(format!("{REST}, {MOST} clients: events per fsync"), batch, "").at_least(32.0));
}
