//! Rendered answers that are kept for readers of one position, and the bounds on their memory.
//!
//! A list without a limit can have many megabytes. It is rendered once per position of the log, row by row while the store
//! reads one snapshot, and its chunks are all that is kept. Readers that ask while it is rendered wait for it.
//!
//! While others write, each reader needs a newer version, and the replaced ones stay in memory while readers are sent
//! them. All versions together have a limit. When it is reached, versions without readers are dropped; then the next
//! rendering waits for the readers of replaced versions, and at last disconnects those of the oldest.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use rookery_core::{Position, Row};
use rookery_engine::{EngineError, LogHead, SharedVisitor};
use serde::Serialize;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use super::answer_writer::{AnswerWriter, ListRendering};
use super::error::HttpError;
use super::shared_body::{AnswerPart, AnswerVersion, not_modified};
use super::state::App;

/// How many different answers are kept at once.
const MAX_ANSWERS: usize = 8;
/// How many answers are rendered at once.
const MAX_RENDERINGS: usize = 2;
/// How much memory all versions may hold together. Two versions of the largest answer are always allowed.
const MAX_HELD_BYTES: u64 = 64 << 20;
/// How long a rendering waits for readers of replaced versions before it disconnects those of the oldest.
const SLOW_READER_GRACE: Duration = Duration::from_secs(30);
/// Versions larger than this are freed as soon as the log grows; smaller ones when they are replaced.
const MAX_OUTDATED_BYTES: u64 = 1 << 20;

/// A list of which all readers at one position are sent the same bytes. `name` tells it from other lists, `entry` renders a
/// row, and `read` has the store visit the rows.
pub async fn respond_with_list<T, F>(
    app: &App,
    request: &HeaderMap,
    name: &str,
    entry: fn(Row) -> Option<T>,
    read: impl FnOnce(SharedVisitor) -> F,
) -> Result<Response, HttpError>
where
    T: Serialize + 'static,
    F: Future<Output = Result<LogHead, EngineError>>,
{
    let head = app.engine().query().head().await?;
    if let Some(response) = not_modified(request, &head) {
        return Ok(response);
    }
    let render = async || {
        let list = Arc::new(Mutex::new(ListRendering::new(entry)));
        let head = read(list.clone()).await?;
        let array = std::mem::take(&mut lock(&list).array);
        let mut writer = AnswerWriter::default();
        writer.array(array)?;
        Ok(AnswerVersion::new(head, vec![], writer))
    };
    Ok(version_for(app, name, &head, render).await?.respond(request, None))
}

/// The version of an answer for a reader that knows of a position, rendered by `render` if there is none.
pub async fn version_for<F>(
    app: &App,
    name: &str,
    head: &LogHead,
    render: impl FnOnce() -> F,
) -> Result<AnswerVersion, HttpError>
where
    F: Future<Output = Result<AnswerVersion, HttpError>>,
{
    let mut is_new = false;
    let render = async || {
        is_new = true;
        render().await
    };
    let version = app.shared_answers().get(name, |version| version.covers(head), render).await?;
    if is_new && version.part.bytes() > MAX_OUTDATED_BYTES {
        tokio::spawn(free_when_outdated(app.clone(), name.to_owned(), version.head.clone()));
    }
    Ok(version)
}

/// Waits until the log grows: no reader can be sent the version from then on, besides those that have asked already.
async fn free_when_outdated(app: App, name: String, head: LogHead) {
    let growth = async {
        let position = Position { log: Some(head.log.clone()), seq: head.head };
        app.engine().subscribe(Some(position)).await?.next().await
    };
    tokio::select! {
        () = app.stopping().cancelled() => {}
        // A version of which this cannot be told is freed too.
        _ = growth => app.shared_answers().free(&name, &head).await,
    }
}

type AnswerSlot = Arc<tokio::sync::Mutex<Option<AnswerVersion>>>;

/// The newest version of each answer, and the replaced ones that readers are still sent.
#[derive(Debug)]
pub struct SharedAnswers {
    /// The most recently used last.
    slots: Mutex<Vec<(String, AnswerSlot)>>,
    /// Everything that is in memory, the oldest first.
    held: Mutex<VecDeque<Weak<AnswerPart>>>,
    freed: Arc<Notify>,
    renderings: Semaphore,
    slow_reader_grace: Duration,
}

impl Default for SharedAnswers {
    fn default() -> SharedAnswers {
        SharedAnswers::new(SLOW_READER_GRACE)
    }
}

impl SharedAnswers {
    fn new(slow_reader_grace: Duration) -> SharedAnswers {
        SharedAnswers {
            slots: Mutex::default(),
            held: Mutex::default(),
            freed: Arc::default(),
            renderings: Semaphore::new(MAX_RENDERINGS),
            slow_reader_grace,
        }
    }

    /// The version of an answer that `is_current` accepts, rendered by `render` if there is none. Readers that ask meanwhile
    /// wait for that one instead of rendering their own.
    async fn get<F>(
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
        if let Some(version) = newest.as_ref().filter(|version| is_current(version) && !version.part.is_dropped()) {
            return Ok(version.clone());
        }
        // From here on, only readers hold the replaced version.
        let expected_bytes = newest.take().map_or(0, |replaced| replaced.part.bytes());
        self.make_room(expected_bytes).await;
        // The semaphore is never closed.
        let permit = self.renderings.acquire().await;
        let version = render().await?;
        self.hold(&version.part);
        drop(permit);
        *newest = Some(version.clone());
        Ok(version)
    }

    /// Frees a version unless it was replaced already. Readers that wait for it take it first.
    async fn free(&self, name: &str, head: &LogHead) {
        let slot = lock(&self.slots).iter().find(|(known, _)| known == name).map(|(_, slot)| slot.clone());
        if let Some(slot) = slot {
            let mut newest = slot.lock().await;
            newest.take_if(|version| version.head == *head);
        }
    }

    fn slot(&self, name: &str) -> AnswerSlot {
        let mut slots = lock(&self.slots);
        let slot = match slots.iter().position(|(known, _)| known == name) {
            Some(index) => slots.remove(index).1,
            None => AnswerSlot::default(),
        };
        slots.push((name.to_owned(), slot.clone()));
        if slots.len() > MAX_ANSWERS {
            // One that is being rendered right now goes with its last reader.
            slots.remove(0);
        }
        slot
    }

    /// Waits until there is room for so many bytes, and takes it from the oldest versions if that takes too long.
    async fn make_room(&self, bytes: u64) {
        let room = async {
            loop {
                let mut freed = pin!(self.freed.notified());
                freed.as_mut().enable();
                if self.drop_unused(bytes) {
                    return;
                }
                freed.await;
            }
        };
        if timeout(self.slow_reader_grace, room).await.is_err() {
            self.drop_oldest(bytes, 0);
        }
    }

    /// Adds a version, and keeps to the limit at once.
    fn hold(&self, part: &Arc<AnswerPart>) {
        part.notify_when_freed(self.freed.clone());
        lock(&self.held).push_back(Arc::downgrade(part));
        if !self.drop_unused(0) {
            self.drop_oldest(0, 1);
        }
    }

    /// Drops versions that no reader is sent until so many bytes fit beside the others. Returns whether they do.
    fn drop_unused(&self, bytes: u64) -> bool {
        while !self.fits(bytes) {
            let slots: Vec<AnswerSlot> = lock(&self.slots).iter().map(|(_, slot)| slot.clone()).collect();
            let unused =
                |slot: &AnswerSlot| slot.try_lock().ok()?.take_if(|version| Arc::strong_count(&version.part) == 1);
            if slots.iter().find_map(unused).is_none() {
                return false;
            }
        }
        true
    }

    /// Drops the oldest versions until so many bytes fit beside the others, but not the newest ones.
    fn drop_oldest(&self, bytes: u64, newest: usize) {
        while !self.fits(bytes) {
            let mut held = lock(&self.held);
            if held.len() <= newest {
                return;
            }
            let oldest = held.pop_front().and_then(|part| part.upgrade());
            drop(held);
            if let Some(part) = oldest {
                part.drop_content();
            }
        }
    }

    fn fits(&self, bytes: u64) -> bool {
        let mut held = lock(&self.held);
        held.retain(|part| part.strong_count() > 0);
        let sizes: Vec<u64> = held.iter().filter_map(Weak::upgrade).map(|part| part.bytes()).collect();
        drop(held);
        let largest = sizes.iter().copied().max().unwrap_or(0).max(bytes);
        sizes.iter().sum::<u64>() + bytes <= MAX_HELD_BYTES.max(largest.saturating_mul(2))
    }
}

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use rookery_core::{LogId, Seq};

    use super::*;

    fn head(seq: u64) -> LogHead {
        LogHead { log: LogId::new("log"), floor: Seq(1), head: Seq(seq) }
    }

    fn version(seq: u64, bytes: usize) -> AnswerVersion {
        let mut writer = AnswerWriter::default();
        writer.text(&"x".repeat(bytes));
        AnswerVersion::new(head(seq), vec![], writer)
    }

    async fn newest(answers: &SharedAnswers, name: &str, seq: u64, bytes: usize) -> AnswerVersion {
        let current = head(seq);
        answers.get(name, |known| known.covers(&current), async || Ok(version(seq, bytes))).await.unwrap()
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

    /// Begins to send the newest version to a reader that does not read.
    async fn send(answers: &SharedAnswers, seq: u64, bytes: u64) -> Body {
        let bytes = usize::try_from(bytes).unwrap();
        newest(answers, "state", seq, bytes).await.respond(&HeaderMap::new(), None).into_body()
    }

    fn held_bytes(answers: &SharedAnswers) -> u64 {
        lock(&answers.held).iter().filter_map(Weak::upgrade).map(|part| part.bytes()).sum()
    }

    #[tokio::test]
    async fn readers_of_the_oldest_version_are_disconnected_at_the_limit() {
        let answers = SharedAnswers::new(Duration::ZERO);
        let bytes = MAX_HELD_BYTES / 3;
        let mut slow = Vec::new();
        for seq in 1..=4 {
            slow.push(send(&answers, seq, bytes).await);
            assert!(held_bytes(&answers) <= MAX_HELD_BYTES);
        }
        let first = slow.remove(0).collect().await;
        assert!(first.unwrap_err().to_string().contains("too often"), "four versions are one too many");
        for body in slow {
            assert_eq!(body.collect().await.unwrap().to_bytes().len() as u64, bytes);
        }
    }

    #[tokio::test]
    async fn rendering_waits_for_readers_of_replaced_versions() {
        let answers = SharedAnswers::new(Duration::from_secs(3_600));
        let bytes = MAX_HELD_BYTES / 3;
        let mut slow = Vec::new();
        for seq in 1..=3 {
            slow.push(send(&answers, seq, bytes).await);
        }
        let mut fourth = pin!(send(&answers, 4, bytes));
        assert!(futures_util::poll!(fourth.as_mut()).is_pending());
        assert_eq!(slow.remove(1).collect().await.unwrap().to_bytes().len() as u64, bytes);
        slow.push(fourth.await);
        for body in slow {
            assert_eq!(body.collect().await.unwrap().to_bytes().len() as u64, bytes);
        }
    }

    #[tokio::test]
    async fn versions_without_readers_are_dropped_before_a_reader_waits() {
        let answers = SharedAnswers::new(Duration::from_secs(3_600));
        let bytes = usize::try_from(MAX_HELD_BYTES / 3).unwrap();
        for (seq, name) in (1..).zip(["state", "tasks", "files", "state", "handoffs"]) {
            newest(&answers, name, seq, bytes).await;
            assert!(held_bytes(&answers) <= MAX_HELD_BYTES);
        }
    }

    #[tokio::test]
    async fn two_versions_of_an_answer_above_the_limit_are_held() {
        let answers = SharedAnswers::new(Duration::ZERO);
        let bytes = MAX_HELD_BYTES + 1;
        let (first, second) = (send(&answers, 1, bytes).await, send(&answers, 2, bytes).await);
        let third = send(&answers, 3, bytes).await;
        assert!(first.collect().await.is_err());
        for body in [second, third] {
            assert_eq!(body.collect().await.unwrap().to_bytes().len() as u64, bytes);
        }
    }

    #[tokio::test]
    async fn replaced_version_is_freed_before_the_next_is_rendered() {
        let answers = SharedAnswers::default();
        newest(&answers, "state", 1, 10).await;
        let render = async || {
            assert_eq!(held_bytes(&answers), 0);
            Ok(version(2, 20))
        };
        answers.get("state", |known| known.covers(&head(2)), render).await.unwrap();
        assert_eq!(held_bytes(&answers), 20);
        answers.free("state", &head(1)).await;
        assert_eq!(held_bytes(&answers), 20, "another version is not freed");
        answers.free("state", &head(2)).await;
        assert_eq!(held_bytes(&answers), 0);
    }
}
