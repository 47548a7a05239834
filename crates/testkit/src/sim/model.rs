//! A fold of the log, apart from the database: every row at every seq, and the events of each request.
//!
//! The model takes the log row by row and folds it with `write_set` and `apply` alone. Checks decide commands again over it,
//! one at a time, without the driver, its batches and its overlay.

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

/// How often a decision may ask for more rows. The driver allows as many rounds, and loads several rows in one.
const MAX_ROUNDS: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    log: Vec<LogRow>,
    history: BTreeMap<Key, Vec<(Seq, Option<Row>)>>,
    /// The first event of each execution of a request, by the request's id. A request that was executed twice has two.
    requests: BTreeMap<String, Vec<Seq>>,
    /// The replies to requests with an idempotency key.
    pub(super) answers: BTreeMap<String, AnyReply>,
    /// The first use of each idempotency key of envelopes, by its scope, with its seq.
    keys: BTreeMap<String, (Seq, UsedKey)>,
    /// Envelopes that a reply called new.
    pub(super) reported_new: BTreeSet<MessageId>,
}

impl Model {
    pub(super) fn add(&mut self, row: LogRow) {
        for key in row.event.write_set() {
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

    /// The seq of the first event of each execution of a request.
    pub(super) fn executions(&self, request: &str) -> &[Seq] {
        self.requests.get(request).map_or(&[], Vec::as_slice)
    }

    /// The events of one command, given its first one.
    pub(super) fn events_of_command(&self, first: Seq) -> &[LogRow] {
        let Some(rest) = self.log.get((first.0 - 1) as usize..) else { return &[] };
        let more = rest.iter().skip(1).take_while(|row| row.first() == first).count();
        &rest[..=more]
    }

    /// The first use of an idempotency key of envelopes, with its seq.
    pub(super) fn key_use(&self, scope: &str) -> Option<&(Seq, UsedKey)> {
        self.keys.get(scope)
    }

    /// Decides a command over the rows right after `seq`.
    pub(super) fn decide_at(&self, seq: Seq, caller: &Caller, command: &AnyCommand, at: Timestamp) -> Redecision {
        self.decide_in(&mut View::default(), (seq, seq.next()), caller, command, at)
    }

    /// Decides a command whose first event would be at `next`, over rows that are loaded as they were right after `seq`.
    fn decide_in(
        &self,
        view: &mut View,
        (seq, next): (Seq, Seq),
        caller: &Caller,
        command: &AnyCommand,
        at: Timestamp,
    ) -> Redecision {
        for _ in 0..MAX_ROUNDS {
            match rookery_core::decide(&DecisionContext { view, caller, now: at, next }, command) {
                Ok(decision) => return Redecision::Decided(decision),
                Err(Undecided::Rejected(rejection)) => return Redecision::Rejected(rejection),
                Err(Undecided::Missing(missing)) => {
                    missing.into_iter().for_each(|item| self.load_item(view, seq, item))
                }
            }
        }
        Redecision::Endless
    }

    /// Decides commands in order, starting with the rows right after `seq`, each over the changes of those before. Returns
    /// the index and outcome of the last command, or of the first one without a decision.
    pub(super) fn decide_all_at(&self, seq: Seq, caller: &Caller, commands: &[AnyCommand]) -> (usize, Redecision) {
        let (mut view, mut head, at) = (View::default(), seq, Timestamp(0));
        let mut last = (0, Redecision::Endless);
        for (index, command) in commands.iter().enumerate() {
            last = (index, self.decide_in(&mut view, (seq, head.next()), caller, command, at));
            let Redecision::Decided(decision) = &last.1 else { return last };
            for event in &decision.events {
                head = head.next();
                self.overlay_event(&mut view, seq, event, head);
            }
        }
        last
    }

    fn overlay_event(&self, view: &mut View, seq: Seq, event: &AnyEvent, head: Seq) {
        for key in event.write_set() {
            self.load_item(view, seq, ReadItem::Row(key));
        }
        event.apply(view, EventStamp { seq: head, at: Timestamp(0) });
    }

    fn load_item(&self, view: &mut View, seq: Seq, item: ReadItem) {
        match item {
            ReadItem::Row(key) => {
                let row = self.row_at(&key, seq).cloned();
                view.load(key, row);
            }
            ReadItem::Rows(lookup) => {
                let rows = self.rows_matching_at(seq, &lookup);
                view.load_all(lookup, rows);
            }
            ReadItem::Presence(agent) => view.load_presence(agent, None),
        }
    }

    fn rows_matching_at(&self, seq: Seq, lookup: &Lookup) -> Vec<(Key, Row)> {
        let found = self.rows_at(seq).filter(|(key, row)| key.table() == lookup.table() && lookup.matches(row));
        found.map(|(key, row)| (key.clone(), row.clone())).collect()
    }

    /// Loads rows as they were at `seq`. Used by sabotage only.
    pub(super) fn load_at(&self, seq: Seq, needs: &Needs, board: &PresenceBoard) -> Loaded {
        let rows = needs.rows.iter().filter_map(|key| Some((key.clone(), self.row_at(key, seq)?.clone())));
        let lookups = needs.lookups.iter().map(|lookup| (lookup.clone(), self.rows_matching_at(seq, lookup)));
        let presence = needs.presence.iter().filter_map(|agent| Some((agent.clone(), board.get(agent)?)));
        Loaded { rows: rows.collect(), lookups: lookups.collect(), presence: presence.collect(), ..Loaded::default() }
    }

    /// The reply that a caller must have received, if the log reached `end` after this decision.
    pub(super) fn expected_reply(&self, source: AnyReplySource, first: Seq, end: Seq) -> AnyReply {
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

/// The outcome of deciding a command again.
#[derive(Debug)]
pub(super) enum Redecision {
    Decided(UntypedDecision),
    Rejected(Rejection),
    Endless,
}

/// The id of the request that caused a row. Requests of the simulation carry their id as the body; envelopes have their own.
pub(super) fn request_of(row: &LogRow) -> Option<String> {
    match row.event.typed() {
        EventRef::EnvelopeReceived(event) => Some(envelope_request(&event.message)),
        EventRef::TaskForwarded(_) => None,
        _ => String::from_utf8(body_of(row)?.to_vec()).ok(),
    }
}

/// The request id of an envelope.
pub(super) fn envelope_request(message: &MessageId) -> String {
    format!("envelope {message}")
}

/// The idempotency key of the envelope in a row.
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
