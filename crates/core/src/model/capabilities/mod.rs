//! The AgentCard: the capabilities of an agent, its endpoints, and its limits.
//!
//! Fields that are not known here are kept and shown again. An agent that registered without a card has one made from its profile
//! (`from_profile`).

mod from_profile;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::addressee::Address;
use super::agent::Agent;
use super::policy::{Network, TrustLevel};
use super::version::CapabilityVersion;
use crate::kernel::code::Code;
use crate::kernel::id::AgentId;
use crate::kernel::outbound::{AllowedHost, SandboxReach};
use crate::kernel::rejection::Rejection;

/// The keys of an agent, also of one that left: leaving makes nobody else of it.
pub fn keys_of(agent: Option<&Agent>) -> &[SigningKey] {
    agent.and_then(|agent| agent.profile.card.as_ref()).map_or(&[], |card| &card.security.keys)
}

impl SigningKey {
    /// Whether both are one key under one name.
    pub fn is(&self, other: &SigningKey) -> bool {
        self.kid == other.kid && decoded::<32>(&self.public_key) == decoded::<32>(&other.public_key)
    }
}

/// Whether two agents' keys are the same, in whichever order.
pub fn same_keys(some: &[SigningKey], others: &[SigningKey]) -> bool {
    let has = |keys: &[SigningKey], key: &SigningKey| keys.iter().any(|known| known.is(key));
    some.len() == others.len() && some.iter().all(|key| has(others, key))
}

/// The base64 of so many bytes, in either alphabet, with or without padding.
pub(crate) fn decoded<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let alphabet = if text.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
    GeneralPurpose::new(alphabet, lenient).decode(text).ok()?.try_into().ok()
}

pub const VERSION: &str = "clutch/0.1";

impl SandboxReach {
    /// Rejects a card with an endpoint that the sandbox may not reach, unless the endpoint was on the card before.
    pub(crate) fn check_card(&self, card: &Card, before: Option<&Card>) -> Result<(), Rejection> {
        let known = before.map(|card| urls(&card.endpoints)).unwrap_or_default();
        for (protocol, url) in urls(&card.endpoints) {
            let allowed =
                AllowedHost::of_url(url).is_some_and(|target| self.hosts.iter().any(|host| host.covers(&target)));
            if !allowed && !known.contains(&(protocol, url)) {
                return Err(Rejection::new(
                    Code::Forbidden,
                    format!("/endpoints/{protocol}/url: the agent's sandbox may not reach '{url}'"),
                )
                .hint("name this host and port under `sandbox: network` in the workflow file; rules with `*` do not count"));
            }
        }
        Ok(())
    }
}

/// Every address on a card, with the protocol that it is for.
fn urls(endpoints: &Endpoints) -> Vec<(&str, &str)> {
    let known = [("a2a", &endpoints.a2a), ("clutch", &endpoints.clutch)];
    let known = known.into_iter().filter_map(|(name, endpoint)| Some((name, endpoint.as_ref()?.url.as_str())));
    let others = endpoints.rest.iter().filter_map(|(name, value)| {
        Some((name.as_str(), value.as_str().or_else(|| value.get("url").and_then(serde_json::Value::as_str))?))
    });
    known.chain(others).collect()
}

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
