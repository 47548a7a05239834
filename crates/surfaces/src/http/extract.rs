//! A request as every handler needs it: the caller, the body as received, and one way to submit.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use rookery_core::{Actor, Caller, Code, Command, CommandReply, Rejection};
use rookery_engine::{Committed, Request as EngineRequest, Token};
use serde::de::DeserializeOwned;

use super::error::HttpError;
use super::identity::Sender;
use super::state::App;

/// How much of a body that is too long is still taken, and for how long.
const DRAINED_BYTES: usize = 64 << 20;
const DRAINING: Duration = Duration::from_secs(5);

/// A request, and what it says about its sender.
#[derive(Debug)]
pub struct Call {
    app: App,
    sender: Sender,
    /// Method and path: with the body, what tells one request from another.
    target: String,
}

impl FromRequestParts<App> for Call {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Call, HttpError> {
        let target = format!("{} {}", parts.method, parts.uri.path());
        Ok(Call {
            app: app.clone(),
            sender: Sender::of_request(&parts.method, &parts.headers, &parts.extensions)?,
            target,
        })
    }
}

impl Call {
    pub fn app(&self) -> &App {
        &self.app
    }

    /// The caller of a request that names `argument` as the agent it is about.
    pub fn caller(&self, argument: Option<&str>) -> Result<Caller, HttpError> {
        Ok(self.sender.caller(&self.app, argument)?)
    }

    /// The caller of a message that says who sends it.
    pub fn sending_as(&self, from: &Actor) -> Result<Caller, Rejection> {
        self.sender.sending_as(&self.app, from)
    }

    /// Whoever reads must be allowed to, and shows a sign of life by it.
    pub async fn reader(&self) -> Result<Caller, HttpError> {
        let caller = self.caller(None)?;
        self.app.engine().liveness().touch(&caller).await?;
        Ok(caller)
    }

    /// Whether the token that a long answer began with is still valid.
    pub fn is_still_allowed(&self) -> bool {
        !self.sender.has_credential() || self.caller(None).is_ok()
    }

    /// The browser session that the request proves.
    pub fn browser_session(&self) -> Option<Token> {
        let engine = self.app.engine();
        engine.access().session_of(self.sender.session_halves(&self.app)?, engine.clock().now())
    }

    /// Adds the half of a browser session that came in the first frame of a WebSocket.
    pub fn with_browser(self, half: String) -> Call {
        Call { sender: self.sender.with_browser(half), ..self }
    }

    /// A person with a credential.
    pub fn person(&self) -> Result<Caller, HttpError> {
        let caller = self.caller(None)?;
        if caller.power != rookery_core::Authority::Person {
            return Err(HttpError::new(Code::Forbidden, "only a person may do this")
                .hint("use the command line, or send a person's token"));
        }
        Ok(caller)
    }

    pub async fn submit<C: Command>(
        &self,
        caller: Caller,
        command: C,
        body: &Bytes,
    ) -> Result<Committed<C::Reply>, HttpError> {
        self.submit_request(EngineRequest::new(caller, command), body).await
    }

    /// Submits a request with the key and the body of the call.
    pub async fn submit_request<R: CommandReply>(
        &self,
        request: EngineRequest<R>,
        body: &Bytes,
    ) -> Result<Committed<R>, HttpError> {
        let idempotency = self.sender.idempotency(|| format!("{}\n{}", self.target, String::from_utf8_lossy(body)));
        let request = request.with_idempotency(idempotency).with_body(body.to_vec());
        Ok(self.app.engine().submit(request).await?)
    }
}

/// A JSON body: parsed, and as it was received.
#[derive(Debug)]
pub struct JsonBody<T> {
    pub value: T,
    pub bytes: Bytes,
}

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, app: &App) -> Result<JsonBody<T>, HttpError> {
        let bytes = json_bytes(request, app).await?;
        Ok(JsonBody { value: parse(&bytes)?, bytes })
    }
}

/// A body that says it is JSON, as it was received.
pub async fn json_bytes(request: Request, app: &App) -> Result<Bytes, HttpError> {
    let json = is_json(request.headers());
    let bytes = read(request.into_body(), app.limits().body_bytes).await?;
    if !json {
        return Err(HttpError::new(
            Code::UnsupportedMediaType,
            "the body must be sent as Content-Type: application/json",
        ));
    }
    Ok(bytes)
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub struct MaybeBody<T> {
    pub value: T,
    pub bytes: Bytes,
}

impl<T: DeserializeOwned + Default> FromRequest<App> for MaybeBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, app: &App) -> Result<MaybeBody<T>, HttpError> {
        let json = is_json(request.headers());
        let bytes = read(request.into_body(), app.limits().body_bytes).await?;
        if bytes.is_empty() {
            return Ok(MaybeBody { value: T::default(), bytes });
        }
        if !json {
            return Err(HttpError::new(
                Code::UnsupportedMediaType,
                "a body must be sent as Content-Type: application/json",
            ));
        }
        Ok(MaybeBody { value: parse(&bytes)?, bytes })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// A body as far as the limit allows.
pub async fn read(mut body: Body, limit: usize) -> Result<Bytes, HttpError> {
    match Limited::new(&mut body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if is_too_long(&*error) => {
            drain(body).await;
            Err(HttpError::new(Code::TooLarge, format!("the body is larger than {limit} bytes"))
                .status(StatusCode::PAYLOAD_TOO_LARGE)
                .hint("nothing was done: shorten it, or put the long part into a file and name that"))
        }
        Err(error) => Err(HttpError::invalid(format!("the body could not be read: {error}"))),
    }
}

/// Takes what is left of a body that is too long and forgets it, within reason: whoever still sends would not hear our answer
/// if the connection was closed meanwhile, and could not tell what happened.
pub async fn drain(mut body: Body) {
    let all = async {
        let mut left = DRAINED_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    drop(tokio::time::timeout(DRAINING, all).await);
}

fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = source {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, HttpError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." | "?" => HttpError::invalid(format!("the body is not what is expected: {}", error.inner())),
            path => HttpError::invalid(format!("field '{path}': {}", error.inner())),
        }
    })?;
    reader.end().map_err(|error| HttpError::invalid(format!("the body is not one JSON value: {error}")))?;
    Ok(value)
}

/// Query parameters, with an error that names the one that is wrong.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Query<T>, HttpError> {
        match axum::extract::Query::<T>::from_request_parts(parts, app).await {
            Ok(query) => Ok(Query(query.0)),
            Err(error) => Err(HttpError::invalid(format!("the query is not what is expected: {}", error.body_text()))),
        }
    }
}

/// A part of the path; what cannot be read is answered as every other wrong input is.
#[derive(Debug)]
pub struct Segment(pub String);

impl FromRequestParts<App> for Segment {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Segment, HttpError> {
        match axum::extract::Path::<String>::from_request_parts(parts, app).await {
            Ok(path) => Ok(Segment(path.0)),
            Err(error) => Err(HttpError::invalid(format!("the address cannot be read: {}", error.body_text()))),
        }
    }
}

/// Two parts of the path, as [`Segment`] is one.
#[derive(Debug)]
pub struct Segments(pub String, pub String);

impl FromRequestParts<App> for Segments {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Segments, HttpError> {
        match axum::extract::Path::<(String, String)>::from_request_parts(parts, app).await {
            Ok(axum::extract::Path((first, second))) => Ok(Segments(first, second)),
            Err(error) => Err(HttpError::invalid(format!("the address cannot be read: {}", error.body_text()))),
        }
    }
}

/// How many of something are asked for at most: none is no question.
pub fn at_least_one(limit: Option<u32>) -> Result<Option<u32>, HttpError> {
    if limit == Some(0) {
        return Err(HttpError::invalid("limit must be at least 1"));
    }
    Ok(limit)
}

/// The values of required fields, or the contract's message that they are required.
pub fn need<const N: usize>(message: &str, fields: [&Option<String>; N]) -> Result<[String; N], HttpError> {
    let given = fields.map(|field| field.clone().unwrap_or_default());
    if given.iter().any(String::is_empty) {
        return Err(HttpError::invalid(message));
    }
    Ok(given)
}
