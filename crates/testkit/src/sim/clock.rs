//! A node's own clocks. The world moves them; they skew, jump and sleep as those of real machines do.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::Timestamp;
use rookery_store::Clock;

#[derive(Debug)]
pub(super) struct NodeClock {
    dials: Mutex<Dials>,
}

#[derive(Debug)]
struct Dials {
    wall: i64,
    monotonic: u64,
}

impl NodeClock {
    pub(super) fn new(wall: i64) -> NodeClock {
        NodeClock { dials: Mutex::new(Dials { wall, monotonic: 0 }) }
    }

    /// Time passes for a machine that is awake.
    pub(super) fn passes(&self, millis: u64) {
        let mut dials = self.lock();
        dials.wall = dials.wall.saturating_add_unsigned(millis);
        dials.monotonic += millis;
    }

    /// Time passes for a machine that sleeps, or somebody sets its clock: only the time of day moves.
    pub(super) fn jumps(&self, millis: i64) {
        let mut dials = self.lock();
        dials.wall = dials.wall.saturating_add(millis);
    }

    fn lock(&self) -> MutexGuard<'_, Dials> {
        self.dials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.lock().wall)
    }

    fn monotonic(&self) -> u64 {
        self.lock().monotonic
    }
}
