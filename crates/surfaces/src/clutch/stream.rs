//! Messages as they come, by WebSocket: every message once, in order, resumable, and never a burden on anybody else.
//!
//! A live batch is rendered once for all connections. One that does not read holds up nothing but itself: it keeps the
//! batch that it is being sent, reads the log by its cursor when it comes back, and is cut off by the socket's write limit
//! if it does not. What it may ask for is in `frame`.

mod client;
mod frame;
mod source;

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rookery_core::AgentId;
use rookery_core::clutch::Address;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;

use super::call::{Call, Query};
use super::filter::{self, Wanted};
use super::{ClutchError, ClutchErrorBody, inbox};
use crate::app::App;
use client::{Client, Framing, Peer};
use source::{Followed, Source};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StreamQuery {
    /// Begin after this place, a seq or `log-id:seq`: what was comes first, then what is. Left out, it begins now.
    pub after: Option<String>,
    /// `1` for frames that are arrays of `{seq, message}`, as many as there are at a time.
    pub batch: Option<String>,
    /// An agent, or `1` for the one that connects: all that waits for it and is not acknowledged, then what comes for it, and
    /// nothing else. Goes with no filter. It ends with 1008 when the agent leaves, or may not be looked into any more.
    pub inbox: Option<String>,
}

/// Follow messages by WebSocket. Frames are text: `{seq, message}`, or arrays of those with `batch=1`.
///
/// The client may send `{"op": "subscribe", …}` with any of the filters and `after`, which replaces what the connection
/// follows from `after` on, or from where it is (an inbox: from now), and is answered by `{"op": "subscribed", "after": seq}`; `{"op": "publish", "message": …}` with an envelope
/// or an array of them, which does what `POST /clutch/v0/messages` does and is answered by `{"op": "published", "results"}`;
/// and `{"op": "ack", "ids": […]}`, with `agent_id` if it is not clear whose, which acknowledges messages and is answered by
/// `{"op": "acked", "ids": […]}`. What cannot be done is answered by a frame
/// `{"type": "error", "code", "message", "retryable", "details"}`. Answers come in the order of what was asked. To resume,
/// connect with the last seq as `after`.
#[utoipa::path(get, path = "/clutch/v0/stream", tag = "clutch", operation_id = "clutch_stream",
    params(Wanted, StreamQuery),
    responses((status = 101, description = "The connection is a WebSocket from here on."),
        (status = 410, body = ClutchErrorBody),
        (status = 426, body = ClutchErrorBody, description = "The request does not ask for a WebSocket.")))]
pub async fn stream(
    State(app): State<App>,
    call: Call,
    wanted: Query<Wanted>,
    query: Query<StreamQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ClutchError> {
    let caller = call.reader().await?;
    let filter = wanted.0.filter()?;
    let framing = framing(query.0.batch.as_deref())?;
    let position = query.0.after.as_deref().map(filter::position).transpose()?;
    let inbox = streamed(&call, query.0.inbox.as_deref())?;
    let source = match &inbox {
        Some(agent) if filter.is_open() => {
            inbox::owner(&app, &call, agent).await?;
            Source::inbox(&app, agent, position).await?
        }
        Some(_) => return Err(ClutchError::parameter("inbox", "goes with no filter")),
        None => Source::open(&app, &filter, position).await?,
    };
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => return Ok(upgrade_required(&rejection)),
    };
    let permit = permit(&app)?;
    let largest = app.limits().body_bytes;
    let peer = Peer { app, call, caller, inbox, framing, _permit: permit };
    let client = Client { peer, followed: Followed { filter, source } };
    Ok(upgrade.max_message_size(largest).max_frame_size(largest).on_upgrade(|socket| client.serve(socket)))
}

/// The agent whose inbox is streamed.
fn streamed(call: &Call, text: Option<&str>) -> Result<Option<AgentId>, ClutchError> {
    let named = match text {
        None | Some("0" | "false") => return Ok(None),
        Some("1" | "true") => call.itself()?,
        Some(text) => match Address::parse(text) {
            Some(Address::Agent(agent)) => Some(agent),
            _ => None,
        },
    };
    let wrong = || ClutchError::parameter("inbox", "must name an agent, or be 1 if the connection says whose it is");
    named.map(Some).ok_or_else(wrong)
}

fn framing(batch: Option<&str>) -> Result<Framing, ClutchError> {
    match batch {
        None | Some("0" | "false") => Ok(Framing::Single),
        Some("1" | "true") => Ok(Framing::Batch),
        Some(_) => Err(ClutchError::parameter("batch", "must be 0 or 1")),
    }
}

fn upgrade_required(rejection: &WebSocketUpgradeRejection) -> Response {
    let error = ClutchError::new(StatusCode::UPGRADE_REQUIRED, "UPGRADE_REQUIRED", rejection.body_text());
    let mut response = error.hint("open it with a WebSocket client, or read /clutch/v0/messages").into_response();
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}

/// A place among those who follow.
pub(super) fn permit(app: &App) -> Result<OwnedSemaphorePermit, ClutchError> {
    Arc::clone(app.subscriptions()).try_acquire_owned().map_err(|_| {
        let message = "no more streams can be opened here";
        ClutchError::new(StatusCode::SERVICE_UNAVAILABLE, "TOO_MANY_SUBSCRIBERS", message).retry_after(5)
    })
}
