//! Runs the parts of the watcher: one task that owns the state, and blocking jobs that read the disk for it.
//!
//! At most one job works on the tree at a time, `HASH_JOBS` hash small files, and one hashes a large file. The task itself
//! never blocks; it waits for the reader of `out` along with everything else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::debounce::{Debouncer, HashJob};
use super::touched::TouchedPaths;
use super::tree::{Digest, Tree};
use super::{Config, Observation, WatchedClaims, WatcherStatus, hash, millis};

/// The number of concurrent jobs that hash small files.
const HASH_JOBS: usize = 2;
/// The number of files in such a job.
const FILES_PER_JOB: usize = 64;
/// Events are collected for the settling time divided by this, before they are processed.
const GATHER_PART: u32 = 4;
/// The interval at which a missing project folder is looked for.
const ROOT_POLL_INTERVAL: Duration = Duration::from_secs(2);

pub(super) struct Driver {
    config: Config,
    /// None while a job works on it.
    tree: Option<Box<Tree>>,
    touched: Arc<TouchedPaths>,
    debouncer: Debouncer,
    claims: watch::Receiver<Arc<WatchedClaims>>,
    claims_may_change: bool,
    /// The claims that the tree and the debouncer have.
    held: Arc<WatchedClaims>,
    /// Newer claims that they do not have yet.
    coming: Option<Arc<WatchedClaims>>,
    out: mpsc::Sender<Observation>,
    status: watch::Sender<WatcherStatus>,
    stop: CancellationToken,
    jobs: JoinSet<JobResult>,
    hash_jobs: usize,
    large: VecDeque<HashJob>,
    large_under_way: bool,
    gather_until_ms: Option<u64>,
    retry_at_ms: Option<u64>,
    began: Instant,
}

enum JobResult {
    Digested { tree: Box<Tree>, digest: Digest, adopted: Option<Arc<WatchedClaims>> },
    Hashed { results: Vec<(HashJob, HashOutcome)> },
    HashedLarge { work: HashJob, outcome: HashOutcome },
}

enum HashOutcome {
    Hash(std::io::Result<String>),
    /// Left for the job that hashes large files.
    Large,
}

enum Flow {
    Go,
    End,
}

impl Driver {
    #[expect(clippy::too_many_arguments, reason = "the one place where the parts meet")]
    pub(super) fn new(
        config: Config,
        tree: Tree,
        touched: Arc<TouchedPaths>,
        debouncer: Debouncer,
        mut claims: watch::Receiver<Arc<WatchedClaims>>,
        out: mpsc::Sender<Observation>,
        status: watch::Sender<WatcherStatus>,
        stop: CancellationToken,
    ) -> Self {
        let coming = Some(claims.borrow_and_update().clone());
        // The first digest checks the whole tree.
        touched.rescan();
        Self {
            config,
            tree: Some(Box::new(tree)),
            touched,
            debouncer,
            claims,
            claims_may_change: true,
            held: Arc::default(),
            coming,
            out,
            status,
            stop,
            jobs: JoinSet::new(),
            hash_jobs: 0,
            large: VecDeque::new(),
            large_under_way: false,
            gather_until_ms: None,
            retry_at_ms: None,
            began: present(),
        }
    }

    pub(super) async fn run(mut self) {
        while let Flow::Go = self.step().await {}
        self.stop.cancel();
        while self.jobs.join_next().await.is_some() {}
    }

    async fn step(&mut self) -> Flow {
        let now_ms = self.now_ms();
        self.look_for_root(now_ms);
        self.start_digest(now_ms);
        self.start_hashing(now_ms);
        let wake_in = self.next_wake_ms(now_ms).map(|at_ms| Duration::from_millis(at_ms - now_ms));
        let done = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Flow::End,
            permit = self.out.reserve(), if self.debouncer.has_observation(now_ms) => {
                let Ok(permit) = permit else { return Flow::End };
                if let Some(observation) = self.debouncer.next_observation(now_ms) {
                    permit.send(observation);
                }
                None
            }
            () = self.out.closed() => return Flow::End,
            Some(done) = self.jobs.join_next() => Some(done),
            changed = self.claims.changed(), if self.claims_may_change => {
                // Without a sender, the last claims stay.
                self.claims_may_change = changed.is_ok();
                self.coming = Some(self.claims.borrow_and_update().clone());
                None
            }
            () = self.touched.arrived.notified() => {
                let gather = self.config.settle / GATHER_PART;
                // The time before the wait may be long ago.
                let until_ms = self.now_ms() + millis(gather);
                self.gather_until_ms.get_or_insert(until_ms);
                None
            }
            () = tokio::time::sleep(wake_in.unwrap_or_default()), if wake_in.is_some() => None,
        };
        done.map_or(Flow::Go, |done| self.handle_result(done))
    }

    fn handle_result(&mut self, done: Result<JobResult, tokio::task::JoinError>) -> Flow {
        let now_ms = self.now_ms();
        match done {
            Ok(JobResult::Digested { tree, digest, adopted }) => {
                self.tree = Some(tree);
                self.apply_digest(digest, adopted, now_ms);
            }
            Ok(JobResult::Hashed { results }) => {
                self.hash_jobs -= 1;
                for (work, outcome) in results {
                    self.handle_hash(work, outcome, now_ms);
                }
            }
            Ok(JobResult::HashedLarge { work, outcome }) => {
                self.large_under_way = false;
                self.handle_hash(work, outcome, now_ms);
            }
            Err(error) => {
                // A job panicked, and which one is not known. If it had the tree, the watcher cannot continue.
                tracing::error!(%error, "a job of the watcher panicked");
                if self.tree.is_none() {
                    return Flow::End;
                }
                self.hash_jobs = 0;
                self.large_under_way = false;
                self.debouncer.retry_hashing(now_ms);
            }
        }
        Flow::Go
    }

    fn apply_digest(&mut self, digest: Digest, adopted: Option<Arc<WatchedClaims>>, now_ms: u64) {
        for path in &digest.touched {
            self.debouncer.touch(path, now_ms);
        }
        for folder in &digest.touched_below {
            self.debouncer.touch_below(folder, now_ms);
        }
        for path in digest.others {
            self.debouncer.count_other(path, now_ms);
        }
        self.debouncer.count_others(digest.beyond, now_ms);
        if let Some(claims) = adopted {
            self.debouncer.adopt(&claims, now_ms);
            self.held = claims;
        }
        let omitted = self.debouncer.learn(digest.learn, now_ms);
        if omitted > 0 {
            self.debouncer.add_warning(
                format!("{omitted} files in claimed folders are too many to follow; their changes are only counted"),
                "claim smaller folders, or raise the limit on followed files".to_owned(),
            );
        }
        for warning in digest.warnings {
            self.debouncer.add_warning(warning.message, warning.hint);
        }
        if digest.root_is_gone {
            self.retry_at_ms = Some(now_ms + millis(ROOT_POLL_INTERVAL));
        }
        self.publish_status();
    }

    fn handle_hash(&mut self, work: HashJob, outcome: HashOutcome, now_ms: u64) {
        match outcome {
            HashOutcome::Hash(Ok(hash)) => self.debouncer.finish_hash(&work, Some(hash), now_ms),
            HashOutcome::Hash(Err(_)) if self.stop.is_cancelled() => {}
            HashOutcome::Hash(Err(error)) => {
                tracing::warn!(path = work.path, %error, "cannot hash a claimed file");
                self.debouncer.finish_hash(&work, None, now_ms);
                self.debouncer.add_warning(
                    format!("cannot read the claimed file {:?}: {error}", work.path),
                    "make it readable for the daemon, or release the claim".to_owned(),
                );
            }
            HashOutcome::Large => self.large.push_back(work),
        }
    }

    fn look_for_root(&mut self, now_ms: u64) {
        if self.retry_at_ms.take_if(|at_ms| *at_ms <= now_ms).is_some() {
            self.touched.rescan();
        }
    }

    /// Starts a job that processes the collected events and newer claims.
    fn start_digest(&mut self, now_ms: u64) {
        let gathered = self.gather_until_ms.is_some_and(|until_ms| until_ms <= now_ms);
        if !gathered && self.coming.is_none() {
            return;
        }
        let Some(mut tree) = self.tree.take() else { return };
        self.gather_until_ms = None;
        let batch = self.touched.take();
        let adopted = self.coming.take();
        if batch.is_empty() && adopted.is_none() {
            self.tree = Some(tree);
            return;
        }
        let held = self.held.clone();
        self.jobs.spawn_blocking(move || {
            let digest = tree.digest(batch, &held, adopted.as_deref());
            JobResult::Digested { tree, digest, adopted }
        });
    }

    fn start_hashing(&mut self, now_ms: u64) {
        while self.hash_jobs < HASH_JOBS {
            let work = self.debouncer.take_work(FILES_PER_JOB, now_ms);
            if work.is_empty() {
                break;
            }
            self.hash_jobs += 1;
            let (root, stop, large_bytes) = (self.config.root.clone(), self.stop.clone(), self.config.large_file_bytes);
            self.jobs.spawn_blocking(move || {
                let hash = |work: HashJob| {
                    let large = hash::size(&root, &work.path) > large_bytes;
                    let outcome = if large {
                        HashOutcome::Large
                    } else {
                        HashOutcome::Hash(hash::hash_now(&root, &work.path, &stop))
                    };
                    (work, outcome)
                };
                JobResult::Hashed { results: work.into_iter().map(hash).collect() }
            });
        }
        if !self.large_under_way
            && let Some(work) = self.large.pop_front()
        {
            self.large_under_way = true;
            let (root, stop) = (self.config.root.clone(), self.stop.clone());
            self.jobs.spawn_blocking(move || {
                let outcome = HashOutcome::Hash(hash::hash_now(&root, &work.path, &stop));
                JobResult::HashedLarge { work, outcome }
            });
        }
    }

    /// The next time at which work is due without another wake-up. Work that is due already waits for a job or for the
    /// reader, and both wake the task.
    fn next_wake_ms(&self, now_ms: u64) -> Option<u64> {
        let times = [
            self.debouncer.work_due_ms(),
            self.debouncer.change_due_ms(),
            self.debouncer.summary_due_ms(),
            self.gather_until_ms,
            self.retry_at_ms,
        ];
        times.into_iter().flatten().filter(|at_ms| *at_ms > now_ms).min()
    }

    fn publish_status(&self) {
        let Some(tree) = &self.tree else { return };
        self.status.send_replace(WatcherStatus {
            ready: true,
            watched_dirs: tree.watched_count(),
            ignored: tree.ignored_count(),
            claimed_files: self.debouncer.file_count(),
            warnings: tree.warnings(),
        });
    }

    fn now_ms(&self) -> u64 {
        millis(present().duration_since(self.began))
    }
}

/// The runtime's time, which tests can pause. Used only to measure waiting.
fn present() -> Instant {
    tokio::time::sleep(Duration::ZERO).deadline()
}
