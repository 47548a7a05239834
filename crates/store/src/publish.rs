//! What subscribers get: one publication for each committed batch, rendered at most once for each face.
//!
//! A subscriber that does not read must not make us keep what it has not read: only so many batches and so many bytes are
//! kept for those who are behind. Whoever is further behind is told so and reads the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rookery_core::Seq;
use rookery_core::traits::{BodyBytes, LogRow};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// What is kept at most for subscribers that are behind.
const KEPT_BATCHES: usize = 1_024;
const KEPT_BYTES: usize = 8 * 1024 * 1024;
/// What a row weighs beside its body.
const ROW_BYTES: usize = 1_024;

/// The faces that keep a rendering beside the rows, so that a thousand readers share one encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    Rest,
    Clutch,
}

#[derive(Debug)]
pub struct Published {
    rows: Vec<LogRow>,
    bytes: usize,
    rendered: [OnceLock<Arc<[u8]>>; 2],
    /// Held by whoever renders and has to wait on the way.
    rendering: tokio::sync::Mutex<()>,
}

impl Published {
    pub fn new(rows: Vec<LogRow>) -> Published {
        let bytes = weigh(&rows);
        Published { rows, bytes, rendered: Default::default(), rendering: Default::default() }
    }

    pub fn rows(&self) -> &[LogRow] {
        &self.rows
    }

    pub fn last(&self) -> Option<Seq> {
        self.rows.last().map(|row| row.seq)
    }

    /// The whole batch in a face's own form; rendered by whoever asks first.
    pub fn rendered(&self, slot: Slot, render: impl FnOnce(&[LogRow]) -> Vec<u8>) -> Arc<[u8]> {
        self.rendered[slot as usize].get_or_init(|| render(&self.rows).into()).clone()
    }

    /// The same where rendering may have to wait: whoever comes meanwhile waits for the first.
    pub async fn rendered_by<E>(
        &self,
        slot: Slot,
        rendering: impl Future<Output = Result<Vec<u8>, E>>,
    ) -> Result<Arc<[u8]>, E> {
        let rendered = &self.rendered[slot as usize];
        if let Some(done) = rendered.get() {
            return Ok(done.clone());
        }
        let _alone = self.rendering.lock().await;
        match rendered.get() {
            Some(done) => Ok(done.clone()),
            None => {
                let bytes = rendering.await?;
                Ok(rendered.get_or_init(|| bytes.into()).clone())
            }
        }
    }
}

/// About what it takes to keep these: the body of a row comes again in its fact and in its rendering.
fn weigh(rows: &[LogRow]) -> usize {
    let body = |row: &LogRow| match row.body.as_ref().map(|body| &body.bytes) {
        Some(BodyBytes::Here(bytes)) => bytes.len(),
        // The bytes are on disk; what the fact took from them is not.
        Some(BodyBytes::Artifact) => row.event.encode().len(),
        Some(BodyBytes::Gone) | None => 0,
    };
    rows.iter().map(|row| ROW_BYTES + 3 * body(row)).sum()
}

/// Where a store publishes.
#[derive(Debug)]
pub struct Publisher {
    sender: broadcast::Sender<Weak<Published>>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    batches: VecDeque<Arc<Published>>,
    bytes: usize,
}

impl Default for Publisher {
    fn default() -> Publisher {
        Publisher { sender: broadcast::channel(KEPT_BATCHES).0, kept: Mutex::default() }
    }
}

impl Publisher {
    /// Hands a committed batch to whoever listens. Nobody listening is no failure.
    pub fn publish(&self, rows: Vec<LogRow>) {
        let batch = Arc::new(Published::new(rows));
        // Kept before it is announced, and whatever its size: whoever comes at once finds it.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).add(batch.clone());
        drop(self.sender.send(Arc::downgrade(&batch)));
    }

    pub fn subscribe(&self) -> CommitFeed {
        CommitFeed { receiver: self.sender.subscribe() }
    }
}

impl Kept {
    fn add(&mut self, batch: Arc<Published>) {
        self.bytes += batch.bytes;
        self.batches.push_back(batch);
        while self.batches.len() > 1 && (self.batches.len() > KEPT_BATCHES || self.bytes > KEPT_BYTES) {
            let gone = self.batches.pop_front();
            self.bytes -= gone.map_or(0, |gone| gone.bytes);
        }
    }
}

/// Committed batches in order. `Lagged` means that some were missed and stand in the log.
#[derive(Debug)]
pub struct CommitFeed {
    receiver: broadcast::Receiver<Weak<Published>>,
}

impl CommitFeed {
    /// The next batch; waits until there is one. Safe to drop while it waits.
    pub async fn recv(&mut self) -> Result<Arc<Published>, RecvError> {
        self.receiver.recv().await?.upgrade().ok_or(RecvError::Lagged(1))
    }

    pub fn try_recv(&mut self) -> Result<Arc<Published>, TryRecvError> {
        self.receiver.try_recv()?.upgrade().ok_or(TryRecvError::Lagged(1))
    }
}

#[cfg(test)]
mod tests {
    use rookery_core::agents::AgentReturned;
    use rookery_core::kernel::caller::{Actor, Auth};
    use rookery_core::traits::Body;
    use rookery_core::{AnyEvent, Timestamp};

    use super::*;

    fn row(seq: u64, body: usize) -> LogRow {
        LogRow {
            seq: Seq(seq),
            at: Timestamp(0),
            run: None,
            thread: None,
            actor: Actor::System,
            auth: Auth::None,
            via: None,
            cause: None,
            part_index: 0,
            event: AnyEvent::new(AgentReturned { agent: "a".into() }),
            body: Some(Body { sha256: String::new(), bytes: BodyBytes::Here(vec![0; body]) }),
        }
    }

    #[test]
    fn who_does_not_read_makes_nobody_keep_it_all() {
        let publisher = Publisher::default();
        let (mut never, mut reader) = (publisher.subscribe(), publisher.subscribe());
        for seq in 1..=100 {
            publisher.publish(vec![row(seq, 1024 * 1024)]);
            assert_eq!(reader.try_recv().unwrap().last(), Some(Seq(seq)));
        }
        let kept = publisher.kept.lock().unwrap();
        assert!(kept.batches.len() <= KEPT_BYTES / (1024 * 1024), "{} are kept", kept.batches.len());
        assert_eq!(never.try_recv().unwrap_err(), TryRecvError::Lagged(1));
    }

    #[test]
    fn the_newest_batch_is_kept_whatever_its_size() {
        let publisher = Publisher::default();
        let mut reader = publisher.subscribe();
        publisher.publish(vec![row(1, 2 * KEPT_BYTES)]);
        assert_eq!(reader.try_recv().unwrap().last(), Some(Seq(1)));
    }
}
