//! What the engine is given from outside: clocks, ids and randomness here, and in the folder what starts teams and carries
//! effects out.
//!
//! This file is the only place that reads the clock, mints ids or asks for randomness.

pub mod effect_executor;
pub mod team_starter;

use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_core::Timestamp;
use rookery_store::Clock;

/// The clocks of this machine.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the module that reads the clock")]
    fn default() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that reads the clock")]
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Where new ids come from.
pub trait Ids: Send + Sync + Debug + 'static {
    /// An id nobody has seen: the prefix and a random part.
    fn mint(&self, prefix: &str) -> String;
}

/// Ids that cannot be guessed or collide. They begin with the time they were made at, so that new rows lie side by side
/// in every index instead of all over it; nothing may be read from their order.
#[derive(Debug, Default)]
pub struct RandomIds;

/// Milliseconds in this many digits of [`ALPHABET`] last for three thousand years.
const TIME_DIGITS: usize = 9;
const RANDOM_DIGITS: usize = 12;

/// Letters and digits only: ids are typed, double-clicked and put into URLs.
const ALPHABET: [char; 36] = [
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm',
    'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z',
];

impl Ids for RandomIds {
    #[expect(clippy::disallowed_methods, reason = "this is the module that mints ids")]
    fn mint(&self, prefix: &str) -> String {
        let mut id = String::with_capacity(prefix.len() + TIME_DIGITS + RANDOM_DIGITS);
        id.push_str(prefix);
        id.extend(digits(since_1970().as_millis()));
        id.push_str(&nanoid::format(nanoid::rngs::default, &ALPHABET, RANDOM_DIGITS));
        id
    }
}

/// The last digits of a number, the highest first.
fn digits(mut number: u128) -> [char; TIME_DIGITS] {
    let mut digits = ['0'; TIME_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(number % ALPHABET.len() as u128) as usize];
        number /= ALPHABET.len() as u128;
    }
    digits
}

/// A secret for tokens and key files: 256 bits.
#[expect(clippy::disallowed_methods, reason = "this is the module that asks for randomness")]
pub fn secret() -> String {
    nanoid::format(nanoid::rngs::default, &ALPHABET, 50)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_begin_with_their_time_and_differ() {
        let text = |millis| digits(millis).iter().collect::<String>();
        assert_eq!(text(0), "000000000");
        assert_eq!(text(36 * 36 + 35), "00000010z");
        assert!(text(1_800_000_000_000) < text(1_800_000_000_001));
        let (one, other) = (RandomIds.mint("task_"), RandomIds.mint("task_"));
        assert_ne!(one, other);
        assert_eq!(one.len(), "task_".len() + TIME_DIGITS + RANDOM_DIGITS);
    }
}
