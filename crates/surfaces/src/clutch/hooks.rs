//! Webhooks: what other programs POST in forms of their own. The configuration says what envelope it becomes.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rookery_core::Code;
use rookery_core::clutch::Shape;
use rookery_core::kernel::parse::FaultCode;
use rookery_engine::adapters::{Adapter, Gap, InboundError, Raw, SignatureError};
use rookery_engine::intake::IngestError;
use serde::Serialize;
use utoipa::ToSchema;

use super::call::Segment;
use super::envelopes::IngestResults;
use super::{ClutchError, ClutchErrorBody};
use crate::http::{App, extract};

/// A request that the hook is not meant for.
#[derive(Debug, Serialize, ToSchema)]
pub struct Ignored {
    ignored: bool,
    /// What would have to be otherwise.
    reason: String,
}

/// Deliver to a webhook that the configuration names. The request is signed with the hook's secret: `X-Rookery-Signature`, or
/// GitHub's `X-Hub-Signature-256`. What is delivered again is done once.
#[utoipa::path(post, path = "/hooks/{name}", tag = "clutch", operation_id = "clutch_hook",
    params(("name" = String, Path)), request_body(content = Object, description = "JSON of any form"),
    responses((status = 202, body = IngestResults), (status = 200, body = Ignored),
              (status = 403, body = ClutchErrorBody), (status = 404, body = ClutchErrorBody)))]
pub async fn receive(
    State(app): State<App>,
    Segment(name): Segment,
    request: Request,
) -> Result<Response, ClutchError> {
    let Some(hook) = app.engine().config().hooks.iter().find(|hook| hook.name == name) else {
        return Err(ClutchError::new(Code::HookNotFound, "there is no hook of this name")
            .hint("name it in rookery.toml as [adapters.http.NAME], and start the daemon anew"));
    };
    let headers = request.headers().clone();
    let body = extract::json_bytes(request, &app).await?;
    let header = |name: &str| text(&headers, name);
    let now = app.engine().clock().now();
    let envelopes = match hook.inbound(Raw { body: &body, header: &header, at: now }).await {
        // A fault of a single one is told without a place among others.
        Ok(envelopes) => match envelopes.as_slice() {
            [single] => serde_json::to_vec(single),
            several => serde_json::to_vec(several),
        }
        .unwrap_or_default(),
        Err(InboundError::NotMeant(reason)) => return Ok(Json(Ignored { ignored: true, reason }).into_response()),
        Err(InboundError::Signature(error)) => {
            metrics::counter!("rookery_hooks_refused_total", "hook" => hook.name.clone()).increment(1);
            return Err(error.into());
        }
        Err(InboundError::Gap(gap)) => return Err(gap.into()),
        Err(error @ InboundError::Json(_)) => {
            return Err(ClutchError::fault(FaultCode::MalformedJson, error.to_string()));
        }
    };
    let ingested =
        app.engine().intake().ingest(&envelopes, Shape::Json, |_| Ok(hook.caller())).await.map_err(refused)?;
    Ok((StatusCode::ACCEPTED, Json(IngestResults::from(ingested))).into_response())
}

/// The same body was taken before, and this is not its sender trying again: that one would be told so.
fn refused(error: IngestError) -> ClutchError {
    match &error {
        IngestError::Refused { refusal, pointer } if refusal.code == Code::AlreadyExists && pointer == "/id" => {
            ClutchError::new(Code::Replayed, "this was delivered before as another delivery").hint(
                "a new event needs a new body or a new time; send one that is tried again with its first delivery id",
            )
        }
        _ => error.into(),
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

impl From<SignatureError> for ClutchError {
    fn from(error: SignatureError) -> ClutchError {
        let code = match error {
            SignatureError::Missing(_) => Code::SignatureRequired,
            SignatureError::Malformed(..) | SignatureError::Wrong(_) => Code::BadSignature,
            SignatureError::Old => Code::StaleSignature,
        };
        let hint = match error {
            SignatureError::Old => "sign anew with the time of now, and look whether both clocks are right",
            _ => "sign the body as it is sent with the secret that the hook's configuration names",
        };
        ClutchError::new(code, error.to_string()).hint(hint)
    }
}

impl From<Gap> for ClutchError {
    fn from(gap: Gap) -> ClutchError {
        ClutchError::fault(FaultCode::MissingField, gap.to_string())
            .detail("pointer", gap.at)
            .detail("field", gap.field)
            .hint("the hook's table in rookery.toml says where each field is")
    }
}
