//! What stands in the way of a program, told from the status and the words that it passes on from its model.

use std::time::Duration;

use super::report::one_line;
use crate::backend::{Failure, Why};
use crate::file::AgentProgram;

/// How long nobody asks an account that is out of requests, if nobody says how long.
const PAUSE: Duration = Duration::from_secs(60);
/// How much of what a program said is told.
const SHOWN: usize = 400;

/// What a failed turn means. A status of HTTP says more than words do, where there is one.
pub(crate) fn failure(program: AgentProgram, status: Option<u16>, said: &str) -> Failure {
    let reason = match one_line(said, SHOWN) {
        said if said.is_empty() => format!("{} failed and did not say why", program.as_str()),
        said => said,
    };
    let (why, hint) = match kind(status, said) {
        Kind::Login => (Why::Hopeless, Some(login(program).to_owned())),
        Kind::Limited => {
            (Why::Limited { retry_after: PAUSE }, Some("the account has no requests left for now".to_owned()))
        }
        Kind::Model => (Why::Hopeless, Some("say another `model` for this agent".to_owned())),
        Kind::Other => (Why::Fault, None),
    };
    Failure { why, reason, hint }
}

/// The program runs without the tools of the team: it would talk to nobody and cost all the same.
pub(crate) fn no_server(program: AgentProgram) -> Failure {
    Failure {
        why: Why::Fault,
        reason: format!("{} could not start the server with the tools of the team", program.as_str()),
        hint: Some("the turn's transcript tells more; `rookery doctor` checks the daemon".to_owned()),
    }
}

enum Kind {
    Login,
    Limited,
    Model,
    Other,
}

fn kind(status: Option<u16>, said: &str) -> Kind {
    let said = said.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    match status {
        Some(401 | 403) => Kind::Login,
        Some(429) => Kind::Limited,
        Some(404) if said.contains("model") => Kind::Model,
        Some(_) => Kind::Other,
        None if says(&[
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
            Kind::Login
        }
        None if says(&["429", "rate limit", "usage limit", "quota exceeded", "resource_exhausted"]) => Kind::Limited,
        None if says(&["model not found", "model_not_found", "no such model", "providermodelnotfound"]) => Kind::Model,
        None => Kind::Other,
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

    fn why(status: Option<u16>, said: &str) -> Why {
        failure(AgentProgram::Claude, status, said).why
    }

    #[test]
    fn what_cannot_become_better_is_not_tried_again() {
        assert_eq!(why(Some(401), "Invalid API key"), Why::Hopeless);
        assert_eq!(why(None, "unexpected status 401 Unauthorized: no"), Why::Hopeless);
        assert_eq!(why(Some(404), "model: nonsense"), Why::Hopeless);
        assert_eq!(why(Some(429), ""), Why::Limited { retry_after: PAUSE });
        assert_eq!(why(None, "You've hit your usage limit."), Why::Limited { retry_after: PAUSE });
        assert_eq!(why(Some(500), "Internal error, see /login"), Why::Fault);
        assert_eq!(why(None, "stream disconnected"), Why::Fault);
    }

    #[test]
    fn it_always_says_something() {
        let failure = failure(AgentProgram::Codex, None, " \n ");
        assert_eq!(failure.reason, "codex failed and did not say why");
    }
}
