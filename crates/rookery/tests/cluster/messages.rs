//! Messages between agents that are connected to different nodes.

use anyhow::{Context, ensure};
use reqwest::Method;
use rookery_testkit::daemon::Daemon;
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::nodes::Nodes;

const PROTOCOL_VERSION: &str = "2026-07-28";

/// Calls a tool of a node as an agent, and returns the whole result.
async fn call_tool(daemon: &Daemon, agent: &str, tool: &str, arguments: Value) -> anyhow::Result<Value> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "cluster", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = daemon.request(Method::POST, "/mcp").header("x-agent-id", agent);
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", PROTOCOL_VERSION).header("mcp-method", "tools/call");
    let answer: Value = request.header("mcp-name", tool).json(&body).send().await?.json().await?;
    let result = answer.get("result").with_context(|| format!("{tool}: {answer}"))?.clone();
    ensure!(result["isError"] != true, "{tool}: {result}");
    Ok(result)
}

/// Calls a tool of a node as an agent, and returns its structured content.
async fn tool_answer(daemon: &Daemon, agent: &str, tool: &str, arguments: Value) -> anyhow::Result<Value> {
    Ok(call_tool(daemon, agent, tool, arguments).await?["structuredContent"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_on_different_nodes_exchange_messages() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    let (one, other) = (&nodes[0], &nodes[1]);
    tool_answer(one, "a", "inbox_check", json!({})).await?;
    tool_answer(other, "b", "inbox_check", json!({})).await?;
    // A message at one node wakes an agent that waits at another.
    let wait = tool_answer(other, "b", "inbox_wait", json!({"timeout_seconds": 50}));
    let send = tool_answer(one, "a", "channel_send", json!({"message": "@b over here"}));
    let (waited, sent) = tokio::try_join!(wait, send)?;
    ensure!(waited["messages"][0]["entry"]["message"] == "@b over here", "{waited}");
    tool_answer(other, "b", "inbox_ack", json!({"until": sent["id"]})).await?;
    let status = tool_answer(one, "a", "message_status", json!({"id": sent["id"]})).await?;
    ensure!(status["recipients"][0]["status"] == "acked", "{status}");

    // Both nodes count the same unread messages, even after the other one has shown them.
    tool_answer(one, "a", "channel_send", json!({"message": "@b again"})).await?;
    for node in [one, other] {
        wait_for_unread(node, json!(1)).await?;
    }
    tool_answer(other, "b", "inbox_check", json!({})).await?;
    for node in [one, other] {
        wait_for_unread(node, Value::Null).await?;
    }
    // A message that one node has shown can be acknowledged at another.
    let acked = tool_answer(one, "b", "inbox_ack", json!({"until": "2999-01-01"})).await?;
    ensure!(acked["acknowledged"].as_array().is_some_and(|all| all.len() == 1), "{acked}");

    let new = json!({"content": "one", "base_version": 0});
    ensure!(tool_answer(one, "a", "document_write", new).await?["version"] == 1);
    let read = tool_answer(other, "b", "document_read", json!({})).await?;
    ensure!(read["content"] == "one" && read["version"] == 1, "{read}");
    one.replay_verify()
}

/// Waits until a node reports this count of unread messages.
async fn wait_for_unread(node: &Daemon, count: Value) -> anyhow::Result<()> {
    eventually("the count of unread messages", async || {
        let result = call_tool(node, "b", "agent_list", json!({})).await?;
        Ok((result["_meta"]["rookery/unread"] == count).then_some(()))
    })
    .await
}
