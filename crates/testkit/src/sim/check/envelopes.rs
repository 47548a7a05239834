//! Checks of envelopes: those of one call are stored together or not at all, each once, and as they were sent.

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

use super::{CheckResult, SentCommand, check_decision, violation};
use crate::sim::bundle::{Bundle, BundleItem};
use crate::sim::model::{Model, Redecision, body_of, envelope_request, key_of};

/// An idempotency key is used for one envelope, however many arrive with it. Runs before the row is added to the model.
pub(in crate::sim) fn idempotency_keys_are_used_once(model: &Model, row: &LogRow) -> CheckResult {
    let Some(key) = key_of(row) else { return Ok(()) };
    match model.key_use(&key.scope) {
        None => Ok(()),
        Some((before, _)) => {
            violation("idempotency_keys_are_used_once", format!("{} at {before} and at {}", key.scope, row.seq))
        }
    }
}

/// If one envelope of a call is stored, all of them are: by their ids, or by keys that were used before. Runs after the rows
/// of a commit are added to the model.
pub(in crate::sim) fn bundles_are_whole(
    model: &Model,
    bundles: &BTreeMap<MessageId, Bundle>,
    rows: &[LogRow],
) -> CheckResult {
    let new = rows.iter().filter_map(|row| received(row).and_then(|event| bundles.get(&event.message)));
    for bundle in new {
        if let Some(missing) = bundle.items.iter().find(|item| !is_stored(model, item)) {
            let details = format!("at {}: {} of {:?} is missing", model.head(), missing.id, ids(bundle));
            return violation("bundles_are_whole", details);
        }
    }
    Ok(())
}

/// A denied tool call is answered once, in the same commit.
pub(in crate::sim) fn calls_are_answered_once(model: &Model, rows: &[LogRow]) -> CheckResult {
    let denied = rows.iter().filter_map(received).filter(|event| event.denied.is_some()).map(|event| &event.message);
    for call in denied {
        let answers =
            rows.iter().filter(|row| matches!(row.event.typed(), EventRef::ToolDenied(event) if event.call == *call));
        let waits = filed(model, call).is_none_or(|filed| filed.denied.is_some());
        if answers.count() != 1 || waits {
            return violation("calls_are_answered_once", format!("at {}: {call}", model.head()));
        }
    }
    let was_received = |call: &MessageId| rows.iter().filter_map(received).any(|event| event.message == *call);
    match rows.iter().find(|row| matches!(row.event.typed(), EventRef::ToolDenied(event) if !was_received(&event.call)))
    {
        None => Ok(()),
        Some(row) => violation("calls_are_answered_once", format!("{} answers a call of an earlier commit", row.seq)),
    }
}

fn received(row: &LogRow) -> Option<&EnvelopeReceived> {
    if let EventRef::EnvelopeReceived(event) = row.event.typed() { Some(event) } else { None }
}

fn ids(bundle: &Bundle) -> Vec<&str> {
    bundle.items.iter().map(|item| item.id.as_str()).collect()
}

fn is_stored(model: &Model, item: &BundleItem) -> bool {
    let Some(ingest) = &item.ingest else { return true };
    let by_key = item.key.as_ref().and_then(|key| Some(model.key_use(&key.scope)?.1 == *key));
    let filed = filed(model, &item.id);
    by_key == Some(true) || filed.is_some_and(|filed| filed.hash == ingest.received.hash)
}

fn filed<'a>(model: &'a Model, message: &MessageId) -> Option<&'a Filed> {
    match model.row(&Key::Envelope(message.clone())) {
        Some(Row::Envelope(filed)) => Some(filed),
        _ => None,
    }
}

/// A reply agrees with the log: the envelope is at the seq that the reply names, with the events that its rule decides
/// there.
pub(in crate::sim) fn reply_agrees_with_the_log(model: &Model, bundle: &Bundle, reply: &[Ingested]) -> CheckResult {
    let check = "reply_agrees_with_the_log";
    if reply.len() != bundle.items.len() {
        return violation(check, format!("{} answers to {:?}", reply.len(), ids(bundle)));
    }
    for (item, answer) in bundle.items.iter().zip(reply) {
        let wrong = |why: &str| violation(check, format!("{} received {answer:?}: {why}", item.id));
        if item.forged {
            return wrong("its signature is forged");
        }
        if item.ingest.is_none() {
            match answer.seq {
                None => continue,
                Some(_) => return wrong("a heartbeat must not be logged"),
            }
        }
        let Some(row) = answer.seq.and_then(|seq| model.log().get((seq.0 - 1) as usize)) else {
            return wrong("the log has no such seq");
        };
        if received(row).is_none_or(|event| event.message != answer.id) {
            return wrong("the log has another message there");
        }
        match (answer.duplicate, answer.id == item.id) {
            (_, true) if !is_stored(model, item) && !was_redacted(model, row.seq) => {
                return wrong("the log has another content there");
            }
            (true, true) => {}
            (true, false) if item.key.is_some() && key_of(row) == item.key => {}
            (_, false) => return wrong("the reply names another message"),
            (false, true) => check_events(model, bundle, item, row.seq)?,
        }
    }
    Ok(())
}

fn was_redacted(model: &Model, seq: Seq) -> bool {
    model.log().iter().any(|row| matches!(row.event.typed(), EventRef::LogRedacted(event) if event.seq == seq))
}

/// Fails unless the events of an envelope are those that its rule decides over the rows before it.
fn check_events(model: &Model, bundle: &Bundle, item: &BundleItem, seq: Seq) -> CheckResult {
    let Some(command) = item.command().map(Box::new) else { return Ok(()) };
    let (id, caller) = (envelope_request(&item.id), bundle.caller.clone());
    let sent = SentCommand { id, caller, command, keyed: false, since: bundle.since };
    let key = Key::Envelope(item.id.clone());
    let rows = model.events_of_command(seq);
    let end = rows.last().map_or(seq, |row| row.seq);
    let row = model.row_at(&key, end).cloned();
    let answer = AnyReply::of_row(key, row);
    check_decision(model, &sent, Seq(seq.0 - 1), rows, &answer)
}

/// At most one reply calls an envelope new.
pub(in crate::sim) fn envelope_is_new_once(model: &mut Model, reply: &[Ingested]) -> CheckResult {
    for answer in reply.iter().filter(|answer| answer.seq.is_some() && !answer.duplicate) {
        if !model.reported_new.insert(answer.id.clone()) {
            return violation("envelope_is_new_once", format!("{answer:?}"));
        }
    }
    Ok(())
}

/// A call whose answer says that nothing was committed left no events.
pub(in crate::sim) fn failure_left_no_trace(model: &Model, bundle: &Bundle) -> CheckResult {
    if bundle.repeated {
        return Ok(());
    }
    let came_after = |item: &&BundleItem| {
        model.executions(&envelope_request(&item.id)).first().is_some_and(|first| *first > bundle.since)
    };
    match bundle.items.iter().find(came_after) {
        None => Ok(()),
        Some(item) => violation("failure_left_no_trace", format!("{} of {:?}", item.id, ids(bundle))),
    }
}

/// A rejection was right at some seq between the request and its answer, and points to the envelope that caused it.
pub(in crate::sim) fn rejection_is_justified(
    model: &Model,
    bundle: &Bundle,
    asked: Seq,
    rejection: &Rejection,
    pointer: &str,
) -> CheckResult {
    let index = bundle.item_index(pointer);
    let Some(item) = bundle.items.get(index) else {
        return violation(
            "rejection_is_justified",
            format!("{:?} were rejected with {rejection:?} at {pointer}", ids(bundle)),
        );
    };
    let is_right = |at: Seq| {
        is_rejected_at(model, bundle, index, at, rejection) || is_sender_rejected_at(model, bundle, at, rejection)
    };
    if matches!(rejection.code, Code::BadSignature | Code::UnknownKey) && item.forged {
        return Ok(());
    }
    let has_other_use = rejection.code == Code::IdempotencyMismatch && is_key_taken(model, bundle, index);
    if has_other_use || (asked.0..=model.head().0).rev().map(Seq).any(is_right) {
        return Ok(());
    }
    violation(
        "rejection_is_justified",
        format!("{} ({:?}) was rejected with {rejection:?} at {pointer}", item.id, item.ingest),
    )
}

/// Whether this envelope of the bundle is rejected with this code, after those before it.
fn is_rejected_at(model: &Model, bundle: &Bundle, index: usize, at: Seq, rejection: &Rejection) -> bool {
    let upto = || bundle.items.iter().enumerate().take(index + 1);
    // An envelope with a used key is answered without a decision.
    let is_new = |(position, item): &(usize, &BundleItem)| {
        let Some(key) = &item.key else { return true };
        let before = |other: &BundleItem| other.key.as_ref().is_some_and(|other| other.scope == key.scope);
        model.key_use(&key.scope).is_none_or(|(used, _)| *used > at) && !bundle.items.iter().take(*position).any(before)
    };
    let decided: Vec<usize> = upto().filter(is_new).map(|(position, _)| position).collect();
    let commands: Vec<AnyCommand> = decided.iter().filter_map(|position| bundle.items[*position].command()).collect();
    let with_command: Vec<usize> =
        decided.into_iter().filter(|position| bundle.items[*position].command().is_some()).collect();
    let (ended, redecision) = model.decide_all_at(at, &bundle.caller, &commands);
    let is_rejected = matches!(redecision, Redecision::Rejected(again) if again.code == rejection.code);
    is_rejected && with_command.get(ended) == Some(&index)
}

/// Whether the sender's return, which precedes all decisions, is rejected with this code.
fn is_sender_rejected_at(model: &Model, bundle: &Bundle, at: Seq, rejection: &Rejection) -> bool {
    let Some(agent) = sender(&bundle.caller) else { return false };
    let command = ReturnAgent { agent: agent.clone() }.into();
    let redecision = model.decide_at(at, &bundle.caller, &command, Timestamp(0));
    matches!(redecision, Redecision::Rejected(again) if again.code == rejection.code)
}

fn sender(caller: &Caller) -> Option<&AgentId> {
    caller.actor.agent()
}

/// Whether the key of an envelope was used for another command.
fn is_key_taken(model: &Model, bundle: &Bundle, index: usize) -> bool {
    let Some(key) = bundle.items.get(index).and_then(|item| item.key.as_ref()) else { return false };
    let earlier = bundle.items.iter().take(index).filter_map(|item| item.key.as_ref());
    let known = model.key_use(&key.scope).map(|(_, used)| used);
    earlier.chain(known).any(|used| used.scope == key.scope && used.command_hash != key.command_hash)
}

/// Each received envelope is found by its id at its seq, byte for byte, unless it was redacted.
pub(in crate::sim) fn envelopes_are_shown_as_sent(
    model: &Model,
    read: impl Fn(&MessageId) -> Option<(Seq, Envelope)>,
) -> CheckResult {
    for row in model.log() {
        let Some(event) = received(row) else { continue };
        let same = match read(&event.message) {
            Some((seq, Envelope::Verbatim(bytes))) => seq == row.seq && Some(bytes.as_slice()) == body_of(row),
            Some((seq, Envelope::Shown(_))) => seq == row.seq && was_redacted(model, seq),
            None => false,
        };
        if !same {
            return violation("envelopes_are_shown_as_sent", format!("{} at {}", event.message, row.seq));
        }
    }
    Ok(())
}
