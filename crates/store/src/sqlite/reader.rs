//! Reads: a few read-only connections, each read one short transaction that also reads the head.
//!
//! No transaction outlives its call, and none is held across an await: a long one would keep the write-ahead log from
//! being reset. Whoever finds every connection busy waits.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rookery_core::traits::LogRow;
use rookery_core::{Key, Row};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection::{self, begin_reading, commit, roll_back, stored};
use super::error::{Damage, OpenError, Problem, is_damage};
use super::{log, schema, transact};
use crate::operational::{EndpointCursor, PresenceRecord, Token};
use crate::query::{LogHead, LogQuery, RowQuery};
use crate::store::{Pending, Read, ReadError, SharedVisitor, Tallies};

/// How many rows are read on the thread that asks for them; looking up one takes some ten microseconds.
const AT_ONCE: usize = 4;

/// Reads a store, whoever writes it.
#[derive(Clone, Debug)]
pub struct Reader {
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    path: PathBuf,
    lookups: Idle,
    scans: Idle,
    permits: Arc<Semaphore>,
    damage: Damage,
}

/// Connections of one kind that wait for their next read.
#[derive(Debug)]
struct Idle {
    open: fn(&Path) -> rusqlite::Result<Connection>,
    waiting: Mutex<Vec<Connection>>,
}

impl Idle {
    fn waiting(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connections that a read uses.
type ConnectionKind = fn(&Pool) -> &Idle;

const LOOKUPS: ConnectionKind = |pool| &pool.lookups;
const SCANS: ConnectionKind = |pool| &pool.scans;

impl Reader {
    /// Opens a store that exists for reading with at most `readers` connections. Needs no lock.
    pub fn open(path: &Path, readers: usize) -> Result<Reader, OpenError> {
        if !path.is_file() {
            return Err(OpenError::Absent { path: path.to_owned() });
        }
        let first = connection::reader(path).map_err(|source| OpenError::Sql { path: path.to_owned(), source })?;
        let pool = Pool {
            path: path.to_owned(),
            lookups: Idle { open: connection::reader, waiting: Mutex::new(vec![first]) },
            scans: Idle { open: connection::scanner, waiting: Mutex::default() },
            permits: Arc::new(Semaphore::new(readers.clamp(1, 64))),
            damage: Damage::default(),
        };
        Ok(Reader { pool: Arc::new(pool) })
    }

    /// The damage that reads have met.
    pub(super) fn damage(&self) -> &Damage {
        &self.pool.damage
    }

    pub fn rows(&self, keys: Vec<Key>) -> Read<'_, Vec<Option<Row>>> {
        let here = keys.len() <= AT_ONCE;
        let read = move |connection: &Connection| keys.iter().map(|key| schema::get(connection, key)).collect();
        if here { self.run_here(read) } else { self.run(read) }
    }

    pub fn list(&self, query: RowQuery) -> Read<'_, Vec<Row>> {
        self.run(move |connection| schema::list(connection, &query))
    }

    pub fn lists(&self, queries: Vec<RowQuery>) -> Read<'_, Vec<Vec<Row>>> {
        self.run(move |connection| queries.iter().map(|query| schema::list(connection, query)).collect())
    }

    pub fn visit(&self, queries: Vec<RowQuery>, visitor: SharedVisitor) -> Read<'_, ()> {
        self.run_on(SCANS, move |connection| {
            let mut visitor = visitor.lock().unwrap_or_else(PoisonError::into_inner);
            visitor.begin();
            queries.iter().try_for_each(|query| schema::visit(connection, query, |row| visitor.visit(row)))
        })
    }

    pub fn log(&self, query: LogQuery) -> Read<'_, Vec<LogRow>> {
        self.run(move |connection| log::read(connection, &query))
    }

    pub fn tallies(&self) -> Read<'_, Tallies> {
        self.run(transact::all_tallies)
    }

    pub fn tallies_and_rows(&self, keys: Vec<Key>) -> Read<'_, (Tallies, Vec<Option<Row>>)> {
        self.run(move |connection| {
            let rows = keys.iter().map(|key| schema::get(connection, key)).collect::<Result<_, _>>()?;
            Ok((transact::all_tallies(connection)?, rows))
        })
    }

    /// Which of these artifacts something names.
    pub fn artifacts_named(&self, names: Vec<String>) -> Pending<'_, Result<Vec<bool>, ReadError>> {
        let read = move |connection: &Connection| {
            names.iter().map(|sha256| log::names_artifact(connection, sha256)).collect::<Result<_, _>>()
        };
        let read = self.run(read);
        Box::pin(async { read.await.map(|(found, _)| found) })
    }

    pub fn presence(&self) -> Pending<'_, Result<Vec<PresenceRecord>, ReadError>> {
        let read = self.run(transact::all_presence);
        Box::pin(async { read.await.map(|(found, _)| found) })
    }

    pub fn tokens(&self) -> Pending<'_, Result<Vec<Token>, ReadError>> {
        let read = self.run(transact::all_tokens);
        Box::pin(async { read.await.map(|(found, _)| found) })
    }

    pub fn outboxes(&self) -> Pending<'_, Result<Vec<EndpointCursor>, ReadError>> {
        let read = self.run(transact::all_outboxes);
        Box::pin(async { read.await.map(|(found, _)| found) })
    }

    /// Ends reading: what runs finishes, what comes is refused.
    pub(super) fn close(&self) {
        self.pool.permits.close();
        self.pool.lookups.waiting().clear();
        self.pool.scans.waiting().clear();
    }

    /// Reads on the thread that asks: right for what takes less time than to wake another thread and be woken by it.
    fn run_here<T, F>(&self, read: F) -> Read<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Problem> + Send + 'static,
    {
        Box::pin(async move {
            let _permit = self.pool.permits.acquire().await.map_err(|_| closed())?;
            Ok(read_once(&self.pool, LOOKUPS, read)?)
        })
    }

    /// Reads on a thread made for waiting.
    fn run<T, F>(&self, read: F) -> Read<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Problem> + Send + 'static,
    {
        self.run_on(LOOKUPS, read)
    }

    fn run_on<T, F>(&self, kind: ConnectionKind, read: F) -> Read<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Problem> + Send + 'static,
    {
        let pool = self.pool.clone();
        Box::pin(async move {
            let permit = pool.permits.clone().acquire_owned().await.map_err(|_| closed())?;
            let reading = tokio::task::spawn_blocking(move || {
                let found = read_once(&pool, kind, read);
                drop(permit);
                found
            });
            match reading.await {
                Ok(found) => found.map_err(ReadError::from),
                Err(error) => Err(ReadError::Unavailable { reason: format!("the read ended early: {error}") }),
            }
        })
    }
}

fn closed() -> ReadError {
    ReadError::Unavailable { reason: "the store is closed".to_owned() }
}

/// A connection that failed is closed; the next read opens another.
fn read_once<T>(
    pool: &Pool,
    kind: ConnectionKind,
    read: impl FnOnce(&Connection) -> Result<T, Problem>,
) -> Result<(T, LogHead), Problem> {
    let idle = kind(pool);
    let waiting = idle.waiting().pop();
    let connection = match waiting {
        Some(connection) => connection,
        None => (idle.open)(&pool.path)?,
    };
    let found = in_transaction(&connection, read).inspect_err(|problem| {
        if let Problem::Sql(error) = problem
            && is_damage(error)
        {
            pool.damage.note(&error.to_string());
        }
    })?;
    if !pool.permits.is_closed() {
        idle.waiting().push(connection);
    }
    Ok(found)
}

fn in_transaction<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, Problem>,
) -> Result<(T, LogHead), Problem> {
    begin_reading(connection)?;
    let found = stored(connection).and_then(|stored| Ok((read(connection)?, stored.head)));
    match found {
        Ok(found) => {
            commit(connection)?;
            Ok(found)
        }
        Err(problem) => {
            roll_back(connection)?;
            Err(problem)
        }
    }
}
