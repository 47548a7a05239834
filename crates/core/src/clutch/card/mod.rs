//! The AgentCard: what an agent offers, how it can be reached, and within which limits.
//!
//! A card that comes in is read strictly (`read`); what it says beyond the fields that are known is kept and shown again.
//! An agent that joined by another face has a card made from what it said there (`said`).

mod read;
mod said;
mod schema;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::address::Address;
use super::security::{Network, TrustLevel};
use super::version::CapabilityVersion;
use crate::id::AgentId;

/// What somebody said beyond what is known here.
pub type Rest = Map<String, Value>;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Card {
    pub v: String,
    #[serde(serialize_with = "with_prefix", deserialize_with = "without_prefix")]
    pub agent_id: AgentId,
    #[serde(default, skip_serializing_if = "Display::is_empty")]
    pub display: Display,
    #[serde(default, skip_serializing_if = "Endpoints::is_empty")]
    pub endpoints: Endpoints,
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "Security::is_empty")]
    pub security: Security,
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Display {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desc: Option<String>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where the agent takes messages, by protocol.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Endpoints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a2a: Option<Endpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clutch: Option<Endpoint>,
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    pub url: String,
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Capability {
    /// `skill:research`, `tool:mcp`.
    pub id: String,
    /// As it was said; [`Capability::stated`] reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// MCP servers that it works with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// How far it is trusted; [`Capability::trust`] reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_level: Option<TrustLevel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_hint: Option<CostHint>,
    /// MCP servers that `tool:mcp` gives access to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostHint {
    Low,
    #[default]
    Medium,
    High,
}

/// What is absent is not limited.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime_sec: Option<u32>,
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Security {
    /// Whether it runs isolated. Nobody does who does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<bool>,
    /// What of the network it can reach; [`Card::network`] reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The only tools that it may use, whatever its capabilities name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_allowlist: Option<Vec<String>>,
    /// With what it signs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<SigningKey>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// A public key for checking signatures: ed25519, 32 bytes in base64.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SigningKey {
    pub kid: String,
    pub public_key: String,
    #[serde(flatten)]
    pub rest: Rest,
}

impl Card {
    /// What of the network it can reach. Egress is restricted for whoever says nothing; a word that nobody knows promises
    /// nothing.
    pub fn network(&self) -> Network {
        match self.security.network.as_deref() {
            None => Network::EgressRestricted,
            Some("open" | "full" | "unrestricted") => Network::EgressAllowed,
            Some(word) => Network::parse(word).unwrap_or(Network::None),
        }
    }

    /// The tools that it can use, without their prefix: named by a capability and not kept from it.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let allowed = self.security.tool_allowlist.as_ref();
        self.capabilities
            .iter()
            .flat_map(Capability::offers)
            .filter(move |tool| allowed.is_none_or(|allowed| allowed.iter().any(|entry| tool_name(entry) == *tool)))
    }
}

impl Capability {
    pub fn of(id: impl Into<String>) -> Capability {
        Capability { id: id.into(), ..Capability::default() }
    }

    /// What it says of its version. What cannot be read states nothing; a card that comes in is refused for it.
    pub fn stated(&self) -> CapabilityVersion {
        self.version.as_deref().map_or(CapabilityVersion::Nothing, |text| {
            CapabilityVersion::parse(text).unwrap_or(CapabilityVersion::Nothing)
        })
    }

    /// Whoever says nothing is trusted in a sandbox only.
    pub fn trust(&self) -> TrustLevel {
        self.trust_level.unwrap_or(TrustLevel::Sandbox)
    }

    pub(crate) fn offers(&self) -> impl Iterator<Item = &str> {
        let itself = self.id.strip_prefix("tool:").filter(|name| *name != "mcp");
        itself.into_iter().chain(self.tools.iter().chain(&self.servers).map(|tool| tool_name(tool)))
    }
}

/// A tool's name without the prefix that says what it is: `mcp:browser` and `tool:browser` are one.
pub fn tool_name(text: &str) -> &str {
    text.strip_prefix("mcp:").or_else(|| text.strip_prefix("tool:")).unwrap_or(text)
}

impl CostHint {
    pub const ALL: [CostHint; 3] = [CostHint::Low, CostHint::Medium, CostHint::High];

    pub fn as_str(self) -> &'static str {
        match self {
            CostHint::Low => "low",
            CostHint::Medium => "medium",
            CostHint::High => "high",
        }
    }
}

macro_rules! is_empty {
    ($($part:ty),+) => {$(
        impl $part {
            fn is_empty(&self) -> bool {
                *self == Self::default()
            }
        }
    )+};
}

is_empty!(Display, Endpoints, Limits, Security);

fn with_prefix<S: Serializer>(id: &AgentId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("agent:{id}"))
}

fn without_prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AgentId, D::Error> {
    match Address::parse(&String::deserialize(deserializer)?) {
        Some(Address::Agent(id)) => Ok(id),
        _ => Err(D::Error::custom("not the id of an agent")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_are_known_by_any_of_their_names_and_the_own_allowlist_keeps_some_away() {
        let mut card = Card::read(&json!({
            "v": "clutch/0.1", "agent_id": "ken",
            "capabilities": [
                { "id": "skill:research", "tools": ["mcp:browser"] },
                { "id": "tool:mcp", "servers": ["mcp:files"] },
                { "id": "tool:shell" },
            ],
        }))
        .unwrap();
        let tools = |card: &Card| card.tools().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(tools(&card), ["browser", "files", "shell"]);
        card.security.tool_allowlist = Some(vec!["mcp:files".to_owned(), "tool:shell".to_owned()]);
        assert_eq!(tools(&card), ["files", "shell"]);
    }

    #[test]
    fn nobody_reaches_more_of_the_network_than_it_says() {
        for (said, reaches) in [
            (None, Network::EgressRestricted),
            (Some("none"), Network::None),
            (Some("egress-restricted"), Network::EgressRestricted),
            (Some("egress-allowed"), Network::EgressAllowed),
            (Some("open"), Network::EgressAllowed),
            (Some("vpn"), Network::None),
        ] {
            let card = json!({ "v": "clutch/0.1", "agent_id": "ken", "security": { "network": said } });
            assert_eq!(Card::read(&card).unwrap().network(), reaches, "{said:?}");
        }
    }
}
