//! What this node knows of how deliveries go: how often a message was handed to its recipient or tried to be, why that failed,
//! and when it is tried next. Operational, and only in memory: losing it costs that pauses begin anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::{AgentId, MessageId, Timestamp};

/// Of how many deliveries something is known. What was handed over longest ago is forgotten first.
const DELIVERIES: usize = 100_000;

/// How one delivery goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Handing {
    /// How often it was handed over, or tried to be.
    pub attempts: u32,
    pub last_at: Timestamp,
    pub error: Option<String>,
    pub next_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub struct Handed {
    known: Mutex<BTreeMap<(AgentId, MessageId), Handing>>,
}

impl Handed {
    pub fn of(&self, agent: &AgentId, message: &MessageId) -> Option<Handing> {
        self.lock().get(&(agent.clone(), message.clone())).cloned()
    }

    /// The agent was given it; whether it has it is another question.
    pub(crate) fn notified(&self, agent: &AgentId, message: &MessageId, at: Timestamp) {
        self.change(agent, message, |handing| {
            handing.attempts = handing.attempts.saturating_add(1);
            handing.last_at = at;
        });
    }

    pub(crate) fn put(&self, agent: &AgentId, message: &MessageId, handing: Handing) {
        self.change(agent, message, |known| *known = handing);
    }

    pub(crate) fn forget<'m>(&self, agent: &AgentId, messages: impl IntoIterator<Item = &'m MessageId>) {
        let mut known = self.lock();
        for message in messages {
            known.remove(&(agent.clone(), message.clone()));
        }
    }

    fn change(&self, agent: &AgentId, message: &MessageId, change: impl FnOnce(&mut Handing)) {
        let mut known = self.lock();
        if known.len() >= DELIVERIES && !known.contains_key(&(agent.clone(), message.clone())) {
            let oldest = known.values().map(|handing| handing.last_at).min().unwrap_or_default();
            known.retain(|_, handing| handing.last_at != oldest);
        }
        change(known.entry((agent.clone(), message.clone())).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(AgentId, MessageId), Handing>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
