//! When a run is over: no agent works, nobody has unread messages, nothing is about to be tried again, and all that has held
//! for a moment, after which it is asked once more.

use std::time::Duration;

/// How long it must have been quiet.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// Watches for the end of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Quiet {
    /// Since when it is, and how often anything had stirred by then.
    since: Option<(Duration, u64)>,
}

/// What to do next about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Somebody is at it: look again when something changes.
    Busy,
    /// Look again after this time, or when something changes.
    Settling(Duration),
    /// Ask everybody's inbox once more; if they are all empty and nothing stirred meanwhile, it is over.
    AskAgain,
}

impl Quiet {
    /// `busy`: whether anybody works, has unread messages or is about to try again. `stirred` counts everything that
    /// happened: it tells work that began and ended between two looks.
    pub(crate) fn look(&mut self, now: Duration, busy: bool, stirred: u64) -> Look {
        if busy {
            self.since = None;
            return Look::Busy;
        }
        let since = match self.since {
            Some((since, then)) if then == stirred => since,
            _ => {
                self.since = Some((now, stirred));
                now
            }
        };
        match SETTLE.checked_sub(now.saturating_sub(since)) {
            Some(left) if !left.is_zero() => Look::Settling(left),
            _ => Look::AskAgain,
        }
    }

    /// Somebody had unread messages after all.
    pub(crate) fn begin_again(&mut self) {
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
    fn it_is_over_after_a_moment_of_quiet() {
        let mut quiet = Quiet::default();
        assert_eq!(quiet.look(at(0), true, 1), Look::Busy);
        assert_eq!(quiet.look(at(100), false, 1), Look::Settling(at(1_000)));
        assert_eq!(quiet.look(at(700), false, 1), Look::Settling(at(400)));
        assert_eq!(quiet.look(at(1_100), false, 1), Look::AskAgain);
    }

    #[test]
    fn whatever_happens_meanwhile_begins_the_moment_again() {
        let mut quiet = Quiet::default();
        quiet.look(at(0), false, 1);
        assert_eq!(quiet.look(at(900), true, 1), Look::Busy);
        assert_eq!(quiet.look(at(1_000), false, 1), Look::Settling(at(1_000)));
        // A turn that nobody saw, because it was over before anybody looked.
        assert_eq!(quiet.look(at(2_000), false, 2), Look::Settling(at(1_000)));
        assert_eq!(quiet.look(at(3_000), false, 2), Look::AskAgain);
        quiet.begin_again();
        assert_eq!(quiet.look(at(3_001), false, 2), Look::Settling(at(1_000)));
    }
}
