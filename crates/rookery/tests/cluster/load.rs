//! Writers at every node. They retry every write with the same idempotency key until it is answered, at another node if
//! necessary, and record the replies for a comparison with the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Method;
use rookery_testkit::daemon::HttpReply;
use rookery_testkit::wait::within;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::checker::{Log, position};
use crate::nodes::{Addresses, Nodes, TimeoutClient, announce, code, lock, timeout_client};

/// Files that all writers claim.
const SHARED_FILES: u32 = 5;
/// The error codes under faults. The idempotency key makes a retry safe.
const RETRYABLE_CODES: [&str; 5] = ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "BUSY", "STOPPING", "TIMEOUT"];
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// A team that writes in the background.
#[derive(Debug)]
pub struct Load {
    team: Arc<Team>,
    writers: JoinSet<anyhow::Result<()>>,
}

#[derive(Debug, Default)]
struct Team {
    record: Mutex<WriteRecord>,
    /// The number of writes that each node has answered.
    answered: watch::Sender<Vec<usize>>,
    stop: watch::Sender<bool>,
}

/// How long a writer waits for a node before it tries another.
#[derive(Clone, Copy, Debug)]
pub struct AnswerTimeout(pub Duration);

impl AnswerTimeout {
    /// Leaves a node that does not answer soon.
    pub const SHORT: AnswerTimeout = AnswerTimeout(Duration::from_secs(3));
    /// Longer than the daemon's own timeout of a request.
    pub const LONG: AnswerTimeout = AnswerTimeout(Duration::from_secs(40));
}

impl Load {
    /// Starts writers at all nodes.
    pub async fn start(nodes: &Nodes, writers: usize, timeout: AnswerTimeout) -> anyhow::Result<Load> {
        let team = Arc::new(Team::default());
        team.answered.send_replace(vec![0; nodes.count()]);
        let mut running = JoinSet::new();
        for number in 0..writers {
            let me = format!("writer-{number}");
            announce(&nodes[number % nodes.count()], &me).await?;
            let writer = Writer {
                me,
                home: number % nodes.count(),
                team: team.clone(),
                addresses: nodes.addresses(),
                http: timeout_client(timeout.0)?,
                random: StdRng::from_os_rng(),
                writes: 0,
            };
            running.spawn(writer.run());
        }
        Ok(Load { team, writers: running })
    }

    /// Waits until a node has answered this many more writes.
    pub async fn wait_for_writes_at(&mut self, node: usize, writes: usize) -> anyhow::Result<()> {
        let mut answered = self.team.answered.subscribe();
        let enough = answered.borrow_and_update()[node] + writes;
        let waiting = async {
            tokio::select! {
                reached = answered.wait_for(|answered| answered[node] >= enough) => reached.map(drop).context("no team"),
                Some(ended) = self.writers.join_next() => ended?.context("a writer ended before the stop"),
            }
        };
        within("answers to writes", waiting).await?
    }

    /// Waits until each of these nodes has answered this many more writes.
    pub async fn wait_for_writes(
        &mut self,
        nodes: impl IntoIterator<Item = usize>,
        writes: usize,
    ) -> anyhow::Result<()> {
        for node in nodes {
            self.wait_for_writes_at(node, writes).await?;
        }
        Ok(())
    }

    /// The number of answers with each error code so far.
    pub fn codes(&self) -> BTreeMap<String, usize> {
        lock(&self.team.record).codes.clone()
    }

    /// Lets every writer finish its current write, and returns the record.
    pub async fn stop(mut self) -> anyhow::Result<WriteRecord> {
        self.team.stop.send_replace(true);
        let ending = async {
            while let Some(ended) = self.writers.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        };
        within("the end of the writers", ending).await??;
        Ok(std::mem::take(&mut *lock(&self.team.record)))
    }
}

/// The acknowledged writes, and those without an outcome.
#[derive(Debug, Default)]
pub struct WriteRecord {
    notes: Vec<WriteReply>,
    own_files: Vec<WriteReply>,
    shared_files: Vec<WriteReply>,
    /// Texts of notes that a node reported as not applied, and that were not retried.
    undone: Vec<String>,
    /// The number of requests without an answer.
    pub unanswered: usize,
    /// The number of replies that repeat the reply to an earlier attempt.
    pub replayed: usize,
    pub codes: BTreeMap<String, usize>,
}

/// The reply to a write.
#[derive(Debug)]
struct WriteReply {
    item: String,
    /// The holder in the reply.
    holder: Option<String>,
    at: u64,
    /// Whether this repeats the reply to an earlier attempt, at a later position.
    is_replayed: bool,
}

impl WriteRecord {
    /// Fails if an acknowledged write is lost, a write was applied twice, or a reply differs from the log at its position.
    pub fn check(&self, log: &Log) -> anyhow::Result<()> {
        let notes = log.notes()?;
        let twice: Vec<_> = notes.iter().filter(|(_, (times, _))| *times > 1).collect();
        ensure!(twice.is_empty(), "applied more than once: {twice:?}");
        for reply in &self.notes {
            let (_, seq) = notes.get(reply.item.as_str()).with_context(|| format!("lost: {reply:?}"))?;
            ensure!(*seq == reply.at || (reply.is_replayed && *seq < reply.at), "{reply:?} is logged at {seq}");
        }
        for text in &self.undone {
            ensure!(!notes.contains_key(text.as_str()), "{text} was reported as not applied, but is logged");
        }
        for reply in &self.own_files {
            ensure!(log.grants(&reply.item) == 1, "{reply:?} was claimed {} times", log.grants(&reply.item));
        }
        for reply in self.own_files.iter().chain(self.shared_files.iter().filter(|reply| !reply.is_replayed)) {
            let holder = log.holder_at(&reply.item, reply.at);
            ensure!(holder == reply.holder.as_deref(), "{reply:?}, but the log has the holder {holder:?}");
        }
        Ok(())
    }

    pub fn acknowledged(&self) -> usize {
        self.notes.len() + self.own_files.len() + self.shared_files.len()
    }
}

struct Writer {
    me: String,
    home: usize,
    team: Arc<Team>,
    addresses: Addresses,
    http: TimeoutClient,
    random: StdRng,
    writes: usize,
}

/// The outcome of a write.
enum WriteOutcome {
    Answered(HttpReply),
    /// A node reported that nothing was applied, and the write was not retried.
    NotApplied,
    /// The outcome is unknown.
    Unknown,
}

impl Writer {
    async fn run(mut self) -> anyhow::Result<()> {
        let stop = self.team.stop.subscribe();
        for step in 0.. {
            if *stop.borrow() {
                break;
            }
            match step % 3 {
                0 => self.write_note(step).await?,
                1 => self.claim_own(step).await?,
                _ => self.claim_shared().await?,
            }
        }
        Ok(())
    }

    async fn write_note(&mut self, step: usize) -> anyhow::Result<()> {
        let text = format!("{step} of {}", self.me);
        let body = json!({"agent_id": self.me, "action": "x.note", "metadata": {"text": text}});
        match self.write("/events", body).await? {
            WriteOutcome::Answered(reply) => {
                ensure!(reply.status == 201, "{reply:?}");
                let reply =
                    WriteReply { item: text, holder: None, at: position(&reply)?, is_replayed: is_replayed(&reply) };
                lock(&self.team.record).notes.push(reply);
            }
            WriteOutcome::NotApplied => lock(&self.team.record).undone.push(text),
            WriteOutcome::Unknown => {}
        }
        Ok(())
    }

    async fn claim_own(&mut self, step: usize) -> anyhow::Result<()> {
        let path = format!("own/{}/{step}.rs", self.me);
        let body = json!({"path": path, "agent_id": self.me});
        if let WriteOutcome::Answered(reply) = self.write("/resources/claim", body).await? {
            ensure!(reply.body["granted"] == true, "{reply:?}");
            let claim = self.read_claim(path, &reply)?;
            lock(&self.team.record).own_files.push(claim);
        }
        Ok(())
    }

    async fn claim_shared(&mut self) -> anyhow::Result<()> {
        let path = format!("shared/{}.rs", self.random.random_range(0..SHARED_FILES));
        let body = json!({"path": path, "agent_id": self.me});
        let WriteOutcome::Answered(reply) = self.write("/resources/claim", body.clone()).await? else { return Ok(()) };
        let claim = self.read_claim(path, &reply)?;
        lock(&self.team.record).shared_files.push(claim);
        if reply.body["granted"] == true {
            self.write("/resources/release", body).await?;
        }
        Ok(())
    }

    fn read_claim(&self, path: String, reply: &HttpReply) -> anyhow::Result<WriteReply> {
        let holder = match reply.body["granted"].as_bool() {
            Some(true) => self.me.as_str(),
            Some(false) => reply.body["owner"].as_str().context("the rejection has no owner")?,
            None => anyhow::bail!("{reply:?}"),
        };
        Ok(WriteReply {
            item: path,
            holder: Some(holder.to_owned()),
            at: position(reply)?,
            is_replayed: is_replayed(reply),
        })
    }

    /// Retries a write with the same key until it is answered, at the next node after each failure. Sometimes gives up
    /// instead.
    async fn write(&mut self, path: &str, body: Value) -> anyhow::Result<WriteOutcome> {
        self.writes += 1;
        let key = format!("{}-{}", self.me, self.writes);
        let mut is_unknown = false;
        for at in (0..self.addresses.count()).cycle().skip(self.home) {
            let url = format!("{}{path}", self.addresses.of(at));
            match self.http.send(Method::POST, url, &key, &body).await {
                Ok(reply) if reply.status.is_server_error() || reply.status == 408 => {
                    let code = code(&reply).to_owned();
                    ensure!(RETRYABLE_CODES.contains(&code.as_str()), "{reply:?}");
                    is_unknown |= ["OUTCOME_UNKNOWN", "TIMEOUT"].contains(&code.as_str());
                    *lock(&self.team.record).codes.entry(code).or_default() += 1;
                }
                Ok(reply) => {
                    self.team.answered.send_modify(|answered| answered[at] += 1);
                    lock(&self.team.record).replayed += usize::from(is_replayed(&reply));
                    return Ok(WriteOutcome::Answered(reply));
                }
                Err(_) => {
                    is_unknown = true;
                    lock(&self.team.record).unanswered += 1;
                }
            }
            if self.random.random_bool(0.05) {
                return Ok(if is_unknown { WriteOutcome::Unknown } else { WriteOutcome::NotApplied });
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        Ok(WriteOutcome::Unknown)
    }
}

fn is_replayed(reply: &HttpReply) -> bool {
    reply.headers.contains_key("idempotency-replayed")
}
