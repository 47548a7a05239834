//! Daemons over one store, with REST clients.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::daemon::Daemon;
use crate::http::{self, Connection};
use crate::sample::{Client, Slice, closed_loop};
use crate::work;

/// Every client sends at least one request before the measurement.
const WARM_UP: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) daemons: Vec<Daemon>,
}

/// A client with its own connection, which repeats one request.
#[derive(Debug)]
pub(crate) struct HttpClient {
    connection: Connection,
    request: Vec<u8>,
    expected: u16,
}

impl HttpClient {
    pub(crate) async fn creating(address: SocketAddr, at: usize) -> anyhow::Result<HttpClient> {
        let request = http::request("POST", "/tasks", Some(&work::body(&work::agent(at))));
        Ok(HttpClient { connection: Connection::open(address).await?, request, expected: 201 })
    }

    /// Reads one agent.
    pub(crate) async fn reading(address: SocketAddr, at: usize) -> anyhow::Result<HttpClient> {
        HttpClient::getting(address, &format!("/agents/{}", work::agent(at))).await
    }

    pub(crate) async fn getting(address: SocketAddr, path: &str) -> anyhow::Result<HttpClient> {
        let request = http::request("GET", path, None);
        Ok(HttpClient { connection: Connection::open(address).await?, request, expected: 200 })
    }
}

impl Client for HttpClient {
    async fn act(&mut self) -> anyhow::Result<()> {
        let reply = self.connection.ask(&self.request).await?;
        if reply.status != self.expected {
            bail!("answered with {}: {}", reply.status, String::from_utf8_lossy(&reply.body));
        }
        Ok(())
    }
}

impl Rest {
    /// Starts one daemon on SQLite, with a team of agents.
    pub(crate) async fn start(folder: &Path, agents: usize) -> anyhow::Result<Rest> {
        let daemon = Daemon::start(&project(folder, "sqlite")?).await?;
        daemon.announce(agents).await?;
        Ok(Rest { daemons: vec![daemon] })
    }

    /// Starts daemons on one schema of PostgreSQL, with a team of agents.
    pub(crate) async fn shared(folder: &Path, store: &str, daemons: usize, agents: usize) -> anyhow::Result<Rest> {
        let mut started = Vec::new();
        for at in 0..daemons {
            let root = project(folder, &format!("postgres-{daemons}-{at}"))?;
            started.push(Daemon::start_on(&root, store).await?);
        }
        started.first().context("no daemon was asked for")?.announce(agents).await?;
        Ok(Rest { daemons: started })
    }

    /// Connects clients, spread evenly over the daemons.
    async fn clients(&self, count: usize) -> anyhow::Result<Vec<HttpClient>> {
        let mut clients = Vec::new();
        for (at, daemon) in (0..count).zip(self.daemons.iter().cycle()) {
            clients.push(HttpClient::creating(daemon.address, at).await?);
        }
        Ok(clients)
    }

    /// Runs a closed loop, and reads the daemons' counters. The connections are new each time, since a daemon would close
    /// connections that are idle for a whole round.
    pub(crate) async fn slice(&self, clients: usize, length: Duration) -> anyhow::Result<Slice> {
        let mut crowd = self.clients(clients).await?;
        closed_loop(&mut crowd, WARM_UP).await?;
        let before = self.counts().await?;
        let slice = closed_loop(&mut crowd, length).await?;
        let after = self.counts().await?;
        let batch = (after.events - before.events) / (after.batches - before.batches).max(1.0);
        Ok(Slice { batch: Some(batch), ..slice })
    }

    async fn counts(&self) -> anyhow::Result<Counts> {
        let mut all = Counts { batches: 0.0, events: 0.0 };
        for daemon in &self.daemons {
            let counts = Counts::read(daemon.address).await?;
            all.batches += counts.batches;
            all.events += counts.events;
        }
        Ok(all)
    }
}

fn project(folder: &Path, name: &str) -> anyhow::Result<std::path::PathBuf> {
    let root = folder.join(name);
    std::fs::create_dir(&root)?;
    Ok(root)
}

/// The counters of a daemon's writer.
struct Counts {
    batches: f64,
    events: f64,
}

impl Counts {
    async fn read(address: SocketAddr) -> anyhow::Result<Counts> {
        let mut connection = Connection::open(address).await?;
        let reply = connection.ask(&http::request("GET", "/metrics", None)).await?;
        let text = String::from_utf8(reply.body)?;
        // A writer that has not written yet has no counters.
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.map_or(Some(0.0), |count| count.trim().parse().ok()).with_context(|| format!("{name} is no number"))
        };
        Ok(Counts { batches: count("rookery_store_batches_total")?, events: count("rookery_store_events_total")? })
    }
}
