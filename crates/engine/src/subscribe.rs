//! Following the log from a position: what was, then what is, without a gap or a repeat.
//!
//! A subscriber that is slow falls back to reading the log by its cursor. It never holds up the writer or the others.

use std::sync::Arc;

use rookery_core::traits::LogRow;
use rookery_core::{LogId, Position, Seq};
use rookery_store::{CommitFeed, LogHead, LogQuery, Published, ReadError};
use tokio::sync::broadcast;

use crate::engine::Engine;
use crate::error::EngineError;

/// How much a subscriber catches up with in one read. One that does not take it keeps so much in memory.
const PAGE: u32 = 500;
const PAGE_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub struct Subscription {
    engine: Engine,
    live: CommitFeed,
    log: LogId,
    /// The last seq that was handed out.
    cursor: Seq,
    behind: bool,
}

/// A stretch of the log, in order and without holes.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// A committed batch, shared with every other subscriber.
    Live(Arc<Published>),
    /// Rows read back from the log.
    Read(Vec<LogRow>),
}

impl Chunk {
    pub fn rows(&self) -> &[LogRow] {
        match self {
            Chunk::Live(batch) => batch.rows(),
            Chunk::Read(rows) => rows,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The position belongs to another history, lies in the future, or before what is kept.
    #[error("position {asked} is not in this log, which reaches from {} to {}", head.floor, head.head)]
    Gone { asked: Position, head: LogHead },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the daemon is stopping")]
    Stopped,
}

impl Engine {
    /// Everything after `position`; from now on if there is none.
    pub async fn subscribe(&self, position: Option<Position>) -> Result<Subscription, SubscribeError> {
        // Listening begins before the head is read, so that nothing falls between the two.
        let live = self.store().published();
        let (_, head) = self.store().tallies().await?;
        let cursor = match &position {
            None => head.head,
            Some(position) => check(position, &head)?,
        };
        Ok(Subscription { engine: self.clone(), live, log: head.log, cursor, behind: true })
    }
}

/// The seq of a position that lies in this log.
pub fn check(position: &Position, head: &LogHead) -> Result<Seq, SubscribeError> {
    let foreign = position.log.as_ref().is_some_and(|log| *log != head.log);
    let forgotten = position.seq.next() < head.floor;
    if foreign || forgotten || position.seq > head.head {
        return Err(SubscribeError::Gone { asked: position.clone(), head: head.clone() });
    }
    Ok(position.seq)
}

impl Subscription {
    pub fn position(&self) -> Position {
        Position { log: Some(self.log.clone()), seq: self.cursor }
    }

    /// The next stretch of the log; waits until there is one. Safe to drop while it waits.
    pub async fn next(&mut self) -> Result<Chunk, SubscribeError> {
        loop {
            if self.behind {
                let page = LogQuery { bytes: PAGE_BYTES, ..LogQuery::after(self.cursor, PAGE) };
                let (rows, head) = self.engine.store().log(page).await?;
                // Another history, or one that was set back behind what was handed out.
                if head.log != self.log || head.head < self.cursor {
                    return Err(SubscribeError::Gone { asked: self.position(), head });
                }
                let Some(last) = rows.last().map(|row| row.seq) else {
                    self.behind = false;
                    continue;
                };
                self.cursor = last;
                self.behind = last < head.head;
                return Ok(Chunk::Read(rows));
            }
            match self.live.recv().await {
                Ok(batch) => {
                    if let Some(chunk) = self.advance(batch) {
                        return Ok(chunk);
                    }
                }
                Err(broadcast::error::RecvError::Lagged(_)) => self.behind = true,
                Err(broadcast::error::RecvError::Closed) => return Err(SubscribeError::Stopped),
            }
        }
    }

    /// Takes a live batch if it is the next one; marks us as behind if there is a hole before it.
    fn advance(&mut self, batch: Arc<Published>) -> Option<Chunk> {
        let (first, last) = (batch.rows().first()?.seq, batch.rows().last()?.seq);
        if last <= self.cursor {
            return None;
        }
        if first > self.cursor.next() {
            self.behind = true;
            return None;
        }
        let seen = self.cursor;
        self.cursor = last;
        if first == seen.next() {
            return Some(Chunk::Live(batch));
        }
        Some(Chunk::Read(batch.rows().iter().filter(|row| row.seq > seen).cloned().collect()))
    }
}

impl From<SubscribeError> for EngineError {
    fn from(error: SubscribeError) -> EngineError {
        match error {
            SubscribeError::Read(read) => EngineError::Read(read),
            SubscribeError::Stopped => EngineError::Submit(rookery_store::SubmitError::Stopped),
            gone @ SubscribeError::Gone { .. } => {
                EngineError::Read(ReadError::Unavailable { reason: gone.to_string() })
            }
        }
    }
}
