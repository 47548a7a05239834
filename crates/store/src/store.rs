//! The interface of a store. Nothing above it may assume that this process is the only one that writes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rookery_core::kernel::caller::Caller;
use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{AnyCommand, AnyEvent, AnyReply, CommandReply, Key, NodeId, Rejection, Row, RunId, Seq, ThreadId};
use tokio::sync::watch;

use crate::artifact::{ArtifactError, ArtifactHold, ArtifactInfo, Erased, Incoming, Outgoing};
use crate::node::{LeaderEpoch, LeaseRenewal, Node};
use crate::operational::{EndpointCursor, Operation, PresenceRecord, Token};
use crate::publish::CommitFeed;
use crate::query::{LogHead, LogQuery, RowQuery};

/// A read, with the head of the log that it is true at.
pub type Read<'a, T> = Pending<'a, Result<(T, LogHead), ReadError>>;

pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Receives rows one by one while a store reads them, so that only one of them is in memory at a time.
pub trait RowVisitor: Send {
    /// Begins a read. A store that lost its connection begins again: rows visited before do not count.
    fn begin(&mut self);

    fn visit(&mut self, row: Row);
}

/// A visitor that its owner can ask for its result when the read has ended.
pub type SharedVisitor = Arc<Mutex<dyn RowVisitor>>;

/// Counts of rows by tally name.
pub type Tallies = BTreeMap<String, u64>;

/// A command on its way to be decided, with everything minted that it needs.
#[derive(Clone, Debug)]
pub struct Submission {
    pub caller: Caller,
    pub command: AnyCommand,
    pub lane: Lane,
    pub idempotency: Option<Idempotency>,
    /// The request as received.
    pub body: Option<Body>,
    /// How long the request was, wherever its body is kept.
    pub received_bytes: usize,
    pub cause: Option<Seq>,
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
    /// The duty that it is submitted out of, if so: refused once another node has taken that over.
    pub tenure: Option<LeaderEpoch>,
    /// Commands that are decided after this one, in order: either all of them are done or none.
    pub others: Vec<Submission>,
}

impl Submission {
    /// A command that somebody asks for; it takes its turn among those of the same caller.
    pub fn new(caller: Caller, command: impl Into<AnyCommand>) -> Submission {
        let lane = Lane::Caller(caller.actor.to_string());
        Submission::in_lane(lane, caller, command)
    }

    /// A command of our own. Surfaces have no use for it.
    pub fn internal(caller: Caller, command: impl Into<AnyCommand>) -> Submission {
        Submission::in_lane(Lane::Internal, caller, command)
    }

    fn in_lane(lane: Lane, caller: Caller, command: impl Into<AnyCommand>) -> Submission {
        Submission {
            caller,
            command: command.into(),
            lane,
            idempotency: None,
            body: None,
            received_bytes: 0,
            cause: None,
            run: None,
            thread: None,
            tenure: None,
            others: vec![],
        }
    }

    /// The same out of a duty.
    #[must_use]
    pub fn out_of(mut self, tenure: LeaderEpoch) -> Submission {
        self.tenure = Some(tenure);
        self
    }

    /// All commands of the submission, this one first.
    pub fn all(&self) -> impl Iterator<Item = &Submission> {
        std::iter::once(self).chain(&self.others)
    }

    /// What the command weighs in the queue: the body, and the same once more in the command.
    pub fn bytes(&self) -> usize {
        let body = match self.body.as_ref().map(|body| &body.bytes) {
            Some(BodyBytes::Here(bytes)) => bytes.len(),
            _ => 0,
        };
        let others: usize = self.others.iter().map(Submission::bytes).sum();
        256 + body + self.received_bytes.max(body).max(self.command.queued_bytes()) + others
    }
}

/// Where a command waits: callers take turns, and our own commands do not wait behind them.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Lane {
    Caller(String),
    Internal,
}

#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Idempotency {
    /// Run and sender.
    pub scope: String,
    pub key: String,
    /// What the command was: the same key with another hash is refused.
    pub hash: String,
    /// When it may be forgotten, in epoch milliseconds.
    pub keep_until: i64,
}

/// The outcome of a command, after its commit is durable.
#[derive(Clone, PartialEq, Debug)]
pub struct Committed<R = AnyReply> {
    pub reply: R,
    /// The head of the log that this answer is true at.
    pub at: Seq,
    /// The same was done before and got this answer: it is a repetition by its idempotency key, or by what it is.
    pub duplicate: bool,
    /// The events that the command appended, those of [`Submission::others`] apart.
    pub events: Vec<(Seq, AnyEvent)>,
    /// What became of [`Submission::others`].
    pub others: Vec<Committed>,
}

impl Committed {
    /// The same outcome with the reply as its own type; `None` if the reply is of another type.
    pub fn typed<R: CommandReply>(self) -> Option<Committed<R>> {
        let Committed { reply, at, duplicate, events, others } = self;
        Some(Committed { reply: R::from_any(reply)?, at, duplicate, events, others })
    }
}

impl<R> Committed<R> {
    /// The reply, and the outcome without it.
    pub fn into_parts(self) -> (R, Committed<()>) {
        let Committed { reply, at, duplicate, events, others } = self;
        (reply, Committed { reply: (), at, duplicate, events, others })
    }

    /// The events of the whole submission, in the order of the log.
    pub fn all_events(&self) -> impl Iterator<Item = &(Seq, AnyEvent)> {
        self.events.iter().chain(self.others.iter().flat_map(|other| &other.events))
    }
}

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("{0}")]
    Refused(Rejection),
    /// One of several commands that are done together or not at all, by its place among them.
    #[error("{refusal}")]
    RefusedOne { place: usize, refusal: Rejection },
    /// The queue is full; nothing was done.
    #[error("too many commands are waiting")]
    Busy,
    /// The store cannot write right now; nothing was done.
    #[error("the store cannot write: {reason}")]
    Unavailable { reason: String },
    /// The commit was sent and its result never seen.
    #[error("it is not known whether the command was done: {reason}")]
    OutcomeUnknown { reason: String },
    /// This command broke the batch it was in; the others went on without it.
    #[error("the command could not be carried out: {reason}")]
    Broken { reason: String },
    #[error("the daemon is stopping")]
    Stopped,
}

impl SubmitError {
    /// The same as told by one of several commands that are done together.
    pub(crate) fn of_one(self, place: usize) -> SubmitError {
        match self {
            SubmitError::Refused(refusal) => SubmitError::RefusedOne { place, refusal },
            other => other,
        }
    }
}

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the store cannot be read: {reason}")]
    Unavailable { reason: String },
    /// What stands there is not what this program writes.
    #[error("the store holds something unreadable: {reason}")]
    Corrupt { reason: String },
}

/// Whether and why not the store takes writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    Writable,
    ReadOnly { reason: String, cause: ReadOnlyCause },
}

impl Health {
    /// Read-only until a write succeeds again.
    pub fn from_interruption(reason: impl Into<String>) -> Health {
        Health::ReadOnly { reason: reason.into(), cause: ReadOnlyCause::Interruption }
    }
}

/// The kind of problem that makes a store read-only, which decides how it becomes writable again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOnlyCause {
    /// A full disk or an unreachable database. Writes resume by themselves.
    Interruption,
    /// A damaged file, which must be replaced.
    Damage,
    /// A store that this program must not write. The reason says what to do.
    Unfit,
}

pub trait Store: Send + Sync + 'static {
    /// Decides a command and answers when its outcome is durable.
    fn submit(&self, submission: Submission) -> Pending<'_, Result<Committed, SubmitError>>;

    /// Writes operational state: not logged, not replayed. How many rows of it changed.
    fn operate(&self, operation: Operation) -> Pending<'_, Result<usize, SubmitError>>;

    fn rows(&self, keys: Vec<Key>) -> Read<'_, Vec<Option<Row>>>;

    fn list(&self, query: RowQuery) -> Read<'_, Vec<Row>>;

    /// Several lists at one position.
    fn lists(&self, queries: Vec<RowQuery>) -> Read<'_, Vec<Vec<Row>>>;

    /// Visits the rows of several lists at one position: one list after the other, each in its order.
    fn visit(&self, queries: Vec<RowQuery>, visitor: SharedVisitor) -> Read<'_, ()>;

    fn log(&self, query: LogQuery) -> Read<'_, Vec<LogRow>>;

    fn tallies(&self) -> Read<'_, Tallies>;

    /// Counts and some rows at one position.
    fn tallies_and_rows(&self, keys: Vec<Key>) -> Read<'_, (Tallies, Vec<Option<Row>>)>;

    /// Stores bytes durably under their hash. Nobody erases them while they are held, whatever the log names.
    fn put_artifact(&self, bytes: Vec<u8>) -> Pending<'_, Result<ArtifactHold, ArtifactError>>;

    /// The bytes of this hash, verified.
    fn artifact(&self, sha256: String) -> Pending<'_, Result<Vec<u8>, ArtifactError>>;

    /// Begins to store bytes of any length.
    fn receive_artifact(&self) -> Pending<'_, Result<Box<dyn Incoming>, ArtifactError>>;

    /// How long an artifact is. Says nothing of whether it is whole.
    fn artifact_size(&self, sha256: String) -> Pending<'_, Result<u64, ArtifactError>>;

    /// Begins to read a part of an artifact, or all of it. What of the span is beyond its end is left out.
    fn read_artifact(&self, sha256: String, span: Range<u64>) -> Pending<'_, Result<Box<dyn Outgoing>, ArtifactError>>;

    /// Artifacts after a name, in the order of their names: at most `limit`, and none only at the end.
    fn artifacts(&self, after: Option<String>, limit: u32) -> Pending<'_, Result<Vec<ArtifactInfo>, ArtifactError>>;

    /// Ends a hold, and the artifact with it unless something names it, or somebody else stored or holds it.
    fn release_hold(&self, held: ArtifactHold) -> Pending<'_, Result<Erased, ArtifactError>>;

    /// Removes an artifact, however young, unless something names it or somebody holds it.
    fn erase_artifact(&self, sha256: String) -> Pending<'_, Result<Erased, ArtifactError>>;

    /// Removes an artifact that was last stored so long ago, unless something names it or somebody holds it.
    fn collect_artifact(&self, sha256: String, age: Duration) -> Pending<'_, Result<Erased, ArtifactError>>;

    /// Clears away what is left of artifacts that never came in whole. How many there were.
    fn tidy_artifacts(&self) -> Pending<'_, Result<usize, ArtifactError>>;

    /// Signs of life as last written down, for agents of all nodes.
    fn presence(&self) -> Pending<'_, Result<Vec<PresenceRecord>, ReadError>>;

    fn tokens(&self) -> Pending<'_, Result<Vec<Token>, ReadError>>;

    /// How far each adapter has come, by their names.
    fn outboxes(&self) -> Pending<'_, Result<Vec<EndpointCursor>, ReadError>>;

    /// Changes whenever tokens were put or revoked, by whichever node.
    fn tokens_changed(&self) -> watch::Receiver<u64>;

    /// Says that this node lives: keeps the duties it has, takes up those that nobody keeps, and tells who else is here.
    fn renew_lease(&self, node: Node) -> Pending<'_, Result<LeaseRenewal, SubmitError>>;

    /// Gives up the node's duties and its place among the others.
    fn leave_cluster(&self, node: NodeId) -> Pending<'_, Result<(), SubmitError>>;

    /// Committed batches from now on, in order. A receiver that lags reads the log instead.
    fn published(&self) -> CommitFeed;

    fn health(&self) -> Health;

    /// Stops taking commands, finishes what waits, and closes.
    fn close(&self) -> Pending<'_, ()>;
}
