//! Why a command was not done: a stable code, a sentence for a person, and what to do next.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::code::Code;
use super::id::AgentId;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rejection {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
    /// The field of the message that it is about, as a JSON pointer, where it came as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The agent that has what the caller wanted, as the decision saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<AgentId>,
}

impl Rejection {
    pub fn new(code: Code, message: impl Into<String>) -> Rejection {
        Rejection { code, message: message.into(), hint: None, pointer: None, holder: None }
    }

    /// Only the lead and people act for another agent.
    pub fn acts_for_other(caller: &AgentId, agent: &AgentId) -> Rejection {
        Rejection::new(Code::Forbidden, format!("'{caller}' may not act as '{agent}'"))
            .hint("leave out agent_id, or name the agent that the call comes from")
    }

    /// The caller merely says that it is this agent.
    pub fn sealed(agent: &AgentId) -> Rejection {
        Rejection::new(Code::CredentialRequired, format!("agent '{agent}' is bound to a credential"))
            .hint(format!(
                "send its token or its session key (X-Rookery-Session), or call through 'rookery mcp --agent {agent}'; its name alone is not enough"
            ))
    }

    pub fn not_tracked() -> Rejection {
        Rejection::new(Code::ResourceNotFound, "Resource not tracked")
            .hint("paths are relative to the project's root; a folder's claim ends in '/'")
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Rejection {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn with_holder(mut self, holder: &AgentId) -> Rejection {
        self.holder = Some(holder.clone());
        self
    }

    /// Says which field it is about, unless that is known already.
    #[must_use]
    pub fn about(mut self, pointer: &str) -> Rejection {
        self.pointer.get_or_insert_with(|| pointer.to_owned());
        self
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Rejection {}
