//! Messages on their way to agents: moves posts and answers, lets endpoints reply, and lets agents open their inboxes.

use rand::Rng;
use rand::seq::SliceRandom;
use rookery_core::messages::{AckMessages, Shown};
use rookery_core::{AgentId, MessageId};

use super::World;
use crate::sim::Sabotage;
use crate::sim::bundle::Bundle;
use crate::sim::check::{CheckResult, deliveries};
use crate::sim::endpoints::{ArrivedPost, EndpointState};
use crate::sim::node::ClientRequest;
use crate::sim::script::{self, ScriptedRequest};

/// The page size of an inbox.
const INBOX_PAGE_SIZE: u32 = 20;

impl World {
    /// Sometimes makes an endpoint fail for a limited time.
    pub(super) fn disturb_endpoints(&mut self) {
        if self.rng.random_bool(0.05) {
            let agent = self.agents[self.rng.random_range(0..self.agents.len())].id.clone();
            let state = if self.rng.random_bool(0.5) { EndpointState::Failing } else { EndpointState::Down };
            let until = self.now + self.rng.random_range(1_000..40_000);
            self.endpoints.set_state(agent, state, until);
        }
    }

    /// Moves new posts of the nodes into the network.
    pub(super) fn collect_posts(&mut self) -> CheckResult {
        for (number, attempt) in self.endpoints.network.take_new_posts() {
            deliveries::settled_deliveries_are_not_posted(&self.model, &attempt)?;
            self.summary.posts += 1;
            let state = match self.plan.sabotage {
                Some(Sabotage::SwallowPosts) => EndpointState::Swallowing,
                _ => self.endpoint_state(&attempt.agent),
            };
            self.endpoints.send(&mut self.rng, (number, attempt), state, self.now);
        }
        Ok(())
    }

    /// The state of an agent's endpoint. It ends with its agent; while faults are off, those of steady agents are perfect.
    fn endpoint_state(&self, id: &AgentId) -> EndpointState {
        match self.agents.iter().find(|agent| agent.id == *id) {
            Some(agent) if agent.is_steady && self.is_settling => EndpointState::Perfect,
            Some(agent) if agent.dies_at > self.now && !self.is_settling => self.endpoints.state(id, self.now),
            _ => EndpointState::Down,
        }
    }

    /// Delivers posts and answers that are due.
    pub(super) fn advance_endpoints(&mut self) -> CheckResult {
        for arrived in self.endpoints.take_arrivals(self.now) {
            deliveries::task_order_is_kept(&self.model, &self.endpoints, &arrived.attempt)?;
            let record = self.endpoints.record(&arrived.attempt.agent, &arrived.attempt.message);
            self.summary.repeated_posts += u64::from(record.arrived > 0);
            self.endpoints.note_arrival(&arrived);
            if arrived.accepts {
                self.reply(&arrived);
            }
        }
        self.summary.answers_after_timeout += self.endpoints.deliver_answers(self.now);
        Ok(())
    }

    /// Lets an agent reply to a message. An agent that is unsure whether it has replied repeats the same reply.
    fn reply(&mut self, arrived: &ArrivedPost) {
        let (id, message) = (&arrived.attempt.agent, &arrived.attempt.message);
        let Some(agent) = self.agents.iter().find(|agent| agent.id == *id) else { return };
        let Some(reply) = script::reply(id, message, &arrived.attempt.body) else { return };
        let caller = agent.caller();
        let again = self.endpoints.record(id, message).accepted > 1;
        let twice = self.rng.random_bool(0.3);
        self.summary.repeated_replies += u64::from(again || twice);
        // Even the first one counts as repeated: another may follow before it is done.
        let bundle = Bundle { repeated: true, ..self.make_bundle(caller, &[reply]) };
        let request = ClientRequest::Bundle(bundle);
        if twice {
            self.enqueue(request.clone(), 0);
        }
        self.enqueue(request, 0);
    }

    /// Lets an agent open its inbox and acknowledge some messages, in any order, and some of them twice.
    pub(super) fn open_inbox(&mut self, number: usize) -> CheckResult {
        let Some(node) = self.reachable_node() else { return Ok(()) };
        let id = self.agents[number].id.clone();
        let pulled = self.nodes[node].process.as_ref().and_then(|process| process.read_inbox(&id, INBOX_PAGE_SIZE));
        let Some(mut messages) = pulled else { return Ok(()) };
        deliveries::inbox_shows_open_deliveries(&self.model, &id, &messages, INBOX_PAGE_SIZE as usize)?;
        messages.shuffle(&mut self.rng);
        messages.truncate(self.rng.random_range(0..=messages.len()));
        let twice: Vec<MessageId> = messages.iter().take(self.rng.random_range(0..2)).cloned().collect();
        messages.extend(twice);
        if !messages.is_empty() {
            self.serial += 1;
            let ack = AckMessages { agent: id, messages, shown: Shown::Now };
            self.send(ScriptedRequest::command(self.agents[number].caller(), ack));
        }
        Ok(())
    }
}
