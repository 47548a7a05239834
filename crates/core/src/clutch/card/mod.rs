//! The AgentCard: what an agent offers, how it can be reached, and within which limits.
//!
//! A card that comes in is read strictly (`read`); what it says beyond the fields that are known is kept and shown again.
//! An agent that joined by another face has a card made from what it said there (`said`).

mod read;
mod said;
mod schema;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::version::Stated;
use crate::id::AgentId;

pub use read::{CARD_BYTES, id_of};

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

/// How far a capability is trusted. Whoever says nothing is trusted in a sandbox only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustLevel {
    #[default]
    Sandbox,
    Prod,
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
    /// What of the network it can reach; [`Network::of`] reads it.
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
    pub fn stated(&self) -> Stated {
        self.version.as_deref().map_or(Stated::Nothing, |text| Stated::parse(text).unwrap_or(Stated::Nothing))
    }

    fn offers(&self) -> impl Iterator<Item = &str> {
        let itself = self.id.strip_prefix("tool:").filter(|name| *name != "mcp");
        itself.into_iter().chain(self.tools.iter().chain(&self.servers).map(|tool| tool_name(tool)))
    }
}

/// A tool's name without the prefix that says what it is: `mcp:browser` and `tool:browser` are one.
pub fn tool_name(text: &str) -> &str {
    text.strip_prefix("mcp:").or_else(|| text.strip_prefix("tool:")).unwrap_or(text)
}

/// How much of the network an agent reaches, or a task needs. A word that nobody knows is met only by the same word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Network {
    None,
    /// Some addresses only.
    Restricted,
    Open,
    Other(String),
}

impl Network {
    pub fn of(word: &str) -> Network {
        match word {
            "none" | "offline" | "isolated" => Network::None,
            "egress-restricted" | "restricted" => Network::Restricted,
            "open" | "full" | "unrestricted" | "egress" => Network::Open,
            other => Network::Other(other.to_owned()),
        }
    }

    /// What a card says; egress is restricted for whoever says nothing.
    pub fn of_card(card: &Card) -> Network {
        card.security.network.as_deref().map_or(Network::Restricted, Network::of)
    }

    pub fn meets(&self, need: &Network) -> bool {
        let level = |network: &Network| match network {
            Network::None => Some(0),
            Network::Restricted => Some(1),
            Network::Open => Some(2),
            Network::Other(_) => None,
        };
        match (level(self), level(need)) {
            (Some(has), Some(needs)) => has >= needs,
            (None, Some(0)) => true,
            _ => self == need,
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Network::None => "none",
            Network::Restricted => "egress-restricted",
            Network::Open => "open",
            Network::Other(word) => word,
        }
    }
}

impl TrustLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            TrustLevel::Sandbox => "sandbox",
            TrustLevel::Prod => "prod",
        }
    }

    pub fn parse(word: &str) -> Option<TrustLevel> {
        [TrustLevel::Sandbox, TrustLevel::Prod].into_iter().find(|level| level.as_str() == word)
    }
}

impl CostHint {
    pub fn as_str(self) -> &'static str {
        match self {
            CostHint::Low => "low",
            CostHint::Medium => "medium",
            CostHint::High => "high",
        }
    }

    fn parse(word: &str) -> Option<CostHint> {
        [CostHint::Low, CostHint::Medium, CostHint::High].into_iter().find(|cost| cost.as_str() == word)
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
    let text = String::deserialize(deserializer)?;
    Ok(AgentId::from(id_of(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_by_any_of_their_names_and_the_own_allowlist_keeps_some_away() {
        let mut card = Card::read(&serde_json::json!({
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
    fn more_of_the_network_meets_a_need_for_less() {
        for (has, needs, meets) in [
            ("open", "egress-restricted", true),
            ("egress-restricted", "open", false),
            ("none", "egress-restricted", false),
            ("none", "none", true),
            ("vpn", "vpn", true),
            ("vpn", "none", true),
            ("vpn", "open", false),
            ("open", "vpn", false),
        ] {
            assert_eq!(Network::of(has).meets(&Network::of(needs)), meets, "{has} for {needs}");
        }
    }
}
