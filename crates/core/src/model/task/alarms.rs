//! What happens to a task by itself when its time has come.
//!
//! The clocks of a task are part of its row: facts set them, and whatever ends what they are for stops them. So none outlives
//! its task, and a rebuild of the row sets them as they were.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::id::{Seq, Timestamp};

/// What a time is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// The task is of use to nobody any more.
    Deadline,
    /// Whoever it was given to has not accepted it.
    Accept,
    /// The attempt takes too long.
    Runtime,
    /// The pause before the next attempt is over.
    RetryBackoff,
    /// Those who were asked in vain are asked anew.
    Reroute,
    /// The task has ended and more tasks wait for it than one event unblocks.
    Unblock,
}

impl AlarmKind {
    pub const ALL: [AlarmKind; 6] = [
        AlarmKind::Deadline,
        AlarmKind::Accept,
        AlarmKind::Runtime,
        AlarmKind::RetryBackoff,
        AlarmKind::Reroute,
        AlarmKind::Unblock,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            AlarmKind::Deadline => "deadline",
            AlarmKind::Accept => "accept",
            AlarmKind::Runtime => "runtime",
            AlarmKind::RetryBackoff => "retry_backoff",
            AlarmKind::Reroute => "reroute",
            AlarmKind::Unblock => "unblock",
        }
    }
}

/// When a clock goes off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Alarm {
    pub due: Timestamp,
    /// The `seq` of the fact that set it: one that was set anew meanwhile has another.
    pub set: Seq,
}

/// The clocks of a task that go.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Alarms(BTreeMap<AlarmKind, Alarm>);

impl Alarms {
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, clock: AlarmKind) -> Option<Alarm> {
        self.0.get(&clock).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (AlarmKind, Alarm)> {
        self.0.iter().map(|(clock, alarm)| (*clock, *alarm))
    }

    /// When the first of them goes off.
    pub fn next(&self) -> Option<Timestamp> {
        self.0.values().map(|alarm| alarm.due).min()
    }

    /// The one to go off at a time, if one is due: that which ends the task before any other.
    pub fn due(&self, now: Timestamp) -> Option<(AlarmKind, Alarm)> {
        self.iter().find(|(_, alarm)| alarm.due <= now)
    }

    pub(crate) fn set(&mut self, clock: AlarmKind, due: Timestamp, seq: Seq) {
        self.0.insert(clock, Alarm { due, set: seq });
    }

    pub(crate) fn stop(&mut self, clocks: &[AlarmKind]) {
        self.0.retain(|clock, _| !clocks.contains(clock));
    }

    pub(crate) fn stop_all(&mut self) {
        self.0.clear();
    }
}
