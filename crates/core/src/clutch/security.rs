//! Who vouches for a message, and under which restrictions its work is done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::form::{self, Fields, Flaw, Read, quoted};
use crate::limit;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Security {
    pub auth: Option<Signature>,
    pub policy: Policy,
}

/// An ed25519 signature over the message's signing form ([`super::Envelope::signing_form`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Which of the sender's keys.
    pub kid: String,
    /// As it was written. Whether it is one, and a right one, is found when it is checked.
    pub sig: String,
}

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

/// The one scheme of signatures.
pub(super) const SCHEME: &str = "ed25519";

pub(super) fn read(fields: &mut Fields<'_>) -> Read<Security> {
    let auth = fields.optional_object("auth", signature);
    let policy = fields.optional_object("policy", policy);
    Some(Security { auth: auth?, policy: policy?.unwrap_or_default() })
}

fn signature(fields: &mut Fields<'_>) -> Read<Signature> {
    let scheme = fields.required("scheme", "'ed25519'", scheme);
    let kid = fields.required("kid", "the id of the sender's key", form::name(limit::NAME_BYTES));
    let sig = fields.required("sig", "the signature", form::name(limit::SIGNATURE_BYTES));
    scheme?;
    Some(Signature { kid: kid?.to_owned(), sig: sig?.to_owned() })
}

fn scheme(value: &Value) -> Result<(), Flaw> {
    match form::string(value)? {
        SCHEME => Ok(()),
        other => Err(Flaw::invalid(format!("{} is not supported: expected '{SCHEME}'", quoted(other)))),
    }
}

fn policy(fields: &mut Fields<'_>) -> Read<Policy> {
    let sandbox = fields.optional("sandbox", form::boolean);
    let says_tools = fields.has("tool_allowlist");
    let tools = fields.list("tool_allowlist", |value| form::name(limit::NAME_BYTES)(value).map(str::to_owned));
    let network = fields.optional("network", |value| form::one_of(value, &Network::ALL, Network::as_str));
    let trust_level = fields.optional("trust_level", |value| form::one_of(value, &TrustLevel::ALL, TrustLevel::as_str));
    Some(Policy {
        sandbox: sandbox?,
        tool_allowlist: says_tools.then_some(tools?),
        network: network?,
        trust_level: trust_level?,
    })
}
