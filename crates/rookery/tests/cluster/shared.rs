//! What one node does by hand, the others know: tokens, and bodies that are no part of the log.

use std::time::Duration;

use anyhow::ensure;
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait::eventually;
use serde_json::json;

use crate::nodes::{Nodes, Stopwatch, announce, as_person, code, note, text};

/// A notification takes milliseconds; the look that stands in for a lost one comes every second.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_one_node_revokes_is_refused_by_the_others() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    announce(&nodes[0], "anna").await?;
    for _ in 0..5 {
        let made = as_person(&nodes[0], Method::POST, "/admin/tokens", Some(json!({"agent": "anna"}))).await?;
        ensure!(made.status == 201, "{made:?}");
        let (id, secret) = (text(&made.body["id"])?, text(&made.body["token"])?);
        known_as(&nodes[1], &secret, 200).await?;
        let revoked = as_person(&nodes[0], Method::DELETE, &format!("/admin/tokens/{id}"), None).await?;
        ensure!(revoked.status == 200, "{revoked:?}");
        known_as(&nodes[1], &secret, 401).await?;
    }
    Ok(())
}

/// Waits until the node answers a bearer of this secret with this status.
async fn known_as(daemon: &Daemon, secret: &str, status: u16) -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    eventually("the other node knows", async || {
        let reply = read(daemon.request(Method::GET, "/agents").bearer_auth(secret)).await?;
        Ok((reply.status == status).then_some(()))
    })
    .await?;
    ensure!(watch.elapsed() < KNOWN_WITHIN, "it took {:?} until {status}", watch.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_of_one_node_is_redacted_by_another() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    // The body is too large for the log. The secret stands only in the body, in a field that no fact keeps.
    let body = json!({
        "agent_id": "lead", "action": "x.note", "metadata": {"text": "n"},
        "unknown": format!("{} sk-live-4711", "n".repeat(100_000)),
    });
    let posted = nodes[0].post("/events", body).await?;
    ensure!(posted.status == 201, "{posted:?}");
    ensure!(chunks(&schema)? > 0, "the body is not in the database");
    ensure!(note(&nodes[0], "lead", "harmless").await?.status == 201);
    let redact = || as_person(&nodes[1], Method::POST, "/admin/redact", Some(json!({"match": "sk-live-[0-9]+"})));
    // A body that cannot be looked into is not passed over.
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
    let said = schema.psql("SELECT count(*) FROM artifact_chunks")?;
    Ok(said.lines().last().unwrap_or_default().trim().parse()?)
}
