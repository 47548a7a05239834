//! What the log says, kept apart from the database: every row at every seq, and what each request led to.
//!
//! The model is fed with the log as it grows and folds it with `touches` and `apply` alone. Commands are decided again
//! over it, one at a time, without the driver, its batches and its overlay.

use rookery_core::{
    AnyCommand, AnyEvent, AnyReply, AnyReplySource, Caller, DecisionContext, EventRef, EventStamp, FirstSeq, Key,
    Lookup, MessageId, ReadItem, Rejection, Row, Seq, Timestamp, UntypedDecision, apply_row,
};
use std::collections::{BTreeMap, BTreeSet};

use rookery_core::clutch::Envelope;
use rookery_core::model::Undecided;
use rookery_core::model::View;
use rookery_core::traits::{BodyBytes, LogRow};
use rookery_store::PresenceBoard;
use rookery_store::batch::{Loaded, Needs};

use super::bundle::{UsedKey, used_key};

/// How often a rule may ask for more; the driver allows as many rounds and loads several things in one.
const MAX_ROUNDS: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    log: Vec<LogRow>,
    history: BTreeMap<Key, Vec<(Seq, Option<Row>)>>,
    /// The first fact that a request led to, by the request's id. A request that was carried out twice has two.
    requests: BTreeMap<String, Vec<Seq>>,
    /// What was answered to requests with an idempotency key.
    pub(super) answers: BTreeMap<String, AnyReply>,
    /// What the idempotency keys of envelopes were used for, by their scope, and where.
    keys: BTreeMap<String, (Seq, UsedKey)>,
    /// Envelopes whose senders were told that they are new.
    pub(super) told: BTreeSet<MessageId>,
}

impl Model {
    pub(super) fn add(&mut self, row: LogRow) {
        for key in row.event.write_set(row.seq) {
            let old = self.row(&key).cloned();
            let new = apply_row(old, &key, &row.event, EventStamp { seq: row.seq, at: row.at });
            self.history.entry(key).or_default().push((row.seq, new));
        }
        if let Some(request) = request_of(&row) {
            self.requests.entry(request).or_default().push(row.seq);
        }
        if let Some(used) = key_of(&row) {
            self.keys.entry(used.scope.clone()).or_insert((row.seq, used));
        }
        self.log.push(row);
    }

    pub(super) fn head(&self) -> Seq {
        Seq(self.log.len() as u64)
    }

    pub(super) fn log(&self) -> &[LogRow] {
        &self.log
    }

    pub(super) fn row(&self, key: &Key) -> Option<&Row> {
        self.history.get(key)?.last()?.1.as_ref()
    }

    pub(super) fn row_at(&self, key: &Key, seq: Seq) -> Option<&Row> {
        let versions = self.history.get(key)?;
        let after = versions.partition_point(|(at, _)| *at <= seq);
        versions.get(after.checked_sub(1)?)?.1.as_ref()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&Key, &Row)> {
        self.history.iter().filter_map(|(key, versions)| Some((key, versions.last()?.1.as_ref()?)))
    }

    fn rows_at(&self, seq: Seq) -> impl Iterator<Item = (&Key, &Row)> {
        self.history.keys().filter_map(move |key| Some((key, self.row_at(key, seq)?)))
    }

    /// Where the facts of a request begin, for each time it was carried out.
    pub(super) fn carried_out(&self, request: &str) -> &[Seq] {
        self.requests.get(request).map_or(&[], Vec::as_slice)
    }

    /// The facts that one command decided, from its first one on.
    pub(super) fn decided_from(&self, first: Seq) -> &[LogRow] {
        let Some(rest) = self.log.get((first.0 - 1) as usize..) else { return &[] };
        let more = rest.iter().skip(1).take_while(|row| row.first() == first).count();
        &rest[..=more]
    }

    /// What an idempotency key of envelopes was used for, and where.
    pub(super) fn used(&self, scope: &str) -> Option<&(Seq, UsedKey)> {
        self.keys.get(scope)
    }

    /// Decides a command over the rows as they were right after `seq`.
    pub(super) fn decide_at(&self, seq: Seq, caller: &Caller, command: &AnyCommand, at: Timestamp) -> Redone {
        self.decide_in(&mut View::default(), seq, caller, command, at)
    }

    fn decide_in(&self, view: &mut View, seq: Seq, caller: &Caller, command: &AnyCommand, at: Timestamp) -> Redone {
        for _ in 0..MAX_ROUNDS {
            match rookery_core::decide(&DecisionContext { view, caller, now: at }, command) {
                Ok(decision) => return Redone::Decided(decision),
                Err(Undecided::Rejected(refusal)) => return Redone::Refused(refusal),
                Err(Undecided::Missing(missing)) => missing.into_iter().for_each(|item| self.show(view, seq, item)),
            }
        }
        Redone::Endless
    }

    /// Decides commands one after the other, each over what those before it made of the rows right after `seq`; the last
    /// one's outcome, or that of the first that is not decided.
    pub(super) fn decide_together_at(&self, seq: Seq, caller: &Caller, commands: &[AnyCommand]) -> (usize, Redone) {
        let (mut view, mut head, at) = (View::default(), seq, Timestamp(0));
        let mut last = (0, Redone::Endless);
        for (place, command) in commands.iter().enumerate() {
            last = (place, self.decide_in(&mut view, seq, caller, command, at));
            let Redone::Decided(decision) = &last.1 else { return last };
            for fact in &decision.events {
                head = head.next();
                self.lay_over(&mut view, seq, fact, head);
            }
        }
        last
    }

    fn lay_over(&self, view: &mut View, seq: Seq, fact: &AnyEvent, head: Seq) {
        for key in fact.write_set(head) {
            self.show(view, seq, ReadItem::Row(key));
        }
        fact.apply(view, EventStamp { seq: head, at: Timestamp(0) });
    }

    fn show(&self, view: &mut View, seq: Seq, item: ReadItem) {
        match item {
            ReadItem::Row(key) => {
                let row = self.row_at(&key, seq).cloned();
                view.load(key, row);
            }
            ReadItem::Rows(lookup) => {
                let rows = self.found_at(seq, &lookup);
                view.load_all(lookup, rows);
            }
            ReadItem::Presence(agent) => view.load_presence(agent, None),
        }
    }

    fn found_at(&self, seq: Seq, lookup: &Lookup) -> Vec<(Key, Row)> {
        let found = self.rows_at(seq).filter(|(key, row)| key.table() == lookup.table() && lookup.matches(row));
        found.map(|(key, row)| (key.clone(), row.clone())).collect()
    }

    /// What a writer would load of the log that reads the rows as they were at `seq`. Only sabotage does.
    pub(super) fn load_at(&self, seq: Seq, needs: &Needs, board: &PresenceBoard) -> Loaded {
        let rows = needs.rows.iter().filter_map(|key| Some((key.clone(), self.row_at(key, seq)?.clone())));
        let lookups = needs.lookups.iter().map(|lookup| (lookup.clone(), self.found_at(seq, lookup)));
        let presence = needs.presence.iter().filter_map(|agent| Some((agent.clone(), board.get(agent)?)));
        Loaded { rows: rows.collect(), lookups: lookups.collect(), presence: presence.collect(), ..Loaded::default() }
    }

    /// What the caller must have been told, if its command was decided so and the log then reached `end`.
    pub(super) fn reply(&self, source: AnyReplySource, first: Seq, end: Seq) -> AnyReply {
        match source {
            AnyReplySource::Value(reply) => reply,
            AnyReplySource::Row(key) => {
                let row = self.row_at(&key, end).cloned();
                AnyReply::of_row(key, row)
            }
            AnyReplySource::FirstSeq => AnyReply::FirstSeq(FirstSeq(first)),
        }
    }
}

/// What became of a command that was decided again.
#[derive(Debug)]
pub(super) enum Redone {
    Decided(UntypedDecision),
    Refused(Rejection),
    Endless,
}

/// Every request of the simulation carries its id as its body; an envelope has an id of its own.
pub(super) fn request_of(row: &LogRow) -> Option<String> {
    match row.event.typed() {
        EventRef::EnvelopeReceived(fact) => Some(envelope_request(&fact.message)),
        EventRef::TaskForwarded(_) => None,
        _ => String::from_utf8(body_of(row)?.to_vec()).ok(),
    }
}

/// What an envelope is called among the requests.
pub(super) fn envelope_request(message: &MessageId) -> String {
    format!("envelope {message}")
}

/// The idempotency key that an envelope came in with.
pub(super) fn key_of(row: &LogRow) -> Option<UsedKey> {
    let EventRef::EnvelopeReceived(_) = row.event.typed() else { return None };
    used_key(&Envelope::read(body_of(row)?).ok()?)
}

pub(super) fn body_of(row: &LogRow) -> Option<&[u8]> {
    match &row.body.as_ref()?.bytes {
        BodyBytes::Here(bytes) => Some(bytes),
        BodyBytes::Artifact | BodyBytes::Gone => None,
    }
}
