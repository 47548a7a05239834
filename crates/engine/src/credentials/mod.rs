//! Who a caller is: credentials first, then what it says of itself.

pub mod browser_sessions;
pub mod team_sessions;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rookery_core::kernel::instance::check_name;
use rookery_core::kernel::name::look_alike;
use rookery_core::kernel::session_key::Session;
pub use rookery_core::kernel::session_key::hash;
use rookery_core::{Actor, AgentId, Auth, Authority, Caller, Code, Rejection, Seq, Timestamp};
use rookery_store::{ReadError, Store, Token};

use browser_sessions::{MAX_SESSIONS, RENEW_AFTER_MILLIS, SESSION_MILLIS, SessionHalves, SignInCodes};
use team_sessions::TeamSessions;

/// What came with a request.
#[derive(Clone, Debug, Default)]
pub struct Credentials<'a> {
    pub bearer: Option<&'a str>,
    /// The `X-Rookery-Session` header.
    pub session: Option<&'a str>,
    /// One half of a browser session, from the cookie. Without the other half it proves nothing.
    pub cookie: Option<&'a str>,
    /// The other half, from the `X-Rookery-Browser` header.
    pub browser: Option<&'a str>,
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
    /// Held while the tokens are read and put in place, so that an earlier read never replaces a later one.
    reloading: tokio::sync::Mutex<()>,
    codes: SignInCodes,
    /// When each browser session was last used here, by its id.
    used: Mutex<HashMap<String, Timestamp>>,
    team_sessions: TeamSessions,
}

impl Access {
    pub fn new(trust: Trust, person_key: Option<&str>) -> Access {
        Access {
            trust,
            person_key: person_key.map(hash),
            tokens: RwLock::default(),
            reloading: tokio::sync::Mutex::default(),
            codes: SignInCodes::default(),
            used: Mutex::default(),
            team_sessions: TeamSessions::default(),
        }
    }

    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Reads the tokens again: at start, and after one was created or revoked.
    pub(crate) async fn reload(&self, store: &dyn Store) -> Result<(), ReadError> {
        let turn = self.reloading.lock().await;
        let tokens = store.tokens().await?;
        let by_hash = tokens.into_iter().map(|token| (token.hash.clone(), token)).collect();
        let by_hash: HashMap<String, Token> = by_hash;
        let known: std::collections::HashSet<&str> = by_hash.values().map(|token| token.id.as_str()).collect();
        self.used.lock().unwrap_or_else(PoisonError::into_inner).retain(|id, _| known.contains(id.as_str()));
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = by_hash;
        drop(turn);
        Ok(())
    }

    /// The teams that session keys are bound to.
    pub fn team_sessions(&self) -> &TeamSessions {
        &self.team_sessions
    }

    /// The codes of open sign-in links.
    pub fn codes(&self) -> &SignInCodes {
        &self.codes
    }

    /// The hash of a session's halves; `None` in a project without a key file, which has no browser sessions.
    pub(crate) fn session_hash(&self, halves: SessionHalves<'_>) -> Option<String> {
        self.person_key.as_ref().map(|key| halves.hash(key))
    }

    /// The browser sessions that have not expired, with the newest use that this node knows of.
    pub fn sessions(&self, now: Timestamp) -> Vec<Token> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let mut sessions: Vec<Token> =
            tokens.values().filter(|token| token.browser.is_some() && is_valid(token, now)).cloned().collect();
        for session in &mut sessions {
            if let (Some(browser), Some(at)) = (&mut session.browser, used.get(&session.id)) {
                browser.last_used = browser.last_used.max(*at);
            }
        }
        sessions.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        sessions
    }

    /// The session that these halves belong to.
    pub fn session_of(&self, halves: SessionHalves<'_>, now: Timestamp) -> Option<Token> {
        let hash = self.session_hash(halves)?;
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        tokens.get(&hash).filter(|token| token.browser.is_some() && is_valid(token, now)).cloned()
    }

    /// Sessions whose recorded use is out of date, as they should be recorded: each use extends a session.
    pub(crate) fn sessions_to_renew(&self, now: Timestamp) -> Vec<Token> {
        let recorded = |id: &str| {
            let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
            tokens.values().find(|token| token.id == id).and_then(|token| token.browser.clone())
        };
        let mut sessions = self.sessions(now);
        sessions.retain_mut(|session| {
            let (Some(browser), Some(recorded)) = (&session.browser, recorded(&session.id)) else { return false };
            session.expires_at = Some(browser.last_used.plus_millis(SESSION_MILLIS));
            browser.last_used > recorded.last_used.plus_millis(RENEW_AFTER_MILLIS)
        });
        sessions
    }

    /// Ids of sessions that can be deleted: the expired ones, and the least recently used ones above the limit.
    pub(crate) fn sessions_to_end(&self, now: Timestamp) -> Vec<String> {
        let mut ended: Vec<String> = {
            let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
            let expired = tokens.values().filter(|token| token.browser.is_some() && !is_valid(token, now));
            expired.map(|token| token.id.clone()).collect()
        };
        let mut sessions = self.sessions(now);
        sessions.sort_by_key(|session| session.browser.as_ref().map(|browser| browser.last_used));
        let excess = sessions.len().saturating_sub(MAX_SESSIONS);
        ended.extend(sessions.into_iter().take(excess).map(|session| session.id));
        ended
    }

    pub fn identify(&self, credentials: &Credentials<'_>, now: Timestamp) -> Result<Caller, Rejection> {
        let caller = match credentials.bearer {
            Some(secret) => self.by_secret(secret, credentials, now)?,
            None if credentials.session.is_some() => self.by_session(credentials, now)?,
            None if let Some(stored) = credentials.browser => self.by_browser(stored, credentials, now)?,
            None if self.trust == Trust::TokensOnly => {
                return Err(Rejection::new(Code::Unauthenticated, "a token is required")
                    .hint("send 'Authorization: Bearer <token>'; 'rookery token create' makes one"));
            }
            None => asserted_caller(credentials)?,
        };
        Ok(Caller { fence: credentials.fence, ..caller })
    }

    /// The person of a browser session, which both halves prove. The cookie alone identifies nobody: browsers send it to
    /// every port of this host.
    fn by_browser(&self, stored: &str, credentials: &Credentials<'_>, now: Timestamp) -> Result<Caller, Rejection> {
        let halves = credentials.cookie.map(|cookie| SessionHalves { cookie, stored });
        let Some(session) = halves.and_then(|halves| self.session_of(halves, now)) else {
            return Err(Rejection::new(Code::Unauthenticated, "this browser is signed out")
                .hint("run 'rookery open' and follow the sign-in link that it prints"));
        };
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(session.id, now);
        caller_acting_as(Actor::Person(session.subject), credentials.stated, Authority::Person)
    }

    fn by_session(&self, credentials: &Credentials<'_>, now: Timestamp) -> Result<Caller, Rejection> {
        let key = credentials.session.unwrap_or_default();
        let session = self.person_key.as_ref().and_then(|hash| Session::from_key(hash, key, now));
        let Some(session) = session else {
            return Err(Rejection::new(Code::Unauthenticated, "the session key is not valid or has ended")
                .hint("start the agent's program again"));
        };
        let own = Actor::Agent(agent_named("the session's agent", session.agent.as_str())?);
        self.team_sessions.check(&session)?;
        let caller = caller_acting_as(own, credentials.stated, Authority::Agent)?;
        Ok(Caller { auth: Auth::Session, session: Some(Arc::new(session)), ..caller })
    }

    /// The people with a token or a browser session, by name.
    pub(crate) fn people(&self) -> BTreeSet<String> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        tokens.values().filter(|token| token.power == Authority::Person).map(|token| token.subject.clone()).collect()
    }

    /// The person with a token whose name looks like this one.
    pub(crate) fn person_like(&self, name: &str) -> Option<String> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let mut people = tokens.values().filter(|token| token.power == Authority::Person).map(|token| &token.subject);
        people.find(|person| look_alike(person, name)).cloned()
    }

    /// The key that messages to an agent's endpoint are signed with; `None` in a project without a key file.
    pub(crate) fn delivery_key(&self, agent: &AgentId) -> Option<String> {
        self.person_key.as_ref().map(|hash| crate::endpoints::signature::key_of(hash, agent))
    }

    fn by_secret(&self, secret: &str, credentials: &Credentials<'_>, now: Timestamp) -> Result<Caller, Rejection> {
        let hash = hash(secret);
        if self.person_key.as_ref() == Some(&hash) {
            return caller_acting_as(Actor::Person("local".to_owned()), credentials.stated, Authority::Person);
        }
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let token = tokens.get(&hash).filter(|token| token.browser.is_none() && is_valid(token, now));
        let Some(token) = token else {
            return Err(Rejection::new(Code::Unauthenticated, "the token is not known or has expired")
                .hint("'rookery token list' shows the tokens that are valid"));
        };
        let own = match token.power {
            Authority::Person => Actor::Person(token.subject.clone()),
            Authority::Observer | Authority::Agent | Authority::Lead => {
                Actor::Agent(agent_named("the token's subject", &token.subject)?)
            }
        };
        caller_acting_as(own, credentials.stated, token.power)
    }
}

fn is_valid(token: &Token, now: Timestamp) -> bool {
    token.expires_at.is_none_or(|end| end > now)
}

/// Whom the owner of a credential speaks as: itself, or with a lead's or a person's power any agent, and nobody else.
fn caller_acting_as(own: Actor, stated: Option<&str>, power: Authority) -> Result<Caller, Rejection> {
    let caller = |actor, by| Caller {
        actor,
        auth: Auth::Token,
        power,
        fence: None,
        acting_through: by,
        acting_for: None,
        session: None,
        on_own_socket: false,
    };
    let Some(stated) = stated.filter(|stated| own.to_string() != *stated) else { return Ok(caller(own, None)) };
    let stated = agent_named("X-Agent-Id", stated)?;
    match own.agent() {
        Some(own_id) if *own_id == stated => Ok(caller(own, None)),
        _ if power >= Authority::Lead => {
            let by = own.to_string();
            Ok(caller(Actor::Agent(stated), Some(by)))
        }
        _ => Err(Rejection::new(Code::Forbidden, format!("this credential is for '{own}', not for '{stated}'"))),
    }
}

/// A caller on this machine that says who it is. Nobody is a person by word alone.
fn asserted_caller(credentials: &Credentials<'_>) -> Result<Caller, Rejection> {
    if let Some(stated) = credentials.stated {
        return Ok(Caller::asserted(agent_named("X-Agent-Id", stated)?));
    }
    match credentials.argument.filter(|name| !name.is_empty()) {
        // What an argument may be is for the rule that takes it; a name of another kind makes nobody its owner.
        Some(name) if Actor::is_reserved(name) => Ok(Caller::anonymous()),
        Some(name) => Ok(Caller::asserted(agent_named("the agent's id", name)?)),
        None => Ok(Caller::anonymous()),
    }
}

/// The agent that a caller says it is, or that a credential is for: a name an agent could have, as it is written once.
pub fn agent_named(field: &'static str, name: &str) -> Result<AgentId, Rejection> {
    check_name(field, name)?;
    if Actor::is_reserved(name) {
        return Err(Rejection::new(Code::Forbidden, format!("'{name}' cannot be claimed by name"))
            .hint("a person needs a token or the project's key file, which the command line uses"));
    }
    Ok(AgentId::from(name))
}

#[cfg(test)]
mod tests {
    use rookery_core::kernel::session_key;

    use super::*;

    fn access(trust: Trust) -> Access {
        let access = Access::new(trust, Some("the-key\n"));
        for (secret, subject, power, expires_at) in [
            ("agent", "a", Authority::Agent, None),
            ("old", "a", Authority::Agent, Some(Timestamp(5))),
            ("person", "anna", Authority::Person, None),
            ("lead", "l", Authority::Lead, None),
        ] {
            let token = Token {
                id: secret.to_owned(),
                hash: hash(secret),
                subject: subject.to_owned(),
                power,
                created_at: Timestamp(0),
                expires_at,
                label: None,
                browser: None,
            };
            access.tokens.write().unwrap().insert(token.hash.clone(), token);
        }
        access
    }

    fn who(trust: Trust, bearer: Option<&str>, stated: Option<&str>, argument: Option<&str>) -> Result<String, Code> {
        let credentials = Credentials { bearer, stated, argument, ..Credentials::default() };
        let caller = access(trust).identify(&credentials, Timestamp(10)).map_err(|refusal| refusal.code)?;
        let by = caller.acting_through.map(|by| format!(" by {by}")).unwrap_or_default();
        Ok(format!("{} {} {:?}{by}", caller.actor, caller.auth.as_str(), caller.power))
    }

    #[test]
    fn credentials_come_before_words() {
        use Trust::*;
        assert_eq!(who(Local, None, None, None).as_deref(), Ok("anonymous none Agent"));
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

    const HALVES: SessionHalves<'_> = SessionHalves { cookie: "in the cookie", stored: "in the storage" };

    fn signed_in(trust: Trust) -> Access {
        let access = access(trust);
        let hash = access.session_hash(HALVES).unwrap();
        let session =
            browser_sessions::new_session("ses_1".into(), hash.clone(), "anna".into(), "Firefox".into(), Timestamp(10));
        access.tokens.write().unwrap().insert(hash, session);
        access
    }

    #[test]
    fn browser_session_needs_both_halves() {
        let who = |trust, cookie, browser, stated| {
            let credentials = Credentials { cookie, browser, stated, ..Credentials::default() };
            let caller = signed_in(trust).identify(&credentials, Timestamp(20)).map_err(|refusal| refusal.code)?;
            Ok((caller.actor.to_string(), caller.power, caller.acting_through))
        };
        let (cookie, stored) = (Some(HALVES.cookie), Some(HALVES.stored));
        let anna = Ok(("person:anna".to_owned(), Authority::Person, None));
        let as_a = Ok(("a".to_owned(), Authority::Person, Some("person:anna".to_owned())));
        for trust in [Trust::Local, Trust::TokensOnly] {
            assert_eq!(who(trust, cookie, stored, None), anna);
            assert_eq!(who(trust, cookie, stored, Some("a")), as_a);
            assert_eq!(who(trust, None, stored, None), Err(Code::Unauthenticated));
            assert_eq!(who(trust, stored, cookie, None), Err(Code::Unauthenticated));
            assert_eq!(who(trust, Some("guess"), stored, None), Err(Code::Unauthenticated));
        }
        let nobody = Ok(("anonymous".to_owned(), Authority::Agent, None));
        assert_eq!(who(Trust::Local, cookie, None, None), nobody, "the cookie alone identifies nobody");
        assert_eq!(who(Trust::TokensOnly, cookie, None, None), Err(Code::Unauthenticated));
    }

    #[test]
    fn browser_session_is_no_bearer_token_and_ends_with_the_project_key() {
        let access = signed_in(Trust::Local);
        for bearer in [HALVES.cookie, HALVES.stored, "in the cookie in the storage"] {
            let credentials = Credentials { bearer: Some(bearer), ..Credentials::default() };
            assert_eq!(access.identify(&credentials, Timestamp(20)).unwrap_err().code, Code::Unauthenticated);
        }
        let replaced = Access::new(Trust::Local, Some("another-key"));
        assert_ne!(replaced.session_hash(HALVES), access.session_hash(HALVES));
        assert_eq!(Access::new(Trust::Local, None).session_hash(HALVES), None);
    }

    #[test]
    fn browser_session_is_extended_by_use_and_expires_without() {
        let access = signed_in(Trust::Local);
        let end = Timestamp(10).plus_millis(SESSION_MILLIS);
        assert!(access.session_of(HALVES, Timestamp(end.0 - 1)).is_some());
        assert!(access.session_of(HALVES, end).is_none());
        assert_eq!(access.sessions_to_end(end), ["ses_1"]);
        assert!(access.sessions_to_end(Timestamp(20)).is_empty());

        let credentials =
            Credentials { cookie: Some(HALVES.cookie), browser: Some(HALVES.stored), ..Credentials::default() };
        access.identify(&credentials, Timestamp(20)).unwrap();
        assert!(access.sessions_to_renew(Timestamp(20)).is_empty(), "not at every request");
        let later = Timestamp(10).plus_millis(RENEW_AFTER_MILLIS + 1);
        access.identify(&credentials, later).unwrap();
        let renewed = access.sessions_to_renew(later);
        assert_eq!(renewed.len(), 1);
        assert_eq!(renewed[0].expires_at, Some(later.plus_millis(SESSION_MILLIS)));
        assert_eq!(renewed[0].browser.as_ref().unwrap().last_used, later);
    }

    #[test]
    fn a_session_speaks_for_its_agent_and_nobody_else() {
        let key = session_key::key("the-key", &"a".into(), Timestamp(20));
        let who = |session, stated, at| {
            let credentials = Credentials { session: Some(session), stated, ..Credentials::default() };
            let caller = access(Trust::TokensOnly).identify(&credentials, Timestamp(at)).map_err(|no| no.code)?;
            Ok((caller.actor.to_string(), caller.auth, caller.power, caller.is_proven()))
        };
        let as_itself = Ok(("a".to_owned(), Auth::Session, Authority::Agent, true));
        assert_eq!(who(&key, None, 10), as_itself);
        assert_eq!(who(&key, Some("a"), 10), as_itself);
        assert_eq!(who(&key, Some("b"), 10), Err(Code::Forbidden));
        assert_eq!(who(&key, None, 20), Err(Code::Unauthenticated));
        assert_eq!(who("rks.61.99.00", None, 10), Err(Code::Unauthenticated));
        assert_eq!(who(&key, Some("a@default"), 10), Err(Code::Forbidden), "a member of default is another agent");
        let member = session_key::key("the-key", &"a@default".into(), Timestamp(20));
        assert_eq!(who(&member, None, 10), Ok(("a@default".to_owned(), Auth::Session, Authority::Agent, true)));
        assert_eq!(who(&member, Some("a"), 10), Err(Code::Forbidden));
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
            let key = session_key::key("the-key", &name.into(), Timestamp(20));
            let by_session = Credentials { session: Some(&key), ..Credentials::default() };
            let access = access(Trust::Local);
            for power in [Authority::Observer, Authority::Agent, Authority::Lead] {
                let secret = format!("odd {power:?}");
                let token = Token {
                    id: secret.clone(),
                    hash: hash(&secret),
                    subject: name.to_owned(),
                    power,
                    created_at: Timestamp(0),
                    expires_at: None,
                    label: None,
                    browser: None,
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
            for name in ["person:ben", "system", "watcher", "router", "anonymous", "group:workers"] {
                assert_eq!(who(Trust::Local, bearer, Some(name), None), Err(Code::Forbidden), "{bearer:?} as {name}");
            }
            for name in ["two words", "@x", "x@", "a@b@c"] {
                assert_eq!(who(Trust::Local, bearer, Some(name), None), Err(Code::Invalid), "{bearer:?} as {name}");
            }
            assert_eq!(who(Trust::Local, bearer, Some(&"x".repeat(200)), None), Err(Code::TooLarge));
        }
        assert_eq!(who(Trust::Local, None, None, Some("system")).as_deref(), Ok("anonymous none Agent"));
        assert_eq!(who(Trust::Local, None, None, Some(&"x".repeat(200))), Err(Code::TooLarge));
    }
}
