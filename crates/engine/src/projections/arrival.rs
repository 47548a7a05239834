//! Whom a fact puts something before: where whoever waits for messages looks again.

use rookery_core::model::message::{Header, Recipients};
use rookery_core::{AgentId, AnyEvent, EventRef};

/// Those for whom something may wait that did not before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrival<'f> {
    Nobody,
    Agents(Vec<&'f AgentId>),
    Everyone,
}

impl<'f> Arrival<'f> {
    pub fn of(fact: &'f AnyEvent) -> Arrival<'f> {
        match fact.typed() {
            EventRef::MessageSent(fact) => Arrival::of_letter(&fact.letter.header),
            EventRef::MessageReleased(fact) => Arrival::of_letter(&fact.header),
            EventRef::EnvelopeReceived(fact) => Arrival::agents(fact.delivered.iter()),
            EventRef::ToolDenied(fact) => Arrival::agents(&fact.delivered),
            EventRef::TaskForwarded(fact) => Arrival::agents([&fact.to]),
            EventRef::DeliveryRetried(fact) => Arrival::agents([&fact.agent]),
            // What waited for it, and what was said to everybody before it came.
            EventRef::AgentRegistered(fact) => Arrival::agents([&fact.id]),
            _ => Arrival::Nobody,
        }
    }

    fn of_letter(header: &'f Header) -> Arrival<'f> {
        match &header.to {
            Recipients::Agents(agents) => Arrival::agents(agents.iter().chain(&header.unknown)),
            Recipients::Everyone => Arrival::Everyone,
        }
    }

    fn agents(agents: impl IntoIterator<Item = &'f AgentId>) -> Arrival<'f> {
        let agents: Vec<&AgentId> = agents.into_iter().collect();
        if agents.is_empty() { Arrival::Nobody } else { Arrival::Agents(agents) }
    }

    pub fn concerns(&self, agent: &AgentId) -> bool {
        match self {
            Arrival::Nobody => false,
            Arrival::Agents(agents) => agents.contains(&agent),
            Arrival::Everyone => true,
        }
    }
}
