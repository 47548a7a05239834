//! Calls an MCP tool with a single request, in the protocol version that needs no session.

use anyhow::{Context, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use crate::daemon::{Daemon, read};

const PROTOCOL_VERSION: &str = "2026-07-28";

/// Calls a tool as an agent and returns its structured content. Fails if the tool reports an error.
pub async fn call_tool(daemon: &Daemon, agent: &str, tool: &str, arguments: Value) -> anyhow::Result<Value> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let request = daemon
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", PROTOCOL_VERSION)
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .header("x-agent-id", agent)
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let answer = read(request).await?.body;
    let result = &answer["result"];
    ensure!(result["isError"] != true, "{tool} failed: {}", result["content"]);
    result.get("structuredContent").cloned().with_context(|| format!("{tool} returned no structured content: {answer}"))
}
