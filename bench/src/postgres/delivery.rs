//! The delay from a request at one node to the event in a stream of another: commit, notification, reading the log.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::sync::mpsc;

use super::Databases;
use crate::http::{self, Connection};
use crate::report::{Figure, Report};
use crate::rest::Rest;
use crate::sample::percentile;
use crate::stopwatch::Stopwatch;
use crate::{Plan, say, stream, work};

/// The interval of requests, which leaves the machine idle in between.
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(plan: &Plan, databases: &Databases, report: &mut Report) -> anyhow::Result<()> {
    // Readers must not wait for the client that writes.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(plan, databases, report))
}

async fn measure(plan: &Plan, databases: &Databases, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let rest = Rest::shared(scratch.path(), &databases.create("delivery")?, 2, 1).await?;
    let [asked, other] = &rest.daemons[..] else { bail!("two daemons were asked for") };
    let begun = Stopwatch::start();
    let (own, others) = (watch(asked.address, begun).await?, watch(other.address, begun).await?);
    let rounds = u32::try_from(plan.rounds)?;
    let sent = create_tasks(asked.address, begun, plan.steady * rounds / 3).await?;
    let (own, others) = (delays(own, &sent).await?, delays(others, &sent).await?);
    let answered = sent.values().map(|sent| sent.answered - sent.asked).collect();
    let rate = format!("{} requests/s", 1_000 / REQUEST_INTERVAL.as_millis());
    add(report, &format!("answer of node A, {rate}"), answered);
    add(report, &format!("from asking node A to its own stream, {rate}"), own);
    add(report, &format!("from asking node A to a stream of node B, {rate}"), others);
    say::note("delivery between nodes measured");
    Ok(())
}

fn add(report: &mut Report, name: &str, mut nanos: Vec<u64>) {
    nanos.sort_unstable();
    report.add(Figure::new(format!("{name}: p50"), percentile(&nanos, 0.5) / 1e6, "ms"));
    report.add(Figure::new(format!("{name}: p99"), percentile(&nanos, 0.99) / 1e6, "ms"));
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    asked: u64,
    answered: u64,
}

/// Creates tasks at a steady pace. Returns the times of each request and answer.
async fn create_tasks(
    address: SocketAddr,
    begun: Stopwatch,
    length: Duration,
) -> anyhow::Result<HashMap<String, Sent>> {
    let request = http::request("POST", "/tasks", Some(&work::body(&work::agent(0))));
    let mut connection = Connection::open(address).await?;
    let mut ticks = tokio::time::interval(REQUEST_INTERVAL);
    let (mut sent, last) = (HashMap::new(), begun.elapsed() + length);
    while begun.elapsed() < last {
        ticks.tick().await;
        let asked = begun.nanos();
        let reply = connection.ask(&request).await?;
        let answered = begun.nanos();
        anyhow::ensure!(reply.status == 201, "answered with {}", reply.status);
        let task: serde_json::Value = serde_json::from_slice(&reply.body)?;
        let id = task["id"].as_str().context("the task has no id")?;
        sent.insert(id.to_owned(), Sent { asked, answered });
    }
    Ok(sent)
}

/// Follows a stream. Returns the time at which each task appeared.
async fn watch(address: SocketAddr, begun: Stopwatch) -> anyhow::Result<mpsc::UnboundedReceiver<(String, u64)>> {
    let mut stream = stream::open(address).await?;
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(lines) = stream.lines().await {
            let now = begun.nanos();
            for id in lines.iter().filter_map(|line| task_of(line)) {
                if sender.send((id, now)).is_err() {
                    return;
                }
            }
        }
    });
    Ok(receiver)
}

fn task_of(line: &[u8]) -> Option<String> {
    let event: serde_json::Value = serde_json::from_slice(line.strip_prefix(b"data: ")?).ok()?;
    Some(event["task_id"].as_str()?.to_owned())
}

/// The delay of each task.
async fn delays(
    mut appeared: mpsc::UnboundedReceiver<(String, u64)>,
    sent: &HashMap<String, Sent>,
) -> anyhow::Result<Vec<u64>> {
    let mut ages = Vec::with_capacity(sent.len());
    while ages.len() < sent.len() {
        let next =
            tokio::time::timeout(EVENT_TIMEOUT, appeared.recv()).await.context("timeout of an event on a stream")?;
        let (id, at) = next.context("a stream has ended")?;
        ages.extend(sent.get(&id).map(|sent| at - sent.asked));
    }
    Ok(ages)
}
