//! Reads of a long log through the engine in this process. Each must be as quick as in a short log.

use std::sync::Arc;

use rookery_engine::Engine;
use rookery_store::{LogQuery, PresenceBoard, Store};

use crate::data::{LongLog, Pick};
use crate::report::{Figure, Report};
use crate::sample::percentile;
use crate::stopwatch::Stopwatch;
use crate::{Plan, fanout, work};

const READS_PER_ROUND: u64 = 100;
const NAMES: [&str; 6] = [
    "last 100 events of a run",
    "last 100 events of a thread",
    "last 100 events by an agent",
    "newest 100 events",
    "state of a task",
    "status",
];

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let log = LongLog::get(plan).await?;
        let store = Arc::new(work::open(&log.database())?);
        let engine = fanout::engine(plan, store.clone(), Arc::new(PresenceBoard::default()));
        measure("", plan, &engine, &log, report).await?;
        store.close().await;
        Ok(())
    })
}

/// Measures each kind of read in turn. `store` is the prefix of the figures' names.
pub(crate) async fn measure(
    store: &str,
    plan: &Plan,
    engine: &Engine,
    log: &LongLog,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut taken: [Vec<u64>; NAMES.len()] = Default::default();
    for round in 0..plan.rounds as u64 {
        for at in 0..READS_PER_ROUND {
            for (which, taken) in taken.iter_mut().enumerate() {
                let pick = log.pick(round * READS_PER_ROUND + at);
                let asked = Stopwatch::start();
                read(engine, which, pick).await?;
                taken.push(asked.nanos());
            }
        }
    }
    for (name, mut taken) in NAMES.iter().zip(taken) {
        taken.sort_unstable();
        let (p50, p99) = (percentile(&taken, 0.5) / 1e6, percentile(&taken, 0.99) / 1e6);
        report.add(Figure::new(format!("{store}{name}, {} events: p50", plan.events), p50, "ms").at_most(1.0));
        report.add(Figure::new(format!("{store}{name}: p99"), p99, "ms"));
    }
    Ok(())
}

async fn read(engine: &Engine, which: usize, pick: Pick) -> anyhow::Result<()> {
    let newest = LogQuery::newest(100);
    let query = match which {
        0 => LogQuery { run: Some(pick.run), ..newest },
        1 => LogQuery { thread: Some(pick.thread), ..newest },
        2 => LogQuery { actor: Some(pick.agent), ..newest },
        3 => newest,
        4 => {
            let task = engine.query().task(&pick.task).await?;
            anyhow::ensure!(task.value.is_some(), "{} is not in the log", pick.task);
            return Ok(());
        }
        _ => {
            engine.query().totals().await?;
            return Ok(());
        }
    };
    let rows = engine.query().log(query).await?;
    anyhow::ensure!(!rows.value.is_empty(), "nothing was found");
    Ok(())
}
