//! Moving the write-ahead log into the database, away from the writer: whoever commits next would pay for it.
//!
//! A thread of its own checkpoints what it can without waiting for anybody. Under unbroken load that never catches up
//! with the writer, so the log is only reset in the gaps; the writer itself steps in when it grows beyond a bound.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::connection::{self, wal_bytes, with_patience};

/// When the write-ahead log is looked after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upkeep {
    /// How often the checkpoint thread looks.
    pub every: Duration,
    /// From which size on it does something.
    pub above_bytes: u64,
    /// From which size on the writer stops to reset the log.
    pub bound_bytes: u64,
    /// How long the writer has nothing to do before it empties the log. Until then the log is written over from its
    /// beginning when it is checkpointed: that syncs faster than a file that grows again.
    pub idle: Duration,
    /// The same when the log still holds what was redacted.
    pub idle_after_redaction: Duration,
    /// How often a store that cannot be written tries whether it can again.
    pub probe: Duration,
}

impl Default for Upkeep {
    fn default() -> Upkeep {
        Upkeep {
            every: Duration::from_millis(200),
            above_bytes: 4 * 1024 * 1024,
            bound_bytes: 256 * 1024 * 1024,
            idle: Duration::from_secs(60),
            idle_after_redaction: Duration::from_secs(1),
            probe: Duration::from_secs(1),
        }
    }
}

/// A log this long means that a reader never ends.
const ALARM_BYTES: u64 = 512 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Checkpointer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Checkpointer {
    pub(super) fn start(path: PathBuf, upkeep: Upkeep) -> std::io::Result<Checkpointer> {
        let stop = Arc::new(Stop::default());
        let thread = std::thread::Builder::new().name("store-checkpoint".to_owned()).spawn({
            let stop = stop.clone();
            move || run(&path, upkeep, &stop)
        })?;
        Ok(Checkpointer { stop, thread: Some(thread) })
    }

    pub(super) fn stop(&mut self) {
        *self.stop.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

fn run(path: &Path, upkeep: Upkeep, stop: &Stop) {
    let mut connection = None;
    let mut alarmed = false;
    loop {
        let asked = stop.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if *asked {
            return;
        }
        let (asked, _) = stop.changed.wait_timeout(asked, upkeep.every).unwrap_or_else(PoisonError::into_inner);
        if *asked {
            return;
        }
        drop(asked);
        let bytes = wal_bytes(path);
        metrics::gauge!("rookery_store_wal_bytes").set(bytes as f64);
        if bytes > ALARM_BYTES && !alarmed {
            tracing::warn!(bytes, "the write-ahead log is very long; a reader may be stuck");
        }
        alarmed = bytes > ALARM_BYTES;
        if bytes > upkeep.above_bytes {
            connection = checkpoint(path, connection.take());
        }
    }
}

/// A failure is no harm: the log only stays longer. The connection is kept unless it failed.
fn checkpoint(path: &Path, connection: Option<Connection>) -> Option<Connection> {
    let connection = match connection.map_or_else(|| connection::writer(path), Ok) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::warn!(%error, "cannot open the store for a checkpoint");
            return None;
        }
    };
    match connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        Ok(()) => Some(connection),
        Err(error) => {
            tracing::warn!(%error, "cannot checkpoint the write-ahead log");
            None
        }
    }
}

/// Resets the log, unless a reader is in the way for longer than `patience`. Only the writer may do this: the others
/// would hold it up.
pub(super) fn reset(connection: &Connection, patience: Duration) -> rusqlite::Result<bool> {
    with_patience(connection, patience, |connection| {
        let blocked: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        Ok(blocked == 0)
    })
}
