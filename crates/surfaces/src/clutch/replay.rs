//! The messages of a run once more: by pages, or as a stream that lets as much time pass between them as passed then.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use rookery_core::{Seq, Timestamp};
use rookery_engine::history::Stretch;
use rookery_engine::message_view::{MessageFilter, PositionedMessage};
use serde::Deserialize;
use utoipa::IntoParams;

use super::call::{Call, Query, Segment};
use super::messages::{self, Messages, PageQuery, PlacedMessage};
use super::{ClutchError, ClutchErrorBody, filter, stream};
use crate::http::limits::RequestPermit;
use crate::http::{App, answer};

/// However long nothing happened then, nobody waits longer for the next message.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// How many messages are read at once.
const AHEAD: u32 = 200;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SpeedQuery {
    /// Streams all messages as lines of JSON (`application/x-ndjson`), with the pauses that were between them divided by
    /// this; none is longer than five seconds. `limit` is not looked at then.
    pub speed: Option<String>,
}

/// The messages of a run in order: a page of them, or with `speed` a stream of all.
#[utoipa::path(get, path = "/clutch/v0/runs/{id}/replay", tag = "clutch", operation_id = "clutch_replay",
    params(("id" = String, Path), PageQuery, SpeedQuery),
    responses((status = 200, content((Messages = "application/json"), (PlacedMessage = "application/x-ndjson")),
            description = "A page, or with `speed` one message on each line"),
        (status = 404, body = ClutchErrorBody), (status = 410, body = ClutchErrorBody)))]
pub async fn replay(
    State(app): State<App>,
    call: Call,
    Segment(id): Segment,
    page: Query<PageQuery>,
    speed: Query<SpeedQuery>,
) -> Result<Response, ClutchError> {
    let caller = call.reader().await?;
    let run = filter::run(&id)?;
    app.engine().runs().ensure_exists(&run).await?;
    let filter = MessageFilter { run: Some(run), ..MessageFilter::default() };
    let stretch = messages::stretch(&app, &page.0).await?;
    let Some(speed) = &speed.0.speed else {
        return Ok(answer::at(app.engine().history().messages(&filter, stretch).await?.map(Messages::from)));
    };
    let speed = factor(speed)?;
    let place = stream::take_place(&app, &caller)?;
    let head = app.engine().query().tallies().await?.head;
    let replay = Replay {
        filter,
        next: Some(Stretch { upto: Some(head.head), limit: AHEAD, ..stretch }),
        read: Vec::new().into_iter(),
        shown: None,
        owed: 0.0,
        speed,
        call,
        app,
        _place: place,
    };
    let mut response = Response::new(Body::from_stream(futures_util::stream::unfold(replay, Replay::line)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn factor(text: &str) -> Result<f64, ClutchError> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err(ClutchError::parameter("speed", "must be a number above 0: 1 is the time it took, 10 a tenth of it")),
    }
}

struct Replay {
    app: App,
    call: Call,
    filter: MessageFilter,
    /// What is still to be read.
    next: Option<Stretch>,
    read: std::vec::IntoIter<PositionedMessage>,
    /// When the last message happened that was sent.
    shown: Option<Timestamp>,
    /// Milliseconds that are to pass and have not yet: timers do not wait for less than one.
    owed: f64,
    speed: f64,
    _place: RequestPermit,
}

/// A line, or why the stream ends before its end.
type Line = Result<Bytes, std::io::Error>;

impl Replay {
    async fn line(mut self) -> Option<(Line, Replay)> {
        let message = match self.message().await {
            Ok(message) => message?,
            Err(error) => {
                self.next = None;
                return Some((Err(std::io::Error::other(error.body().message.clone())), self));
            }
        };
        if !self.pause(message.at).await || !self.call.is_still_allowed() {
            return None;
        }
        let mut line = serde_json::to_vec(&message).unwrap_or_default();
        line.push(b'\n');
        Some((Ok(line.into()), self))
    }

    async fn message(&mut self) -> Result<Option<PositionedMessage>, ClutchError> {
        loop {
            if let Some(message) = self.read.next() {
                return Ok(Some(message));
            }
            let Some(stretch) = self.next.take() else { return Ok(None) };
            let page = self.app.engine().history().messages(&self.filter, stretch).await?.value;
            self.next = page.next.map(|after: Seq| Stretch { after, ..stretch });
            self.read = page.messages.into_iter();
        }
    }

    /// Waits as long as nothing happened then; false if the daemon stops.
    async fn pause(&mut self, at: Timestamp) -> bool {
        let gap = self.shown.map_or(0, |shown| (at.0 - shown.0).max(0));
        self.shown = Some(at);
        self.owed += (gap as f64 / self.speed).min(MAX_BACKOFF.as_millis() as f64);
        if self.owed < 1.0 {
            return !self.app.stopping().is_cancelled();
        }
        let pause = Duration::from_millis(std::mem::take(&mut self.owed) as u64);
        tokio::select! {
            () = self.app.stopping().cancelled() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }
}
