//! The body of a response while it is being sent.
//!
//! It holds the place of its request until the last of it was handed to the connection, hands out frames so small that
//! little is buffered for a client that does not read, and gives up a connection that takes nothing for too long. HTTP/2
//! needs this: there a stalled stream does not stall its connection, whose own limit therefore never strikes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use rookery_engine::Clock;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::limits::RequestPermit;

/// The largest frame. A body that fits into one needs no watching.
const FRAME_BYTES: usize = 32 * 1024;

/// Ends the connection that a request came by.
#[derive(Clone, Debug, Default)]
pub struct Hangup(pub CancellationToken);

/// Where the time comes from, and how long a client may leave a frame unread.
#[derive(Clone, Debug)]
pub struct WriteTimeout {
    pub clock: Arc<dyn Clock>,
    pub limit: Duration,
}

/// Watches a response until it was sent; its place is freed then.
pub fn watched(response: Response, place: Option<RequestPermit>, hangup: Hangup, timeout: WriteTimeout) -> Response {
    let size = response.body().size_hint().exact();
    if size.is_some_and(|size| size <= FRAME_BYTES as u64) {
        return response;
    }
    let done = CancellationToken::new();
    let clock = timeout.clock.clone();
    // A connection without room for a single byte does not even ask for the first frame.
    let handed_out = Arc::new(AtomicU64::new(now(&*clock)));
    tokio::spawn(watch(handed_out.clone(), done.clone(), hangup, timeout));
    response.map(|inner| {
        Body::new(Sent { inner, rest: Bytes::new(), clock, handed_out, _place: place, _done: done.drop_guard() })
    })
}

/// No frame is at the connection: it asks for the next one.
const WAITING: u64 = 0;

/// The time in milliseconds, which is never [`WAITING`].
fn now(clock: &dyn Clock) -> u64 {
    clock.monotonic().saturating_add(1)
}

async fn watch(handed_out: Arc<AtomicU64>, done: CancellationToken, hangup: Hangup, timeout: WriteTimeout) {
    let WriteTimeout { clock, limit } = timeout;
    let limit_millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    loop {
        tokio::select! {
            () = done.cancelled() => return,
            () = tokio::time::sleep(limit / 2) => {}
        }
        let since = handed_out.load(Ordering::Relaxed);
        if since != WAITING && now(&*clock).saturating_sub(since) >= limit_millis {
            tracing::debug!("a client did not read its response and was disconnected");
            metrics::counter!("rookery_stalled_responses_total").increment(1);
            return hangup.0.cancel();
        }
    }
}

struct Sent {
    inner: Body,
    /// The part of the last frame that was not handed out yet.
    rest: Bytes,
    clock: Arc<dyn Clock>,
    /// When the last frame was handed out, or [`WAITING`].
    handed_out: Arc<AtomicU64>,
    _place: Option<RequestPermit>,
    /// Ends the watch.
    _done: DropGuard,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.handed_out.store(WAITING, Ordering::Relaxed);
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let length = self.rest.len().min(FRAME_BYTES);
        let frame = self.rest.split_to(length);
        self.handed_out.store(now(&*self.clock), Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use rookery_engine::ports::SystemClock;

    use super::*;
    use crate::http::limits::{Account, Places, Pool};

    const LIMIT: Duration = Duration::from_millis(40);

    fn timeout() -> WriteTimeout {
        WriteTimeout { clock: Arc::new(SystemClock::default()), limit: LIMIT }
    }

    fn large(place: Option<RequestPermit>, hangup: &Hangup) -> Body {
        let bytes = vec![7; 3 * FRAME_BYTES + 1];
        watched(Response::new(Body::from(bytes)), place, hangup.clone(), timeout()).into_body()
    }

    #[tokio::test]
    async fn large_body_arrives_whole_in_small_frames_and_keeps_its_place_meanwhile() {
        let pool = Pool::new("requests", Places { total: 8, per_caller: None });
        let mut body = large(pool.take(Account::Anonymous).ok(), &Hangup::default());
        assert_eq!(body.size_hint().exact(), Some(3 * FRAME_BYTES as u64 + 1));
        let mut sizes = Vec::new();
        while let Some(frame) = body.frame().await {
            sizes.push(frame.unwrap().into_data().unwrap().len());
            assert_eq!(pool.taken(), 1);
        }
        assert_eq!(sizes, [FRAME_BYTES, FRAME_BYTES, FRAME_BYTES, 1]);
        drop(body);
        assert_eq!(pool.taken(), 0);
    }

    #[tokio::test]
    async fn stalled_body_ends_its_connection_and_a_slow_source_does_not() {
        let hangup = Hangup::default();
        let mut stalled = large(None, &hangup);
        drop(stalled.frame().await);
        let unread = Hangup::default();
        let _never_asked_for = large(None, &unread);
        tokio::time::timeout(Duration::from_secs(20), hangup.0.cancelled()).await.unwrap();
        tokio::time::timeout(Duration::from_secs(20), unread.0.cancelled()).await.unwrap();

        let hangup = Hangup::default();
        let silent = Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>());
        let mut waiting = watched(Response::new(silent), None, hangup.clone(), timeout()).into_body();
        assert!(tokio::time::timeout(LIMIT * 5, waiting.frame()).await.is_err());
        assert!(!hangup.0.is_cancelled(), "the client would read if there was something");
    }
}
