//! How often what failed is tried again, and when it is given up.

use std::time::Duration;

use crate::backend::Why;

/// How long before each further attempt after a failure. When there is none left, it is given up.
const BACKOFF: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// The attempts of an agent at the same messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attempts {
    /// Turns that came to nothing, whyever.
    pub made: u32,
    /// Those that were the agent's own fault.
    pub failed: u32,
}

/// What becomes of messages whose turn did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Again { after: Duration },
    GiveUp,
}

impl Attempts {
    /// The number of the next attempt, from 1.
    pub(crate) fn next(self) -> u32 {
        self.made + 1
    }

    /// A turn failed. An account that is out of requests is nobody's fault, and waits as long as it was told.
    pub(crate) fn failed(&mut self, why: Why) -> Next {
        self.made += 1;
        match why {
            Why::Limited { retry_after } => return Next::Again { after: retry_after },
            Why::Hopeless => return Next::GiveUp,
            Why::Fault | Why::TimedOut | Why::Cancelled => self.failed += 1,
        }
        let nth = usize::try_from(self.failed).unwrap_or(usize::MAX).saturating_sub(1);
        BACKOFF.get(nth).map_or(Next::GiveUp, |after| Next::Again { after: *after })
    }

    /// A turn was ended from outside: it is tried again, and held against nobody.
    pub(crate) fn interrupted(&mut self) {
        self.made += 1;
    }

    /// Done, or given up: what comes next is something new.
    pub(crate) fn over(&mut self) {
        *self = Attempts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITED: Why = Why::Limited { retry_after: Duration::from_secs(90) };

    #[test]
    fn it_is_tried_again_three_times_with_growing_pauses() {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.next(), 1);
        assert_eq!(attempts.failed(Why::Fault), Next::Again { after: Duration::from_secs(1) });
        assert_eq!(attempts.failed(Why::TimedOut), Next::Again { after: Duration::from_secs(2) });
        assert_eq!(attempts.next(), 3);
        assert_eq!(attempts.failed(Why::Fault), Next::Again { after: Duration::from_secs(4) });
        assert_eq!(attempts.next(), 4);
        assert_eq!(attempts.failed(Why::Fault), Next::GiveUp);
        attempts.over();
        assert_eq!(attempts.next(), 1);
    }

    #[test]
    fn what_cannot_become_better_is_not_tried_again() {
        assert_eq!(Attempts::default().failed(Why::Hopeless), Next::GiveUp);
    }

    #[test]
    fn being_out_of_requests_or_interrupted_counts_as_no_failure() {
        let mut attempts = Attempts::default();
        for _ in 0..10 {
            assert_eq!(attempts.failed(LIMITED), Next::Again { after: Duration::from_secs(90) });
            attempts.interrupted();
        }
        assert_eq!((attempts.next(), attempts.failed), (21, 0));
        assert_eq!(attempts.failed(Why::Fault), Next::Again { after: Duration::from_secs(1) });
    }
}
