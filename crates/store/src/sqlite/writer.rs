//! The writer: one thread with the only connection that writes. It takes what waits, runs it as one transaction,
//! publishes what was committed, and answers.
//!
//! Nothing is answered before it is durable. A batch that fails leaves no trace; if one of its commands may be to blame,
//! each is tried alone. A commit that failed is settled by reading the head again on another connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rookery_core::Seq;
use rookery_core::traits::LogRow;
use rusqlite::Connection;

use super::checkpoint::{self, Upkeep};
use super::connection::{self, begin, commit, roll_back, stored, wal_bytes};
use super::error::{Problem, Trouble};
use super::fault::{Faults, Step};
use super::lock::Lock;
use super::{FORMAT, Shared, log, migrate, transact};
use crate::batch::{Batch, BatchStep, CommitSet, Outcome, PendingBatch};
use crate::clock::Clock;
use crate::offline::other_format;
use crate::operational::{Operation, PresenceBoard};
use crate::query::{Bodies, LogQuery};
use crate::queue::{Chore, QueuedCommand};
use crate::store::{Health, Submission, SubmitError};

/// How many rows are published at once that another writer, or a commit of unknown outcome, left behind.
const CATCH_UP_ROWS: u32 = 512;
/// How long the writer waits for readers when it must reset the write-ahead log.
const RESET_PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) path: PathBuf,
    /// The file that was opened. Writing into one that is gone would be writing into nothing.
    pub(super) identity: Option<(u64, u64)>,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) board: Arc<PresenceBoard>,
    pub(super) faults: Option<Arc<dyn Faults>>,
    pub(super) upkeep: Upkeep,
    /// `None` after a failure that may be the connection's own; the next attempt opens another.
    pub(super) connection: Option<Connection>,
    /// Why this store must not be written by this program, if so.
    pub(super) closed: Option<String>,
    /// Up to where subscribers were told.
    pub(super) published: Seq,
    /// Whether the store says by now that it was not stopped cleanly.
    pub(super) marked: bool,
    /// From which size of the write-ahead log on the writer resets it.
    pub(super) reset_above: u64,
    /// Whether the write-ahead log may still hold what was redacted.
    pub(super) redacted: bool,
    /// Held by a commit that names artifacts.
    pub(super) naming: Arc<Mutex<()>>,
    /// Held until the last write is done.
    pub(super) lock: Arc<Mutex<Option<Lock>>>,
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) {
        while let Some(load) = self.shared.queue.take(self.patience()) {
            if load.commands.is_empty() && load.chores.is_empty() {
                self.idle();
                continue;
            }
            if !load.chores.is_empty() {
                self.operate(load.chores);
            }
            if !load.commands.is_empty() {
                self.carry_out(load.commands);
            }
            self.bound_log();
        }
        self.finish();
    }

    /// How long to wait for work before looking after ourselves.
    fn patience(&self) -> Duration {
        match self.shared.health() {
            Health::Writable if self.redacted => self.upkeep.idle_after_redaction,
            Health::Writable => self.upkeep.idle,
            Health::ReadOnly { .. } => self.upkeep.probe,
        }
    }

    fn carry_out(&mut self, waiting: Vec<QueuedCommand>) {
        let (submissions, replies): (Vec<Submission>, Vec<_>) =
            waiting.into_iter().map(|waiting| (waiting.submission, waiting.reply)).unzip();
        metrics::counter!("rookery_store_batches_total").increment(1);
        metrics::counter!("rookery_store_commands_total").increment(submissions.len() as u64);
        let outcomes = self.outcomes(submissions);
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // Whoever no longer waits needs no answer.
            drop(reply.send(outcome));
        }
    }

    /// Runs a batch; if it fails and one command may be to blame, each of its commands alone.
    fn outcomes(&mut self, submissions: Vec<Submission>) -> Vec<Outcome> {
        let count = submissions.len();
        match self.attempt(submissions) {
            Ok(outcomes) => outcomes,
            Err(failed) if failed.trouble.may_spare_others() && count > 1 => {
                tracing::warn!(trouble = ?failed.trouble, count, "a batch failed; its commands are tried one by one");
                failed.submissions.into_iter().flat_map(|submission| self.alone(submission)).collect()
            }
            Err(failed) => (0..count).map(|_| Err(failed.trouble.error())).collect(),
        }
    }

    fn alone(&mut self, submission: Submission) -> Vec<Outcome> {
        self.attempt(vec![submission]).unwrap_or_else(|failed| vec![Err(failed.trouble.error())])
    }

    /// One transaction, whatever happens in it.
    fn attempt(&mut self, submissions: Vec<Submission>) -> Result<Vec<Outcome>, Failed> {
        let mut work = PendingBatch { submissions, batch: None };
        let result = catch_unwind(AssertUnwindSafe(|| self.transact(&mut work)))
            .unwrap_or_else(|panic| Err(Trouble::Poison(format!("it panicked: {}", said(panic.as_ref())))));
        match result {
            Ok(rows) => {
                self.publish(rows);
                Ok(work.batch.map(Batch::outcomes).unwrap_or_default())
            }
            Err(trouble) => {
                self.after(&trouble);
                Err(Failed { trouble, submissions: work.into_submissions() })
            }
        }
    }

    /// Decides, writes and commits. Returns the committed rows of the log.
    fn transact(&mut self, work: &mut PendingBatch) -> Result<Vec<LogRow>, Trouble> {
        let before = self.begin()?;
        self.catch_up(before)?;
        let submissions = std::mem::take(&mut work.submissions);
        let batch = work.batch.insert(Batch::new(submissions));
        batch.begin(before, self.clock.now());
        let write = self.decide(batch)?;
        let faults = self.faults.clone();
        let connection = self.connection()?;
        if write.is_empty() {
            // Nothing changes, so there is nothing to make durable.
            commit(connection)?;
            self.probe_if_unhealthy();
            return Ok(vec![]);
        }
        let naming = self.naming.clone();
        let connection = self.connection()?;
        // Nobody removes what this commit names between the last look and the commit.
        let _naming = write.names_artifacts().then(|| naming.lock().unwrap_or_else(PoisonError::into_inner));
        transact::write(connection, &write, faults.as_deref())?;
        self.mark()?;
        self.commit(&write, before)?;
        self.marked = true;
        self.redacted |= !write.blanked.is_empty();
        self.shared.set_health(Health::Writable);
        if !write.blanked.is_empty() {
            // The texts still stand in the pages that this commit replaced; if a reader is in the way, they go at the
            // next idle moment.
            self.reset_log(RESET_PATIENCE);
        }
        Ok(write.log)
    }

    fn decide(&mut self, batch: &mut Batch) -> Result<CommitSet, Trouble> {
        loop {
            match batch.want() {
                BatchStep::Load(needs) => {
                    self.step(Step::Load)?;
                    let board = self.board.clone();
                    let loaded = transact::load(self.connection()?, &needs, &board)?;
                    batch.supply(&needs, loaded);
                }
                BatchStep::Write(write) => return Ok(write),
            }
        }
    }

    fn commit(&mut self, write: &CommitSet, before: Seq) -> Result<(), Trouble> {
        let committed = self
            .step(Step::Commit)
            .and_then(|()| commit(self.connection()?).map_err(Trouble::from))
            .and_then(|()| self.step(Step::Committed));
        match committed {
            Ok(()) => Ok(()),
            Err(trouble) => self.settle(trouble, write.head, before),
        }
    }

    /// Finds out what became of a commit that failed. The old connection goes: closing it undoes what was not committed.
    fn settle(&mut self, trouble: Trouble, ours: Seq, before: Seq) -> Result<(), Trouble> {
        let reason = trouble.reason().to_owned();
        self.connection = None;
        let head = self.step(Step::Compare).and_then(|()| Ok(stored(self.connection()?)?.head.head));
        match head {
            // A commit whose sync failed may be seen now and gone after a crash, or the other way round; a later write
            // that is synced settles either.
            Ok(head) if head == ours && ours != before && self.probe().is_ok() => Ok(()),
            Ok(head) if head == before && self.probe().is_ok() => Err(Trouble::Disk(reason)),
            Ok(head) if head == before && matches!(trouble, Trouble::Full(_)) => Err(Trouble::Full(reason)),
            Ok(_) | Err(_) => Err(Trouble::Unknown(reason)),
        }
    }

    /// Changes operational state, in a transaction of its own.
    fn operate(&mut self, chores: Vec<Chore>) {
        let (operations, replies): (Vec<Operation>, Vec<_>) =
            chores.into_iter().map(|chore| (chore.operation, chore.reply)).unzip();
        let results: Vec<Result<usize, SubmitError>> = match self.attempt_operations(&operations) {
            Ok(changed) => changed.into_iter().map(Ok).collect(),
            Err(trouble) if trouble.may_spare_others() && operations.len() > 1 => operations
                .iter()
                .map(|operation| {
                    let changed = self.attempt_operations(std::slice::from_ref(operation));
                    changed.map(|changed| changed.into_iter().sum()).map_err(|trouble| trouble.error())
                })
                .collect(),
            Err(trouble) => operations.iter().map(|_| Err(trouble.error())).collect(),
        };
        for (reply, result) in replies.into_iter().zip(results) {
            drop(reply.send(result));
        }
    }

    fn attempt_operations(&mut self, operations: &[Operation]) -> Result<Vec<usize>, Trouble> {
        let result = catch_unwind(AssertUnwindSafe(|| self.write_operations(operations)))
            .unwrap_or_else(|panic| Err(Trouble::Poison(format!("it panicked: {}", said(panic.as_ref())))));
        if let Err(trouble) = &result {
            self.after(trouble);
        }
        result
    }

    fn write_operations(&mut self, operations: &[Operation]) -> Result<Vec<usize>, Trouble> {
        self.begin()?;
        let mut changed = Vec::with_capacity(operations.len());
        for operation in operations {
            changed.push(transact::operate(self.connection()?, operation)?);
        }
        self.mark()?;
        let committed = self.step(Step::Commit).and_then(|()| Ok(commit(self.connection()?)?));
        // Nothing counts these up, so that nothing tells afterwards whether they were written.
        committed.map_err(|trouble| Trouble::Unknown(trouble.reason().to_owned()))?;
        self.marked = true;
        self.shared.set_health(Health::Writable);
        if operations.iter().any(Operation::changes_tokens) {
            self.shared.tokens.send_modify(|version| *version += 1);
        }
        Ok(changed)
    }

    /// Tells subscribers, in the order of the log.
    fn publish(&mut self, rows: Vec<LogRow>) {
        let Some(last) = rows.last() else { return };
        metrics::counter!("rookery_store_events_total").increment(rows.len() as u64);
        self.published = last.seq;
        self.shared.published.publish(rows);
    }

    /// Publishes what stands in the log and was not published: a commit whose outcome was unknown did happen after all.
    fn catch_up(&mut self, head: Seq) -> Result<(), Trouble> {
        while self.published < head {
            let mut query = LogQuery::after(self.published, CATCH_UP_ROWS);
            query.bodies = Bodies::Read;
            let rows = log::read(self.connection()?, &query)?;
            if rows.is_empty() {
                return Err(Problem::Unreadable(format!("the log ends before its head {head}")).into());
            }
            self.publish(rows);
        }
        Ok(())
    }

    /// Says, with the first write, that the store is in use: a stop that does not take this back was not clean.
    fn mark(&mut self) -> Result<(), Trouble> {
        if self.marked {
            return Ok(());
        }
        Ok(migrate::mark_in_use(self.connection()?)?)
    }

    /// Begins a transaction that writes. Returns the head it begins at.
    fn begin(&mut self) -> Result<Seq, Trouble> {
        if let Some(reason) = self.closed.as_deref().or(self.shared.damage.reason()) {
            return Err(Trouble::Closed(reason.to_owned()));
        }
        if connection::identity(&self.path) != self.identity {
            return Err(Trouble::Disk("the database file was moved or removed while in use".to_owned()));
        }
        self.step(Step::Begin)?;
        let connection = self.connection()?;
        begin(connection)?;
        let found = stored(connection)?;
        if found.format != FORMAT {
            return Err(Trouble::Closed(other_format(found.format)));
        }
        Ok(found.head.head)
    }

    /// Whether the store is never to be written again by this program, whatever becomes of the disk.
    fn is_closed(&self) -> bool {
        self.closed.is_some() || self.shared.damage.reason().is_some()
    }

    fn connection(&mut self) -> Result<&Connection, Trouble> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connection::writer(&self.path)?,
        };
        Ok(self.connection.insert(connection))
    }

    fn step(&mut self, step: Step) -> Result<(), Trouble> {
        let Some(faults) = self.faults.clone() else { return Ok(()) };
        Ok(faults.before(step, self.connection()?)?)
    }

    /// Rolls back what is open and notes the trouble.
    fn after(&mut self, trouble: &Trouble) {
        let rolled_back = self.connection.as_ref().is_none_or(|connection| roll_back(connection).is_ok());
        if !rolled_back || matches!(trouble, Trouble::Disk(_) | Trouble::Damage(_) | Trouble::Unknown(_)) {
            self.connection = None;
        }
        if let Trouble::Damage(reason) = trouble {
            self.shared.damage.note(reason);
        }
        if trouble.makes_unhealthy() {
            self.shared.set_health(trouble.health());
        }
    }

    /// Nothing waits: see whether the disk is back, and reset the write-ahead log.
    fn idle(&mut self) {
        self.probe_if_unhealthy();
        if self.connection.is_some() && wal_bytes(&self.path) > 0 {
            self.reset_log(Duration::ZERO);
        }
    }

    fn probe_if_unhealthy(&mut self) {
        if self.shared.health() == Health::Writable || self.is_closed() {
            return;
        }
        let recovered = self.probe().and_then(|head| self.catch_up(head));
        if recovered.is_ok() {
            tracing::info!("the store can be written again");
            self.shared.set_health(Health::Writable);
        }
    }

    /// Writes something that needs new pages, and takes it away again. Returns the head.
    fn probe(&mut self) -> Result<Seq, Trouble> {
        let probed = self.begin().and_then(|head| {
            let connection = self.connection()?;
            connection.execute("INSERT OR REPLACE INTO probe (one, pad) VALUES (1, zeroblob(65536))", [])?;
            commit(connection)?;
            connection.execute("DELETE FROM probe", [])?;
            Ok(head)
        });
        if let Err(trouble) = &probed {
            self.after(trouble);
        }
        probed
    }

    /// Stops for the write-ahead log when it has grown too long, and not again until it has grown by a quarter more.
    fn bound_log(&mut self) {
        let bytes = wal_bytes(&self.path);
        if bytes > self.reset_above {
            let done = self.reset_log(RESET_PATIENCE);
            self.reset_above = if done { self.upkeep.bound_bytes } else { bytes + self.upkeep.bound_bytes / 4 };
        }
    }

    fn reset_log(&mut self, patience: Duration) -> bool {
        let Some(connection) = &self.connection else { return false };
        match checkpoint::reset(connection, patience) {
            Ok(done) => {
                self.redacted &= !done;
                done
            }
            Err(error) => {
                tracing::debug!(%error, "the write-ahead log could not be reset");
                false
            }
        }
    }

    /// The last things before the lock is given up.
    fn finish(mut self) {
        let finished = self.begin_closing();
        if let Err(trouble) = finished {
            tracing::warn!(?trouble, "the store could not be closed cleanly");
        }
        self.connection = None;
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn begin_closing(&mut self) -> Result<(), Trouble> {
        if self.is_closed() {
            return Ok(());
        }
        let marked = self.marked;
        let connection = self.connection()?;
        connection.execute_batch("PRAGMA optimize")?;
        if marked {
            migrate::mark_clean(connection)?;
        }
        self.reset_log(Duration::ZERO);
        Ok(())
    }
}

struct Failed {
    trouble: Trouble,
    submissions: Vec<Submission>,
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
