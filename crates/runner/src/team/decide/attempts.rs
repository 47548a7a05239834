//! Decides how often a failed turn is retried, and when it is given up.

use std::time::Duration;

use crate::backend::Why;

/// Delays before the retries of a failed turn. After the last retry, the turn is given up.
const BACKOFF: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// The attempts of an agent at the same messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attempts {
    /// Unsuccessful turns, for any reason.
    pub made: u32,
    /// Turns that failed through the agent's own fault.
    pub failed: u32,
}

/// The treatment of messages whose turn did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Retry { after: Duration },
    GiveUp,
}

impl Attempts {
    /// The number of the next attempt, from 1.
    pub(crate) fn next(self) -> u32 {
        self.made + 1
    }

    /// Counts a failed turn. A rate limit does not count as a failure, and is retried after the delay that the provider asked for.
    pub(crate) fn count_failure(&mut self, why: Why) -> Next {
        self.made += 1;
        match why {
            Why::Limited { retry_after } => return Next::Retry { after: retry_after },
            Why::Hopeless => return Next::GiveUp,
            Why::Fault | Why::TimedOut | Why::Cancelled => self.failed += 1,
        }
        let nth = usize::try_from(self.failed).unwrap_or(usize::MAX).saturating_sub(1);
        BACKOFF.get(nth).map_or(Next::GiveUp, |after| Next::Retry { after: *after })
    }

    /// Counts a turn that was ended from outside. It is retried and does not count as a failure.
    pub(crate) fn count_interrupted(&mut self) {
        self.made += 1;
    }

    /// Starts over for other messages, after these were handled or given up.
    pub(crate) fn reset(&mut self) {
        *self = Attempts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITED: Why = Why::Limited { retry_after: Duration::from_secs(90) };

    #[test]
    fn failed_turn_is_retried_three_times_with_growing_delays() {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.next(), 1);
        assert_eq!(attempts.count_failure(Why::Fault), Next::Retry { after: Duration::from_secs(1) });
        assert_eq!(attempts.count_failure(Why::TimedOut), Next::Retry { after: Duration::from_secs(2) });
        assert_eq!(attempts.next(), 3);
        assert_eq!(attempts.count_failure(Why::Fault), Next::Retry { after: Duration::from_secs(4) });
        assert_eq!(attempts.next(), 4);
        assert_eq!(attempts.count_failure(Why::Fault), Next::GiveUp);
        attempts.reset();
        assert_eq!(attempts.next(), 1);
    }

    #[test]
    fn hopeless_failure_is_not_retried() {
        assert_eq!(Attempts::default().count_failure(Why::Hopeless), Next::GiveUp);
    }

    #[test]
    fn rate_limit_and_interruption_do_not_count_as_failures() {
        let mut attempts = Attempts::default();
        for _ in 0..10 {
            assert_eq!(attempts.count_failure(LIMITED), Next::Retry { after: Duration::from_secs(90) });
            attempts.count_interrupted();
        }
        assert_eq!((attempts.next(), attempts.failed), (21, 0));
        assert_eq!(attempts.count_failure(Why::Fault), Next::Retry { after: Duration::from_secs(1) });
    }
}
