//! A turn of a node's writer: takes a batch from the queue and commits it, or fails as disks and networks fail.
//!
//! This is the simulation's own loop around the real queue and batch driver, and so the place of most sabotage.

use rookery_core::routing::{OfferTask, RouteTask};
use rookery_store::batch::{Batch, BatchStep, Loaded, Needs, Outcome};
use rookery_store::memory::{Database, Fault, MemoryStore};
use rookery_store::queue::Load;
use rookery_store::{Clock, Committed, LeaderEpoch, LeaderRole, Operation, Store, Submission, SubmitError};
use tokio::sync::oneshot;

use rookery_core::{Key, LogId, Row, Seq, Timestamp};

use super::Sabotage;
use super::model::Model;
use super::node::Process;

/// Outcomes that are not yet sent to their callers.
pub(super) type UnsentReplies = Vec<(oneshot::Sender<Outcome>, Outcome)>;

/// The circumstances of one turn.
#[derive(Debug)]
pub(super) struct WriterTurn<'a> {
    pub(super) database: &'a Database,
    pub(super) model: &'a Model,
    pub(super) fault: Option<Fault>,
    pub(super) sabotage: Option<Sabotage>,
}

#[derive(Debug, Default)]
/// The results of one turn.
pub(super) struct TurnOutput {
    pub(super) replies: UnsentReplies,
    /// The operational state that was written.
    pub(super) operations: Vec<Operation>,
}

impl WriterTurn<'_> {
    pub(super) fn run(&self, process: &Process) -> TurnOutput {
        let Some(load) = process.queue.take_now() else { return TurnOutput::default() };
        let operations = self.write_operations(&load, process);
        let (submissions, replies): (Vec<Submission>, Vec<_>) =
            load.commands.into_iter().map(|waiting| (waiting.submission, waiting.reply)).unzip();
        for chore in load.chores {
            let done = match self.fault {
                // The memory engine finishes everything at once, so nothing remains to be repeated.
                None => Ok(0),
                Some(_) => Err(SubmitError::Unavailable { reason: "database or disk is full".to_owned() }),
            };
            drop(chore.reply.send(done));
        }
        if submissions.is_empty() {
            return TurnOutput { replies: vec![], operations };
        }
        let outcomes = self.commit(submissions, process);
        TurnOutput { replies: replies.into_iter().zip(outcomes).collect(), operations }
    }

    /// Writes operational state in the batch's transaction. A lost answer is a failure for the sender, which repeats it.
    fn write_operations(&self, load: &Load, process: &Process) -> Vec<Operation> {
        if matches!(self.fault, Some(Fault::NotWritten | Fault::CommitLost)) {
            return vec![];
        }
        let operations: Vec<Operation> = load.chores.iter().map(|chore| chore.operation.clone()).collect();
        self.operate(process, &operations);
        operations
    }

    fn operate(&self, process: &Process, operations: &[Operation]) {
        let store = MemoryStore::new(self.database.clone(), process.clock.clone(), process.board.clone());
        let store = store.of(process.node_id().clone());
        for operation in operations {
            // The memory engine finishes during the call.
            drop(store.operate(operation.clone()));
        }
    }

    fn commit(&self, submissions: Vec<Submission>, process: &Process) -> Vec<Outcome> {
        let at = process.clock.now();
        let run = |submissions| self.database.run(submissions, at, &process.board, self.fault);
        match (self.sabotage, self.fault) {
            (Some(Sabotage::SkipLock), None) => {
                let stale = Seq(self.database.head().0.saturating_sub(6));
                self.commit_without_lock(submissions, at, |needs| self.model.load_at(stale, needs, &process.board))
            }
            (Some(Sabotage::MixUpAgents), None) => match submissions.as_slice() {
                [submission] if is_routing_decision(submission) => {
                    self.commit_for_first_agent(submission.clone(), process, at)
                }
                _ => run(submissions),
            },
            (Some(Sabotage::AckBeforeCommit), Some(Fault::NotWritten | Fault::CommitLost)) => {
                let discarded = self.database.copy(LogId::from("elsewhere"));
                discarded.run(submissions, at, &process.board, None)
            }
            (Some(Sabotage::ApplyTwice), Some(Fault::AnswerLost)) => {
                run(submissions.clone());
                let without_key = |submission: Submission| Submission { idempotency: None, ..submission };
                run(submissions.into_iter().map(without_key).collect())
            }
            (Some(Sabotage::ForgetReplies), _) => {
                let outcomes = run(submissions);
                self.operate(process, &[Operation::ForgetReplies { before: Timestamp(i64::MAX) }]);
                outcomes
            }
            (Some(Sabotage::IgnoreEpochs), _) => {
                let without_epoch = |submission: Submission| Submission { tenure: None, ..submission };
                run(submissions.into_iter().map(without_epoch).collect())
            }
            (Some(Sabotage::TearBundles), _) => {
                let sizes: Vec<usize> = submissions.iter().map(|submission| submission.all().count()).collect();
                let mut outcomes = run(submissions.into_iter().flat_map(split).collect()).into_iter();
                sizes.into_iter().map(|size| join_outcomes(outcomes.by_ref().take(size))).collect()
            }
            // Rare, so that the check for it fails before others do.
            (Some(Sabotage::SkipFold), _) if self.database.head().0 % 16 == 15 => {
                let (before, _) = self.database.stored();
                let head = self.database.head();
                let outcomes = run(submissions);
                let touched = self.database.log_after(head).into_iter().next_back();
                if let Some(key) = touched.and_then(|row| row.event.write_set().into_iter().next()) {
                    self.database.tamper(&key, before.get(&key).cloned());
                }
                outcomes
            }
            _ => run(submissions),
        }
    }

    /// Decides over the rows that `load` returns, instead of the stored rows.
    fn commit_without_lock(
        &self,
        submissions: Vec<Submission>,
        at: Timestamp,
        load: impl Fn(&Needs) -> Loaded,
    ) -> Vec<Outcome> {
        let mut batch = Batch::new(submissions);
        batch.begin(self.database.head(), at);
        loop {
            match batch.want() {
                BatchStep::Load(needs) => {
                    let posts = self.database.posts();
                    let epoch = |role: &LeaderRole| Some(LeaderEpoch { duty: *role, epoch: posts.get(role)?.epoch });
                    let duties = needs.duties.iter().filter_map(epoch).collect();
                    batch.supply(&needs, Loaded { duties, ..load(&needs) });
                }
                BatchStep::Write(write) => {
                    self.database.commit(write);
                    return batch.outcomes();
                }
            }
        }
    }

    /// Gives a task to the first online agent. To the rule, that agent has the profile of the chosen one and no tasks.
    fn commit_for_first_agent(&self, mut submission: Submission, process: &Process, at: Timestamp) -> Vec<Outcome> {
        let mut agents =
            self.model.rows().filter_map(|(_, row)| if let Row::Agent(agent) = row { Some(agent) } else { None });
        let Some(first) = agents.find(|agent| agent.is_online()).map(|agent| agent.id.clone()) else { return vec![] };
        let mut chosen = None;
        if let Some(route) = submission.command.get_mut::<RouteTask>() {
            chosen = route.choice.selected.replace(first.clone());
        }
        for other in &mut submission.others {
            if let Some(forward) = other.command.get_mut::<OfferTask>() {
                forward.to = first.clone();
            }
        }
        let like = chosen.and_then(|chosen| self.model.row(&Key::Agent(chosen)));
        let load = |needs: &Needs| {
            let mut loaded = self.model.load_at(self.database.head(), needs, &process.board);
            for (_, row) in &mut loaded.rows {
                if let (Row::Agent(agent), Some(Row::Agent(like))) = (row, like) {
                    agent.profile = like.profile.clone();
                }
            }
            loaded.lookups.iter_mut().for_each(|(_, rows)| rows.clear());
            loaded
        };
        self.commit_without_lock(vec![submission], at, load)
    }
}

fn is_routing_decision(submission: &Submission) -> bool {
    submission.command.get().is_some_and(|route: &RouteTask| route.choice.selected.is_some())
}

/// Splits a submission into its commands.
fn split(mut submission: Submission) -> impl Iterator<Item = Submission> {
    let others = std::mem::take(&mut submission.others);
    std::iter::once(submission).chain(others)
}

/// Joins the outcomes of the commands of one submission.
fn join_outcomes(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let mut all: Vec<Committed> = outcomes.collect::<Result<_, _>>()?;
    let first = all.remove(0);
    Ok(Committed { others: all, ..first })
}
