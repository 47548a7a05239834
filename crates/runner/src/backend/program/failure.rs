//! Classifies the failure of a program by the status and the text that it passes on from its model.

use std::time::Duration;

use super::report::one_line;
use crate::backend::{Failure, Why};
use crate::file::AgentProgram;

/// Pause for an account that is out of requests, if no time is given.
const RATE_LIMIT_PAUSE: Duration = Duration::from_secs(60);
/// Maximum length of a program's text in a reason.
const MAX_REASON_CHARS: usize = 400;

/// Classifies a failed turn. An HTTP status counts more than the text.
pub(crate) fn classify(program: AgentProgram, status: Option<u16>, text: &str) -> Failure {
    let reason = match one_line(text, MAX_REASON_CHARS) {
        text if text.is_empty() => format!("{} failed and did not say why", program.as_str()),
        text => text,
    };
    let (why, hint) = match kind_of(status, text) {
        FailureKind::Login => (Why::Hopeless, Some(login(program).to_owned())),
        FailureKind::Limited => (
            Why::Limited { retry_after: RATE_LIMIT_PAUSE },
            Some("the account has no requests left for now".to_owned()),
        ),
        FailureKind::Model => (Why::Hopeless, Some("set another `model` for this agent".to_owned())),
        FailureKind::Other => (Why::Fault, None),
    };
    Failure { why, reason, hint }
}

/// The failure of a program without the tools of the team, which would only cause cost.
pub(crate) fn no_server(program: AgentProgram) -> Failure {
    Failure {
        why: Why::Fault,
        reason: format!("{} could not start the server with the tools of the team", program.as_str()),
        hint: Some("see the transcript of the turn; `rookery doctor` checks the daemon".to_owned()),
    }
}

enum FailureKind {
    Login,
    Limited,
    Model,
    Other,
}

fn kind_of(status: Option<u16>, text: &str) -> FailureKind {
    let text = text.to_lowercase();
    let has_any = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    match status {
        Some(401 | 403) => FailureKind::Login,
        Some(429) => FailureKind::Limited,
        Some(404) if text.contains("model") => FailureKind::Model,
        Some(_) => FailureKind::Other,
        None if has_any(&[
            "401 unauthorized",
            "invalid api key",
            "please run /login",
            "not logged in",
            "authentication required",
            "please set an auth method",
            "api key not valid",
            "incorrect api key",
            "missing environment variable",
        ]) =>
        {
            FailureKind::Login
        }
        None if has_any(&["429", "rate limit", "usage limit", "quota exceeded", "resource_exhausted"]) => {
            FailureKind::Limited
        }
        None if has_any(&["model not found", "model_not_found", "no such model", "providermodelnotfound"]) => {
            FailureKind::Model
        }
        None => FailureKind::Other,
    }
}

fn login(program: AgentProgram) -> &'static str {
    match program {
        AgentProgram::Claude => "start `claude` once and log in, or set ANTHROPIC_API_KEY",
        AgentProgram::Codex => "`codex login`, or set OPENAI_API_KEY",
        AgentProgram::Cursor => "`cursor-agent login`, or set CURSOR_API_KEY",
        AgentProgram::Opencode => "`opencode auth login`, or set the key of the provider, such as ANTHROPIC_API_KEY",
        AgentProgram::Gemini => "start `gemini` once and log in, or set GEMINI_API_KEY",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(status: Option<u16>, text: &str) -> Why {
        classify(AgentProgram::Claude, status, text).why
    }

    #[test]
    fn permanent_failure_is_not_retried() {
        assert_eq!(why(Some(401), "Invalid API key"), Why::Hopeless);
        assert_eq!(why(None, "unexpected status 401 Unauthorized: no"), Why::Hopeless);
        assert_eq!(why(Some(404), "model: nonsense"), Why::Hopeless);
        assert_eq!(why(Some(429), ""), Why::Limited { retry_after: RATE_LIMIT_PAUSE });
        assert_eq!(why(None, "You've hit your usage limit."), Why::Limited { retry_after: RATE_LIMIT_PAUSE });
        assert_eq!(why(Some(500), "Internal error, see /login"), Why::Fault);
        assert_eq!(why(None, "stream disconnected"), Why::Fault);
    }

    #[test]
    fn failure_always_has_a_reason() {
        let failure = classify(AgentProgram::Codex, None, " \n ");
        assert_eq!(failure.reason, "codex failed and did not say why");
    }
}
