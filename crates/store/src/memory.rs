//! The memory engine: the whole interface without a disk. It proves that nothing of a rule lives in SQL, and carries the
//! simulation, where several nodes share one database and every step of a commit may fail.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rookery_core::model::Presence;
use rookery_core::traits::{BodyBytes, LogRow};
use rookery_core::{AgentId, AnyReply, Key, LogId, NodeId, Row, Seq, Timestamp};
use tokio::sync::watch;

use crate::artifact::{
    ArtifactError, ArtifactHold, ArtifactInfo, Erased, Incoming, Made, Outgoing, Stored, clamp, is_older, sha256_hex,
};
use crate::batch::{Batch, BatchStep, CommitSet, Loaded, Needs, Outcome, RememberedReply};
use crate::clock::Clock;
use crate::node::{LEASE, LeaderEpoch, LeaderRole, LeaseRenewal, Node, NodeLiveness, REMEMBER_AWAY, Seen};
use crate::operational::{EndpointCursor, KEEP_AFTER_RUN_MILLIS, Operation, PresenceBoard, PresenceRecord, Token};
use crate::publish::{CommitFeed, Publisher};
use crate::query::{Bodies, KEY, LogHead, LogQuery, Order, RowQuery};
use crate::store::{
    Committed, Health, Pending, Read, ReadError, SharedVisitor, Store, Submission, SubmitError, Tallies,
};

/// A database in memory, shared by the nodes that write to it.
#[derive(Clone, Debug)]
pub struct Database {
    state: Arc<Mutex<State>>,
    published: Arc<Publisher>,
    tokens: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
struct State {
    log_id: LogId,
    head: Seq,
    log: Vec<LogRow>,
    rows: BTreeMap<Key, Row>,
    tallies: BTreeMap<String, u64>,
    replies: HashMap<(String, String), (RememberedReply, i64)>,
    presence: BTreeMap<AgentId, PresenceRecord>,
    tokens: Vec<Token>,
    outboxes: BTreeMap<String, EndpointCursor>,
    artifacts: HashMap<String, Artifact>,
    nodes: BTreeMap<NodeId, (Node, Timestamp)>,
    duties: BTreeMap<LeaderRole, Post>,
}

#[derive(Clone, Debug)]
struct Artifact {
    bytes: Bytes,
    holds: usize,
    stored_at: Timestamp,
    /// How often it was stored: what is let go of by one is not removed if another stored it since.
    times: u64,
}

/// Who has a duty, since which change of hands and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    pub node: NodeId,
    pub epoch: u64,
    pub until: Timestamp,
}

/// What goes wrong with a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The disk takes nothing: the batch is not written.
    NotWritten,
    /// The batch is written and the answer is lost.
    AnswerLost,
    /// The commit is lost, and nobody can tell.
    CommitLost,
}

impl Database {
    pub fn new(log_id: LogId) -> Database {
        let state = State {
            log_id,
            head: Seq::ZERO,
            log: vec![],
            rows: BTreeMap::new(),
            tallies: BTreeMap::new(),
            replies: HashMap::new(),
            presence: BTreeMap::new(),
            tokens: vec![],
            outboxes: BTreeMap::new(),
            artifacts: HashMap::new(),
            nodes: BTreeMap::new(),
            duties: BTreeMap::new(),
        };
        Database { state: Arc::new(Mutex::new(state)), published: Arc::default(), tokens: watch::Sender::new(0) }
    }

    /// A copy of everything, as a backup is. Restored, it is another history.
    pub fn copy(&self, log_id: LogId) -> Database {
        let state = State { log_id, ..self.lock().clone() };
        Database { state: Arc::new(Mutex::new(state)), published: Arc::default(), tokens: watch::Sender::new(0) }
    }

    /// Runs a batch as one transaction; a fault strikes where the commit would be.
    pub fn run(
        &self,
        submissions: Vec<Submission>,
        at: Timestamp,
        board: &PresenceBoard,
        fault: Option<Fault>,
    ) -> Vec<Outcome> {
        let state = self.lock();
        let count = submissions.len();
        let mut batch = Batch::new(submissions);
        batch.begin(state.head, at);
        let write = loop {
            match batch.want() {
                BatchStep::Load(needs) => {
                    let loaded = state.load(&needs, board);
                    batch.supply(&needs, loaded);
                }
                BatchStep::Write(write) => break write,
            }
        };
        let unknown = || SubmitError::OutcomeUnknown { reason: "the answer to the commit was lost".to_owned() };
        match fault {
            Some(Fault::NotWritten) => {
                let reason = "database or disk is full".to_owned();
                return (0..count).map(|_| Err(SubmitError::Unavailable { reason: reason.clone() })).collect();
            }
            Some(Fault::CommitLost) => return (0..count).map(|_| Err(unknown())).collect(),
            Some(Fault::AnswerLost) | None => {}
        }
        self.commit_to(state, write);
        match fault {
            Some(_) => (0..count).map(|_| Err(unknown())).collect(),
            None => batch.outcomes(),
        }
    }

    /// Writes what was decided, and tells the listeners. Nothing here checks over which rows it was decided.
    pub fn commit(&self, write: CommitSet) {
        self.commit_to(self.lock(), write);
    }

    fn commit_to(&self, mut state: MutexGuard<'_, State>, write: CommitSet) {
        let rows = state.write(write);
        drop(state);
        if !rows.is_empty() {
            self.published.publish(rows);
        }
    }

    pub fn head(&self) -> Seq {
        self.lock().head
    }

    /// The log after a place, with the bodies.
    pub fn log_after(&self, after: Seq) -> Vec<LogRow> {
        self.lock().log.iter().skip(usize::try_from(after.0).unwrap_or(usize::MAX)).cloned().collect()
    }

    pub fn log(&self) -> Vec<LogRow> {
        self.lock().log.clone()
    }

    pub fn stored(&self) -> (HashMap<Key, Row>, BTreeMap<String, u64>) {
        let state = self.lock();
        (state.rows.clone().into_iter().collect(), state.tallies.clone())
    }

    pub fn write_presence(&self, entries: &[(AgentId, Presence)]) {
        self.lock().write_presence(entries, None);
    }

    pub fn read_presence(&self) -> Vec<(AgentId, Presence)> {
        self.lock().presence.values().map(|sign| (sign.agent.clone(), sign.presence)).collect()
    }

    /// What a node does to keep its place and its duties, by the database's clock.
    pub fn attend(&self, node: Node, now: Timestamp) -> LeaseRenewal {
        self.lock().attend(node, now)
    }

    pub fn depart(&self, node: &NodeId) {
        self.lock().depart(node);
    }

    /// Who has which duty. One whose time is over is still had until another node takes it up.
    pub fn posts(&self) -> BTreeMap<LeaderRole, Post> {
        self.lock().duties.clone()
    }

    /// Changes a stored row behind the log's back, to prove that a check notices.
    pub fn tamper(&self, key: &Key, row: Option<Row>) {
        let mut state = self.lock();
        match row {
            Some(row) => drop(state.rows.insert(key.clone(), row)),
            None => drop(state.rows.remove(key)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn head(&self) -> LogHead {
        LogHead { log: self.log_id.clone(), floor: Seq(1), head: self.head }
    }

    fn load(&self, needs: &Needs, board: &PresenceBoard) -> Loaded {
        let rows = needs.rows.iter().filter_map(|key| Some((key.clone(), self.rows.get(key)?.clone()))).collect();
        let lookups = needs.lookups.iter().map(|lookup| (lookup.clone(), lookup.find_in(self.rows.iter()))).collect();
        let presence = needs
            .presence
            .iter()
            .filter_map(|agent| {
                Some((agent.clone(), board.newest(agent, self.presence.get(agent).map(|sign| sign.presence))?))
            })
            .collect();
        let replies =
            needs.replies.iter().filter_map(|key| Some((key.clone(), self.replies.get(key)?.0.clone()))).collect();
        let tenure = |duty: &LeaderRole| Some(LeaderEpoch { duty: *duty, epoch: self.duties.get(duty)?.epoch });
        let duties = needs.duties.iter().filter_map(tenure).collect();
        Loaded { rows, lookups, presence, replies, duties }
    }

    fn write(&mut self, write: CommitSet) -> Vec<LogRow> {
        for (key, row) in write.rows {
            match row {
                Some(row) => drop(self.rows.insert(key, row)),
                None => drop(self.rows.remove(&key)),
            }
        }
        for (tally, change) in write.tallies {
            let count = self.tallies.entry(tally.to_owned()).or_default();
            *count = count.saturating_add_signed(change);
        }
        self.log.extend(write.log.iter().cloned());
        for (seq, bytes) in write.blanked {
            self.blank(seq, &bytes);
        }
        for (idempotency, reply) in write.replies {
            let remembered = RememberedReply { hash: idempotency.hash, reply };
            self.replies.insert((idempotency.scope, idempotency.key), (remembered, idempotency.keep_until));
        }
        self.head = write.head;
        write.log
    }

    fn blank(&mut self, seq: Seq, bytes: &[u8]) {
        let Some(row) = self.log.iter_mut().find(|row| row.seq == seq) else { return };
        if let Ok(fact) = rookery_core::AnyEvent::decode(row.event.kind(), row.event.version(), bytes) {
            row.event = fact;
        }
        if let Some(body) = &mut row.body {
            body.bytes = BodyBytes::Gone;
        }
        for key in row.event.write_set() {
            let current = self.rows.get(&key);
            for (remembered, _) in self.replies.values_mut().filter(|(reply, _)| reply.reply.shows(&key)) {
                remembered.reply = AnyReply::of_row(key.clone(), current.cloned());
            }
        }
    }

    fn write_presence(&mut self, entries: &[(AgentId, Presence)], by: Option<&NodeId>) {
        for (agent, presence) in entries {
            let sign = PresenceRecord { agent: agent.clone(), presence: *presence, by: by.cloned() };
            match self.presence.get_mut(agent) {
                Some(known) if presence.last_seen > known.presence.last_seen => *known = sign,
                Some(_) => {}
                None => drop(self.presence.insert(agent.clone(), sign)),
            }
        }
    }

    fn attend(&mut self, node: Node, now: Timestamp) -> LeaseRenewal {
        let id = node.id.clone();
        let lease = i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp(now.0 + lease);
        let forgotten = now.0 - i64::try_from(REMEMBER_AWAY.as_millis()).unwrap_or(i64::MAX);
        // A site has one node: whoever had it before us is over, and so are its duties.
        let site = node.site.id.clone();
        let replaced = |other: &Node| other.site.id == site && other.id != id;
        for (other, _) in self.nodes.values().filter(|(other, _)| replaced(other)) {
            self.duties
                .values_mut()
                .filter(|post| post.node == other.id)
                .for_each(|post| post.until = Timestamp(i64::MIN));
        }
        self.nodes.retain(|_, (other, _)| !replaced(other));
        self.nodes.insert(id.clone(), (node, now));
        self.nodes.retain(|_, (_, seen)| seen.0 > forgotten);
        for duty in LeaderRole::ALL {
            match self.duties.get_mut(&duty) {
                Some(post) if post.node == id => post.until = until,
                Some(post) if post.until > now => {}
                Some(post) => *post = Post { node: id.clone(), epoch: post.epoch + 1, until },
                None => drop(self.duties.insert(duty, Post { node: id.clone(), epoch: 1, until })),
            }
        }
        let held_by = |node: &NodeId| {
            let posts = self.duties.iter().filter(move |(_, post)| post.node == *node && post.until > now);
            posts.map(|(duty, post)| LeaderEpoch { duty: *duty, epoch: post.epoch }).collect::<Vec<_>>()
        };
        let seen = |(node, last_seen): &(Node, Timestamp)| Seen {
            node: node.clone(),
            last_seen: *last_seen,
            liveness: if now.0 - last_seen.0 <= lease { NodeLiveness::Online } else { NodeLiveness::Offline },
            leader_roles: held_by(&node.id).into_iter().map(|tenure| tenure.duty).collect(),
        };
        let mut nodes: Vec<Seen> = self.nodes.values().map(seen).collect();
        nodes.sort_by_key(|seen| seen.node.started_at);
        LeaseRenewal { tenures: held_by(&id), nodes, clock_ahead_millis: 0 }
    }

    fn depart(&mut self, node: &NodeId) {
        self.nodes.remove(node);
        for post in self.duties.values_mut().filter(|post| post.node == *node) {
            post.until = Timestamp(i64::MIN);
        }
    }

    fn operate(&mut self, operation: Operation, by: Option<&NodeId>) -> usize {
        match operation {
            Operation::WritePresence(entries) => {
                self.write_presence(&entries, by);
                entries.len()
            }
            Operation::PutToken(token) => {
                self.tokens.retain(|known| known.id != token.id);
                self.tokens.push(token);
                1
            }
            Operation::RenewToken(token) => match self.tokens.iter_mut().find(|known| known.id == token.id) {
                Some(known) => {
                    *known = token;
                    1
                }
                None => 0,
            },
            Operation::RevokeToken { id } => {
                let before = self.tokens.len();
                self.tokens.retain(|token| token.id != id);
                before - self.tokens.len()
            }
            Operation::PutOutbox(outbox) => {
                let known = self.outboxes.get(&outbox.adapter);
                if known.is_some_and(|known| known.version + 1 != outbox.version) {
                    return 0;
                }
                self.outboxes.insert(outbox.adapter.clone(), outbox);
                1
            }
            Operation::ForgetReplies { before } => self.forget_replies(before),
        }
    }

    /// How many replies were forgotten or put off.
    fn forget_replies(&mut self, before: Timestamp) -> usize {
        let known = self.replies.len();
        let (mut put_off, rows) = (0, &self.rows);
        self.replies.retain(|(scope, _), (_, keep_until)| {
            if *keep_until >= before.0 {
                return true;
            }
            let run = scope.split(' ').next().unwrap_or_default();
            let Some(Row::Run(run)) = rows.get(&Key::Run(run.into())) else { return false };
            *keep_until = run.ended_at.unwrap_or(before).0.saturating_add(KEEP_AFTER_RUN_MILLIS);
            put_off += usize::from(*keep_until > before.0);
            *keep_until > before.0
        });
        put_off + known - self.replies.len()
    }

    /// Stores bytes; how often they were by now.
    fn store_artifact(&mut self, sha256: &str, bytes: Bytes, now: Timestamp) -> u64 {
        let new = Artifact { bytes: Bytes::new(), holds: 0, stored_at: now, times: 0 };
        let artifact = self.artifacts.entry(sha256.to_owned()).or_insert(new);
        (artifact.bytes, artifact.stored_at) = (bytes, now);
        artifact.times += 1;
        artifact.times
    }

    fn names_artifact(&self, sha256: &str) -> bool {
        let in_body = |row: &LogRow| {
            row.body.as_ref().is_some_and(|body| body.bytes == BodyBytes::Artifact && body.sha256 == sha256)
        };
        let refers = |row: &Row| matches!(row, Row::ArtifactRef(row) if row.sha256 == sha256);
        self.log.iter().any(in_body) || self.rows.values().any(refers)
    }

    fn erase_artifact(&mut self, sha256: &str, may: impl FnOnce(&Artifact) -> bool) -> Erased {
        if self.names_artifact(sha256) {
            return Erased::Named;
        }
        match self.artifacts.get(sha256) {
            Some(artifact) if artifact.holds > 0 => return Erased::Held,
            Some(artifact) if !may(artifact) => return Erased::Young,
            _ => {}
        }
        self.artifacts.remove(sha256);
        Erased::Gone
    }

    fn list(&self, query: &RowQuery) -> Vec<Row> {
        self.select(query).cloned().collect()
    }

    fn select(&self, query: &RowQuery) -> impl Iterator<Item = &Row> {
        let column = |name: &str| query.table.columns().iter().position(|column| column.name == name);
        let mut rows: Vec<(&Key, &Row)> = self
            .rows
            .iter()
            .filter(|(key, row)| {
                let value_of = |name: &str| {
                    if name == KEY {
                        return Some(key.id().as_str().into());
                    }
                    row.columns().get(column(name)?).cloned()
                };
                key.table() == query.table && query.selects(value_of)
            })
            .collect();
        rows.sort_by_key(|(key, row)| (query.order_by.and_then(column).map(|at| row.columns()[at].clone()), key.id()));
        if query.order == Order::Descending {
            rows.reverse();
        }
        let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
        rows.into_iter().take(limit).map(|(_, row)| row)
    }

    fn log(&self, query: &LogQuery) -> Vec<LogRow> {
        let fits = |row: &&LogRow| {
            query.after.is_none_or(|after| row.seq > after)
                && query.upto.is_none_or(|upto| row.seq <= upto)
                && query.places.as_ref().is_none_or(|places| places.contains(&row.seq))
                && query.since.is_none_or(|since| row.at.0 > since)
                && query.actor.as_ref().is_none_or(|actor| row.actor.to_string() == *actor)
                && query.concerns.as_ref().is_none_or(|agent| row.concerns() == *agent)
                && query.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|kind| kind == row.event.kind()))
                && query.run.as_ref().is_none_or(|run| row.run.as_ref().map_or("run_default", |r| r.as_str()) == run)
                && query
                    .thread
                    .as_ref()
                    .is_none_or(|thread| row.thread.as_ref().map_or("thr_default", |t| t.as_str()) == thread)
                && query.task.as_ref().is_none_or(|task| row.task().is_some_and(|t| t.as_str() == task))
                && query.path.as_ref().is_none_or(|path| row.event.path().is_some_and(|p| p.key() == path))
        };
        let limit = query.limit as usize;
        let strip = |row: &LogRow| {
            let mut row = row.clone();
            if query.bodies == Bodies::Left {
                row.body = None;
            }
            row
        };
        match query.order {
            Order::Ascending => within(query.bytes, self.log.iter().filter(fits).take(limit).map(strip)),
            Order::Descending => within(query.bytes, self.log.iter().rev().filter(fits).take(limit).map(strip)),
        }
    }
}

/// Rows up to the one that reaches the bound.
fn within(bytes: usize, rows: impl Iterator<Item = LogRow>) -> Vec<LogRow> {
    let mut taken = 0;
    rows.take_while(|row| {
        let room = taken < bytes;
        taken += row.event.encode().len();
        room
    })
    .collect()
}

/// One node's store over a shared database.
#[derive(Debug)]
pub struct MemoryStore {
    database: Database,
    clock: Arc<dyn Clock>,
    board: Arc<PresenceBoard>,
    node: Option<NodeId>,
}

impl MemoryStore {
    pub fn new(database: Database, clock: Arc<dyn Clock>, board: Arc<PresenceBoard>) -> MemoryStore {
        MemoryStore { database, clock, board, node: None }
    }

    /// The same as one of several nodes.
    #[must_use]
    pub fn of(self, node: NodeId) -> MemoryStore {
        MemoryStore { node: Some(node), ..self }
    }
}

/// Ends a hold on an artifact.
#[derive(Debug)]
struct MemoryHold {
    database: Database,
    sha256: String,
}

/// Bytes that are being received.
struct Receiving {
    database: Database,
    clock: Arc<dyn Clock>,
    bytes: Vec<u8>,
}

impl Incoming for Receiving {
    fn write(&mut self, bytes: Bytes) -> Pending<'_, Result<(), ArtifactError>> {
        self.bytes.extend_from_slice(&bytes);
        Box::pin(std::future::ready(Ok(())))
    }

    fn finish(self: Box<Self>) -> Pending<'static, Result<Stored, ArtifactError>> {
        let (sha256, size) = (sha256_hex(&self.bytes), self.bytes.len() as u64);
        self.database.lock().store_artifact(&sha256, self.bytes.into(), self.clock.now());
        Box::pin(std::future::ready(Ok(Stored { sha256, size })))
    }
}

/// How much is handed out in one go.
const PIECE_BYTES: usize = 256 * 1024;

/// Bytes that are being sent: what is left of them.
struct Sending(Bytes);

impl Outgoing for Sending {
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, ArtifactError>> {
        let piece = self.0.split_to(self.0.len().min(PIECE_BYTES));
        Box::pin(std::future::ready(Ok(Some(piece).filter(|piece| !piece.is_empty()))))
    }
}

impl Drop for MemoryHold {
    fn drop(&mut self) {
        if let Some(artifact) = self.database.lock().artifacts.get_mut(&self.sha256) {
            artifact.holds = artifact.holds.saturating_sub(1);
        }
    }
}

impl Store for MemoryStore {
    fn submit(&self, submission: Submission) -> Pending<'_, Result<Committed, SubmitError>> {
        let mut outcomes = self.database.run(vec![submission], self.clock.now(), &self.board, None);
        let nothing = || Err(SubmitError::Broken { reason: "a batch of one had no outcome".to_owned() });
        Box::pin(std::future::ready(outcomes.pop().unwrap_or_else(nothing)))
    }

    fn operate(&self, operation: Operation) -> Pending<'_, Result<usize, SubmitError>> {
        let changes_tokens = operation.changes_tokens();
        let changed = self.database.lock().operate(operation, self.node.as_ref());
        if changes_tokens {
            self.database.tokens.send_modify(|version| *version += 1);
        }
        Box::pin(std::future::ready(Ok(changed)))
    }

    fn rows(&self, keys: Vec<Key>) -> Read<'_, Vec<Option<Row>>> {
        let state = self.database.lock();
        let rows = keys.iter().map(|key| state.rows.get(key).cloned()).collect();
        let head = state.head();
        drop(state);
        Box::pin(std::future::ready(Ok((rows, head))))
    }

    fn list(&self, query: RowQuery) -> Read<'_, Vec<Row>> {
        let state = self.database.lock();
        let found = (state.list(&query), state.head());
        drop(state);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn lists(&self, queries: Vec<RowQuery>) -> Read<'_, Vec<Vec<Row>>> {
        let state = self.database.lock();
        let found = (queries.iter().map(|query| state.list(query)).collect(), state.head());
        drop(state);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn visit(&self, queries: Vec<RowQuery>, visitor: SharedVisitor) -> Read<'_, ()> {
        let state = self.database.lock();
        let mut taking = visitor.lock().unwrap_or_else(PoisonError::into_inner);
        taking.begin();
        for row in queries.iter().flat_map(|query| state.select(query)) {
            taking.visit(row.clone());
        }
        let head = state.head();
        drop((taking, state));
        Box::pin(std::future::ready(Ok(((), head))))
    }

    fn log(&self, query: LogQuery) -> Read<'_, Vec<LogRow>> {
        let state = self.database.lock();
        let found = (state.log(&query), state.head());
        drop(state);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn tallies(&self) -> Read<'_, Tallies> {
        let state = self.database.lock();
        let found = (state.tallies.clone(), state.head());
        drop(state);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn tallies_and_rows(&self, keys: Vec<Key>) -> Read<'_, (Tallies, Vec<Option<Row>>)> {
        let state = self.database.lock();
        let rows = keys.iter().map(|key| state.rows.get(key).cloned()).collect();
        let found = ((state.tallies.clone(), rows), state.head());
        drop(state);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn put_artifact(&self, bytes: Vec<u8>) -> Pending<'_, Result<ArtifactHold, ArtifactError>> {
        let sha256 = sha256_hex(&bytes);
        let mut state = self.database.lock();
        let times = state.store_artifact(&sha256, bytes.into(), self.clock.now());
        if let Some(artifact) = state.artifacts.get_mut(&sha256) {
            artifact.holds += 1;
        }
        drop(state);
        let hold = MemoryHold { database: self.database.clone(), sha256: sha256.clone() };
        let made = Made { place: (times, 0), size: 0, modified: (0, 0), changed: (0, 0) };
        Box::pin(std::future::ready(Ok(ArtifactHold::here(sha256, hold, (times == 1).then_some(made)))))
    }

    fn receive_artifact(&self) -> Pending<'_, Result<Box<dyn Incoming>, ArtifactError>> {
        let receiving = Receiving { database: self.database.clone(), clock: self.clock.clone(), bytes: vec![] };
        Box::pin(std::future::ready(Ok(Box::new(receiving) as Box<dyn Incoming>)))
    }

    fn artifact_size(&self, sha256: String) -> Pending<'_, Result<u64, ArtifactError>> {
        Box::pin(async move { Ok(self.artifact(sha256).await?.len() as u64) })
    }

    fn read_artifact(&self, sha256: String, span: Range<u64>) -> Pending<'_, Result<Box<dyn Outgoing>, ArtifactError>> {
        Box::pin(async move {
            let found = self.database.lock().artifacts.get(&sha256).map(|artifact| artifact.bytes.clone());
            let bytes = found.ok_or(ArtifactError::Absent { sha256 })?;
            let span = clamp(span, bytes.len() as u64);
            let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
            Ok(Box::new(Sending(bytes.slice(at(span.start)..at(span.end)))) as Box<dyn Outgoing>)
        })
    }

    fn artifacts(&self, after: Option<String>, limit: u32) -> Pending<'_, Result<Vec<ArtifactInfo>, ArtifactError>> {
        let state = self.database.lock();
        let info = |(sha256, artifact): (&String, &Artifact)| ArtifactInfo {
            sha256: sha256.clone(),
            size: artifact.bytes.len() as u64,
            stored_at: artifact.stored_at,
            named: state.names_artifact(sha256),
        };
        let mut found: Vec<ArtifactInfo> = state.artifacts.iter().map(info).collect();
        drop(state);
        found.retain(|artifact| after.as_ref().is_none_or(|after| artifact.sha256 > *after));
        found.sort_by(|one, other| one.sha256.cmp(&other.sha256));
        found.truncate(limit as usize);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn artifact(&self, sha256: String) -> Pending<'_, Result<Vec<u8>, ArtifactError>> {
        let found = self.database.lock().artifacts.get(&sha256).map(|artifact| artifact.bytes.to_vec());
        Box::pin(std::future::ready(found.ok_or(ArtifactError::Absent { sha256 })))
    }

    fn release_hold(&self, held: ArtifactHold) -> Pending<'_, Result<Erased, ArtifactError>> {
        let (sha256, made) = (held.sha256.clone(), held.made());
        drop(held);
        let mine = |artifact: &Artifact| made.is_some_and(|made| made.place.0 == artifact.times);
        let erased = self.database.lock().erase_artifact(&sha256, mine);
        Box::pin(std::future::ready(Ok(erased)))
    }

    fn erase_artifact(&self, sha256: String) -> Pending<'_, Result<Erased, ArtifactError>> {
        let erased = self.database.lock().erase_artifact(&sha256, |_| true);
        Box::pin(std::future::ready(Ok(erased)))
    }

    fn collect_artifact(&self, sha256: String, age: Duration) -> Pending<'_, Result<Erased, ArtifactError>> {
        let now = self.clock.now();
        let erased = self.database.lock().erase_artifact(&sha256, |artifact| is_older(artifact.stored_at, now, age));
        Box::pin(std::future::ready(Ok(erased)))
    }

    fn tidy_artifacts(&self) -> Pending<'_, Result<usize, ArtifactError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn presence(&self) -> Pending<'_, Result<Vec<PresenceRecord>, ReadError>> {
        let signs = self.database.lock().presence.values().cloned().collect();
        Box::pin(std::future::ready(Ok(signs)))
    }

    fn tokens(&self) -> Pending<'_, Result<Vec<Token>, ReadError>> {
        let tokens = self.database.lock().tokens.clone();
        Box::pin(std::future::ready(Ok(tokens)))
    }

    fn outboxes(&self) -> Pending<'_, Result<Vec<EndpointCursor>, ReadError>> {
        let outboxes = self.database.lock().outboxes.values().cloned().collect();
        Box::pin(std::future::ready(Ok(outboxes)))
    }

    fn tokens_changed(&self) -> watch::Receiver<u64> {
        self.database.tokens.subscribe()
    }

    fn renew_lease(&self, node: Node) -> Pending<'_, Result<LeaseRenewal, SubmitError>> {
        let attendance = self.database.attend(node, self.clock.now());
        Box::pin(std::future::ready(Ok(attendance)))
    }

    fn leave_cluster(&self, node: NodeId) -> Pending<'_, Result<(), SubmitError>> {
        self.database.depart(&node);
        Box::pin(std::future::ready(Ok(())))
    }

    fn published(&self) -> CommitFeed {
        self.database.published.subscribe()
    }

    fn health(&self) -> Health {
        Health::Writable
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
