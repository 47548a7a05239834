//! Groups that need no list: everybody with a role, by the role's name.

use super::agent::AgentRole;

/// Who is meant by the name of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    Everyone,
    Role(AgentRole),
}

impl Group {
    pub fn named(name: &str) -> Option<Group> {
        Some(match name {
            "all" | "everyone" | "agents" => Group::Everyone,
            "lead" | "leads" | "coordinators" => Group::Role(AgentRole::Lead),
            "worker" | "workers" => Group::Role(AgentRole::Worker),
            "specialist" | "specialists" => Group::Role(AgentRole::Specialist),
            _ => return None,
        })
    }

    pub fn has(self, role: AgentRole) -> bool {
        match self {
            Group::Everyone => true,
            Group::Role(one) => one == role,
        }
    }
}
