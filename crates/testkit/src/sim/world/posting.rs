//! What the world does with messages on their way to agents: it moves posts and answers, lets endpoints reply, and lets agents
//! without one open their inboxes.

use rand::Rng;
use rand::seq::SliceRandom;
use rookery_core::messages::{AckMessages, Shown};
use rookery_core::{AgentId, MessageId};

use super::World;
use crate::sim::Sabotage;
use crate::sim::bundle::Bundle;
use crate::sim::check::{Checked, deliveries};
use crate::sim::endpoints::{Arrived, Mood};
use crate::sim::node::Parcel;
use crate::sim::script::{self, Wish};

/// How much an inbox shows at once.
const SHOWN: u32 = 20;

impl World {
    /// Now and then an endpoint begins to do badly, for a while.
    pub(super) fn moods(&mut self) {
        if self.rng.random_bool(0.05) {
            let agent = self.agents[self.rng.random_range(0..self.agents.len())].id.clone();
            let mood = if self.rng.random_bool(0.5) { Mood::Failing } else { Mood::Down };
            let until = self.now + self.rng.random_range(1_000..40_000);
            self.endpoints.is_in(agent, mood, until);
        }
    }

    /// The network takes what nodes have posted.
    pub(super) fn collects_posts(&mut self) -> Checked {
        for (number, posting) in self.endpoints.network.collect() {
            deliveries::nothing_is_posted_after_its_end(&self.model, &posting)?;
            self.summary.posts += 1;
            let mood = match self.plan.sabotage {
                Some(Sabotage::SwallowPosts) => Mood::Swallowing,
                _ => self.mood(&posting.agent),
            };
            self.endpoints.takes_up(&mut self.rng, (number, posting), mood, self.now);
        }
        Ok(())
    }

    /// An endpoint ends with its agent; at rest those of the steady do as they should.
    fn mood(&self, id: &AgentId) -> Mood {
        match self.agents.iter().find(|agent| agent.id == *id) {
            Some(agent) if agent.steady && self.resting => Mood::Perfect,
            Some(agent) if agent.dies_at > self.now && !self.resting => self.endpoints.mood(id, self.now),
            _ => Mood::Down,
        }
    }

    /// Posts arrive, and answers come back.
    pub(super) fn endpoints_move(&mut self) -> Checked {
        for arrived in self.endpoints.arrive(self.now) {
            deliveries::order_of_a_task_is_kept(&self.model, &self.endpoints, &arrived.posting)?;
            let known = self.endpoints.known(&arrived.posting.agent, &arrived.posting.message);
            self.summary.posted_again += u64::from(known.arrived > 0);
            self.endpoints.note(&arrived);
            if arrived.takes {
                self.replies(&arrived);
            }
        }
        self.summary.answers_unheard += self.endpoints.answer(self.now);
        Ok(())
    }

    /// An agent that does not know whether it has replied does so again, in the same words.
    fn replies(&mut self, arrived: &Arrived) {
        let (id, message) = (&arrived.posting.agent, &arrived.posting.message);
        let Some(agent) = self.agents.iter().find(|agent| agent.id == *id) else { return };
        let Some(reply) = script::reply(id, message, &arrived.posting.body) else { return };
        let caller = agent.caller();
        let again = self.endpoints.known(id, message).taken > 1;
        let twice = self.rng.random_bool(0.3);
        self.summary.replies_repeated += u64::from(again || twice);
        // Also the first may be followed by others before it comes to its end.
        let bundle = Bundle { repeated: true, ..self.bundles(caller, &[reply]) };
        let parcel = Parcel::Bundle(bundle);
        if twice {
            self.posts(parcel.clone(), 0);
        }
        self.posts(parcel, 0);
    }

    /// An agent opens its inbox and acknowledges some of what it finds, in any order, and some of it twice.
    pub(super) fn pulls(&mut self, number: usize) -> Checked {
        let Some(node) = self.reachable() else { return Ok(()) };
        let id = self.agents[number].id.clone();
        let pulled = self.nodes[node].process.as_ref().and_then(|process| process.pulls(&id, SHOWN));
        let Some(mut messages) = pulled else { return Ok(()) };
        deliveries::pulls_show_what_waits(&self.model, &id, &messages, SHOWN as usize)?;
        messages.shuffle(&mut self.rng);
        messages.truncate(self.rng.random_range(0..=messages.len()));
        let twice: Vec<MessageId> = messages.iter().take(self.rng.random_range(0..2)).cloned().collect();
        messages.extend(twice);
        if !messages.is_empty() {
            self.fresh += 1;
            let ack = AckMessages { agent: id, messages, shown: Shown::Now };
            self.sends(Wish::command(self.agents[number].caller(), ack));
        }
        Ok(())
    }
}
