//! The start time and memory of each build, on a log of the same length.

use std::time::Duration;

use super::{Build, Builds, TOLERATED, compare};
use crate::daemon::Daemon;
use crate::report::{Figure, Report};
use crate::rest::HttpClient;
use crate::sample::Client;
use crate::{Plan, say};

const TASKS: usize = 20_000;
const CLIENTS: usize = 64;
const SETTLE: Duration = Duration::from_secs(1);

pub(super) fn run(plan: &Plan, builds: &Builds, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(plan, builds, report))
}

async fn measure(plan: &Plan, builds: &Builds, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    for build in builds {
        let daemon = build.start(scratch.path(), "start").await?;
        daemon.announce(CLIENTS).await?;
        fill(&daemon).await?;
        daemon.stop()?;
    }
    let (mut ready, mut memory) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let (mut seconds, mut mebibytes) = ([0.0; 2], [0.0; 2]);
        for turn in 0..builds.len() {
            let at = (round + turn) % builds.len();
            (seconds[at], mebibytes[at]) = start_once(&builds[at], &scratch).await?;
        }
        ready.push(seconds);
        memory.push(mebibytes);
        say::note(format_args!("start {} of {}", round + 1, plan.rounds));
    }
    let name = format!("start on {TASKS} tasks");
    let spread = compare(&name, "s", builds, &ready, report);
    report.add(Figure::spread(format!("{name}: this / other"), spread, "%").at_most(100.0 + TOLERATED));
    let name = format!("memory on {TASKS} tasks");
    let spread = compare(&name, "MiB", builds, &memory, report);
    report.add(Figure::spread(format!("{name}: this / other"), spread, "%").at_most(100.0 + TOLERATED));
    Ok(())
}

/// The seconds until the daemon is ready, and its private memory in MiB right after.
async fn start_once(build: &Build, scratch: &tempfile::TempDir) -> anyhow::Result<(f64, f64)> {
    let daemon = build.start(scratch.path(), "start").await?;
    tokio::time::sleep(SETTLE).await;
    let (_, own) = daemon.memory_mib()?;
    let ready = daemon.ready_in.as_secs_f64();
    daemon.stop()?;
    Ok((ready, own))
}

async fn fill(daemon: &Daemon) -> anyhow::Result<()> {
    let mut clients = Vec::new();
    for at in 0..CLIENTS {
        clients.push(HttpClient::creating(daemon.address, at).await?);
    }
    let each = TASKS.div_ceil(CLIENTS);
    let fills = clients.iter_mut().map(|client| async move {
        for _ in 0..each {
            client.act().await?;
        }
        anyhow::Ok(())
    });
    futures_util::future::try_join_all(fills).await?;
    Ok(())
}
