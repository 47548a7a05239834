//! The map from what can go wrong to HTTP: a status, a stable code, a sentence and a hint.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rookery_core::{Code, Refusal};
use rookery_engine::{EngineError, SubscribeError};
use rookery_store::{ReadError, SubmitError};

use super::wire::ErrorBody;

#[derive(Clone, Debug)]
pub struct RestError {
    status: StatusCode,
    body: Box<ErrorBody>,
    retry_after: Option<u32>,
    /// The field that a refusal is about, for faces that tell it.
    pointer: Option<String>,
}

impl RestError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> RestError {
        let body = ErrorBody { error: message.into(), code: code.to_owned(), hint: None, snapshot: None };
        RestError { status, body: Box::new(body), retry_after: None, pointer: None }
    }

    pub fn invalid(message: impl Into<String>) -> RestError {
        RestError::from(Refusal::new(Code::Invalid, message))
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> RestError {
        self.body.hint = Some(hint.into());
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
    pub fn retry_after(mut self, seconds: u32) -> RestError {
        self.retry_after = Some(seconds);
        self
    }
}

/// The one table from the core's codes to statuses.
fn status(code: Code) -> StatusCode {
    match code {
        Code::Invalid
        | Code::TooLarge
        | Code::UnknownReference
        | Code::UnknownRecipient
        | Code::DependencyCycle
        | Code::DuplicateTaskName
        | Code::SelfDependency
        | Code::UnknownDependency
        | Code::MissingOutcome
        | Code::MissingError
        | Code::MissingVariables
        | Code::WorkflowMismatch
        | Code::MissingMergeCommit
        | Code::MissingRepoPath
        | Code::MissingPath => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::NotHolder | Code::Sealed | Code::Forbidden => StatusCode::FORBIDDEN,
        Code::BadSignature | Code::UnknownKey | Code::SignatureRequired => StatusCode::FORBIDDEN,
        Code::AgentNotFound
        | Code::TaskNotFound
        | Code::HandoffNotFound
        | Code::ResourceNotFound
        | Code::EventNotFound
        | Code::TokenNotFound
        | Code::WorkflowNotFound
        | Code::TemplateNotFound => StatusCode::NOT_FOUND,
        Code::MessageNotFound
        | Code::DocumentNotFound
        | Code::WorkspaceNotFound
        | Code::SchemaNotFound
        | Code::GroupNotFound
        | Code::TeamNotFound
        | Code::TurnNotFound => StatusCode::NOT_FOUND,
        Code::Exists
        | Code::AgentOffline
        | Code::AgentPaused
        | Code::InvalidTransition
        | Code::DependenciesUnfinished
        | Code::AlreadyClaimed
        | Code::Reserved
        | Code::NotEligible
        | Code::StaleFence
        | Code::Locked
        | Code::NotConflicted
        | Code::AlreadyAnswered
        | Code::Stale
        | Code::InvalidState
        | Code::NameConflict
        | Code::TaskNotRemovable
        | Code::NotClaimed
        | Code::DuplicateTemplate => StatusCode::CONFLICT,
        Code::NotShown
        | Code::StaleVersion
        | Code::ContextDisabled
        | Code::MergeConflict
        | Code::GitFailed
        | Code::Conflict => StatusCode::CONFLICT,
        Code::SiteOffline => StatusCode::SERVICE_UNAVAILABLE,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::IdempotencyMismatch | Code::SchemaViolation => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

impl From<Refusal> for RestError {
    fn from(refusal: Refusal) -> RestError {
        let error = RestError::new(status(refusal.code), refusal.code.as_str(), refusal.message);
        let body = Box::new(ErrorBody { hint: refusal.hint, ..*error.body });
        RestError { body, pointer: refusal.pointer, ..error }
    }
}

impl From<SubmitError> for RestError {
    fn from(error: SubmitError) -> RestError {
        let message = error.to_string();
        match error {
            SubmitError::Refused(refusal) | SubmitError::RefusedOne { refusal, .. } => refusal.into(),
            SubmitError::Busy => RestError::new(StatusCode::SERVICE_UNAVAILABLE, "BUSY", message)
                .hint("nothing was done; try again in a moment")
                .retry_after(1),
            SubmitError::Unavailable { .. } => {
                RestError::new(StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", message)
                    .hint("nothing was done; reading goes on, and writing resumes when the cause is gone")
                    .retry_after(1)
            }
            SubmitError::OutcomeUnknown { .. } => {
                RestError::new(StatusCode::SERVICE_UNAVAILABLE, "OUTCOME_UNKNOWN", message)
                    .hint("look whether it was done before you repeat it, or repeat it with the same Idempotency-Key")
            }
            SubmitError::Broken { .. } => {
                tracing::error!(error = %message, "a command broke its batch");
                RestError::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
            }
            SubmitError::Stopped => RestError::new(StatusCode::SERVICE_UNAVAILABLE, "STOPPING", message).retry_after(2),
        }
    }
}

impl From<ReadError> for RestError {
    fn from(error: ReadError) -> RestError {
        let message = error.to_string();
        match error {
            ReadError::Unavailable { .. } => {
                RestError::new(StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", message).retry_after(1)
            }
            ReadError::Corrupt { .. } => {
                tracing::error!(error = %message, "the store holds something unreadable");
                RestError::new(StatusCode::INTERNAL_SERVER_ERROR, "STORE_CORRUPT", message).hint("run 'rookery doctor'")
            }
        }
    }
}

impl From<EngineError> for RestError {
    fn from(error: EngineError) -> RestError {
        match error {
            EngineError::Submit(error) => error.into(),
            EngineError::Read(error) => error.into(),
            EngineError::Artifact(error) => RestError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "STORE_UNAVAILABLE",
                format!("the request could not be kept: {error}"),
            )
            .retry_after(1),
        }
    }
}

impl From<SubscribeError> for RestError {
    fn from(error: SubscribeError) -> RestError {
        let message = error.to_string();
        match error {
            SubscribeError::Gone { .. } => {
                let mut gone = RestError::new(StatusCode::GONE, "POSITION_GONE", message)
                    .hint("take a snapshot from /state and go on from its X-Rookery-Seq");
                gone.body.snapshot = Some("/state".to_owned());
                gone
            }
            SubscribeError::Read(error) => error.into(),
            SubscribeError::Stopped => SubmitError::Stopped.into(),
        }
    }
}

impl IntoResponse for RestError {
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
