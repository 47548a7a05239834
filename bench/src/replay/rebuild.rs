//! What it takes to make the derived rows anew from the log: their fold in memory, which is the ceiling, and the store doing
//! it as it does when an older program made them.

use rookery_store::replay::Fold;
use rookery_store::{FORMAT, LogQuery, Store};
use rusqlite::Connection;

use super::PAGE;
use super::run_log::RunLog;
use crate::stopwatch::Stopwatch;
use crate::work;

/// Envelopes a second.
pub(super) async fn in_memory(log: &RunLog) -> anyhow::Result<f64> {
    let store = work::open(&log.database())?;
    let (watch, mut fold) = (Stopwatch::start(), Fold::default());
    loop {
        let (rows, _) = store.log(LogQuery::after(fold.upto(), PAGE)).await?;
        if rows.is_empty() {
            break;
        }
        rows.iter().for_each(|row| fold.add(row));
    }
    let rate = log.envelopes as f64 / watch.elapsed().as_secs_f64();
    store.close().await;
    Ok(rate)
}

/// The same, written: the rows are said to be of the format before this one.
pub(super) async fn in_the_store(log: &RunLog) -> anyhow::Result<f64> {
    let database = log.database();
    Connection::open(&database)?.execute("UPDATE log_head SET format = ?1", [FORMAT - 1])?;
    let watch = Stopwatch::start();
    let store = work::open(&database)?;
    let rate = log.envelopes as f64 / watch.elapsed().as_secs_f64();
    store.close().await;
    Ok(rate)
}
