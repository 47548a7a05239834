//! Durations that several services share.

use std::time::Duration;

/// How long a service waits before it tries again what failed.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
