//! Errors between a request and its answer, and their meaning for the turn.

use std::fmt;
use std::time::Duration;

use super::target::ModelTarget;
use crate::backend::{Failure, Why};

/// Pause for a rate limit, if the provider gives no time.
const RATE_LIMIT_PAUSE: Duration = Duration::from_secs(60);
/// Maximum length of a provider's message.
const MAX_MESSAGE_CHARS: usize = 300;

#[derive(Clone, PartialEq, Debug)]
pub(in super::super) enum ModelError {
    /// The HTTP client could not be created.
    Setup(String),
    Unreachable(String),
    /// Nothing was received for this long.
    Silent(Duration),
    /// The answer was truncated.
    Cut,
    /// The provider answered with an error status.
    Status {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// The answer does not conform to the API.
    Malformed(String),
}

/// Whether a retry can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Retryability {
    Yes,
    No,
}

impl ModelError {
    pub(super) fn new_malformed(what: impl Into<String>) -> ModelError {
        ModelError::Malformed(what.into())
    }

    pub(super) fn status(status: u16, message: &str) -> ModelError {
        let text = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = match text.char_indices().nth(MAX_MESSAGE_CHARS) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        };
        ModelError::Status { status, message, retry_after: None }
    }

    pub(super) fn retryability(&self) -> Retryability {
        match self {
            ModelError::Unreachable(_) | ModelError::Silent(_) | ModelError::Cut => Retryability::Yes,
            ModelError::Status { .. } if self.is_out_of_credit() => Retryability::No,
            ModelError::Status { status: 408 | 409 | 425 | 429 | 500.., .. } => Retryability::Yes,
            ModelError::Status { .. } | ModelError::Setup(_) | ModelError::Malformed(_) => Retryability::No,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the provider rejected the content of the request, so that a shorter one might be accepted.
    pub(in super::super) fn is_rejected_request(&self) -> bool {
        matches!(self, ModelError::Status { status: 400 | 413 | 422, .. })
    }

    /// Some providers report an exhausted balance as if it were a rate limit.
    fn is_out_of_credit(&self) -> bool {
        match self {
            ModelError::Status { status: 402, .. } => true,
            ModelError::Status { status: 400 | 403 | 429, message, .. } => {
                let message = message.to_lowercase();
                ["insufficient_quota", "exceeded your current quota", "credit balance", "insufficient balance"]
                    .iter()
                    .any(|text| message.contains(text))
            }
            _ => false,
        }
    }

    /// The failure of the turn.
    pub(in super::super) fn failure(&self, target: &ModelTarget) -> Failure {
        let (why, hint) = self.judge(target);
        let provider = &target.provider;
        let reason = match self {
            ModelError::Status { status, message, .. } if message.is_empty() => format!("{provider} answered {status}"),
            ModelError::Status { status, message, .. } => format!("{provider} answered {status}: {message}"),
            other => format!("{provider}: {other}"),
        };
        Failure { why, reason, hint }
    }

    fn judge(&self, target: &ModelTarget) -> (Why, Option<String>) {
        let limited = |standard: Duration| Why::Limited { retry_after: self.retry_after().unwrap_or(standard) };
        match self {
            ModelError::Setup(_) => (Why::Hopeless, None),
            _ if self.is_out_of_credit() => {
                (Why::Hopeless, Some(format!("the account at {} has nothing left to spend", target.provider)))
            }
            ModelError::Status { status: 401 | 403, .. } => (Why::Hopeless, Some(target.key_hint())),
            ModelError::Status { status: 404 | 405, .. } => (Why::Hopeless, Some(target.model_hint())),
            ModelError::Status { status: 429 | 529, .. } => (limited(RATE_LIMIT_PAUSE), None),
            ModelError::Status { status: 300..=399, .. } => {
                (Why::Hopeless, Some("the server redirects, which is not followed: see `provider.base_url`".to_owned()))
            }
            ModelError::Status { .. } | ModelError::Silent(_) | ModelError::Cut | ModelError::Malformed(_) => {
                (Why::Fault, None)
            }
            ModelError::Unreachable(_) => (Why::Fault, Some(target.address_hint())),
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::Setup(cause) => write!(f, "cannot set up an HTTP client: {cause}"),
            ModelError::Unreachable(cause) => write!(f, "cannot be reached: {cause}"),
            ModelError::Silent(time) => write!(f, "nothing came for {} s", time.as_secs_f64()),
            ModelError::Cut => f.write_str("the answer was cut off"),
            ModelError::Status { status, message, .. } if message.is_empty() => write!(f, "answered {status}"),
            ModelError::Status { status, message, .. } => write!(f, "answered {status}: {message}"),
            ModelError::Malformed(what) => write!(f, "the answer cannot be read: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, message: &str) -> ModelError {
        ModelError::status(status, message)
    }

    #[test]
    fn only_temporary_errors_are_retried() {
        for error in [ModelError::Cut, status(429, ""), status(500, ""), status(503, ""), status(529, "")] {
            assert_eq!(error.retryability(), Retryability::Yes, "{error}");
        }
        let spent = status(429, "You exceeded your current quota, please check your plan");
        for error in [status(400, ""), status(401, ""), status(404, ""), spent, ModelError::new_malformed("x")] {
            assert_eq!(error.retryability(), Retryability::No, "{error}");
        }
    }

    #[test]
    fn long_message_becomes_one_bounded_line() {
        let ModelError::Status { message, .. } = status(500, &"a\nä ".repeat(1000)) else { panic!() };
        assert!(!message.contains('\n') && message.chars().count() == MAX_MESSAGE_CHARS + 1, "{message}");
    }
}
