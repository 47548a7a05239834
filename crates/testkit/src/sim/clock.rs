//! A node's clocks. The world moves them: they skew, jump and sleep like those of real machines.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::Timestamp;
use rookery_store::Clock;

#[derive(Debug)]
pub(super) struct NodeClock {
    readings: Mutex<ClockReadings>,
}

#[derive(Debug)]
struct ClockReadings {
    wall: i64,
    monotonic: u64,
}

impl NodeClock {
    pub(super) fn new(wall: i64) -> NodeClock {
        NodeClock { readings: Mutex::new(ClockReadings { wall, monotonic: 0 }) }
    }

    /// Advances both clocks, as on a machine that is awake.
    pub(super) fn advance(&self, millis: u64) {
        let mut readings = self.lock();
        readings.wall = readings.wall.saturating_add_unsigned(millis);
        readings.monotonic += millis;
    }

    /// Moves only the time of day, as on a machine that sleeps or whose clock is set.
    pub(super) fn jump(&self, millis: i64) {
        let mut readings = self.lock();
        readings.wall = readings.wall.saturating_add(millis);
    }

    fn lock(&self) -> MutexGuard<'_, ClockReadings> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
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
