//! Session keys: how a program that we started, or that the project's owner did, proves which agent it speaks for.
//!
//! A key carries its claims ([`Session`]) and is sealed with the project's key file. The daemon stores no keys: a program that
//! can read that file can make one, and the daemon of the same project verifies it. A key expires by itself, with the file, and
//! with the generation of the team that it is bound to.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::code::Code;
use super::hex::{hex, unhex};
use super::id::{AgentId, TeamId, Timestamp};
use super::outbound::SandboxReach;
use super::rejection::Rejection;

/// What a session key begins with, so that one is recognised where it should not be.
const PREFIX: &str = "rks";

/// The hash of a secret, as it is kept. Spaces around it do not matter, so that files with a line break will do.
pub fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.trim().as_bytes()))
}

/// The claims of a session key: which agent it speaks for, and how long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Session {
    pub agent: AgentId,
    pub until: Timestamp,
    /// The key ends with this generation of this team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamSession>,
    /// The key is added by the gate of a sandbox, which may reach these hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxReach>,
}

/// One generation of a team.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamSession {
    pub team: TeamId,
    pub generation: u64,
}

impl Session {
    /// The key for these claims, sealed with the project's key file.
    pub fn to_key(&self, person_key: &str) -> String {
        let claims = serde_json::to_vec(self).unwrap_or_default();
        let named = format!("{PREFIX}.{}", hex(&claims));
        format!("{named}.{}", hex(&seal(&hash(person_key), &named)))
    }

    /// The claims of a key that was made with this project's key file and has not expired.
    pub fn from_key(person_key_hash: &str, key: &str, now: Timestamp) -> Option<Session> {
        let (named, sealed) = key.rsplit_once('.')?;
        if !is_sealed(person_key_hash, named, sealed) {
            return None;
        }
        let claims = unhex(named.strip_prefix(PREFIX)?.strip_prefix('.')?)?;
        let session: Session = serde_json::from_slice(&claims).ok()?;
        (session.until > now).then_some(session)
    }
}

impl Rejection {
    /// The session key of a generation that does not run any more.
    pub fn session_ended(bound: &TeamSession) -> Rejection {
        let message = format!("the session key ended with generation {} of team '{}'", bound.generation, bound.team);
        Rejection::new(Code::Unauthenticated, message).hint("start the team again: its agents get new keys")
    }
}

/// A key for the agent that is bound to no team, until then.
pub fn key(person_key: &str, agent: &AgentId, until: Timestamp) -> String {
    Session { agent: agent.clone(), until, team: None, sandbox: None }.to_key(person_key)
}

/// What proves that a text was written by whoever can read the project's key file.
pub fn seal(person_key_hash: &str, named: &str) -> Vec<u8> {
    mac(person_key_hash, named).finalize().into_bytes().to_vec()
}

/// Whether a text was sealed with the project's key file, told in the same time whatever is wrong.
pub fn is_sealed(person_key_hash: &str, named: &str, sealed: &str) -> bool {
    unhex(sealed).is_some_and(|sealed| mac(person_key_hash, named).verify_slice(&sealed).is_ok())
}

fn mac(person_key_hash: &str, named: &str) -> Hmac<Sha256> {
    // A key of any length will do.
    let mut mac =
        Hmac::new_from_slice(person_key_hash.as_bytes()).unwrap_or_else(|_| unreachable!("HMAC takes any key"));
    mac.update(named.as_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::{Auth, Caller};
    use crate::model::agent::AgentRole;
    use crate::model::team::Conclusion;
    use crate::testing::{anna, by, end, register, runs_in, starts};

    fn agent(hash: &str, key: &str, now: Timestamp) -> Option<AgentId> {
        Session::from_key(hash, key, now).map(|session| session.agent)
    }

    #[test]
    fn a_key_is_good_for_its_agent_until_it_ends() {
        let key = key("the-key\n", &"reviewer@pr-1".into(), Timestamp(100));
        assert_eq!(agent(&hash("the-key"), &key, Timestamp(99)), Some("reviewer@pr-1".into()));
        assert_eq!(agent(&hash("the-key"), &key, Timestamp(100)), None, "it has ended");
        assert_eq!(agent(&hash("another"), &key, Timestamp(99)), None, "another project's");
    }

    #[test]
    fn key_of_sandbox_keeps_its_claims() {
        let session = Session {
            agent: "a@pr-1".into(),
            until: Timestamp(100),
            team: Some(TeamSession { team: "@pr-1".into(), generation: 3 }),
            sandbox: Some(SandboxReach { hosts: vec!["ken:8080".parse().unwrap(), "[::1]:9".parse().unwrap()] }),
        };
        assert_eq!(Session::from_key(&hash("k"), &session.to_key("k"), Timestamp(1)), Some(session));
    }

    #[test]
    fn nothing_of_a_key_can_be_changed() {
        let key = key("k", &"a".into(), Timestamp(100));
        for at in 0..key.len() {
            let mut bytes = key.clone().into_bytes();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            let other = String::from_utf8(bytes).unwrap();
            assert_eq!(agent(&hash("k"), &other, Timestamp(1)), None, "{other}");
        }
        for other in ["", "rks", "rks.61.100", "rks.61.100.", "....", "rks.61.100.zz", "rks.6.100.ab", "ü.ü.ü.ü"] {
            assert_eq!(agent(&hash("k"), other, Timestamp(1)), None, "{other}");
        }
    }

    #[test]
    fn session_of_ended_team_is_rejected() {
        let caller = |agent: &str, generation| {
            let team = Some(TeamSession { team: "@pr-1".into(), generation });
            let session = Session { agent: agent.into(), until: Timestamp(i64::MAX), team, sandbox: None };
            Caller { auth: Auth::Session, session: Some(session.into()), ..by(agent) }
        };
        let mut w = runs_in("@pr-1", &["a", "b"]);
        let announce = |agent: &str| register(agent, AgentRole::Worker);
        w.does(&caller("a@pr-1", 1), announce("a@pr-1"));
        assert_eq!(w.refuses(&caller("a@pr-1", 2), announce("a@pr-1")), Code::Unauthenticated);
        assert_eq!(w.refuses(&caller("c@pr-1", 1), announce("c@pr-1")), Code::Unauthenticated, "no member");
        w.does(&anna(), end("@pr-1", 1, Conclusion::Stopped));
        assert_eq!(w.refuses(&caller("a@pr-1", 1), announce("a@pr-1")), Code::Unauthenticated);
        w.does(&anna(), starts("@pr-1", &["a"], 2));
        assert_eq!(w.refuses(&caller("a@pr-1", 1), announce("a@pr-1")), Code::Unauthenticated, "an older generation");
        w.does(&caller("a@pr-1", 2), announce("a@pr-1"));
    }
}
