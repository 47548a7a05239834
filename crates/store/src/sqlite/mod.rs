//! The SQLite engine, the default: one file, one writer thread, a few readers.
//!
//! | file | what it owns |
//! |---|---|
//! | `writer` | the thread with the only write connection: batches, publication, answers, recovery |
//! | `transact` | what a transaction loads and writes |
//! | `reader` | the pool of read-only connections |
//! | `checkpoint` | moving the write-ahead log into the database |
//! | `schema`, `log` | generated statements for derived rows; rows of the log |
//! | `migrate` | schema versions, the fold's format, rebuilding |
//! | `lock` | one daemon for each store |
//! | `source`, `sink` | a file as what [`crate::offline`] reads, and makes anew |
//! | `offline` | these, and back up, restore and check files |
//!
//! It must not know a rule: what a command means is decided in [`crate::batch`].

mod backup;
mod checkpoint;
mod connection;
mod error;
mod fault;
mod integrity;
mod lock;
mod log;
mod migrate;
pub mod offline;
mod reader;
mod restore;
mod schema;
mod siblings;
mod sink;
mod source;
mod transact;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

pub use checkpoint::Upkeep;
pub(crate) use error::is_damage;
pub use error::{OpenError, Problem};
pub use fault::{Faults, Step};
pub use lock::{Holder, holder};
pub use reader::Reader;
use rookery_core::traits::LogRow;
use rookery_core::{Key, LogId, NodeId, Row};
use rusqlite::Connection;
use tokio::sync::watch;

use self::checkpoint::Checkpointer;
use self::error::Damage;
use self::lock::Lock;
use self::migrate::{Birth, Fitness, MIGRATIONS};
use self::writer::Writer;
use crate::FORMAT;
use crate::artifact::{
    ArtifactDir, ArtifactError, ArtifactHold, ArtifactInfo, Artifacts, Erased, Incoming, Only, Outgoing,
};
use crate::clock::Clock;
use crate::node::{LeaderEpoch, LeaderRole, LeaseRenewal, Node, NodeLiveness, Seen};
use crate::operational::{EndpointCursor, Operation, PresenceBoard, PresenceRecord, Token};
use crate::publish::{CommitFeed, Publisher};
use crate::query::{LogQuery, RowQuery};
use crate::queue::{Limits, Queue};
use crate::store::{
    Committed, Health, Pending, Read, ReadError, ReadOnlyCause, SharedVisitor, Store, Submission, SubmitError, Tallies,
};

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database file. Its lock is the file with `.lock` added to its name.
    pub path: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub board: Arc<PresenceBoard>,
    pub limits: Limits,
    /// What the log is called if the store does not exist yet.
    pub log_id: LogId,
    pub project: String,
    pub artifacts: ArtifactDir,
    /// How many reads run at the same time.
    pub readers: usize,
    pub upkeep: Upkeep,
    /// Failures that a test wants to see.
    pub faults: Option<Arc<dyn Faults>>,
}

impl Options {
    pub fn new(path: impl Into<PathBuf>, log_id: LogId, clock: Arc<dyn Clock>, board: Arc<PresenceBoard>) -> Options {
        let path = path.into();
        Options {
            artifacts: ArtifactDir::new(path.with_file_name("artifacts")),
            path,
            clock,
            board,
            limits: Limits::default(),
            log_id,
            project: String::new(),
            readers: 4,
            upkeep: Upkeep::default(),
            faults: None,
        }
    }
}

/// What the writer thread shares with those who ask.
#[derive(Debug)]
struct Shared {
    queue: Queue,
    health: RwLock<Health>,
    damage: Damage,
    published: Publisher,
    tokens: watch::Sender<u64>,
}

impl Shared {
    fn health(&self) -> Health {
        if let Some(reason) = self.damage.reason() {
            return Health::ReadOnly { reason: reason.to_owned(), cause: ReadOnlyCause::Damage };
        }
        self.health.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_health(&self, health: Health) {
        let mut known = self.health.write().unwrap_or_else(PoisonError::into_inner);
        if *known == health {
            return;
        }
        if let Health::ReadOnly { reason, .. } = &health {
            tracing::error!(reason, "the store cannot be written");
        }
        *known = health;
    }
}

#[derive(Debug)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    reader: Reader,
    artifacts: Artifacts,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    project_id: Option<String>,
    /// Given up by the writer when it has closed the store.
    lock: Arc<Mutex<Option<Lock>>>,
    threads: Arc<Mutex<Threads>>,
}

#[derive(Debug)]
struct Threads {
    writer: Option<JoinHandle<()>>,
    checkpointer: Option<Checkpointer>,
}

impl Threads {
    /// Waits until the queue is worked off and the writer has closed the store.
    fn join(&mut self) {
        if let Some(mut checkpointer) = self.checkpointer.take() {
            checkpointer.stop();
        }
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer thread panicked");
        }
    }
}

impl SqliteStore {
    /// Opens or creates the store. Fails at once if another daemon holds it.
    pub fn open(options: Options) -> Result<SqliteStore, OpenError> {
        let path = options.path.clone();
        prepare_folder(&path)?;
        let lock = Lock::take(&path)?;
        let connection = open_database(&path)?;
        let birth = Birth { log_id: &options.log_id, project: &options.project };
        let fitness = migrate::prepare(&connection, &path, birth, MIGRATIONS)?;
        let found = match fitness {
            Fitness::Writable => examine(&connection, &path)?,
            Fitness::OnlyToRead(reason) => Found { clean: true, closed: Some(reason), damage: None },
        };
        if found.closed.is_none() && found.damage.is_none() {
            // Begin with an empty write-ahead log. If a reader is in the way, it is emptied later.
            drop(checkpoint::reset(&connection, Duration::ZERO));
        }
        SqliteStore::start(options, connection, lock, found)
    }

    fn start(options: Options, connection: Connection, lock: Lock, found: Found) -> Result<SqliteStore, OpenError> {
        let (path, clock) = (options.path, options.clock.clone());
        if let Err(error) = options.artifacts.sweep() {
            tracing::warn!(%error, "what is left of unfinished uploads was not removed");
        }
        let artifacts = Artifacts::new(options.artifacts, options.clock.clone());
        let reader = Reader::open(&path, options.readers)?;
        let head = connection::stored(&connection)
            .map_err(|source| OpenError::Rebuild { path: path.clone(), source })?
            .head
            .head;
        let project_id =
            migrate::project_id(&connection).map_err(|source| OpenError::Sql { path: path.clone(), source })?;
        if let Some(problem) = &found.damage {
            reader.damage().note(problem);
        }
        let health = match found.closed.clone() {
            Some(reason) => Health::ReadOnly { reason, cause: ReadOnlyCause::Unfit },
            None => Health::Writable,
        };
        let shared = Arc::new(Shared {
            queue: Queue::new(options.limits),
            health: RwLock::new(health),
            damage: reader.damage().clone(),
            published: Publisher::default(),
            tokens: watch::Sender::new(0),
        });
        let lock = Arc::new(Mutex::new(Some(lock)));
        let writer = Writer {
            identity: connection::identity(&path),
            path: path.clone(),
            shared: shared.clone(),
            clock: options.clock,
            board: options.board,
            faults: options.faults,
            upkeep: options.upkeep,
            connection: Some(connection),
            closed: found.closed,
            published: head,
            marked: !found.clean,
            reset_above: options.upkeep.bound_bytes,
            redacted: false,
            naming: artifacts.committing(),
            lock: lock.clone(),
        };
        let checkpointer =
            Checkpointer::start(path.clone(), options.upkeep).map_err(|source| OpenError::Thread { source })?;
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| OpenError::Thread { source })?;
        let threads = Threads { writer: Some(writer), checkpointer: Some(checkpointer) };
        let threads = Arc::new(Mutex::new(threads));
        Ok(SqliteStore { shared, reader, artifacts, path, clock, project_id, lock, threads })
    }

    /// Writes into the lock file where the daemon can be reached, for whoever finds the store taken.
    pub fn announce(&self, url: &str) -> std::io::Result<()> {
        match self.lock.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(lock) => lock.announce(Some(url)),
            None => Err(std::io::Error::new(std::io::ErrorKind::NotConnected, "the store is closed")),
        }
    }

    /// The project that the store was moved here for; `None` where the folder says which it is.
    pub fn project_id(&self) -> Option<&str> {
        self.project_id.as_deref()
    }

    /// Commands that wait, for the gauges.
    pub fn waiting(&self) -> usize {
        self.shared.queue.depth()
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    async fn erase(&self, sha256: String, only: Only) -> Result<Erased, ArtifactError> {
        // Most often it is named; then nobody has to wait.
        if self.reader.artifacts_named(vec![sha256.clone()]).await? == [true] {
            return Ok(Erased::Named);
        }
        let (path, name) = (self.path.clone(), sha256.clone());
        let shared = matches!(only, Only::Older(_)).then(|| self.artifacts.folder().to_owned());
        let named = Box::new(move || {
            let connection = connection::reader(&path).map_err(Problem::from)?;
            let named = log::names_artifact(&connection, &name)?;
            Ok(named || shared.is_some_and(|artifacts| siblings::name(&path, &artifacts, &name)))
        });
        self.artifacts.erase(sha256, only, named).await
    }
}

fn prepare_folder(path: &Path) -> Result<(), OpenError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |source| OpenError::Folder { path: path.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    lock::refuse_network(folder)
}

fn open_database(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::Sql { path: path.to_owned(), source };
    integrity::ensure_not_empty(path)?;
    if !path.exists() {
        begin_file(path)?;
    }
    let connection = connection::writer(path).map_err(failed)?;
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        return Err(OpenError::NoWriteAheadLog { path: path.to_owned() });
    }
    Ok(connection)
}

/// Makes a database file with nothing in it but its header. It has its name only then: one without a byte is never ours.
fn begin_file(path: &Path) -> Result<(), OpenError> {
    let partial = connection::beside(path, ".partial");
    let failed = |source| OpenError::Folder { path: path.to_owned(), source };
    connection::create_private(&partial).map_err(failed)?;
    let connection = connection::writer(&partial).map_err(|source| OpenError::Sql { path: path.to_owned(), source })?;
    drop(connection);
    std::fs::rename(&partial, path).map_err(failed)
}

/// What a look at an existing file told.
#[derive(Debug)]
struct Found {
    clean: bool,
    /// Why it must not be written, if so.
    closed: Option<String>,
    /// What is wrong with the file, if it is damaged.
    damage: Option<String>,
}

/// Looks at the file after a stop that was not clean. A damaged store can still be read, and says why it takes nothing.
fn examine(connection: &Connection, path: &Path) -> Result<Found, OpenError> {
    let failed = |source| OpenError::Sql { path: path.to_owned(), source };
    let clean = migrate::is_clean(connection).map_err(failed)?;
    if clean {
        return Ok(Found { clean, closed: None, damage: None });
    }
    tracing::info!("the store was not closed; checking it");
    let damage = match migrate::quick_check(connection) {
        Ok(problem) => problem,
        Err(error) if error::is_damage(&error) => Some(error.to_string()),
        Err(error) => return Err(failed(error)),
    };
    Ok(Found { clean, closed: None, damage })
}

impl Store for SqliteStore {
    fn submit(&self, submission: Submission) -> Pending<'_, Result<Committed, SubmitError>> {
        match self.shared.queue.push(submission) {
            Ok(outcome) => Box::pin(async { outcome.await.unwrap_or_else(|_| Err(lost())) }),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn operate(&self, operation: Operation) -> Pending<'_, Result<usize, SubmitError>> {
        match self.shared.queue.push_chore(operation) {
            Ok(outcome) => Box::pin(async { outcome.await.unwrap_or_else(|_| Err(lost())) }),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn rows(&self, keys: Vec<Key>) -> Read<'_, Vec<Option<Row>>> {
        self.reader.rows(keys)
    }

    fn list(&self, query: RowQuery) -> Read<'_, Vec<Row>> {
        self.reader.list(query)
    }

    fn lists(&self, queries: Vec<RowQuery>) -> Read<'_, Vec<Vec<Row>>> {
        self.reader.lists(queries)
    }

    fn visit(&self, queries: Vec<RowQuery>, visitor: SharedVisitor) -> Read<'_, ()> {
        self.reader.visit(queries, visitor)
    }

    fn log(&self, query: LogQuery) -> Read<'_, Vec<LogRow>> {
        self.reader.log(query)
    }

    fn tallies(&self) -> Read<'_, Tallies> {
        self.reader.tallies()
    }

    fn tallies_and_rows(&self, keys: Vec<Key>) -> Read<'_, (Tallies, Vec<Option<Row>>)> {
        self.reader.tallies_and_rows(keys)
    }

    fn put_artifact(&self, bytes: Vec<u8>) -> Pending<'_, Result<ArtifactHold, ArtifactError>> {
        Box::pin(self.artifacts.put(bytes))
    }

    fn artifact(&self, sha256: String) -> Pending<'_, Result<Vec<u8>, ArtifactError>> {
        Box::pin(self.artifacts.get(sha256))
    }

    fn receive_artifact(&self) -> Pending<'_, Result<Box<dyn Incoming>, ArtifactError>> {
        Box::pin(self.artifacts.receive())
    }

    fn artifact_size(&self, sha256: String) -> Pending<'_, Result<u64, ArtifactError>> {
        Box::pin(self.artifacts.size(sha256))
    }

    fn read_artifact(&self, sha256: String, span: Range<u64>) -> Pending<'_, Result<Box<dyn Outgoing>, ArtifactError>> {
        Box::pin(self.artifacts.read(sha256, span))
    }

    fn artifacts(&self, after: Option<String>, limit: u32) -> Pending<'_, Result<Vec<ArtifactInfo>, ArtifactError>> {
        Box::pin(async move {
            let page = self.artifacts.page(after, limit as usize).await?;
            let names = page.iter().map(|artifact| artifact.sha256.clone()).collect();
            let named = self.reader.artifacts_named(names).await?;
            Ok(page.into_iter().zip(named).map(|(artifact, named)| ArtifactInfo { named, ..artifact }).collect())
        })
    }

    fn release_hold(&self, held: ArtifactHold) -> Pending<'_, Result<Erased, ArtifactError>> {
        let (sha256, only) = (held.sha256.clone(), Only::Made(held.made()));
        drop(held);
        Box::pin(self.erase(sha256, only))
    }

    fn erase_artifact(&self, sha256: String) -> Pending<'_, Result<Erased, ArtifactError>> {
        Box::pin(self.erase(sha256, Only::Any))
    }

    fn collect_artifact(&self, sha256: String, age: Duration) -> Pending<'_, Result<Erased, ArtifactError>> {
        Box::pin(self.erase(sha256, Only::Older(age)))
    }

    fn tidy_artifacts(&self) -> Pending<'_, Result<usize, ArtifactError>> {
        // Whoever gives up clears away; what a crash left was cleared away at the start.
        Box::pin(std::future::ready(Ok(0)))
    }

    fn presence(&self) -> Pending<'_, Result<Vec<PresenceRecord>, ReadError>> {
        self.reader.presence()
    }

    fn tokens(&self) -> Pending<'_, Result<Vec<Token>, ReadError>> {
        self.reader.tokens()
    }

    fn outboxes(&self) -> Pending<'_, Result<Vec<EndpointCursor>, ReadError>> {
        self.reader.outboxes()
    }

    fn tokens_changed(&self) -> watch::Receiver<u64> {
        self.shared.tokens.subscribe()
    }

    /// The lock on the file makes this the only node: it has every duty from the start and for good.
    fn renew_lease(&self, node: Node) -> Pending<'_, Result<LeaseRenewal, SubmitError>> {
        let seen = Seen {
            node,
            last_seen: self.clock.now(),
            liveness: NodeLiveness::Online,
            leader_roles: LeaderRole::ALL.to_vec(),
        };
        let tenures = LeaderRole::ALL.into_iter().map(for_good).collect();
        let attendance = LeaseRenewal { tenures, nodes: vec![seen], clock_ahead_millis: 0 };
        Box::pin(std::future::ready(Ok(attendance)))
    }

    fn leave_cluster(&self, _node: NodeId) -> Pending<'_, Result<(), SubmitError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn published(&self) -> CommitFeed {
        self.shared.published.subscribe()
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.shared.queue.close();
        let threads = self.threads.clone();
        Box::pin(async move {
            let joined = tokio::task::spawn_blocking(move || lock_threads(&threads).join()).await;
            if joined.is_err() {
                tracing::error!("closing the store ended early");
            }
            self.reader.close();
        })
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.shared.queue.close();
        lock_threads(&self.threads).join();
        self.reader.close();
    }
}

/// A duty that never changes hands.
fn for_good(duty: LeaderRole) -> LeaderEpoch {
    LeaderEpoch { duty, epoch: 1 }
}

fn lock_threads(threads: &Mutex<Threads>) -> MutexGuard<'_, Threads> {
    threads.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writer ended with this command in its hands.
fn lost() -> SubmitError {
    SubmitError::OutcomeUnknown { reason: "the writer stopped before it answered".to_owned() }
}
