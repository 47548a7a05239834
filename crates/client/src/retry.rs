//! Retries of calls while the daemon is unavailable.

use std::time::Duration;

use crate::error::ClientError;

const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Whether a call whose outcome is unknown may be retried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RetrySafety {
    /// It changes nothing, or has an idempotency key.
    Always,
    /// Only if it did not reach the daemon.
    IfNotSent,
}

/// The time left for the retries of one call.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    left: Duration,
    pause: Duration,
}

impl RetryBudget {
    pub(crate) fn new(left: Duration) -> RetryBudget {
        RetryBudget { left, pause: INITIAL_BACKOFF }
    }

    /// Waits before the next attempt. Returns the error if a retry is useless or unsafe, or no time is left.
    pub(crate) async fn wait_or_give_up(&mut self, error: ClientError, safety: RetrySafety) -> Result<(), ClientError> {
        if self.left.is_zero() || !is_retryable(&error, safety) {
            return Err(error);
        }
        let pause = self.pause.min(self.left);
        tokio::time::sleep(pause).await;
        self.left -= pause;
        self.pause = (pause * 2).min(MAX_BACKOFF);
        Ok(())
    }
}

fn is_retryable(error: &ClientError, safety: RetrySafety) -> bool {
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::Unknown(_) | ClientError::Cut => safety == RetrySafety::Always,
        ClientError::Refused { code: Some(code), .. } if code == "OUTCOME_UNKNOWN" => safety == RetrySafety::Always,
        // The daemon is busy or stopping, and did nothing.
        ClientError::Refused { status, code, .. } => {
            matches!(status, 429 | 503) || matches!(code.as_deref(), Some("BUSY" | "STORE_UNAVAILABLE" | "STOPPING"))
        }
        ClientError::Setup(_)
        | ClientError::Address { .. }
        | ClientError::Randomness
        | ClientError::NotAPerson
        | ClientError::OtherProject { .. }
        | ClientError::Stream(_)
        | ClientError::Garbled(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> ClientError {
        ClientError::Refused { status, error: String::new(), code: Some(code.into()), hint: None, detail: None }
    }

    #[tokio::test]
    async fn retries_end_after_the_timeout() {
        let mut budget = RetryBudget::new(Duration::from_millis(200));
        let mut waits = 0;
        while budget.wait_or_give_up(refused(503, "BUSY"), RetrySafety::IfNotSent).await.is_ok() {
            waits += 1;
        }
        assert_eq!(waits, 3, "50 ms, 100 ms, and what is left");
    }

    #[test]
    fn only_transient_errors_of_repeatable_calls_are_retried() {
        for (error, if_not_sent, always) in [
            (refused(409, "CONFLICT"), false, false),
            (refused(503, "STOPPING"), true, true),
            (refused(400, "BUSY"), true, true),
            (refused(503, "OUTCOME_UNKNOWN"), false, true),
            (ClientError::Cut, false, true),
            (ClientError::OtherProject { url: String::new() }, false, false),
        ] {
            let retryable = [RetrySafety::IfNotSent, RetrySafety::Always].map(|safety| is_retryable(&error, safety));
            assert_eq!(retryable, [if_not_sent, always], "{error:?}");
        }
    }
}
