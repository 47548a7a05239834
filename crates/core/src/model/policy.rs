//! The security policy of a request: sandbox, trust and network.

use serde::{Deserialize, Serialize};

/// What a message says about how its work is done; what it does not say is not restricted by it.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Policy {
    pub sandbox: Option<bool>,
    pub tool_allowlist: Option<Vec<String>>,
    pub network: Option<Network>,
    pub trust_level: Option<TrustLevel>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    None,
    EgressRestricted,
    EgressAllowed,
}

impl Network {
    pub const ALL: [Network; 3] = [Network::None, Network::EgressRestricted, Network::EgressAllowed];

    pub fn as_str(self) -> &'static str {
        match self {
            Network::None => "none",
            Network::EgressRestricted => "egress-restricted",
            Network::EgressAllowed => "egress-allowed",
        }
    }

    pub fn parse(text: &str) -> Option<Network> {
        Network::ALL.into_iter().find(|network| network.as_str() == text)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustLevel {
    Sandbox,
    Prod,
}

impl TrustLevel {
    pub const ALL: [TrustLevel; 2] = [TrustLevel::Sandbox, TrustLevel::Prod];

    pub fn as_str(self) -> &'static str {
        match self {
            TrustLevel::Sandbox => "sandbox",
            TrustLevel::Prod => "prod",
        }
    }

    pub fn parse(text: &str) -> Option<TrustLevel> {
        TrustLevel::ALL.into_iter().find(|level| level.as_str() == text)
    }
}
