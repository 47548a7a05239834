//! Who asks, and how we know it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::id::{AgentId, Seq};
use super::name;
use super::outbound::SandboxReach;
use super::session_key::Session;

/// The author of a fact. Only agents are listed, have presence and can be given work.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Actor {
    Agent(AgentId),
    Person(String),
    System,
    Watcher,
    /// A caller who gave no name; where a task is concerned it acts as its holder.
    Anonymous,
}

impl Actor {
    /// Whether no agent may take a name, because it means somebody else or looks as if it did.
    pub fn is_reserved(name: &str) -> bool {
        name::is_reserved(name)
    }

    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Actor::Agent(id) => Some(id),
            _ => None,
        }
    }

    pub fn parse(text: &str) -> Actor {
        match text {
            "system" => Actor::System,
            "watcher" => Actor::Watcher,
            "anonymous" => Actor::Anonymous,
            _ => match text.strip_prefix("person:") {
                Some(name) => Actor::Person(name.to_owned()),
                None => Actor::Agent(AgentId::from(text)),
            },
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Agent(id) => id.fmt(f),
            Actor::Person(name) => write!(f, "person:{name}"),
            Actor::System => f.write_str("system"),
            Actor::Watcher => f.write_str("watcher"),
            Actor::Anonymous => f.write_str("anonymous"),
        }
    }
}

/// How the actor of a fact was known. Recorded with every fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    Token,
    Session,
    Asserted,
    None,
}

impl Auth {
    pub fn as_str(self) -> &'static str {
        match self {
            Auth::Token => "token",
            Auth::Session => "session",
            Auth::Asserted => "asserted",
            Auth::None => "none",
        }
    }

    pub fn parse(text: &str) -> Option<Auth> {
        [Auth::Token, Auth::Session, Auth::Asserted, Auth::None].into_iter().find(|auth| auth.as_str() == text)
    }
}

/// What a caller's credentials allow, before the rule looks at who holds what. The position of lead is looked up in the
/// rows; `Lead` here means a credential that carries that role by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authority {
    Observer,
    Agent,
    Lead,
    Person,
}

/// The caller of a command as its surface made it out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    pub actor: Actor,
    pub auth: Auth,
    pub power: Authority,
    /// The grant that the caller believes to hold; must match if given.
    pub fence: Option<Seq>,
    /// Who speaks in the actor's name, where the credential is somebody else's: a person, or an agent with a lead's token.
    pub acting_through: Option<String>,
    /// The agent that the call names in place of the actor. Each command first decides whether the actor may act for it.
    pub acting_for: Option<AgentId>,
    /// The claims of its session key, if it showed one.
    pub session: Option<Arc<Session>>,
    /// Whether the call came over the socket of the instance that the asserted agent is in. Only processes of this user outside
    /// of sandboxes reach that socket, so that the name needs no credential.
    pub on_own_socket: bool,
}

impl Caller {
    pub fn system() -> Caller {
        Caller {
            actor: Actor::System,
            auth: Auth::None,
            power: Authority::Person,
            fence: None,
            acting_through: None,
            acting_for: None,
            session: None,
            on_own_socket: false,
        }
    }

    pub fn watcher() -> Caller {
        Caller { actor: Actor::Watcher, ..Caller::system() }
    }

    /// A caller on loopback that says who it is.
    pub fn asserted(agent: impl Into<AgentId>) -> Caller {
        Caller {
            actor: Actor::Agent(agent.into()),
            auth: Auth::Asserted,
            power: Authority::Agent,
            fence: None,
            acting_through: None,
            acting_for: None,
            session: None,
            on_own_socket: false,
        }
    }

    pub fn person(name: &str) -> Caller {
        Caller {
            actor: Actor::Person(name.to_owned()),
            auth: Auth::Token,
            power: Authority::Person,
            fence: None,
            acting_through: None,
            acting_for: None,
            session: None,
            on_own_socket: false,
        }
    }

    pub fn anonymous() -> Caller {
        Caller {
            actor: Actor::Anonymous,
            auth: Auth::None,
            power: Authority::Agent,
            fence: None,
            acting_through: None,
            acting_for: None,
            session: None,
            on_own_socket: false,
        }
    }

    /// The agent whose own call this is. What an observer reads, and what somebody does in an agent's name, tells
    /// nothing about whether that agent lives.
    pub fn itself(&self) -> Option<&AgentId> {
        self.actor.agent().filter(|_| self.acting_through.is_none() && self.power != Authority::Observer)
    }

    /// The hosts that its sandbox may reach, if the call comes from a sandbox.
    pub fn sandbox(&self) -> Option<&SandboxReach> {
        self.session.as_ref()?.sandbox.as_ref()
    }

    /// Whether it may speak as an agent that is bound to a credential.
    pub fn may_speak_as_bound(&self, agent: &AgentId) -> bool {
        self.is_proven() || (self.on_own_socket && self.actor.agent() == Some(agent))
    }

    /// Whether it showed a credential, so that it is more than its word.
    pub fn is_proven(&self) -> bool {
        matches!(self.auth, Auth::Token | Auth::Session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_read_back_as_written() {
        for actor in
            [Actor::Agent("a".into()), Actor::Person("anna".into()), Actor::System, Actor::Watcher, Actor::Anonymous]
        {
            assert_eq!(Actor::parse(&actor.to_string()), actor);
        }
    }

    #[test]
    fn authors_of_other_kinds_cannot_be_taken_as_agent_ids() {
        for name in ["system", "watcher", "all", "anonymous", "person:anna", "agent:x", "group:workers", "orchestrator"]
        {
            assert!(Actor::is_reserved(name), "{name}");
        }
        assert!(!Actor::is_reserved("claude-code-1"));
    }
}
