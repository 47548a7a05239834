//! The PostgreSQL engine: any number of nodes over one database, a schema for each project.
//!
//! | file | what it owns |
//! |---|---|
//! | `address` | the URL: server, schema, what to check of its certificate |
//! | `connection` | opening connections, TLS, sending many statements in one go, the head row |
//! | `writer` | the task that runs batches under the lock on the head, and settles lost commits |
//! | `follow` | reading what any node committed, for this node's subscribers |
//! | `transact` | what a transaction loads and writes |
//! | `reader` | the pools for reads and for operational state |
//! | `schema`, `log` | generated statements for derived rows; rows of the log |
//! | `text` | texts with NUL in them |
//! | `nodes` | who serves the log, and who has which duty |
//! | `artifacts` | bodies and files in pieces |
//! | `migrate` | schema versions, the fold's format, rebuilding |
//! | `offline`, `source`, `sink` | work on the whole of a store: prove, export, move |
//! | `doctor` | what is risky about a server |
//!
//! It must not know a rule: what a command means is decided in [`crate::batch`].

mod address;
mod artifacts;
mod connection;
mod doctor;
mod error;
mod follow;
mod log;
mod migrate;
mod nodes;
pub mod offline;
mod reader;
mod schema;
mod sink;
mod source;
mod text;
mod transact;
mod writer;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

pub use address::{Address, AddressError, DEFAULT_SCHEMA, is_postgres};
pub use error::{OpenError, Problem};
pub use migrate::Birth;
use rookery_core::traits::LogRow;
use rookery_core::{Key, LogId, NodeId, Row, Seq};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use self::artifacts::{Artifacts, Only};
use self::connection::{Connector, Frame, HEAD, Question, Stored, ask, stored};
use self::follow::Follower;
use self::migrate::{Fitness, MIGRATIONS};
use self::nodes::Fit;
use self::reader::Reader;
use self::writer::Writer;
use crate::FORMAT;
use crate::artifact::{ArtifactError, ArtifactHold, ArtifactInfo, Erased, Incoming, Outgoing};
use crate::clock::Clock;
use crate::node::{LeaseRenewal, Node};
use crate::operational::{EndpointCursor, Operation, PresenceBoard, PresenceRecord, Token};
use crate::publish::{CommitFeed, Publisher};
use crate::query::{LogQuery, RowQuery};
use crate::queue::{Limits, Queue};
use crate::store::{
    Committed, Health, Pending, Read, ReadError, ReadOnlyCause, SharedVisitor, Store, Submission, SubmitError, Tallies,
};

/// Connections for the node's own affairs: attendance, presence, tokens. They must not wait behind slow reads, or a busy
/// node would count as gone.
const OWN_CONNECTIONS: usize = 2;

/// How long a server may take to greet us.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    pub address: Address,
    pub clock: Arc<dyn Clock>,
    pub board: Arc<PresenceBoard>,
    pub limits: Limits,
    /// What the log and the project are called if the store does not exist yet.
    pub birth: Birth,
    /// This process among those that share the store.
    pub node: NodeId,
    /// How many reads run at the same time.
    pub connections: usize,
}

/// The project that a schema holds, whoever opens it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopted {
    pub project_id: String,
    pub project: String,
}

/// What the tasks of a store share with those who ask.
#[derive(Debug)]
struct Shared {
    queue: Queue,
    health: RwLock<Health>,
    /// Why this store must not be written by this program any more, if so. Only a restart changes that.
    closed: OnceLock<String>,
    /// How far the log was seen to reach, by whichever task: it never gets shorter.
    seen: AtomicU64,
    published: Publisher,
    /// Up to where subscribers were told. Whoever holds it is the one that tells them.
    tail: tokio::sync::Mutex<Seq>,
    /// There is something to read that was not announced.
    look: Notify,
    /// Somebody found that the database is away: the writer sees when it is back.
    ailing: Notify,
    tokens: watch::Sender<u64>,
}

impl Shared {
    fn health(&self) -> Health {
        if let Some(reason) = self.closed.get() {
            return Health::ReadOnly { reason: reason.clone(), cause: ReadOnlyCause::Unfit };
        }
        self.health.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes no more writes, for good.
    fn close(&self, reason: String) {
        if self.closed.set(reason.clone()).is_ok() {
            tracing::error!(reason, "the store is not written any more");
        }
    }

    fn seen(&self) -> Seq {
        Seq(self.seen.load(Ordering::Relaxed))
    }

    fn has_seen(&self, head: Seq) {
        self.seen.fetch_max(head.0, Ordering::Relaxed);
    }

    /// Why a log that was found must not be gone on with, if so. `seen` is how far it was known to reach before it was
    /// looked at.
    fn objection(&self, found: &Stored, log: &LogId, seen: Seq) -> Option<String> {
        if found.head.log != *log {
            return Some(format!("the schema now holds another log, {}: start the daemon again", found.head.log));
        }
        if let Some(to) = &found.moved_to {
            return Some(format!("the store has moved to {to}: start the daemon with that one"));
        }
        if found.schema > migrate::newest() {
            return Some(migrate::newer_schema(found.schema));
        }
        if found.format != FORMAT {
            return Some(migrate::other_format(found.format));
        }
        (found.head.head < seen).then(|| {
            format!(
                "the log ends at {} and had reached {seen}: the database was set back, perhaps to a replica that lagged; \
                 what was acknowledged since is gone. Start the daemon again to go on from there",
                found.head.head
            )
        })
    }

    fn set_health(&self, health: Health) {
        let mut known = self.health.write().unwrap_or_else(PoisonError::into_inner);
        if *known == health {
            return;
        }
        if let (Health::Writable, Health::ReadOnly { reason, .. }) = (&*known, &health) {
            tracing::error!(reason, "the store cannot be written");
            self.ailing.notify_one();
        }
        *known = health;
    }
}

#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    reader: Reader,
    /// For the node's own affairs.
    own: Reader,
    artifacts: Artifacts,
    clock: Arc<dyn Clock>,
    channel: String,
    node: NodeId,
    adopted: Adopted,
    writer: Mutex<Option<JoinHandle<()>>>,
    follower: JoinHandle<()>,
}

impl PostgresStore {
    /// Opens the store of a schema, or creates it.
    pub async fn open(options: Options) -> Result<PostgresStore, OpenError> {
        let connector = Connector::new(options.address.clone())?;
        let unreachable = |problem: Problem| OpenError::Unreachable {
            address: options.address.to_string(),
            reason: problem.to_string(),
        };
        let client = match tokio::time::timeout(GREETING_TIMEOUT, connector.preparing()).await {
            Ok(client) => client.map_err(|error| unreachable(error.into()))?,
            Err(_) => return Err(unreachable(Problem::Connection("it does not answer".to_owned()))),
        };
        let fitness = migrate::prepare(&client, &options.address, &options.birth, MIGRATIONS).await?;
        let first = [
            Question::new(HEAD, vec![]),
            Question::new("SELECT project FROM log_head", vec![]),
            Question::new("SELECT value FROM meta WHERE name = 'project_id'", vec![]),
            // From here on, a batch of ours that is not named there was not committed.
            transact::name_batch(&options.node, ""),
        ];
        let questions = if fitness == Fitness::Writable { &first[..] } else { &first[..3] };
        let answers = ask(&client, Frame::Whole, questions).await.map_err(|error| unreachable(error.into()))?;
        let found = stored(&answers[0]).map_err(unreachable)?;
        let named = |at: usize| answers[at].first().and_then(|row| row.try_get::<_, String>(0).ok());
        let adopted = Adopted {
            project: named(1).unwrap_or_default(),
            project_id: named(2).unwrap_or_else(|| options.birth.project_id.clone()),
        };
        let closed = match fitness {
            Fitness::Writable => None,
            Fitness::OnlyToRead(reason) => Some(reason),
        };
        let shared = Arc::new(Shared {
            queue: Queue::new(options.limits),
            health: RwLock::new(Health::Writable),
            closed: closed.map(OnceLock::from).unwrap_or_default(),
            seen: AtomicU64::new(found.head.head.0),
            published: Publisher::default(),
            tail: tokio::sync::Mutex::new(found.head.head),
            look: Notify::new(),
            ailing: Notify::new(),
            tokens: watch::Sender::new(found.tokens),
        });
        let pool = connector.pool(options.connections).map_err(unreachable)?;
        let own = Reader { pool: connector.pool(OWN_CONNECTIONS).map_err(unreachable)? };
        let writer = Writer {
            connector: connector.clone(),
            shared: shared.clone(),
            board: options.board,
            node: options.node.clone(),
            log: found.head.log.clone(),
            client: None,
            batches: 0,
        };
        let follower = Follower {
            connector: connector.clone(),
            shared: shared.clone(),
            log: found.head.log,
            node: options.node.clone(),
        };
        Ok(PostgresStore {
            shared,
            artifacts: Artifacts {
                reader: Reader { pool: pool.clone() },
                node: options.node.clone(),
                number: Arc::default(),
            },
            reader: Reader { pool },
            own,
            clock: options.clock,
            channel: options.address.channel(),
            node: options.node,
            adopted,
            writer: Mutex::new(Some(tokio::spawn(writer.run()))),
            follower: tokio::spawn(follower.run()),
        })
    }

    /// The project that the schema holds.
    pub fn adopted(&self) -> &Adopted {
        &self.adopted
    }

    /// Commands that wait, for the gauges.
    pub fn waiting(&self) -> usize {
        self.shared.queue.depth()
    }

    async fn write(&self, operation: Operation) -> Result<usize, SubmitError> {
        if let Health::ReadOnly { reason, .. } = self.shared.health() {
            return Err(SubmitError::Unavailable { reason });
        }
        let mut questions = vec![transact::operate(&operation, &self.node)?];
        if operation.changes_tokens() {
            questions.push(Question::new("UPDATE log_head SET tokens = tokens + 1", vec![]));
            questions.push(transact::notify(&self.channel));
        }
        if operation.changes_tokens() {
            // Repeated, it would tell of the second time and not of the first.
            return self.own.write_once(&questions).await;
        }
        let answers = self.own.ask(Frame::Whole, &questions).await?;
        Ok(answers.first().map_or(0, Vec::len))
    }
}

impl Store for PostgresStore {
    fn submit(&self, submission: Submission) -> Pending<'_, Result<Committed, SubmitError>> {
        match self.shared.queue.push(submission) {
            Ok(outcome) => Box::pin(async { outcome.await.unwrap_or_else(|_| Err(lost())) }),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn operate(&self, operation: Operation) -> Pending<'_, Result<usize, SubmitError>> {
        Box::pin(self.write(operation))
    }

    fn rows(&self, keys: Vec<Key>) -> Read<'_, Vec<Option<Row>>> {
        Box::pin(self.reader.rows(keys))
    }

    fn list(&self, query: RowQuery) -> Read<'_, Vec<Row>> {
        Box::pin(async {
            let (mut lists, head) = self.reader.lists(vec![query]).await?;
            Ok((lists.pop().unwrap_or_default(), head))
        })
    }

    fn lists(&self, queries: Vec<RowQuery>) -> Read<'_, Vec<Vec<Row>>> {
        Box::pin(self.reader.lists(queries))
    }

    fn visit(&self, queries: Vec<RowQuery>, visitor: SharedVisitor) -> Read<'_, ()> {
        Box::pin(self.reader.visit(queries, visitor))
    }

    fn log(&self, query: LogQuery) -> Read<'_, Vec<LogRow>> {
        Box::pin(self.reader.log(query))
    }

    fn tallies(&self) -> Read<'_, Tallies> {
        Box::pin(async {
            let ((tallies, _), head) = self.reader.tallies_and_rows(vec![]).await?;
            Ok((tallies, head))
        })
    }

    fn tallies_and_rows(&self, keys: Vec<Key>) -> Read<'_, (Tallies, Vec<Option<Row>>)> {
        Box::pin(self.reader.tallies_and_rows(keys))
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
        Box::pin(self.artifacts.page(after, limit))
    }

    fn release_hold(&self, held: ArtifactHold) -> Pending<'_, Result<Erased, ArtifactError>> {
        Box::pin(async move {
            let only = Only::StoredAt(held.stored_at());
            self.artifacts.erase(held.sha256.clone(), only, held.hold_id()).await
        })
    }

    fn erase_artifact(&self, sha256: String) -> Pending<'_, Result<Erased, ArtifactError>> {
        Box::pin(self.artifacts.erase(sha256, Only::Any, None))
    }

    fn collect_artifact(&self, sha256: String, age: Duration) -> Pending<'_, Result<Erased, ArtifactError>> {
        Box::pin(self.artifacts.erase(sha256, Only::Older(age), None))
    }

    fn tidy_artifacts(&self) -> Pending<'_, Result<usize, ArtifactError>> {
        Box::pin(self.artifacts.tidy())
    }

    fn presence(&self) -> Pending<'_, Result<Vec<PresenceRecord>, ReadError>> {
        Box::pin(self.own.presence())
    }

    fn tokens(&self) -> Pending<'_, Result<Vec<Token>, ReadError>> {
        Box::pin(self.own.tokens())
    }

    fn outboxes(&self) -> Pending<'_, Result<Vec<EndpointCursor>, ReadError>> {
        Box::pin(self.own.outboxes())
    }

    fn tokens_changed(&self) -> watch::Receiver<u64> {
        self.shared.tokens.subscribe()
    }

    fn renew_lease(&self, node: Node) -> Pending<'_, Result<LeaseRenewal, SubmitError>> {
        let fit = if self.shared.health() == Health::Writable { Fit::ForDuties } else { Fit::OnlyToRead };
        Box::pin(async move { Ok(nodes::attend(&self.own, &node, fit, self.clock.as_ref()).await?) })
    }

    fn leave_cluster(&self, node: NodeId) -> Pending<'_, Result<(), SubmitError>> {
        Box::pin(async move { Ok(nodes::depart(&self.own, &node).await?) })
    }

    fn published(&self) -> CommitFeed {
        self.shared.published.subscribe()
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.shared.queue.close();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            if let Some(writer) = writer
                && writer.await.is_err()
            {
                tracing::error!("the writer ended early");
            }
            self.follower.abort();
            self.reader.pool.close();
            self.own.pool.close();
        })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.shared.queue.close();
        self.follower.abort();
        self.reader.pool.close();
        self.own.pool.close();
    }
}

/// The writer ended with this command in its hands.
fn lost() -> SubmitError {
    SubmitError::OutcomeUnknown { reason: "the writer stopped before it answered".to_owned() }
}
