//! The real daemon, asked over REST.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use super::MOST;
use crate::daemon::Daemon;
use crate::http::{self, Connection};
use crate::sample::{Client, Slice, closed_loop};
use crate::work;

#[derive(Debug)]
pub(super) struct Rest {
    daemon: Daemon,
}

/// A client with a connection of its own and one request that it repeats.
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
    pub(super) async fn start(folder: &Path) -> anyhow::Result<Rest> {
        let root = folder.join("project");
        std::fs::create_dir(&root)?;
        let daemon = Daemon::start(&root).await?;
        daemon.announce(MOST).await?;
        Ok(Rest { daemon })
    }

    pub(super) async fn clients(&self, count: usize) -> anyhow::Result<Vec<HttpClient>> {
        let mut clients = Vec::new();
        for at in 0..count {
            clients.push(HttpClient::creating(self.daemon.address, at).await?);
        }
        Ok(clients)
    }

    /// A closed loop, with what the daemon counted meanwhile.
    pub(super) async fn slice(&self, crowd: &mut [HttpClient], length: Duration) -> anyhow::Result<Slice> {
        let before = Counts::read(self.daemon.address).await?;
        let slice = closed_loop(crowd, length).await?;
        let after = Counts::read(self.daemon.address).await?;
        let batch = (after.events - before.events) / (after.batches - before.batches).max(1.0);
        Ok(Slice { batch: Some(batch), ..slice })
    }
}

/// What the daemon's writer has done so far.
struct Counts {
    batches: f64,
    events: f64,
}

impl Counts {
    async fn read(address: SocketAddr) -> anyhow::Result<Counts> {
        let mut connection = Connection::open(address).await?;
        let reply = connection.ask(&http::request("GET", "/metrics", None)).await?;
        let text = String::from_utf8(reply.body)?;
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|count| count.trim().parse().ok()).with_context(|| format!("{name} is not counted"))
        };
        Ok(Counts { batches: count("rookery_store_batches_total")?, events: count("rookery_store_events_total")? })
    }
}
