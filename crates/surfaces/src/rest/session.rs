//! Whom a browser acts as: nobody until a person signs in by a launch address, which the command line prints.
//!
//! The code is in the part of the address that browsers send to nobody; the page posts it here. What it gets is a cookie that
//! no script can read and no other site can send.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rookery_core::{Actor, Code, Refusal, limit};
use rookery_engine::ambient;
use rookery_engine::launch::COOKIE_MILLIS;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RestError;
use super::call::{self, Call, JsonBody, MaybeBody};
use super::wire::Done;
use crate::app::App;
use crate::sender::cookie_name;

/// Whom calls of this browser act as.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionInfo {
    /// The person's name; null if this browser can only look.
    pub person: Option<String>,
    pub project: String,
    pub project_id: String,
    pub version: String,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct SignIn {
    /// The code of a launch address.
    #[schema(required = true)]
    pub code: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct NewLaunch {
    /// Whom it signs in; the caller if left out.
    pub person: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Launch {
    /// To be opened in a browser, once and within 15 minutes; relative to the daemon's address.
    pub path: String,
    pub person: String,
}

/// Whom this browser acts as.
#[utoipa::path(get, path = "/session", tag = "session", responses((status = 200, body = SessionInfo)))]
pub async fn get(State(app): State<App>, call: Call) -> Result<Json<SessionInfo>, RestError> {
    let person = match call.reader().await?.actor {
        Actor::Person(name) => Some(name),
        _ => None,
    };
    Ok(Json(SessionInfo {
        person,
        project: app.engine().settings().project.clone(),
        project_id: app.about().project_id.clone(),
        version: app.about().version.to_owned(),
    }))
}

/// Sign in with the code of a launch address. The answer sets the cookie that this browser acts by.
#[utoipa::path(post, path = "/session", tag = "session", request_body = SignIn,
    responses((status = 200, body = Done), (status = 401, body = super::wire::ErrorBody)))]
pub async fn sign_in(State(app): State<App>, body: JsonBody<SignIn>) -> Result<Response, RestError> {
    let [code] = call::need("code is required", [&body.value.code])?;
    let engine = app.engine();
    let Some(cookie) = engine.access().sign_in(&code, engine.clock().now()) else {
        let refusal = Refusal::new(Code::Unauthenticated, "this launch address was used already, or is too old");
        return Err(refusal.hint("'rookery open' prints a new one").into());
    };
    Ok(with_cookie(&app, &cookie, COOKIE_MILLIS / 1_000))
}

/// Sign out: this browser can only look from here on.
#[utoipa::path(delete, path = "/session", tag = "session", responses((status = 200, body = Done)))]
pub async fn sign_out(State(app): State<App>) -> Response {
    with_cookie(&app, "", 0)
}

/// Make a launch address, for a person.
#[utoipa::path(post, path = "/session/launch", tag = "session", request_body = NewLaunch,
    responses((status = 201, body = Launch)))]
pub async fn launch(call: Call, body: MaybeBody<NewLaunch>) -> Result<Response, RestError> {
    let caller = call.person()?;
    let person = match body.value.person {
        Some(name) => checked(name)?,
        None => match caller.actor {
            Actor::Person(name) => name,
            other => return Err(RestError::invalid(format!("'{other}' is no person: say whom it signs in"))),
        },
    };
    let path = launch_path(call.app(), &person);
    Ok((StatusCode::CREATED, Json(Launch { path, person })).into_response())
}

/// A new launch address for a person, relative to the daemon's own.
pub fn launch_path(app: &App, person: &str) -> String {
    let engine = app.engine();
    let code = ambient::secret();
    engine.access().launches().give_out(&code, person, engine.clock().now());
    format!("/ui/launch#{code}")
}

/// A name that `@` reaches: people are mentioned as agents are.
fn checked(name: String) -> Result<String, RestError> {
    let name = name.trim_start_matches("person:").to_owned();
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !fits || name.len() > limit::NAME_BYTES {
        return Err(RestError::invalid("person must be a letter and then letters, digits, '_' and '-'"));
    }
    Ok(name)
}

fn with_cookie(app: &App, value: &str, seconds: u64) -> Response {
    let cookie = format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict", cookie_name(app));
    let mut response = Json(Done { ok: true }).into_response();
    match HeaderValue::from_str(&cookie) {
        Ok(cookie) => {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            response
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
