//! How commands run: a batch is loaded, decided one command after another, and written once. No IO happens here.
//!
//! An engine asks [`Batch::want`] what the batch wants, does it, and asks again. A refused command leaves no trace; one
//! whose rule must see more is asked again when it is loaded. Because rules are pure and ids come in with the command,
//! running the same commands again over the same rows writes the same thing.

use rookery_core::{
    Actor, AgentId, AnyEvent, AnyReply, AnyReplySource, Caller, Code, DecisionContext, EventStamp, FirstSeq, Key,
    Lookup, ReadItem, Rejection, Row, RunId, Seq, ThreadId, Timestamp, UntypedDecision,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use rookery_core::model::Undecided;
use rookery_core::model::{Presence, View};
use rookery_core::traits::{BodyBytes, LogRow};

use crate::node::{LeaderEpoch, LeaderRole};
use crate::store::{Committed, Idempotency, Submission, SubmitError};

/// How often one command may ask for more before it is given up.
const MAX_ROUNDS: u32 = 16;

/// What must be loaded before the batch can go on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    pub rows: BTreeSet<Key>,
    pub lookups: BTreeSet<Lookup>,
    pub presence: BTreeSet<AgentId>,
    /// Remembered replies, by scope and key.
    pub replies: BTreeSet<(String, String)>,
    /// Duties whose epoch a command names.
    pub duties: BTreeSet<LeaderRole>,
}

impl Needs {
    fn add(&mut self, ask: ReadItem) {
        match ask {
            ReadItem::Row(key) => drop(self.rows.insert(key)),
            ReadItem::Rows(lookup) => drop(self.lookups.insert(lookup)),
            ReadItem::Presence(agent) => drop(self.presence.insert(agent)),
        }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.lookups.is_empty()
            && self.presence.is_empty()
            && self.replies.is_empty()
            && self.duties.is_empty()
    }
}

/// What an engine found for [`Needs`]. A row that is not there is not named.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Loaded {
    pub rows: Vec<(Key, Row)>,
    pub lookups: Vec<(Lookup, Vec<(Key, Row)>)>,
    pub presence: Vec<(AgentId, Presence)>,
    pub replies: Vec<((String, String), RememberedReply)>,
    pub duties: Vec<LeaderEpoch>,
}

/// The answer to an earlier command with an idempotency key.
#[derive(Clone, PartialEq, Debug)]
pub struct RememberedReply {
    pub hash: String,
    pub reply: AnyReply,
}

/// Everything a batch changes, each row once.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CommitSet {
    pub log: Vec<LogRow>,
    pub rows: Vec<(Key, Option<Row>)>,
    pub tallies: BTreeMap<&'static str, i64>,
    pub replies: Vec<(Idempotency, AnyReply)>,
    /// Rows of the log whose texts go, with the bytes that stay of the fact.
    pub blanked: Vec<(Seq, Vec<u8>)>,
    /// The head after this batch.
    pub head: Seq,
}

impl CommitSet {
    pub fn is_empty(&self) -> bool {
        self.log.is_empty() && self.replies.is_empty()
    }

    /// Whether something names an artifact by this that did not before.
    pub fn names_artifacts(&self) -> bool {
        let in_body = |row: &LogRow| row.body.as_ref().is_some_and(|body| body.bytes == BodyBytes::Artifact);
        self.log.iter().any(in_body) || self.rows.iter().any(|(_, row)| matches!(row, Some(Row::ArtifactRef(_))))
    }
}

#[derive(Debug)]
pub enum BatchStep {
    Load(Needs),
    /// Everything is decided. Write this, commit, then take the outcomes.
    Write(CommitSet),
}

/// A command by its submission, and its place among those of it.
#[derive(Clone, Copy, Debug)]
struct CommandIndex {
    at: usize,
    part: usize,
}

pub type Outcome = Result<Committed, SubmitError>;

#[derive(Debug)]
pub struct Batch {
    submissions: Vec<Submission>,
    outcomes: Vec<Option<Outcome>>,
    rounds: u32,
    view: View,
    /// Rows as they were before this batch, for those it changed.
    before: HashMap<Key, Option<Row>>,
    remembered: HashMap<(String, String), Option<RememberedReply>>,
    /// The epochs as they are now.
    duties: HashMap<LeaderRole, u64>,
    write: CommitSet,
    now: Timestamp,
    asked: bool,
    /// The submission of several commands that is under way.
    under_way: Option<UnderWay>,
}

/// A batch under way, in a form that gives its commands back.
pub(crate) struct PendingBatch {
    pub(crate) submissions: Vec<Submission>,
    pub(crate) batch: Option<Batch>,
}

impl PendingBatch {
    pub(crate) fn into_submissions(self) -> Vec<Submission> {
        self.batch.map_or(self.submissions, Batch::into_submissions)
    }
}

/// Several commands that are done together or not at all: what they came to so far, and how it was before them.
#[derive(Debug)]
struct UnderWay {
    done: Vec<Committed>,
    head: Seq,
    log: usize,
    replies: usize,
    blanked: usize,
    rows: Vec<(Key, Option<Row>)>,
    remembered: Vec<(String, String)>,
}

impl Batch {
    /// A batch that has to be begun before it can run.
    pub fn new(submissions: Vec<Submission>) -> Batch {
        Batch {
            outcomes: submissions.iter().map(|_| None).collect(),
            submissions,
            rounds: 0,
            view: View::default(),
            before: HashMap::new(),
            remembered: HashMap::new(),
            duties: HashMap::new(),
            write: CommitSet::default(),
            now: Timestamp(0),
            asked: false,
            under_way: None,
        }
    }

    /// Puts the batch on top of `head`, at one time for all of its facts.
    pub fn begin(&mut self, head: Seq, at: Timestamp) {
        self.write.head = head;
        self.now = at;
    }

    /// What the batch will want first, whatever the head is: an engine whose rows are far away loads them while it asks
    /// for the head.
    pub fn first_needs(&mut self) -> Needs {
        self.asked = true;
        self.asks()
    }

    pub fn want(&mut self) -> BatchStep {
        if !self.asked {
            let needs = self.first_needs();
            if !needs.is_empty() {
                return BatchStep::Load(needs);
            }
        }
        while let Some(at) = self.outcomes.iter().position(Option::is_none) {
            match self.run(at) {
                Ok(outcome) => {
                    self.outcomes[at] = Some(outcome);
                    self.rounds = 0;
                }
                Err(_) if self.rounds >= MAX_ROUNDS => {
                    self.undo();
                    let reason = "its rule asked for more than it may".to_owned();
                    self.outcomes[at] = Some(Err(SubmitError::Broken { reason }));
                    self.rounds = 0;
                }
                Err(needs) => {
                    self.rounds += 1;
                    return BatchStep::Load(needs);
                }
            }
        }
        BatchStep::Write(self.finish())
    }

    pub fn supply(&mut self, needs: &Needs, loaded: Loaded) {
        for (lookup, rows) in loaded.lookups {
            self.view.load_all(lookup, rows);
        }
        for (key, row) in loaded.rows {
            self.view.load(key, Some(row));
        }
        for key in &needs.rows {
            self.view.load(key.clone(), None);
        }
        let presence: HashMap<AgentId, Presence> = loaded.presence.into_iter().collect();
        for agent in &needs.presence {
            self.view.load_presence(agent.clone(), presence.get(agent).copied());
        }
        for (key, remembered) in loaded.replies {
            self.remembered.insert(key, Some(remembered));
        }
        for key in &needs.replies {
            self.remembered.entry(key.clone()).or_insert(None);
        }
        self.duties.extend(loaded.duties.iter().map(|tenure| (tenure.duty, tenure.epoch)));
    }

    /// What each command came to, in the order they came in. Only true once the write-set is committed.
    pub fn outcomes(self) -> Vec<Outcome> {
        let missing = || Err(SubmitError::Broken { reason: "the batch ended early".to_owned() });
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }

    /// The commands as they came in, to be tried again.
    pub fn into_submissions(self) -> Vec<Submission> {
        self.submissions
    }

    fn asks(&self) -> Needs {
        let mut needs = Needs::default();
        for submission in self.submissions.iter().flat_map(Submission::all) {
            rookery_core::read_set(&submission.caller, &submission.command).into_iter().for_each(|ask| needs.add(ask));
            if let Some(idempotency) = &submission.idempotency {
                needs.replies.insert((idempotency.scope.clone(), idempotency.key.clone()));
            }
            needs.duties.extend(submission.tenure.map(|tenure| tenure.duty));
        }
        needs
    }

    /// Runs a submission: its outcome, or what must be loaded first.
    fn run(&mut self, at: usize) -> Result<Outcome, Needs> {
        if self.submissions[at].others.is_empty() {
            return self.run_one(CommandIndex { at, part: 0 });
        }
        let parts = 1 + self.submissions[at].others.len();
        loop {
            let part = self.begun().done.len();
            if part == parts {
                return Ok(Ok(self.done_together()));
            }
            match self.run_one(CommandIndex { at, part })? {
                Ok(committed) => {
                    self.begun().done.push(committed);
                    self.rounds = 0;
                }
                Err(error) => {
                    self.undo();
                    return Ok(Err(error.of_one(part)));
                }
            }
        }
    }

    fn begun(&mut self) -> &mut UnderWay {
        let write = &self.write;
        self.under_way.get_or_insert_with(|| UnderWay {
            done: vec![],
            head: write.head,
            log: write.log.len(),
            replies: write.replies.len(),
            blanked: write.blanked.len(),
            rows: vec![],
            remembered: vec![],
        })
    }

    fn done_together(&mut self) -> Committed {
        let mut done = self.under_way.take().map(|under_way| under_way.done).unwrap_or_default().into_iter();
        let first = done.next().unwrap_or_else(|| Committed {
            reply: AnyReply::Done,
            at: self.write.head,
            duplicate: false,
            events: vec![],
            others: vec![],
        });
        Committed { at: self.write.head, others: done.collect(), ..first }
    }

    /// Leaves no trace of the commands that were under way together.
    fn undo(&mut self) {
        let Some(under_way) = self.under_way.take() else { return };
        for (key, row) in under_way.rows.into_iter().rev() {
            self.view.set(key, row);
        }
        for key in under_way.remembered {
            self.remembered.insert(key, None);
        }
        self.write.head = under_way.head;
        self.write.log.truncate(under_way.log);
        self.write.replies.truncate(under_way.replies);
        self.write.blanked.truncate(under_way.blanked);
    }

    fn submission(&self, place: CommandIndex) -> &Submission {
        let submission = &self.submissions[place.at];
        place.part.checked_sub(1).map_or(submission, |other| &submission.others[other])
    }

    /// Runs one command: its outcome, or what must be loaded first.
    fn run_one(&mut self, place: CommandIndex) -> Result<Outcome, Needs> {
        let submission = self.submission(place);
        if let Some(tenure) = submission.tenure.filter(|tenure| self.duties.get(&tenure.duty) != Some(&tenure.epoch)) {
            let message = format!("another node has taken over the duty '{}'", tenure.duty.name());
            return Ok(Err(SubmitError::Refused(Rejection::new(Code::Stale, message))));
        }
        // What was answered to somebody is told again only to one that may still ask.
        if let Err(halt) = rookery_core::ensure_may_write(&self.view, &submission.caller) {
            return self.halted(halt);
        }
        if let Some(idempotency) = &submission.idempotency
            && let Some(Some(earlier)) = self.remembered.get(&(idempotency.scope.clone(), idempotency.key.clone()))
        {
            return Ok(self.repeat(idempotency, earlier));
        }
        let cx = DecisionContext {
            view: &self.view,
            caller: &submission.caller,
            now: self.now,
            next: self.write.head.next(),
        };
        let decision = match rookery_core::decide(&cx, &submission.command) {
            Ok(decision) => decision,
            Err(halt) => return self.halted(halt),
        };
        let mut needs = Needs::default();
        for key in decision.events.iter().flat_map(AnyEvent::write_set) {
            let ask = ReadItem::Row(key);
            if !self.view.is_loaded(&ask) {
                needs.add(ask);
            }
        }
        if !needs.is_empty() {
            return Err(needs);
        }
        Ok(Ok(self.commit(place, decision)))
    }

    fn halted(&self, halt: Undecided) -> Result<Outcome, Needs> {
        match halt {
            Undecided::Rejected(refusal) => Ok(Err(SubmitError::Refused(refusal))),
            Undecided::Missing(asks) => {
                let mut needs = Needs::default();
                asks.into_iter().filter(|ask| !self.view.is_loaded(ask)).for_each(|ask| needs.add(ask));
                Err(needs)
            }
        }
    }

    fn repeat(&self, idempotency: &Idempotency, earlier: &RememberedReply) -> Outcome {
        if earlier.hash != idempotency.hash {
            return Err(SubmitError::Refused(
                Rejection::new(
                    Code::IdempotencyMismatch,
                    format!("idempotency key '{}' was used for another request", idempotency.key),
                )
                .hint("use a new key for a new request"),
            ));
        }
        let (reply, at) = (earlier.reply.clone(), self.write.head);
        Ok(Committed { reply, at, duplicate: true, events: vec![], others: vec![] })
    }

    /// Puts a decision's facts into the batch. Every row they touch is in view.
    fn commit(&mut self, place: CommandIndex, decision: UntypedDecision) -> Committed {
        let first = self.write.head.next();
        let actor = author(&self.submission(place).caller, &decision.events);
        let mut events = Vec::with_capacity(decision.events.len());
        for (part_index, fact) in (0..).zip(decision.events) {
            let seq = self.write.head.next();
            self.write.head = seq;
            self.fold(&fact, seq);
            events.push((seq, fact.clone()));
            let submission = self.submission(place);
            let row = LogRow {
                seq,
                at: self.now,
                run: run_of(submission, &fact),
                thread: thread_of(submission, &fact),
                actor: actor.clone(),
                auth: submission.caller.auth,
                via: submission.caller.acting_through.clone(),
                // What one command decides follows from its first fact.
                cause: if seq == first { submission.cause } else { Some(first) },
                part_index,
                body: if seq == first { submission.body.clone() } else { None },
                event: fact,
            };
            self.write.log.push(row);
        }
        self.write.blanked.extend(decision.redacted);
        let reply = self.reply(decision.reply, first);
        let idempotency = self.submission(place).idempotency.clone().filter(|_| !decision.is_forgettable);
        if let Some(idempotency) = idempotency {
            let remembered = RememberedReply { hash: idempotency.hash.clone(), reply: reply.clone() };
            let key = (idempotency.scope.clone(), idempotency.key.clone());
            if let Some(under_way) = &mut self.under_way {
                under_way.remembered.push(key.clone());
            }
            self.remembered.insert(key, Some(remembered));
            self.write.replies.push((idempotency, reply.clone()));
        }
        Committed { reply, at: self.write.head, duplicate: decision.is_duplicate, events, others: vec![] }
    }

    fn fold(&mut self, event: &AnyEvent, seq: Seq) {
        for key in event.write_set() {
            let old = self.view.get(&key).ok().flatten();
            if let Some(under_way) = &mut self.under_way {
                under_way.rows.push((key.clone(), old.cloned()));
            }
            self.before.entry(key).or_insert_with(|| old.cloned());
        }
        event.apply(&mut self.view, EventStamp { seq, at: self.now });
    }

    fn reply(&self, source: AnyReplySource, first: Seq) -> AnyReply {
        match source {
            AnyReplySource::Value(reply) => reply,
            AnyReplySource::Row(key) => {
                let row = self.view.get(&key).ok().flatten().cloned();
                AnyReply::of_row(key, row)
            }
            AnyReplySource::FirstSeq => AnyReply::FirstSeq(FirstSeq(first)),
        }
    }

    fn finish(&mut self) -> CommitSet {
        let mut write = std::mem::take(&mut self.write);
        for (key, old) in std::mem::take(&mut self.before) {
            let new = self.view.get(&key).ok().flatten().cloned();
            if new == old {
                continue;
            }
            count(&mut write.tallies, old.as_ref(), -1);
            count(&mut write.tallies, new.as_ref(), 1);
            write.rows.push((key, new));
        }
        // The same batch writes the same rows in the same order.
        write.rows.sort_by(|one, other| one.0.cmp(&other.0));
        write.tallies.retain(|_, change| *change != 0);
        write
    }
}

/// Whom the facts are recorded as by: a caller without a name acts as the holder of what it changes.
fn author(caller: &Caller, facts: &[AnyEvent]) -> Actor {
    match (&caller.actor, facts.first().and_then(AnyEvent::holder)) {
        (Actor::Anonymous, Some(holder)) => Actor::Agent(holder.clone()),
        (actor, _) => actor.clone(),
    }
}

/// The run of a fact. The project's default one is written as none, so that there is one way to say it.
fn run_of(submission: &Submission, fact: &AnyEvent) -> Option<RunId> {
    submission.run.as_ref().or_else(|| fact.run()).filter(|run| **run != RunId::project_default()).cloned()
}

/// The thread of a fact, likewise.
fn thread_of(submission: &Submission, fact: &AnyEvent) -> Option<ThreadId> {
    let thread = submission.thread.as_ref().or_else(|| fact.thread());
    thread.filter(|thread| **thread != ThreadId::project_default()).cloned()
}

/// Counts a row in, or out of, its tallies.
pub fn count(tallies: &mut BTreeMap<&'static str, i64>, row: Option<&Row>, by: i64) {
    for tally in row.map(Row::tallies).unwrap_or_default() {
        *tallies.entry(tally).or_default() += by;
    }
}
