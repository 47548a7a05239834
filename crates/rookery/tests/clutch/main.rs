//! The Clutch face, against real daemons.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod artifacts;
