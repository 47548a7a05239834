//! How hard it is tried to deliver a message.

use std::time::Duration;

use rookery_core::MessageId;

use super::circuit::Tolerance;
use crate::settings::Settings;

const MAX_BACKOFF: Duration = Duration::from_secs(5 * 60);

/// How hard it is tried to deliver a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliveryPolicy {
    /// After so many in vain a delivery is given up on.
    pub attempts: u32,
    /// After the first of them; doubled each time.
    pub first_backoff: Duration,
    /// After so many failures in a row an endpoint is left alone for a while.
    pub circuit_failures: u32,
    /// How long at first.
    pub circuit_backoff: Duration,
    /// How many messages are on their way to all endpoints.
    pub in_flight: usize,
}

/// How many messages are on their way to all endpoints.
const IN_FLIGHT: usize = 64;

impl Default for DeliveryPolicy {
    fn default() -> DeliveryPolicy {
        DeliveryPolicy::new(&Settings::default())
    }
}

impl DeliveryPolicy {
    pub fn new(settings: &Settings) -> DeliveryPolicy {
        DeliveryPolicy {
            attempts: settings.delivery_attempts,
            first_backoff: settings.delivery_backoff,
            circuit_failures: settings.delivery_circuit_failures,
            circuit_backoff: settings.delivery_circuit_backoff,
            in_flight: IN_FLIGHT,
        }
    }

    /// How long after an attempt the next one comes: doubled each time, and up to a quarter less, so that what failed
    /// together does not come back together. What the endpoint asks for is heeded.
    pub(crate) fn pause(&self, message: &MessageId, attempt: u32, asked: Option<Duration>) -> Duration {
        let doubled = self.first_backoff.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(MAX_BACKOFF);
        let spread = message.as_str().bytes().fold(attempt, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let pause = doubled - doubled * (spread % 256) / 1_024;
        asked.map_or(pause, |asked| pause.max(asked.min(MAX_BACKOFF)))
    }

    pub(crate) fn tolerance(&self) -> Tolerance {
        Tolerance { failures: self.circuit_failures.max(1), pause: self.circuit_backoff }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn pauses_double_within_bounds_and_differ() {
        let effort = DeliveryPolicy::default();
        let pause = |attempt: u32, asked: Option<u64>| {
            effort.pause(&"msg_1".into(), attempt, asked.map(Duration::from_secs)).as_millis()
        };
        for (attempt, most) in [(1, 1_000), (2, 2_000), (5, 16_000), (12, 300_000), (u32::MAX, 300_000)] {
            assert!((most * 3 / 4..=most).contains(&pause(attempt, None)), "{attempt}: {}", pause(attempt, None));
        }
        assert_eq!((pause(1, Some(20)), pause(1, Some(9_999))), (20_000, 300_000));
        let others: BTreeSet<Duration> =
            (0..20).map(|at| effort.pause(&MessageId::new(format!("m{at}")), 4, None)).collect();
        assert!(others.len() > 10, "{others:?}");
    }
}
