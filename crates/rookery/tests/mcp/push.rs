//! Notifications about an inbox, by every transport, without cost for others.

use std::time::Duration;

use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Client, DEADLINE, Transport, connect, create_task, inbox_uri, setup};

async fn subscribe(client: &Client, uri: &str) {
    #[expect(deprecated, reason = "older clients subscribe this way")]
    client.service.subscribe(SubscribeRequestParams::new(uri)).await.unwrap();
}

#[tokio::test]
async fn inbox_resource_is_listed_read_and_followed() {
    let daemon = setup().start().unwrap();
    for transport in [Transport::Session, Transport::Socket, Transport::Bridge] {
        let name = format!("{transport:?}");
        let mut client = connect(&daemon, transport, Some(&name)).await;
        client.register(&name).await;
        let listed = client.service.list_all_resources().await.unwrap();
        assert_eq!(listed[0].uri, inbox_uri(&name));
        subscribe(&client, &inbox_uri(&name)).await;
        create_task(&daemon, Some(&name)).await;
        assert_eq!(client.next_resource_update().await, inbox_uri(&name), "{transport:?}");
        #[expect(deprecated, reason = "older clients subscribe this way")]
        client.service.unsubscribe(UnsubscribeRequestParams::new(inbox_uri(&name))).await.unwrap();
        create_task(&daemon, Some(&name)).await;
        client.call("agent_list", json!({})).await;
        assert!(client.resource_updates.try_recv().is_err(), "{transport:?}");
    }
}

#[tokio::test]
async fn client_without_session_listens_for_updates() {
    let daemon = setup().start().unwrap();
    for transport in [Transport::Stateless, Transport::StatelessBridge] {
        let name = format!("{transport:?}");
        let client = connect(&daemon, transport, Some(&name)).await;
        client.register(&name).await;
        let filter = SubscriptionFilter::builder().resource_subscription(inbox_uri(&name)).build();
        let mut listening = client.service.listen(filter).await.unwrap();
        create_task(&daemon, Some(&name)).await;
        let next = tokio::time::timeout(DEADLINE, listening.next()).await.expect("no notification arrives").unwrap();
        let Some(ServerNotification::ResourceUpdatedNotification(update)) = next else {
            panic!("{transport:?}: {next:?}")
        };
        assert_eq!(update.params.uri, inbox_uri(&name), "{transport:?}");
    }
}

#[tokio::test]
async fn listener_misses_no_update_after_its_acknowledgment() {
    let daemon = setup().start().unwrap();
    connect(&daemon, Transport::Stateless, Some("last")).await.register("last").await;
    // Looking at the inbox of an offline agent brings it back, which takes a moment each time.
    let mut many = Vec::new();
    for number in 0..50 {
        let name = format!("away-{number}");
        let away = connect(&daemon, Transport::Stateless, Some(&name)).await;
        away.register(&name).await;
        away.call("agent_update", json!({"status": "offline"})).await;
        many.push(inbox_uri(&name));
    }
    many.push(inbox_uri("last"));
    let filter = SubscriptionFilter::builder().resource_subscriptions(many).build();
    let client = connect(&daemon, Transport::Stateless, None).await;
    let mut listening = client.service.listen(filter).await.unwrap();
    create_task(&daemon, Some("last")).await;
    let next = tokio::time::timeout(DEADLINE, listening.next()).await.expect("no notification arrives").unwrap();
    let Some(ServerNotification::ResourceUpdatedNotification(update)) = next else { panic!("{next:?}") };
    assert_eq!(update.params.uri, inbox_uri("last"));
}

#[tokio::test]
async fn inbox_of_another_agent_is_not_readable() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    let read = |uri: String| a.service.read_resource(rmcp::model::ReadResourceRequestParams::new(uri));
    assert!(read(inbox_uri("a")).await.is_ok());
    assert!(read(inbox_uri("b")).await.is_err());
    assert!(read("rookery://elsewhere".to_owned()).await.is_err());
    // An agent registered in its session owns that inbox here too.
    let anonymous = connect(&daemon, Transport::Session, None).await;
    let id = anonymous.register("one").await;
    let read = |uri: String| anonymous.service.read_resource(rmcp::model::ReadResourceRequestParams::new(uri));
    assert!(read(inbox_uri(&id)).await.is_ok());
    assert!(read(inbox_uri("a")).await.is_err());
}

/// Opens a session without the SDK and returns its id.
pub async fn open_session(url: &str, agent: &str) -> String {
    let http = rookery_testkit::daemon::client().unwrap();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}});
    let response = post(&http, url, agent, None, initialize).await;
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    post(&http, url, agent, Some(&id), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    id
}

pub async fn post(
    http: &reqwest::Client,
    url: &str,
    agent: &str,
    session: Option<&str>,
    body: Value,
) -> reqwest::Response {
    let mut request = http.post(format!("{url}/mcp")).header("accept", "application/json, text/event-stream");
    request = request.header("x-agent-id", agent).json(&body);
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn stream_that_is_never_read_does_not_block_writes() {
    let daemon = setup().start().unwrap();
    let writer = connect(&daemon, Transport::Session, Some("writer")).await;
    writer.register("writer").await;
    let unread = connect(&daemon, Transport::Session, Some("deaf")).await;
    unread.register("deaf").await;
    let http = rookery_testkit::daemon::client().unwrap();
    let mut streams = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..10 {
        let id = open_session(daemon.url(), "deaf").await;
        let follow =
            json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": inbox_uri("deaf")}});
        assert!(post(&http, daemon.url(), "deaf", Some(&id), follow).await.status().is_success());
        streams.push(open_and_ignore(daemon.url(), &id).await);
        sessions.push(id);
    }
    for _ in 0..200 {
        let quick = tokio::time::timeout(Duration::from_secs(10), create_task(&daemon, Some("deaf")));
        quick.await.expect("a write waits for a client that does not read");
    }
    assert!(writer.call("agent_list", json!({})).await["agents"].is_array());
    // The client's own calls are answered too.
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"});
    let answer = post(&http, daemon.url(), "deaf", Some(&sessions[0]), list);
    let answer = tokio::time::timeout(DEADLINE, async { answer.await.text().await.unwrap() }).await.unwrap();
    assert!(answer.contains("task_claim"), "{answer}");
}

/// Opens the stream of a session, waits until it is open, and never reads again.
pub async fn open_and_ignore(url: &str, session: &str) -> TcpStream {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: {address}\r\nX-Agent-Id: deaf\r\nAccept: text/event-stream\r\n\
         Mcp-Session-Id: {session}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0_u8; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}
