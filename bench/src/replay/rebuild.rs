//! Rebuilding the tables from the log: the fold in memory, which is the ceiling, and the store's rebuild of tables that an
//! older program made.

use rookery_store::replay::Fold;
use rookery_store::{FORMAT, LogQuery, Store};
use rusqlite::Connection;

use super::PAGE;
use super::run_log::RunLog;
use crate::stopwatch::Stopwatch;
use crate::work;

/// Folds the log in memory, and returns the rate in envelopes per second.
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

/// Lets the store rebuild its tables, by marking them as of the previous format, and returns the rate in envelopes per
/// second.
pub(super) async fn in_the_store(log: &RunLog) -> anyhow::Result<f64> {
    let database = log.database();
    Connection::open(&database)?.execute("UPDATE log_head SET format = ?1", [FORMAT - 1])?;
    let watch = Stopwatch::start();
    let store = work::open(&database)?;
    let rate = log.envelopes as f64 / watch.elapsed().as_secs_f64();
    store.close().await;
    Ok(rate)
}
