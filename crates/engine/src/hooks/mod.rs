//! Webhooks: what other programs POST, in whatever form they have, becomes envelopes.
//!
//! | file | what it owns |
//! |---|---|
//! | `mapping` | from JSON and headers to an envelope, by what the configuration says |
//! | `signature` | how a sender proves that it knows the secret, and that it is not an old request again |
//!
//! What comes of a hook goes in by the same door as every envelope.

mod mapping;
mod signature;

use std::fmt;

use rookery_core::{Actor, AgentId, Auth, Caller, Power, Timestamp};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use mapping::{Gap, Mapping, Source};
pub use signature::{DELIVERY, Scheme, SignatureError, Vouched, seal};

use crate::engine::hex;

/// A place that others POST to.
#[derive(Clone, Debug)]
pub struct Hook {
    pub name: String,
    pub secret: Secret,
    pub scheme: Scheme,
    /// Whom its envelopes are from.
    pub from: AgentId,
    /// What tells one delivery from another, where the scheme's own header does not.
    pub delivery: Option<Source>,
    pub mapping: Mapping,
}

/// What both sides know and nobody sees.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Without what editors leave around it; nothing is no secret.
    pub fn new(text: &str) -> Option<Secret> {
        Some(text.trim()).filter(|text| !text.is_empty()).map(|text| Secret(text.to_owned()))
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What came to a hook.
#[expect(missing_debug_implementations, reason = "what comes in may be anything")]
pub struct Incoming<'a> {
    pub body: &'a [u8],
    pub json: &'a Value,
    /// A header by its name in small letters.
    pub header: &'a dyn Fn(&str) -> Option<String>,
}

/// What a request to a hook comes to.
#[derive(Clone, PartialEq, Debug)]
pub enum Mapped {
    Envelope(Map<String, Value>),
    /// The hook is not for this one: what it would have to be like.
    NotMeant(String),
}

impl Hook {
    /// Who sends what comes by it: the secret is a credential of the hook, which speaks in that agent's name.
    pub fn caller(&self) -> Caller {
        Caller {
            actor: Actor::Agent(self.from.clone()),
            auth: Auth::Token,
            power: Power::Agent,
            fence: None,
            by: Some(format!("hook:{}", self.name)),
        }
    }

    /// Whether the sender knows the secret.
    pub fn verify(
        &self,
        body: &[u8],
        header: &dyn Fn(&str) -> Option<String>,
        now: Timestamp,
    ) -> Result<Vouched, SignatureError> {
        self.scheme.verify(&self.secret, body, header, now)
    }

    /// The envelope that a request comes to.
    ///
    /// Its id is made of what was signed, and its idempotency key of what the sender calls the delivery. So what is sent
    /// again is done once, whether its sender signed it anew or somebody else sent it under another name.
    pub fn envelope(&self, incoming: &Incoming<'_>, vouched: &Vouched, now: Timestamp) -> Result<Mapped, Gap> {
        if let Some(unmet) = self.mapping.unmet(incoming) {
            return Ok(Mapped::NotMeant(unmet));
        }
        let signed = digest(&[self.name.as_bytes(), vouched.time.as_bytes(), incoming.body]);
        let delivery = match &self.delivery {
            Some(source) => source.text(incoming).ok_or_else(|| Gap::of("delivery", source))?,
            None => (incoming.header)(self.scheme.delivery_header()).unwrap_or_else(|| signed.clone()),
        };
        let unique = digest(&[self.name.as_bytes(), delivery.as_bytes()]);
        let mut envelope = self.mapping.fields(incoming, &self.name, &unique)?;
        envelope.insert("id".to_owned(), format!("hook_{}_{signed}", self.name).into());
        envelope.insert("ts".to_owned(), rookery_core::envelope::iso(now).into());
        envelope.insert("from".to_owned(), serde_json::json!({ "agent_id": format!("agent:{}", self.from) }));
        envelope.insert("idempotency_key".to_owned(), format!("hook:{}:{unique}", self.name).into());
        envelope.insert("meta".to_owned(), serde_json::json!({ "hook": self.name, "delivery": delivery }));
        Ok(Mapped::Envelope(envelope))
    }
}

/// Short enough for an id, and different for whatever differs in any part.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()[..16])
}
