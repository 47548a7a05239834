//! Who sends and who is meant: `agent:ken`, `group:reviewers`, `person:anna`, the tools of `mcp:browser`,
//! or the router by the name of the orchestrator.
//!
//! The kind in front may be left out for an agent, and is left out inside: `agent:ken` and `ken` are the same agent.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::caller::Actor;
use crate::kernel::id::AgentId;
use crate::kernel::parse::{FaultCode, Flaw, quoted};
use crate::kernel::{limit, parse};

/// The one whom requests are sent to so that the router chooses who does the work.
pub const ORCHESTRATOR: &str = "agent:orchestrator";

const AGENT: &str = "agent:";

const GROUP: &str = "group:";

const PERSON: &str = "person:";

const SERVER: &str = "mcp:";

/// A recipient.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    Agent(AgentId),
    /// A group by the name it was given, or everybody with a role.
    Group(String),
    Person(String),
    /// A server of tools.
    Server(String),
    /// Whoever the router chooses.
    Orchestrator,
}

impl Address {
    pub fn parse(text: &str) -> Option<Address> {
        address(text).ok()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Agent(id) => write!(f, "{AGENT}{id}"),
            Address::Group(name) => write!(f, "{GROUP}{name}"),
            Address::Person(name) => write!(f, "{PERSON}{name}"),
            Address::Server(name) => write!(f, "{SERVER}{name}"),
            Address::Orchestrator => f.write_str(ORCHESTRATOR),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Address, String> {
        address(&text).map_err(|flaw| format!("{} {}", quoted(&text), flaw.message))
    }
}

pub(crate) fn recipient(value: &Value) -> Result<Address, Flaw> {
    address(parse::string(value)?)
}

/// Who sends: an agent, or a person. Whether it is who it says is for the access rules.
pub(crate) fn sender(value: &Value) -> Result<Actor, Flaw> {
    match address(parse::string(value)?)? {
        Address::Agent(id) => Ok(Actor::Agent(id)),
        Address::Person(name) => Ok(Actor::Person(name)),
        Address::Group(_) => Err(reserved("is a group; a message is sent by one agent or person")),
        Address::Server(_) => Err(reserved("is a server of tools, which sends nothing by itself")),
        Address::Orchestrator => Err(reserved("is the daemon itself; send as the agent that you are")),
    }
}

fn address(text: &str) -> Result<Address, Flaw> {
    if let Some(name) = text.strip_prefix(GROUP) {
        return unprefixed(name).map(|name| Address::Group(name.to_owned()));
    }
    if let Some(name) = text.strip_prefix(PERSON) {
        return unprefixed(name).map(|name| Address::Person(name.to_owned()));
    }
    if let Some(name) = text.strip_prefix(SERVER) {
        return unprefixed(name).map(|name| Address::Server(name.to_owned()));
    }
    let name = unprefixed(text.strip_prefix(AGENT).unwrap_or(text))?;
    let id = AgentId::from(name);
    match id.as_str() {
        "orchestrator" => Ok(Address::Orchestrator),
        name if Actor::is_reserved(name) => {
            Err(reserved(format!("{} is no agent: the name is reserved", quoted(name))))
        }
        _ => Ok(Address::Agent(id)),
    }
}

fn unprefixed(name: &str) -> Result<&str, Flaw> {
    parse::check_name(name, limit::AGENT_ID_BYTES)?;
    match [AGENT, GROUP, PERSON, SERVER].into_iter().find(|prefix| name.starts_with(prefix)) {
        Some(prefix) => Err(Flaw::invalid(format!("has a second '{prefix}' inside; write the kind once, in front"))),
        None => Ok(name),
    }
}

fn reserved(message: impl Into<String>) -> Flaw {
    Flaw::new(FaultCode::ReservedName, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kind_in_front_is_left_out_inside_and_written_outside() {
        for (text, written) in [
            ("agent:ken", "agent:ken"),
            ("ken", "agent:ken"),
            ("ken@default", "agent:ken@default"),
            ("ken@pr-1", "agent:ken@pr-1"),
            ("user:ken", "agent:user:ken"),
            ("group:workers", "group:workers"),
            ("person:anna", "person:anna"),
            ("mcp:browser", "mcp:browser"),
            ("orchestrator", "agent:orchestrator"),
            ("agent:orchestrator", "agent:orchestrator"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), written);
            assert_eq!(serde_json::from_value::<Address>(json!(address)).unwrap(), address);
        }
        assert_eq!(Address::parse("agent:ken"), Some(Address::Agent("ken".into())));
    }

    #[test]
    fn other_names_are_nobodys() {
        for text in [
            "",
            "agent:",
            "group:",
            "person:",
            "mcp:",
            "mcp:agent:x",
            "agent:agent:ken",
            "agent:group:x",
            "group:agent:x",
            "a b",
            "system",
        ] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
        for (text, code) in [
            ("agent:system", FaultCode::ReservedName),
            ("router", FaultCode::ReservedName),
            ("agent:orchestrator", FaultCode::ReservedName),
            ("group:workers", FaultCode::ReservedName),
            ("mcp:browser", FaultCode::ReservedName),
            ("agent:", FaultCode::InvalidField),
        ] {
            assert_eq!(sender(&json!(text)).unwrap_err().code, code, "{text}");
        }
    }
}
