//! Checks before a request reaches a surface: its host and origin, its project, and whether there is room for it.
//!
//! A web page in the user's browser can reach loopback. So `Host` must name this daemon, `Origin`, when there is one, must
//! be its own, and a browser that says which site a request comes from must say that it is this origin. There is no CORS.

use axum::Router;
use axum::extract::{MatchedPath, Query, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use rookery_core::Code;

use super::error::HttpError;
use super::identity::Sender;
use super::limits::{Account, Full, RequestPermit};
use super::response_body::{self, Hangup, WriteTimeout};
use super::state::App;

/// How much of a wrong name an error repeats.
const SHOWN_NAME_CHARS: usize = 64;

/// How a request came in, set by the listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    Tcp,
    /// The Unix socket: its permissions and the peer's user are the check.
    Socket,
}

/// How the guard treats the requests of the surfaces, which it does not know itself.
#[derive(Clone, Copy, Debug)]
pub struct GuardPolicy {
    /// Whether a path leads to a page that is the same for everyone, as opposed to data.
    pub is_page: fn(&str) -> bool,
    pub bounds: fn(&str) -> RequestBounds,
    /// The names of the query parameters that a method of a route takes; `None` for a route that says nothing of them.
    pub query_parameters: fn(&Method, &str) -> Option<&'static [String]>,
    /// An error at a path, in the form of the surface that the path belongs to.
    pub render_error: fn(&str, HttpError) -> Response,
}

/// The limits that the guard applies to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestBounds {
    /// A place among the requests under way, and the time limit.
    PlaceAndTime,
    /// A place, but no time limit: the answer waits for something or carries many bytes.
    Place,
    /// None: the surface gives out places and times itself.
    Own,
}

/// Puts the guard before all routes.
pub fn around(routes: Router<App>, app: &App, policy: GuardPolicy) -> Router<App> {
    routes
        .fallback(move |uri: Uri| async move { (policy.render_error)(uri.path(), nothing_there()) })
        .layer(middleware::from_fn_with_state((app.clone(), policy), counted))
}

fn nothing_there() -> HttpError {
    HttpError::new(Code::NotFound, "there is nothing at this path")
}

/// Counts requests and how long they took, by route and never by what a caller wrote.
///
/// What it calls could be layers of their own, but a request pays for each layer with copies of all those below it.
async fn counted(State((app, policy)): State<(App, GuardPolicy)>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = label(request.method());
    let began = app.engine().clock().monotonic();
    let response = checked(&app, policy, request, next).await;
    let took = app.engine().clock().monotonic().saturating_sub(began);
    let status = response.status().as_u16().to_string();
    metrics::histogram!("rookery_http_request_seconds", "route" => route.clone()).record(took as f64 / 1000.0);
    metrics::counter!("rookery_http_requests_total", "route" => route, "method" => method, "status" => status)
        .increment(1);
    response
}

/// A method as a label: those that somebody made up are one.
fn label(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| method.as_str() == *known).unwrap_or("other")
}

/// Refuses what is not for us and marks every answer as ours.
async fn checked(app: &App, policy: GuardPolicy, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let answered = match check(app, policy, &request) {
        Ok(()) => bounded(app, policy, request, next).await,
        Err(error) => Err(error),
    };
    let mut response = answered.unwrap_or_else(|error| (policy.render_error)(uri.path(), error));
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        let allow = response.headers().get(header::ALLOW).cloned();
        let error = HttpError::new(Code::MethodNotAllowed, "this path does not take that method");
        response = (policy.render_error)(uri.path(), error);
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    if let Ok(project) = HeaderValue::from_str(&app.about().project_id) {
        response.headers_mut().insert("x-rookery-project", project);
    }
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn check(app: &App, policy: GuardPolicy, request: &Request) -> Result<(), HttpError> {
    if request.uri().path_and_query().map_or(0, |uri| uri.as_str().len()) > app.limits().uri_bytes {
        return Err(HttpError::new(Code::TooLarge, "the address is too long").status(StatusCode::URI_TOO_LONG));
    }
    if request.extensions().get::<Via>() != Some(&Via::Socket) {
        check_host(app, policy, request)?;
    }
    let wanted = request.headers().get("x-rookery-project").map(HeaderValue::as_bytes);
    if wanted.is_some_and(|project| project != app.about().project_id.as_bytes()) {
        return Err(HttpError::new(
            Code::OtherProject,
            format!("this daemon serves project '{}'", app.about().project_id),
        )
        .hint("look up the address in the project's .rookery/daemon.json"));
    }
    check_query(policy, request)
}

/// Refuses a query parameter that the route does not take: ignored, a misspelt filter would return everything. A name that
/// begins with `_` passes, because clients add such ones against caches.
fn check_query(policy: GuardPolicy, request: &Request) -> Result<(), HttpError> {
    if request.uri().query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let Some(route) = request.extensions().get::<MatchedPath>() else { return Ok(()) };
    let Some(known) = (policy.query_parameters)(request.method(), route.as_str()) else { return Ok(()) };
    // A query that is none is refused by the handler, which says more.
    let Ok(Query(given)) = Query::<Vec<(String, String)>>::try_from_uri(request.uri()) else { return Ok(()) };
    let is_unknown = |name: &String| !name.is_empty() && !name.starts_with('_') && !known.contains(name);
    let Some(unknown) = given.into_iter().map(|(name, _)| name).find(is_unknown) else { return Ok(()) };
    let shown: String = unknown.chars().take(SHOWN_NAME_CHARS).collect();
    let hint = match known {
        [] => "this path takes no query parameters".to_owned(),
        known => format!("this path takes {}", known.join(", ")),
    };
    Err(HttpError::invalid(format!("unknown query parameter '{shown}'")).hint(hint).parameter(shown))
}

fn check_host(app: &App, policy: GuardPolicy, request: &Request) -> Result<(), HttpError> {
    let host = named_host(request);
    if !host.is_some_and(|host| is_ours(app, host)) {
        return Err(HttpError::new(Code::ForeignHost, "the Host header does not name this daemon")
            .hint("call it by its loopback address, or add the name to allowed_hosts"));
    }
    check_fetch_site(policy, request)?;
    let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
    let own = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        .is_some_and(|(scheme, authority)| matches!(scheme, "http" | "https") && Some(authority) == host);
    if own {
        return Ok(());
    }
    Err(foreign_origin())
}

fn foreign_origin() -> HttpError {
    HttpError::new(Code::ForeignOrigin, "requests from other origins are refused")
        .hint("open the daemon's own page, or call it from a program")
}

/// Refuses what a page of another origin makes a browser send, other ports of this host (`same-site`) included. Following
/// a link to a page of ours is allowed.
fn check_fetch_site(policy: GuardPolicy, request: &Request) -> Result<(), HttpError> {
    let text = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    let own = text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    let follows_link = request.method() == Method::GET
        && text("sec-fetch-mode") == Some("navigate")
        && text("sec-fetch-dest").is_none_or(|dest| dest == "document")
        && (policy.is_page)(request.uri().path());
    if own || follows_link { Ok(()) } else { Err(foreign_origin()) }
}

/// The one name that the request calls us by. Two names, or two that differ, are none.
fn named_host(request: &Request) -> Option<&str> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let asked = request.uri().authority().map(Authority::as_str);
    match (headers.next(), headers.next()) {
        (None, _) => asked,
        (Some(host), None) => {
            let host = host.to_str().ok()?;
            asked.is_none_or(|asked| asked.eq_ignore_ascii_case(host)).then_some(host)
        }
        (Some(_), Some(_)) => None,
    }
}

/// Loopback by any of its names, or a name the configuration allows.
fn is_ours(app: &App, host: &str) -> bool {
    let Some(name) = name_of(host) else { return false };
    let loopback = name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    loopback || app.about().allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&name))
}

/// The name in `name`, `name:port`, `[address]` or `[address]:port`, and in nothing else.
fn name_of(host: &str) -> Option<String> {
    let authority: Authority = host.parse().ok()?;
    let rest = host.strip_prefix(authority.host())?;
    let port = rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    port.then(|| authority.host().trim_start_matches('[').trim_end_matches(']').to_owned())
}

/// Gives the request one of its caller's places until the answer was sent, and a time limit unless it is a stream.
async fn bounded(app: &App, policy: GuardPolicy, request: Request, next: Next) -> Result<Response, HttpError> {
    let hangup = request.extensions().get::<Hangup>().cloned().unwrap_or_default();
    let streams = request.method() == Method::GET && request.uri().path().ends_with("/stream");
    let bounds = (policy.bounds)(request.uri().path());
    let (place, response) = match bounds {
        RequestBounds::Own => (None, next.run(request).await),
        _ if streams => {
            let place = take_place(app, &request)?;
            let response = next.run(request).await;
            // An open stream has its own place.
            drop(place);
            (None, response)
        }
        RequestBounds::Place => (Some(take_place(app, &request)?), next.run(request).await),
        RequestBounds::PlaceAndTime => (Some(take_place(app, &request)?), in_time(app, request, next).await?),
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response);
    }
    let timeout = WriteTimeout { clock: app.engine().clock().clone(), limit: app.limits().write_time };
    Ok(response_body::watched(response, place, hangup, timeout))
}

/// A place for a request under way. A credential that proves nothing is charged as none.
fn take_place(app: &App, request: &Request) -> Result<RequestPermit, HttpError> {
    let sender = Sender::of_request(request.method(), request.headers(), request.extensions()).ok();
    let caller = sender.and_then(|sender| sender.caller(app, None).ok());
    let account = caller.map_or(Account::Anonymous, |caller| Account::of(&caller));
    app.requests().take(account).map_err(Full::of_requests)
}

async fn in_time(app: &App, request: Request, next: Next) -> Result<Response, HttpError> {
    tokio::time::timeout(app.limits().request_time, next.run(request)).await.map_err(|_| {
        HttpError::new(Code::Timeout, "the request took too long")
            .hint("look whether it was done before you repeat it, or repeat it with the same Idempotency-Key")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_with_or_without_a_port() {
        for (host, name) in [
            ("localhost", Some("localhost")),
            ("127.0.0.1:4700", Some("127.0.0.1")),
            ("[::1]", Some("::1")),
            ("[::1]:4700", Some("::1")),
            ("[::1]evil", None),
            ("[::1].evil.example", None),
            ("evil@127.0.0.1", None),
            ("127.0.0.1:80:90", None),
            ("127.0.0.1:", None),
            ("127.0.0.1/x", None),
            ("", None),
        ] {
            assert_eq!(name_of(host).as_deref(), name, "{host}");
        }
    }

    #[test]
    fn methods_that_somebody_made_up_are_one_label() {
        assert_eq!((label(&Method::PATCH), label(&Method::from_bytes(b"DANCE").unwrap())), ("PATCH", "other"));
    }
}
