//! Checks of messages on their way to agents: no message is lost or posted after its delivery has ended, and messages about
//! one task arrive in order.

use rookery_core::messages::MessagesAcked;
use rookery_core::model::DeliveryId;
use rookery_core::model::message::{AddressedAs, Delivery};
use rookery_core::traits::LogRow;
use rookery_core::{Actor, AgentId, EventRef, Key, MessageId, Row, Seq};
use rookery_engine::endpoints::HttpAttempt;

use super::{CheckResult, violation};
use crate::sim::endpoints::Endpoints;
use crate::sim::model::Model;

fn delivery<'a>(model: &'a Model, message: &MessageId, agent: &AgentId) -> Option<&'a Delivery> {
    match model.row(&Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() })) {
        Some(Row::Delivery(delivery)) => Some(delivery),
        _ => None,
    }
}

/// The unsettled deliveries to an agent that was named as a recipient.
fn unacknowledged<'a>(model: &'a Model, agent: &'a AgentId) -> impl Iterator<Item = &'a Delivery> {
    let deliveries =
        model.rows().filter_map(|(_, row)| if let Row::Delivery(delivery) = row { Some(delivery) } else { None });
    deliveries.filter(move |delivery| {
        let named = matches!(delivery.to, AddressedAs::Recipient { .. });
        named && delivery.agent == *agent && !delivery.is_settled()
    })
}

fn was_given_up_on(model: &Model, message: &MessageId, agent: &AgentId) -> bool {
    let given_up = |row: &LogRow| matches!(row.event.typed(), EventRef::DeliveryAbandoned(event) if event.message == *message && event.agent == *agent);
    model.log().iter().any(given_up)
}

/// No delivery is posted that is acknowledged or dead in the log. Runs with each post.
pub(in crate::sim) fn settled_deliveries_are_not_posted(model: &Model, attempt: &HttpAttempt) -> CheckResult {
    match delivery(model, &attempt.message, &attempt.agent) {
        Some(delivery) if delivery.is_settled() || delivery.is_dead() => {
            let details = format!("{} to {}, which is {}", attempt.message, attempt.agent, delivery.state());
            violation("settled_deliveries_are_not_posted", details)
        }
        _ => Ok(()),
    }
}

/// A message about a task does not overtake an earlier, unsettled message about it to the same agent. Runs when a message
/// arrives, before it is recorded. Repeated messages, and those whose delivery has ended, have no order.
pub(in crate::sim) fn task_order_is_kept(model: &Model, endpoints: &Endpoints, attempt: &HttpAttempt) -> CheckResult {
    let (message, agent) = (&attempt.message, &attempt.agent);
    let Some(arrived) = delivery(model, message, agent) else { return Ok(()) };
    if arrived.task.is_none()
        || endpoints.record(agent, message).arrived > 0
        || arrived.is_settled()
        || was_given_up_on(model, message, agent)
    {
        return Ok(());
    }
    let overtaken = unacknowledged(model, agent).find(|before| {
        before.task == arrived.task
            && before.sent < arrived.sent
            && endpoints.record(agent, &before.message).arrived == 0
            && !was_given_up_on(model, &before.message, agent)
    });
    match overtaken {
        None => Ok(()),
        Some(before) => {
            let details = format!("{message} came to {agent} before {} of {:?}", before.message, before.task);
            violation("task_order_is_kept", details)
        }
    }
}

/// The daemon acknowledges only messages that the agent's endpoint accepted, and gives up only after as many posts as the
/// event says. Runs with each new row. Events of an agent's runner are not checked here.
pub(in crate::sim) fn endings_match_the_endpoints(endpoints: &Endpoints, row: &LogRow) -> CheckResult {
    let check = "endings_match_the_endpoints";
    match row.event.typed() {
        EventRef::MessagesAcked(MessagesAcked(receipt)) if row.actor == Actor::System => {
            let mut messages = receipt.messages.iter().chain(&receipt.broadcasts);
            match messages.find(|message| endpoints.record(&receipt.agent, message).accepted == 0) {
                None => Ok(()),
                Some(message) => {
                    violation(check, format!("{} never accepted {message}, see {}", receipt.agent, row.seq))
                }
            }
        }
        EventRef::DeliveryAbandoned(event) if row.actor == Actor::System => {
            let posts = endpoints.record(&event.agent, &event.message).posts;
            if event.attempts > 0 && posts >= event.attempts {
                return Ok(());
            }
            violation(check, format!("{event:?} after {posts} posts"))
        }
        _ => Ok(()),
    }
}

/// After the faults, every message to an agent with a perfect endpoint is delivered or dead.
pub(in crate::sim) fn no_message_is_lost(model: &Model, agents: &[AgentId]) -> CheckResult {
    for id in agents {
        let Some(Row::Agent(agent)) = model.row(&Key::Agent(id.clone())) else { continue };
        let card = agent.profile.card.as_ref().filter(|_| !agent.has_left());
        if card.is_none_or(|card| card.endpoints.clutch.is_none()) {
            continue;
        }
        if let Some(waits) = unacknowledged(model, id).find(|delivery| !delivery.is_dead()) {
            return violation("no_message_is_lost", format!("{} still waits for {id}", waits.message));
        }
        let waits = model.rows().find_map(|(_, row)| match row {
            Row::Message(message) => {
                let lasts = message.is_broadcast_for(id) && message.expires_at().is_none();
                let has_ended = delivery(model, message.id(), id)
                    .is_some_and(|delivery| delivery.is_settled() || delivery.is_dead());
                (lasts && message.sent > agent.joined && !has_ended).then(|| message.id())
            }
            _ => None,
        });
        if let Some(waits) = waits {
            return violation("no_message_is_lost", format!("{waits}, a broadcast, still waits for {id}"));
        }
    }
    Ok(())
}

/// An inbox shows the open deliveries in the order of their queueing, all of them or the oldest.
pub(in crate::sim) fn inbox_shows_open_deliveries(
    model: &Model,
    agent: &AgentId,
    pulled: &[MessageId],
    page_size: usize,
) -> CheckResult {
    let mut waiting: Vec<(Seq, &MessageId)> =
        unacknowledged(model, agent).map(|delivery| (delivery.sent, &delivery.message)).collect();
    waiting.sort();
    let waiting: Vec<&MessageId> = waiting.into_iter().map(|(_, message)| message).collect();
    let shown: Vec<&MessageId> = pulled.iter().filter(|message| waiting.contains(message)).collect();
    let whole = pulled.len() < page_size;
    if waiting.starts_with(&shown) && (!whole || shown.len() == waiting.len()) {
        return Ok(());
    }
    violation("inbox_shows_open_deliveries", format!("{agent} was shown {shown:?} of {waiting:?}"))
}
