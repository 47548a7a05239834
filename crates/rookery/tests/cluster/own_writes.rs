//! A node's answers reflect the writes that it acknowledged, even under load from other nodes.

use anyhow::ensure;
use futures_util::future::try_join_all;
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::postgres::Schema;
use serde_json::json;

use crate::load::{AnswerTimeout, Load};
use crate::nodes::{Nodes, announce, code, send_as_person, text};

const CLIENTS: usize = 8;
const AGENTS_PER_CLIENT: usize = 15;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registration_under_load_counts_for_next_call_on_same_node() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    let mut load = Load::start(&nodes, 6, AnswerTimeout::LONG).await?;
    load.wait_for_writes(0..2, 10).await?;
    try_join_all((0..CLIENTS).map(|client| register_agents(&nodes[client % nodes.count()], client))).await?;
    load.stop().await?;
    Ok(())
}

async fn register_agents(node: &Daemon, client: usize) -> anyhow::Result<()> {
    for number in 0..AGENTS_PER_CLIENT {
        let agent = format!("agent-{client}-{number}");
        announce(node, &agent).await?;
        let beat = node.post(&format!("/agents/{agent}/heartbeat"), json!({})).await?;
        ensure!(beat.status == 200, "heartbeat of {agent}: {beat:?}");
        bind_to_token(node, &agent).await?;
        let asserted = node.post(&format!("/agents/{agent}/heartbeat"), json!({})).await?;
        ensure!(code(&asserted) == "CREDENTIAL_REQUIRED", "asserted heartbeat of {agent}: {asserted:?}");
    }
    Ok(())
}

/// Has the agent register again with a token, so that its id needs a credential from then on.
async fn bind_to_token(node: &Daemon, agent: &str) -> anyhow::Result<()> {
    let created = send_as_person(node, Method::POST, "/admin/tokens", Some(json!({"agent": agent}))).await?;
    let token = text(&created.body["token"])?;
    let profile = json!({"id": agent, "tool": "test", "role": "worker"});
    let registered = read(node.request(Method::POST, "/agents/announce").bearer_auth(token).json(&profile)).await?;
    ensure!(registered.status == 201, "{agent} could not register again: {registered:?}");
    Ok(())
}
