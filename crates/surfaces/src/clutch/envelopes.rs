//! Envelopes that come in, alone or many at once, and each by its id.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rookery_core::clutch::Shape;
use rookery_core::kernel::time::iso;
use rookery_core::{Code, MessageId, Rejection};
use rookery_engine::history::{Envelope, Located};
use rookery_engine::intake::{IngestError, Ingested};
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Call, Segment};
use super::openapi::{ClutchMessages, ShownMessage};
use super::{ClutchError, ClutchErrorBody};
use crate::http::{App, extract};

/// Says when the daemon received a message, beside the message as it was sent.
const RECEIVED_AT: HeaderName = HeaderName::from_static("x-received-at");

/// What became of each envelope, in the order they were sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct IngestResults {
    results: Vec<IngestResult>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct IngestResult {
    /// The message's id; that of the first one if the same command was sent before under another id.
    id: String,
    /// Its place in the log; null for a heartbeat, which is not kept.
    seq: Option<u64>,
    /// Whether the same was received before. Nothing was done again.
    duplicate: bool,
}

impl From<Vec<Ingested>> for IngestResults {
    fn from(ingested: Vec<Ingested>) -> IngestResults {
        IngestResults { results: ingested.into_iter().map(IngestResult::from).collect() }
    }
}

impl From<Ingested> for IngestResult {
    fn from(ingested: Ingested) -> IngestResult {
        let Ingested { id, seq, duplicate } = ingested;
        IngestResult { id: id.to_string(), seq: seq.map(|seq| seq.0), duplicate }
    }
}

/// Send an envelope, an array of them, or one on each line (`application/x-ndjson`). Either all are stored or none.
#[utoipa::path(post, path = "/clutch/v0/messages", tag = "clutch", operation_id = "clutch_send",
    request_body(content((ClutchMessages = "application/json"), (String = "application/x-ndjson")),
        description = "An envelope, an array of them, or one on each line"),
    responses((status = 202, body = IngestResults), (status = 400, body = ClutchErrorBody),
        (status = 422, body = ClutchErrorBody)))]
pub async fn ingest(State(app): State<App>, call: Call, request: Request) -> Result<Response, ClutchError> {
    let media = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let shape = media.and_then(Shape::of_content_type);
    let bytes = extract::read(request.into_body(), app.limits().body_bytes).await?;
    let shape = shape.ok_or_else(|| {
        let message = "the body must be sent as Content-Type: application/json or application/x-ndjson";
        ClutchError::new(Code::UnsupportedMediaType, message)
    })?;
    let ingested = app.engine().intake().ingest(&bytes, shape, |from| call.sending_as(from)).await?;
    Ok((StatusCode::ACCEPTED, Json(IngestResults::from(ingested))).into_response())
}

/// One message as it was sent. What was sent before the protocol's own words is shown in them, and facts of other faces by
/// the ids that they are listed with.
#[utoipa::path(get, path = "/clutch/v0/messages/{id}", tag = "clutch", operation_id = "clutch_message",
    params(("id" = String, Path)), responses((status = 200, body = ShownMessage), (status = 404, body = ClutchErrorBody)))]
pub async fn get(State(app): State<App>, call: Call, Segment(id): Segment) -> Result<Response, ClutchError> {
    call.reader().await?;
    let found = app.engine().query().envelope(&MessageId::from(id.as_str())).await?.value;
    let Some(Located { at, envelope, .. }) = found else {
        return Err(Rejection::new(Code::MessageNotFound, format!("there is no message '{id}'")).into());
    };
    let received = [(RECEIVED_AT, iso(at))];
    Ok(match envelope {
        Envelope::Verbatim(bytes) => (received, [(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Envelope::Shown(message) => (received, Json(message)).into_response(),
    })
}

impl From<IngestError> for ClutchError {
    fn from(error: IngestError) -> ClutchError {
        match error {
            IngestError::Faults(faults) => faults.into(),
            IngestError::Violations(violations) => violations.into(),
            IngestError::Refused { refusal, pointer } => ClutchError::from(refusal).detail("pointer", pointer),
            IngestError::RateLimited { refusal, wait_millis } => ClutchError::from(refusal)
                .retry_after(u32::try_from(wait_millis.div_ceil(1_000)).unwrap_or(u32::MAX))
                .detail("retry_after_ms", wait_millis),
            IngestError::Engine(error) => error.into(),
        }
    }
}
