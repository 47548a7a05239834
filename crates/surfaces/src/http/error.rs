//! Errors over HTTP: a status, a stable code, a sentence and a hint. Other surfaces render the same error in their own form.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rookery_core::{Code, CodeClass, Rejection};
use rookery_engine::{EngineError, ReadError, SubmitError, SubscribeError};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    pub error: String,
    /// Stable; programs can rely on it.
    pub code: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
    /// Where to begin again, if the position asked for is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
}

/// The facts behind an error.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct ErrorDetails {
    /// The agent that has the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The query parameter that the path does not take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

#[derive(Clone, Debug)]
pub struct HttpError {
    code: Code,
    status: StatusCode,
    body: Box<ErrorBody>,
    retry_after: Option<u32>,
    /// The field that a refusal is about, for faces that tell it.
    pointer: Option<String>,
}

impl HttpError {
    pub fn new(code: Code, message: impl Into<String>) -> HttpError {
        let text = code.as_str().to_owned();
        let body = ErrorBody { error: message.into(), code: text, hint: None, details: None, snapshot: None };
        HttpError { code, status: status_of(code), body: Box::new(body), retry_after: None, pointer: None }
    }

    /// Another status than the usual one, from [`FURTHER_STATUSES`].
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> HttpError {
        debug_assert!(is_status_of(self.code, status), "{} is no status of {:?}", status, self.code);
        self.status = status;
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    pub fn invalid(message: impl Into<String>) -> HttpError {
        HttpError::from(Rejection::new(Code::Invalid, message))
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> HttpError {
        self.body.hint = Some(hint.into());
        self
    }

    /// Names the query parameter that the error is about.
    #[must_use]
    pub(crate) fn parameter(mut self, name: impl Into<String>) -> HttpError {
        self.body.details = Some(ErrorDetails { parameter: Some(name.into()), ..ErrorDetails::default() });
        self
    }

    /// Status and body, for a face that tells them in its own form.
    pub(crate) fn into_parts(self) -> (StatusCode, ErrorBody) {
        (self.status, *self.body)
    }

    pub(crate) fn seconds_until_retry(&self) -> Option<u32> {
        self.retry_after
    }

    pub(crate) fn pointer(&self) -> Option<&str> {
        self.pointer.as_deref()
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> HttpError {
        self.retry_after = Some(seconds);
        self
    }
}

/// The usual status of a code.
pub fn status_of(code: Code) -> StatusCode {
    match code {
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::Timeout => StatusCode::REQUEST_TIMEOUT,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
        Code::OtherProject => StatusCode::MISDIRECTED_REQUEST,
        Code::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
        other => status_of_class(other.class()),
    }
}

fn status_of_class(class: CodeClass) -> StatusCode {
    match class {
        CodeClass::Invalid => StatusCode::BAD_REQUEST,
        CodeClass::Unauthenticated => StatusCode::UNAUTHORIZED,
        CodeClass::Forbidden => StatusCode::FORBIDDEN,
        CodeClass::NotFound => StatusCode::NOT_FOUND,
        CodeClass::Conflict => StatusCode::CONFLICT,
        CodeClass::Gone => StatusCode::GONE,
        CodeClass::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
        CodeClass::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        CodeClass::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        CodeClass::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Statuses that a code has besides its usual one: for the body and the address as a whole, and where all callers
/// together use a limit up.
pub const FURTHER_STATUSES: &[(Code, StatusCode)] = &[
    (Code::TooLarge, StatusCode::PAYLOAD_TOO_LARGE),
    (Code::TooLarge, StatusCode::URI_TOO_LONG),
    (Code::TooManyDownloads, StatusCode::SERVICE_UNAVAILABLE),
    (Code::TooManyRequests, StatusCode::SERVICE_UNAVAILABLE),
    (Code::TooManySubscribers, StatusCode::SERVICE_UNAVAILABLE),
];

pub(crate) fn is_status_of(code: Code, status: StatusCode) -> bool {
    status == status_of(code) || FURTHER_STATUSES.contains(&(code, status))
}

impl From<Rejection> for HttpError {
    fn from(refusal: Rejection) -> HttpError {
        let error = HttpError::new(refusal.code, refusal.message);
        let details =
            refusal.holder.map(|holder| ErrorDetails { holder: Some(holder.to_string()), ..ErrorDetails::default() });
        let body = Box::new(ErrorBody { hint: refusal.hint, details, ..*error.body });
        HttpError { body, pointer: refusal.pointer, ..error }
    }
}

impl From<SubmitError> for HttpError {
    fn from(error: SubmitError) -> HttpError {
        let message = error.to_string();
        match error {
            SubmitError::Refused(refusal) | SubmitError::RefusedOne { refusal, .. } => refusal.into(),
            SubmitError::Busy => {
                HttpError::new(Code::Busy, message).hint("nothing was done; try again in a moment").retry_after(1)
            }
            SubmitError::Unavailable { .. } => HttpError::new(Code::StoreUnavailable, message)
                .hint("nothing was done; reads continue, and `rookery doctor` says when writes resume")
                .retry_after(1),
            SubmitError::OutcomeUnknown { .. } => HttpError::new(Code::OutcomeUnknown, message)
                .hint("look whether it was done before you repeat it, or repeat it with the same Idempotency-Key"),
            SubmitError::Broken { .. } => {
                tracing::error!(error = %message, "a command broke its batch");
                HttpError::new(Code::Internal, message)
            }
            SubmitError::Stopped => HttpError::new(Code::Stopping, message).retry_after(2),
        }
    }
}

impl From<ReadError> for HttpError {
    fn from(error: ReadError) -> HttpError {
        let message = error.to_string();
        match error {
            ReadError::Unavailable { .. } => HttpError::new(Code::StoreUnavailable, message).retry_after(1),
            ReadError::Corrupt { .. } => {
                tracing::error!(error = %message, "the store holds something unreadable");
                HttpError::new(Code::StoreCorrupt, message).hint("run 'rookery doctor'")
            }
        }
    }
}

impl From<EngineError> for HttpError {
    fn from(error: EngineError) -> HttpError {
        match error {
            EngineError::Submit(error) => error.into(),
            EngineError::Read(error) => error.into(),
            EngineError::Artifact(error) => {
                HttpError::new(Code::StoreUnavailable, format!("the request could not be kept: {error}")).retry_after(1)
            }
        }
    }
}

impl From<SubscribeError> for HttpError {
    fn from(error: SubscribeError) -> HttpError {
        let message = error.to_string();
        match error {
            SubscribeError::Gone { .. } => {
                let mut gone = HttpError::new(Code::PositionGone, message)
                    .hint("take a snapshot from /state and go on from its X-Rookery-Seq");
                gone.body.snapshot = Some("/state".to_owned());
                gone
            }
            SubscribeError::Read(error) => error.into(),
            SubscribeError::Stopped => SubmitError::Stopped.into(),
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        refusal(self.status, *self.body, self.retry_after)
    }
}

/// A refusal as every face over HTTP sends it: with when to come back, and which credential is missing.
pub(crate) fn refusal(status: StatusCode, body: impl serde::Serialize, retry_after: Option<u32>) -> Response {
    let mut response = (status, Json(body)).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
