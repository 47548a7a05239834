//! What can go wrong between a question and its answer, and what that means for the turn.

use std::fmt;
use std::time::Duration;

use super::target::Target;
use crate::backend::{Failure, Why};

/// How long nobody should ask if a provider that is limited does not say.
const LIMITED: Duration = Duration::from_secs(60);
/// How much is told of what a provider says.
const MESSAGE_CHARS: usize = 300;

#[derive(Clone, PartialEq, Debug)]
pub(in super::super) enum Trouble {
    /// This program could not be set up to ask at all.
    Setup(String),
    Unreachable(String),
    /// Nothing came for so long.
    Silent(Duration),
    /// The answer ended before its end.
    Cut,
    /// The provider said no.
    Status {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// What came is not what this interface says.
    Garbled(String),
}

/// Whether asking again can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Again {
    Yes,
    No,
}

impl Trouble {
    pub(super) fn garbled(what: impl Into<String>) -> Trouble {
        Trouble::Garbled(what.into())
    }

    pub(super) fn status(status: u16, message: &str) -> Trouble {
        let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = match words.char_indices().nth(MESSAGE_CHARS) {
            Some((at, _)) => format!("{}…", &words[..at]),
            None => words,
        };
        Trouble::Status { status, message, retry_after: None }
    }

    pub(super) fn again(&self) -> Again {
        match self {
            Trouble::Unreachable(_) | Trouble::Silent(_) | Trouble::Cut => Again::Yes,
            Trouble::Status { .. } if self.is_out_of_credit() => Again::No,
            Trouble::Status { status: 408 | 409 | 425 | 429 | 500.., .. } => Again::Yes,
            Trouble::Status { .. } | Trouble::Setup(_) | Trouble::Garbled(_) => Again::No,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Trouble::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the provider did not like what it was asked, so that another question might do.
    pub(in super::super) fn is_about_the_question(&self) -> bool {
        matches!(self, Trouble::Status { status: 400 | 413 | 422, .. })
    }

    /// Some say that there is no money left as if it were a matter of time.
    fn is_out_of_credit(&self) -> bool {
        match self {
            Trouble::Status { status: 402, .. } => true,
            Trouble::Status { status: 400 | 403 | 429, message, .. } => {
                let message = message.to_lowercase();
                ["insufficient_quota", "exceeded your current quota", "credit balance", "insufficient balance"]
                    .iter()
                    .any(|words| message.contains(words))
            }
            _ => false,
        }
    }

    /// What it means for the turn.
    pub(in super::super) fn failure(&self, target: &Target) -> Failure {
        let (why, hint) = self.judged(target);
        let provider = &target.provider;
        let reason = match self {
            Trouble::Status { status, message, .. } if message.is_empty() => format!("{provider} answered {status}"),
            Trouble::Status { status, message, .. } => format!("{provider} answered {status}: {message}"),
            other => format!("{provider}: {other}"),
        };
        Failure { why, reason, hint }
    }

    fn judged(&self, target: &Target) -> (Why, Option<String>) {
        let limited = |standard: Duration| Why::Limited { retry_after: self.retry_after().unwrap_or(standard) };
        match self {
            Trouble::Setup(_) => (Why::Hopeless, None),
            _ if self.is_out_of_credit() => {
                (Why::Hopeless, Some(format!("the account at {} has nothing left to spend", target.provider)))
            }
            Trouble::Status { status: 401 | 403, .. } => (Why::Hopeless, Some(target.about_the_key())),
            Trouble::Status { status: 404 | 405, .. } => (Why::Hopeless, Some(target.about_the_model())),
            Trouble::Status { status: 429 | 529, .. } => (limited(LIMITED), None),
            Trouble::Status { status: 300..=399, .. } => {
                (Why::Hopeless, Some("it leads elsewhere, which is not followed: see `provider.base_url`".to_owned()))
            }
            Trouble::Status { .. } | Trouble::Silent(_) | Trouble::Cut | Trouble::Garbled(_) => (Why::Fault, None),
            Trouble::Unreachable(_) => (Why::Fault, Some(target.about_the_address())),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Setup(why) => write!(f, "cannot set up an HTTP client: {why}"),
            Trouble::Unreachable(why) => write!(f, "cannot be reached: {why}"),
            Trouble::Silent(time) => write!(f, "nothing came for {} s", time.as_secs_f64()),
            Trouble::Cut => f.write_str("the answer was cut off"),
            Trouble::Status { status, message, .. } if message.is_empty() => write!(f, "answered {status}"),
            Trouble::Status { status, message, .. } => write!(f, "answered {status}: {message}"),
            Trouble::Garbled(what) => write!(f, "the answer cannot be read: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, message: &str) -> Trouble {
        Trouble::status(status, message)
    }

    #[test]
    fn what_time_can_mend_is_tried_again() {
        for trouble in [Trouble::Cut, status(429, ""), status(500, ""), status(503, ""), status(529, "")] {
            assert_eq!(trouble.again(), Again::Yes, "{trouble}");
        }
        let spent = status(429, "You exceeded your current quota, please check your plan");
        for trouble in [status(400, ""), status(401, ""), status(404, ""), spent, Trouble::garbled("x")] {
            assert_eq!(trouble.again(), Again::No, "{trouble}");
        }
    }

    #[test]
    fn a_long_message_is_one_line_of_some_length() {
        let Trouble::Status { message, .. } = status(500, &"a\nä ".repeat(1000)) else { panic!() };
        assert!(!message.contains('\n') && message.chars().count() == MESSAGE_CHARS + 1, "{message}");
    }
}
