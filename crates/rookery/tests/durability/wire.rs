//! Requests of a client, whole and unfinished.

use anyhow::{Context, ensure};
use rookery_testkit::daemon::{Daemon, HttpReply};
pub use rookery_testkit::stream::{Follower, ReceiveBuffer, StreamEvent, connect};
pub use rookery_testkit::wait::{eventually, within};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Reads everything until the daemon closes or resets the connection.
pub async fn read_to_end(stream: &mut TcpStream) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    drop(within("the daemon to close the connection", stream.read_to_end(&mut bytes)).await?);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Starts a request whose body never arrives.
pub async fn send_unfinished_request(url: &str, agent: &str) -> anyhow::Result<TcpStream> {
    let mut stream = connect(url, ReceiveBuffer::Default).await?;
    let head = format!(
        "POST /tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Agent-Id: {agent}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// Registers an agent.
pub async fn announce(daemon: &Daemon, agent: &str) -> anyhow::Result<()> {
    let reply = daemon.post("/agents/announce", json!({"id": agent, "tool": "test", "role": "worker"})).await?;
    ensure!(reply.status.is_success(), "{agent} could not register: {reply:?}");
    Ok(())
}

/// Appends an event of about `bytes` bytes.
pub async fn report(daemon: &Daemon, agent: &str, bytes: usize) -> anyhow::Result<HttpReply> {
    let body = json!({"agent_id": agent, "action": "x.note", "metadata": {"text": "n".repeat(bytes)}});
    daemon.post("/events", body).await
}

pub async fn create_task(daemon: &Daemon, title: &str) -> anyhow::Result<HttpReply> {
    daemon.post("/tasks", json!({"title": title, "assigned_by": "anna"})).await
}

pub fn code(reply: &HttpReply) -> &str {
    reply.body["code"].as_str().unwrap_or_default()
}

pub fn position(reply: &HttpReply) -> anyhow::Result<u64> {
    Ok(reply.headers.get("x-rookery-seq").context("the answer has no position")?.to_str()?.parse()?)
}
