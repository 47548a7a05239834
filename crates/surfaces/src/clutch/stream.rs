//! Messages as they come, by WebSocket: every message once, in order, resumable, and never a burden on anybody else.
//!
//! A live batch is rendered once for all connections. One that does not read holds up nothing but itself: it keeps the
//! batch that it is being sent, reads the log by its cursor when it comes back, and is cut off by the socket's write limit
//! if it does not. What it may ask for is in `frame`.

mod client;
mod frame;
mod source;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use rookery_core::model::addressee::Address;
use rookery_core::{AgentId, Caller, Code, Position};
use rookery_engine::message_view::MessageFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use super::call::{Call, Query};
use super::filter::{self, MessageFilterQuery};
use super::{ClutchError, ClutchErrorBody, inbox};
use crate::http::App;
use crate::http::limits::{Account, Full, RequestPermit};
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
    /// `1` for a page of the web UI, which cannot send headers here: the first frame is `{"op": "authenticate", "secret": …}`
    /// with its half of the browser session, and nothing is sent before `{"op": "authenticated"}`.
    pub authenticate: Option<String>,
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
    params(MessageFilterQuery, StreamQuery),
    responses((status = 101, description = "The connection is a WebSocket from here on."),
        (status = 410, body = ClutchErrorBody),
        (status = 426, body = ClutchErrorBody, description = "The request does not ask for a WebSocket.")))]
pub async fn stream(
    State(app): State<App>,
    call: Call,
    wanted: Query<MessageFilterQuery>,
    query: Query<StreamQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ClutchError> {
    let first_frame = flag("authenticate", query.0.authenticate.as_deref())?;
    let largest = app.limits().body_bytes;
    let opening = Opening::new(app, call, &wanted.0, query.0)?;
    if first_frame {
        let upgrade = match upgrade {
            Ok(upgrade) => upgrade.max_message_size(largest).max_frame_size(largest),
            Err(rejection) => return Ok(upgrade_required(&rejection)),
        };
        let place = take_place(&opening.app, &Caller::anonymous())?;
        return Ok(upgrade.on_upgrade(|socket| opening.authenticate(socket, place)));
    }
    let checked = opening.check().await?;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade.max_message_size(largest).max_frame_size(largest),
        Err(rejection) => return Ok(upgrade_required(&rejection)),
    };
    let client = checked.into_client()?;
    Ok(upgrade.on_upgrade(|socket| client.serve(socket)))
}

/// A stream that was asked for and not checked yet.
struct Opening {
    app: App,
    call: Call,
    filter: MessageFilter,
    framing: Framing,
    position: Option<Position>,
    inbox: Option<String>,
}

/// A stream that its caller may follow.
struct Checked {
    opening: Opening,
    caller: Caller,
    inbox: Option<AgentId>,
    source: Source,
}

impl Opening {
    fn new(app: App, call: Call, wanted: &MessageFilterQuery, query: StreamQuery) -> Result<Opening, ClutchError> {
        let framing = if flag("batch", query.batch.as_deref())? { Framing::Batch } else { Framing::Single };
        let position = query.after.as_deref().map(filter::position).transpose()?;
        Ok(Opening { app, call, filter: wanted.filter()?, framing, position, inbox: query.inbox })
    }

    async fn check(self) -> Result<Checked, ClutchError> {
        let caller = self.call.reader().await?;
        let inbox = streamed(&self.call, self.inbox.as_deref())?;
        let source = match &inbox {
            Some(agent) if self.filter.is_open() => {
                inbox::owner(&self.app, &self.call, agent).await?;
                Source::inbox(&self.app, agent, self.position.clone()).await?
            }
            Some(_) => return Err(ClutchError::parameter("inbox", "goes with no filter")),
            None => Source::open(&self.app, &self.filter, self.position.clone()).await?,
        };
        Ok(Checked { opening: self, caller, inbox, source })
    }

    /// Takes the page's half of a browser session from the first frame, and serves the stream if it proves a session.
    /// Until then it counts as a stream of a caller without a name.
    async fn authenticate(self, mut socket: WebSocket, unnamed: RequestPermit) {
        let first = tokio::time::timeout(self.app.limits().header_time, first_text(&mut socket)).await;
        let Ok(Some(half)) = first else {
            return client::refuse(&mut socket, &frame::not_authenticated()).await;
        };
        drop(unnamed);
        match self.proven(&half).await {
            Ok(client) => {
                if socket.send(frame::authenticated(&client.peer.caller.actor)).await.is_ok() {
                    client.serve(socket).await;
                }
            }
            Err(error) => client::refuse(&mut socket, &error).await,
        }
    }

    async fn proven(self, first_frame: &str) -> Result<Client, ClutchError> {
        let secret = frame::read_secret(first_frame)?;
        Opening { call: self.call.with_browser(secret), ..self }.check().await?.into_client()
    }
}

impl Checked {
    fn into_client(self) -> Result<Client, ClutchError> {
        let place = take_place(&self.opening.app, &self.caller)?;
        let Checked { opening: Opening { app, call, filter, framing, .. }, caller, inbox, source } = self;
        let peer = Peer { app, call, caller, inbox, framing, _place: place };
        Ok(Client { peer, followed: Followed { filter, source } })
    }
}

/// The first text that comes; control frames may come before it.
async fn first_text(socket: &mut WebSocket) -> Option<String> {
    loop {
        match socket.recv().await?.ok()? {
            Message::Text(text) => return Some(text.to_string()),
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Binary(_) | Message::Close(_) => return None,
        }
    }
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

fn flag(name: &str, value: Option<&str>) -> Result<bool, ClutchError> {
    match value {
        None | Some("0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(_) => Err(ClutchError::parameter(name, "must be 0 or 1")),
    }
}

fn upgrade_required(rejection: &WebSocketUpgradeRejection) -> Response {
    let error = ClutchError::new(Code::UpgradeRequired, rejection.body_text());
    let mut response = error.hint("open it with a WebSocket client, or read /clutch/v0/messages").into_response();
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}

/// A place for a stream of a caller.
pub(super) fn take_place(app: &App, caller: &Caller) -> Result<RequestPermit, ClutchError> {
    Ok(app.streams().take(Account::of(caller)).map_err(Full::of_streams)?)
}
