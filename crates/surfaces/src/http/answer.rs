//! Successful answers: a body with the position of the log that it is true at.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rookery_core::model::task::Task;
use rookery_core::{Code, Rejection};
use rookery_engine::{At, Committed, LogHead};
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

/// Names the position in the headers.
pub fn placed(mut response: Response, head: &LogHead) -> Response {
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
pub fn written<R, T: Serialize>(status: StatusCode, committed: &Committed<R>, body: T) -> Response {
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().insert("x-rookery-seq", HeaderValue::from(committed.at.0));
    if committed.duplicate {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}

/// The answer to a write that replies with a task: the fence of its claim goes with it.
pub fn written_task<T: Serialize>(status: StatusCode, committed: &Committed<Task>, body: T) -> Response {
    let mut response = written(status, committed, body);
    if let Some(claim) = &committed.reply.claim {
        response.headers_mut().insert("x-fence", HeaderValue::from(claim.fence.0));
    }
    response
}
