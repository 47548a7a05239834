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

/// A daemon that does not watch files, since these tests change none.
pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).arg("--no-watch")
}

/// The nodes in the order of their start. The first one gets all leader roles.
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
    /// Starts a node for each store URL, and registers a lead that writes nothing.
    pub async fn start(urls: &[String]) -> anyhow::Result<Nodes> {
        Nodes::start_as(setup(), urls).await
    }

    pub async fn start_as(setup: Setup, urls: &[String]) -> anyhow::Result<Nodes> {
        let started = urls.iter().map(|url| setup.clone().store(url).start());
        let daemons: Vec<Daemon> = started.collect::<anyhow::Result<_>>()?;
        // The first agent becomes the lead, which has more rights.
        announce(&daemons[0], "lead").await?;
        let urls = watch::Sender::new(daemons.iter().map(|daemon| daemon.url().to_owned()).collect());
        Ok(Nodes { daemons, urls })
    }

    /// Starts three nodes that share a store.
    pub async fn start_three(url: &str) -> anyhow::Result<Nodes> {
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

    /// Restarts a node in its folder, and publishes its new address.
    pub fn restart(&mut self, at: usize) -> anyhow::Result<()> {
        self.daemons[at].restart()?;
        let url = self.daemons[at].url().to_owned();
        self.urls.send_modify(|urls| urls[at] = url);
        Ok(())
    }

    /// Waits until every node accepts writes.
    pub async fn wait_until_ready(&self) -> anyhow::Result<()> {
        for daemon in &self.daemons {
            wait_until_ready(daemon).await?;
        }
        Ok(())
    }
}

/// The current addresses of the nodes.
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

/// Registers an agent.
pub async fn announce(daemon: &Daemon, agent: &str) -> anyhow::Result<()> {
    let reply = daemon.post("/agents/announce", json!({"id": agent, "tool": "test", "role": "worker"})).await?;
    ensure!(reply.status.is_success(), "{agent} could not register: {reply:?}");
    Ok(())
}

/// Appends a note with a text that can be found in the log.
pub async fn note(daemon: &Daemon, agent: &str, text: &str) -> anyhow::Result<HttpReply> {
    daemon.post("/events", json!({"agent_id": agent, "action": "x.note", "metadata": {"text": text}})).await
}

pub fn code(reply: &HttpReply) -> &str {
    reply.body["code"].as_str().unwrap_or_default()
}

pub fn text(value: &Value) -> anyhow::Result<String> {
    Ok(value.as_str().with_context(|| format!("{value} is not a text"))?.to_owned())
}

/// Waits until a node accepts writes.
pub async fn wait_until_ready(daemon: &Daemon) -> anyhow::Result<()> {
    eventually("the node to be ready", async || Ok(readiness(daemon).await.filter(|status| *status == 200))).await?;
    Ok(())
}

/// Waits until a node reports that it cannot write.
pub async fn wait_until_unready(daemon: &Daemon) -> anyhow::Result<()> {
    eventually("the node to report that it cannot write", async || {
        Ok(readiness(daemon).await.filter(|status| *status == 503))
    })
    .await?;
    Ok(())
}

async fn readiness(daemon: &Daemon) -> Option<u16> {
    Some(daemon.get("/readyz").await.ok()?.status.as_u16())
}

/// Sends a request as the person that owns the node's folder.
pub async fn send_as_person(
    daemon: &Daemon,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> anyhow::Result<HttpReply> {
    let request = daemon.request(method, path).bearer_auth(daemon.person_key()?);
    read(match body {
        Some(body) => request.json(&body),
        None => request,
    })
    .await
}

/// The list of nodes in the status of one of them.
pub async fn nodes_seen_by(daemon: &Daemon) -> anyhow::Result<Vec<Value>> {
    let status = daemon.get("/status").await?;
    ensure!(status.status.is_success(), "{status:?}");
    Ok(status.body["nodes"].as_array().context("no nodes")?.clone())
}

/// The process id of the holder of a leader role, in the status of one node.
pub async fn leader_of(daemon: &Daemon, role: &str) -> anyhow::Result<Option<u64>> {
    let nodes = nodes_seen_by(daemon).await?;
    let holder =
        nodes.iter().find(|node| node["leader_roles"].as_array().is_some_and(|roles| roles.contains(&json!(role))));
    Ok(holder.and_then(|node| node["pid"].as_u64()))
}

/// Waits until other processes than this one hold all leader roles, and returns the time that it took.
pub async fn wait_for_take_over(asked: &Daemon, pid: u32) -> anyhow::Result<Duration> {
    let watch = Stopwatch::start();
    eventually("another node to take over the leader roles", async || {
        for role in ["sweeper", "timers", "effects", "upkeep"] {
            match leader_of(asked, role).await? {
                Some(holder) if holder != u64::from(pid) => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(()))
    })
    .await?;
    Ok(watch.elapsed())
}

/// Waits until no node holds a leader role.
pub async fn wait_for_no_leader(asked: &Daemon) -> anyhow::Result<()> {
    eventually("all leader roles to be free", async || {
        for role in ["sweeper", "timers", "effects", "upkeep"] {
            if leader_of(asked, role).await?.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

/// Creates a client with a timeout for every request.
pub fn timeout_client(limit: Duration) -> anyhow::Result<TimeoutClient> {
    Ok(TimeoutClient { http: client()?, limit })
}

#[derive(Clone, Debug)]
pub struct TimeoutClient {
    http: reqwest::Client,
    limit: Duration,
}

impl TimeoutClient {
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

/// A value that the tasks of a test share.
pub type Shared<T> = Arc<std::sync::Mutex<T>>;

pub fn lock<T>(shared: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
