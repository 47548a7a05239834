//! The map from what can go wrong to this protocol's errors: a code, a sentence, whether another try may help, and details.
//!
//! Codes and statuses are those of the plain HTTP face, whose table names every code of the core.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rookery_core::clutch::Faults;
use rookery_core::kernel::parse::FaultCode;
use rookery_core::model::violation::Violations;
use rookery_core::{Code, Rejection, RetryAdvice};
use rookery_engine::{ArtifactError, EngineError, SubmitError, SubscribeError};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::http::error::{HttpError, refusal, status_of};

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClutchErrorBody {
    /// Stable; programs can rely on it.
    pub code: String,
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What belongs to the code; `hint` says what to do next.
    pub details: Map<String, Value>,
}

#[derive(Clone, Debug)]
pub struct ClutchError {
    status: StatusCode,
    body: Box<ClutchErrorBody>,
    retry_after: Option<u32>,
}

impl ClutchError {
    pub fn new(code: Code, message: impl Into<String>) -> ClutchError {
        let body = ClutchErrorBody {
            code: code.as_str().to_owned(),
            message: message.into(),
            retryable: code.retry() == RetryAdvice::Later,
            details: Map::new(),
        };
        ClutchError { status: status_of(code), body: Box::new(body), retry_after: None }
    }

    /// A message that does not have the form of the protocol.
    pub fn fault(code: FaultCode, message: impl Into<String>) -> ClutchError {
        let mut error = ClutchError::new(Code::Invalid, message);
        error.body.code = code.as_str().to_owned();
        error
    }

    /// Another status than the usual one, from [`crate::http::error::FURTHER_STATUSES`].
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> ClutchError {
        self.status = status;
        self
    }

    /// What is wrong with a field of what was sent.
    pub fn invalid(pointer: &str, message: impl Into<String>) -> ClutchError {
        ClutchError::fault(FaultCode::InvalidField, message).detail("pointer", pointer)
    }

    /// What is wrong with a parameter of the address, or a field of a frame.
    pub fn parameter(name: &str, message: impl Into<String>) -> ClutchError {
        ClutchError::from(Rejection::new(Code::Invalid, format!("{name} {}", message.into()))).detail("parameter", name)
    }

    /// What it tells, for those who are told otherwise than by a response.
    pub fn body(&self) -> &ClutchErrorBody {
        &self.body
    }

    /// Whether it is about what was asked, not about what cannot be done just now.
    pub fn is_refusal(&self) -> bool {
        self.status.is_client_error()
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> ClutchError {
        self.retry_after = Some(seconds);
        self
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> ClutchError {
        self.detail("hint", hint.into())
    }

    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> ClutchError {
        self.body.details.insert(name.to_owned(), value.into());
        self
    }
}

/// Every fault is told; the first one gives the code.
impl From<Faults> for ClutchError {
    fn from(faults: Faults) -> ClutchError {
        let code = faults.first().map_or(FaultCode::InvalidField, |fault| fault.code);
        let pointer = faults.first().map_or("", |fault| fault.pointer.as_str());
        let all: Vec<Value> = faults.iter().map(|fault| json!(fault)).collect();
        ClutchError::fault(code, faults.to_string())
            .detail("pointer", pointer)
            .detail("faults", all)
            .detail("omitted", faults.left_out())
    }
}

/// A message that is not what its step of a workflow expects: every place is told.
impl From<Violations> for ClutchError {
    fn from(violations: Violations) -> ClutchError {
        let pointer = violations.iter().next().map_or("", |violation| violation.pointer.as_str());
        let all: Vec<Value> = violations.iter().map(|violation| json!(violation)).collect();
        ClutchError::new(Code::SchemaViolation, violations.to_string())
            .detail("pointer", pointer)
            .detail("violations", all)
            .detail("omitted", violations.left_out())
            .hint("the step is still open: correct these places and send it again")
    }
}

impl From<HttpError> for ClutchError {
    fn from(error: HttpError) -> ClutchError {
        let retry_after = error.seconds_until_retry();
        let pointer = error.pointer().map(str::to_owned);
        let code = error.code();
        let (status, body) = error.into_parts();
        let mut made = ClutchError::new(code, body.error).status(status);
        if let Some(hint) = body.hint {
            made = made.hint(hint);
        }
        if let Some(pointer) = pointer {
            made = made.detail("pointer", pointer);
        }
        let details = body.details.unwrap_or_default();
        for (name, value) in [("holder", details.holder), ("parameter", details.parameter)] {
            if let Some(value) = value {
                made = made.detail(name, value);
            }
        }
        ClutchError { retry_after, ..made }
    }
}

impl From<Rejection> for ClutchError {
    fn from(refusal: Rejection) -> ClutchError {
        let pointer = refusal.pointer.clone();
        let error = ClutchError::from(HttpError::from(refusal));
        match pointer {
            Some(pointer) => error.detail("pointer", pointer),
            None => error,
        }
    }
}

impl From<EngineError> for ClutchError {
    fn from(error: EngineError) -> ClutchError {
        match error {
            EngineError::Artifact(error) => error.into(),
            EngineError::Submit(SubmitError::Refused(refusal)) => refusal.into(),
            error => HttpError::from(error).into(),
        }
    }
}

impl From<SubscribeError> for ClutchError {
    fn from(error: SubscribeError) -> ClutchError {
        HttpError::from(error).into()
    }
}

impl From<ArtifactError> for ClutchError {
    fn from(error: ArtifactError) -> ClutchError {
        let message = error.to_string();
        match error {
            ArtifactError::Absent { .. } => ClutchError::new(Code::ArtifactNotFound, message)
                .hint("it was never uploaded here, or nothing named it for long and it was removed; upload it"),
            ArtifactError::Damaged { sha256 } => {
                tracing::error!(sha256, "an artifact is damaged");
                ClutchError::new(Code::ArtifactDamaged, message)
                    .hint("upload the same content again to mend it, or restore a backup")
            }
            ArtifactError::Unavailable { .. } => {
                tracing::warn!(error = message, "artifacts cannot be used");
                let error = ClutchError::new(Code::StoreUnavailable, message);
                ClutchError { retry_after: Some(1), ..error }
            }
        }
    }
}

impl IntoResponse for ClutchError {
    fn into_response(self) -> Response {
        refusal(self.status, *self.body, self.retry_after)
    }
}
