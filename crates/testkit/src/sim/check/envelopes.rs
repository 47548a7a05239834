//! What must hold of envelopes: those of one call are there together or not at all, each once, and as they were sent.

use rookery_core::{
    AgentId, AnyCommand, AnyReply, Caller, Code, EventRef, Key, MessageId, Rejection, Row, Seq, Timestamp,
};
use std::collections::BTreeMap;

use rookery_core::agents::ReturnAgent;
use rookery_core::clutch::EnvelopeReceived;
use rookery_core::model::envelope::Filed;
use rookery_core::traits::LogRow;
use rookery_engine::history::Envelope;
use rookery_engine::intake::Ingested;

use super::{Checked, Sent, violated, was_decided};
use crate::sim::bundle::{Bundle, Item};
use crate::sim::model::{Model, Redone, body_of, envelope_request, key_of};

/// A key is used for one envelope, however many come with it. Told before the row is taken in.
pub(in crate::sim) fn idempotency_keys_are_used_once(model: &Model, row: &LogRow) -> Checked {
    let Some(key) = key_of(row) else { return Ok(()) };
    match model.used(&key.scope) {
        None => Ok(()),
        Some((before, _)) => {
            violated("idempotency_keys_are_used_once", format!("{} at {before} and at {}", key.scope, row.seq))
        }
    }
}

/// Where one envelope of a call is, all of them are: by their ids, or by keys that were used before. Told after the rows of
/// a commit are taken in.
pub(in crate::sim) fn bundles_are_whole(
    model: &Model,
    bundles: &BTreeMap<MessageId, Bundle>,
    rows: &[LogRow],
) -> Checked {
    let new = rows.iter().filter_map(|row| received(row).and_then(|fact| bundles.get(&fact.message)));
    for bundle in new {
        if let Some(missing) = bundle.items.iter().find(|item| !is_there(model, item)) {
            let what = format!("at {}: {} is missing of {:?}", model.head(), missing.id, ids(bundle));
            return violated("bundles_are_whole", what);
        }
    }
    Ok(())
}

/// Whoever calls a tool in vain is told so by the same commit, once.
pub(in crate::sim) fn calls_are_answered_once(model: &Model, rows: &[LogRow]) -> Checked {
    let in_vain = rows.iter().filter_map(received).filter(|fact| fact.denied.is_some()).map(|fact| &fact.message);
    for call in in_vain {
        let answers =
            rows.iter().filter(|row| matches!(row.event.typed(), EventRef::ToolDenied(fact) if fact.call == *call));
        let waits = filed(model, call).is_none_or(|filed| filed.denied.is_some());
        if answers.count() != 1 || waits {
            return violated("calls_are_answered_once", format!("at {}: {call}", model.head()));
        }
    }
    let answered = |call: &MessageId| rows.iter().filter_map(received).any(|fact| fact.message == *call);
    match rows.iter().find(|row| matches!(row.event.typed(), EventRef::ToolDenied(fact) if !answered(&fact.call))) {
        None => Ok(()),
        Some(row) => violated("calls_are_answered_once", format!("{} answers what came before", row.seq)),
    }
}

fn received(row: &LogRow) -> Option<&EnvelopeReceived> {
    if let EventRef::EnvelopeReceived(fact) = row.event.typed() { Some(fact) } else { None }
}

fn ids(bundle: &Bundle) -> Vec<&str> {
    bundle.items.iter().map(|item| item.id.as_str()).collect()
}

fn is_there(model: &Model, item: &Item) -> bool {
    let Some(ingest) = &item.ingest else { return true };
    let by_key = item.key.as_ref().and_then(|key| Some(model.used(&key.scope)?.1 == *key));
    let filed = filed(model, &item.id);
    by_key == Some(true) || filed.is_some_and(|filed| filed.hash == ingest.received.hash)
}

fn filed<'a>(model: &'a Model, message: &MessageId) -> Option<&'a Filed> {
    match model.row(&Key::Envelope(message.clone())) {
        Some(Row::Envelope(filed)) => Some(filed),
        _ => None,
    }
}

/// What senders were told stands in the log: the envelope at the place that was named, and what followed from it, as its
/// rule decides there.
pub(in crate::sim) fn reply_agrees_with_the_log(model: &Model, bundle: &Bundle, told: &[Ingested]) -> Checked {
    let check = "reply_agrees_with_the_log";
    if told.len() != bundle.items.len() {
        return violated(check, format!("{} answers to {:?}", told.len(), ids(bundle)));
    }
    for (item, answer) in bundle.items.iter().zip(told) {
        let wrong = |why: &str| violated(check, format!("{} was told {answer:?}: {why}", item.id));
        if item.forged {
            return wrong("it is forged");
        }
        if item.ingest.is_none() {
            match answer.seq {
                None => continue,
                Some(_) => return wrong("a heartbeat has no place in the log"),
            }
        }
        let Some(row) = answer.seq.and_then(|seq| model.log().get((seq.0 - 1) as usize)) else {
            return wrong("there is no such place");
        };
        if received(row).is_none_or(|fact| fact.message != answer.id) {
            return wrong("something else stands there");
        }
        match (answer.duplicate, answer.id == item.id) {
            (_, true) if !is_there(model, item) && !was_redacted(model, row.seq) => {
                return wrong("it says something else there");
            }
            (true, true) => {}
            (true, false) if item.key.is_some() && key_of(row) == item.key => {}
            (_, false) => return wrong("that is another message"),
            (false, true) => followed(model, bundle, item, row.seq)?,
        }
    }
    Ok(())
}

fn was_redacted(model: &Model, seq: Seq) -> bool {
    model.log().iter().any(|row| matches!(row.event.typed(), EventRef::LogRedacted(fact) if fact.seq == seq))
}

/// What came of an envelope is what its rule decides over the rows before it.
fn followed(model: &Model, bundle: &Bundle, item: &Item, seq: Seq) -> Checked {
    let Some(command) = item.command().map(Box::new) else { return Ok(()) };
    let (id, caller) = (envelope_request(&item.id), bundle.caller.clone());
    let sent = Sent { id, caller, command, keyed: false, since: bundle.since };
    let key = Key::Envelope(item.id.clone());
    let rows = model.decided_from(seq);
    let end = rows.last().map_or(seq, |row| row.seq);
    let row = model.row_at(&key, end).cloned();
    let answer = AnyReply::of_row(key, row);
    was_decided(model, &sent, Seq(seq.0 - 1), rows, &answer)
}

/// Of all who send an envelope, one at most is told that it is new.
pub(in crate::sim) fn told_to_be_new_once(model: &mut Model, told: &[Ingested]) -> Checked {
    for answer in told.iter().filter(|answer| answer.seq.is_some() && !answer.duplicate) {
        if !model.told.insert(answer.id.clone()) {
            return violated("told_to_be_new_once", format!("{answer:?}"));
        }
    }
    Ok(())
}

/// Who is told that nothing was done finds nothing done.
pub(in crate::sim) fn failure_left_no_trace(model: &Model, bundle: &Bundle) -> Checked {
    if bundle.repeated {
        return Ok(());
    }
    let came_after = |item: &&Item| {
        model.carried_out(&envelope_request(&item.id)).first().is_some_and(|first| *first > bundle.since)
    };
    match bundle.items.iter().find(came_after) {
        None => Ok(()),
        Some(item) => violated("failure_left_no_trace", format!("{} of {:?}", item.id, ids(bundle))),
    }
}

/// A refusal was right at some place of the log between asking and being told, and names the envelope that it is about.
pub(in crate::sim) fn refusal_is_justified(
    model: &Model,
    bundle: &Bundle,
    asked: Seq,
    refusal: &Rejection,
    pointer: &str,
) -> Checked {
    let place = bundle.place(pointer);
    let Some(item) = bundle.items.get(place) else {
        return violated("refusal_is_justified", format!("{:?} were told {refusal:?} about {pointer}", ids(bundle)));
    };
    let right =
        |at: Seq| refused_together(model, bundle, place, at, refusal) || is_not_here(model, bundle, at, refusal);
    if matches!(refusal.code, Code::BadSignature | Code::UnknownKey) && item.forged {
        return Ok(());
    }
    let used_otherwise = refusal.code == Code::IdempotencyMismatch && key_is_taken(model, bundle, place);
    if used_otherwise || (asked.0..=model.head().0).rev().map(Seq).any(right) {
        return Ok(());
    }
    violated("refusal_is_justified", format!("{} ({:?}) was told {refusal:?} about {pointer}", item.id, item.ingest))
}

/// Whether this one of them is refused so, after those before it.
fn refused_together(model: &Model, bundle: &Bundle, place: usize, at: Seq, refusal: &Rejection) -> bool {
    let upto = || bundle.items.iter().enumerate().take(place + 1);
    // What has a key that was used before is answered without being decided.
    let is_new = |(position, item): &(usize, &Item)| {
        let Some(key) = &item.key else { return true };
        let before = |other: &Item| other.key.as_ref().is_some_and(|other| other.scope == key.scope);
        model.used(&key.scope).is_none_or(|(used, _)| *used > at) && !bundle.items.iter().take(*position).any(before)
    };
    let decided: Vec<usize> = upto().filter(is_new).map(|(position, _)| position).collect();
    let commands: Vec<AnyCommand> = decided.iter().filter_map(|position| bundle.items[*position].command()).collect();
    let with_command: Vec<usize> =
        decided.into_iter().filter(|position| bundle.items[*position].command().is_some()).collect();
    let (ended, redone) = model.decide_together_at(at, &bundle.caller, &commands);
    let refused = matches!(redone, Redone::Refused(again) if again.code == refusal.code);
    refused && with_command.get(ended) == Some(&place)
}

/// Whether the sender was refused before anything was decided: it could not be brought back.
fn is_not_here(model: &Model, bundle: &Bundle, at: Seq, refusal: &Rejection) -> bool {
    let Some(agent) = sender(&bundle.caller) else { return false };
    let back = ReturnAgent { agent: agent.clone() }.into();
    let redone = model.decide_at(at, &bundle.caller, &back, Timestamp(0));
    matches!(redone, Redone::Refused(again) if again.code == refusal.code)
}

fn sender(caller: &Caller) -> Option<&AgentId> {
    caller.actor.agent()
}

fn key_is_taken(model: &Model, bundle: &Bundle, place: usize) -> bool {
    let Some(key) = bundle.items.get(place).and_then(|item| item.key.as_ref()) else { return false };
    let earlier = bundle.items.iter().take(place).filter_map(|item| item.key.as_ref());
    let known = model.used(&key.scope).map(|(_, used)| used);
    earlier.chain(known).any(|used| used.scope == key.scope && used.for_what != key.for_what)
}

/// Nothing that came in is lost: each envelope is found by its id where it was put, byte for byte, unless it was redacted.
pub(in crate::sim) fn everything_is_shown_as_it_was_sent(
    model: &Model,
    shows: impl Fn(&MessageId) -> Option<(Seq, Envelope)>,
) -> Checked {
    for row in model.log() {
        let Some(fact) = received(row) else { continue };
        let same = match shows(&fact.message) {
            Some((seq, Envelope::Verbatim(bytes))) => seq == row.seq && Some(bytes.as_slice()) == body_of(row),
            Some((seq, Envelope::Shown(_))) => seq == row.seq && was_redacted(model, seq),
            None => false,
        };
        if !same {
            return violated("everything_is_shown_as_it_was_sent", format!("{} at {}", fact.message, row.seq));
        }
    }
    Ok(())
}
