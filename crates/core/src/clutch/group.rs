//! Groups that need no list: everybody with a role, by the role's name.

use crate::agent::Role;

/// Who is meant by the name of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    Everyone,
    Role(Role),
}

impl Group {
    pub fn named(name: &str) -> Option<Group> {
        Some(match name {
            "all" | "everyone" | "agents" => Group::Everyone,
            "lead" | "leads" | "coordinators" => Group::Role(Role::Lead),
            "worker" | "workers" => Group::Role(Role::Worker),
            "specialist" | "specialists" => Group::Role(Role::Specialist),
            _ => return None,
        })
    }

    pub fn has(self, role: Role) -> bool {
        match self {
            Group::Everyone => true,
            Group::Role(one) => one == role,
        }
    }
}
