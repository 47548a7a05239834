//! What must hold of messages on their way to agents: none is lost, none is posted again once it is known to be over, and what is
//! about one task arrives in its order.

use rookery_core::messages::MessagesAcked;
use rookery_core::model::DeliveryId;
use rookery_core::model::message::{AddressedAs, Delivery};
use rookery_core::traits::LogRow;
use rookery_core::{Actor, AgentId, EventRef, Key, MessageId, Row, Seq};
use rookery_engine::endpoints::HttpAttempt;

use super::{Checked, violated};
use crate::sim::endpoints::Endpoints;
use crate::sim::model::Model;

fn delivery<'a>(model: &'a Model, message: &MessageId, agent: &AgentId) -> Option<&'a Delivery> {
    match model.row(&Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() })) {
        Some(Row::Delivery(delivery)) => Some(delivery),
        _ => None,
    }
}

/// What the log tells to every agent by name, and is not acknowledged.
fn unacknowledged<'a>(model: &'a Model, agent: &'a AgentId) -> impl Iterator<Item = &'a Delivery> {
    let deliveries =
        model.rows().filter_map(|(_, row)| if let Row::Delivery(delivery) = row { Some(delivery) } else { None });
    deliveries.filter(move |delivery| {
        let named = matches!(delivery.to, AddressedAs::Recipient { .. });
        named && delivery.agent == *agent && !delivery.is_settled()
    })
}

fn was_given_up_on(model: &Model, message: &MessageId, agent: &AgentId) -> bool {
    let given_up = |row: &LogRow| matches!(row.event.typed(), EventRef::DeliveryAbandoned(fact) if fact.message == *message && fact.agent == *agent);
    model.log().iter().any(given_up)
}

/// Nothing is posted that the log says is acknowledged or given up on. Told with each post.
pub(in crate::sim) fn nothing_is_posted_after_its_end(model: &Model, posting: &HttpAttempt) -> Checked {
    match delivery(model, &posting.message, &posting.agent) {
        Some(delivery) if delivery.is_settled() || delivery.is_dead() => {
            let what = format!("{} to {}, which is {}", posting.message, posting.agent, delivery.state());
            violated("nothing_is_posted_after_its_end", what)
        }
        _ => Ok(()),
    }
}

/// Of what is about one task nothing overtakes what was sent to the same agent before it, unless that was over. Told when a
/// message arrives, before it is noted. What comes again, or after its end, is in no order.
pub(in crate::sim) fn order_of_a_task_is_kept(model: &Model, endpoints: &Endpoints, posting: &HttpAttempt) -> Checked {
    let (message, agent) = (&posting.message, &posting.agent);
    let Some(arrived) = delivery(model, message, agent) else { return Ok(()) };
    if arrived.task.is_none()
        || endpoints.known(agent, message).arrived > 0
        || arrived.is_settled()
        || was_given_up_on(model, message, agent)
    {
        return Ok(());
    }
    let overtaken = unacknowledged(model, agent).find(|before| {
        before.task == arrived.task
            && before.sent < arrived.sent
            && endpoints.known(agent, &before.message).arrived == 0
            && !was_given_up_on(model, &before.message, agent)
    });
    match overtaken {
        None => Ok(()),
        Some(before) => {
            let what = format!("{message} came to {agent} before {} of {:?}", before.message, before.task);
            violated("order_of_a_task_is_kept", what)
        }
    }
}

/// The daemon acknowledges in an agent's name what that agent's endpoint took, and gives up on what it posted as often as
/// it says. Told with each new row. What the runner of an agent says of its turns is another matter.
pub(in crate::sim) fn ends_are_as_endpoints_saw_them(endpoints: &Endpoints, row: &LogRow) -> Checked {
    let check = "ends_are_as_endpoints_saw_them";
    match row.event.typed() {
        EventRef::MessagesAcked(MessagesAcked(receipt)) if row.actor == Actor::System => {
            let mut messages = receipt.messages.iter().chain(&receipt.broadcasts);
            match messages.find(|message| endpoints.known(&receipt.agent, message).taken == 0) {
                None => Ok(()),
                Some(message) => violated(check, format!("{} never took {message}, see {}", receipt.agent, row.seq)),
            }
        }
        EventRef::DeliveryAbandoned(fact) if row.actor == Actor::System => {
            let posts = endpoints.known(&fact.agent, &fact.message).posts;
            if fact.attempts > 0 && posts >= fact.attempts {
                return Ok(());
            }
            violated(check, format!("{fact:?} after {posts} posts"))
        }
        _ => Ok(()),
    }
}

/// At rest nothing waits any more for agents whose endpoints take everything: it was delivered, or it is dead and can be seen.
pub(in crate::sim) fn nothing_is_lost(model: &Model, agents: &[AgentId]) -> Checked {
    for id in agents {
        let Some(Row::Agent(agent)) = model.row(&Key::Agent(id.clone())) else { continue };
        let card = agent.profile.card.as_ref().filter(|_| !agent.has_left());
        if card.is_none_or(|card| card.endpoints.clutch.is_none()) {
            continue;
        }
        if let Some(waits) = unacknowledged(model, id).find(|delivery| !delivery.is_dead()) {
            return violated("nothing_is_lost", format!("{} still waits for {id}", waits.message));
        }
        let waits = model.rows().find_map(|(_, row)| match row {
            Row::Message(message) => {
                let lasts = message.is_broadcast_for(id) && message.expires_at().is_none();
                let over = delivery(model, message.id(), id)
                    .is_some_and(|delivery| delivery.is_settled() || delivery.is_dead());
                (lasts && message.sent > agent.joined && !over).then(|| message.id())
            }
            _ => None,
        });
        if let Some(waits) = waits {
            return violated("nothing_is_lost", format!("{waits}, which is to everybody, still waits for {id}"));
        }
    }
    Ok(())
}

/// Who opens its inbox is shown what waits for it, all of it or the oldest, in the order in which it was queued.
pub(in crate::sim) fn pulls_show_what_waits(
    model: &Model,
    agent: &AgentId,
    pulled: &[MessageId],
    most: usize,
) -> Checked {
    let mut waiting: Vec<(Seq, &MessageId)> =
        unacknowledged(model, agent).map(|delivery| (delivery.sent, &delivery.message)).collect();
    waiting.sort();
    let waiting: Vec<&MessageId> = waiting.into_iter().map(|(_, message)| message).collect();
    let shown: Vec<&MessageId> = pulled.iter().filter(|message| waiting.contains(message)).collect();
    let whole = pulled.len() < most;
    if waiting.starts_with(&shown) && (!whole || shown.len() == waiting.len()) {
        return Ok(());
    }
    violated("pulls_show_what_waits", format!("{agent} was shown {shown:?} of {waiting:?}"))
}
