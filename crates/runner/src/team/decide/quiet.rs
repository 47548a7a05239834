//! Detects the end of a run: no agent works, has unread messages or waits for a retry, and this has held for a moment. Then all
//! inboxes are checked once more.

use std::time::Duration;

/// The time for which the team must have been quiet.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// Detects the end of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QuietDetector {
    /// The start of the quiet time, and the number of changes by then.
    since: Option<(Duration, u64)>,
}

/// The next step in detecting the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QuietCheck {
    /// An agent is busy: check again when something changes.
    Busy,
    /// Check again after this time, or when something changes.
    Settling(Duration),
    /// Check all inboxes. If they are empty and nothing changed meanwhile, the run has ended.
    CheckInboxes,
}

impl QuietDetector {
    /// Checks the state of the team. `busy` is whether any agent works, has unread messages or waits for a retry. `changes` counts
    /// all changes, and so reveals work that began and ended between two checks.
    pub(crate) fn check(&mut self, now: Duration, busy: bool, changes: u64) -> QuietCheck {
        if busy {
            self.since = None;
            return QuietCheck::Busy;
        }
        let since = match self.since {
            Some((since, then)) if then == changes => since,
            _ => {
                self.since = Some((now, changes));
                now
            }
        };
        match SETTLE.checked_sub(now.saturating_sub(since)) {
            Some(left) if !left.is_zero() => QuietCheck::Settling(left),
            _ => QuietCheck::CheckInboxes,
        }
    }

    /// Starts over because an agent had unread messages.
    pub(crate) fn restart(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn run_ends_after_a_quiet_moment() {
        let mut quiet = QuietDetector::default();
        assert_eq!(quiet.check(at(0), true, 1), QuietCheck::Busy);
        assert_eq!(quiet.check(at(100), false, 1), QuietCheck::Settling(at(1_000)));
        assert_eq!(quiet.check(at(700), false, 1), QuietCheck::Settling(at(400)));
        assert_eq!(quiet.check(at(1_100), false, 1), QuietCheck::CheckInboxes);
    }

    #[test]
    fn change_restarts_the_quiet_moment() {
        let mut quiet = QuietDetector::default();
        quiet.check(at(0), false, 1);
        assert_eq!(quiet.check(at(900), true, 1), QuietCheck::Busy);
        assert_eq!(quiet.check(at(1_000), false, 1), QuietCheck::Settling(at(1_000)));
        // A turn that began and ended between two checks.
        assert_eq!(quiet.check(at(2_000), false, 2), QuietCheck::Settling(at(1_000)));
        assert_eq!(quiet.check(at(3_000), false, 2), QuietCheck::CheckInboxes);
        quiet.restart();
        assert_eq!(quiet.check(at(3_001), false, 2), QuietCheck::Settling(at(1_000)));
    }
}
