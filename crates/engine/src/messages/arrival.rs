//! Whom a fact puts something before: where whoever waits for messages looks again.

use rookery_core::message::{Header, Recipients};
use rookery_core::{AgentId, AnyEvent};

/// Those for whom something may wait that did not before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrival<'f> {
    Nobody,
    Agents(Vec<&'f AgentId>),
    Everyone,
}

impl<'f> Arrival<'f> {
    pub fn of(fact: &'f AnyEvent) -> Arrival<'f> {
        match fact {
            AnyEvent::MessageSent(fact) => Arrival::of_letter(&fact.letter.header),
            AnyEvent::MessageReleased(fact) => Arrival::of_letter(&fact.header),
            AnyEvent::EnvelopeReceived(fact) => Arrival::agents(fact.delivered.iter()),
            AnyEvent::ToolDenied(fact) => Arrival::agents(&fact.delivered),
            AnyEvent::TaskForwarded(fact) => Arrival::agents([&fact.to]),
            AnyEvent::DeliveryRetried(fact) => Arrival::agents([&fact.agent]),
            // What waited for it, and what was said to everybody before it came.
            AnyEvent::AgentRegistered(fact) => Arrival::agents([&fact.id]),
            other => Arrival::agents(other.tells()),
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
