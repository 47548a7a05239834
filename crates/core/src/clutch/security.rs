//! Who vouches for a message, and under which restrictions its work is done.

use serde_json::Value;

use super::form::{Fields, Read};
use crate::kernel::parse::{Flaw, quoted};
use crate::kernel::{limit, parse};
use crate::model::policy::{Network, Policy, TrustLevel};

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

/// The one scheme of signatures.
pub(super) const SCHEME: &str = "ed25519";

pub(super) fn read(fields: &mut Fields<'_>) -> Read<Security> {
    let auth = fields.optional_object("auth", signature);
    let policy = fields.optional_object("policy", policy);
    Some(Security { auth: auth?, policy: policy?.unwrap_or_default() })
}

fn signature(fields: &mut Fields<'_>) -> Read<Signature> {
    let scheme = fields.required("scheme", "'ed25519'", scheme);
    let kid = fields.required("kid", "the id of the sender's key", parse::name(limit::NAME_BYTES));
    let sig = fields.required("sig", "the signature", parse::name(limit::SIGNATURE_BYTES));
    scheme?;
    Some(Signature { kid: kid?.to_owned(), sig: sig?.to_owned() })
}

fn scheme(value: &Value) -> Result<(), Flaw> {
    match parse::string(value)? {
        SCHEME => Ok(()),
        other => Err(Flaw::invalid(format!("{} is not supported: expected '{SCHEME}'", quoted(other)))),
    }
}

fn policy(fields: &mut Fields<'_>) -> Read<Policy> {
    let sandbox = fields.optional("sandbox", parse::boolean);
    let says_tools = fields.has("tool_allowlist");
    let tools = fields.list("tool_allowlist", |value| parse::name(limit::NAME_BYTES)(value).map(str::to_owned));
    let network = fields.optional("network", |value| parse::one_of(value, &Network::ALL, Network::as_str));
    let trust_level =
        fields.optional("trust_level", |value| parse::one_of(value, &TrustLevel::ALL, TrustLevel::as_str));
    Some(Policy {
        sandbox: sandbox?,
        tool_allowlist: says_tools.then_some(tools?),
        network: network?,
        trust_level: trust_level?,
    })
}
