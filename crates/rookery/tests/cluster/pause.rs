//! A node that is paused for longer than its lease, under load, like a machine that sleeps or lacks CPU time.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::postgres::Server;
use rookery_testkit::wait::eventually;
use tokio::task::JoinHandle;

use crate::checker::read_common_log;
use crate::load::{AnswerTimeout, Load};
use crate::nodes::{Addresses, Nodes, Stopwatch, announce, nodes_seen_by, setup, timeout_client, wait_for_take_over};
use crate::recorder::Recorder;

/// A lease of six seconds, checked every two seconds, after at most five seconds for a head lock of the paused node.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(17);
/// The database ends a transaction whose client is silent for five seconds.
const HEAD_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The heartbeat timeout of agents.
const OFFLINE_AFTER: &str = "3s";
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_node_blocks_no_other_and_resumes() -> anyhow::Result<()> {
    // A private server, without transactions of other tests.
    let server = Server::start()?;
    let limits = setup().env("ROOKERY_OFFLINE_AFTER", OFFLINE_AFTER);
    let nodes = Nodes::start_as(limits, &[server.url(), server.url(), server.url()]).await?;
    let recorders = Recorder::start_everywhere(&nodes.addresses());
    let heartbeats = [
        // Sends heartbeats to the first node only, and so is not heard while that node is paused.
        HeartbeatSender::start(&nodes, "faithful", [0].as_slice()).await?,
        // Sends heartbeats to the first node, and to another one when there is no answer.
        HeartbeatSender::start(&nodes, "mover", [0, 1, 2].as_slice()).await?,
    ];
    let mut load = Load::start(&nodes, 9, AnswerTimeout::SHORT).await?;
    load.wait_for_writes(0..3, 20).await?;
    let pid = nodes[0].pid().context("the node does not run")?;
    pause_with_head_lock(&nodes[0], &server).await?;
    let watch = Stopwatch::start();
    load.wait_for_writes([1, 2], 5).await?;
    ensure!(watch.elapsed() < HEAD_LOCK_TIMEOUT, "the head lock was held for {:?}", watch.elapsed());
    let elapsed = wait_for_take_over(&nodes[1], pid).await?;
    ensure!(elapsed < TAKE_OVER_TIMEOUT, "the leader roles had no holder for {elapsed:?}");
    load.wait_for_writes([1, 2], 20).await?;
    nodes[0].resume()?;
    let watch = Stopwatch::start();
    load.wait_for_writes(0..3, 20).await?;
    ensure!(watch.elapsed() < Duration::from_secs(20), "the node resumed after {:?}", watch.elapsed());
    wait_until_online(&nodes, pid).await?;
    for sender in &heartbeats {
        sender.wait_for_beats(10).await?;
    }
    let record = load.stop().await?;
    let log = read_common_log(&nodes, recorders).await?;
    record.check(&log)?;
    let expired: Vec<_> = log.events.iter().filter(|event| event["metadata"].get("evidence").is_some()).collect();
    ensure!(expired.is_empty(), "agents were declared offline because a node was paused: {expired:?}");
    Ok(())
}

/// Pauses the node while it holds the head lock, so that no node can write before the database takes the lock away.
async fn pause_with_head_lock(daemon: &Daemon, server: &Server) -> anyhow::Result<()> {
    // A writer holds the head lock between the two round trips of a batch, usually for one or two milliseconds.
    let held = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rookery writer'
        AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '150 ms'";
    eventually("a pause while the node holds the head lock", async || {
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

/// Waits until all nodes, including itself, list the node as online.
async fn wait_until_online(nodes: &Nodes, pid: u32) -> anyhow::Result<()> {
    for asked in nodes.iter() {
        eventually("the node to be online again", async || {
            let seen = nodes_seen_by(asked).await?;
            let found = seen.iter().find(|node| node["pid"].as_u64() == Some(pid.into()));
            Ok(found.filter(|node| node["state"] == "online").map(drop))
        })
        .await?;
    }
    Ok(())
}

/// An agent that sends heartbeats to the first of its nodes that answers.
struct HeartbeatSender {
    beats: tokio::sync::watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl HeartbeatSender {
    async fn start(nodes: &Nodes, agent: &str, at: &[usize]) -> anyhow::Result<HeartbeatSender> {
        announce(&nodes[at[0]], agent).await?;
        let (counted, beats) = tokio::sync::watch::channel(0);
        let (addresses, agent, at) = (nodes.addresses(), agent.to_owned(), at.to_vec());
        let http = timeout_client(Duration::from_secs(1))?;
        let task = tokio::spawn(async move {
            loop {
                for at in &at {
                    if http.send_heartbeat(&addresses, *at, &agent).await.is_ok() {
                        counted.send_modify(|count| *count += 1);
                        break;
                    }
                }
                tokio::time::sleep(HEARTBEAT_INTERVAL).await;
            }
        });
        let sender = HeartbeatSender { beats, task };
        sender.wait_for_beats(1).await?;
        Ok(sender)
    }

    /// Waits for this many more answered heartbeats.
    async fn wait_for_beats(&self, more: usize) -> anyhow::Result<()> {
        let mut beats = self.beats.clone();
        let enough = *beats.borrow() + more;
        rookery_testkit::wait::within("answers to heartbeats", beats.wait_for(|beats| *beats >= enough)).await??;
        Ok(())
    }
}

impl Drop for HeartbeatSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl crate::nodes::TimeoutClient {
    async fn send_heartbeat(&self, addresses: &Addresses, at: usize, agent: &str) -> anyhow::Result<()> {
        let url = format!("{}/agents/{agent}/heartbeat", addresses.of(at));
        let reply = read(self.request(Method::POST, url)).await?;
        ensure!(reply.status == 200, "{reply:?}");
        Ok(())
    }
}
