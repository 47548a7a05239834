//! The writer: one task with one connection. It takes what waits, runs it as one transaction that begins by locking the
//! head row, publishes what was committed, and answers.
//!
//! A batch takes two round trips: the lock, the clock and what the batch needs; then everything it writes and the commit.
//! Nothing is answered before it is durable. A commit whose answer was lost is settled by looking for the batch's id under
//! the lock on the head: whoever holds that lock knows that the lost transaction is over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use rookery_core::traits::LogRow;
use rookery_core::{LogId, NodeId, Seq};
use tokio::time::timeout;

use super::Shared;
use super::connection::{
    Connector, Frame, LOCKED_HEAD, LOCKED_HEAD_AND_TIME, Question, Stored, ask, stored, timestamp,
};
use super::error::Trouble;
use super::transact::{self, Loading};
use crate::batch::{Batch, BatchStep, CommitSet, Outcome, PendingBatch};
use crate::operational::PresenceBoard;
use crate::queue::QueuedCommand;
use crate::store::{Health, Submission};

/// How long a server may take over one exchange: longer than it lets us wait for the head.
const QUERY_TIMEOUT: Duration = Duration::from_secs(15);
/// How long opening a connection may take. With the exchange before it and what follows, a command that waits for its
/// turn behind a batch that fails is answered before its caller's patience of thirty seconds is over.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// How long to try to find out what became of a commit: longer than a transaction of ours that nobody ends holds the head.
const SETTLE_FOR: Duration = Duration::from_secs(8);
const SETTLE_INTERVAL: Duration = Duration::from_millis(200);
/// How often to look whether the database is back.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connector: Connector,
    pub(super) shared: Arc<Shared>,
    pub(super) board: Arc<PresenceBoard>,
    pub(super) node: NodeId,
    pub(super) log: LogId,
    /// `None` after a failure of the connection; the next attempt opens another.
    pub(super) client: Option<ClientWrapper>,
    pub(super) batches: u64,
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        while let Some(load) = self.shared.queue.take_now() {
            if load.commands.is_empty() {
                self.wait().await;
                continue;
            }
            self.carry_out(load.commands).await;
        }
    }

    /// Waits for work; looks after the connection while there is none.
    async fn wait(&mut self) {
        if self.shared.health() == Health::Writable || self.shared.closed.get().is_some() {
            tokio::select! {
                () = self.shared.queue.filled() => {}
                () = self.shared.ailing.notified() => {}
            }
        } else if timeout(PROBE_INTERVAL, self.shared.queue.filled()).await.is_err() {
            self.probe().await;
        }
    }

    async fn carry_out(&mut self, waiting: Vec<QueuedCommand>) {
        let (submissions, replies): (Vec<Submission>, Vec<_>) =
            waiting.into_iter().map(|waiting| (waiting.submission, waiting.reply)).unzip();
        metrics::counter!("rookery_store_batches_total").increment(1);
        metrics::counter!("rookery_store_commands_total").increment(submissions.len() as u64);
        let outcomes = self.outcomes(submissions).await;
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // Whoever no longer waits needs no answer.
            drop(reply.send(outcome));
        }
    }

    /// Runs a batch; if it fails and one command may be to blame, each of its commands alone.
    async fn outcomes(&mut self, submissions: Vec<Submission>) -> Vec<Outcome> {
        let count = submissions.len();
        match self.attempt(submissions).await {
            Ok(outcomes) => outcomes,
            Err(failed) if failed.trouble.may_spare_others() && count > 1 => {
                tracing::warn!(trouble = ?failed.trouble, count, "a batch failed; its commands are tried one by one");
                let mut outcomes = Vec::with_capacity(count);
                for submission in failed.submissions {
                    match self.attempt(vec![submission]).await {
                        Ok(outcome) => outcomes.extend(outcome),
                        Err(failed) => outcomes.push(Err(failed.trouble.error())),
                    }
                }
                outcomes
            }
            Err(failed) => (0..count).map(|_| Err(failed.trouble.error())).collect(),
        }
    }

    /// One transaction. One whose connection was lost before anything was done is tried once more on another.
    async fn attempt(&mut self, submissions: Vec<Submission>) -> Result<Vec<Outcome>, Failed> {
        let had_connection = self.client.is_some();
        match self.attempt_once(submissions).await {
            Err(failed) if failed.trouble.is_worth_another_try() && had_connection => {
                tracing::info!(reason = failed.trouble.reason(), "a batch is tried again on another connection");
                self.attempt_once(failed.submissions).await
            }
            outcome => outcome,
        }
    }

    async fn attempt_once(&mut self, submissions: Vec<Submission>) -> Result<Vec<Outcome>, Failed> {
        let mut work = PendingBatch { submissions, batch: None };
        match self.transact(&mut work).await {
            Ok(committed) => {
                self.publish(committed).await;
                self.shared.set_health(Health::Writable);
                Ok(work.batch.map(Batch::outcomes).unwrap_or_default())
            }
            Err(trouble) => {
                self.after(&trouble).await;
                Err(Failed { trouble, submissions: work.into_submissions() })
            }
        }
    }

    /// Decides, writes and commits.
    async fn transact(&mut self, work: &mut PendingBatch) -> Result<Committed, Trouble> {
        self.connect().await?;
        let submissions = std::mem::take(&mut work.submissions);
        let batch = work.batch.insert(Batch::new(submissions));
        let before = self.begin(batch).await?;
        let write = self.decide(batch).await?;
        if write.is_empty() {
            // Nothing changes, so there is nothing to make durable.
            self.ask(Frame::Committed, &[]).await?;
            return Ok(Committed { before, rows: vec![] });
        }
        self.commit(&write).await?;
        self.shared.has_seen(write.head);
        Ok(Committed { before, rows: write.log })
    }

    /// Locks the head and loads what the batch needs first, in one exchange. Returns the head.
    async fn begin(&mut self, batch: &mut Batch) -> Result<Seq, Trouble> {
        let needs = guarded(|| batch.first_needs())?;
        let mut questions = vec![Question::new(LOCKED_HEAD_AND_TIME.as_str(), vec![])];
        let loading = Loading::of(&needs, &mut questions)?;
        let seen = self.shared.seen();
        let answers = self.ask(Frame::Begun, &questions).await?;
        let found = stored(&answers[0])?;
        self.check(&found, seen)?;
        batch.begin(found.head.head, timestamp(&answers[0])?);
        let loaded = loading.loaded(&answers[1..], &self.board)?;
        guarded(|| batch.supply(&needs, loaded))?;
        Ok(found.head.head)
    }

    async fn decide(&mut self, batch: &mut Batch) -> Result<CommitSet, Trouble> {
        loop {
            match guarded(|| batch.want())? {
                BatchStep::Load(needs) => {
                    let mut questions = Vec::new();
                    let loading = Loading::of(&needs, &mut questions)?;
                    let answers = self.ask(Frame::Bare, &questions).await?;
                    let loaded = loading.loaded(&answers, &self.board)?;
                    guarded(|| batch.supply(&needs, loaded))?;
                }
                BatchStep::Write(write) => return Ok(write),
            }
        }
    }

    /// Whether the log is still the one that this program may write. `seen` is how far it was known to reach before it was
    /// asked for: an answer may lie around for a while, and others go on meanwhile.
    fn check(&self, found: &Stored, seen: Seq) -> Result<(), Trouble> {
        match self.shared.objection(found, &self.log, seen) {
            None => {
                self.shared.has_seen(found.head.head);
                Ok(())
            }
            Some(reason) => {
                self.shared.close(reason.clone());
                Err(Trouble::Closed(reason))
            }
        }
    }

    async fn commit(&mut self, write: &CommitSet) -> Result<(), Trouble> {
        self.batches += 1;
        let batch = format!("{}.{}", self.node, self.batches);
        let mut questions = transact::write(write)?;
        if !write.blanked.is_empty() {
            self.ask(Frame::Bare, &questions).await?;
            questions.clear();
            let client = self.client.as_ref().ok_or_else(gone)?;
            match timeout(QUERY_TIMEOUT, transact::blank(client, write)).await {
                Ok(blanked) => blanked?,
                Err(_) => return Err(silent()),
            }
        }
        questions.push(transact::conclude(write, &self.node, batch.clone(), self.connector.address().channel()));
        match self.ask(Frame::Committed, &questions).await {
            // The server did it, or said that it did not.
            Ok(_) => Ok(()),
            Err(Trouble::Lost(reason)) => self.settle(&batch, reason).await,
            Err(trouble) => Err(trouble),
        }
    }

    /// Finds out what became of a commit whose answer was lost.
    async fn settle(&mut self, batch: &str, reason: String) -> Result<(), Trouble> {
        metrics::counter!("rookery_store_commits_settled_total").increment(1);
        self.client = None;
        let settling = async {
            loop {
                match self.look_for(batch).await {
                    Ok(found) => return found,
                    Err(trouble) => tracing::debug!(?trouble, "what became of a commit is not known yet"),
                }
                self.client = None;
                tokio::time::sleep(SETTLE_INTERVAL).await;
            }
        };
        match timeout(SETTLE_FOR, settling).await {
            Ok(Fate::Committed) => {
                tracing::info!(reason, "a commit whose answer was lost had happened");
                Ok(())
            }
            Ok(Fate::NotCommitted) => Err(Trouble::Lost(reason)),
            Ok(Fate::Unknown) | Err(_) => Err(Trouble::Unknown(reason)),
        }
    }

    /// What became of a batch, seen while nobody can commit. The transaction that looks is left to be rolled back.
    async fn look_for(&mut self, batch: &str) -> Result<Fate, Trouble> {
        self.connect().await?;
        let own = "SELECT batch FROM batches WHERE node = $1";
        let questions = [Question::new(LOCKED_HEAD, vec![]), Question::new(own, vec![Box::new(self.node.to_string())])];
        let answers = self.ask(Frame::Begun, &questions).await?;
        let found = stored(&answers[0])?;
        let named: Option<String> = answers[1].first().map(|row| row.try_get(0)).transpose()?;
        self.roll_back().await;
        Ok(match named {
            _ if found.head.log != self.log => Fate::Unknown,
            Some(named) if named == batch => Fate::Committed,
            Some(_) => Fate::NotCommitted,
            // Another node took us for dead and cleared up after us.
            None => Fate::Unknown,
        })
    }

    /// Hands what was committed to the subscribers if they know everything before it; otherwise whoever follows the log
    /// reads it in its turn.
    async fn publish(&mut self, committed: Committed) {
        let Some(last) = committed.rows.last().map(|row| row.seq) else { return };
        metrics::counter!("rookery_store_events_total").increment(committed.rows.len() as u64);
        match self.shared.tail.try_lock() {
            Ok(mut tail) if *tail == committed.before => {
                *tail = last;
                self.shared.published.publish(committed.rows);
            }
            _ => self.shared.look.notify_one(),
        }
    }

    async fn connect(&mut self) -> Result<(), Trouble> {
        if let Some(reason) = self.shared.closed.get() {
            return Err(Trouble::Closed(reason.clone()));
        }
        if self.client.as_ref().is_some_and(|client| !client.is_closed()) {
            return Ok(());
        }
        match timeout(CONNECT_WITHIN, self.connector.writer()).await {
            Ok(Ok(client)) => {
                self.client = Some(client);
                Ok(())
            }
            Ok(Err(error)) => {
                let trouble = Trouble::from(error);
                Err(Trouble::Away(format!("the database cannot be reached: {}", trouble.reason())))
            }
            Err(_) => Err(Trouble::Away("the database does not answer".to_owned())),
        }
    }

    async fn ask(&self, frame: Frame, questions: &[Question]) -> Result<Vec<Vec<tokio_postgres::Row>>, Trouble> {
        let client = self.client.as_ref().ok_or_else(gone)?;
        match timeout(QUERY_TIMEOUT, ask(client, frame, questions)).await {
            Ok(answers) => Ok(answers?),
            Err(_) => Err(silent()),
        }
    }

    /// Ends what is open and notes the trouble.
    async fn after(&mut self, trouble: &Trouble) {
        match trouble {
            Trouble::Lost(_) | Trouble::Away(_) | Trouble::Unknown(_) => self.client = None,
            Trouble::Busy(_) | Trouble::Poison(_) | Trouble::Closed(_) => self.roll_back().await,
        }
        if trouble.makes_unhealthy() {
            self.shared.set_health(Health::from_interruption(trouble.reason()));
        }
    }

    /// Ends a transaction that may be open or not; a connection that cannot do that is given up.
    async fn roll_back(&mut self) {
        let Some(client) = &self.client else { return };
        if !matches!(timeout(QUERY_TIMEOUT, client.batch_execute("ROLLBACK")).await, Ok(Ok(()))) {
            self.client = None;
        }
    }

    /// Sees whether the database takes writes again.
    async fn probe(&mut self) {
        let probed = async {
            self.connect().await?;
            let seen = self.shared.seen();
            let answers = self.ask(Frame::Begun, &[Question::new(LOCKED_HEAD, vec![])]).await?;
            self.check(&stored(&answers[0])?, seen)?;
            // A full disk shows only when something is written.
            self.ask(Frame::Committed, &[transact::touch_batch(&self.node)]).await?;
            Ok::<(), Trouble>(())
        };
        match probed.await {
            Ok(()) => {
                tracing::info!("the store can be written again");
                self.shared.set_health(Health::Writable);
            }
            Err(trouble) => self.after(&trouble).await,
        }
    }
}

fn gone() -> Trouble {
    Trouble::Lost("the connection is gone".to_owned())
}

fn silent() -> Trouble {
    Trouble::Lost("the database did not answer in time".to_owned())
}

/// Runs a rule: one that panics is a command that cannot be carried out.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, Trouble> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
        Trouble::Poison(format!("it panicked: {said}"))
    })
}

struct Committed {
    /// The head before it.
    before: Seq,
    rows: Vec<LogRow>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Committed,
    NotCommitted,
    Unknown,
}

struct Failed {
    trouble: Trouble,
    submissions: Vec<Submission>,
}
