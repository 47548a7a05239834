//! Where every message stands with each of its recipients, and trying again what was given up on.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::kernel::time::iso;
use rookery_core::messages::RetryDelivery;
use rookery_core::model::addressee::Address;
use rookery_core::{Code, Rejection, Seq, Timestamp};
use rookery_engine::messages::{DeliveryFilter, DeliveryId, DeliveryPage, DeliveryState, DeliveryStatus};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::call::{Call, Query, Segment};
use super::{ClutchError, ClutchErrorBody, filter};
use crate::http::App;
use crate::http::answer;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeliveriesQuery {
    /// `pending`, `notified`, `acked`, `dead` or `superseded`; all of them if left out.
    pub state: Option<String>,
    /// Only those to this agent.
    pub agent_id: Option<String>,
    /// Only those that were queued after this place: what an earlier page had as `next`.
    pub after: Option<String>,
    /// 100 if left out, at most 1000.
    pub limit: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Deliveries {
    /// In the order in which they were queued.
    deliveries: Vec<DeliveryView>,
    /// What to send as `after` for the next page; null if there is no more.
    next: Option<u64>,
}

/// A message and one of its recipients.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeliveryView {
    id: String,
    message_id: String,
    #[schema(examples("agent:ken"))]
    agent_id: String,
    /// `pending`, `notified`, `acked` or `dead`; `superseded` if the offer that it made was withdrawn.
    state: &'static str,
    task_id: Option<String>,
    /// The place in the log at which it was queued.
    seq: u64,
    queued_at: String,
    age_ms: i64,
    /// How often it was handed over or posted, as far as this node knows; for a dead one, until it was given up on.
    attempts: u32,
    last_error: Option<String>,
    /// When it is posted again.
    next_at: Option<String>,
    /// The endpoint failed so often that nothing is posted to it before this; then one message tries it.
    endpoint_rests_until: Option<String>,
    acked_at: Option<String>,
    /// When it was given up on.
    dead_at: Option<String>,
    /// When what it asks for became somebody else's or nobody's.
    superseded_at: Option<String>,
}

fn shown(status: DeliveryStatus, now: Timestamp) -> DeliveryView {
    let DeliveryStatus { id, delivery, state, handing, spared_until } = status;
    let handing = handing.unwrap_or_default();
    let (attempts, last_error) = match &delivery.dead {
        Some(dead) => (dead.attempts, Some(dead.error.clone())),
        None => (handing.attempts, handing.error),
    };
    DeliveryView {
        id: id.to_string(),
        message_id: delivery.message.to_string(),
        agent_id: format!("agent:{}", delivery.agent),
        state: state.as_str(),
        task_id: delivery.task.as_ref().map(ToString::to_string),
        seq: delivery.sent.0,
        queued_at: iso(delivery.queued_at),
        age_ms: now.0.saturating_sub(delivery.queued_at.0).max(0),
        attempts,
        last_error,
        next_at: handing.next_at.filter(|_| delivery.dead.is_none()).max(spared_until).map(iso),
        endpoint_rests_until: spared_until.map(iso),
        acked_at: delivery.acked_at.map(iso),
        superseded_at: delivery.superseded_at.map(iso),
        dead_at: delivery.dead.map(|dead| iso(dead.at)),
    }
}

/// Where messages stand with their recipients, oldest first. One to everybody is listed once its recipient was shown it.
#[utoipa::path(get, path = "/clutch/v0/deliveries", tag = "clutch", operation_id = "clutch_deliveries",
    params(DeliveriesQuery), responses((status = 200, body = Deliveries), (status = 400, body = ClutchErrorBody),
        (status = 410, body = ClutchErrorBody)))]
pub async fn list(
    State(app): State<App>,
    call: Call,
    query: Query<DeliveriesQuery>,
) -> Result<Json<Deliveries>, ClutchError> {
    call.reader().await?;
    let DeliveryPage { deliveries, next } =
        app.engine().inbox().list_deliveries(&wanted(&app, &query.0).await?).await?;
    let now = app.engine().clock().now();
    let deliveries = deliveries.into_iter().map(|status| shown(status, now)).collect();
    Ok(Json(Deliveries { deliveries, next: next.map(|seq| seq.0) }))
}

async fn wanted(app: &App, query: &DeliveriesQuery) -> Result<DeliveryFilter, ClutchError> {
    let state = query.state.as_deref().map(|text| {
        DeliveryState::parse(text)
            .ok_or_else(|| ClutchError::parameter("state", "must be pending, notified, acked, dead or superseded"))
    });
    let agent = query.agent_id.as_deref().map(|text| match Address::parse(text) {
        Some(Address::Agent(id)) => Ok(id),
        _ => Err(ClutchError::parameter("agent_id", "must be an agent with or without 'agent:'")),
    });
    let after = match &query.after {
        Some(text) => filter::place(app, text).await?,
        None => Seq::ZERO,
    };
    Ok(DeliveryFilter {
        state: state.transpose()?,
        agent: agent.transpose()?,
        after,
        most: Some(filter::page(query.limit.as_deref())?),
    })
}

/// Try a delivery again that was given up on: by its recipient, the lead or a person.
#[utoipa::path(post, path = "/clutch/v0/deliveries/{id}/retry", tag = "clutch", operation_id = "clutch_delivery_retry",
    params(("id" = String, Path)),
    responses((status = 200, body = DeliveryView), (status = 404, body = ClutchErrorBody),
        (status = 409, body = ClutchErrorBody)))]
pub async fn retry(State(app): State<App>, call: Call, Segment(text): Segment) -> Result<Response, ClutchError> {
    let Some(DeliveryId { message, agent }) = DeliveryId::parse(&text) else {
        let message = format!("there is no delivery '{text}'");
        return Err(Rejection::new(Code::MessageNotFound, message).hint("ids are as they are listed").into());
    };
    let caller = call.caller(&agent)?;
    let committed = call.submit(caller, RetryDelivery { message, agent }, &Bytes::new()).await?;
    let (delivery, committed) = committed.into_parts();
    let view = shown(app.engine().inbox().delivery_status(delivery), app.engine().clock().now());
    Ok(answer::written(StatusCode::OK, &committed, view))
}
