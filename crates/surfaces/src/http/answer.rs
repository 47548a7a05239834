//! Successful answers: a body with the position of the log that it is true at.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rookery_core::{Code, Rejection, Row};
use rookery_engine::{AnyReply, At, Committed, Head};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::HttpError;

/// The body of an answer that has nothing else to say.
#[derive(Debug, Serialize, ToSchema)]
pub struct Done {
    pub ok: bool,
}

/// An answer, with the position it is true at.
pub fn at<T: Serialize>(found: At<T>) -> Response {
    placed(Json(found.value).into_response(), &found.head)
}

fn placed(mut response: Response, head: &Head) -> Response {
    response.headers_mut().insert("x-rookery-seq", HeaderValue::from(head.head.0));
    if let Ok(log) = HeaderValue::from_str(head.log.as_str()) {
        response.headers_mut().insert("x-rookery-log", log);
    }
    response
}

/// The one thing that was asked for, or that there is none.
pub fn at_or<T: Serialize>(found: At<Option<T>>, code: Code, message: &str) -> Response {
    at_or_else(found, Rejection::new(code, message))
}

pub fn at_or_else<T: Serialize>(found: At<Option<T>>, missing: Rejection) -> Response {
    match found.value {
        Some(value) => at(At { value, head: found.head }),
        None => placed(HttpError::from(missing).into_response(), &found.head),
    }
}

/// The answer to a write, with the position it is true at.
pub fn written<T: Serialize>(status: StatusCode, committed: &Committed, body: T) -> Response {
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().insert("x-rookery-seq", HeaderValue::from(committed.at.0));
    if committed.duplicate {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    if let AnyReply::Row(_, row) = &committed.answer
        && let Row::Task(task) = &row.0
        && let Some(claim) = &task.claim
    {
        response.headers_mut().insert("x-fence", HeaderValue::from(claim.fence.0));
    }
    response
}

/// The row that a command answered with.
pub fn row_of(committed: &Committed) -> Option<Row> {
    match &committed.answer {
        AnyReply::Row(_, row) => Some(row.0.clone()),
        _ => None,
    }
}

pub fn unexpected(committed: &Committed) -> HttpError {
    tracing::error!(answer = ?committed.answer, "a command gave another answer than its handler expects");
    HttpError::new(Code::Internal, "the answer was not the expected one")
}
