//! What a task demands of whoever does it.

use crate::agent::Role;
use crate::clutch::{Need, Policy};
use crate::id::AgentId;

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
