//! Who a caller is: credentials first, then what it says of itself.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rookery_core::instance::{check_name, plain};
use rookery_core::name::look_alike;
use rookery_core::session::Session;
pub use rookery_core::session::hash;
use rookery_core::{Actor, AgentId, Auth, Caller, Code, Power, Refusal, Seq, Timestamp};
use rookery_store::{ReadError, Store, Token};

use crate::launch::{self, COOKIE_MILLIS, Launches};
use crate::team_sessions::TeamSessions;

/// What came with a request.
#[derive(Clone, Debug, Default)]
pub struct Credentials<'a> {
    pub bearer: Option<&'a str>,
    /// The `X-Rookery-Session` header.
    pub session: Option<&'a str>,
    /// The cookie of a browser that a person signed in.
    pub cookie: Option<&'a str>,
    /// The `X-Agent-Id` header, or a command line's `--agent`.
    pub stated: Option<&'a str>,
    /// An agent named in the request itself.
    pub argument: Option<&'a str>,
    pub fence: Option<Seq>,
}

/// Whether callers without a token are trusted to say who they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    Local,
    TokensOnly,
}

#[derive(Debug)]
pub struct Access {
    trust: Trust,
    /// SHA-256 of the project's key file: whoever can read it is the project's owner.
    person_key: Option<String>,
    /// By the hash of the secret.
    tokens: RwLock<HashMap<String, Token>>,
    launches: Launches,
    team_sessions: TeamSessions,
}

impl Access {
    pub fn new(trust: Trust, person_key: Option<&str>) -> Access {
        Access {
            trust,
            person_key: person_key.map(hash),
            tokens: RwLock::default(),
            launches: Launches::default(),
            team_sessions: TeamSessions::default(),
        }
    }

    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Reads the tokens anew: at start, and after one was created or revoked.
    pub async fn reload(&self, store: &dyn Store) -> Result<(), ReadError> {
        let tokens = store.tokens().await?;
        let by_hash = tokens.into_iter().map(|token| (token.hash.clone(), token)).collect();
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = by_hash;
        Ok(())
    }

    /// The teams that session keys are bound to.
    pub fn team_sessions(&self) -> &TeamSessions {
        &self.team_sessions
    }

    /// The codes that sign a person in by a launch address.
    pub fn launches(&self) -> &Launches {
        &self.launches
    }

    /// The cookie for whom a code signs in; `None` if it signs nobody in, or there is no key file to seal it with.
    pub fn sign_in(&self, code: &str, now: Timestamp) -> Option<String> {
        let key = self.person_key.as_ref()?;
        let person = self.launches.exchange(code, now)?;
        Some(launch::cookie(key, &person, now.plus_millis(COOKIE_MILLIS)))
    }

    pub fn identify(&self, credentials: &Credentials<'_>, now: Timestamp) -> Result<Caller, Refusal> {
        let caller = match credentials.bearer {
            Some(secret) => self.by_secret(secret, credentials, now)?,
            None if credentials.session.is_some() => self.by_session(credentials, now)?,
            None if let Some(person) = self.signed_in(credentials, now) => {
                spoken_for(Actor::Person(person), credentials.stated, Power::Person)?
            }
            None if self.trust == Trust::TokensOnly => {
                return Err(Refusal::new(Code::Unauthenticated, "a token is required")
                    .hint("send 'Authorization: Bearer <token>'; 'rookery token create' makes one"));
            }
            None => by_word(credentials)?,
        };
        Ok(Caller { fence: credentials.fence, ..caller })
    }

    /// Whom the browser's cookie is for. One that is not good is as good as none: the browser sends it by itself.
    fn signed_in(&self, credentials: &Credentials<'_>, now: Timestamp) -> Option<String> {
        launch::person(self.person_key.as_ref()?, credentials.cookie?, now)
    }

    fn by_session(&self, credentials: &Credentials<'_>, now: Timestamp) -> Result<Caller, Refusal> {
        let key = credentials.session.unwrap_or_default();
        let session = self.person_key.as_ref().and_then(|hash| Session::from_key(hash, key, now));
        let Some(session) = session else {
            return Err(Refusal::new(Code::Unauthenticated, "the session key is not valid or has ended")
                .hint("start the agent's program again"));
        };
        let own = Actor::Agent(agent_named("the session's agent", session.agent.as_str())?);
        self.team_sessions.check(&session)?;
        let caller = spoken_for(own, credentials.stated, Power::Agent)?;
        Ok(Caller { auth: Auth::Session, session: Some(Arc::new(session)), ..caller })
    }

    /// The person with a token whose name looks like this one.
    pub(crate) fn person_like(&self, name: &str) -> Option<String> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let mut people = tokens.values().filter(|token| token.power == Power::Person).map(|token| &token.subject);
        people.find(|person| look_alike(person, name)).cloned()
    }

    /// The key that messages to an agent's endpoint are signed with; `None` in a project without a key file.
    pub(crate) fn delivery_key(&self, agent: &AgentId) -> Option<String> {
        self.person_key.as_ref().map(|hash| crate::clutch::courier::key_of(hash, agent))
    }

    fn by_secret(&self, secret: &str, credentials: &Credentials<'_>, now: Timestamp) -> Result<Caller, Refusal> {
        let hash = hash(secret);
        if self.person_key.as_ref() == Some(&hash) {
            return spoken_for(Actor::Person("local".to_owned()), credentials.stated, Power::Person);
        }
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let token = tokens.get(&hash).filter(|token| token.expires_at.is_none_or(|end| end > now));
        let Some(token) = token else {
            return Err(Refusal::new(Code::Unauthenticated, "the token is not known or has expired")
                .hint("'rookery token list' shows the tokens that are valid"));
        };
        let own = match token.power {
            Power::Person => Actor::Person(token.subject.clone()),
            Power::Observer | Power::Agent | Power::Lead => {
                Actor::Agent(agent_named("the token's subject", &token.subject)?)
            }
        };
        spoken_for(own, credentials.stated, token.power)
    }
}

/// Whom the owner of a credential speaks as: itself, or with a lead's or a person's power any agent, and nobody else.
fn spoken_for(own: Actor, stated: Option<&str>, power: Power) -> Result<Caller, Refusal> {
    let caller = |actor, by| Caller { actor, auth: Auth::Token, power, fence: None, by, session: None };
    let Some(stated) = stated.filter(|stated| own.to_string() != *stated) else { return Ok(caller(own, None)) };
    let stated = agent_named("X-Agent-Id", stated)?;
    match own.agent() {
        Some(own_id) if *own_id == stated => Ok(caller(own, None)),
        _ if power >= Power::Lead => {
            let by = own.to_string();
            Ok(caller(Actor::Agent(stated), Some(by)))
        }
        _ => Err(Refusal::new(Code::Forbidden, format!("this credential is for '{own}', not for '{stated}'"))),
    }
}

/// A caller on this machine that says who it is. Nobody is a person by word alone.
fn by_word(credentials: &Credentials<'_>) -> Result<Caller, Refusal> {
    if let Some(stated) = credentials.stated {
        return Ok(Caller::asserted(agent_named("X-Agent-Id", stated)?));
    }
    match credentials.argument.filter(|name| !name.is_empty()) {
        // What an argument may be is for the rule that takes it; a name of another kind makes nobody its owner.
        Some(name) if Actor::is_reserved(name) => Ok(Caller::nobody()),
        Some(name) => Ok(Caller::asserted(agent_named("the agent's id", name)?)),
        None => Ok(Caller::nobody()),
    }
}

/// The agent that a caller says it is, or that a credential is for: a name an agent could have, as it is written once.
pub fn agent_named(field: &'static str, name: &str) -> Result<AgentId, Refusal> {
    check_name(field, name)?;
    if Actor::is_reserved(name) {
        return Err(Refusal::new(Code::Forbidden, format!("'{name}' cannot be claimed by name"))
            .hint("a person needs a token or the project's key file, which the command line uses"));
    }
    Ok(plain(&AgentId::from(name)))
}

#[cfg(test)]
mod tests {
    use rookery_core::session;

    use super::*;

    fn access(trust: Trust) -> Access {
        let access = Access::new(trust, Some("the-key\n"));
        for (secret, subject, power, expires_at) in [
            ("agent", "a", Power::Agent, None),
            ("old", "a", Power::Agent, Some(Timestamp(5))),
            ("person", "anna", Power::Person, None),
            ("lead", "l", Power::Lead, None),
        ] {
            let token = Token {
                id: secret.to_owned(),
                hash: hash(secret),
                subject: subject.to_owned(),
                power,
                created_at: Timestamp(0),
                expires_at,
                label: None,
            };
            access.tokens.write().unwrap().insert(token.hash.clone(), token);
        }
        access
    }

    fn who(trust: Trust, bearer: Option<&str>, stated: Option<&str>, argument: Option<&str>) -> Result<String, Code> {
        let credentials = Credentials { bearer, stated, argument, ..Credentials::default() };
        let caller = access(trust).identify(&credentials, Timestamp(10)).map_err(|refusal| refusal.code)?;
        let by = caller.by.map(|by| format!(" by {by}")).unwrap_or_default();
        Ok(format!("{} {} {:?}{by}", caller.actor, caller.auth.as_str(), caller.power))
    }

    #[test]
    fn credentials_come_before_words() {
        use Trust::*;
        assert_eq!(who(Local, None, None, None).as_deref(), Ok("nobody none Agent"));
        assert_eq!(who(Local, None, None, Some("a")).as_deref(), Ok("a asserted Agent"));
        assert_eq!(who(Local, None, Some("b"), Some("a")).as_deref(), Ok("b asserted Agent"));
        assert_eq!(who(Local, Some("agent"), None, Some("b")).as_deref(), Ok("a token Agent"));
        assert_eq!(who(Local, Some("the-key"), None, None).as_deref(), Ok("person:local token Person"));
        assert_eq!(who(Local, Some("the-key"), Some("a"), None).as_deref(), Ok("a token Person by person:local"));
        assert_eq!(who(Local, Some("lead"), Some("a"), None).as_deref(), Ok("a token Lead by l"));
        assert_eq!(who(Local, Some("lead"), Some("l"), None).as_deref(), Ok("l token Lead"));
        assert_eq!(who(Local, Some("person"), None, None).as_deref(), Ok("person:anna token Person"));
    }

    #[test]
    fn words_are_not_enough_for_what_needs_a_credential() {
        use Trust::*;
        assert_eq!(who(Local, None, Some("person:anna"), None), Err(Code::Forbidden));
        assert_eq!(who(Local, Some("wrong"), None, None), Err(Code::Unauthenticated));
        assert_eq!(who(Local, Some("old"), None, None), Err(Code::Unauthenticated));
        assert_eq!(who(Local, Some("agent"), Some("b"), None), Err(Code::Forbidden));
        assert_eq!(who(TokensOnly, None, Some("a"), None), Err(Code::Unauthenticated));
        assert_eq!(who(TokensOnly, Some("agent"), Some("a"), None).as_deref(), Ok("a token Agent"));
    }

    #[test]
    fn a_code_signs_a_person_in_and_its_cookie_is_that_person() {
        let access = access(Trust::TokensOnly);
        access.launches().give_out("code", "anna", Timestamp(10));
        let cookie = access.sign_in("code", Timestamp(10)).unwrap();
        assert_eq!(access.sign_in("code", Timestamp(10)), None);
        let who = |cookie, stated| {
            let credentials = Credentials { cookie: Some(cookie), stated, ..Credentials::default() };
            access
                .identify(&credentials, Timestamp(10))
                .map(|caller| (caller.actor.to_string(), caller.power, caller.by))
        };
        let person = Power::Person;
        assert_eq!(who(&cookie, None).unwrap(), ("person:anna".to_owned(), person, None));
        assert_eq!(who(&cookie, Some("a")).unwrap(), ("a".to_owned(), person, Some("person:anna".to_owned())));
        assert_eq!(who("rku.61.99.00", None).unwrap_err().code, Code::Unauthenticated, "as good as none");
    }

    #[test]
    fn a_session_speaks_for_its_agent_and_nobody_else() {
        let key = session::key("the-key", &"a".into(), Timestamp(20));
        let who = |session, stated, at| {
            let credentials = Credentials { session: Some(session), stated, ..Credentials::default() };
            let caller = access(Trust::TokensOnly).identify(&credentials, Timestamp(at)).map_err(|no| no.code)?;
            Ok((caller.actor.to_string(), caller.auth, caller.power, caller.is_proven()))
        };
        let as_itself = Ok(("a".to_owned(), Auth::Session, Power::Agent, true));
        assert_eq!(who(&key, None, 10), as_itself);
        assert_eq!(who(&key, Some("a"), 10), as_itself);
        assert_eq!(who(&key, Some("b"), 10), Err(Code::Forbidden));
        assert_eq!(who(&key, None, 20), Err(Code::Unauthenticated));
        assert_eq!(who("rks.61.99.00", None, 10), Err(Code::Unauthenticated));
        assert_eq!(who(&key, Some("a@default"), 10), as_itself, "the same name, written in full");
        let in_full = session::key("the-key", &"a@default".into(), Timestamp(20));
        assert_eq!(who(&in_full, None, 10), as_itself);
        assert_eq!(who(&in_full, Some("a"), 10), as_itself);
    }

    #[test]
    fn no_credential_is_for_what_is_not_an_agents_name() {
        for (name, code) in [
            ("person:anna", Code::Forbidden),
            ("system", Code::Forbidden),
            ("group:workers", Code::Forbidden),
            ("two words", Code::Invalid),
            ("a@b@c", Code::Invalid),
            ("@x", Code::Invalid),
            ("", Code::Invalid),
        ] {
            let key = session::key("the-key", &name.into(), Timestamp(20));
            let by_session = Credentials { session: Some(&key), ..Credentials::default() };
            let access = access(Trust::Local);
            for power in [Power::Observer, Power::Agent, Power::Lead] {
                let secret = format!("odd {power:?}");
                let token = Token {
                    id: secret.clone(),
                    hash: hash(&secret),
                    subject: name.to_owned(),
                    power,
                    created_at: Timestamp(0),
                    expires_at: None,
                    label: None,
                };
                access.tokens.write().unwrap().insert(token.hash.clone(), token);
                let by_token = Credentials { bearer: Some(&secret), ..Credentials::default() };
                let refused = access.identify(&by_token, Timestamp(10)).map_err(|refusal| refusal.code);
                assert_eq!(refused, Err(code), "a token for {name:?}");
            }
            let refused = access.identify(&by_session, Timestamp(10)).map_err(|refusal| refusal.code);
            assert_eq!(refused, Err(code), "a session of {name:?}");
        }
    }

    #[test]
    fn nobody_speaks_as_an_author_of_another_kind() {
        for bearer in [None, Some("lead"), Some("person"), Some("the-key")] {
            for name in ["person:ben", "system", "watcher", "router", "nobody", "group:workers"] {
                assert_eq!(who(Trust::Local, bearer, Some(name), None), Err(Code::Forbidden), "{bearer:?} as {name}");
            }
            for name in ["two words", "@x", "x@", "a@b@c"] {
                assert_eq!(who(Trust::Local, bearer, Some(name), None), Err(Code::Invalid), "{bearer:?} as {name}");
            }
            assert_eq!(who(Trust::Local, bearer, Some(&"x".repeat(200)), None), Err(Code::TooLarge));
        }
        assert_eq!(who(Trust::Local, None, None, Some("system")).as_deref(), Ok("nobody none Agent"));
        assert_eq!(who(Trust::Local, None, None, Some(&"x".repeat(200))), Err(Code::TooLarge));
    }
}
