//! The clock of a team: wall-clock time for schedules, and the time since the runner began for all other purposes.

use std::time::{Duration, Instant};

use jiff::Zoned;

#[derive(Clone, Copy, Debug)]
pub(super) struct TeamClock {
    began: Instant,
}

impl TeamClock {
    #[expect(clippy::disallowed_methods, reason = "this is where a team reads the clock")]
    pub(super) fn start() -> TeamClock {
        TeamClock { began: Instant::now() }
    }

    /// The time since the runner began.
    pub(super) fn now(self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn wall_time(self) -> Zoned {
        Zoned::now()
    }
}
