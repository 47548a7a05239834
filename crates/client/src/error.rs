//! How a call to the daemon failed, and what to do about it.

use serde_json::Value;

use crate::sse::LineTooLong;

/// How a call to the daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    #[error("the system gave no randomness for a key")]
    Randomness,
    #[error("the daemon's address `{url}` is not one")]
    Address { url: String },
    #[error("only whoever has the project's key file can speak for an agent")]
    NotAPerson,
    #[error("no daemon answers at {url}")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("the daemon did not finish its answer; whether it did what was asked is unknown")]
    Unknown(#[source] reqwest::Error),
    #[error("the daemon did not finish its answer; whether it did what was asked is unknown")]
    Cut,
    #[error("the daemon at {url} serves another project")]
    OtherProject { url: String },
    #[error("{error}")]
    Refused {
        status: u16,
        error: String,
        code: Option<String>,
        hint: Option<String>,
        /// What else the daemon told, such as the newer text of a document.
        detail: Option<Value>,
    },
    #[error("the event stream is not one")]
    Stream(#[source] LineTooLong),
    #[error("the daemon's answer is not what this program understands")]
    Garbled(#[source] serde_json::Error),
}

impl ClientError {
    /// What the person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Setup(_) | Self::Address { .. } | Self::Randomness => "`rookery doctor` checks the set-up".into(),
            Self::NotAPerson => "run it as the user whose project it is, outside of an agent's sandbox".into(),
            Self::Unreachable { .. } => "start it with `rookery up`".into(),
            Self::Unknown(_) | Self::Cut => "look with `rookery log` before you try again".into(),
            Self::OtherProject { .. } => "start this project's own daemon with `rookery up`".into(),
            Self::Refused { hint: Some(hint), .. } => hint.clone(),
            Self::Refused { status, .. } => refusal_hint(*status).into(),
            Self::Stream(_) | Self::Garbled(_) => {
                "the daemon may be of another version: `rookery down`, then `rookery up`".into()
            }
        }
    }

    /// The daemon's own code for its refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => code.as_deref(),
            _ => None,
        }
    }

    /// What else the daemon told, for scripts.
    pub fn detail(&self) -> Option<&Value> {
        match self {
            Self::Refused { detail, .. } => detail.as_ref(),
            _ => None,
        }
    }

    /// The status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether there is no daemon of this project to be asked, so that nothing was done.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::OtherProject { .. })
    }

    /// What a program that fails for this reason exits with: 3 if no daemon can be asked, else 1.
    pub fn exit_code(&self) -> u8 {
        if self.is_unreachable() { 3 } else { 1 }
    }
}

/// What to do about a refusal that brought no hint of its own.
fn refusal_hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "the person's key of this project (.rookery/person.key) is needed for this",
        404 => "check the name; `rookery status` and its neighbours list what there is",
        409 => "look at the current state, then decide again",
        413 => "nothing was done: shorten it, or put the long part into a file and name that",
        410 => "start again from the current state",
        429 | 503 => "wait a moment and try again; `rookery status` shows how busy the daemon is",
        500.. => "`rookery doctor` checks the daemon; its log is .rookery/log/daemon.log",
        _ => "check the arguments",
    }
}
