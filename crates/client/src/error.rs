//! Errors of calls to the daemon, with hints.

use serde_json::Value;

use crate::sse::LineTooLong;

/// The error of a call to the daemon.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    #[error("cannot get random bytes from the system")]
    Randomness,
    #[error("the daemon's address `{url}` is not a URL")]
    Address { url: String },
    #[error("only the project's owner, who has its key file, can act for an agent")]
    NotAPerson,
    #[error("no daemon answers at {url}")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("the connection to the daemon was lost before it answered; the outcome is unknown")]
    Unknown(#[source] reqwest::Error),
    #[error("the connection to the daemon was lost before it answered; the outcome is unknown")]
    Cut,
    #[error("the daemon at {url} serves another project")]
    OtherProject { url: String },
    #[error("{error}")]
    Refused {
        status: u16,
        error: String,
        code: Option<String>,
        hint: Option<String>,
        /// Further data of the daemon, such as the newer text of a document.
        detail: Option<Value>,
    },
    #[error("the event stream is malformed")]
    Stream(#[source] LineTooLong),
    #[error("cannot parse the daemon's answer")]
    Garbled(#[source] serde_json::Error),
}

impl ClientError {
    /// A suggestion for the user.
    pub fn hint(&self) -> String {
        match self {
            Self::Setup(_) | Self::Address { .. } | Self::Randomness => "`rookery doctor` checks the setup".into(),
            Self::NotAPerson => "run it as the project's owner, outside of an agent's sandbox".into(),
            Self::Unreachable { .. } => "start it with `rookery up`".into(),
            Self::Unknown(_) | Self::Cut => "check `rookery log` before you try again".into(),
            Self::OtherProject { .. } => "start this project's own daemon with `rookery up`".into(),
            Self::Refused { hint: Some(hint), .. } => hint.clone(),
            Self::Refused { status, .. } => rejection_hint(*status).into(),
            Self::Stream(_) | Self::Garbled(_) => {
                "the daemon may have another version: run `rookery down`, then `rookery up`".into()
            }
        }
    }

    /// The code of a rejection.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => code.as_deref(),
            _ => None,
        }
    }

    /// Further data of a rejection, for scripts.
    pub fn detail(&self) -> Option<&Value> {
        match self {
            Self::Refused { detail, .. } => detail.as_ref(),
            _ => None,
        }
    }

    /// The HTTP status of a rejection.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether no daemon of this project answered, so that nothing was done.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::OtherProject { .. })
    }

    /// The exit code of a program that fails with this error: 3 if no daemon answered, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        if self.is_unreachable() { 3 } else { 1 }
    }
}

/// The hint for a rejection without one.
fn rejection_hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "this needs the person's key of the project (.rookery/person.key)",
        404 => "check the name, for example with `rookery status`",
        409 => "check the current state before you try again",
        413 => "nothing was done: shorten the text, or put the long part into a file and refer to it",
        410 => "start again from the current state",
        429 | 503 => "wait a moment and try again; `rookery status` shows how busy the daemon is",
        500.. => "`rookery doctor` checks the daemon; its log is .rookery/log/daemon.log",
        _ => "check the arguments",
    }
}
