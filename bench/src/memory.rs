//! The daemon's start time and memory.

use std::time::Duration;

use tokio::sync::watch;

use crate::Plan;
use crate::daemon::Daemon;
use crate::data::LongLog;
use crate::http::{self, Connection};
use crate::report::{Figure, Report};
use crate::sample::Spread;
use crate::stream::{self, STREAMS};

const STARTS: usize = 5;
/// The number of reads across the log before memory is measured.
const READS: u64 = 1_000;
const SETTLE: Duration = Duration::from_secs(2);

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(plan, report))
}

async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let fresh = Daemon::start(scratch.path()).await?;
    tokio::time::sleep(SETTLE).await;
    let (all, own) = fresh.memory_mib()?;
    report.add(Figure::new("idle daemon: memory", all, "MiB").at_most(60.0));
    report.add(Figure::new("idle daemon: memory of its own", own, "MiB"));
    fresh.stop()?;

    let log = LongLog::get(plan).await?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let daemon = Daemon::start(&log.root).await?;
        starts.push(daemon.ready_in.as_secs_f64());
        daemon.stop()?;
    }
    let name = format!("start on {} events", plan.events);
    report.add(Figure::spread(&name, Spread::of(starts), "s").at_most(1.0));

    let daemon = Daemon::start(&log.root).await?;
    let (target, _) = watch::channel(None);
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(tokio::spawn(stream::open(daemon.address).await?.read(target.subscribe())));
    }
    read_all_over(&daemon, &log).await?;
    tokio::time::sleep(SETTLE).await;
    let (all, own) = daemon.memory_mib()?;
    let name = format!("daemon with {} events and {STREAMS} streams", plan.events);
    report.add(Figure::new(format!("{name}: memory"), all, "MiB").at_most(200.0));
    report.add(Figure::new(format!("{name}: memory of its own"), own, "MiB"));
    streams.iter().for_each(tokio::task::JoinHandle::abort);

    // A write, so that the store is in use when the process is killed.
    daemon.announce(1).await?;
    daemon.kill()?;
    let daemon = Daemon::start(&log.root).await?;
    let seconds = daemon.ready_in.as_secs_f64();
    report.add(Figure::new(format!("start on {} events after a crash", plan.events), seconds, "s").at_most(1.0));
    daemon.stop()
}

async fn read_all_over(daemon: &Daemon, log: &LongLog) -> anyhow::Result<()> {
    let mut connection = Connection::open(daemon.address).await?;
    for at in 0..READS {
        let pick = log.pick(at);
        let path = match at % 4 {
            0 => format!("/events?run={}&limit=100", pick.run),
            1 => format!("/events?agent_id={}&limit=100", pick.agent),
            2 => format!("/tasks/{}", pick.task),
            _ => "/status".to_owned(),
        };
        let reply = connection.ask(&http::request("GET", &path, None)).await?;
        anyhow::ensure!(reply.status == 200, "{path} was answered with {}", reply.status);
    }
    Ok(())
}
