//! Browser sessions: signing in by a sign-in link, who is signed in, and ending sessions.
//!
//! The code of a link is in the part of the address that browsers do not send; the page posts it here. In return it gets
//! the two halves of a session: a cookie that no script can read, and a secret that the page keeps in the storage of its
//! origin and sends as `X-Rookery-Browser`. Both are needed for everything that a session allows.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rookery_core::kernel::limit;
use rookery_core::{Actor, Code, Rejection};
use rookery_engine::access::NewSession;
use rookery_engine::credentials::browser_sessions::SESSION_MILLIS;
use rookery_engine::{Token, ports};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::answer::Done;
use crate::http::extract::{self, Call, JsonBody, MaybeBody, Segment};
use crate::http::identity::cookie_name;
use crate::http::{App, HttpError};

/// The person that calls of this browser act as.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionInfo {
    /// The person's name; null if this browser can only read.
    pub person: Option<String>,
    /// The browser session; null for callers that proved who they are in another way.
    pub session: Option<String>,
    /// The people that agents and others can mention, by name; for people only.
    pub people: Vec<String>,
    pub project: String,
    pub project_id: String,
    pub version: String,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct SignIn {
    /// The code of a sign-in link.
    #[schema(required = true)]
    pub code: Option<String>,
}

/// A new browser session. The other half of its secret is in the cookie that comes with this answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct SignedIn {
    /// To be kept in the storage of the origin and sent as `X-Rookery-Browser`.
    pub secret: String,
    pub session: String,
    pub person: String,
}

/// A browser session, without its secrets.
#[derive(Debug, Serialize, ToSchema)]
pub struct BrowserSession {
    pub id: String,
    pub person: String,
    /// As in `Firefox on Linux`.
    pub browser: String,
    /// In epoch milliseconds.
    pub created_at: i64,
    /// In epoch milliseconds, up to a few minutes behind.
    pub last_used: i64,
    /// In epoch milliseconds. Each use extends the session.
    pub expires_at: Option<i64>,
    /// Whether the caller uses this session.
    pub current: bool,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct NewSignInLink {
    /// The person to sign in; the caller if left out.
    pub person: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SignInLink {
    /// To be opened in a browser, once and within 15 minutes; relative to the daemon's address.
    pub path: String,
    pub person: String,
}

/// The person that this browser acts as.
#[utoipa::path(get, path = "/session", tag = "session", responses((status = 200, body = SessionInfo)))]
pub async fn get(State(app): State<App>, call: Call) -> Result<Json<SessionInfo>, HttpError> {
    let person = match call.reader().await?.actor {
        Actor::Person(name) => Some(name),
        _ => None,
    };
    let people = if person.is_some() { app.engine().access().people().into_iter().collect() } else { vec![] };
    Ok(Json(SessionInfo {
        person,
        people,
        session: call.browser_session().map(|session| session.id),
        project: app.engine().config().project.clone(),
        project_id: app.about().project_id.clone(),
        version: app.about().version.to_owned(),
    }))
}

/// Sign in with the code of a sign-in link. The answer has one half of the session, and sets a cookie with the other.
#[utoipa::path(post, path = "/session", tag = "session", request_body = SignIn,
    responses((status = 200, body = SignedIn), (status = 401, body = crate::http::error::ErrorBody)))]
pub async fn sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    body: JsonBody<SignIn>,
) -> Result<Response, HttpError> {
    let [code] = extract::need("code is required", [&body.value.code])?;
    let Some(NewSession { cookie, stored, session }) =
        app.engine().access().sign_in(&code, browser_name(&headers)).await?
    else {
        let refusal = Rejection::new(Code::Unauthenticated, "this sign-in link was used already, or is too old");
        return Err(refusal.hint("'rookery open' prints a new one").into());
    };
    let body = SignedIn { secret: stored, session: session.id, person: session.subject };
    let cookie = new_cookie(&app, &headers, &cookie, SESSION_MILLIS / 1_000);
    Ok(with_cookie(&cookie, Json(body).into_response()))
}

/// Sign out: end the session of this browser.
#[utoipa::path(delete, path = "/session", tag = "session", responses((status = 200, body = Done)))]
pub async fn sign_out(State(app): State<App>, headers: HeaderMap, call: Call) -> Result<Response, HttpError> {
    if let Some(session) = call.browser_session() {
        app.engine().access().revoke_session(&session.id).await?;
    }
    Ok(with_cookie(&new_cookie(&app, &headers, "", 0), Json(Done { ok: true }).into_response()))
}

/// The browser sessions of this project, for a person.
#[utoipa::path(get, path = "/sessions", tag = "session", responses((status = 200, body = Vec<BrowserSession>)))]
pub async fn list(State(app): State<App>, call: Call) -> Result<Json<Vec<BrowserSession>>, HttpError> {
    call.person()?;
    let engine = app.engine();
    let own = call.browser_session().map(|session| session.id);
    let sessions = engine.access().sessions(engine.clock().now());
    Ok(Json(sessions.into_iter().map(|session| BrowserSession::new(session, own.as_deref())).collect()))
}

impl BrowserSession {
    fn new(session: Token, own: Option<&str>) -> BrowserSession {
        let (browser, last_used) =
            session.browser.map_or((String::new(), session.created_at), |browser| (browser.name, browser.last_used));
        BrowserSession {
            current: own == Some(session.id.as_str()),
            id: session.id,
            person: session.subject,
            browser,
            created_at: session.created_at.0,
            last_used: last_used.0,
            expires_at: session.expires_at.map(|at| at.0),
        }
    }
}

/// End a browser session, for a person. Its open streams end too.
#[utoipa::path(delete, path = "/sessions/{id}", tag = "session", params(("id" = String, Path)),
    responses((status = 200, body = Done), (status = 404, body = crate::http::error::ErrorBody)))]
pub async fn revoke(State(app): State<App>, call: Call, Segment(id): Segment) -> Result<Json<Done>, HttpError> {
    call.person()?;
    if app.engine().access().revoke_session(&id).await? {
        return Ok(Json(Done { ok: true }));
    }
    let message = format!("there is no browser session '{id}'");
    Err(HttpError::new(Code::SessionNotFound, message).hint("'rookery sessions' lists them"))
}

/// Make a sign-in link, for a person.
#[utoipa::path(post, path = "/session/sign-in-links", operation_id = "create_sign_in_link", tag = "session", request_body = NewSignInLink,
    responses((status = 201, body = SignInLink)))]
pub async fn create_link(call: Call, body: MaybeBody<NewSignInLink>) -> Result<Response, HttpError> {
    let caller = call.person()?;
    let person = match body.value.person {
        Some(name) => checked(name)?,
        None => match caller.actor {
            Actor::Person(name) => name,
            other => return Err(HttpError::invalid(format!("'{other}' is no person: say whom it signs in"))),
        },
    };
    let path = sign_in_path(call.app(), &person);
    Ok((StatusCode::CREATED, Json(SignInLink { path, person })).into_response())
}

/// A new sign-in link for a person, relative to the daemon's address.
pub fn sign_in_path(app: &App, person: &str) -> String {
    let engine = app.engine();
    let code = ports::secret();
    engine.access().codes().issue(&code, person, engine.clock().now());
    format!("/ui/sign-in#{code}")
}

/// A name that `@` reaches: people are mentioned as agents are.
fn checked(name: String) -> Result<String, HttpError> {
    let name = name.trim_start_matches("person:").to_owned();
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !fits || name.len() > limit::NAME_BYTES {
        return Err(HttpError::invalid("person must be a letter and then letters, digits, '_' and '-'"));
    }
    Ok(name)
}

/// A cookie that the browser sends over TLS only, if the page came by it: to this daemon or to a proxy before it.
fn new_cookie(app: &App, headers: &HeaderMap, value: &str, seconds: u64) -> String {
    let secure = headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let secure = if secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", cookie_name(app))
}

fn with_cookie(cookie: &str, mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match HeaderValue::from_str(cookie) {
        Ok(cookie) => {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            response
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A short name for the browser that sent a request, by which a person recognises its session.
fn browser_name(headers: &HeaderMap) -> String {
    // Most browsers also claim to be those further down.
    const BROWSERS: [(&str, &str); 5] =
        [("Firefox/", "Firefox"), ("Edg/", "Edge"), ("OPR/", "Opera"), ("Chrome/", "Chrome"), ("Safari/", "Safari")];
    const SYSTEMS: [(&str, &str); 6] = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Mac OS X", "macOS"),
        ("Windows", "Windows"),
        ("Linux", "Linux"),
    ];
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let name_in =
        |names: &[(&str, &'static str)]| names.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, name)| *name);
    match (name_in(&BROWSERS), name_in(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, _) => "unknown browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_name_is_short_and_never_what_the_client_wrote() {
        for (agent, name) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox on Linux"),
            ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0 Safari/537.36", "Chrome on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/120.0 Safari/537.36 Edg/120.0",
                "Edge on Windows",
            ),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605 Version/17 Safari/605", "Safari on macOS"),
            ("\u{1b}[31mcurl/8", "unknown browser"),
        ] {
            let mut headers = HeaderMap::new();
            if let Ok(agent) = HeaderValue::from_str(agent) {
                headers.insert(header::USER_AGENT, agent);
            }
            assert_eq!(browser_name(&headers), name);
        }
    }
}
