//! A store carried into another one, with its whole log, its artifacts and its operational state.
//!
//! What was written is proven before anybody can find it: it is read back, folded anew, and its log has the same hash as
//! the one it came from. A move keeps the log id, so that positions of readers stay valid; hence there is never a moment
//! with two stores of that log that take writes. The origin is closed first and the target appears after it. Whoever is
//! killed in between repeats the move.

use std::collections::{BTreeMap, BTreeSet};

use rookery_core::traits::BodyBytes;
use rookery_core::{LogId, Seq};

use super::raw::LogDigest;
use super::verify::other_format;
use super::{
    Beginning, CHUNK, Ending, Entry, OfflineError, Origin, Progress, RawRow, Reply, Sink, Snapshot, Source,
    carry_artifact, each_chunk, give_up, has_artifact, publish, referred, verify,
};
use crate::FORMAT;
use crate::operational::{EndpointCursor, PresenceRecord, Token};
use crate::query::LogHead;
use crate::replay::Fold;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelocateReport {
    /// The head of the new store.
    pub head: LogHead,
    pub events: u64,
    pub artifacts: u64,
    /// Artifacts that facts refer to and that are not there.
    pub missing: Vec<String>,
    pub tokens: u64,
    pub replies: u64,
    /// The hash of the log as it is stored, the same on both sides.
    pub log_sha256: String,
}

/// Moves a store to `to`, an address without secrets. The origin can only be read from then on.
pub fn move_store(
    origin: &mut dyn Origin,
    sink: &mut dyn Sink,
    to: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<RelocateReport, OfflineError> {
    let snapshot = origin.source().snapshot().clone();
    // A move that was cut off between its last two steps is repeated.
    if let Some(elsewhere) = snapshot.moved_to.clone().filter(|known| known != to) {
        return Err(OfflineError::Moved { to: elsewhere });
    }
    let report = carry(origin.source(), sink, &snapshot.head.log, progress)
        .map_err(|error| told_moved(error, snapshot.moved_to))?;
    if let Err(error) = origin.leave(to).and_then(|()| sink.publish()) {
        come_back(origin, sink);
        return Err(error);
    }
    Ok(report)
}

/// Copies a store, which stays in use. The copy is a log of its own.
pub fn copy_store(
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    log_id: &LogId,
    progress: &mut dyn FnMut(Progress),
) -> Result<RelocateReport, OfflineError> {
    let report = carry(source, sink, log_id, progress)?;
    publish(sink).map(|()| report)
}

/// Where the target is there and the origin says that it went there, all was done before.
fn told_moved(error: OfflineError, moved_to: Option<String>) -> OfflineError {
    match (error, moved_to) {
        (OfflineError::Exists { .. }, Some(to)) => OfflineError::Moved { to },
        (error, _) => error,
    }
}

/// Opens the origin again, if it is certain that there is no other.
fn come_back(origin: &mut dyn Origin, sink: &mut dyn Sink) {
    if let Err(error) = sink.abort().and_then(|()| origin.stay()) {
        tracing::error!(%error, "the store stays closed; repeat the move");
    }
}

/// Writes everything and proves it; nothing is left of what failed.
fn carry(
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    log: &LogId,
    progress: &mut dyn FnMut(Progress),
) -> Result<RelocateReport, OfflineError> {
    let carried = write(source, sink, log, progress);
    if carried.is_err() {
        give_up(sink);
    }
    carried
}

fn write(
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    log: &LogId,
    progress: &mut dyn FnMut(Progress),
) -> Result<RelocateReport, OfflineError> {
    let Snapshot { head, format, project, .. } = source.snapshot().clone();
    if format > FORMAT {
        return Err(OfflineError::Unreadable(other_format(format)));
    }
    sink.begin(&Beginning { log: log.clone(), floor: head.floor, project })?;
    let mut carried = Carried::new(head.floor);
    // The second half of the work is to prove the first.
    let total = 2 * head.head.0;
    each_chunk(source, |source, rows| {
        carried.take(source, sink, rows)?;
        progress(Progress { done: carried.next.0.saturating_sub(1), total });
        Ok(())
    })?;
    if carried.next != head.head.next() {
        return Err(OfflineError::Gap { before: Seq(carried.next.0.saturating_sub(1)), next: head.head });
    }
    carried.take_referred(source, sink)?;
    carried.replies = carry_replies(source, sink)?;
    (carried.tokens, carried.presence) = (source.tokens()?, source.presence()?);
    carried.outboxes = source.outboxes()?;
    let fold = std::mem::take(&mut carried.fold);
    let (tokens, outboxes, presence) = (&carried.tokens, &carried.outboxes, &carried.presence);
    let mut written = sink.finish(&Ending { head: head.head, fold: &fold, tokens, outboxes, presence })?;
    // It is folded anew from what was written.
    drop(fold);
    let mut report = |part: Progress| progress(Progress { done: head.head.0 + part.done, total });
    carried.prove(&mut *written, &head, &mut report)
}

/// What was handed to the new store.
struct Carried {
    fold: Fold,
    digest: LogDigest,
    artifacts: BTreeSet<String>,
    missing: Vec<String>,
    next: Seq,
    replies: u64,
    tokens: Vec<Token>,
    outboxes: Vec<EndpointCursor>,
    presence: Vec<PresenceRecord>,
}

impl Carried {
    fn new(floor: Seq) -> Carried {
        Carried {
            fold: Fold::default(),
            digest: LogDigest::default(),
            artifacts: BTreeSet::new(),
            missing: vec![],
            next: floor,
            replies: 0,
            tokens: vec![],
            outboxes: vec![],
            presence: vec![],
        }
    }

    fn take(&mut self, source: &mut dyn Source, sink: &mut dyn Sink, rows: Vec<RawRow>) -> Result<(), OfflineError> {
        let mut entries: Vec<Entry> = Vec::with_capacity(rows.len());
        for raw in rows {
            if raw.seq != self.next {
                return Err(OfflineError::Gap { before: Seq(self.next.0.saturating_sub(1)), next: raw.seq });
            }
            self.next = raw.seq.next();
            self.digest.add(&raw);
            self.take_artifact(source, sink, &raw)?;
            let entry = raw.entry()?;
            self.fold.add(&entry.row);
            entries.push(entry);
        }
        sink.append(&entries)
    }

    fn take_artifact(
        &mut self,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        raw: &RawRow,
    ) -> Result<(), OfflineError> {
        match &raw.body {
            Some(body) if body.bytes == BodyBytes::Artifact && self.artifacts.insert(body.sha256.clone()) => {
                carry_artifact(source, sink, &body.sha256)
            }
            _ => Ok(()),
        }
    }

    /// Takes what facts refer to, and what nothing names yet: that was uploaded to be named.
    fn take_referred(&mut self, source: &mut dyn Source, sink: &mut dyn Sink) -> Result<(), OfflineError> {
        let referred = referred(self.fold.rows().values());
        for sha256 in source.artifacts()? {
            let known = self.artifacts.contains(&sha256);
            if !known && (referred.contains(&sha256) || has_artifact(source, &sha256)?) {
                carry_artifact(source, sink, &sha256)?;
                self.artifacts.insert(sha256);
            }
        }
        // Nobody has to have what is referred to, so that this keeps nothing from moving.
        self.missing = referred.difference(&self.artifacts).cloned().collect();
        Ok(())
    }

    /// Reads the new store back and compares it with what was handed to it.
    fn prove(
        self,
        written: &mut dyn Source,
        head: &LogHead,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RelocateReport, OfflineError> {
        let found = verify(written, progress)?;
        let mut differences = found.differences;
        let sha256 = self.digest.sha256();
        if (found.head.floor, found.head.head) != (head.floor, head.head) || found.log_sha256 != sha256 {
            differences.push("the logs differ".to_owned());
        }
        for sha256 in &self.artifacts {
            written.artifact(sha256, &mut |_| Ok(()))?;
        }
        if by_id(&written.tokens()?) != by_id(&self.tokens) {
            differences.push("the tokens differ".to_owned());
        }
        if written.outboxes()? != self.outboxes {
            differences.push("how far adapters have come differs".to_owned());
        }
        if last_seen(&written.presence()?) != last_seen(&self.presence) {
            differences.push("the presence of agents differs".to_owned());
        }
        let mut replies = 0;
        each_reply(written, |found| {
            replies += found.len() as u64;
            Ok(())
        })?;
        if replies != self.replies {
            differences.push(format!("{replies} replies are remembered, should be {}", self.replies));
        }
        if !differences.is_empty() {
            return Err(OfflineError::Unlike { differences });
        }
        Ok(RelocateReport {
            head: found.head,
            events: found.facts,
            artifacts: self.artifacts.len() as u64,
            missing: self.missing,
            tokens: self.tokens.len() as u64,
            replies,
            log_sha256: sha256,
        })
    }
}

fn by_id(tokens: &[Token]) -> BTreeMap<&str, &Token> {
    tokens.iter().map(|token| (token.id.as_str(), token)).collect()
}

/// Which node saw an agent does not travel everywhere.
fn last_seen(signs: &[PresenceRecord]) -> BTreeSet<(&str, i64, &'static str)> {
    signs.iter().map(|sign| (sign.agent.as_str(), sign.presence.last_seen.0, sign.presence.source.as_str())).collect()
}

fn carry_replies(source: &mut dyn Source, sink: &mut dyn Sink) -> Result<u64, OfflineError> {
    let mut count = 0;
    each_reply(source, |replies| {
        count += replies.len() as u64;
        sink.remember(replies)
    })?;
    Ok(count)
}

fn each_reply(
    source: &mut dyn Source,
    mut take: impl FnMut(&[Reply]) -> Result<(), OfflineError>,
) -> Result<(), OfflineError> {
    let mut after = None;
    loop {
        let mut replies = source.replies(after.as_ref(), CHUNK)?;
        take(&replies)?;
        after = replies.pop();
        if after.is_none() {
            return Ok(());
        }
    }
}
