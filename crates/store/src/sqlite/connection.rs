//! The kinds of connections to a database file, and the head row that every transaction reads first.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_core::{LogId, Seq};
use rusqlite::{Connection, OpenFlags};

use super::error::Problem;
use crate::query::LogHead;

/// Stands in the header of every store, so that another program's database is not mistaken for one.
pub(super) const APPLICATION_ID: i32 = 0x526f_6f6b;

const BUSY: Duration = Duration::from_secs(5);
const CACHED_STATEMENTS: usize = 128;

const WRITER: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -32768;
    PRAGMA temp_store = MEMORY;
    PRAGMA foreign_keys = ON;
    PRAGMA secure_delete = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
";

const READER: &str = "
    PRAGMA query_only = ON;
    PRAGMA mmap_size = 268435456;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
";

/// Every page is needed once: mapped, a whole file would count as memory of the process.
const SCANNER: &str = "
    PRAGMA query_only = ON;
    PRAGMA mmap_size = 0;
    PRAGMA cache_size = -2048;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
";

/// Never creates the file: one that is gone must not come back empty.
const WRITING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const READING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// The one connection that writes. What it deletes or rewrites it overwrites on the pages, too: a row that changes leaves
/// copies of its texts in free space, and a redaction that comes later would not find them there. It never checkpoints by itself: that would be paid by whoever commits next.
pub(super) fn writer(path: &Path) -> rusqlite::Result<Connection> {
    open(path, WRITING, WRITER)
}

pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    open(path, READING, READER)
}

/// A connection for reading whole tables once.
pub(super) fn scanner(path: &Path) -> rusqlite::Result<Connection> {
    open(path, READING, SCANNER)
}

/// Whether a database has a table of this name.
pub(super) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1")?.exists([name])
}

/// A connection to a file of its own: no write-ahead log, nothing left beside it.
pub(super) fn single_file(path: &Path) -> rusqlite::Result<Connection> {
    open(path, WRITING, "PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;")
}

/// Makes an empty file for its owner only: a store holds what agents say, and hashes of tokens. One that is there stays.
pub(super) fn create_private(path: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn open(path: &Path, flags: OpenFlags, pragmas: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.execute_batch(pragmas)?;
    Ok(connection)
}

/// Which file a path leads to; `None` if to none.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Runs something with another patience for locks, and goes back to the usual one.
pub(super) fn with_patience<T>(
    connection: &Connection,
    patience: Duration,
    run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.busy_timeout(patience)?;
    let result = run(connection);
    connection.busy_timeout(BUSY)?;
    result
}

/// The write-ahead log of a database file.
pub(super) fn wal_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// The file's path with something added to its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether there is a database file without a byte, and without a write-ahead log that could fill it.
pub(super) fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.len() == 0) && wal_bytes(path) == 0
}

pub(super) fn wal_bytes(path: &Path) -> u64 {
    std::fs::metadata(wal_of(path)).map_or(0, |found| found.len())
}

/// The head row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub(super) head: LogHead,
    pub(super) format: u32,
}

pub(super) fn stored(connection: &Connection) -> Result<Stored, Problem> {
    let mut statement = connection.prepare_cached("SELECT log_id, floor, head, format FROM log_head")?;
    let (log, floor, head, format): (String, i64, i64, i64) =
        statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let head = LogHead { log: LogId::new(log), floor: seq(floor)?, head: seq(head)? };
    Ok(Stored { head, format: u32::try_from(format).unwrap_or(u32::MAX) })
}

pub(super) fn seq(stored: i64) -> Result<Seq, Problem> {
    u64::try_from(stored).map(Seq).map_err(|_| Problem::Unreadable(format!("{stored} is no place in the log")))
}

pub(super) fn stored_seq(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

pub(super) fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)
}

pub(super) fn begin_reading(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN DEFERRED")?.execute([]).map(drop)
}

pub(super) fn commit(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("COMMIT")?.execute([]).map(drop)
}

/// Ends a transaction that may be open or not.
pub(super) fn roll_back(connection: &Connection) -> rusqlite::Result<()> {
    if connection.is_autocommit() {
        return Ok(());
    }
    connection.prepare_cached("ROLLBACK")?.execute([]).map(drop)
}
