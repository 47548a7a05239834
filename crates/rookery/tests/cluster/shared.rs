//! State outside of the log that all nodes share: tokens and large bodies.

use std::time::Duration;

use anyhow::ensure;
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait::eventually;
use serde_json::json;

use crate::nodes::{Nodes, Stopwatch, announce, code, note, send_as_person, text};

/// A notification takes milliseconds. In case one is lost, nodes also poll every second.
const SHARING_TIMEOUT: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_revoked_at_one_node_is_rejected_at_others() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    announce(&nodes[0], "anna").await?;
    for _ in 0..5 {
        let made = send_as_person(&nodes[0], Method::POST, "/admin/tokens", Some(json!({"agent": "anna"}))).await?;
        ensure!(made.status == 201, "{made:?}");
        let (id, secret) = (text(&made.body["id"])?, text(&made.body["token"])?);
        wait_for_status(&nodes[1], &secret, 200).await?;
        let revoked = send_as_person(&nodes[0], Method::DELETE, &format!("/admin/tokens/{id}"), None).await?;
        ensure!(revoked.status == 200, "{revoked:?}");
        wait_for_status(&nodes[1], &secret, 401).await?;
    }
    Ok(())
}

/// Waits until a node answers a request with this token with this status.
async fn wait_for_status(daemon: &Daemon, secret: &str, status: u16) -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    eventually("the other node to know the token's state", async || {
        let reply = read(daemon.request(Method::GET, "/agents").bearer_auth(secret)).await?;
        Ok((reply.status == status).then_some(()))
    })
    .await?;
    ensure!(watch.elapsed() < SHARING_TIMEOUT, "it took {:?} until {status}", watch.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_body_of_one_node_is_redacted_at_another() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    // The body is too large for the log. The secret is only in the body, in a field that no event keeps.
    let body = json!({
        "agent_id": "lead", "action": "x.note", "metadata": {"text": "n"},
        "unknown": format!("{} sk-live-4711", "n".repeat(100_000)),
    });
    let posted = nodes[0].post("/events", body).await?;
    ensure!(posted.status == 201, "{posted:?}");
    ensure!(chunks(&schema)? > 0, "the body is not in the database");
    ensure!(note(&nodes[0], "lead", "harmless").await?.status == 201);
    let redact = || send_as_person(&nodes[1], Method::POST, "/admin/redact", Some(json!({"match": "sk-live-[0-9]+"})));
    // A redaction fails if it cannot read a body, instead of skipping it.
    schema.psql("ALTER TABLE artifact_chunks RENAME TO elsewhere")?;
    let unknown = redact().await?;
    ensure!(unknown.status == 503 && code(&unknown) == "STORE_UNAVAILABLE", "{unknown:?}");
    schema.psql("ALTER TABLE elsewhere RENAME TO artifact_chunks")?;
    let redacted = redact().await?;
    ensure!(redacted.status == 200 && redacted.body["redacted"] == json!([posted.body["seq"]]), "{redacted:?}");
    ensure!(redacted.body.get("pending").is_none(), "{redacted:?}");
    ensure!(chunks(&schema)? == 0, "the body is still in the database");
    nodes[0].replay_verify()
}

fn chunks(schema: &Schema) -> anyhow::Result<u64> {
    let output = schema.psql("SELECT count(*) FROM artifact_chunks")?;
    Ok(output.lines().last().unwrap_or_default().trim().parse()?)
}
