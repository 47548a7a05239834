//! The credentials of a client.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::RequestBuilder;
use rookery_core::kernel::outbound::SandboxReach;
use rookery_core::kernel::session_key;
use rookery_core::kernel::session_key::{Session, TeamSession};
use rookery_core::{AgentId, Timestamp};

use crate::client::SESSION;

/// Lifetime of a session key for one request, including a stream that it opens.
const REQUEST_KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// The content of the project's key file, which only its owner has.
    Person(String),
    Token(String),
    /// The key of a session, which names its agent.
    Session(String),
    /// An agent, authenticated by the project's owner. Every request gets a new session key, so that none has to be renewed.
    Agent {
        person_key: String,
        agent: String,
    },
    Nothing,
}

impl Proof {
    pub(crate) fn authenticate(&self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Proof::Person(secret) | Proof::Token(secret) => request.bearer_auth(secret),
            Proof::Session(key) => request.header(SESSION, key),
            Proof::Agent { person_key, agent } => {
                request.header(SESSION, session_key(person_key, agent, REQUEST_KEY_LIFETIME))
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

/// Creates the key of a session of the agent that expires after a time.
pub fn session_key(person_key: &str, agent: &str, lasting: Duration) -> String {
    session_key::key(person_key, &AgentId::from(agent), after(lasting))
}

#[expect(
    clippy::disallowed_methods,
    reason = "keys expire by wall-clock time, which the daemon on this machine shares"
)]
fn after(lasting: Duration) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(now.saturating_add(lasting).as_millis()).unwrap_or(i64::MAX))
}

/// Issues session keys for one agent.
#[derive(Clone)]
pub struct SessionIssuer {
    person_key: String,
    agent: AgentId,
    team: Option<TeamSession>,
}

impl SessionIssuer {
    pub fn new(person_key: impl Into<String>, agent: AgentId, team: Option<TeamSession>) -> SessionIssuer {
        SessionIssuer { person_key: person_key.into(), agent, team }
    }

    /// Creates a key for a program outside of any sandbox.
    pub fn key(&self, lasting: Duration) -> String {
        self.issue(lasting, None)
    }

    /// Creates a key for one request from a sandbox that may reach these hosts.
    pub fn sandboxed_key(&self, reach: &SandboxReach) -> String {
        self.issue(REQUEST_KEY_LIFETIME, Some(reach.clone()))
    }

    fn issue(&self, lasting: Duration, sandbox: Option<SandboxReach>) -> String {
        let (agent, team) = (self.agent.clone(), self.team.clone());
        Session { agent, until: after(lasting), team, sandbox }.to_key(&self.person_key)
    }
}

impl fmt::Debug for SessionIssuer {
    /// A secret is never written to a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionIssuer({})", self.agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_key_is_valid_for_its_agent_until_it_expires() {
        let (key, hash) = (session_key("the-key", "ada@pr-1", Duration::from_secs(60)), session_key::hash("the-key"));
        let agent = |now| Session::from_key(&hash, &key, now).map(|session| session.agent);
        assert_eq!(agent(Timestamp(0)), Some("ada@pr-1".into()));
        assert_eq!(agent(Timestamp(i64::MAX - 1)), None);
    }

    #[test]
    fn debug_output_hides_secrets() {
        let agent = Proof::Agent { person_key: "secret".into(), agent: "ada".into() };
        for proof in
            [Proof::Person("secret".into()), Proof::Token("secret".into()), Proof::Session("secret".into()), agent]
        {
            assert!(!format!("{proof:?}").contains("secret"), "{proof:?}");
        }
    }
}
