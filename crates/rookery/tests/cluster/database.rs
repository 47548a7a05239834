//! A power cut of the database's machine under load.

use std::collections::BTreeSet;

use anyhow::ensure;
use rookery_testkit::postgres::Server;

use crate::checker::one_log;
use crate::load::{Load, Waits};
use crate::nodes::{Nodes, code, unready};
use crate::record::Recorder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_of_the_database_costs_nothing_acknowledged() -> anyhow::Result<()> {
    let mut server = Server::durable()?;
    let nodes = Nodes::three(&server.url()).await?;
    let recorders = Recorder::everywhere(&nodes.addresses());
    let mut load = Load::begin(&nodes, 9, Waits::FOR_AN_ANSWER).await?;
    for _ in 0..2 {
        load.goes_on(0..3, 30).await?;
        server.kill()?;
        for node in nodes.iter() {
            unready(node).await?;
            let read = node.get("/tasks").await?;
            ensure!(read.status == 503 && code(&read) == "STORE_UNAVAILABLE", "{read:?}");
            ensure!(node.get("/healthz").await?.status == 200, "the process is up");
        }
        server.restart()?;
        nodes.ready().await?;
    }
    load.goes_on(0..3, 30).await?;
    let codes: BTreeSet<String> = load.codes().into_keys().collect();
    ensure!(codes.contains("STORE_UNAVAILABLE"), "{codes:?}");
    ensure!(codes.iter().all(|code| ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&code.as_str())), "{codes:?}");
    let book = load.end().await?;
    book.agrees(&one_log(&nodes, recorders).await?)
}
