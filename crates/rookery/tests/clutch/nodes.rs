//! Several daemons over one PostgreSQL: whoever joins late, resumes, or moves to another node sees the same sequence.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::postgres::Schema;
use rookery_testkit::websocket::Placed;

use crate::team::{announce, follow, note, pages, setup};

fn start(schema: &Schema) -> Daemon {
    setup().store(schema.url()).start().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_shows_the_same_sequence() {
    let schema = Schema::new().unwrap();
    let nodes = [start(&schema), start(&schema)];
    announce(&nodes[0], "ken").await;
    announce(&nodes[1], "mia").await;
    let mut here = follow(&nodes[0], "?after=0").await;
    let mut there = follow(&nodes[1], "?after=0&batch=0").await;
    let mut filtered = follow(&nodes[1], "?after=0&agent_id=ken").await;
    for number in 0..30 {
        note(&nodes[number % 2], if number % 3 == 0 { "ken" } else { "mia" }, number).await;
    }
    let (listed, _) = pages(&nodes[0], "/messages?limit=13").await;
    assert_eq!(pages(&nodes[1], "/messages?limit=1000").await.0, listed);
    assert_eq!(here.take(listed.len()).await.unwrap(), listed);
    // It moves to the other node on the way.
    let mut moving = there.take(listed.len() / 2).await.unwrap();
    drop(there);
    let last = moving.last().unwrap().seq;
    let mut moved = follow(&nodes[0], &format!("?after={last}")).await;
    moving.extend(moved.take(listed.len() - moving.len()).await.unwrap());
    assert_eq!(moving, listed);
    let by_ken: Vec<Placed> =
        listed.iter().filter(|placed| placed.message["from"]["agent_id"] == "agent:ken").cloned().collect();
    assert_eq!(filtered.take(by_ken.len()).await.unwrap(), by_ken);
    assert_eq!(pages(&nodes[1], "/messages?agent_id=ken&limit=5").await.0, by_ken);
}
