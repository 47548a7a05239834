//! What this node knows of how deliveries go: how often a message was handed to its recipient or tried to be, why that failed,
//! when it is tried next, and whose endpoint is left alone until when. Operational, and only in memory: losing it costs that pauses begin anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::{AgentId, MessageId, Timestamp};

/// Of how many deliveries something is known. What was handed over longest ago is forgotten first.
const DELIVERIES: usize = 100_000;

/// How one delivery goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AttemptState {
    /// How often it was handed over, or tried to be.
    pub attempts: u32,
    pub last_at: Timestamp,
    pub error: Option<String>,
    pub next_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub struct AttemptLog {
    known: Mutex<Known>,
}

type Delivery = (AgentId, MessageId);

#[derive(Debug, Default)]
struct Known {
    handings: BTreeMap<Delivery, AttemptState>,
    /// The same by when they were handed over last.
    oldest: BTreeSet<(Timestamp, Delivery)>,
    /// Agents whose endpoint failed so often that nothing is posted to it until then.
    spared: BTreeMap<AgentId, Timestamp>,
}

impl Known {
    fn take(&mut self, delivery: &Delivery) -> Option<AttemptState> {
        let handing = self.handings.remove(delivery)?;
        self.oldest.remove(&(handing.last_at, delivery.clone()));
        Some(handing)
    }

    fn put(&mut self, delivery: Delivery, handing: AttemptState) {
        self.oldest.insert((handing.last_at, delivery.clone()));
        self.handings.insert(delivery, handing);
        while self.handings.len() > DELIVERIES
            && let Some((_, forgotten)) = self.oldest.pop_first()
        {
            self.handings.remove(&forgotten);
        }
    }
}

impl AttemptLog {
    pub fn of(&self, agent: &AgentId, message: &MessageId) -> Option<AttemptState> {
        self.lock().handings.get(&(agent.clone(), message.clone())).cloned()
    }

    /// The agent was given it; whether it has it is another question.
    pub(crate) fn notified(&self, agent: &AgentId, message: &MessageId, at: Timestamp) {
        let (mut known, delivery) = (self.lock(), (agent.clone(), message.clone()));
        let handing = known.take(&delivery).unwrap_or_default();
        known.put(delivery, AttemptState { attempts: handing.attempts.saturating_add(1), last_at: at, ..handing });
    }

    pub(crate) fn put(&self, agent: &AgentId, message: &MessageId, handing: AttemptState) {
        let (mut known, delivery) = (self.lock(), (agent.clone(), message.clone()));
        known.take(&delivery);
        known.put(delivery, handing);
    }

    /// Until when nothing is posted to the endpoint of an agent, because it failed so often.
    pub fn circuit_open(&self, agent: &AgentId) -> Option<Timestamp> {
        self.lock().spared.get(agent).copied()
    }

    pub(crate) fn spare(&self, agent: &AgentId, until: Option<Timestamp>) {
        let mut known = self.lock();
        match until {
            Some(until) => drop(known.spared.insert(agent.clone(), until)),
            None => drop(known.spared.remove(agent)),
        }
    }

    /// Whoever delivers from now on knows of no endpoint that failed.
    pub(crate) fn spare_nobody(&self) {
        self.lock().spared.clear();
    }

    pub(crate) fn forget<'m>(&self, agent: &AgentId, messages: impl IntoIterator<Item = &'m MessageId>) {
        let mut known = self.lock();
        for message in messages {
            known.take(&(agent.clone(), message.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handed_over_longest_ago_is_forgotten_first() {
        let (handed, agent) = (AttemptLog::default(), AgentId::from("ken"));
        let message = |number: usize| MessageId::new(format!("m{number}"));
        let at = |number: usize| Timestamp(i64::try_from(number).unwrap());
        for number in 0..DELIVERIES {
            handed.notified(&agent, &message(number), at(number));
        }
        handed.notified(&agent, &message(0), at(DELIVERIES));
        handed.notified(&agent, &message(DELIVERIES), at(DELIVERIES + 1));
        let attempts = |number: usize| handed.of(&agent, &message(number)).map(|handing| handing.attempts);
        assert_eq!((attempts(0), attempts(1), attempts(2)), (Some(2), None, Some(1)));
        handed.forget(&agent, [&message(2)]);
        assert_eq!((attempts(2), attempts(DELIVERIES)), (None, Some(1)));
        let known = handed.lock();
        assert_eq!((known.handings.len(), known.oldest.len()), (DELIVERIES - 1, DELIVERIES - 1));
    }
}
