//! Trying a part of a run again.

use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::tasks::ReopenTask;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::call::{Call, Json, Segment};
use super::{ClutchError, ClutchErrorBody, filter};
use crate::http::answer;

/// Which part.
#[derive(Debug, Deserialize, ToSchema)]
pub struct RetryRequest {
    /// The task to begin with: one of the run that has ended.
    task_id: String,
}

/// The task as it is open again.
#[derive(Debug, Serialize, ToSchema)]
pub struct Retried {
    run_id: String,
    task_id: String,
    state: &'static str,
    attempt: u32,
}

/// Have a task that has ended begin anew, with its subtasks and all that depends on it. The run goes on.
#[utoipa::path(post, path = "/clutch/v0/runs/{id}/retry", tag = "clutch", operation_id = "clutch_retry",
    params(("id" = String, Path)), request_body = RetryRequest,
    responses((status = 200, body = Retried), (status = 409, body = ClutchErrorBody)))]
pub async fn retry(call: Call, Segment(id): Segment, Json(body): Json) -> Result<Response, ClutchError> {
    let run = filter::run(&id)?;
    let asked: RetryRequest = serde_json::from_slice(&body)
        .map_err(|error| ClutchError::invalid("/task_id", format!("expected {{\"task_id\": …}}: {error}")))?;
    let command = ReopenTask { run, task: filter::task("/task_id", &asked.task_id)? };
    let committed = call.submit(call.anybody()?, command, &body).await?;
    let task = &committed.reply;
    let (run_id, task_id) = (task.run.to_string(), task.id.to_string());
    let retried = Retried { run_id, task_id, state: task.state.as_str(), attempt: task.attempt };
    Ok(answer::written_task(StatusCode::OK, &committed, retried))
}
