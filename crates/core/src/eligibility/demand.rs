//! What a task demands of whoever does it.

use crate::kernel::id::AgentId;
use crate::model::addressee::Address;
use crate::model::agent::{Agent, AgentRole};
use crate::model::policy::Policy;
use crate::model::requirement::Requirement;
use crate::model::role_group::Group;
use crate::model::task::{RequestTerms, Task};

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TaskDemand {
    /// All of these must be met.
    pub requires: Vec<Requirement>,
    /// The more of these are met, the better.
    pub prefers: Vec<Requirement>,
    /// What the task is about. It counts as the one preference of a task that states none.
    pub domain: Option<String>,
    pub policy: Policy,
    /// The tools that the task needs, such as `mcp:browser`.
    pub tools: Vec<String>,
    pub among: Among,
    /// Whom the task was given to before.
    pub tried: Vec<AgentId>,
}

/// Whom the choice is among. Everybody else is not looked at.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Among {
    #[default]
    Anyone,
    /// Agents that were named.
    Agents(Vec<AgentId>),
    /// Everybody with one of these roles, and the members of lists.
    Groups { roles: Vec<AgentRole>, members: Vec<AgentId> },
}

/// What a task that waits is chosen for by. Tasks that want the same are given to the same.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RequiredCapability {
    demand: TaskDemand,
    /// Whose attempts failed: they get it only if there is nobody else.
    avoid: Vec<AgentId>,
}

impl TaskDemand {
    /// What a request demands, beside those whom it was given to in vain.
    pub fn of(terms: &RequestTerms, tried: &[AgentId]) -> TaskDemand {
        TaskDemand {
            requires: terms.requires.clone(),
            prefers: terms.prefers.clone(),
            domain: terms.domain.clone(),
            policy: terms.policy.clone(),
            // A request has no other word for the tools that it needs.
            tools: terms.requires.iter().filter(|need| need.is_tool()).map(|need| need.capability.clone()).collect(),
            among: Among::of(terms),
            tried: tried.to_vec(),
        }
    }
}

impl Among {
    /// Whom a request is to. Who is named goes before groups, and groups before everybody.
    pub fn of(terms: &RequestTerms) -> Among {
        let named = |address: &Address| if let Address::Agent(id) = address { Some(id.clone()) } else { None };
        let agents: Vec<AgentId> = terms.to.iter().filter_map(named).collect();
        if !agents.is_empty() {
            return Among::Agents(agents);
        }
        let group =
            |address: &Address| if let Address::Group(name) = address { Some(Group::named(name)) } else { None };
        let groups: Vec<Option<Group>> = terms.to.iter().filter_map(group).collect();
        if groups.is_empty() || groups.contains(&Some(Group::Everyone)) {
            return Among::Anyone;
        }
        let role = |group: Option<Group>| if let Some(Group::Role(role)) = group { Some(role) } else { None };
        Among::Groups { roles: groups.into_iter().filter_map(role).collect(), members: terms.members.clone() }
    }

    pub(crate) fn has(&self, agent: &Agent) -> bool {
        match self {
            Among::Anyone => true,
            Among::Agents(agents) => agents.contains(&agent.id),
            Among::Groups { roles, members } => roles.contains(&agent.profile.role) || members.contains(&agent.id),
        }
    }

    /// Those that are looked at by name, whether anybody knows them or not.
    pub(super) fn named(&self) -> &[AgentId] {
        match self {
            Among::Anyone => &[],
            Among::Agents(agents) => agents,
            Among::Groups { members, .. } => members,
        }
    }
}

impl RequiredCapability {
    /// What a task wants that was asked for on these terms: nobody who was asked in vain, and whoever failed at it only if
    /// there is nobody else.
    pub fn of(task: &Task, terms: &RequestTerms) -> RequiredCapability {
        let (mut demand, mut avoid) =
            (TaskDemand::of(terms, &task.routing.declined_by), task.routing.failed_for.clone());
        // Who was first does not matter, and tasks that differ only in that shall not differ.
        demand.tried.sort_unstable();
        avoid.sort_unstable();
        RequiredCapability { demand, avoid }
    }

    /// What is demanded at first, if that is more, and at last.
    pub(super) fn demands(&self) -> (Option<TaskDemand>, &TaskDemand) {
        let tried = || [self.demand.tried.as_slice(), &self.avoid].concat();
        let first = (!self.avoid.is_empty()).then(|| TaskDemand { tried: tried(), ..self.demand.clone() });
        (first, &self.demand)
    }
}
