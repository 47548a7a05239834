//! Checks that the tables of a store are the fold of its log.

use std::collections::HashMap;
use std::path::Path;

use anyhow::ensure;
use rookery_core::{Seq, Table};
use rookery_store::replay::Fold;
use rookery_store::sqlite::Reader;
use rookery_store::{LogQuery, RowQuery};
use rookery_testkit::daemon::Daemon;
pub use rookery_testkit::event_log::{check_single_holder, count_by, read_log, seq_of};

/// Fails unless the rows and tallies of a daemon's store are the fold of its log. No daemon may write it meanwhile.
pub async fn verify(daemon: &Daemon) -> anyhow::Result<()> {
    if daemon.store().is_none() {
        verify_file(&daemon.root().join(".rookery/rookery.db")).await?;
    }
    daemon.replay_verify()
}

/// Checks an SQLite file without the program under test.
async fn verify_file(database: &Path) -> anyhow::Result<()> {
    let reader = Reader::open(database, 1)?;
    let mut fold = Fold::default();
    let head = loop {
        let (rows, head) = reader.log(LogQuery::after(fold.upto(), 1_000)).await?;
        if rows.is_empty() {
            break head;
        }
        for row in &rows {
            ensure!(row.seq == fold.upto().next(), "got seq {}, expected {}", row.seq, fold.upto().next());
            fold.add(row);
        }
    };
    ensure!(head.head == fold.upto() && head.floor == Seq(1), "the head row has {head:?}");
    let keys: Vec<_> = fold.rows().keys().cloned().collect();
    let (stored, _) = reader.rows(keys.clone()).await?;
    let stored: HashMap<_, _> = keys.into_iter().zip(stored).filter_map(|(key, row)| Some((key, row?))).collect();
    let (tallies, _) = reader.tallies().await?;
    let differences = fold.differences(&stored, &tallies);
    ensure!(differences.is_empty(), "the rows are not the fold of the log: {differences:#?}");
    for table in Table::ALL {
        let (rows, _) = reader.list(RowQuery::all(table)).await?;
        let folded = fold.rows().keys().filter(|key| key.table() == table).count();
        ensure!(rows.len() == folded, "{table:?} has {} rows, the fold has {folded}", rows.len());
    }
    Ok(())
}
