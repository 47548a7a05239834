//! Watches the files of a project and says what changed: each claimed file by its content, everything else as a count.
//!
//! It knows nothing of the log, the rules or HTTP: claims come in through a `watch` channel, observations go out through
//! a bounded one. The way of an event: `inbox` (on the thread of the `notify` crate) → `tree` (what does this path mean?)
//! → `coalesce` (has it settled, is it news?) → `hash` → `out`; `run` drives them. Nothing on this way waits for a
//! reader: what cannot be sent is merged with what comes after it.

mod claims;
mod debounce;
mod driver;
mod hash;
mod schedule;
mod service;
#[cfg(test)]
mod tests;
mod touched;
mod tree;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use claims::{Known, Watched};
pub use hash::hash_file;
pub use service::{WatchCoverage, WatchMode, escalate_after, run};

use debounce::{Coalescer, Limits};
use driver::Driver;
use touched::Inbox;
use tree::Tree;

/// How to watch; `Config::new` has the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// The project's folder.
    pub root: PathBuf,
    /// How long a claimed file must be left alone before it is hashed.
    pub settle: Duration,
    /// Unclaimed changes are summed up at most this often.
    pub summary_every: Duration,
    /// Folders watched at most; folders of claimed files are watched beyond it.
    pub max_watches: usize,
    /// Claimed files followed at most, those in claimed subtrees included; further ones in subtrees are only counted.
    pub max_files: usize,
    /// Files larger than this are hashed apart, one at a time, so that small ones do not wait for them.
    pub large_file_bytes: u64,
}

impl Config {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            settle: Duration::from_millis(75),
            summary_every: Duration::from_secs(1),
            max_watches: 100_000,
            max_files: 50_000,
            large_file_bytes: 64 * 1024 * 1024,
        }
    }
}

/// What the watcher saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// A claimed file, or a file in a claimed subtree, has new content. Hashes are SHA-256 in hex; `after` is `""` when
    /// the file is gone, `before` is `""` when there was none or its content was not known.
    Claimed { path: String, before: String, after: String },
    /// So many unclaimed files changed since the last summary; some of them by name. When the system loses events, which
    /// it does under a flood, it is at least so many: only claimed files are looked at again.
    Others { changed: u64, sample: Vec<String> },
    /// Something cannot be seen; the hint says what to do.
    Trouble { message: String, hint: String },
}

/// What the watcher cannot see, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub message: String,
    pub hint: String,
}

/// How the watcher is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatcherStatus {
    /// The whole tree has been walked once; from now on changes are seen.
    pub ready: bool,
    pub watched_dirs: usize,
    /// Folders left out because git ignores them (what is below them is not counted).
    pub ignored: usize,
    pub claimed_files: usize,
    /// Troubles that still hold.
    pub troubles: Vec<Trouble>,
}

/// Why watching could not begin.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("the project root is not a folder: {}", root.display())]
    Root { root: PathBuf },
    #[error("cannot resolve the project root {}", root.display())]
    Resolve { root: PathBuf, source: io::Error },
    #[error("cannot start the system's file watcher (on Linux, see fs.inotify.max_user_instances)")]
    Start(#[source] notify::Error),
    #[error("the watcher must be started inside a tokio runtime")]
    Runtime(#[source] tokio::runtime::TryCurrentError),
}

/// Starts watching.
#[derive(Debug)]
pub struct Watcher;

impl Watcher {
    /// Watches `config.root` until the handle is dropped or the receiver of `out` is. Returns at once: `Handle::ready`
    /// waits for the first walk. Changes of claimed files that happened before it are found by their known hash.
    pub fn start(
        config: Config,
        claims: watch::Receiver<Arc<Watched>>,
        out: mpsc::Sender<Observation>,
    ) -> Result<Handle, WatchError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(WatchError::Runtime)?;
        let root = std::fs::canonicalize(&config.root)
            .map_err(|source| WatchError::Resolve { root: config.root.clone(), source })?;
        if !root.is_dir() {
            return Err(WatchError::Root { root });
        }
        let stop = CancellationToken::new();
        let inbox = Arc::new(Inbox::default());
        #[cfg(test)]
        let seen = Arc::downgrade(&inbox);
        let tree = Tree::open(root.clone(), config.max_watches, inbox.clone(), stop.clone())?;
        let limits = Limits {
            settle_ms: millis(config.settle),
            summary_ms: millis(config.summary_every),
            max_files: config.max_files,
        };
        let (say_status, status) = watch::channel(WatcherStatus::default());
        let config = Config { root, ..config };
        let driver = Driver::new(config, tree, inbox, Coalescer::new(limits), claims, out, say_status, stop.clone());
        let task = runtime.spawn(driver.run());
        Ok(Handle {
            status,
            task,
            _stop: stop.drop_guard(),
            #[cfg(test)]
            inbox: seen,
        })
    }
}

/// A running watcher; dropping it ends the watching.
#[derive(Debug)]
pub struct Handle {
    status: watch::Receiver<WatcherStatus>,
    task: JoinHandle<()>,
    _stop: DropGuard,
    #[cfg(test)]
    inbox: std::sync::Weak<Inbox>,
}

impl Handle {
    pub fn status(&self) -> WatcherStatus {
        self.status.borrow().clone()
    }

    /// The status as it changes; ends with the watcher.
    pub fn follow(&self) -> watch::Receiver<WatcherStatus> {
        self.status.clone()
    }

    /// Waits until the whole tree has been walked once, or the watcher has ended.
    pub async fn ready(&self) {
        let mut status = self.status.clone();
        // An error means that it has ended; there is nothing more to wait for.
        let _ = status.wait_for(|status| status.ready).await;
    }

    /// Ends the watching and waits until nothing of it runs any more.
    pub async fn stop(self) {
        let Self { task, _stop: stop, .. } = self;
        drop(stop);
        if let Err(error) = task.await {
            tracing::error!(%error, "the watcher did not end well");
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
