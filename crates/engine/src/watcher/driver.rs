//! Drives the parts: one task that owns what is known, and blocking jobs that read the disk for it.
//!
//! At any time at most one job works on the tree, `HASH_JOBS` hash small files and one hashes a large one; the task
//! itself never blocks, and waits for the reader of `out` only while it does everything else too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::debounce::{Coalescer, HashJob};
use super::touched::Inbox;
use super::tree::{Digest, Tree};
use super::{Config, Observation, Watched, WatcherStatus, hash, millis};

/// Jobs that hash small files side by side.
const HASH_JOBS: usize = 2;
/// Files in one such job.
const FILES_PER_JOB: usize = 64;
/// Events are gathered for this part of the settling time before anybody looks at them.
const GATHER_PART: u32 = 4;
/// How often a project folder that is gone is looked for.
const RETRY: Duration = Duration::from_secs(2);

pub(super) struct Driver {
    config: Config,
    /// Away while a job works on it.
    tree: Option<Box<Tree>>,
    inbox: Arc<Inbox>,
    coalescer: Coalescer,
    claims: watch::Receiver<Arc<Watched>>,
    claims_may_change: bool,
    /// The claims that the tree and the coalescer know.
    held: Arc<Watched>,
    /// Newer claims that they do not know yet.
    coming: Option<Arc<Watched>>,
    out: mpsc::Sender<Observation>,
    status: watch::Sender<WatcherStatus>,
    stop: CancellationToken,
    jobs: JoinSet<Done>,
    hash_jobs: usize,
    large: VecDeque<HashJob>,
    large_under_way: bool,
    gather_until_ms: Option<u64>,
    retry_at_ms: Option<u64>,
    began: Instant,
}

enum Done {
    Digested { tree: Box<Tree>, digest: Digest, adopted: Option<Arc<Watched>> },
    Hashed { results: Vec<(HashJob, Outcome)> },
    HashedLarge { work: HashJob, outcome: Outcome },
}

enum Outcome {
    Hash(std::io::Result<String>),
    /// Left for the job that hashes large files.
    Large,
}

enum Next {
    Go,
    End,
}

impl Driver {
    #[expect(clippy::too_many_arguments, reason = "the one place where the parts meet")]
    pub(super) fn new(
        config: Config,
        tree: Tree,
        inbox: Arc<Inbox>,
        coalescer: Coalescer,
        mut claims: watch::Receiver<Arc<Watched>>,
        out: mpsc::Sender<Observation>,
        status: watch::Sender<WatcherStatus>,
        stop: CancellationToken,
    ) -> Self {
        let coming = Some(claims.borrow_and_update().clone());
        // The first look at the tree is a look at everything.
        inbox.rescan();
        Self {
            config,
            tree: Some(Box::new(tree)),
            inbox,
            coalescer,
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
        while let Next::Go = self.step().await {}
        self.stop.cancel();
        while self.jobs.join_next().await.is_some() {}
    }

    async fn step(&mut self) -> Next {
        let now_ms = self.now_ms();
        self.look_for_root(now_ms);
        self.start_digest(now_ms);
        self.start_hashing(now_ms);
        let wake_in = self.next_wake_ms(now_ms).map(|at_ms| Duration::from_millis(at_ms - now_ms));
        let done = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Next::End,
            permit = self.out.reserve(), if self.coalescer.has_observation(now_ms) => {
                let Ok(permit) = permit else { return Next::End };
                if let Some(observation) = self.coalescer.next_observation(now_ms) {
                    permit.send(observation);
                }
                None
            }
            () = self.out.closed() => return Next::End,
            Some(done) = self.jobs.join_next() => Some(done),
            changed = self.claims.changed(), if self.claims_may_change => {
                // Without a sender, the last claims stay.
                self.claims_may_change = changed.is_ok();
                self.coming = Some(self.claims.borrow_and_update().clone());
                None
            }
            () = self.inbox.arrived.notified() => {
                let gather = self.config.settle / GATHER_PART;
                // We may have waited for long: the time of before is over.
                let until_ms = self.now_ms() + millis(gather);
                self.gather_until_ms.get_or_insert(until_ms);
                None
            }
            () = tokio::time::sleep(wake_in.unwrap_or_default()), if wake_in.is_some() => None,
        };
        done.map_or(Next::Go, |done| self.done(done))
    }

    fn done(&mut self, done: Result<Done, tokio::task::JoinError>) -> Next {
        let now_ms = self.now_ms();
        match done {
            Ok(Done::Digested { tree, digest, adopted }) => {
                self.tree = Some(tree);
                self.take_in(digest, adopted, now_ms);
            }
            Ok(Done::Hashed { results }) => {
                self.hash_jobs -= 1;
                for (work, outcome) in results {
                    self.hashed(work, outcome, now_ms);
                }
            }
            Ok(Done::HashedLarge { work, outcome }) => {
                self.large_under_way = false;
                self.hashed(work, outcome, now_ms);
            }
            Err(error) => {
                // A job panicked. Which one cannot be told; without the tree there is nothing left to watch with.
                tracing::error!(%error, "a watcher job broke down");
                if self.tree.is_none() {
                    return Next::End;
                }
                self.hash_jobs = 0;
                self.large_under_way = false;
                self.coalescer.retry_hashing(now_ms);
            }
        }
        Next::Go
    }

    fn take_in(&mut self, digest: Digest, adopted: Option<Arc<Watched>>, now_ms: u64) {
        for path in &digest.touched {
            self.coalescer.touched(path, now_ms);
        }
        for folder in &digest.touched_below {
            self.coalescer.touched_below(folder, now_ms);
        }
        for path in digest.others {
            self.coalescer.other(path, now_ms);
        }
        self.coalescer.others_beyond(digest.beyond, now_ms);
        if let Some(claims) = adopted {
            self.coalescer.adopt(&claims, now_ms);
            self.held = claims;
        }
        let left_out = self.coalescer.learn(digest.learn, now_ms);
        if left_out > 0 {
            self.coalescer.trouble(
                format!("{left_out} files in claimed folders are too many to follow; their changes are only counted"),
                "claim smaller folders, or raise the limit on followed files".to_owned(),
            );
        }
        for trouble in digest.troubles {
            self.coalescer.trouble(trouble.message, trouble.hint);
        }
        if digest.root_is_gone {
            self.retry_at_ms = Some(now_ms + millis(RETRY));
        }
        self.say_status();
    }

    fn hashed(&mut self, work: HashJob, outcome: Outcome, now_ms: u64) {
        match outcome {
            Outcome::Hash(Ok(hash)) => self.coalescer.hashed(&work, Some(hash), now_ms),
            Outcome::Hash(Err(_)) if self.stop.is_cancelled() => {}
            Outcome::Hash(Err(error)) => {
                tracing::warn!(path = work.path, %error, "cannot hash a claimed file");
                self.coalescer.hashed(&work, None, now_ms);
                self.coalescer.trouble(
                    format!("cannot read the claimed file {:?}: {error}", work.path),
                    "make it readable for the daemon, or release the claim".to_owned(),
                );
            }
            Outcome::Large => self.large.push_back(work),
        }
    }

    fn look_for_root(&mut self, now_ms: u64) {
        if self.retry_at_ms.take_if(|at_ms| *at_ms <= now_ms).is_some() {
            self.inbox.rescan();
        }
    }

    /// Hands the tree what has gathered, together with newer claims.
    fn start_digest(&mut self, now_ms: u64) {
        let gathered = self.gather_until_ms.is_some_and(|until_ms| until_ms <= now_ms);
        if !gathered && self.coming.is_none() {
            return;
        }
        let Some(mut tree) = self.tree.take() else { return };
        self.gather_until_ms = None;
        let batch = self.inbox.take();
        let adopted = self.coming.take();
        if batch.is_empty() && adopted.is_none() {
            self.tree = Some(tree);
            return;
        }
        let held = self.held.clone();
        self.jobs.spawn_blocking(move || {
            let digest = tree.digest(batch, &held, adopted.as_deref());
            Done::Digested { tree, digest, adopted }
        });
    }

    fn start_hashing(&mut self, now_ms: u64) {
        while self.hash_jobs < HASH_JOBS {
            let work = self.coalescer.take_work(FILES_PER_JOB, now_ms);
            if work.is_empty() {
                break;
            }
            self.hash_jobs += 1;
            let (root, stop, large_bytes) = (self.config.root.clone(), self.stop.clone(), self.config.large_file_bytes);
            self.jobs.spawn_blocking(move || {
                let hash = |work: HashJob| {
                    let large = hash::size(&root, &work.path) > large_bytes;
                    let outcome =
                        if large { Outcome::Large } else { Outcome::Hash(hash::hash_now(&root, &work.path, &stop)) };
                    (work, outcome)
                };
                Done::Hashed { results: work.into_iter().map(hash).collect() }
            });
        }
        if !self.large_under_way
            && let Some(work) = self.large.pop_front()
        {
            self.large_under_way = true;
            let (root, stop) = (self.config.root.clone(), self.stop.clone());
            self.jobs.spawn_blocking(move || {
                let outcome = Outcome::Hash(hash::hash_now(&root, &work.path, &stop));
                Done::HashedLarge { work, outcome }
            });
        }
    }

    /// The next time at which something is to be done that nothing else will wake us for. What is due already waits for
    /// a job or for the reader, and both wake us.
    fn next_wake_ms(&self, now_ms: u64) -> Option<u64> {
        let times = [
            self.coalescer.work_due_ms(),
            self.coalescer.change_due_ms(),
            self.coalescer.summary_due_ms(),
            self.gather_until_ms,
            self.retry_at_ms,
        ];
        times.into_iter().flatten().filter(|at_ms| *at_ms > now_ms).min()
    }

    fn say_status(&self) {
        let Some(tree) = &self.tree else { return };
        self.status.send_replace(WatcherStatus {
            ready: true,
            watched_dirs: tree.watched_count(),
            ignored: tree.ignored_count(),
            claimed_files: self.coalescer.file_count(),
            troubles: tree.troubles(),
        });
    }

    fn now_ms(&self) -> u64 {
        millis(present().duration_since(self.began))
    }
}

/// The runtime's own time, which tests can pause: only for measuring how long something has been waiting.
fn present() -> Instant {
    tokio::time::sleep(Duration::ZERO).deadline()
}
