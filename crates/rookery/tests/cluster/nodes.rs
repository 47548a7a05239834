//! The daemons of one test, over one schema.

use std::ops::Index;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Method, RequestBuilder};
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, client, read};
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A daemon that watches no files: these tests change none.
pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).arg("--no-watch")
}

/// Nodes in the order in which they were started; the first begins with all duties.
#[derive(Debug)]
pub struct Nodes {
    daemons: Vec<Daemon>,
    urls: watch::Sender<Vec<String>>,
}

impl Index<usize> for Nodes {
    type Output = Daemon;

    fn index(&self, at: usize) -> &Daemon {
        &self.daemons[at]
    }
}

impl Nodes {
    /// One for each URL of the store, as it is, with a lead who takes no part.
    pub async fn start(urls: &[String]) -> anyhow::Result<Nodes> {
        Nodes::start_as(setup(), urls).await
    }

    pub async fn start_as(setup: Setup, urls: &[String]) -> anyhow::Result<Nodes> {
        let started = urls.iter().map(|url| setup.clone().store(url).start());
        let daemons: Vec<Daemon> = started.collect::<anyhow::Result<_>>()?;
        // The first to join becomes the lead, who may do what others may not.
        announce(&daemons[0], "lead").await?;
        let urls = watch::Sender::new(daemons.iter().map(|daemon| daemon.url().to_owned()).collect());
        Ok(Nodes { daemons, urls })
    }

    /// Three that share a store.
    pub async fn three(url: &str) -> anyhow::Result<Nodes> {
        Nodes::start(&[url.to_owned(), url.to_owned(), url.to_owned()]).await
    }

    pub fn iter(&self) -> impl Iterator<Item = &Daemon> {
        self.daemons.iter()
    }

    pub fn count(&self) -> usize {
        self.daemons.len()
    }

    pub fn addresses(&self) -> Addresses {
        Addresses { urls: self.urls.subscribe() }
    }

    pub fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        self.daemons[at].kill()
    }

    /// Starts it again in its folder, and tells everybody where.
    pub fn restart(&mut self, at: usize) -> anyhow::Result<()> {
        self.daemons[at].restart()?;
        let url = self.daemons[at].url().to_owned();
        self.urls.send_modify(|urls| urls[at] = url);
        Ok(())
    }

    /// Waits until every node answers and takes writes.
    pub async fn ready(&self) -> anyhow::Result<()> {
        for daemon in &self.daemons {
            ready(daemon).await?;
        }
        Ok(())
    }
}

/// Where the nodes are reached now.
#[derive(Clone, Debug)]
pub struct Addresses {
    urls: watch::Receiver<Vec<String>>,
}

impl Addresses {
    pub fn of(&self, at: usize) -> String {
        self.urls.borrow()[at].clone()
    }

    pub fn count(&self) -> usize {
        self.urls.borrow().len()
    }
}

pub async fn announce(daemon: &Daemon, agent: &str) -> anyhow::Result<()> {
    let reply = daemon.post("/agents/announce", json!({"id": agent, "tool": "test", "role": "worker"})).await?;
    ensure!(reply.status.is_success(), "{agent} could not join: {reply:?}");
    Ok(())
}

/// Tells the team something that can be found in the log again.
pub async fn note(daemon: &Daemon, agent: &str, text: &str) -> anyhow::Result<HttpReply> {
    daemon.post("/events", json!({"agent_id": agent, "action": "x.note", "metadata": {"text": text}})).await
}

pub fn code(reply: &HttpReply) -> &str {
    reply.body["code"].as_str().unwrap_or_default()
}

pub fn text(value: &Value) -> anyhow::Result<String> {
    Ok(value.as_str().with_context(|| format!("{value} is no text"))?.to_owned())
}

pub async fn ready(daemon: &Daemon) -> anyhow::Result<()> {
    eventually("the node is ready", async || Ok(readiness(daemon).await.filter(|status| *status == 200))).await?;
    Ok(())
}

pub async fn unready(daemon: &Daemon) -> anyhow::Result<()> {
    eventually("the node says that it cannot write", async || {
        Ok(readiness(daemon).await.filter(|status| *status == 503))
    })
    .await?;
    Ok(())
}

async fn readiness(daemon: &Daemon) -> Option<u16> {
    Some(daemon.get("/readyz").await.ok()?.status.as_u16())
}

/// As the owner of the node's folder.
pub async fn as_person(daemon: &Daemon, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<HttpReply> {
    let request = daemon.request(method, path).bearer_auth(daemon.person_key()?);
    read(match body {
        Some(body) => request.json(&body),
        None => request,
    })
    .await
}

/// The nodes as one of them sees them.
pub async fn seen_by(daemon: &Daemon) -> anyhow::Result<Vec<Value>> {
    let status = daemon.get("/status").await?;
    ensure!(status.status.is_success(), "{status:?}");
    Ok(status.body["nodes"].as_array().context("no nodes")?.clone())
}

/// The process that has this duty, as one node sees it.
pub async fn holder_of(daemon: &Daemon, duty: &str) -> anyhow::Result<Option<u64>> {
    let nodes = seen_by(daemon).await?;
    let holder =
        nodes.iter().find(|node| node["leader_roles"].as_array().is_some_and(|duties| duties.contains(&json!(duty))));
    Ok(holder.and_then(|node| node["pid"].as_u64()))
}

/// Waits until all duties are with others than this process; how long that took.
pub async fn duties_leave(asked: &Daemon, pid: u32) -> anyhow::Result<Duration> {
    let watch = Stopwatch::start();
    eventually("the duties are taken up by another node", async || {
        for duty in ["sweeper", "timers", "effects", "upkeep"] {
            match holder_of(asked, duty).await? {
                Some(holder) if holder != u64::from(pid) => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(()))
    })
    .await?;
    Ok(watch.elapsed())
}

/// Waits until nobody has a duty.
pub async fn duties_rest(asked: &Daemon) -> anyhow::Result<()> {
    eventually("nobody has a duty", async || {
        for duty in ["sweeper", "timers", "effects", "upkeep"] {
            if holder_of(asked, duty).await?.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

/// A client that gives up on a node that does not answer.
pub fn impatient(limit: Duration) -> anyhow::Result<Impatient> {
    Ok(Impatient { http: client()?, limit })
}

#[derive(Clone, Debug)]
pub struct Impatient {
    http: reqwest::Client,
    limit: Duration,
}

impl Impatient {
    pub async fn send(&self, method: Method, url: String, key: &str, body: &Value) -> anyhow::Result<HttpReply> {
        read(self.request(method, url).header("Idempotency-Key", key).json(body)).await
    }

    pub fn request(&self, method: Method, url: String) -> RequestBuilder {
        self.http.request(method, url).timeout(self.limit)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "measures the program under test; there is no clock to inject")]
    pub fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Shared by the tasks of a test.
pub type Shared<T> = Arc<std::sync::Mutex<T>>;

pub fn lock<T>(shared: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
