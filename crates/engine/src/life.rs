//! Which agents the team has, as the log told so far. A cache for the sweeper and for signs of life; rules do not read it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::agent::{Agent, Membership};
use rookery_core::{AgentId, Fact};

#[derive(Debug, Default)]
pub struct Roster {
    agents: Mutex<HashMap<AgentId, Member>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Member {
    place: Place,
    /// Bound to a credential.
    sealed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Here,
    Offline,
}

impl Roster {
    pub fn learn(&self, agents: &[Agent]) {
        let mut known = self.lock();
        for agent in agents {
            match agent.membership {
                Membership::Here => drop(known.insert(agent.id.clone(), member(Place::Here, agent.sealed))),
                Membership::Offline(_) => drop(known.insert(agent.id.clone(), member(Place::Offline, agent.sealed))),
                Membership::Left(_) => {}
            }
        }
    }

    pub fn follow(&self, fact: &Fact) {
        match fact {
            Fact::AgentRegistered(fact) => drop(self.lock().insert(fact.id.clone(), member(Place::Here, fact.sealed))),
            Fact::AgentUpdated(fact) => {
                if let Some(known) = self.lock().get_mut(&fact.id) {
                    known.sealed = fact.sealed;
                }
            }
            Fact::AgentReturned(fact) => self.joined(&fact.agent),
            Fact::AgentWentOffline(fact) => self.is_at(&fact.agent, Place::Offline),
            Fact::AgentLeft(fact) => drop(self.lock().remove(&fact.agent)),
            _ => {}
        }
    }

    pub fn joined(&self, agent: &AgentId) {
        self.is_at(agent, Place::Here);
    }

    fn is_at(&self, agent: &AgentId, place: Place) {
        let mut known = self.lock();
        known.entry(agent.clone()).and_modify(|member| member.place = place).or_insert(member(place, false));
    }

    pub fn is_sealed(&self, agent: &AgentId) -> bool {
        self.lock().get(agent).is_some_and(|member| member.sealed)
    }

    pub fn knows(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent)
    }

    pub fn is_offline(&self, agent: &AgentId) -> bool {
        self.lock().get(agent).is_some_and(|member| member.place == Place::Offline)
    }

    pub fn live(&self) -> Vec<AgentId> {
        self.lock().iter().filter(|(_, member)| member.place == Place::Here).map(|(agent, _)| agent.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentId, Member>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn member(place: Place, sealed: bool) -> Member {
    Member { place, sealed }
}
