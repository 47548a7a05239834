//! Asking again while the daemon is away.

use std::time::Duration;

use crate::error::ClientError;

const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Whether a call may be repeated whose outcome is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeat {
    /// It changes nothing, or has a key under which it is done once.
    Freely,
    /// Only if it never arrived.
    IfNotSent,
}

/// How long one call goes on trying.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    left: Duration,
    pause: Duration,
}

impl RetryBudget {
    pub(crate) fn new(left: Duration) -> RetryBudget {
        RetryBudget { left, pause: INITIAL_BACKOFF }
    }

    /// Waits a moment before the next attempt. Gives the error back if there is nothing to wait for, or no more time.
    pub(crate) async fn wait_or_give_up(&mut self, error: ClientError, repeat: Repeat) -> Result<(), ClientError> {
        if self.left.is_zero() || !is_worth_another(&error, repeat) {
            return Err(error);
        }
        let pause = self.pause.min(self.left);
        tokio::time::sleep(pause).await;
        self.left -= pause;
        self.pause = (pause * 2).min(MAX_BACKOFF);
        Ok(())
    }
}

fn is_worth_another(error: &ClientError, repeat: Repeat) -> bool {
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::Unknown(_) | ClientError::Cut => repeat == Repeat::Freely,
        ClientError::Refused { code: Some(code), .. } if code == "OUTCOME_UNKNOWN" => repeat == Repeat::Freely,
        // Too busy, or about to stop: it was not done.
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
    async fn patience_ends() {
        let mut budget = RetryBudget::new(Duration::from_millis(200));
        let mut waits = 0;
        while budget.wait_or_give_up(refused(503, "BUSY"), Repeat::IfNotSent).await.is_ok() {
            waits += 1;
        }
        assert_eq!(waits, 3, "50 ms, 100 ms, and what is left");
    }

    #[test]
    fn only_what_time_may_mend_and_nobody_does_twice_is_tried_again() {
        for (error, if_not_sent, freely) in [
            (refused(409, "CONFLICT"), false, false),
            (refused(503, "STOPPING"), true, true),
            (refused(400, "BUSY"), true, true),
            (refused(503, "OUTCOME_UNKNOWN"), false, true),
            (ClientError::Cut, false, true),
            (ClientError::OtherProject { url: String::new() }, false, false),
        ] {
            let worth = [Repeat::IfNotSent, Repeat::Freely].map(|repeat| is_worth_another(&error, repeat));
            assert_eq!(worth, [if_not_sent, freely], "{error:?}");
        }
    }
}
