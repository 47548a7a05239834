//! The identity that a request claims. Every surface that speaks HTTP reads it from the same headers, in the same order:
//! token, session key, browser session, `X-Agent-Id`, and at last an agent that the request itself names.

use axum::http::{Extensions, HeaderMap, Method, header};
use rookery_core::kernel::limit::IDEMPOTENCY_KEY_BYTES;
use rookery_core::{Actor, Auth, Caller, Code, Instance, Rejection, Seq};
use rookery_engine::Credentials;
use rookery_engine::credentials::browser_sessions::SessionHalves;
use rookery_engine::submit::IdempotencyKey;

use super::state::App;

/// The header with a session key.
pub const SESSION: &str = "x-rookery-session";
/// The header with the half of a browser session that its page keeps.
pub const BROWSER: &str = "x-rookery-browser";
/// The header that says in which instance somebody looks around who gave no name.
pub const INSTANCE: &str = "x-rookery-instance";

#[derive(Clone, Debug, Default)]
pub struct Sender {
    bearer: Option<String>,
    session: Option<String>,
    /// The cookies as they came; which one is ours, the project tells.
    cookies: Option<String>,
    browser: Option<String>,
    /// Whether a browser sent the request, and the request only reads.
    browser_reads: bool,
    stated: Option<String>,
    fence: Option<Seq>,
    key: Option<String>,
    instance: Option<String>,
    /// The instance whose socket the request came over.
    socket: Option<Instance>,
}

impl Sender {
    pub fn of(headers: &HeaderMap) -> Result<Sender, Rejection> {
        let fence = match text(headers, "x-fence")? {
            None => None,
            Some(value) => Some(Seq(value.parse().map_err(|_| invalid("X-Fence must be a number"))?)),
        };
        let key = text(headers, "idempotency-key")?;
        if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES) {
            return Err(invalid(format!("Idempotency-Key must have 1 to {IDEMPOTENCY_KEY_BYTES} characters")));
        }
        let stated = text(headers, "x-agent-id")?.filter(|id| !id.is_empty());
        let session = text(headers, SESSION)?.filter(|key| !key.is_empty());
        let instance = text(headers, INSTANCE)?.filter(|name| !name.is_empty());
        let cookies = headers.get(header::COOKIE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let browser = text(headers, BROWSER)?.filter(|half| !half.is_empty());
        let bearer = bearer(headers)?;
        Ok(Sender {
            bearer,
            session,
            cookies,
            browser,
            browser_reads: false,
            stated,
            fence,
            key,
            instance,
            socket: None,
        })
    }

    /// As [`Sender::of`], with the method taken into account: any web page can make a browser send a GET, so that such a
    /// request never speaks for an agent by name.
    pub fn of_request(method: &Method, headers: &HeaderMap, extensions: &Extensions) -> Result<Sender, Rejection> {
        let browser_reads = method.is_safe() && is_from_browser(headers);
        Ok(Sender { browser_reads, ..Sender::of_message(headers, extensions)? })
    }

    /// As [`Sender::of`], with the socket taken into account that it came over.
    pub fn of_message(headers: &HeaderMap, extensions: &Extensions) -> Result<Sender, Rejection> {
        Ok(Sender { socket: extensions.get::<Instance>().cloned(), ..Sender::of(headers)? })
    }

    /// Adds the half of a browser session that came in the first frame of a WebSocket.
    pub fn with_browser(self, half: String) -> Sender {
        Sender { browser: Some(half), ..self }
    }

    /// The halves of a browser session, if both are there.
    pub fn session_halves(&self, app: &App) -> Option<SessionHalves<'_>> {
        let (cookie, stored) = (self.cookie(&cookie_name(app))?, self.browser.as_deref()?);
        Some(SessionHalves { cookie, stored })
    }

    /// The caller of a request that names `argument` as the agent it is about.
    pub fn caller(&self, app: &App, argument: Option<&str>) -> Result<Caller, Rejection> {
        let takes_names = !self.browser_reads || self.has_credential();
        let credentials = Credentials {
            bearer: self.bearer.as_deref(),
            session: self.session.as_deref(),
            cookie: self.cookie(&cookie_name(app)),
            browser: self.browser.as_deref(),
            stated: self.stated.as_deref().filter(|_| takes_names),
            argument: argument.filter(|_| takes_names),
            fence: self.fence,
        };
        let mut caller = app.engine().access().identify(&credentials, app.engine().clock().now())?;
        let asserted = caller.actor.agent().filter(|_| caller.auth == Auth::Asserted);
        caller.on_own_socket = asserted.map(Instance::of).is_some_and(|instance| self.socket == Some(instance));
        Ok(caller)
    }

    fn cookie(&self, wanted: &str) -> Option<&str> {
        let pairs = self.cookies.as_deref()?.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find_map(|(name, value)| (name == wanted).then_some(value))
    }

    /// The caller of a message that says who sends it: whoever the headers say must be that one. Without any, its word
    /// is taken, as far as words are.
    pub fn sending_as(&self, app: &App, from: &Actor) -> Result<Caller, Rejection> {
        let stated = self.stated.clone().or_else(|| from.agent().map(ToString::to_string));
        let caller = Sender { stated, ..self.clone() }.caller(app, None)?;
        if caller.actor == *from {
            return Ok(caller);
        }
        let refusal =
            Rejection::new(Code::Forbidden, format!("the message says that it is from '{from}', and it is not"));
        Err(match from {
            Actor::Person(_) => refusal.hint("a person needs a token, or the project's key"),
            _ => refusal.hint(format!("'{}' calls: send as that one", caller.actor)),
        })
    }

    /// The instance that it is in, if it gives no name that tells.
    pub fn instance(&self) -> Instance {
        self.instance.as_deref().map_or_else(Instance::default, Instance::new)
    }

    /// Whether it is known by a header, whatever the request's body says.
    pub fn is_known(&self) -> bool {
        self.has_credential() || self.stated.is_some()
    }

    /// Whether it showed more than its word, which may end while a long answer lasts.
    pub fn has_credential(&self) -> bool {
        self.bearer.is_some() || self.session.is_some() || self.browser.is_some()
    }

    /// The same without the name that it states: what is left is whom its credential is for.
    pub fn unstated(self) -> Sender {
        Sender { stated: None, ..self }
    }

    pub fn with_fence(self, fence: Option<Seq>) -> Sender {
        Sender { fence: fence.or(self.fence), ..self }
    }

    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The sender's idempotency key for a request that this text tells from others.
    pub fn idempotency(&self, fingerprint: impl FnOnce() -> String) -> Option<IdempotencyKey> {
        self.key.as_ref().map(|key| IdempotencyKey { key: key.clone(), fingerprint: fingerprint() })
    }
}

/// The cookie of a browser that a person signed in. Cookies know no ports, so it is the project's.
pub fn cookie_name(app: &App) -> String {
    format!("rookery-{}", app.about().project_id)
}

/// Whether a browser sent a request: it adds headers that no page can leave out. `Sec-Fetch-Mode` is not among them,
/// because `fetch` of Node.js sends it too.
fn is_from_browser(headers: &HeaderMap) -> bool {
    const MARKS: [&str; 4] = ["sec-fetch-site", "sec-fetch-dest", "origin", "referer"];
    let agent = headers.get(header::USER_AGENT).map(|agent| agent.as_bytes());
    MARKS.into_iter().any(|mark| headers.contains_key(mark))
        || agent.is_some_and(|agent| agent.starts_with(b"Mozilla/"))
}

fn bearer(headers: &HeaderMap) -> Result<Option<String>, Rejection> {
    let Some(value) = text(headers, header::AUTHORIZATION.as_str())? else { return Ok(None) };
    match value.split_once(' ') {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(secret.trim().to_owned())),
        _ => Err(Rejection::new(Code::Unauthenticated, "Authorization must be 'Bearer <token>'")),
    }
}

fn text(headers: &HeaderMap, name: &str) -> Result<Option<String>, Rejection> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(invalid(format!("header {name} is not text"))),
    }
}

fn invalid(message: impl Into<String>) -> Rejection {
    Rejection::new(Code::Invalid, message)
}
