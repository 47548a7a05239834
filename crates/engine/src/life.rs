//! Which agents the team has, as the log told so far. A cache for the sweeper and for signs of life; rules do not read it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::agent::{Agent, Membership};
use rookery_core::{AgentId, Fact};

#[derive(Debug, Default)]
pub struct Roster {
    agents: Mutex<BTreeMap<AgentId, Known>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    place: Place,
    sealed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Here,
    Offline,
}

impl Known {
    /// `None` if it has left.
    fn of(agent: &Agent) -> Option<Known> {
        let place = match agent.membership {
            Membership::Here => Place::Here,
            Membership::Offline(_) => Place::Offline,
            Membership::Left(_) => return None,
        };
        Some(Known { place, sealed: agent.sealed })
    }
}

impl Roster {
    pub fn learn(&self, agent: &Agent) {
        if let Some(known) = Known::of(agent) {
            self.lock().insert(agent.id.clone(), known);
        }
    }

    /// Takes these for the whole team: whoever is not among them has left while nobody followed the log.
    pub fn learn_all(&self, agents: &[Agent]) {
        let team = agents.iter().filter_map(|agent| Some((agent.id.clone(), Known::of(agent)?)));
        *self.lock() = team.collect();
    }

    pub fn follow(&self, fact: &Fact) {
        match fact {
            Fact::AgentRegistered(fact) => {
                self.lock().insert(fact.id.clone(), Known { place: Place::Here, sealed: fact.sealed });
            }
            Fact::AgentUpdated(fact) => {
                if let Some(known) = self.lock().get_mut(&fact.id) {
                    known.sealed = fact.sealed;
                }
            }
            Fact::AgentReturned(fact) => self.joined(&fact.agent),
            Fact::AgentWentOffline(fact) => self.went(&fact.agent),
            Fact::AgentLeft(fact) => self.left(&fact.agent),
            _ => {}
        }
    }

    pub fn went(&self, agent: &AgentId) {
        self.place(agent, Place::Offline);
    }

    pub fn returned(&self, agent: &AgentId) {
        self.place(agent, Place::Here);
    }

    pub fn left(&self, agent: &AgentId) {
        self.lock().remove(agent);
    }

    fn place(&self, agent: &AgentId, place: Place) {
        if let Some(known) = self.lock().get_mut(agent) {
            known.place = place;
        }
    }

    pub fn joined(&self, agent: &AgentId) {
        let mut known = self.lock();
        known.entry(agent.clone()).or_insert(Known { place: Place::Here, sealed: false }).place = Place::Here;
    }

    pub fn knows(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent)
    }

    pub fn is_here(&self, agent: &AgentId) -> bool {
        self.lock().get(agent).is_some_and(|known| known.place == Place::Here)
    }

    pub fn is_offline(&self, agent: &AgentId) -> bool {
        self.lock().get(agent).is_some_and(|known| known.place == Place::Offline)
    }

    /// Bound to a credential: its id alone proves nothing.
    pub fn is_sealed(&self, agent: &AgentId) -> bool {
        self.lock().get(agent).is_some_and(|known| known.sealed)
    }

    pub fn live(&self) -> Vec<AgentId> {
        let known = self.lock();
        known.iter().filter(|(_, known)| known.place == Place::Here).map(|(agent, _)| agent.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Known>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
