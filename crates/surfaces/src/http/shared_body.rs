//! The bodies of large JSON answers that all readers of one position share.
//!
//! The answer was rendered once, in chunks, and every reader is sent the same chunks: a reader holds a reference and the
//! chunk that is on its way, never a copy.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use rookery_core::model::agent::Agent;
use rookery_engine::LogHead;
use serde::Serialize;
use tokio::sync::Notify;

use super::answer;
use super::answer_writer::{AnswerWriter, CHUNK_BYTES};

/// How many chunks are rendered for one reader before its answer begins.
const READY_CHUNKS: usize = 2;
/// About how much memory an agent takes, with its texts.
const AGENT_BYTES: u64 = 2_048;

/// The part of an answer that readers share.
pub struct AnswerPart {
    /// The length of its chunks.
    length: u64,
    /// How much memory it takes.
    bytes: u64,
    /// `None` once it was dropped.
    content: Mutex<Option<Content>>,
    /// Notified when the memory is free again.
    freed: OnceLock<Arc<Notify>>,
}

struct Content {
    chunks: Vec<Bytes>,
    /// Rows that each reader is sent as they are now, since their heartbeats are not in the log.
    agents: Vec<Agent>,
}

impl fmt::Debug for AnswerPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnswerPart({} bytes)", self.bytes)
    }
}

impl AnswerPart {
    fn content(&self) -> MutexGuard<'_, Option<Content>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chunk(&self, index: usize) -> Option<Bytes> {
        self.content().as_ref()?.chunks.get(index).cloned()
    }

    pub fn agent(&self, index: usize) -> Option<Agent> {
        self.content().as_ref()?.agents.get(index).cloned()
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_dropped(&self) -> bool {
        self.content().is_none()
    }

    /// Frees the memory at once: readers that were not sent all of it are disconnected.
    pub fn drop_content(&self) {
        *self.content() = None;
    }

    /// Notifies when the last user is gone.
    pub fn notify_when_freed(&self, freed: Arc<Notify>) {
        self.freed.set(freed).ok();
    }
}

impl Drop for AnswerPart {
    fn drop(&mut self) {
        self.drop_content();
        if let Some(freed) = self.freed.get() {
            freed.notify_waiters();
        }
    }
}

/// The rest of the answer is gone: the reader was too slow.
#[derive(Debug, thiserror::Error)]
#[error("the state changed too often for a reader this slow")]
struct VersionDropped;

/// An answer as it is at one position of the log.
#[derive(Clone, Debug)]
pub struct AnswerVersion {
    pub head: LogHead,
    pub part: Arc<AnswerPart>,
}

impl AnswerVersion {
    pub fn new(head: LogHead, agents: Vec<Agent>, shared: AnswerWriter) -> AnswerVersion {
        let (chunks, length) = shared.finish();
        let bytes = length + AGENT_BYTES * agents.len() as u64;
        let content = Mutex::new(Some(Content { chunks, agents }));
        AnswerVersion { head, part: Arc::new(AnswerPart { length, bytes, content, freed: OnceLock::new() }) }
    }

    /// Whether it is as new as a position that the reader knows of.
    pub fn covers(&self, head: &LogHead) -> bool {
        self.head.log == head.log && self.head.head >= head.head
    }

    /// The answer to a request, with the chunks that `first` renders before those that are shared; 304 if the request names
    /// this version.
    pub fn respond(self, request: &HeaderMap, mut first: Option<NextChunk>) -> Response {
        if let Some(response) = not_modified(request, &self.head) {
            return response;
        }
        // Of a short list, the whole is known before the head is sent, and so is its length.
        let mut ready = VecDeque::new();
        while let Some(next) = first.as_mut().filter(|_| ready.len() < READY_CHUNKS) {
            match next() {
                Some(chunk) => ready.push_back(chunk),
                None => first = None,
            }
        }
        let body = SharedBody { ready, first, remaining: self.part.length, part: self.part, next: 0 };
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        with_entity_tag(answer::placed(([json], Body::new(body)).into_response(), &self.head), &self.head)
    }
}

/// Renders the next chunk for one reader; `None` at the end.
pub type NextChunk = Box<dyn FnMut() -> Option<Bytes> + Send>;

/// Renders values as a JSON array between two texts, one chunk at a time.
pub fn render_lazily<T: Serialize>(
    before: &'static str,
    after: &'static str,
    mut values: impl Iterator<Item = T> + Send + 'static,
) -> NextChunk {
    let (mut next, mut is_done) = (before.as_bytes().to_vec(), false);
    let mut is_first = true;
    Box::new(move || {
        if is_done {
            return None;
        }
        while next.len() < CHUNK_BYTES {
            let Some(value) = values.next() else {
                next.extend_from_slice(after.as_bytes());
                is_done = true;
                break;
            };
            if !std::mem::take(&mut is_first) {
                next.push(b',');
            }
            let start = next.len();
            if let Err(error) = serde_json::to_writer(&mut next, &value) {
                next.truncate(start);
                next.extend_from_slice(b"null");
                tracing::error!(%error, "a value of a list cannot be rendered");
            }
        }
        Some(Bytes::from(std::mem::take(&mut next)))
    })
}

/// The answer to a reader that already has the state at this position.
pub fn not_modified(request: &HeaderMap, head: &LogHead) -> Option<Response> {
    let tag = entity_tag(head);
    let names_it = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or_default();
        value
            .split(',')
            .any(|one| one.trim() == "*" || one.trim().trim_start_matches("W/") == tag.trim_start_matches("W/"))
    };
    let is_known = request.get_all(header::IF_NONE_MATCH).iter().any(names_it);
    is_known.then(|| with_entity_tag(answer::placed(StatusCode::NOT_MODIFIED.into_response(), head), head))
}

/// Weak, because heartbeats change an answer but are not in the log.
fn entity_tag(head: &LogHead) -> String {
    format!("W/\"{}:{}\"", head.log.as_str(), head.head.0)
}

fn with_entity_tag(mut response: Response, head: &LogHead) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&entity_tag(head)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

struct SharedBody {
    ready: VecDeque<Bytes>,
    first: Option<NextChunk>,
    part: Arc<AnswerPart>,
    /// The next chunk of the part.
    next: usize,
    /// The bytes of the part that were not sent yet.
    remaining: u64,
}

impl SharedBody {
    fn next_chunk(&mut self) -> Option<Bytes> {
        let ready = self.ready.pop_front();
        if let Some(chunk) = ready.or_else(|| self.first.as_mut().and_then(|first| first())) {
            return Some(chunk);
        }
        self.first = None;
        let chunk = self.part.chunk(self.next)?;
        self.next += 1;
        self.remaining = self.remaining.saturating_sub(chunk.len() as u64);
        Some(chunk)
    }
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let next = self.next_chunk();
        // A chunk that was rendered while the part was dropped may lack agents.
        if self.part.is_dropped() {
            metrics::counter!("rookery_dropped_responses_total").increment(1);
            return Poll::Ready(Some(Err(axum::Error::new(VersionDropped))));
        }
        Poll::Ready(next.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.first.is_none() && self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        let known = self.remaining + self.ready.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        let mut hint = SizeHint::new();
        hint.set_lower(known);
        if self.first.is_none() {
            hint.set_upper(known);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use rookery_core::{LogId, Seq};

    use super::super::answer_writer::JsonArray;
    use super::*;

    fn head(seq: u64) -> LogHead {
        LogHead { log: LogId::new("log"), floor: Seq(1), head: Seq(seq) }
    }

    fn version(seq: u64, bytes: usize) -> AnswerVersion {
        let mut writer = AnswerWriter::default();
        writer.text(&"x".repeat(bytes));
        AnswerVersion::new(head(seq), vec![], writer)
    }

    async fn text_of(response: Response) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn body_has_the_lazily_rendered_chunks_before_the_shared_part() {
        let mut writer = AnswerWriter::default();
        let mut numbers = JsonArray::default();
        (0..40_000).for_each(|number| numbers.push(&number));
        writer.text("\"tasks\":").array(numbers).unwrap().text("}");
        let version = AnswerVersion::new(head(1), vec![], writer);
        let names = (0..20_000).map(|number| format!("agent-{number}"));
        let expected: Vec<String> = names.clone().collect();
        let first = render_lazily("{\"agents\":[", "],", names);
        let text = text_of(version.respond(&HeaderMap::new(), Some(first))).await;
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["agents"], serde_json::json!(expected));
        assert_eq!(read["tasks"].as_array().unwrap().len(), 40_000);
    }

    #[tokio::test]
    async fn length_is_known_if_the_lazily_rendered_list_is_short() {
        let short = render_lazily("[", "]", 0..3);
        let body = version(1, 5).respond(&HeaderMap::new(), Some(short)).into_body();
        assert_eq!(body.size_hint().exact(), Some(7 + 5));
        let long = render_lazily("[", "]", 0..100_000);
        assert_eq!(version(1, 5).respond(&HeaderMap::new(), Some(long)).into_body().size_hint().exact(), None);
    }

    #[tokio::test]
    async fn body_of_a_dropped_version_ends_with_an_error() {
        for shared_bytes in [0, 5] {
            let version = version(1, shared_bytes);
            let part = version.part.clone();
            let body = version.respond(&HeaderMap::new(), Some(render_lazily("[", "]", 0..3))).into_body();
            part.drop_content();
            assert!(body.collect().await.unwrap_err().to_string().contains("too often"));
        }
    }

    #[tokio::test]
    async fn chunks_are_small_and_the_length_is_known() {
        let response = version(1, 3 * CHUNK_BYTES + 1).respond(&HeaderMap::new(), None);
        let mut body = response.into_body();
        assert_eq!(body.size_hint().exact(), Some(3 * CHUNK_BYTES as u64 + 1));
        let mut sizes = Vec::new();
        while let Some(frame) = body.frame().await {
            sizes.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(sizes, [CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 1]);
    }

    #[tokio::test]
    async fn known_version_is_not_sent_again() {
        let tag = entity_tag(&head(7));
        let request =
            |value: &str| HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(value).unwrap())]);
        for (given, status) in
            [(tag.as_str(), 304), ("\"log:7\"", 304), ("\"other\", W/\"log:7\"", 304), ("\"log:6\"", 200)]
        {
            let response = version(7, 3).respond(&request(given), None);
            assert_eq!(response.status(), status, "{given}");
            assert_eq!(response.headers()[header::ETAG], tag.as_str());
        }
    }
}
