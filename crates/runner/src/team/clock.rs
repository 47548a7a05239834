//! What time it is for a team: on the machine's clock for schedules, and since the runner began for everything else.

use std::time::{Duration, Instant};

use jiff::Zoned;

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is where a team reads the clock")]
    pub(super) fn start() -> Clock {
        Clock { began: Instant::now() }
    }

    /// How long the runner is at it.
    pub(super) fn now(self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn zoned(self) -> Zoned {
        Zoned::now()
    }
}
