//! Writers at every node, who send every write with a key until it is answered, at another node if need be. They note what
//! they were told, and the log must say the same.

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
use crate::nodes::{Addresses, Impatient, Nodes, announce, code, impatient, lock};

/// Files that everybody wants.
const SHARED_FILES: u32 = 5;
/// What may be answered while something is broken; the same key makes it safe to ask again.
const ASK_AGAIN: [&str; 5] = ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "BUSY", "STOPPING", "TIMEOUT"];
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A team that writes in the background.
#[derive(Debug)]
pub struct Load {
    team: Arc<Team>,
    writers: JoinSet<anyhow::Result<()>>,
}

#[derive(Debug, Default)]
struct Team {
    book: Mutex<Book>,
    /// How many writes each node has answered.
    answered: watch::Sender<Vec<usize>>,
    stop: watch::Sender<bool>,
}

/// How long a writer waits for a node before it asks another.
#[derive(Clone, Copy, Debug)]
pub struct Waits(pub Duration);

impl Waits {
    /// Moves on from a node that does not answer.
    pub const BRIEFLY: Waits = Waits(Duration::from_secs(3));
    /// Longer than any node may take to answer something.
    pub const FOR_AN_ANSWER: Waits = Waits(Duration::from_secs(40));
}

impl Load {
    pub async fn begin(nodes: &Nodes, writers: usize, waits: Waits) -> anyhow::Result<Load> {
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
                http: impatient(waits.0)?,
                random: StdRng::from_os_rng(),
                writes: 0,
            };
            running.spawn(writer.work());
        }
        Ok(Load { team, writers: running })
    }

    /// Waits until this node has answered so many more writes.
    pub async fn goes_on_at(&mut self, node: usize, writes: usize) -> anyhow::Result<()> {
        let mut answered = self.team.answered.subscribe();
        let enough = answered.borrow_and_update()[node] + writes;
        let waiting = async {
            tokio::select! {
                reached = answered.wait_for(|answered| answered[node] >= enough) => reached.map(drop).context("no team"),
                Some(ended) = self.writers.join_next() => ended?.context("a writer ended before it was told to"),
            }
        };
        within("writes are answered", waiting).await?
    }

    /// Waits until every one of these nodes has answered so many more writes.
    pub async fn goes_on(&mut self, nodes: impl IntoIterator<Item = usize>, writes: usize) -> anyhow::Result<()> {
        for node in nodes {
            self.goes_on_at(node, writes).await?;
        }
        Ok(())
    }

    /// How often each code was answered so far.
    pub fn codes(&self) -> BTreeMap<String, usize> {
        lock(&self.team.book).codes.clone()
    }

    /// Lets every writer finish what it is about, and tells what they know.
    pub async fn end(mut self) -> anyhow::Result<Book> {
        self.team.stop.send_replace(true);
        let ending = async {
            while let Some(ended) = self.writers.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        };
        within("the writers end", ending).await??;
        Ok(std::mem::take(&mut *lock(&self.team.book)))
    }
}

/// What writers were told, and what they gave up on.
#[derive(Debug, Default)]
pub struct Book {
    notes: Vec<Told>,
    own_files: Vec<Told>,
    shared_files: Vec<Told>,
    /// Texts of which a node said that nothing was done, and nobody asked again.
    undone: Vec<String>,
    /// How often an answer did not come.
    pub unanswered: usize,
    /// How often another node told what an earlier try had done.
    pub replayed: usize,
    pub codes: BTreeMap<String, usize>,
}

/// An answer that says that something was done or given.
#[derive(Debug)]
struct Told {
    what: String,
    /// Whom the answer says holds it.
    holder: Option<String>,
    at: u64,
    /// The answer of an earlier try, told at the place where the log was by then.
    replayed: bool,
}

impl Book {
    /// Nothing acknowledged is lost, nothing is done twice, and every answer is what the log says at its place.
    pub fn agrees(&self, log: &Log) -> anyhow::Result<()> {
        let notes = log.notes()?;
        let twice: Vec<_> = notes.iter().filter(|(_, (times, _))| *times > 1).collect();
        ensure!(twice.is_empty(), "done more than once: {twice:?}");
        for told in &self.notes {
            let (_, place) = notes.get(told.what.as_str()).with_context(|| format!("lost: {told:?}"))?;
            ensure!(*place == told.at || (told.replayed && *place < told.at), "{told:?} stands at {place}");
        }
        for text in &self.undone {
            ensure!(!notes.contains_key(text.as_str()), "{text} was said not to be done, and is");
        }
        for told in &self.own_files {
            ensure!(log.grants(&told.what) == 1, "{told:?} was given {} times", log.grants(&told.what));
        }
        for told in self.own_files.iter().chain(self.shared_files.iter().filter(|told| !told.replayed)) {
            let holder = log.holder_at(&told.what, told.at);
            ensure!(holder == told.holder.as_deref(), "{told:?}, and the log says {holder:?}");
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
    http: Impatient,
    random: StdRng,
    writes: usize,
}

/// How a write ended.
enum WriteOutcome {
    Answered(HttpReply),
    /// A node said that nothing was done, and nobody asked again.
    Undone,
    /// Nobody knows.
    GivenUp,
}

impl Writer {
    async fn work(mut self) -> anyhow::Result<()> {
        let stop = self.team.stop.subscribe();
        for step in 0.. {
            if *stop.borrow() {
                break;
            }
            match step % 3 {
                0 => self.tell(step).await?,
                1 => self.claim_own(step).await?,
                _ => self.claim_shared().await?,
            }
        }
        Ok(())
    }

    async fn tell(&mut self, step: usize) -> anyhow::Result<()> {
        let text = format!("{step} of {}", self.me);
        let body = json!({"agent_id": self.me, "action": "x.note", "metadata": {"text": text}});
        match self.write("/events", body).await? {
            WriteOutcome::Answered(reply) => {
                ensure!(reply.status == 201, "{reply:?}");
                let told = Told { what: text, holder: None, at: position(&reply)?, replayed: is_replayed(&reply) };
                lock(&self.team.book).notes.push(told);
            }
            WriteOutcome::Undone => lock(&self.team.book).undone.push(text),
            WriteOutcome::GivenUp => {}
        }
        Ok(())
    }

    async fn claim_own(&mut self, step: usize) -> anyhow::Result<()> {
        let path = format!("own/{}/{step}.rs", self.me);
        let body = json!({"path": path, "agent_id": self.me});
        if let WriteOutcome::Answered(reply) = self.write("/resources/claim", body).await? {
            ensure!(reply.body["granted"] == true, "{reply:?}");
            let told = self.told(path, &reply)?;
            lock(&self.team.book).own_files.push(told);
        }
        Ok(())
    }

    async fn claim_shared(&mut self) -> anyhow::Result<()> {
        let path = format!("shared/{}.rs", self.random.random_range(0..SHARED_FILES));
        let body = json!({"path": path, "agent_id": self.me});
        let WriteOutcome::Answered(reply) = self.write("/resources/claim", body.clone()).await? else { return Ok(()) };
        let told = self.told(path, &reply)?;
        lock(&self.team.book).shared_files.push(told);
        if reply.body["granted"] == true {
            self.write("/resources/release", body).await?;
        }
        Ok(())
    }

    fn told(&self, path: String, reply: &HttpReply) -> anyhow::Result<Told> {
        let holder = match reply.body["granted"].as_bool() {
            Some(true) => self.me.as_str(),
            Some(false) => reply.body["owner"].as_str().context("refused for nobody")?,
            None => anyhow::bail!("{reply:?}"),
        };
        Ok(Told { what: path, holder: Some(holder.to_owned()), at: position(reply)?, replayed: is_replayed(reply) })
    }

    /// Sends a write until it is answered, always with the same key, to the next node after each failure. Sometimes it is
    /// left at what is known.
    async fn write(&mut self, path: &str, body: Value) -> anyhow::Result<WriteOutcome> {
        self.writes += 1;
        let key = format!("{}-{}", self.me, self.writes);
        let mut unknown = false;
        for at in (0..self.addresses.count()).cycle().skip(self.home) {
            let url = format!("{}{path}", self.addresses.of(at));
            match self.http.send(Method::POST, url, &key, &body).await {
                Ok(reply) if reply.status.is_server_error() || reply.status == 408 => {
                    let code = code(&reply).to_owned();
                    ensure!(ASK_AGAIN.contains(&code.as_str()), "{reply:?}");
                    unknown |= ["OUTCOME_UNKNOWN", "TIMEOUT"].contains(&code.as_str());
                    *lock(&self.team.book).codes.entry(code).or_default() += 1;
                }
                Ok(reply) => {
                    self.team.answered.send_modify(|answered| answered[at] += 1);
                    lock(&self.team.book).replayed += usize::from(is_replayed(&reply));
                    return Ok(WriteOutcome::Answered(reply));
                }
                Err(_) => {
                    unknown = true;
                    lock(&self.team.book).unanswered += 1;
                }
            }
            if self.random.random_bool(0.05) {
                return Ok(if unknown { WriteOutcome::GivenUp } else { WriteOutcome::Undone });
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
        Ok(WriteOutcome::GivenUp)
    }
}

fn is_replayed(reply: &HttpReply) -> bool {
    reply.headers.contains_key("idempotency-replayed")
}
