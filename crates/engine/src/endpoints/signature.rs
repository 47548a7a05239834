//! How an endpoint can tell that a message comes from this project's daemon: a seal over the time and the body, with a key that
//! only that agent and the project's owner know.

use hmac::{Hmac, KeyInit, Mac};
use rookery_core::kernel::hex::hex;
use rookery_core::{AgentId, Timestamp};
use sha2::{Digest, Sha256};

use rookery_core::kernel::session_key::hash;

/// The header that carries it.
pub const HEADER: &str = "x-rookery-signature";

/// The key of an agent, made from the project's key file: nobody has to keep it.
pub fn delivery_key(person_key: &str, agent: &AgentId) -> String {
    key_of(&hash(person_key), agent)
}

pub(crate) fn key_of(person_key_hash: &str, agent: &AgentId) -> String {
    let named = format!("rkd.{}", hex(agent.as_str().as_bytes()));
    hex(&seal(person_key_hash.as_bytes(), &[named.as_bytes()]))
}

/// `t=SECONDS,kid=…,v1=…`, where `v1` is HMAC-SHA256 over `SECONDS.BODY` and `kid` tells which key it was made with.
pub(crate) fn signature(key: &str, at: Timestamp, body: &[u8]) -> String {
    let seconds = at.0.div_euclid(1_000).to_string();
    let sealed = seal(key.as_bytes(), &[seconds.as_bytes(), b".", body]);
    format!("t={seconds},kid={},v1={}", kid(key), hex(&sealed))
}

/// The name of a key, which tells nothing of it.
fn kid(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes())[..4])
}

fn seal(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac: Hmac<Sha256> = Hmac::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC takes any key"));
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_its_own_key_and_every_body_its_own_seal() {
        let (ken, ada) = (delivery_key("k\n", &"ken".into()), delivery_key("k", &"ada".into()));
        assert_eq!(ken, delivery_key("k", &"ken".into()), "however the file ends");
        assert_ne!(ken, ada);
        let sealed = |key: &str, at: i64, body: &[u8]| signature(key, Timestamp(at), body);
        let one = sealed(&ken, 12_345_678, b"{}");
        assert!(one.starts_with("t=12345,kid=") && one.len() == "t=12345,kid=,v1=".len() + 8 + 64, "{one}");
        assert_eq!(one, sealed(&ken, 12_345_999, b"{}"));
        for other in
            [sealed(&ada, 12_345_678, b"{}"), sealed(&ken, 12_346_678, b"{}"), sealed(&ken, 12_345_678, b"{ }")]
        {
            assert_ne!(one, other);
        }
    }
}
