//! A store in memory that counts routing commands and fails on request.

use rookery_core::routing::RouteTask;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rookery_core::traits::LogRow;
use rookery_core::{Key, NodeId, Row};
use rookery_store::artifact::{ArtifactError, ArtifactHold, ArtifactInfo, Erased, Incoming, Outgoing};
use rookery_store::memory::MemoryStore;
use rookery_store::store::{Health, SharedVisitor, Tallies};
use rookery_store::{
    CommitFeed, Committed, EndpointCursor, LeaseRenewal, LogQuery, Node, Operation, Pending, PresenceRecord, Read,
    ReadError, RowQuery, Store, Submission, SubmitError, Token,
};
use tokio::sync::watch;

#[derive(Debug)]
pub struct FaultyStore {
    memory: MemoryStore,
    routings: AtomicUsize,
    unreadable: Mutex<HashMap<String, ArtifactError>>,
    withholds: AtomicBool,
    withheld: Mutex<Option<Submission>>,
}

impl FaultyStore {
    pub fn new(memory: MemoryStore) -> FaultyStore {
        FaultyStore {
            memory,
            routings: AtomicUsize::default(),
            unreadable: Mutex::default(),
            withholds: AtomicBool::default(),
            withheld: Mutex::default(),
        }
    }

    /// The number of routing commands submitted so far.
    pub fn routing_count(&self) -> usize {
        self.routings.load(Ordering::Relaxed)
    }

    /// Sets or clears the error of reading an artifact.
    pub fn set_artifact_error(&self, sha256: &str, error: Option<ArtifactError>) {
        let mut unreadable = self.unreadable.lock().unwrap();
        match error {
            Some(error) => drop(unreadable.insert(sha256.to_owned(), error)),
            None => drop(unreadable.remove(sha256)),
        }
    }

    /// Withholds the next routing command and answers that its outcome is unknown.
    pub fn withhold_next(&self) {
        self.withholds.store(true, Ordering::Relaxed);
    }

    /// Submits the withheld command.
    pub async fn deliver_withheld(&self) {
        let withheld = self.withheld.lock().unwrap().take().unwrap();
        self.memory.submit(withheld).await.unwrap();
    }
}

impl Store for FaultyStore {
    fn submit(&self, submission: Submission) -> Pending<'_, Result<Committed, SubmitError>> {
        if submission.command.get::<RouteTask>().is_some() {
            self.routings.fetch_add(1, Ordering::Relaxed);
            if self.withholds.swap(false, Ordering::Relaxed) {
                *self.withheld.lock().unwrap() = Some(submission);
                let lost = SubmitError::OutcomeUnknown { reason: "the answer was lost".to_owned() };
                return Box::pin(std::future::ready(Err(lost)));
            }
        }
        self.memory.submit(submission)
    }

    fn artifact(&self, sha256: String) -> Pending<'_, Result<Vec<u8>, ArtifactError>> {
        match self.unreadable.lock().unwrap().get(&sha256) {
            Some(error) => Box::pin(std::future::ready(Err(error.clone()))),
            None => self.memory.artifact(sha256),
        }
    }

    fn operate(&self, operation: Operation) -> Pending<'_, Result<usize, SubmitError>> {
        self.memory.operate(operation)
    }

    fn rows(&self, keys: Vec<Key>) -> Read<'_, Vec<Option<Row>>> {
        self.memory.rows(keys)
    }

    fn list(&self, query: RowQuery) -> Read<'_, Vec<Row>> {
        self.memory.list(query)
    }

    fn lists(&self, queries: Vec<RowQuery>) -> Read<'_, Vec<Vec<Row>>> {
        self.memory.lists(queries)
    }

    fn visit(&self, queries: Vec<RowQuery>, visitor: SharedVisitor) -> Read<'_, ()> {
        self.memory.visit(queries, visitor)
    }

    fn log(&self, query: LogQuery) -> Read<'_, Vec<LogRow>> {
        self.memory.log(query)
    }

    fn tallies(&self) -> Read<'_, Tallies> {
        self.memory.tallies()
    }

    fn tallies_and_rows(&self, keys: Vec<Key>) -> Read<'_, (Tallies, Vec<Option<Row>>)> {
        self.memory.tallies_and_rows(keys)
    }

    fn put_artifact(&self, bytes: Vec<u8>) -> Pending<'_, Result<ArtifactHold, ArtifactError>> {
        self.memory.put_artifact(bytes)
    }

    fn receive_artifact(&self) -> Pending<'_, Result<Box<dyn Incoming>, ArtifactError>> {
        self.memory.receive_artifact()
    }

    fn artifact_size(&self, sha256: String) -> Pending<'_, Result<u64, ArtifactError>> {
        self.memory.artifact_size(sha256)
    }

    fn read_artifact(&self, sha256: String, span: Range<u64>) -> Pending<'_, Result<Box<dyn Outgoing>, ArtifactError>> {
        self.memory.read_artifact(sha256, span)
    }

    fn artifacts(&self, after: Option<String>, limit: u32) -> Pending<'_, Result<Vec<ArtifactInfo>, ArtifactError>> {
        self.memory.artifacts(after, limit)
    }

    fn collect_artifact(&self, sha256: String, age: Duration) -> Pending<'_, Result<Erased, ArtifactError>> {
        self.memory.collect_artifact(sha256, age)
    }

    fn tidy_artifacts(&self) -> Pending<'_, Result<usize, ArtifactError>> {
        self.memory.tidy_artifacts()
    }

    fn release_hold(&self, held: ArtifactHold) -> Pending<'_, Result<Erased, ArtifactError>> {
        self.memory.release_hold(held)
    }

    fn erase_artifact(&self, sha256: String) -> Pending<'_, Result<Erased, ArtifactError>> {
        self.memory.erase_artifact(sha256)
    }

    fn presence(&self) -> Pending<'_, Result<Vec<PresenceRecord>, ReadError>> {
        self.memory.presence()
    }

    fn tokens(&self) -> Pending<'_, Result<Vec<Token>, ReadError>> {
        self.memory.tokens()
    }

    fn outboxes(&self) -> Pending<'_, Result<Vec<EndpointCursor>, ReadError>> {
        self.memory.outboxes()
    }

    fn tokens_changed(&self) -> watch::Receiver<u64> {
        self.memory.tokens_changed()
    }

    fn renew_lease(&self, node: Node) -> Pending<'_, Result<LeaseRenewal, SubmitError>> {
        self.memory.renew_lease(node)
    }

    fn leave_cluster(&self, node: NodeId) -> Pending<'_, Result<(), SubmitError>> {
        self.memory.leave_cluster(node)
    }

    fn published(&self) -> CommitFeed {
        self.memory.published()
    }

    fn health(&self) -> Health {
        self.memory.health()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.memory.close()
    }
}
