//! Proving a store: its rows are the fold of its log, the log has no gap, bodies are what their hashes say.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use rookery_core::log::{BodyBytes, LogRow};
use rookery_core::{Key, Row, Seq, Table};
use rusqlite::Connection;

use super::connection::{self, APPLICATION_ID, begin_reading, stored};
use super::error::{OfflineError, OpenError, Problem};
use super::offline::Progress;
use super::{FORMAT, log, migrate, schema, transact};
use crate::artifact::sha256_hex;
use crate::query::{Bodies, Head, LogQuery};
use crate::replay::Fold;

const CHUNK: u32 = 1_000;
/// How many problems SQLite's own check tells at most.
const PROBLEMS: u32 = 100;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyReport {
    pub head: Head,
    /// Rows of the log that were folded.
    pub facts: u64,
    /// Derived rows that were compared.
    pub rows: u64,
    /// What is not as it should be; empty if all is well.
    pub differences: Vec<String>,
}

/// Folds the whole log anew and compares, at one moment, beside whoever writes.
pub fn verify(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport, OfflineError> {
    let connection = open_existing(path)?;
    begin_reading(&connection)?;
    let found = stored(&connection)?;
    if found.format != FORMAT {
        return Err(Problem::Unreadable(migrate::other_format(found.format)).into());
    }
    let head = found.head;
    let mut replay = Replay { fold: Fold::default(), next: head.floor, differences: vec![] };
    loop {
        let after = Seq(replay.next.0.saturating_sub(1));
        let rows = log::read(&connection, &LogQuery { bodies: Bodies::Read, ..LogQuery::after(after, CHUNK) })?;
        if rows.is_empty() {
            break;
        }
        rows.iter().for_each(|row| replay.add(row));
        progress(Progress { done: replay.next.0.saturating_sub(1), total: head.head.0 });
    }
    if replay.next != head.head.next() {
        replay.differences.push(format!("the log ends before {} and its head is {}", replay.next, head.head));
    }
    let (rows, mut differences) = compare(&connection, &replay.fold)?;
    differences.splice(0..0, replay.differences);
    Ok(VerifyReport { facts: (head.head.0 + 1).saturating_sub(head.floor.0), head, rows, differences })
}

struct Replay {
    fold: Fold,
    next: Seq,
    differences: Vec<String>,
}

impl Replay {
    fn add(&mut self, row: &LogRow) {
        if row.seq != self.next {
            self.differences.push(format!("the log goes from {} to {}", self.next.0.saturating_sub(1), row.seq));
        }
        if let Some(body) = &row.body
            && let BodyBytes::Here(bytes) = &body.bytes
            && sha256_hex(bytes) != body.sha256
        {
            self.differences.push(format!("the body of {} is not what its hash says", row.seq));
        }
        self.fold.add(row);
        self.next = row.seq.next();
    }
}

/// Compares documents, the columns beside them, and tallies.
fn compare(connection: &Connection, fold: &Fold) -> Result<(u64, Vec<String>), Problem> {
    let mut rows: HashMap<Key, Row> = HashMap::new();
    let mut columns_differ = BTreeSet::new();
    for table in Table::ALL {
        schema::each(connection, table, |key, row, columns| {
            if columns != row.columns() {
                columns_differ.insert(format!("the columns of {key:?} differ"));
            }
            rows.insert(key, row);
        })?;
    }
    let mut differences = fold.differences(&rows, &transact::all_tallies(connection)?);
    differences.extend(columns_differ);
    Ok((rows.len() as u64, differences))
}

/// What SQLite's own check of the file finds; empty if nothing.
pub fn integrity(path: &Path) -> Result<Vec<String>, OfflineError> {
    let connection = open_existing(path)?;
    Ok(check(&connection)?)
}

pub(super) fn check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({PROBLEMS})"))?;
    let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// Opens a file for reading if it is a store.
pub(super) fn open_existing(path: &Path) -> Result<Connection, OpenError> {
    if !path.is_file() {
        return Err(OpenError::Absent { path: path.to_owned() });
    }
    let failed = |source| OpenError::Sql { path: path.to_owned(), source };
    let connection = connection::reader(path).map_err(failed)?;
    let id: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(failed)?;
    if id != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    Ok(connection)
}
