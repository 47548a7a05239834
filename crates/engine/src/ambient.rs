//! The only place that reads the clock, mints ids or asks for randomness. Everything else is given these.

use std::fmt::Debug;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

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
    #[expect(clippy::disallowed_methods, reason = "this is the module that reads the clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Where new ids come from.
pub trait Ids: Send + Sync + Debug + 'static {
    /// An id nobody has seen: the prefix and a random part.
    fn mint(&self, prefix: &str) -> String;
}

/// Ids that cannot be guessed or collide.
#[derive(Debug, Default)]
pub struct RandomIds;

/// Letters and digits only: ids are typed, double-clicked and put into URLs.
const ALPHABET: [char; 36] = [
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm',
    'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z',
];

impl Ids for RandomIds {
    #[expect(clippy::disallowed_methods, reason = "this is the module that mints ids")]
    fn mint(&self, prefix: &str) -> String {
        format!("{prefix}{}", nanoid::format(nanoid::rngs::default, &ALPHABET, 16))
    }
}

/// A secret for tokens and key files: 256 bits.
#[expect(clippy::disallowed_methods, reason = "this is the module that asks for randomness")]
pub fn secret() -> String {
    nanoid::format(nanoid::rngs::default, &ALPHABET, 50)
}
