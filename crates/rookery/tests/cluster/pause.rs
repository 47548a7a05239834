//! A node that is stopped for longer than its lease, under load: as when a machine sleeps or is starved.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::postgres::Server;
use rookery_testkit::wait::eventually;
use tokio::task::JoinHandle;

use crate::checker::one_log;
use crate::load::{Load, Waits};
use crate::nodes::{Addresses, Nodes, Stopwatch, announce, duties_leave, impatient, seen_by, setup};
use crate::record::Recorder;

/// A lease of six seconds and a look every two, after at most five for a head that the stopped node held.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(17);
/// The database ends a transaction that waits for its client for five seconds.
const HEAD_FREE_WITHIN: Duration = Duration::from_secs(10);
/// The silence that is allowed to agents that send heartbeats.
const OFFLINE_AFTER: &str = "3s";
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_node_holds_up_nobody_and_goes_on_by_itself() -> anyhow::Result<()> {
    // Its own: nobody else may have transactions there.
    let server = Server::start()?;
    let limits = setup().env("ROOKERY_OFFLINE_AFTER", OFFLINE_AFTER);
    let nodes = Nodes::start_as(limits, &[server.url(), server.url(), server.url()]).await?;
    let recorders = Recorder::everywhere(&nodes.addresses());
    let beating = [
        // It calls the first node and nobody else; while that is stopped, nobody can hear it.
        Beating::start(&nodes, "faithful", [0].as_slice()).await?,
        // It calls the first node too, and goes to another when there is no answer.
        Beating::start(&nodes, "mover", [0, 1, 2].as_slice()).await?,
    ];
    let mut load = Load::begin(&nodes, 9, Waits::BRIEFLY).await?;
    load.goes_on(0..3, 20).await?;
    let pid = nodes[0].pid().context("it does not run")?;
    pause_with_the_head(&nodes[0], &server).await?;
    let watch = Stopwatch::start();
    load.goes_on([1, 2], 5).await?;
    ensure!(watch.elapsed() < HEAD_FREE_WITHIN, "the head was held for {:?}", watch.elapsed());
    let taken = duties_leave(&nodes[1], pid).await?;
    ensure!(taken < TAKEN_UP_WITHIN, "the duties were without a node for {taken:?}");
    load.goes_on([1, 2], 20).await?;
    nodes[0].resume()?;
    let watch = Stopwatch::start();
    load.goes_on(0..3, 20).await?;
    ensure!(watch.elapsed() < Duration::from_secs(20), "it came back after {:?}", watch.elapsed());
    is_here(&nodes, pid).await?;
    for beating in &beating {
        beating.goes_on(10).await?;
    }
    let book = load.end().await?;
    let log = one_log(&nodes, recorders).await?;
    book.agrees(&log)?;
    let expired: Vec<_> = log.events.iter().filter(|event| event["metadata"].get("evidence").is_some()).collect();
    ensure!(expired.is_empty(), "agents were declared offline because of our own absence: {expired:?}");
    Ok(())
}

/// Stops the node at a moment at which it holds the head, so that nobody can write before that is taken from it.
async fn pause_with_the_head(daemon: &Daemon, server: &Server) -> anyhow::Result<()> {
    // Whoever is between the two exchanges of a batch holds the head, usually for a millisecond or two.
    let held = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rookery writer'
        AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '150 ms'";
    eventually("it is stopped while it holds the head", async || {
        daemon.pause()?;
        for _ in 0..10 {
            if server.psql(held)?.trim() != "0" {
                return Ok(Some(()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        daemon.resume()?;
        Ok(None)
    })
    .await
}

/// The node is on the list again as one that is here, and so it is by its own word.
async fn is_here(nodes: &Nodes, pid: u32) -> anyhow::Result<()> {
    for asked in nodes.iter() {
        eventually("the node is here again", async || {
            let seen = seen_by(asked).await?;
            let found = seen.iter().find(|node| node["pid"].as_u64() == Some(pid.into()));
            Ok(found.filter(|node| node["state"] == "online").map(drop))
        })
        .await?;
    }
    Ok(())
}

/// An agent that sends heartbeats, at the first of its nodes that answers.
struct Beating {
    beats: tokio::sync::watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Beating {
    async fn start(nodes: &Nodes, agent: &str, at: &[usize]) -> anyhow::Result<Beating> {
        announce(&nodes[at[0]], agent).await?;
        let (counted, beats) = tokio::sync::watch::channel(0);
        let (addresses, agent, at) = (nodes.addresses(), agent.to_owned(), at.to_vec());
        let http = impatient(Duration::from_secs(1))?;
        let task = tokio::spawn(async move {
            loop {
                for at in &at {
                    if http.beat(&addresses, *at, &agent).await.is_ok() {
                        counted.send_modify(|count| *count += 1);
                        break;
                    }
                }
                tokio::time::sleep(HEARTBEAT_INTERVAL).await;
            }
        });
        let beating = Beating { beats, task };
        beating.goes_on(1).await?;
        Ok(beating)
    }

    async fn goes_on(&self, more: usize) -> anyhow::Result<()> {
        let mut beats = self.beats.clone();
        let enough = *beats.borrow() + more;
        rookery_testkit::wait::within("heartbeats are answered", beats.wait_for(|beats| *beats >= enough)).await??;
        Ok(())
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl crate::nodes::Impatient {
    async fn beat(&self, addresses: &Addresses, at: usize, agent: &str) -> anyhow::Result<()> {
        let url = format!("{}/agents/{agent}/heartbeat", addresses.of(at));
        let reply = read(self.request(Method::POST, url)).await?;
        ensure!(reply.status == 200, "{reply:?}");
        Ok(())
    }
}
