//! `kill -9` of a node under load.

use std::time::Duration;

use anyhow::ensure;
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait::eventually;

use crate::checker::one_log;
use crate::load::{Load, Waits};
use crate::nodes::{Nodes, duties_leave, holder_of, seen_by};
use crate::record::Recorder;

const ROUNDS: usize = 2;
/// A lease of six seconds and a look every two, with some room for a busy machine.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_costs_nothing_and_its_duties_move() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let mut nodes = Nodes::three(&schema.url()).await?;
    let recorders = Recorder::everywhere(&nodes.addresses());
    let mut load = Load::begin(&nodes, 9, Waits::BRIEFLY).await?;
    load.goes_on(0..3, 20).await?;
    for _ in 0..ROUNDS {
        // The one with the duties, wherever they are by now.
        let asked = &nodes[0];
        let pid = eventually("somebody has the duties", async || holder_of(asked, "sweeper").await).await?;
        let victim = (0..3).find(|at| nodes[*at].pid().map(u64::from) == Some(pid));
        let (victim, pid) = (victim.unwrap_or_default(), u32::try_from(pid)?);
        let (next, last) = ((victim + 1) % 3, (victim + 2) % 3);
        nodes.kill(victim)?;
        load.goes_on([next, last], 20).await?;
        let taken = duties_leave(&nodes[next], pid).await?;
        ensure!(taken < TAKEN_UP_WITHIN, "the duties were without a node for {taken:?}");
        nodes.restart(victim)?;
        load.goes_on(0..3, 20).await?;
        replaced(&nodes, last, victim, pid).await?;
    }
    let book = load.end().await?;
    let log = one_log(&nodes, recorders).await?;
    book.agrees(&log)?;
    ensure!(book.unanswered > 0, "no node was killed at work");
    ensure!(book.acknowledged() > 200, "only {} writes", book.acknowledged());
    Ok(())
}

/// The node that was started again has taken the place of the one that was killed.
async fn replaced(nodes: &Nodes, asked: usize, restarted: usize, killed: u32) -> anyhow::Result<()> {
    eventually("the killed node is replaced", async || {
        let seen: Vec<_> = seen_by(&nodes[asked]).await?.iter().map(|node| node["pid"].as_u64()).collect();
        let new = nodes[restarted].pid().map(u64::from);
        Ok((seen.len() == nodes.count() && seen.contains(&new) && !seen.contains(&Some(killed.into()))).then_some(()))
    })
    .await
}
