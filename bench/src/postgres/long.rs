//! Reads and starts on a long log in PostgreSQL: a copy of the log for SQLite.

use std::sync::Arc;

use rookery_core::LogId;
use rookery_engine::{Ids, RandomIds};
use rookery_store::artifact::ArtifactDir;
use rookery_store::offline::copy_store;
use rookery_store::{PresenceBoard, Store, postgres, sqlite};

use super::Databases;
use crate::daemon::Daemon;
use crate::data::LongLog;
use crate::report::{Figure, Report};
use crate::sample::Spread;
use crate::{Plan, fanout, reads, say, work};

const STARTS: usize = 5;

pub(super) fn run(plan: &Plan, databases: &Databases, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let log = runtime.block_on(LongLog::get(plan))?;
    let url = databases.create("long")?;
    say::note(format_args!("copying {} events", plan.events));
    let entered = runtime.enter();
    copy(&log, &url)?;
    drop(entered);
    databases.tidy("long")?;
    runtime.block_on(async {
        let store = Arc::new(work::open_postgres(&url).await?);
        let engine = fanout::engine(plan, store.clone(), Arc::new(PresenceBoard::default()));
        reads::measure("PostgreSQL: ", plan, &engine, &log, report).await?;
        store.close().await;
        starts(plan, &url, report).await
    })
}

fn copy(log: &LongLog, url: &str) -> anyhow::Result<()> {
    let artifacts = ArtifactDir::new(log.root.join(".rookery/artifacts"));
    let mut source = sqlite::offline::source(&log.database(), artifacts)?;
    let mut sink = postgres::offline::sink(url.parse()?)?;
    copy_store(&mut source, &mut sink, &LogId::new(RandomIds.mint("log_")), &mut |_| {})?;
    Ok(())
}

async fn starts(plan: &Plan, url: &str, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let daemon = Daemon::start_on(scratch.path(), url).await?;
        starts.push(daemon.ready_in.as_secs_f64());
        daemon.stop()?;
    }
    let name = format!("PostgreSQL: start on {} events", plan.events);
    report.add(Figure::spread(&name, Spread::of(starts), "s").at_most(1.0));
    Ok(())
}
