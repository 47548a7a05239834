//! Being told of what waits for one: by every way in, and at nobody else's cost.

use std::time::Duration;

use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Client, DEADLINE, Way, connect, inbox, setup, task};

async fn follow(client: &Client, uri: &str) {
    #[expect(deprecated, reason = "this is how clients of the older versions do it")]
    client.service.subscribe(SubscribeRequestParams::new(uri)).await.unwrap();
}

#[tokio::test]
async fn an_inbox_is_listed_read_and_followed() {
    let daemon = setup().start().unwrap();
    for way in [Way::Session, Way::Socket, Way::Bridge] {
        let name = format!("{way:?}");
        let mut client = connect(&daemon, way, Some(&name)).await;
        client.register(&name).await;
        let listed = client.service.list_all_resources().await.unwrap();
        assert_eq!(listed[0].uri, inbox(&name));
        follow(&client, &inbox(&name)).await;
        task(&daemon, Some(&name)).await;
        assert_eq!(client.hears().await, inbox(&name), "{way:?}");
        #[expect(deprecated, reason = "this is how clients of the older versions do it")]
        client.service.unsubscribe(UnsubscribeRequestParams::new(inbox(&name))).await.unwrap();
        task(&daemon, Some(&name)).await;
        client.call("agent_list", json!({})).await;
        assert!(client.heard.try_recv().is_err(), "{way:?}");
    }
}

#[tokio::test]
async fn without_a_session_one_listens() {
    let daemon = setup().start().unwrap();
    for way in [Way::Alone, Way::BridgeAlone] {
        let name = format!("{way:?}");
        let client = connect(&daemon, way, Some(&name)).await;
        client.register(&name).await;
        let filter = SubscriptionFilter::builder().resource_subscription(inbox(&name)).build();
        let mut listening = client.service.listen(filter).await.unwrap();
        task(&daemon, Some(&name)).await;
        let next = tokio::time::timeout(DEADLINE, listening.next()).await.expect("nothing is heard").unwrap();
        let Some(ServerNotification::ResourceUpdatedNotification(heard)) = next else { panic!("{way:?}: {next:?}") };
        assert_eq!(heard.params.uri, inbox(&name), "{way:?}");
    }
}

#[tokio::test]
async fn whoever_listens_misses_nothing_from_the_acknowledgment_on() {
    let daemon = setup().start().unwrap();
    connect(&daemon, Way::Alone, Some("last")).await.register("last").await;
    // Looking at the inbox of an agent that was away brings it back, which takes a moment each.
    let mut many = Vec::new();
    for number in 0..50 {
        let name = format!("away-{number}");
        let away = connect(&daemon, Way::Alone, Some(&name)).await;
        away.register(&name).await;
        away.call("agent_update", json!({"status": "offline"})).await;
        many.push(inbox(&name));
    }
    many.push(inbox("last"));
    let filter = SubscriptionFilter::builder().resource_subscriptions(many).build();
    let client = connect(&daemon, Way::Alone, None).await;
    let mut listening = client.service.listen(filter).await.unwrap();
    task(&daemon, Some("last")).await;
    let next = tokio::time::timeout(DEADLINE, listening.next()).await.expect("nothing is heard").unwrap();
    let Some(ServerNotification::ResourceUpdatedNotification(heard)) = next else { panic!("{next:?}") };
    assert_eq!(heard.params.uri, inbox("last"));
}

#[tokio::test]
async fn an_inbox_is_its_agents_own() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Way::Session, Some("a")).await;
    a.register("a").await;
    let read = |uri: String| a.service.read_resource(rmcp::model::ReadResourceRequestParams::new(uri));
    assert!(read(inbox("a")).await.is_ok());
    assert!(read(inbox("b")).await.is_err());
    assert!(read("rookery://elsewhere".to_owned()).await.is_err());
    // Whoever registered in its session is that agent, also here.
    let anonymous = connect(&daemon, Way::Session, None).await;
    let id = anonymous.register("one").await;
    let read = |uri: String| anonymous.service.read_resource(rmcp::model::ReadResourceRequestParams::new(uri));
    assert!(read(inbox(&id)).await.is_ok());
    assert!(read(inbox("a")).await.is_err());
}

/// A session opened by hand; its id.
pub async fn session(url: &str, agent: &str) -> String {
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
async fn a_client_that_never_reads_its_stream_hurts_nobody() {
    let daemon = setup().start().unwrap();
    let writer = connect(&daemon, Way::Session, Some("writer")).await;
    writer.register("writer").await;
    let deaf = connect(&daemon, Way::Session, Some("deaf")).await;
    deaf.register("deaf").await;
    let http = rookery_testkit::daemon::client().unwrap();
    let mut streams = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..10 {
        let id = session(daemon.url(), "deaf").await;
        let follow =
            json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": inbox("deaf")}});
        assert!(post(&http, daemon.url(), "deaf", Some(&id), follow).await.status().is_success());
        streams.push(open_and_ignore(daemon.url(), &id).await);
        sessions.push(id);
    }
    for _ in 0..200 {
        let quick = tokio::time::timeout(Duration::from_secs(10), task(&daemon, Some("deaf")));
        quick.await.expect("a write waits for a client that does not read");
    }
    assert!(writer.call("agent_list", json!({})).await["agents"].is_array());
    // Its own calls are answered too.
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
