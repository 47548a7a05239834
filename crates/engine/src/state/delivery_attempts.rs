//! The attempts of deliveries as this node knows them: how often each was tried, why it failed, when the next attempt is due, and
//! until when the circuit of an endpoint is open. Operational, and only in memory: after a restart, backoff starts over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::{AgentId, MessageId, Timestamp};

/// How many deliveries are remembered. The one attempted longest ago is forgotten first.
const DELIVERIES: usize = 100_000;

/// The attempts of one delivery.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AttemptState {
    /// How many attempts there were.
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
    states: BTreeMap<Delivery, AttemptState>,
    /// The same by their last attempt.
    oldest: BTreeSet<(Timestamp, Delivery)>,
    /// The circuits that are open, by agent: nothing is posted to its endpoint until then.
    open_circuits: BTreeMap<AgentId, Timestamp>,
}

impl Known {
    fn take(&mut self, delivery: &Delivery) -> Option<AttemptState> {
        let state = self.states.remove(delivery)?;
        self.oldest.remove(&(state.last_at, delivery.clone()));
        Some(state)
    }

    fn put(&mut self, delivery: Delivery, state: AttemptState) {
        self.oldest.insert((state.last_at, delivery.clone()));
        self.states.insert(delivery, state);
        while self.states.len() > DELIVERIES
            && let Some((_, forgotten)) = self.oldest.pop_first()
        {
            self.states.remove(&forgotten);
        }
    }
}

impl AttemptLog {
    pub fn of(&self, agent: &AgentId, message: &MessageId) -> Option<AttemptState> {
        self.lock().states.get(&(agent.clone(), message.clone())).cloned()
    }

    /// Counts an attempt. Whether the agent has the message is not known.
    pub(crate) fn notified(&self, agent: &AgentId, message: &MessageId, at: Timestamp) {
        let (mut known, delivery) = (self.lock(), (agent.clone(), message.clone()));
        let state = known.take(&delivery).unwrap_or_default();
        known.put(delivery, AttemptState { attempts: state.attempts.saturating_add(1), last_at: at, ..state });
    }

    pub(crate) fn put(&self, agent: &AgentId, message: &MessageId, state: AttemptState) {
        let (mut known, delivery) = (self.lock(), (agent.clone(), message.clone()));
        known.take(&delivery);
        known.put(delivery, state);
    }

    /// Until when nothing is posted to the endpoint of an agent, because it failed so often.
    pub fn circuit_open(&self, agent: &AgentId) -> Option<Timestamp> {
        self.lock().open_circuits.get(agent).copied()
    }

    pub(crate) fn set_circuit_open(&self, agent: &AgentId, until: Option<Timestamp>) {
        let mut known = self.lock();
        match until {
            Some(until) => drop(known.open_circuits.insert(agent.clone(), until)),
            None => drop(known.open_circuits.remove(agent)),
        }
    }

    /// Forgets all open circuits: a new courier starts without failures.
    pub(crate) fn close_circuits(&self) {
        self.lock().open_circuits.clear();
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
    fn delivery_attempted_longest_ago_is_forgotten_first() {
        let (log, agent) = (AttemptLog::default(), AgentId::from("ken"));
        let message = |number: usize| MessageId::new(format!("m{number}"));
        let at = |number: usize| Timestamp(i64::try_from(number).unwrap());
        for number in 0..DELIVERIES {
            log.notified(&agent, &message(number), at(number));
        }
        log.notified(&agent, &message(0), at(DELIVERIES));
        log.notified(&agent, &message(DELIVERIES), at(DELIVERIES + 1));
        let attempts = |number: usize| log.of(&agent, &message(number)).map(|state| state.attempts);
        assert_eq!((attempts(0), attempts(1), attempts(2)), (Some(2), None, Some(1)));
        log.forget(&agent, [&message(2)]);
        assert_eq!((attempts(2), attempts(DELIVERIES)), (None, Some(1)));
        let known = log.lock();
        assert_eq!((known.states.len(), known.oldest.len()), (DELIVERIES - 1, DELIVERIES - 1));
    }
}
