//! What the router would do with a request, without doing it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use rookery_core::clutch::draft_terms;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::call::Call;
use super::openapi::TaskDraft;
use super::{ClutchError, ClutchErrorBody};
use crate::http::App;
use crate::http::extract;

/// Whom the router would choose, and why. Agents are named as `agent:ID`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// Left out if nobody fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selected: Option<String>,
    /// Who passes every filter, the best first.
    candidates: Vec<String>,
    /// How many these are.
    eligible: u64,
    reason: String,
    /// From 0 to 1, by candidate.
    scores: BTreeMap<String, f64>,
    /// Why not, by agent.
    rejected: BTreeMap<String, String>,
    /// How many were rejected, by filter.
    rejected_counts: BTreeMap<String, u64>,
}

/// A dry run of a routing decision for a draft of a `task.request`: whom it would be given to now, and why nobody else, by
/// name. Fields that do not matter for that can be left out. Nothing is stored.
#[utoipa::path(post, path = "/clutch/v0/router/explain", tag = "clutch", operation_id = "clutch_explain",
    request_body(content = TaskDraft, description = "A `task.request`, or as much of one as there is"),
    responses((status = 200, body = Explained), (status = 400, body = ClutchErrorBody)))]
pub async fn explain(State(app): State<App>, call: Call, request: Request) -> Result<Response, ClutchError> {
    call.reader().await?;
    let bytes = extract::read(request.into_body(), app.limits().body_bytes).await?;
    let choice = app.engine().router().explain(draft_terms(&bytes)?).await?;
    Ok(Json(choice.payload()).into_response())
}
