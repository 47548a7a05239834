//! Large JSON answers that all readers of one position share.
//!
//! A list without a limit can have many megabytes. It is read and rendered once per position of the log, in chunks, and every
//! reader is sent the same chunks: a reader holds a reference and the chunk that is on its way, never a copy. A version that
//! was replaced stays in memory while a slow reader is sent it. When such versions exceed their limit, the oldest are
//! dropped and their readers are disconnected.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use rookery_core::Code;
use rookery_core::model::agent::Agent;
use rookery_engine::{At, LogHead};
use serde::Serialize;

use super::answer;
use super::error::HttpError;
use super::state::App;

/// The size of a chunk, which is also the most that is buffered for one reader.
const CHUNK_BYTES: usize = 64 << 10;
/// How many chunks are rendered for one reader before its answer begins.
const READY_CHUNKS: usize = 2;
/// How many different answers are kept at once.
const MAX_ANSWERS: usize = 8;
/// How much memory versions that were replaced may hold for slow readers; twice the newest version is always allowed.
const MAX_REPLACED_BYTES: u64 = 32 << 20;

/// A piece of an answer, rendered once.
struct AnswerPart {
    bytes: u64,
    /// `None` once it was dropped.
    chunks: Mutex<Option<Vec<Bytes>>>,
}

impl fmt::Debug for AnswerPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnswerPart({} bytes)", self.bytes)
    }
}

impl AnswerPart {
    fn chunk(&self, index: usize) -> Result<Option<Bytes>, VersionDropped> {
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.as_ref().map(|chunks| chunks.get(index).cloned()).ok_or(VersionDropped)
    }

    fn is_dropped(&self) -> bool {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn drop_chunks(&self) {
        *self.chunks.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The rest of the answer is gone: the reader was too slow.
#[derive(Debug, thiserror::Error)]
#[error("the state changed too often for a reader this slow")]
struct VersionDropped;

/// Renders JSON into chunks.
#[derive(Default)]
pub struct AnswerWriter {
    chunks: Vec<Bytes>,
    buffer: Vec<u8>,
    bytes: u64,
}

impl AnswerWriter {
    pub fn text(&mut self, text: &str) -> &mut AnswerWriter {
        self.push(text.as_bytes());
        self
    }

    /// A value as JSON.
    pub fn value<T: Serialize>(&mut self, value: &T) -> Result<&mut AnswerWriter, HttpError> {
        serde_json::to_writer(&mut *self, value)
            .map_err(|error| HttpError::new(Code::Internal, format!("the answer cannot be rendered: {error}")))?;
        Ok(self)
    }

    /// Values as a JSON array.
    pub fn array<T: Serialize>(&mut self, values: impl IntoIterator<Item = T>) -> Result<&mut AnswerWriter, HttpError> {
        self.push(b"[");
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                self.push(b",");
            }
            self.value(&value)?;
        }
        self.push(b"]");
        Ok(self)
    }

    fn finish(&mut self) -> Arc<AnswerPart> {
        self.end_chunk();
        Arc::new(AnswerPart { bytes: self.bytes, chunks: Mutex::new(Some(std::mem::take(&mut self.chunks))) })
    }

    fn push(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.buffer.capacity() == 0 {
                self.buffer.reserve_exact(CHUNK_BYTES);
            }
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = rest;
            if self.buffer.len() == CHUNK_BYTES {
                self.end_chunk();
            }
        }
    }

    fn end_chunk(&mut self) {
        if !self.buffer.is_empty() {
            let mut chunk = std::mem::take(&mut self.buffer);
            chunk.shrink_to_fit();
            self.chunks.push(Bytes::from(chunk));
        }
    }
}

impl Write for AnswerWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer as it is at one position of the log.
#[derive(Clone, Debug)]
pub struct AnswerVersion {
    pub head: LogHead,
    /// Rows that each reader is sent as they are now, since their heartbeats are not in the log.
    pub agents: Arc<[Agent]>,
    part: Arc<AnswerPart>,
}

impl AnswerVersion {
    /// Renders the shared part on a thread where that may take long.
    pub async fn render(
        head: LogHead,
        agents: Arc<[Agent]>,
        render: impl FnOnce(&mut AnswerWriter) -> Result<(), HttpError> + Send + 'static,
    ) -> Result<AnswerVersion, HttpError> {
        let rendering = tokio::task::spawn_blocking(move || {
            let mut writer = AnswerWriter::default();
            render(&mut writer)?;
            Ok(writer.finish())
        });
        let ended = |error| HttpError::new(Code::Internal, format!("rendering ended early: {error}"));
        let part = rendering.await.map_err(ended).and_then(|rendered| rendered)?;
        Ok(AnswerVersion { head, agents, part })
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
        let body = SharedBody { ready, first, remaining: self.part.bytes, part: self.part, next: 0 };
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

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let ready = self.ready.pop_front();
        if let Some(chunk) = ready.or_else(|| self.first.as_mut().and_then(|first| first())) {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        self.first = None;
        Poll::Ready(match self.part.chunk(self.next) {
            Ok(None) => None,
            Ok(Some(chunk)) => {
                self.next += 1;
                self.remaining = self.remaining.saturating_sub(chunk.len() as u64);
                Some(Ok(Frame::data(chunk)))
            }
            Err(dropped) => {
                metrics::counter!("rookery_dropped_responses_total").increment(1);
                Some(Err(axum::Error::new(dropped)))
            }
        })
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

/// A list of which all readers at one position are sent the same bytes. `name` tells it from other lists.
pub async fn respond_with_list<T, F>(
    app: &App,
    request: &HeaderMap,
    name: &str,
    read: impl FnOnce() -> F,
) -> Result<Response, HttpError>
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<At<Vec<T>>, HttpError>>,
{
    let head = app.engine().query().head().await?;
    if let Some(response) = not_modified(request, &head) {
        return Ok(response);
    }
    let render = async || {
        let At { value, head } = read().await?;
        AnswerVersion::render(head, Arc::new([]), move |writer| writer.array(value).map(drop)).await
    };
    let version = app.shared_answers().get(name, |version| version.covers(&head), render).await?;
    Ok(version.respond(request, None))
}

type AnswerSlot = Arc<tokio::sync::Mutex<Option<AnswerVersion>>>;

/// The newest version of each answer, and the replaced ones that readers are still sent.
#[derive(Debug, Default)]
pub struct SharedAnswers {
    /// The most recently used last.
    slots: Mutex<Vec<(String, AnswerSlot)>>,
    replaced: Mutex<VecDeque<Weak<AnswerPart>>>,
}

impl SharedAnswers {
    /// The version of an answer that `is_current` accepts, rendered by `render` if there is none. Readers that ask meanwhile
    /// wait for that one instead of rendering their own.
    pub async fn get<F>(
        &self,
        name: &str,
        is_current: impl Fn(&AnswerVersion) -> bool,
        render: impl FnOnce() -> F,
    ) -> Result<AnswerVersion, HttpError>
    where
        F: Future<Output = Result<AnswerVersion, HttpError>>,
    {
        let slot = self.slot(name);
        let mut newest = slot.lock().await;
        let known = newest.clone().filter(|version| !version.part.is_dropped());
        if let Some(version) = known.as_ref().filter(|version| is_current(version)) {
            return Ok(version.clone());
        }
        let version = render().await?;
        *newest = Some(version.clone());
        drop(newest);
        if let Some(known) = known {
            self.add_replaced(known.part, version.part.bytes);
        }
        Ok(version)
    }

    fn slot(&self, name: &str) -> AnswerSlot {
        let mut slots = lock(&self.slots);
        let slot = match slots.iter().position(|(known, _)| known == name) {
            Some(index) => slots.remove(index).1,
            None => AnswerSlot::default(),
        };
        slots.push((name.to_owned(), slot.clone()));
        let evicted = if slots.len() > MAX_ANSWERS { Some(slots.remove(0).1) } else { None };
        drop(slots);
        // One that is being rendered right now goes with its last reader.
        if let Some(version) = evicted.and_then(|slot| slot.try_lock().ok()?.take()) {
            let bytes = version.part.bytes;
            self.add_replaced(version.part, bytes);
        }
        slot
    }

    /// Notes a part that was replaced, and drops the oldest of those that readers still use beyond the limit.
    fn add_replaced(&self, part: Arc<AnswerPart>, newest_bytes: u64) {
        let mut replaced = lock(&self.replaced);
        replaced.push_back(Arc::downgrade(&part));
        // From here on, only readers hold it.
        drop(part);
        replaced.retain(|part| part.strong_count() > 0);
        let limit = MAX_REPLACED_BYTES.max(newest_bytes.saturating_mul(2));
        let mut in_use: u64 = replaced.iter().filter_map(Weak::upgrade).map(|part| part.bytes).sum();
        while in_use > limit
            && let Some(oldest) = replaced.pop_front()
        {
            if let Some(part) = oldest.upgrade() {
                in_use = in_use.saturating_sub(part.bytes);
                part.drop_chunks();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use rookery_core::{LogId, Seq};

    use super::*;

    fn head(seq: u64) -> LogHead {
        LogHead { log: LogId::new("log"), floor: Seq(1), head: Seq(seq) }
    }

    fn version(seq: u64, bytes: usize) -> AnswerVersion {
        let part = AnswerWriter::default().text(&"x".repeat(bytes)).finish();
        AnswerVersion { head: head(seq), agents: Arc::new([]), part }
    }

    async fn newest(answers: &SharedAnswers, name: &str, seq: u64, bytes: usize) -> AnswerVersion {
        let current = head(seq);
        answers.get(name, |known| known.covers(&current), async || Ok(version(seq, bytes))).await.unwrap()
    }

    async fn text_of(response: Response) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn answer_is_rendered_once_for_each_position() {
        let answers = SharedAnswers::default();
        let first = newest(&answers, "tasks", 5, 10).await;
        let again =
            answers.get("tasks", |known| known.covers(&head(4)), async || panic!("rendered again")).await.unwrap();
        assert!(Arc::ptr_eq(&first.part, &again.part), "a version newer than asked for is as good");
        let next = newest(&answers, "tasks", 6, 10).await;
        assert!(!Arc::ptr_eq(&first.part, &next.part));
    }

    #[tokio::test]
    async fn concurrent_readers_wait_for_one_rendering() {
        let answers = SharedAnswers::default();
        let rendered = std::sync::atomic::AtomicUsize::new(0);
        let current = head(1);
        let read = || {
            answers.get(
                "tasks",
                |known| known.covers(&current),
                async || {
                    rendered.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok(version(1, 10))
                },
            )
        };
        let readers = futures_util::future::join_all((0..64).map(|_| read())).await;
        assert!(readers.iter().all(Result::is_ok));
        assert_eq!(rendered.into_inner(), 1);
    }

    #[tokio::test]
    async fn body_has_the_lazily_rendered_chunks_before_the_shared_part() {
        let mut writer = AnswerWriter::default();
        let part = writer.text("\"tasks\":").array(0..40_000).unwrap().text("}").finish();
        let version = AnswerVersion { head: head(1), agents: Arc::new([]), part };
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
    async fn slow_readers_of_replaced_versions_are_dropped_beyond_the_limit() {
        let answers = SharedAnswers::default();
        let bytes = usize::try_from(MAX_REPLACED_BYTES / 2).unwrap();
        let mut slow = Vec::new();
        for seq in 1..=4 {
            slow.push(newest(&answers, "state", seq, bytes).await.respond(&HeaderMap::new(), None).into_body());
        }
        let first = slow.remove(0).collect().await;
        assert!(first.unwrap_err().to_string().contains("too often"), "three replaced versions are one too many");
        for body in slow {
            assert_eq!(body.collect().await.unwrap().to_bytes().len(), bytes);
        }
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
