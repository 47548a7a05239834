//! Signatures of messages: ed25519 over the signing form, by a key of the sender's card.
//!
//! Checking one is arithmetic and no rule: it is done when a message comes in, over the keys that are known then. The rule
//! ([`super::Ingest`]) is told which key it was, and looks whether it is still the sender's.

use base64::Engine as _;
use ed25519_dalek::{SIGNATURE_LENGTH, Signer, VerifyingKey};
use serde_json::{Map, Value, json};

use super::security::SCHEME;
use super::{Envelope, canon};
use crate::kernel::code::Code;
use crate::kernel::rejection::Rejection;
use crate::model::capabilities::{SigningKey, decoded};
use crate::model::message_type::MessageType;

/// Which messages must be signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SigningPolicy {
    /// None, and signatures are not looked at.
    Off,
    /// Those that change who an agent is or what it may do, from agents that have keys.
    #[default]
    Sensitive,
    /// Every message of every agent.
    All,
}

impl SigningPolicy {
    pub const EVERY: [SigningPolicy; 3] = [SigningPolicy::Off, SigningPolicy::Sensitive, SigningPolicy::All];

    pub fn as_str(self) -> &'static str {
        match self {
            SigningPolicy::Off => "off",
            SigningPolicy::Sensitive => "sensitive",
            SigningPolicy::All => "all",
        }
    }

    pub fn parse(text: &str) -> Option<SigningPolicy> {
        SigningPolicy::EVERY.into_iter().find(|policy| policy.as_str() == text)
    }
}

/// Whether a type is one of those that agents with keys sign. Calls of tools are, if they are for production.
pub fn is_sensitive(message_type: &MessageType) -> bool {
    match message_type {
        MessageType::AgentRegister | MessageType::AgentUpdate | MessageType::TaskCancel => true,
        MessageType::Extension(name) => &**name == "x.handoff" || name.starts_with("x.handoff."),
        _ => false,
    }
}

/// How a message that came in is vouched for, as it was found before the rules decide.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Signing {
    pub policy: SigningPolicy,
    /// The key that its signature is by.
    pub by: Option<SigningKey>,
}

/// The key among these that a message is signed by; why it is not, if it is not.
pub fn signed_by(envelope: &Envelope, keys: &[SigningKey]) -> Result<SigningKey, Rejection> {
    let Some(auth) = &envelope.security.auth else { return Err(signature_required(envelope.message_type.as_str())) };
    let Some(key) = keys.iter().find(|key| key.kid == auth.kid) else {
        return Err(unknown_key(&auth.kid, &envelope.from.actor.to_string()));
    };
    match verify(&key.public_key, &auth.sig, &envelope.signing_form()) {
        Ok(()) => Ok(key.clone()),
        Err(why) => Err(Rejection::new(Code::BadSignature, format!("the signature by key '{}' {why}", auth.kid))
            .hint("sign the RFC 8785 form of the whole envelope without 'security.auth.sig'; 'rookery envelope sign' does")
            .about("/security/auth/sig")),
    }
}

pub(crate) fn unknown_key(kid: &str, sender: &str) -> Rejection {
    Rejection::new(Code::UnknownKey, format!("'{sender}' has no key '{kid}'"))
        .hint("sign with a key that stands in 'security.keys' of the sender's card")
        .about("/security/auth/kid")
}

pub(crate) fn signature_required(message_type: &str) -> Rejection {
    Rejection::new(Code::SignatureRequired, format!("'{message_type}' must be signed by a key of its sender"))
        .hint("sign it by 'security.auth'; 'rookery envelope sign' does so")
        .about("/security/auth")
}

/// Whether a signature is right, strictly: neither weak keys nor other ways to write it are taken.
pub fn verify(public_key: &str, signature: &str, message: &[u8]) -> Result<(), &'static str> {
    let key = verifying_key(public_key).ok_or("cannot be checked: the key is no ed25519 key")?;
    let bytes = decoded::<SIGNATURE_LENGTH>(signature).ok_or("is not the base64 of 64 bytes")?;
    key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(&bytes)).map_err(|_| "is not of this message")
}

/// Whether it is the base64 of a key that signatures can be checked by.
pub fn is_public_key(text: &str) -> bool {
    verifying_key(text).is_some()
}

fn verifying_key(text: &str) -> Option<VerifyingKey> {
    let bytes = decoded(text)?;
    let is_its_only_form = |key: &VerifyingKey| key.to_edwards().compress().to_bytes() == bytes;
    VerifyingKey::from_bytes(&bytes).ok().filter(|key| !key.is_weak() && is_its_only_form(key))
}

/// The secret half of a key, under its name.
#[derive(Clone)]
pub struct SecretKey {
    pub kid: String,
    key: ed25519_dalek::SigningKey,
}

/// Nobody sees it by accident.
impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}

impl SecretKey {
    /// Of 32 random bytes.
    pub fn new(kid: impl Into<String>, seed: [u8; 32]) -> SecretKey {
        SecretKey { kid: kid.into(), key: ed25519_dalek::SigningKey::from_bytes(&seed) }
    }

    /// As [`SecretKey::secret`] wrote it.
    pub fn read(kid: impl Into<String>, secret: &str) -> Option<SecretKey> {
        Some(SecretKey::new(kid, decoded(secret.trim())?))
    }

    /// What has to be kept secret, in base64.
    pub fn secret(&self) -> String {
        base64::engine::general_purpose::STANDARD.encode(self.key.to_bytes())
    }

    /// What stands on the card.
    pub fn public(&self) -> SigningKey {
        let public_key = base64::engine::general_purpose::STANDARD.encode(self.key.verifying_key().to_bytes());
        SigningKey { kid: self.kid.clone(), public_key, rest: Map::new() }
    }

    /// Signs a message in place. What stood in `security.auth` goes; everything else is signed.
    pub fn sign(&self, message: &mut Map<String, Value>) {
        let security = message.entry("security").or_insert_with(|| json!({}));
        if !security.is_object() {
            *security = json!({});
        }
        security["auth"] = json!({ "scheme": SCHEME, "kid": self.kid });
        let signature = self.key.sign(&canon::signing_form(message)).to_bytes();
        message["security"]["auth"]["sig"] = json!(base64::engine::general_purpose::STANDARD.encode(signature));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::capabilities::same_keys;

    /// The first two tests of RFC 8032, section 7.1.
    #[test]
    fn keys_and_signatures_are_those_of_the_standard() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(hex(text));
        for (secret, public, message, signature) in [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b\
                 d25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c\
                 387b2eaeb4302aeeb00d291612bb0c00",
            ),
        ] {
            let key = SecretKey::read("k", &base64(secret)).unwrap();
            assert_eq!(key.public().public_key, base64(public));
            assert_eq!(verify(&base64(public), &base64(signature), &hex(message)), Ok(()));
            assert_eq!(key.key.sign(&hex(message)).to_bytes().to_vec(), hex(signature));
            assert!(verify(&base64(public), &base64(signature), b"x").is_err());
        }
    }

    fn key(kid: &str, seed: u8) -> SecretKey {
        SecretKey::new(kid, [seed; 32])
    }

    /// A message with every field of the protocol.
    fn message() -> Map<String, Value> {
        let message = json!({
            "v": "clutch/0.1", "id": "msg_1", "ts": "2026-02-01T13:20:11.123Z", "thread_id": "thr_1", "run_id": "run_1",
            "task_id": "task_1", "parent_task_id": "task_0", "trace": { "trace_id": "tr_1", "span_id": "sp_1" },
            "from": { "agent_id": "agent:ken", "role": "worker" }, "to": [{ "agent_id": "agent:orchestrator" }],
            "type": "task.result", "domain": "research", "payload_type": "research.summary.v1",
            "schema_ref": "schema://clutch/research/summary@1",
            "payload": { "findings": ["a", 1.5, null, true], "deep": { "er": { "x": "ü" } }, "citations": [] },
            "requires": ["skill:research"], "prefers": ["tool:browser"],
            "security": { "policy": { "sandbox": true, "tool_allowlist": ["mcp:browser"] } },
            "attachments": [{ "kind": "artifact_ref", "ref": "artifact:report" }], "idempotency_key": "idem_1",
            "attempt": 1, "meta": { "framework": "langgraph" }, "own": 7,
        });
        message.as_object().unwrap().clone()
    }

    fn signed(key: &SecretKey) -> Map<String, Value> {
        let mut signed = message();
        key.sign(&mut signed);
        signed
    }

    fn read(message: &Map<String, Value>) -> Envelope {
        Envelope::read(&serde_json::to_vec(message).unwrap()).unwrap()
    }

    #[test]
    fn what_was_signed_is_found_so_whichever_way_it_is_written() {
        let (ken, other) = (key("k1", 1), key("k2", 2));
        let signed = signed(&ken);
        let keys = [other.public(), ken.public()];
        assert_eq!(signed_by(&read(&signed), &keys), Ok(ken.public()));
        let turned_round: Vec<String> =
            signed.iter().rev().map(|(name, value)| format!("{}: {value:#}", json!(name))).collect();
        let written = format!("{{ {} }}", turned_round.join(" ,\n"));
        assert_eq!(signed_by(&Envelope::read(written.as_bytes()).unwrap(), &keys), Ok(ken.public()));
        let mut url_safe = signed;
        let sig = url_safe["security"]["auth"]["sig"].as_str().unwrap();
        let sig = sig.trim_end_matches('=').replace('+', "-").replace('/', "_");
        url_safe["security"]["auth"]["sig"] = json!(sig);
        assert_eq!(signed_by(&read(&url_safe), &keys), Ok(ken.public()));
    }

    /// Every change of any value, however deep, and every field that goes or comes.
    #[test]
    fn whatever_is_changed_is_noticed() {
        let ken = key("k1", 1);
        let signed = signed(&ken);
        let changed = |value: &Value| match value {
            Value::String(text) => json!(format!("{text}x")),
            Value::Number(_) => json!(3),
            Value::Bool(is) => json!(!is),
            Value::Null => json!(0),
            Value::Array(_) => json!(["x"]),
            Value::Object(_) => json!({ "x": 1 }),
        };
        let mut places = vec![];
        collect(&Value::Object(signed.clone()), "", &mut places);
        assert!(places.len() > 40, "{}", places.len());
        for place in &places {
            let mut tampered = Value::Object(signed.clone());
            let value = tampered.pointer_mut(place).unwrap();
            *value = changed(value);
            let tampered = tampered.as_object().unwrap();
            assert!(!is_valid(tampered, &ken), "{place} was changed");
            let (parent, name) = place.rsplit_once('/').unwrap();
            let mut lacking = Value::Object(signed.clone());
            if let Some(Value::Object(fields)) = lacking.pointer_mut(parent) {
                fields.remove(name);
                assert!(!is_valid(lacking.as_object().unwrap(), &ken), "{place} was taken away");
            }
        }
        let mut more = signed;
        more.insert("more".to_owned(), json!(1));
        assert!(!is_valid(&more, &ken));
    }

    fn is_valid(message: &Map<String, Value>, key: &SecretKey) -> bool {
        let sig = message.get("security").and_then(|s| s.get("auth")?.get("sig")?.as_str()).unwrap_or_default();
        verify(&key.public().public_key, sig, &canon::signing_form(message)).is_ok()
    }

    fn collect(value: &Value, place: &str, into: &mut Vec<String>) {
        let inner: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(entries) => entries.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
            _ => vec![],
        };
        for (name, value) in inner {
            let place = format!("{place}/{name}");
            collect(value, &place, into);
            into.push(place);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let (ken, other) = (key("k1", 1), key("k1", 2));
        let told = |message: &Map<String, Value>, keys: &[SigningKey]| {
            let refusal = signed_by(&read(message), keys).unwrap_err();
            (refusal.code, refusal.pointer.unwrap())
        };
        let sig = "/security/auth/sig".to_owned();
        assert_eq!(told(&signed(&other), &[ken.public()]), (Code::BadSignature, sig.clone()), "another's key");
        let unknown = (Code::UnknownKey, "/security/auth/kid".to_owned());
        assert_eq!(told(&signed(&ken), &[]), unknown);
        assert_eq!(told(&signed(&ken), &[key("k2", 1).public()]), unknown, "the same key under another name");
        assert_eq!(told(&message(), &[ken.public()]), (Code::SignatureRequired, "/security/auth".to_owned()));
        for odd in ["x", "AAAA", "!!!!", &"A".repeat(86), &"A".repeat(88)] {
            let mut oddly = signed(&ken);
            oddly["security"]["auth"]["sig"] = json!(odd);
            assert_eq!(told(&oddly, &[ken.public()]), (Code::BadSignature, sig.clone()), "{odd}");
        }
    }

    #[test]
    fn weak_and_odd_keys_are_none() {
        let base64 = |bytes: [u8; 32]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let mut one = [0; 32];
        one[0] = 1;
        assert!(is_public_key(&key("k", 1).public().public_key));
        // The neutral element, zero and what is no point: anybody could sign for these, or nobody.
        for weak in [base64(one), base64([0; 32]), base64([0xff; 32]), "short".to_owned(), String::new()] {
            assert!(!is_public_key(&weak), "{weak}");
        }
    }

    #[test]
    fn keys_are_compared_by_what_they_are() {
        let (a, b) = (key("a", 1).public(), key("b", 2).public());
        let unpadded = SigningKey { public_key: a.public_key.trim_end_matches('=').to_owned(), ..a.clone() };
        assert!(same_keys(&[a.clone(), b.clone()], &[b.clone(), unpadded]));
        assert!(!same_keys(std::slice::from_ref(&a), &[a.clone(), b.clone()]) && !same_keys(&[a], &[b]));
    }

    #[test]
    fn no_secret_is_shown_by_accident() {
        let key = key("k", 1);
        assert!(!format!("{key:?}").contains(&key.secret()));
        assert_eq!(SecretKey::read("k", &key.secret()).unwrap().public(), key.public());
    }
}
