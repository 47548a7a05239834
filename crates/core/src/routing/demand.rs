//! What a task demands of whoever does it.

use crate::agent::{Agent, Role};
use crate::clutch::{Address, Group, Need, Policy};
use crate::id::AgentId;
use crate::task::Terms;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Demand {
    /// All of these must be met.
    pub requires: Vec<Need>,
    /// The more of these are met, the better.
    pub prefers: Vec<Need>,
    /// What the task is about. It counts as the one preference of a task that states none.
    pub domain: Option<String>,
    pub policy: Policy,
    /// The tools that the task needs, such as `mcp:browser`, beside those that are required.
    pub tools: Vec<String>,
    pub among: Among,
    /// Whom the task was given to before.
    pub tried: Vec<AgentId>,
}

/// Whom the choice is among. Everybody else is not looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Among {
    #[default]
    Anyone,
    /// An agent that was named, or the members of a group.
    Agents(Vec<AgentId>),
    Role(Role),
}

impl Demand {
    /// What a request demands, beside those whom it was given to in vain.
    pub fn of(terms: &Terms, tried: &[AgentId]) -> Demand {
        Demand {
            requires: terms.requires.clone(),
            prefers: terms.prefers.clone(),
            domain: terms.domain.clone(),
            policy: terms.policy.clone(),
            tools: vec![],
            among: Among::of(terms),
            tried: tried.to_vec(),
        }
    }
}

impl Among {
    /// Whom a request is to. Who is named goes before groups, and a group before everybody.
    pub fn of(terms: &Terms) -> Among {
        let named = |address: &Address| if let Address::Agent(id) = address { Some(id.clone()) } else { None };
        let agents: Vec<AgentId> = terms.to.iter().filter_map(named).collect();
        if !agents.is_empty() {
            return Among::Agents(agents);
        }
        let group =
            |address: &Address| if let Address::Group(name) = address { Some(Group::named(name)) } else { None };
        match terms.to.iter().find_map(group) {
            Some(Some(Group::Role(role))) => Among::Role(role),
            Some(Some(Group::Everyone)) | None => Among::Anyone,
            Some(None) => Among::Agents(terms.members.clone()),
        }
    }

    pub(crate) fn has(&self, agent: &Agent) -> bool {
        match self {
            Among::Anyone => true,
            Among::Agents(agents) => agents.contains(&agent.id),
            Among::Role(role) => agent.profile.role == *role,
        }
    }
}
