//! `kill -9` of a node under load.

use std::time::Duration;

use anyhow::ensure;
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait::eventually;

use crate::checker::read_common_log;
use crate::load::{AnswerTimeout, Load};
use crate::nodes::{Nodes, leader_of, nodes_seen_by, wait_for_take_over};
use crate::recorder::Recorder;

const ROUNDS: usize = 2;
/// A lease of six seconds, checked every two seconds, with room for a busy machine.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_of_node_loses_nothing_and_moves_leader_roles() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let mut nodes = Nodes::start_three(&schema.url()).await?;
    let recorders = Recorder::start_everywhere(&nodes.addresses());
    let mut load = Load::start(&nodes, 9, AnswerTimeout::SHORT).await?;
    load.wait_for_writes(0..3, 20).await?;
    for _ in 0..ROUNDS {
        // The node that holds the leader roles now.
        let asked = &nodes[0];
        let pid = eventually("a node to hold the leader roles", async || leader_of(asked, "sweeper").await).await?;
        let victim = (0..3).find(|at| nodes[*at].pid().map(u64::from) == Some(pid));
        let (victim, pid) = (victim.unwrap_or_default(), u32::try_from(pid)?);
        let (next, last) = ((victim + 1) % 3, (victim + 2) % 3);
        nodes.kill(victim)?;
        load.wait_for_writes([next, last], 20).await?;
        let elapsed = wait_for_take_over(&nodes[next], pid).await?;
        ensure!(elapsed < TAKE_OVER_TIMEOUT, "the leader roles had no holder for {elapsed:?}");
        nodes.restart(victim)?;
        load.wait_for_writes(0..3, 20).await?;
        wait_until_replaced(&nodes, last, victim, pid).await?;
    }
    let record = load.stop().await?;
    let log = read_common_log(&nodes, recorders).await?;
    record.check(&log)?;
    ensure!(record.unanswered > 0, "no node was killed under load");
    ensure!(record.acknowledged() > 200, "only {} writes", record.acknowledged());
    Ok(())
}

/// Waits until the restarted node has replaced the killed one in the list of nodes.
async fn wait_until_replaced(nodes: &Nodes, asked: usize, restarted: usize, killed: u32) -> anyhow::Result<()> {
    eventually("the killed node to be replaced", async || {
        let seen: Vec<_> = nodes_seen_by(&nodes[asked]).await?.iter().map(|node| node["pid"].as_u64()).collect();
        let new = nodes[restarted].pid().map(u64::from);
        Ok((seen.len() == nodes.count() && seen.contains(&new) && !seen.contains(&Some(killed.into()))).then_some(()))
    })
    .await
}
