//! A crash of the database under load.

use std::collections::BTreeSet;

use anyhow::ensure;
use rookery_testkit::postgres::Server;

use crate::checker::read_common_log;
use crate::load::{AnswerTimeout, Load};
use crate::nodes::{Nodes, code, wait_until_unready};
use crate::recorder::Recorder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_of_database_loses_nothing_acknowledged() -> anyhow::Result<()> {
    let mut server = Server::durable()?;
    let nodes = Nodes::start_three(&server.url()).await?;
    let recorders = Recorder::start_everywhere(&nodes.addresses());
    let mut load = Load::start(&nodes, 9, AnswerTimeout::LONG).await?;
    for _ in 0..2 {
        load.wait_for_writes(0..3, 30).await?;
        server.kill()?;
        for node in nodes.iter() {
            wait_until_unready(node).await?;
            let read = node.get("/tasks").await?;
            ensure!(read.status == 503 && code(&read) == "STORE_UNAVAILABLE", "{read:?}");
            ensure!(node.get("/healthz").await?.status == 200, "the process must be up");
        }
        server.restart()?;
        nodes.wait_until_ready().await?;
    }
    load.wait_for_writes(0..3, 30).await?;
    let codes: BTreeSet<String> = load.codes().into_keys().collect();
    ensure!(codes.contains("STORE_UNAVAILABLE"), "{codes:?}");
    ensure!(codes.iter().all(|code| ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&code.as_str())), "{codes:?}");
    let record = load.stop().await?;
    record.check(&read_common_log(&nodes, recorders).await?)
}
