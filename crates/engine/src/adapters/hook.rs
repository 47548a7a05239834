//! Webhooks that come in: what other programs POST, in whatever form they have, becomes envelopes.
//!
//! What comes of a hook goes in by the same door as every envelope.

use std::fmt;

use rookery_core::kernel::hex::hex;
use rookery_core::{Actor, AgentId, Auth, Authority, Caller, Timestamp};
use rookery_store::Pending;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::hmac::{Scheme, Vouched};
use super::mapping::{Gap, Mapping, Source};
use super::{Adapter, InboundError, Raw};

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

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What values are taken from.
pub(super) struct Incoming<'a> {
    pub(super) body: &'a [u8],
    pub(super) json: &'a Value,
    /// A header by its name in small letters.
    pub(super) header: &'a dyn Fn(&str) -> Option<String>,
}

/// The name of a webhook among all adapters.
pub(super) fn adapter_name(hook: &str) -> String {
    format!("http:{hook}")
}

impl Adapter for Hook {
    fn name(&self) -> String {
        adapter_name(&self.name)
    }

    /// One envelope, if the sender knows the secret and the request is what the hook is meant for.
    fn inbound<'a>(&'a self, raw: Raw<'a>) -> Pending<'a, Result<Vec<Map<String, Value>>, InboundError>> {
        Box::pin(std::future::ready(self.read(raw).map(|envelope| vec![envelope])))
    }
}

impl Hook {
    /// Who sends what comes by it: the secret is a credential of the hook, which speaks in that agent's name.
    pub fn caller(&self) -> Caller {
        Caller {
            actor: Actor::Agent(self.from.clone()),
            auth: Auth::Token,
            power: Authority::Agent,
            fence: None,
            acting_through: Some(format!("hook:{}", self.name)),
            acting_for: None,
            session: None,
            on_own_socket: false,
        }
    }

    fn read(&self, raw: Raw<'_>) -> Result<Map<String, Value>, InboundError> {
        let Raw { body, header, at } = raw;
        let vouched = self.scheme.verify(&self.secret, body, header, at)?;
        let json: Value = serde_json::from_slice(body).map_err(InboundError::Json)?;
        let incoming = Incoming { body, json: &json, header };
        match self.mapping.unmet(&incoming) {
            Some(unmet) => Err(InboundError::NotMeant(unmet)),
            None => Ok(self.envelope(&incoming, &vouched, at)?),
        }
    }

    /// The envelope that a request comes to.
    ///
    /// Its id is made of what was signed, and its idempotency key of what the sender calls the delivery. So what is sent
    /// again is done once, whether its sender signed it anew or somebody else sent it under another name.
    fn envelope(&self, incoming: &Incoming<'_>, vouched: &Vouched, now: Timestamp) -> Result<Map<String, Value>, Gap> {
        let signed = digest(&[self.name.as_bytes(), vouched.time.as_bytes(), incoming.body]);
        let delivery = match &self.delivery {
            Some(source) => source.text(incoming).ok_or_else(|| Gap::of("delivery", source))?,
            None => (incoming.header)(self.scheme.delivery_header()).unwrap_or_else(|| signed.clone()),
        };
        let unique = digest(&[self.name.as_bytes(), delivery.as_bytes()]);
        let mut envelope = self.mapping.fields(incoming, &self.name, &unique)?;
        envelope.insert("id".to_owned(), format!("hook_{}_{signed}", self.name).into());
        envelope.insert("ts".to_owned(), rookery_core::kernel::time::iso(now).into());
        envelope.insert("from".to_owned(), serde_json::json!({ "agent_id": format!("agent:{}", self.from) }));
        envelope.insert("idempotency_key".to_owned(), format!("hook:{}:{unique}", self.name).into());
        let mut meta = self.mapping.meta(incoming)?;
        meta.extend([("hook".to_owned(), self.name.clone().into()), ("delivery".to_owned(), delivery.into())]);
        envelope.insert("meta".to_owned(), meta.into());
        Ok(envelope)
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
