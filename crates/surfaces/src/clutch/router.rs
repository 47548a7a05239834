//! What the router would do with a request, without doing it.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use rookery_core::clutch::draft_terms;

use super::call::Call;
use super::{ClutchError, ClutchErrorBody};
use crate::app::App;
use crate::rest;

/// A dry run of a routing decision for a draft of a `task.request`: whom it would be given to now, and why nobody else, by
/// name. Fields that do not matter for that can be left out. Nothing is stored.
#[utoipa::path(post, path = "/clutch/v0/router/explain", tag = "clutch", operation_id = "clutch_explain",
    request_body(content = Object, description = "A `task.request`, or as much of one as there is"),
    responses((status = 200, body = Object), (status = 400, body = ClutchErrorBody)))]
pub async fn explain(State(app): State<App>, call: Call, request: Request) -> Result<Response, ClutchError> {
    call.reader().await?;
    let bytes = rest::read(request.into_body(), app.limits().body_bytes).await?;
    let choice = app.engine().explain(draft_terms(&bytes)?).await?;
    Ok(Json(choice.payload()).into_response())
}
