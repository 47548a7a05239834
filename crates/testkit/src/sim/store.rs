//! A node's store. Commands wait in a real queue until the simulation gives the writer a turn; reads see the shared database
//! at once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rookery_core::traits::LogRow;
use rookery_core::{Key, NodeId, Row};
use rookery_store::artifact::{ArtifactError, ArtifactHold, ArtifactInfo, Erased, Incoming, Outgoing};
use rookery_store::memory::{Database, MemoryStore};
use rookery_store::queue::Queue;
use rookery_store::store::{Health, SharedVisitor, Tallies};
use rookery_store::{
    Clock, CommitFeed, Committed, EndpointCursor, LeaseRenewal, LogQuery, Node, Operation, Pending, PresenceRecord,
    Read, ReadError, RowQuery, Store, Submission, SubmitError, Token,
};
use tokio::sync::{oneshot, watch};

use super::clock::NodeClock;

#[derive(Debug)]
pub(super) struct NodeStore {
    pub(super) memory: MemoryStore,
    pub(super) database: Database,
    /// The clock for leases, independent of the clocks of the nodes.
    pub(super) database_clock: Arc<NodeClock>,
    pub(super) queue: Arc<Queue>,
    /// Shared by all nodes, like the disk.
    pub(super) disk_full: Arc<AtomicBool>,
}

/// Waits for the writer's reply. If the writer is gone, the outcome is unknown.
fn await_reply<T: Send + 'static>(
    pushed: Result<oneshot::Receiver<Result<T, SubmitError>>, SubmitError>,
) -> Pending<'static, Result<T, SubmitError>> {
    Box::pin(async move {
        let unknown = |_| Err(SubmitError::OutcomeUnknown { reason: "the writer is gone".to_owned() });
        pushed?.await.unwrap_or_else(unknown)
    })
}

impl Store for NodeStore {
    fn submit(&self, submission: Submission) -> Pending<'_, Result<Committed, SubmitError>> {
        await_reply(self.queue.push(submission))
    }

    fn operate(&self, operation: Operation) -> Pending<'_, Result<usize, SubmitError>> {
        await_reply(self.queue.push_chore(operation))
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

    fn artifact(&self, sha256: String) -> Pending<'_, Result<Vec<u8>, ArtifactError>> {
        self.memory.artifact(sha256)
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
        let renewed = match self.health() {
            Health::Writable => Ok(self.database.attend(node, self.database_clock.now())),
            Health::ReadOnly { reason, .. } => Err(SubmitError::Unavailable { reason }),
        };
        Box::pin(std::future::ready(renewed))
    }

    fn leave_cluster(&self, node: NodeId) -> Pending<'_, Result<(), SubmitError>> {
        self.memory.leave_cluster(node)
    }

    fn published(&self) -> CommitFeed {
        self.memory.published()
    }

    fn health(&self) -> Health {
        if self.disk_full.load(Ordering::Relaxed) {
            return Health::from_interruption("database or disk is full");
        }
        Health::Writable
    }

    fn close(&self) -> Pending<'_, ()> {
        self.queue.close();
        Box::pin(std::future::ready(()))
    }
}
