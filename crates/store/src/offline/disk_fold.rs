//! The fold of a log that does not fit in memory: rows that did not change lately are kept in a temporary database.

use std::collections::{BTreeMap, HashMap};

use rookery_core::model::RowStore;
use rookery_core::traits::LogRow;
use rookery_core::{EventStamp, Key, Row, Table};
use rusqlite::{Connection, OptionalExtension, params};

use super::OfflineError;
use crate::batch::count;

/// How the temporary database is used: SQLite makes it without a name and removes it with the connection, so that nothing is left
/// after a crash, and nothing has to be durable.
const TEMPORARY: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA cache_size = -32768;
    CREATE TABLE rows (tab TEXT NOT NULL, id TEXT NOT NULL, doc BLOB NOT NULL, PRIMARY KEY (tab, id)) STRICT, WITHOUT ROWID;
";

/// Rows folded from a log, of which a bounded number is in memory.
#[derive(Debug)]
pub(super) struct DiskFold {
    /// The rows that changed since they were last written out; `None` for one that is gone.
    recent: HashMap<Key, Option<Row>>,
    /// How many of them are kept in memory before they are written out.
    limit: usize,
    peak: usize,
    stored: Connection,
    /// The first failure: events cannot tell of one while they are applied.
    failed: Option<OfflineError>,
}

impl DiskFold {
    pub(super) fn new(limit: usize) -> Result<DiskFold, OfflineError> {
        let stored = Connection::open("")?;
        stored.execute_batch(TEMPORARY)?;
        Ok(DiskFold { recent: HashMap::new(), limit, peak: 0, stored, failed: None })
    }

    pub(super) fn add(&mut self, row: &LogRow) -> Result<(), OfflineError> {
        row.event.apply(self, EventStamp { seq: row.seq, at: row.at });
        self.peak = self.peak.max(self.recent.len());
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.recent.len() >= self.limit { self.write_out() } else { Ok(()) }
    }

    /// The most rows that were in memory at once.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    /// Writes out what is in memory.
    pub(super) fn write_out(&mut self) -> Result<(), OfflineError> {
        let transaction = self.stored.transaction()?;
        {
            let mut put =
                transaction.prepare_cached("INSERT OR REPLACE INTO rows (tab, id, doc) VALUES (?1, ?2, ?3)")?;
            let mut remove = transaction.prepare_cached("DELETE FROM rows WHERE tab = ?1 AND id = ?2")?;
            for (key, row) in self.recent.drain() {
                let (table, id) = (key.table().name(), key.id());
                match row {
                    Some(row) => put.execute(params![table, id, row.encode()])?,
                    None => remove.execute(params![table, id])?,
                };
            }
        }
        Ok(transaction.commit()?)
    }

    /// Removes a row that was written out, and returns it.
    pub(super) fn remove(&self, key: &Key) -> Result<Option<Row>, OfflineError> {
        let found = self.read(key)?;
        if found.is_some() {
            let mut remove = self.stored.prepare_cached("DELETE FROM rows WHERE tab = ?1 AND id = ?2")?;
            remove.execute(params![key.table().name(), key.id()])?;
        }
        Ok(found)
    }

    /// The tallies of all rows that were written out.
    pub(super) fn tallies(&self) -> Result<BTreeMap<&'static str, i64>, OfflineError> {
        let mut tallies = BTreeMap::new();
        for table in Table::ALL {
            let mut select = self.stored.prepare_cached("SELECT doc FROM rows WHERE tab = ?1")?;
            let mut rows = select.query([table.name()])?;
            while let Some(row) = rows.next()? {
                let doc: Vec<u8> = row.get(0)?;
                count(&mut tallies, Some(&decode(table, &doc)?), 1);
            }
        }
        Ok(tallies)
    }

    /// The keys of all rows that were written out and not removed.
    pub(super) fn keys(&self) -> Result<Vec<Key>, OfflineError> {
        let mut keys = Vec::new();
        for table in Table::ALL {
            let mut select = self.stored.prepare_cached("SELECT id FROM rows WHERE tab = ?1")?;
            let mut rows = select.query([table.name()])?;
            while let Some(row) = rows.next()? {
                let id: String = row.get(0)?;
                keys.extend(Key::parse(table, &id));
            }
        }
        Ok(keys)
    }

    fn read(&self, key: &Key) -> Result<Option<Row>, OfflineError> {
        let mut select = self.stored.prepare_cached("SELECT doc FROM rows WHERE tab = ?1 AND id = ?2")?;
        let doc: Option<Vec<u8>> =
            select.query_row(params![key.table().name(), key.id()], |row| row.get(0)).optional()?;
        doc.map(|doc| decode(key.table(), &doc)).transpose()
    }
}

impl RowStore for DiskFold {
    fn take(&mut self, key: &Key) -> Option<Row> {
        if let Some(row) = self.recent.get_mut(key) {
            return row.take();
        }
        let found = self.read(key).unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            None
        });
        // Until it is put back, it is gone.
        self.recent.insert(key.clone(), None);
        found
    }

    fn put(&mut self, key: Key, row: Row) {
        self.recent.insert(key, Some(row));
    }
}

fn decode(table: Table, doc: &[u8]) -> Result<Row, OfflineError> {
    Row::decode(table, doc)
        .map_err(|error| OfflineError::Unreadable(format!("a folded row of {}: {error}", table.name())))
}
