//! WebSockets: 200 connections that receive every message while others write, beside a bare server that stores nothing.
//!
//! Both have the same writers and readers, in turns. The bare server wraps every message as we do, renders it once for all
//! connections, and sends it, which is the least that a fan-out has to do.

pub(crate) mod bare;
mod reader;

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;

use crate::daemon::Daemon;
use crate::report::{Figure, Report};
use crate::rest::HttpClient;
use crate::sample::{Spread, closed_loop};
use crate::stopwatch::Stopwatch;
use crate::{Plan, say, stream};

pub(crate) use reader::open;

const READERS: usize = 200;
const WRITERS: usize = 8;
const STREAM: &str = "/clutch/v0/stream";

/// A server that takes part in the comparison.
struct Runner {
    name: &'static str,
    address: SocketAddr,
    path: &'static str,
    slices: Vec<Slice>,
}

struct Slice {
    deliveries: f64,
    writes: f64,
    /// The share of the expected messages that arrived once and in order.
    share: f64,
}

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(plan, report))
}

async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let daemon = Daemon::start(scratch.path()).await?;
    daemon.announce(WRITERS).await?;
    let bare = Daemon::ws_echo()?;
    let runner = |name, address, path| Runner { name, address, path, slices: vec![] };
    let mut runners = [
        runner("bare axum", bare.address, STREAM),
        runner("rookery", daemon.address, STREAM),
        runner("rookery, batched", daemon.address, "/clutch/v0/stream?batch=1"),
    ];
    for runner in &mut runners {
        // Warms up connections, caches and files.
        runner.slice(plan.slice / 2).await?;
        runner.slices.clear();
    }
    for round in 0..plan.rounds {
        for at in 0..runners.len() {
            runners[(round + at) % 3].slice(plan.slice).await?;
        }
        say::note(format_args!("round {} of {}", round + 1, plan.rounds));
    }
    let of = |at: usize, figure: fn(&Slice) -> f64| runners[at].slices.iter().map(figure).collect::<Vec<_>>();
    for (at, runner) in runners.iter().enumerate() {
        let name = format!("{READERS} WebSockets, {}", runner.name);
        report.add(Figure::spread(format!("{name}: messages written beside them"), spread(of(at, |s| s.writes)), "/s"));
        report.add(Figure::spread(format!("{name}: deliveries"), spread(of(at, |s| s.deliveries)), "/s"));
        let least = of(at, |s| s.share).into_iter().fold(100.0, f64::min);
        report.add(Figure::new(format!("{name}: delivered, in order and once"), least, "%").at_least(100.0));
    }
    let ceiling = of(0, |s| s.deliveries);
    for at in [1, 2] {
        let ratios = of(at, |s| s.deliveries).into_iter().zip(&ceiling).map(|(ours, bare)| 100.0 * ours / bare);
        let name = format!("{READERS} WebSockets, {} / bare axum", runners[at].name);
        report.add(Figure::spread(name, Spread::of(ratios), "%"));
    }
    daemon.stop()
}

fn spread(values: Vec<f64>) -> Spread {
    Spread::of(values)
}

impl Runner {
    async fn slice(&mut self, length: Duration) -> anyhow::Result<()> {
        let begun = stream::head(self.address).await?;
        let (target, _) = watch::channel(None);
        let mut readers = Vec::new();
        for _ in 0..READERS {
            readers.push(tokio::spawn(open(self.address, self.path).await?.read(target.subscribe())));
        }
        let mut writers = Vec::new();
        for at in 0..WRITERS {
            writers.push(HttpClient::creating(self.address, at).await?);
        }
        let watch = Stopwatch::start();
        let written = closed_loop(&mut writers, length).await?;
        let last = stream::head(self.address).await?;
        target.send_replace(Some(last));
        let seen: u64 = join_all(readers).await.into_iter().map(|seen| seen.unwrap_or(0)).sum();
        let (elapsed, expected) = (watch.elapsed().as_secs_f64(), (last - begun) * READERS as u64);
        let share = 100.0 * seen as f64 / expected as f64;
        self.slices.push(Slice { deliveries: seen as f64 / elapsed, writes: written.per_second, share });
        Ok(())
    }
}
