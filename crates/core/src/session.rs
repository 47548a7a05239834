//! Session keys: how a program that we started, or that the project's owner did, proves which agent it speaks for.
//!
//! A key names the agent and its own end, and is sealed with the project's key file. Nobody has to keep it: whoever can
//! read that file can make one, and the daemon of the same project can tell. It ends by itself, or with the file.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::clutch::hex;
use crate::{AgentId, Timestamp};

/// What a session key begins with, so that one is recognised where it should not be.
const PREFIX: &str = "rks";

/// The hash of a secret, as it is kept. Spaces around it do not matter, so that files with a line break will do.
pub fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.trim().as_bytes()))
}

/// A key for the agent, until then.
pub fn key(person_key: &str, agent: &AgentId, until: Timestamp) -> String {
    let named = format!("{PREFIX}.{}.{}", hex(agent.as_str().as_bytes()), until.0);
    format!("{named}.{}", hex(&seal(&hash(person_key), &named)))
}

/// The agent that a key is for, if it was made with this project's key file and has not ended.
pub fn agent(person_key_hash: &str, key: &str, now: Timestamp) -> Option<AgentId> {
    let (named, sealed) = key.rsplit_once('.')?;
    if !is_sealed(person_key_hash, named, sealed) {
        return None;
    }
    let (agent, until) = named.strip_prefix(PREFIX)?.strip_prefix('.')?.split_once('.')?;
    let agent = String::from_utf8(unhex(agent)?).ok()?;
    (until.parse::<i64>().ok()? > now.0).then(|| AgentId::from(agent.as_str()))
}

/// What proves that a text was written by whoever can read the project's key file.
pub fn seal(person_key_hash: &str, named: &str) -> Vec<u8> {
    mac(person_key_hash, named).finalize().into_bytes().to_vec()
}

/// Whether a text was sealed with the project's key file, told in the same time whatever is wrong.
pub fn is_sealed(person_key_hash: &str, named: &str, sealed: &str) -> bool {
    unhex(sealed).is_some_and(|sealed| mac(person_key_hash, named).verify_slice(&sealed).is_ok())
}

fn mac(person_key_hash: &str, named: &str) -> Hmac<Sha256> {
    // A key of any length will do.
    let mut mac =
        Hmac::new_from_slice(person_key_hash.as_bytes()).unwrap_or_else(|_| unreachable!("HMAC takes any key"));
    mac.update(named.as_bytes());
    mac
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_good_for_its_agent_until_it_ends() {
        let key = key("the-key\n", &"reviewer@pr-1".into(), Timestamp(100));
        assert_eq!(agent(&hash("the-key"), &key, Timestamp(99)), Some("reviewer@pr-1".into()));
        assert_eq!(agent(&hash("the-key"), &key, Timestamp(100)), None, "it has ended");
        assert_eq!(agent(&hash("another"), &key, Timestamp(99)), None, "another project's");
    }

    #[test]
    fn nothing_of_a_key_can_be_changed() {
        let key = key("k", &"a".into(), Timestamp(100));
        for at in 0..key.len() {
            let mut bytes = key.clone().into_bytes();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            let other = String::from_utf8(bytes).unwrap();
            assert_eq!(agent(&hash("k"), &other, Timestamp(1)), None, "{other}");
        }
        for other in ["", "rks", "rks.61.100", "rks.61.100.", "....", "rks.61.100.zz", "rks.6.100.ab", "ü.ü.ü.ü"] {
            assert_eq!(agent(&hash("k"), other, Timestamp(1)), None, "{other}");
        }
    }
}
