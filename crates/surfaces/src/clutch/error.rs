//! What went wrong in the protocol's own form: a code, a sentence, whether trying again may help, and details.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rookery_core::Refusal;
use rookery_core::clutch::{FaultCode, Faults};
use rookery_engine::EngineError;
use serde_json::json;

use super::wire::ErrorBody;
use crate::rest::RestError;

#[derive(Clone, Debug)]
pub struct ClutchError {
    status: StatusCode,
    body: Box<ErrorBody>,
    retry_after: Option<u32>,
}

impl ClutchError {
    /// What is wrong with a field of what was sent.
    pub fn invalid(pointer: &str, message: impl Into<String>) -> ClutchError {
        let details = [("pointer".to_owned(), json!(pointer))].into_iter().collect();
        let code = FaultCode::InvalidField.as_str().to_owned();
        let body = ErrorBody { code, message: message.into(), retryable: false, details };
        ClutchError { status: StatusCode::BAD_REQUEST, body: Box::new(body), retry_after: None }
    }
}

/// One table from what can go wrong to statuses and codes serves every face over HTTP.
impl From<RestError> for ClutchError {
    fn from(error: RestError) -> ClutchError {
        let (status, body, retry_after) = error.into_parts();
        let retryable = matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let details = body.hint.into_iter().map(|hint| ("hint".to_owned(), json!(hint))).collect();
        let body = ErrorBody { code: body.code, message: body.error, retryable, details };
        ClutchError { status, body: Box::new(body), retry_after }
    }
}

/// Every fault is told; the first one gives the code.
impl From<Faults> for ClutchError {
    fn from(faults: Faults) -> ClutchError {
        let first = faults.first();
        let code = first.map_or("INVALID_FIELD", |fault| fault.code.as_str());
        let details = json!({
            "pointer": first.map_or("", |fault| fault.pointer.as_str()),
            "faults": faults.iter().collect::<Vec<_>>(),
            "left_out": faults.left_out(),
        });
        let details = details.as_object().cloned().unwrap_or_default();
        let body = ErrorBody { code: code.to_owned(), message: faults.to_string(), retryable: false, details };
        ClutchError { status: StatusCode::BAD_REQUEST, body: Box::new(body), retry_after: None }
    }
}

impl From<Refusal> for ClutchError {
    fn from(refusal: Refusal) -> ClutchError {
        RestError::from(refusal).into()
    }
}

impl From<EngineError> for ClutchError {
    fn from(error: EngineError) -> ClutchError {
        RestError::from(error).into()
    }
}

impl IntoResponse for ClutchError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(*self.body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
