//! Clients that die during a request or read no answers: their requests are executed once or not at all, and other
//! clients are not affected.

use futures_util::future::join_all;
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::stream::{ReceiveBuffer, connect as open};
use rookery_testkit::wait::within;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Transport, connect, create_task, inbox_uri, rows_of_kind, setup};

const CROWD: usize = 30;
/// The protocol version in which a request needs no session.
const STATELESS_VERSION: &str = "2026-07-28";

/// A request as the head of an HTTP message and its body.
fn message(
    agent: &str,
    key: Option<&str>,
    method: &str,
    agent_name: Option<&str>,
    mut params: Value,
) -> (String, String) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "hostile", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let agent_name = agent_name.map(|agent_name| format!("Mcp-Name: {agent_name}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nMcp-Protocol-Version: {STATELESS_VERSION}\r\nMcp-Method: {method}\r\n{agent_name}X-Agent-Id: {agent}\r\n\
         {key}Content-Length: {}\r\n\r\n",
        body.len()
    );
    (head, body)
}

fn claim_request(agent: &str, path: &str) -> (String, String) {
    let params = json!({"name": "resource_claim", "arguments": {"path": path}});
    message(agent, Some(path), "tools/call", Some("resource_claim"), params)
}

fn agent_name(number: usize) -> String {
    format!("agent-{number}")
}

async fn announce_agents(daemon: &Daemon) {
    for number in 0..CROWD {
        let body = json!({"id": agent_name(number), "tool": "custom", "role": "worker", "capabilities": []});
        assert!(daemon.post("/agents/announce", body).await.unwrap().status.is_success());
    }
}

#[tokio::test]
async fn truncated_request_of_dying_client_is_not_executed() {
    let daemon = setup().start().unwrap();
    announce_agents(&daemon).await;
    let truncated = (0..CROWD).map(|number| {
        let daemon = &daemon;
        async move {
            let (head, body) = claim_request(&agent_name(number), &format!("src/{number}.rs"));
            let mut stream = open(daemon.url(), ReceiveBuffer::Default).await.unwrap();
            // Cut somewhere in the head, between head and body, or in the body.
            let whole = format!("{head}{body}");
            let cut = (number + 1) * whole.len() / (CROWD + 1);
            stream.write_all(&whole.as_bytes()[..cut]).await.unwrap();
        }
    });
    join_all(truncated).await;
    let other = connect(&daemon, Transport::Session, Some("agent-0")).await;
    assert_eq!(other.call("resource_claim", json!({"path": "src/0.rs"})).await, json!({"granted": true}));
    assert_eq!(rows_of_kind(&daemon, "file.claimed").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_with_key_after_lost_answer_is_executed_once() {
    let daemon = setup().start().unwrap();
    announce_agents(&daemon).await;
    let clients = (0..CROWD).map(|number| {
        let daemon = &daemon;
        async move {
            let (agent, path) = (agent_name(number), format!("src/{number}.rs"));
            let (head, body) = claim_request(&agent, &path);
            for _ in 0..3 {
                // Sent completely, and closed before any answer arrives.
                let mut stream = open(daemon.url(), ReceiveBuffer::Default).await.unwrap();
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
            let answered = resend(daemon, &head, body).await;
            assert_eq!(answered["result"]["structuredContent"], json!({"granted": true}), "{answered}");
        }
    });
    within("all are answered", join_all(clients)).await.unwrap();
    let mut paths: Vec<Value> =
        rows_of_kind(&daemon, "file.claimed").iter().map(|row| row["fact"]["path"].clone()).collect();
    let all = paths.len();
    paths.sort_by_key(Value::to_string);
    paths.dedup();
    assert_eq!((paths.len(), all), (CROWD, CROWD), "{paths:?}");
    daemon.replay_verify().unwrap();
}

/// Sends the same message again and returns its answer.
async fn resend(daemon: &Daemon, head: &str, body: String) -> Value {
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.filter(|(agent_name, _)| !["Host", "Content-Length"].contains(agent_name));
    let mut request = daemon.request(Method::POST, "/mcp").body(body);
    for (agent_name, value) in headers {
        request = request.header(agent_name, value);
    }
    read(request).await.unwrap().body
}

#[tokio::test]
async fn client_that_reads_no_answers_does_not_block_others() {
    let daemon = setup().start().unwrap();
    announce_agents(&daemon).await;
    let (head, body) = message("agent-1", None, "tools/list", None, json!({}));
    let asked = format!("{head}{body}").repeat(50);
    let mut unread = Vec::new();
    for _ in 0..10 {
        let mut stream = open(daemon.url(), ReceiveBuffer::Small).await.unwrap();
        stream.write_all(asked.as_bytes()).await.unwrap();
        unread.push(stream);
    }
    let listening = open_unread_stream(&daemon).await;
    let other = connect(&daemon, Transport::Session, Some("agent-0")).await;
    let same = connect(&daemon, Transport::Session, Some("agent-1")).await;
    for number in 0..CROWD {
        create_task(&daemon, Some("agent-1")).await;
        let path = json!({"path": format!("src/{number}.rs")});
        assert_eq!(other.call("resource_claim", path).await, json!({"granted": true}));
        assert!(same.call("agent_list", json!({})).await["agents"].is_array());
    }
    drop((unread, listening));
}

/// Opens a stream of notifications and never reads it.
async fn open_unread_stream(daemon: &Daemon) -> TcpStream {
    let filter = json!({"notifications": {"resourceSubscriptions": [inbox_uri("agent-1")]}});
    let (head, body) = message("agent-1", None, "subscriptions/listen", None, filter);
    let mut stream = open(daemon.url(), ReceiveBuffer::Small).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut first = [0_u8; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}
