//! Watches the files of a project and reports changes: of each claimed file by its content, of all others as a count.
//!
//! Only `service` knows the log: it passes claims to the watcher through a `watch` channel, and records the observations
//! that come back through a bounded one. An event goes from `touched` (on the thread of the `notify` crate) through `tree`
//! (is the path claimed, ignored, a folder?), `debounce` (has the file settled, is the content new?) and `hash` to the
//! channel; `driver` runs these parts. No part waits for a reader: changes that cannot be sent are merged with later ones.

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

pub use claims::{KnownContent, WatchedClaims};
pub use hash::hash_file;
pub use service::{WatchCoverage, WatchMode, escalate_after, run};

use debounce::{DebounceLimits, Debouncer};
use driver::Driver;
use touched::TouchedPaths;
use tree::Tree;

/// The settings of the watcher; `Config::new` has the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// The project's folder.
    pub root: PathBuf,
    /// How long a claimed file must be unchanged before it is hashed.
    pub settle: Duration,
    /// The shortest interval between summaries of unclaimed changes.
    pub summary_every: Duration,
    /// The most folders that are watched; folders of claimed files are watched beyond it.
    pub max_watches: usize,
    /// The most claimed files that are followed, including those in claimed subtrees; others in subtrees are only counted.
    pub max_files: usize,
    /// Files larger than this are hashed separately, one at a time, so that small files do not wait for them.
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

/// A change or a warning that the watcher reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// A claimed file, or a file in a claimed subtree, has new content. Hashes are SHA-256 in hex; `after` is `""` when
    /// the file is gone, `before` is `""` when there was none or its content was not known.
    Claimed { path: String, before: String, after: String },
    /// The number of unclaimed files that changed since the last summary, and the names of some. It is a lower bound when
    /// the system loses events under a flood: only claimed files are checked again.
    Others { changed: u64, sample: Vec<String> },
    /// A part of the project cannot be watched; the hint says how to fix it.
    Warning { message: String, hint: String },
}

/// A part of the project that cannot be watched, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchWarning {
    pub message: String,
    pub hint: String,
}

/// The status of the watcher.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatcherStatus {
    /// The whole tree was walked once; from then on changes are seen.
    pub ready: bool,
    pub watched_dirs: usize,
    /// Folders left out because git ignores them, without those below them.
    pub ignored: usize,
    pub claimed_files: usize,
    /// Warnings that still hold.
    pub warnings: Vec<WatchWarning>,
}

/// A failure to start the watcher.
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
    /// Watches `config.root` until the handle or the receiver of `out` is dropped. Returns at once; `Handle::ready` waits for
    /// the first walk. Earlier changes of claimed files are found by the hash in the claim.
    pub fn start(
        config: Config,
        claims: watch::Receiver<Arc<WatchedClaims>>,
        out: mpsc::Sender<Observation>,
    ) -> Result<Handle, WatchError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(WatchError::Runtime)?;
        let root = std::fs::canonicalize(&config.root)
            .map_err(|source| WatchError::Resolve { root: config.root.clone(), source })?;
        if !root.is_dir() {
            return Err(WatchError::Root { root });
        }
        let stop = CancellationToken::new();
        let touched = Arc::new(TouchedPaths::default());
        #[cfg(test)]
        let seen = Arc::downgrade(&touched);
        let tree = Tree::open(root.clone(), config.max_watches, touched.clone(), stop.clone())?;
        let limits = DebounceLimits {
            settle_ms: millis(config.settle),
            summary_ms: millis(config.summary_every),
            max_files: config.max_files,
        };
        let (status_sender, status) = watch::channel(WatcherStatus::default());
        let config = Config { root, ..config };
        let driver =
            Driver::new(config, tree, touched, Debouncer::new(limits), claims, out, status_sender, stop.clone());
        let task = runtime.spawn(driver.run());
        Ok(Handle {
            status,
            task,
            _stop: stop.drop_guard(),
            #[cfg(test)]
            touched: seen,
        })
    }
}

/// A running watcher. Dropping the handle stops it.
#[derive(Debug)]
pub struct Handle {
    status: watch::Receiver<WatcherStatus>,
    task: JoinHandle<()>,
    _stop: DropGuard,
    #[cfg(test)]
    touched: std::sync::Weak<TouchedPaths>,
}

impl Handle {
    pub fn status(&self) -> WatcherStatus {
        self.status.borrow().clone()
    }

    /// A channel with the status, which closes when the watcher ends.
    pub fn follow(&self) -> watch::Receiver<WatcherStatus> {
        self.status.clone()
    }

    /// Waits until the whole tree has been walked once, or the watcher has ended.
    pub async fn ready(&self) {
        let mut status = self.status.clone();
        // An error means that the watcher has ended; there is nothing more to wait for.
        status.wait_for(|status| status.ready).await.ok();
    }

    /// Stops the watcher and waits for its end.
    pub async fn stop(self) {
        let Self { task, _stop: stop, .. } = self;
        drop(stop);
        if let Err(error) = task.await {
            tracing::error!(%error, "the watcher ended with a panic");
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
