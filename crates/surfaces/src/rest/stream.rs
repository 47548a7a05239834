//! The event stream (SSE): every event once, in order, resumable, and never a burden on anybody else.
//!
//! A stream is pulled by its connection: a client that does not read holds up nothing but itself. When it comes back after
//! too long it is told so and resumes by its last id; one that never reads is cut off by the socket's write limit.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use rookery_core::model::LifeSource;
use rookery_core::traits::LogRow;
use rookery_core::{Caller, LogId};
use rookery_engine::{Chunk, Slot, Subscription};

use super::event_names::EventFilter;
use super::events::{self, event_filter};
use super::{translate, wire};
use crate::http::App;
use crate::http::HttpError;
use crate::http::extract::{Call, Query};
use crate::http::limits::{Account, Full, RequestPermit};

/// Follow what happens. `Last-Event-ID` or `after` resumes without a gap or a repeat.
#[utoipa::path(get, path = "/events/stream", tag = "events", params(wire::StreamQuery),
    responses((status = 200, body = String, content_type = "text/event-stream"),
        (status = 410, body = crate::http::error::ErrorBody)))]
pub async fn stream(
    State(app): State<App>,
    call: Call,
    headers: HeaderMap,
    query: Query<wire::StreamQuery>,
) -> Result<Response, HttpError> {
    let caller = call.reader().await?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
    let position = match last.or(query.0.after.as_deref()) {
        None => None,
        Some(text) => Some(events::place(text).ok_or_else(|| HttpError::invalid("Last-Event-ID must be a position"))?),
    };
    let place = app.streams().take(Account::of(&caller)).map_err(Full::of_streams)?;
    let subscription = app.engine().subscribe(position).await?;
    let log = subscription.position().log.unwrap_or_else(|| LogId::from(""));
    let stream = Stream {
        filter: Filter::new(&app, &query.0)?,
        sign_every: sign_every(&app),
        app,
        call,
        subscription,
        log,
        caller,
        handed_out: None,
        ended: false,
        _place: place,
    };
    let mut response = Response::new(Body::from_stream(futures_util::stream::unfold(stream, Stream::next)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive"));
    Ok(response)
}

/// How often an open connection counts as a sign of life: well within the silence that is allowed.
fn sign_every(app: &App) -> Duration {
    app.limits().keep_alive.min(app.engine().settings().connection_offline_after / 3)
}

struct Stream {
    app: App,
    call: Call,
    sign_every: Duration,
    subscription: Subscription,
    log: LogId,
    filter: Filter,
    /// Whose open connection this is.
    caller: Caller,
    /// When the last frame was handed to the connection, on the monotonic clock.
    handed_out: Option<u64>,
    ended: bool,
    _place: RequestPermit,
}

type Frame = Result<Bytes, std::convert::Infallible>;

impl Stream {
    async fn next(mut self) -> Option<(Frame, Stream)> {
        if self.ended {
            return None;
        }
        let frame = match self.handed_out {
            None => Bytes::from_static(b": connected\n\n"),
            Some(since) if self.waited_since(since) => {
                self.ended = true;
                Bytes::from_static(b": you read too slowly; resume from the last id\n\n")
            }
            Some(_) => self.frame().await?,
        };
        self.handed_out = Some(self.app.engine().clock().monotonic());
        Some((Ok(frame), self))
    }

    /// The connection took longer to accept a frame than a client may take to read.
    fn waited_since(&self, handed_out: u64) -> bool {
        let limit = u64::try_from(self.app.limits().write_time.as_millis()).unwrap_or(u64::MAX);
        self.app.engine().clock().monotonic().saturating_sub(handed_out) > limit
    }

    async fn frame(&mut self) -> Option<Bytes> {
        let stopping = self.app.stopping().clone();
        // One deadline for the whole wait: what the filter keeps back is no sign of life.
        let silence = tokio::time::sleep(self.app.limits().keep_alive);
        tokio::pin!(silence);
        loop {
            if let Some(agent) = self.caller.actor.agent() {
                // Bound to a credential meanwhile: a stream that was opened on a word ends.
                self.app.engine().liveness().record_presence(&self.caller, agent, LifeSource::Connection).ok()?;
            }
            let chunk = tokio::select! {
                () = stopping.cancelled() => return None,
                () = &mut silence => {
                    return self.call.is_still_allowed().then(|| Bytes::from_static(b": keep-alive\n\n"));
                }
                () = tokio::time::sleep(self.sign_every) => continue,
                chunk = self.subscription.next() => chunk.ok()?,
            };
            if !self.call.is_still_allowed() {
                return None;
            }
            let bytes = self.render(&chunk);
            if !bytes.is_empty() {
                return Some(bytes);
            }
        }
    }

    /// A whole live batch is rendered once for everybody; filters and catching up render their own.
    fn render(&self, chunk: &Chunk) -> Bytes {
        match chunk {
            Chunk::Live(batch) if self.filter.is_open() => {
                let shared: Arc<[u8]> = batch.rendered(Slot::Rest, |rows| frames(&self.log, rows.iter()));
                Bytes::from_owner(shared)
            }
            chunk => frames(&self.log, chunk.rows().iter().filter(|row| self.filter.passes(row))).into(),
        }
    }
}

fn frames<'a>(log: &LogId, rows: impl Iterator<Item = &'a LogRow>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in rows {
        bytes.extend_from_slice(format!("id: {log}:{}\ndata: ", row.seq).as_bytes());
        // An event is plain data: writing it to memory cannot fail.
        drop(serde_json::to_writer(&mut bytes, &translate::event(row)));
        bytes.extend_from_slice(b"\n\n");
    }
    bytes
}

struct Filter {
    agent: Option<String>,
    named: Option<EventFilter>,
    path: Option<String>,
    run: Option<String>,
}

impl Filter {
    fn new(app: &App, query: &wire::StreamQuery) -> Result<Filter, HttpError> {
        let path = match &query.resource {
            Some(raw) => Some(app.engine().paths().parse(raw)?.key().to_owned()),
            None => None,
        };
        let named = query.action.as_deref().map(event_filter).transpose()?;
        Ok(Filter { agent: query.agent_id.clone(), named, path, run: query.run.clone() })
    }

    fn is_open(&self) -> bool {
        self.agent.is_none() && self.named.is_none() && self.path.is_none() && self.run.is_none()
    }

    fn passes(&self, row: &LogRow) -> bool {
        self.agent.as_ref().is_none_or(|agent| row.concerns() == *agent)
            && self.named.as_ref().is_none_or(|named| named.passes(&row.event))
            && self.path.as_ref().is_none_or(|path| row.event.path().is_some_and(|known| known.key() == path))
            && self.run.as_ref().is_none_or(|run| row.run.as_ref().map_or("run_default", |run| run.as_str()) == run)
    }
}
