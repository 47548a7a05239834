//! What must hold of teams and turns: one kickoff for each generation, one turn at a time for each agent, one end for each turn,
//! and an end that decides about the turn's own messages.

use rookery_core::messages::MessagesAcked;
use rookery_core::model::DeliveryId;
use rookery_core::model::message::Delivery;
use rookery_core::{AgentId, EventRef, Key, MessageId, Row};
use std::collections::BTreeSet;

use rookery_core::model::turn::{Turn, TurnConclusion};
use rookery_core::teams::TurnEnded;
use rookery_core::traits::LogRow;

use super::{Checked, violated};
use crate::sim::model::Model;

/// Told before the row is taken in.
pub(in crate::sim) fn kickoffs_are_posted_once(model: &Model, row: &LogRow) -> Checked {
    let EventRef::TeamKickedOff(fact) = row.event.typed() else { return Ok(()) };
    match model.row(&Key::Team(fact.of.team.clone())) {
        Some(Row::Team(team)) if team.is_live() && team.of == fact.of && team.kickoff.is_none() => Ok(()),
        team => violated("kickoffs_are_posted_once", format!("at {}: {fact:?} of {team:?}", row.seq)),
    }
}

/// Told before the row is taken in.
pub(in crate::sim) fn turns_end_once(model: &Model, row: &LogRow) -> Checked {
    let EventRef::TurnEnded(fact) = row.event.typed() else { return Ok(()) };
    match turn(model, fact) {
        Some(turn) if turn.end.is_none() && turn.of == fact.of && turn.agent == fact.agent => Ok(()),
        turn => violated("turns_end_once", format!("at {}: {fact:?} of {turn:?}", row.seq)),
    }
}

/// No agent is in two live teams, or at two turns, or at one of a team that has ended. Told with each command's last fact.
pub(in crate::sim) fn agents_are_at_one_turn(model: &Model, last: &LogRow) -> Checked {
    if first_of(model, last).event.of_team().is_none() {
        return Ok(());
    }
    let check = "agents_are_at_one_turn";
    let (mut engaged, mut busy): (BTreeSet<&AgentId>, BTreeSet<&AgentId>) = (BTreeSet::new(), BTreeSet::new());
    for (_, row) in model.rows() {
        match row {
            Row::Team(team) if team.is_live() => {
                if let Some(twice) = team.members.iter().find(|member| !engaged.insert(&member.agent)) {
                    return violated(
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
                let said = known.and_then(|member| member.turn.as_ref());
                if !busy.insert(&turn.agent) || said != Some(&turn.id) {
                    return violated(check, format!("at {}: {turn:?}, its team says {said:?}", last.seq));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Done, a turn leaves none of its messages open; given up, none that is neither settled nor dead. Nobody else's are touched,
/// and none is both acknowledged and given up. Told with each command's last fact.
pub(in crate::sim) fn turns_settle_their_own_messages(model: &Model, last: &LogRow) -> Checked {
    let first = first_of(model, last);
    let EventRef::TurnEnded(fact) = first.event.typed() else { return Ok(()) };
    let Some(turn) = turn(model, fact) else { return Ok(()) };
    let check = "turns_settle_their_own_messages";
    let (mut acked, mut given_up): (BTreeSet<&MessageId>, BTreeSet<&MessageId>) = (BTreeSet::new(), BTreeSet::new());
    for row in model.decided_from(first.seq) {
        match row.event.typed() {
            EventRef::MessagesAcked(MessagesAcked(receipt)) => {
                acked.extend(receipt.messages.iter().chain(&receipt.broadcasts))
            }
            EventRef::DeliveryAbandoned(fact) => drop(given_up.insert(&fact.message)),
            _ => {}
        }
    }
    let own = |message: &&&MessageId| turn.messages.contains(message);
    let foreign = acked.union(&given_up).find(|message| !own(message));
    let fitting = match fact.how {
        TurnConclusion::Done => given_up.is_empty(),
        TurnConclusion::Failed if fact.gave_up => acked.is_empty(),
        TurnConclusion::Failed | TurnConclusion::Interrupted => acked.is_empty() && given_up.is_empty(),
    };
    let left = turn.messages.iter().filter_map(|message| delivery(model, message, &turn.agent)).find(|delivery| {
        match fact.how {
            TurnConclusion::Done => !delivery.is_settled(),
            TurnConclusion::Failed if fact.gave_up => !delivery.is_settled() && !delivery.is_dead(),
            TurnConclusion::Failed | TurnConclusion::Interrupted => false,
        }
    });
    if foreign.is_none() && fitting && left.is_none() {
        return Ok(());
    }
    violated(check, format!("at {}: {fact:?} acked {acked:?}, gave up {given_up:?}, left {left:?}", first.seq))
}

/// The first fact that the same command decided.
fn first_of<'a>(model: &'a Model, last: &'a LogRow) -> &'a LogRow {
    let at = usize::try_from(last.first().0).ok().and_then(|seq| seq.checked_sub(1));
    at.and_then(|at| model.log().get(at)).unwrap_or(last)
}

fn turn<'a>(model: &'a Model, fact: &TurnEnded) -> Option<&'a Turn> {
    match model.row(&Key::Turn(fact.turn.clone())) {
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
