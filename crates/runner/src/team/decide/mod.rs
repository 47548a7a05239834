//! The decisions of a team, as pure functions and small state machines without access to clock, daemon or processes.

pub(super) mod activity;
pub(super) mod alarm;
pub(super) mod attempts;
pub(super) mod budget;
pub(super) mod inbox;
pub(super) mod loops;
pub(super) mod quiet;
