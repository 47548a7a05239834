//! What a client shows of itself.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::RequestBuilder;
use rookery_core::{AgentId, Timestamp, session};

use crate::client::SESSION;

/// Long enough for one request and a stream that it opens.
const REQUEST_LASTS: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// The key file of the project: its owner.
    Person(String),
    Token(String),
    /// The key of a session, which names its agent.
    Session(String),
    /// An agent, by whoever has the project's key file: a session is made for every request, so that none need last.
    Agent {
        person_key: String,
        agent: String,
    },
    Nothing,
}

impl Proof {
    pub(crate) fn shown_with(&self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Proof::Person(secret) | Proof::Token(secret) => request.bearer_auth(secret),
            Proof::Session(key) => request.header(SESSION, key),
            Proof::Agent { person_key, agent } => {
                request.header(SESSION, session_key(person_key, agent, REQUEST_LASTS))
            }
            Proof::Nothing => request,
        }
    }
}

impl fmt::Debug for Proof {
    /// A secret is never written to a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proof::Person(_) => f.write_str("Person(…)"),
            Proof::Token(_) => f.write_str("Token(…)"),
            Proof::Session(_) => f.write_str("Session(…)"),
            Proof::Agent { agent, .. } => write!(f, "Agent({agent})"),
            Proof::Nothing => f.write_str("Nothing"),
        }
    }
}

/// The key of a session of the agent that ends by itself after that time.
#[expect(
    clippy::disallowed_methods,
    reason = "the end of a key is a moment, and the daemon that judges it has the same"
)]
pub fn session_key(person_key: &str, agent: &str, lasting: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let until = i64::try_from(now.saturating_add(lasting).as_millis()).unwrap_or(i64::MAX);
    session::key(person_key, &AgentId::from(agent), Timestamp(until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_good_for_its_agent_and_ends() {
        let (key, hash) = (session_key("the-key", "ada@pr-1", Duration::from_secs(60)), session::hash("the-key"));
        assert_eq!(session::agent(&hash, &key, Timestamp(0)), Some("ada@pr-1".into()));
        assert_eq!(session::agent(&hash, &key, Timestamp(i64::MAX - 1)), None);
    }

    #[test]
    fn no_proof_shows_its_secret() {
        let agent = Proof::Agent { person_key: "secret".into(), agent: "ada".into() };
        for proof in
            [Proof::Person("secret".into()), Proof::Token("secret".into()), Proof::Session("secret".into()), agent]
        {
            assert!(!format!("{proof:?}").contains("secret"), "{proof:?}");
        }
    }
}
