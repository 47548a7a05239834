//! The number of attempts of a request, and the pauses between them.

use std::time::Duration;

use super::error::{ModelError, Retryability};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(in super::super) struct ModelRetryPolicy {
    /// Maximum number of attempts in all.
    pub attempts: u32,
    /// The first pause; later ones double.
    pub first: Duration,
    /// The longest pause within a turn. For a longer one, all users of the account should wait, not this agent alone.
    pub most: Duration,
    /// Longest time without data. A model that has to be loaded first needs long.
    pub silence: Duration,
}

impl Default for ModelRetryPolicy {
    fn default() -> ModelRetryPolicy {
        let (first, most) = (Duration::from_secs(1), Duration::from_secs(30));
        ModelRetryPolicy { attempts: 5, first, most, silence: Duration::from_secs(300) }
    }
}

impl ModelRetryPolicy {
    /// The pause after a number of attempts; `None` if a retry makes no sense. `chance`, from 0 to 1, spreads the retries of
    /// clients that failed together.
    pub(super) fn pause(&self, attempts: u32, error: &ModelError, chance: f64) -> Option<Duration> {
        if attempts >= self.attempts || error.retryability() == Retryability::No {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << (attempts.saturating_sub(1)).min(16)).min(self.most);
        let own = doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        match error.retry_after() {
            Some(asked) if asked > self.most => None,
            Some(asked) => Some(asked + own.min(self.first)),
            None => Some(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(seconds: u64) -> ModelError {
        let retry_after = Some(Duration::from_secs(seconds));
        ModelError::Status { status: 429, message: String::new(), retry_after }
    }

    #[test]
    fn retry_pauses_double_and_are_spread() {
        let policy = ModelRetryPolicy::default();
        let pauses: Vec<Option<u128>> =
            (1..=5).map(|n| policy.pause(n, &ModelError::Cut, 1.0).map(|pause| pause.as_millis())).collect();
        assert_eq!(pauses, [Some(1000), Some(2000), Some(4000), Some(8000), None]);
        assert_eq!(policy.pause(1, &ModelError::Cut, 0.0), Some(Duration::from_millis(500)));
    }

    #[test]
    fn retry_waits_as_long_as_the_provider_asks_within_limits() {
        let policy = ModelRetryPolicy::default();
        let pause = policy.pause(1, &limited(7), 0.0).unwrap();
        assert!(pause >= Duration::from_secs(7) && pause <= Duration::from_secs(8), "{pause:?}");
        assert_eq!(policy.pause(1, &limited(31), 0.0), None);
        assert_eq!(policy.pause(1, &ModelError::status(401, ""), 0.0), None);
    }
}
