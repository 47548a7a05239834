//! How a browser proves that a person uses it: a one-time code, which the project's owner gets from the command line, is
//! exchanged for a browser session.
//!
//! A session has two halves. The browser keeps one in a cookie that scripts cannot read, the page keeps the other in the
//! storage of its origin and sends it as a header. Cookies are shared by all ports of a host, storage is not: a server on
//! another port gets the cookie and cannot use it. The daemon stores a hash of both halves together, among the tokens, so
//! that a session outlives restarts, is known to every node and can be revoked.
//!
//! Codes are kept in the memory of the node that issued them.

use std::sync::{Mutex, PoisonError};

use rookery_core::Timestamp;
use rookery_core::kernel::caller::Authority;
use rookery_core::kernel::session_key::hash;
use rookery_store::{Browser, Token};

/// How long a code can be exchanged.
const CODE_MILLIS: u64 = 15 * 60 * 1_000;

/// How long a session lasts after its last use.
pub const SESSION_MILLIS: u64 = 30 * 24 * 60 * 60 * 1_000;

/// How far the recorded last use of a session may lag behind.
pub(crate) const RENEW_AFTER_MILLIS: u64 = 5 * 60 * 1_000;

/// How many codes can be open; a further one replaces the oldest.
const MAX_OPEN_CODES: usize = 32;

/// How many sessions there can be; a further sign-in ends the one that was used least recently.
pub(crate) const MAX_SESSIONS: usize = 256;

/// The codes that were issued and not exchanged yet.
#[derive(Debug, Default)]
pub struct SignInCodes(Mutex<Vec<OpenCode>>);

#[derive(Debug)]
struct OpenCode {
    /// Of the code, so that reading the memory of the daemon does not reveal it.
    hash: String,
    person: String,
    until: Timestamp,
}

impl SignInCodes {
    /// Remembers a code that signs a person in, once.
    pub fn issue(&self, code: &str, person: &str, now: Timestamp) {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| code.until > now);
        if codes.len() >= MAX_OPEN_CODES {
            codes.remove(0);
        }
        codes.push(OpenCode { hash: hash(code), person: person.to_owned(), until: now.plus_millis(CODE_MILLIS) });
    }

    /// Redeems a code and returns the person that it signs in. A code can be redeemed once.
    pub fn redeem(&self, code: &str, now: Timestamp) -> Option<String> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = hash(code);
        let at = codes.iter().position(|code| code.hash == hash && code.until > now)?;
        Some(codes.remove(at).person)
    }
}

/// The two secrets of a browser session.
#[derive(Clone, Copy, Debug)]
pub struct SessionHalves<'a> {
    /// From the cookie.
    pub cookie: &'a str,
    /// From the storage of the origin.
    pub stored: &'a str,
}

impl SessionHalves<'_> {
    /// The hash that the session is stored under. The project's key is part of it: a new key file ends all sessions.
    pub(crate) fn hash(&self, person_key_hash: &str) -> String {
        // Lengths keep the halves apart, whatever they contain.
        hash(&format!("browser {person_key_hash} {} {} {}", self.cookie.len(), self.cookie, self.stored))
    }
}

/// The session of a person who signs in now.
pub(crate) fn new_session(id: String, hash: String, person: String, browser: String, now: Timestamp) -> Token {
    Token {
        id,
        hash,
        subject: person,
        power: Authority::Person,
        created_at: now,
        expires_at: Some(now.plus_millis(SESSION_MILLIS)),
        label: None,
        browser: Some(Browser { name: browser, last_used: now }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_redeemed_once_and_within_its_time() {
        let codes = SignInCodes::default();
        codes.issue("c1", "anna", Timestamp(0));
        codes.issue("c2", "ben", Timestamp(0));
        assert_eq!(codes.redeem("c3", Timestamp(1)), None);
        assert_eq!(codes.redeem("c1", Timestamp(1)).as_deref(), Some("anna"));
        assert_eq!(codes.redeem("c1", Timestamp(1)), None, "no second time");
        assert_eq!(codes.redeem("c2", Timestamp(0).plus_millis(CODE_MILLIS)), None, "too late");
    }

    #[test]
    fn open_codes_are_bounded() {
        let codes = SignInCodes::default();
        for number in 0..=MAX_OPEN_CODES {
            codes.issue(&number.to_string(), "anna", Timestamp(0));
        }
        assert_eq!(codes.redeem("0", Timestamp(1)), None, "the oldest was replaced");
        assert!(codes.redeem("1", Timestamp(1)).is_some());
    }

    #[test]
    fn session_hash_needs_both_halves_and_the_project_key() {
        let hash_of = |key: &str, cookie: &str, stored: &str| SessionHalves { cookie, stored }.hash(key);
        let real = hash_of("key", "cookie", "stored");
        assert_eq!(real, hash_of("key", "cookie", "stored"));
        for other in [
            hash_of("other", "cookie", "stored"),
            hash_of("key", "cookie", ""),
            hash_of("key", "", "stored"),
            hash_of("key", "stored", "cookie"),
            hash_of("key", "cookie stored", ""),
        ] {
            assert_ne!(real, other);
        }
    }
}
