//! Clients that die in the middle of something, or take no answers: what they asked for is done once or not at all, and
//! nobody else notices.

use futures_util::future::join_all;
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::stream::{ReceiveBuffer, connect as open};
use rookery_testkit::wait::within;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Way, connect, facts, inbox, setup, task};

const CROWD: usize = 30;
/// The version of the protocol in which a request needs no session.
const ALONE: &str = "2026-07-28";

/// A request by itself: the head of an HTTP message and its body.
fn message(agent: &str, key: Option<&str>, method: &str, name: Option<&str>, mut params: Value) -> (String, String) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": ALONE,
        "io.modelcontextprotocol/clientInfo": {"name": "hostile", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nMcp-Protocol-Version: {ALONE}\r\nMcp-Method: {method}\r\n{name}X-Agent-Id: {agent}\r\n\
         {key}Content-Length: {}\r\n\r\n",
        body.len()
    );
    (head, body)
}

fn claim(agent: &str, path: &str) -> (String, String) {
    let params = json!({"name": "resource_claim", "arguments": {"path": path}});
    message(agent, Some(path), "tools/call", Some("resource_claim"), params)
}

fn name(number: usize) -> String {
    format!("agent-{number}")
}

async fn team(daemon: &Daemon) {
    for number in 0..CROWD {
        let body = json!({"id": name(number), "tool": "custom", "role": "worker", "capabilities": []});
        assert!(daemon.post("/agents/announce", body).await.unwrap().status.is_success());
    }
}

#[tokio::test]
async fn whoever_dies_while_it_sends_has_asked_for_nothing() {
    let daemon = setup().start().unwrap();
    team(&daemon).await;
    let dying = (0..CROWD).map(|number| {
        let daemon = &daemon;
        async move {
            let (head, body) = claim(&name(number), &format!("src/{number}.rs"));
            let mut stream = open(daemon.url(), ReceiveBuffer::Default).await.unwrap();
            // Somewhere in the head, between head and body, or somewhere in the body.
            let whole = format!("{head}{body}");
            let cut = (number + 1) * whole.len() / (CROWD + 1);
            stream.write_all(&whole.as_bytes()[..cut]).await.unwrap();
        }
    });
    join_all(dying).await;
    let other = connect(&daemon, Way::Session, Some("agent-0")).await;
    assert_eq!(other.call("resource_claim", json!({"path": "src/0.rs"})).await, json!({"granted": true}));
    assert_eq!(facts(&daemon, "file.claimed").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_before_its_answer_can_ask_again_and_it_is_done_once() {
    let daemon = setup().start().unwrap();
    team(&daemon).await;
    let lives = (0..CROWD).map(|number| {
        let daemon = &daemon;
        async move {
            let (agent, path) = (name(number), format!("src/{number}.rs"));
            let (head, body) = claim(&agent, &path);
            for _ in 0..3 {
                // Sent whole, and gone before anything comes back.
                let mut stream = open(daemon.url(), ReceiveBuffer::Default).await.unwrap();
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
            let answered = again(daemon, &head, body).await;
            assert_eq!(answered["result"]["structuredContent"], json!({"granted": true}), "{answered}");
        }
    });
    within("all are answered", join_all(lives)).await.unwrap();
    let mut paths: Vec<Value> = facts(&daemon, "file.claimed").iter().map(|row| row["fact"]["path"].clone()).collect();
    let all = paths.len();
    paths.sort_by_key(Value::to_string);
    paths.dedup();
    assert_eq!((paths.len(), all), (CROWD, CROWD), "{paths:?}");
    daemon.replay_verify().unwrap();
}

/// The same message once more, and this time the answer is waited for.
async fn again(daemon: &Daemon, head: &str, body: String) -> Value {
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.filter(|(name, _)| !["Host", "Content-Length"].contains(name));
    let mut request = daemon.request(Method::POST, "/mcp").body(body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    read(request).await.unwrap().body
}

#[tokio::test]
async fn one_that_takes_no_answers_gets_no_more_and_holds_up_nobody() {
    let daemon = setup().start().unwrap();
    team(&daemon).await;
    let (head, body) = message("agent-1", None, "tools/list", None, json!({}));
    let asked = format!("{head}{body}").repeat(50);
    let mut deaf = Vec::new();
    for _ in 0..10 {
        let mut stream = open(daemon.url(), ReceiveBuffer::Small).await.unwrap();
        stream.write_all(asked.as_bytes()).await.unwrap();
        deaf.push(stream);
    }
    let listening = listen(&daemon).await;
    let other = connect(&daemon, Way::Session, Some("agent-0")).await;
    let same = connect(&daemon, Way::Session, Some("agent-1")).await;
    for number in 0..CROWD {
        task(&daemon, Some("agent-1")).await;
        let path = json!({"path": format!("src/{number}.rs")});
        assert_eq!(other.call("resource_claim", path).await, json!({"granted": true}));
        assert!(same.call("agent_list", json!({})).await["agents"].is_array());
    }
    drop((deaf, listening));
}

/// A stream of news that is asked for, begun, and then never read.
async fn listen(daemon: &Daemon) -> TcpStream {
    let filter = json!({"notifications": {"resourceSubscriptions": [inbox("agent-1")]}});
    let (head, body) = message("agent-1", None, "subscriptions/listen", None, filter);
    let mut stream = open(daemon.url(), ReceiveBuffer::Small).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut first = [0_u8; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}
