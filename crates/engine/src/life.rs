//! Which agents the team has, as the log told so far. A cache for the sweeper and for signs of life; rules do not read it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::agent::{Agent, Membership};
use rookery_core::{AgentId, Fact};

#[derive(Debug, Default)]
pub struct Roster {
    agents: Mutex<BTreeMap<AgentId, Place>>,
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
                Membership::Here => drop(known.insert(agent.id.clone(), Place::Here)),
                Membership::Offline(_) => drop(known.insert(agent.id.clone(), Place::Offline)),
                Membership::Left(_) => {}
            }
        }
    }

    pub fn follow(&self, fact: &Fact) {
        match fact {
            Fact::AgentRegistered(fact) => self.joined(&fact.id),
            Fact::AgentReturned(fact) => self.joined(&fact.agent),
            Fact::AgentWentOffline(fact) => drop(self.lock().insert(fact.agent.clone(), Place::Offline)),
            Fact::AgentLeft(fact) => drop(self.lock().remove(&fact.agent)),
            _ => {}
        }
    }

    pub fn joined(&self, agent: &AgentId) {
        self.lock().insert(agent.clone(), Place::Here);
    }

    pub fn knows(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent)
    }

    pub fn is_offline(&self, agent: &AgentId) -> bool {
        self.lock().get(agent) == Some(&Place::Offline)
    }

    pub fn live(&self) -> Vec<AgentId> {
        self.lock().iter().filter(|(_, place)| **place == Place::Here).map(|(agent, _)| agent.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Place>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
