//! Checks of teams and turns: one kickoff for each generation, one turn at a time for each agent, one end for each turn, and an
//! end that settles the turn's own messages.

use rookery_core::messages::MessagesAcked;
use rookery_core::model::DeliveryId;
use rookery_core::model::message::Delivery;
use rookery_core::{AgentId, EventRef, Key, MessageId, Row};
use std::collections::BTreeSet;

use rookery_core::model::turn::{Turn, TurnConclusion};
use rookery_core::teams::TurnEnded;
use rookery_core::traits::LogRow;

use super::{CheckResult, violation};
use crate::sim::model::Model;

/// A team is kicked off once, while it is live. Runs before the row is added to the model.
pub(in crate::sim) fn kickoffs_are_posted_once(model: &Model, row: &LogRow) -> CheckResult {
    let EventRef::TeamKickedOff(event) = row.event.typed() else { return Ok(()) };
    match model.row(&Key::Team(event.of.team.clone())) {
        Some(Row::Team(team)) if team.is_live() && team.of == event.of && team.kickoff.is_none() => Ok(()),
        team => violation("kickoffs_are_posted_once", format!("at {}: {event:?} of {team:?}", row.seq)),
    }
}

/// A turn ends once, in its own team and agent. Runs before the row is added to the model.
pub(in crate::sim) fn turns_end_once(model: &Model, row: &LogRow) -> CheckResult {
    let EventRef::TurnEnded(event) = row.event.typed() else { return Ok(()) };
    match turn(model, event) {
        Some(turn) if turn.end.is_none() && turn.of == event.of && turn.agent == event.agent => Ok(()),
        turn => violation("turns_end_once", format!("at {}: {event:?} of {turn:?}", row.seq)),
    }
}

/// No agent is in two live teams or two open turns, or in an open turn of a team that has ended. Runs with the last event
/// of each command.
pub(in crate::sim) fn agents_have_one_turn(model: &Model, last: &LogRow) -> CheckResult {
    if first_of(model, last).event.of_team().is_none() {
        return Ok(());
    }
    let check = "agents_have_one_turn";
    let (mut engaged, mut busy): (BTreeSet<&AgentId>, BTreeSet<&AgentId>) = (BTreeSet::new(), BTreeSet::new());
    for (_, row) in model.rows() {
        match row {
            Row::Team(team) if team.is_live() => {
                if let Some(twice) = team.members.iter().find(|member| !engaged.insert(&member.agent)) {
                    return violation(
                        check,
                        format!("at {}: {} is in {} and another", last.seq, twice.agent, team.id()),
                    );
                }
            }
            Row::Turn(turn) if turn.end.is_none() => {
                let known = match model.row(&Key::Team(turn.of.team.clone())) {
                    Some(Row::Team(team)) if team.is_live() && team.of == turn.of => team.member(&turn.agent),
                    _ => None,
                };
                let recorded = known.and_then(|member| member.turn.as_ref());
                if !busy.insert(&turn.agent) || recorded != Some(&turn.id) {
                    return violation(check, format!("at {}: {turn:?}, its team has {recorded:?}", last.seq));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A completed turn leaves none of its messages unsettled; one that gave up leaves each settled or dead. An end touches no
/// other messages, and none is both acknowledged and given up. Runs with the last event of each command.
pub(in crate::sim) fn turns_settle_their_own_messages(model: &Model, last: &LogRow) -> CheckResult {
    let first = first_of(model, last);
    let EventRef::TurnEnded(event) = first.event.typed() else { return Ok(()) };
    let Some(turn) = turn(model, event) else { return Ok(()) };
    let check = "turns_settle_their_own_messages";
    let (mut acked, mut given_up): (BTreeSet<&MessageId>, BTreeSet<&MessageId>) = (BTreeSet::new(), BTreeSet::new());
    for row in model.events_of_command(first.seq) {
        match row.event.typed() {
            EventRef::MessagesAcked(MessagesAcked(receipt)) => {
                acked.extend(receipt.messages.iter().chain(&receipt.broadcasts))
            }
            EventRef::DeliveryAbandoned(event) => drop(given_up.insert(&event.message)),
            _ => {}
        }
    }
    let is_own = |message: &&&MessageId| turn.messages.contains(message);
    let foreign = acked.union(&given_up).find(|message| !is_own(message));
    let fits_conclusion = match event.how {
        TurnConclusion::Done => given_up.is_empty(),
        TurnConclusion::Failed if event.gave_up => acked.is_empty(),
        TurnConclusion::Failed | TurnConclusion::Interrupted => acked.is_empty() && given_up.is_empty(),
    };
    let left = turn.messages.iter().filter_map(|message| delivery(model, message, &turn.agent)).find(|delivery| {
        match event.how {
            TurnConclusion::Done => !delivery.is_settled(),
            TurnConclusion::Failed if event.gave_up => !delivery.is_settled() && !delivery.is_dead(),
            TurnConclusion::Failed | TurnConclusion::Interrupted => false,
        }
    });
    if foreign.is_none() && fits_conclusion && left.is_none() {
        return Ok(());
    }
    violation(check, format!("at {}: {event:?} acked {acked:?}, gave up {given_up:?}, left {left:?}", first.seq))
}

/// The first event of the same command.
fn first_of<'a>(model: &'a Model, last: &'a LogRow) -> &'a LogRow {
    let at = usize::try_from(last.first().0).ok().and_then(|seq| seq.checked_sub(1));
    at.and_then(|at| model.log().get(at)).unwrap_or(last)
}

fn turn<'a>(model: &'a Model, event: &TurnEnded) -> Option<&'a Turn> {
    match model.row(&Key::Turn(event.turn.clone())) {
        Some(Row::Turn(turn)) => Some(turn),
        _ => None,
    }
}

fn delivery<'a>(model: &'a Model, message: &MessageId, agent: &AgentId) -> Option<&'a Delivery> {
    match model.row(&Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() })) {
        Some(Row::Delivery(delivery)) => Some(delivery),
        _ => None,
    }
}
