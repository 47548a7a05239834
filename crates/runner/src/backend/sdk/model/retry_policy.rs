//! How often a model is asked again, and how long before each time.

use std::time::Duration;

use super::error::{Again, Trouble};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(in super::super) struct ModelRetryPolicy {
    /// How often it is asked in all.
    pub attempts: u32,
    /// Before the second time; it doubles from there.
    pub first: Duration,
    /// Longer is not waited within a turn: whoever uses the same account should wait then, not this agent alone.
    pub most: Duration,
    /// How long nothing may come. Where a model is loaded first, that takes a while.
    pub silence: Duration,
}

impl Default for ModelRetryPolicy {
    fn default() -> ModelRetryPolicy {
        let (first, most) = (Duration::from_secs(1), Duration::from_secs(30));
        ModelRetryPolicy { attempts: 5, first, most, silence: Duration::from_secs(300) }
    }
}

impl ModelRetryPolicy {
    /// How long to wait after so many attempts, if it makes sense to ask again. `chance`, from 0 to 1, keeps those who failed
    /// together from asking together.
    pub(super) fn pause(&self, attempts: u32, trouble: &Trouble, chance: f64) -> Option<Duration> {
        if attempts >= self.attempts || trouble.again() == Again::No {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << (attempts.saturating_sub(1)).min(16)).min(self.most);
        let own = doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        match trouble.retry_after() {
            Some(asked) if asked > self.most => None,
            Some(asked) => Some(asked + own.min(self.first)),
            None => Some(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(seconds: u64) -> Trouble {
        let retry_after = Some(Duration::from_secs(seconds));
        Trouble::Status { status: 429, message: String::new(), retry_after }
    }

    #[test]
    fn pauses_double_and_differ() {
        let policy = ModelRetryPolicy::default();
        let pauses: Vec<Option<u128>> =
            (1..=5).map(|n| policy.pause(n, &Trouble::Cut, 1.0).map(|pause| pause.as_millis())).collect();
        assert_eq!(pauses, [Some(1000), Some(2000), Some(4000), Some(8000), None]);
        assert_eq!(policy.pause(1, &Trouble::Cut, 0.0), Some(Duration::from_millis(500)));
    }

    #[test]
    fn what_the_provider_asks_for_is_kept_to_unless_it_is_long() {
        let policy = ModelRetryPolicy::default();
        let pause = policy.pause(1, &limited(7), 0.0).unwrap();
        assert!(pause >= Duration::from_secs(7) && pause <= Duration::from_secs(8), "{pause:?}");
        assert_eq!(policy.pause(1, &limited(31), 0.0), None);
        assert_eq!(policy.pause(1, &Trouble::status(401, ""), 0.0), None);
    }
}
