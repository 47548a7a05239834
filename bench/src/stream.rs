//! Event streams over sockets: 200 connections that read everything while others write.

use std::io::BufRead;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::Plan;
use crate::daemon::Daemon;
use crate::http::{self, Connection};
use crate::report::{Figure, Report};
use crate::rest::HttpClient;
use crate::sample::closed_loop;
use crate::stopwatch::Stopwatch;

pub(crate) const STREAMS: usize = 200;
const WRITERS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(plan, report))
}

async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let daemon = Daemon::start(scratch.path()).await?;
    daemon.announce(WRITERS).await?;
    let begun = head(daemon.address).await?;
    // Readers learn the last event that they have to wait for when the writers are done.
    let (target, _) = watch::channel(None);
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(tokio::spawn(Stream::open(daemon.address).await?.read(target.subscribe())));
    }
    let mut writers = Vec::new();
    for at in 0..WRITERS {
        writers.push(HttpClient::creating(daemon.address, at).await?);
    }
    let watch = Stopwatch::start();
    let written = closed_loop(&mut writers, plan.steady).await?;
    let last = head(daemon.address).await?;
    target.send_replace(Some(last));
    let seen: Vec<u64> = join_all(streams).await.into_iter().map(|seen| seen.unwrap_or(0)).collect();
    let elapsed = watch.elapsed();

    let (delivered, expected) = (seen.iter().sum::<u64>(), (last - begun) * STREAMS as u64);
    let name = format!("{STREAMS} event streams");
    report.add(Figure::new(format!("{name}: events written beside them"), written.per_second, "/s"));
    report.add(Figure::new(format!("{name}: deliveries"), delivered as f64 / elapsed.as_secs_f64(), "/s"));
    let share = 100.0 * delivered as f64 / expected as f64;
    report.add(Figure::new(format!("{name}: delivered, in order and once"), share, "%").at_least(100.0));
    daemon.stop()
}

/// The newest seq of the log.
pub(crate) async fn head(address: SocketAddr) -> anyhow::Result<u64> {
    let mut connection = Connection::open(address).await?;
    let reply = connection.ask(&http::request("GET", "/status", None)).await?;
    let status: serde_json::Value = serde_json::from_slice(&reply.body)?;
    status["event_count"].as_u64().context("the status has no event count")
}

pub(crate) struct Stream {
    socket: TcpStream,
    buffer: Vec<u8>,
    last: Option<u64>,
    count: u64,
    broken: bool,
}

impl Stream {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Stream> {
        let request = http::request("GET", "/events/stream", None);
        let (socket, buffer) = Connection::open(address).await?.follow(&request, 200).await?;
        Ok(Stream { socket, buffer, last: None, count: 0, broken: false })
    }

    /// Reads until the target is reached or nothing comes for too long; how many events came in order.
    pub(crate) async fn read(mut self, mut target: watch::Receiver<Option<u64>>) -> u64 {
        loop {
            self.scan();
            let wanted = *target.borrow_and_update();
            if self.broken || wanted.is_some_and(|wanted| self.last.is_some_and(|last| last >= wanted)) {
                return self.count;
            }
            let more = async {
                tokio::select! {
                    read = self.socket.read_buf(&mut self.buffer) => matches!(read, Ok(1..)),
                    changed = target.changed() => changed.is_ok(),
                }
            };
            if !tokio::time::timeout(PATIENCE, more).await.unwrap_or(false) {
                return self.count;
            }
        }
    }

    /// The whole lines that have come since; `None` once the stream has ended.
    pub(crate) async fn lines(&mut self) -> Option<Vec<Vec<u8>>> {
        loop {
            if let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let whole = std::mem::replace(&mut self.buffer, rest);
                return Some(whole.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect());
            }
            if !matches!(self.socket.read_buf(&mut self.buffer).await, Ok(1..)) {
                return None;
            }
        }
    }

    /// Counts the events of the whole lines that have come.
    fn scan(&mut self) {
        let mut rest = &self.buffer[..];
        loop {
            let line = rest;
            let read = rest.skip_until(b'\n').unwrap_or(0);
            let line = &line[..read];
            if !line.ends_with(b"\n") {
                let keep = line.len();
                let done = self.buffer.len() - keep;
                self.buffer.drain(..done);
                return;
            }
            if let Some(id) = line.strip_prefix(b"id: ") {
                self.count += 1;
                let seq = std::str::from_utf8(id).ok().and_then(|id| id.trim().rsplit_once(':')?.1.parse().ok());
                self.broken |= seq.is_none() || self.last.is_some_and(|last| seq != Some(last + 1));
                self.last = seq;
            }
        }
    }
}
