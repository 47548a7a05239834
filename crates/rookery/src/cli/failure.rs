//! Why a command failed: what happened, its code, what to do next, and the exit code.

use std::fmt;

use rookery_client::ClientError;
use serde::Serialize;
use serde_json::Value;

use crate::config::ConfigError;
use crate::project::ProjectError;

/// Exit codes other than 0; part of the command line's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Failed = 1,
    Usage = 2,
    Unreachable = 3,
    /// By a signal.
    Interrupted = 130,
}

/// An error that a command makes itself, with what to do next.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    exit: Exit,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Failed }
    }

    /// The arguments make no sense together.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new(message) }
    }

    /// No daemon can be asked.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, ..Self::new(message) }
    }

    /// Somebody ended it.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self { exit: Exit::Interrupted, ..Self::new(message) }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A failure as it is shown, whatever error it came from.
#[derive(Debug, Serialize)]
pub struct Report {
    pub error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub hint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    #[serde(skip)]
    pub exit: Exit,
}

impl Report {
    /// Finds the hint, the code and the exit code in the chain of errors.
    pub fn of(error: &anyhow::Error) -> Self {
        let text = told(error);
        let report = |hint: String, exit| Self { error: text.clone(), code: None, hint, detail: None, exit };
        for cause in error.chain() {
            if let Some(failure) = cause.downcast_ref::<Failure>() {
                return report(failure.hint.clone().unwrap_or_else(default_hint), failure.exit);
            }
            if let Some(error) = cause.downcast_ref::<ClientError>() {
                let exit = if error.is_unreachable() { Exit::Unreachable } else { Exit::Failed };
                return Self {
                    code: error.code().map(str::to_owned),
                    detail: error.detail().cloned(),
                    ..report(error.hint(), exit)
                };
            }
            if let Some(error) = cause.downcast_ref::<ConfigError>() {
                return report(error.hint(), Exit::Usage);
            }
            if let Some(error) = cause.downcast_ref::<ProjectError>() {
                return report(error.hint(), Exit::Failed);
            }
        }
        report(default_hint(), Exit::Failed)
    }
}

/// The chain of causes in one line. Of the HTTP library's own chain only the root is worth reading.
fn told(error: &anyhow::Error) -> String {
    let ours = error.chain().take_while(|cause| !cause.is::<reqwest::Error>());
    let mut parts: Vec<String> = ours.map(ToString::to_string).collect();
    if error.chain().any(|cause| cause.is::<reqwest::Error>()) {
        parts.push(error.root_cause().to_string());
    }
    parts.join(": ")
}

fn default_hint() -> String {
    "`rookery doctor` checks the set-up and says how to fix it".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_found_below_added_context() {
        let error = anyhow::Error::from(Failure::unreachable("nobody answers").hint("start one")).context("asking");
        let report = Report::of(&error);
        assert_eq!((report.error.as_str(), report.hint.as_str()), ("asking: nobody answers", "start one"));
        assert_eq!(report.exit, Exit::Unreachable);
    }

    #[test]
    fn an_error_nobody_thought_of_still_says_what_to_do() {
        let report = Report::of(&anyhow::anyhow!("surprise"));
        assert_eq!((report.exit, report.hint), (Exit::Failed, default_hint()));
    }
}
