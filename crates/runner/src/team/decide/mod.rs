//! What a team decides, apart from everything that it does: functions and small state machines over values, which know no
//! clock, no daemon and no process.

pub(super) mod activity;
pub(super) mod alarm;
pub(super) mod attempts;
pub(super) mod budget;
pub(super) mod inbox;
pub(super) mod loops;
pub(super) mod quiet;
