//! How a browser proves that a person sits before it: a code that is good once and for minutes, which the project's owner
//! gets from the command line, and the cookie that it is exchanged for.
//!
//! Codes are kept in the memory of the node that gave them out. A cookie names the person and its own end and is sealed with
//! the project's key file, like the keys of sessions, so that nobody keeps it and it survives a restart; it ends by itself, or
//! with the file.

use std::sync::{Mutex, PoisonError};

use rookery_core::Timestamp;
use rookery_core::session::{hash, is_sealed, seal, unhex};

use crate::engine::hex;

/// What the value of a cookie begins with, so that one is recognised where it should not be.
const PREFIX: &str = "rku";

/// How long a code can be exchanged.
const CODE_MILLIS: u64 = 15 * 60 * 1_000;

/// How long a cookie is good.
pub const COOKIE_MILLIS: u64 = 30 * 24 * 60 * 60 * 1_000;

/// How many codes wait at most; a further one takes the place of the oldest.
const MOST_CODES: usize = 32;

/// The codes that were given out and not exchanged yet.
#[derive(Debug, Default)]
pub struct Launches(Mutex<Vec<Code>>);

#[derive(Debug)]
struct Code {
    /// Of the code: whoever reads our memory cannot use it.
    hash: String,
    person: String,
    until: Timestamp,
}

impl Launches {
    /// Remembers a code that signs a person in, once.
    pub fn give_out(&self, code: &str, person: &str, now: Timestamp) {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| code.until > now);
        if codes.len() >= MOST_CODES {
            codes.remove(0);
        }
        codes.push(Code { hash: hash(code), person: person.to_owned(), until: now.plus_millis(CODE_MILLIS) });
    }

    /// The person that a code signs in. It does so no second time.
    pub fn exchange(&self, code: &str, now: Timestamp) -> Option<String> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = hash(code);
        let at = codes.iter().position(|code| code.hash == hash && code.until > now)?;
        Some(codes.remove(at).person)
    }
}

/// The value of a cookie for a person, until then.
pub(crate) fn cookie(person_key_hash: &str, person: &str, until: Timestamp) -> String {
    let named = format!("{PREFIX}.{}.{}", hex(person.as_bytes()), until.0);
    let sealed = hex(&seal(person_key_hash, &named));
    format!("{named}.{sealed}")
}

/// The person that a cookie is for, if it was made with this project's key file and has not ended.
pub(crate) fn person(person_key_hash: &str, cookie: &str, now: Timestamp) -> Option<String> {
    let (named, sealed) = cookie.rsplit_once('.')?;
    if !is_sealed(person_key_hash, named, sealed) {
        return None;
    }
    let (person, until) = named.strip_prefix(PREFIX)?.strip_prefix('.')?.split_once('.')?;
    let person = String::from_utf8(unhex(person)?).ok()?;
    (until.parse::<i64>().ok()? > now.0).then_some(person)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once_and_for_a_while() {
        let launches = Launches::default();
        launches.give_out("c1", "anna", Timestamp(0));
        launches.give_out("c2", "ben", Timestamp(0));
        assert_eq!(launches.exchange("c3", Timestamp(1)), None);
        assert_eq!(launches.exchange("c1", Timestamp(1)).as_deref(), Some("anna"));
        assert_eq!(launches.exchange("c1", Timestamp(1)), None, "no second time");
        assert_eq!(launches.exchange("c2", Timestamp(0).plus_millis(CODE_MILLIS)), None, "too late");
    }

    #[test]
    fn only_so_many_codes_wait() {
        let launches = Launches::default();
        for number in 0..=MOST_CODES {
            launches.give_out(&number.to_string(), "anna", Timestamp(0));
        }
        assert_eq!(launches.exchange("0", Timestamp(1)), None, "the oldest had to go");
        assert!(launches.exchange("1", Timestamp(1)).is_some());
    }

    #[test]
    fn a_cookie_is_for_its_person_until_it_ends_and_nothing_of_it_can_be_changed() {
        let key = hash("the-key");
        let made = cookie(&key, "anna", Timestamp(100));
        assert_eq!(person(&key, &made, Timestamp(99)).as_deref(), Some("anna"));
        assert_eq!(person(&key, &made, Timestamp(100)), None, "it has ended");
        assert_eq!(person(&hash("another"), &made, Timestamp(99)), None, "another project's");
        for at in 0..made.len() {
            let mut bytes = made.clone().into_bytes();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            assert_eq!(person(&key, &String::from_utf8(bytes).unwrap(), Timestamp(1)), None, "{at}");
        }
        let session = rookery_core::session::key("the-key", &"anna".into(), Timestamp(100));
        assert_eq!(person(&key, &session, Timestamp(1)), None, "a session's key is not one");
    }
}
