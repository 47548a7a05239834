//! Pushed mentions, by both kinds of streams, without cost for the sender.

use std::time::Duration;

use rmcp::model::{SubscribeRequestParams, SubscriptionFilter};
use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::push::{open_and_ignore, open_session, post};
use crate::support::{Client, Transport, connect, inbox_uri, rows_of_kind, setup, text};

/// Author, target and text of a mention, without the fields that differ between attempts.
fn mention_fields(mention: &Value) -> (String, String, String) {
    assert!(text(&mention["timestamp"]).ends_with('Z'), "{mention}");
    (text(&mention["from"]), text(&mention["target"]), text(&mention["message"]))
}

fn expected(message: &str) -> (String, String, String) {
    ("reviewer".to_owned(), "coder".to_owned(), message.to_owned())
}

#[tokio::test]
async fn mention_is_pushed_to_every_client_of_its_target() {
    let daemon = setup().start().unwrap();
    let reviewer = connect(&daemon, Transport::Session, Some("reviewer@pr-1")).await;
    let mut sessions = Vec::new();
    for transport in [Transport::Session, Transport::Socket] {
        let client = connect(&daemon, transport, Some("coder@pr-1")).await;
        client.read_inbox().await;
        #[expect(deprecated, reason = "older clients subscribe this way")]
        client.service.subscribe(SubscribeRequestParams::new(inbox_uri("coder@pr-1"))).await.unwrap();
        sessions.push(client);
    }
    let mut alone = connect(&daemon, Transport::Stateless, Some("coder@pr-1")).await;
    let filter = SubscriptionFilter::builder().resource_subscription(inbox_uri("coder@pr-1")).build();
    let mut listening = alone.service.listen(filter).await.unwrap();
    reviewer.call_text("channel_send", json!({"message": "@coder look at this"})).await;
    for client in &mut sessions {
        assert_eq!(mention_fields(&client.next_mention().await), expected("@coder look at this"));
        assert_eq!(client.next_resource_update().await, inbox_uri("coder@pr-1"));
    }
    assert_eq!(mention_fields(&alone.next_mention().await), expected("@coder look at this"));
    let next = tokio::time::timeout(crate::support::DEADLINE, listening.next()).await.expect("no notification arrives");
    assert!(next.unwrap().is_some());
    let mut other = connect(&daemon, Transport::Session, Some("other@pr-1")).await;
    other.read_inbox().await;
    assert!(other.mentions.try_recv().is_err(), "no other agent is notified");
}

#[tokio::test]
async fn bridge_forwards_mentions() {
    let daemon = setup().start().unwrap();
    let reviewer = connect(&daemon, Transport::Session, Some("reviewer@pr-1")).await;
    let mut coder = connect(&daemon, Transport::Bridge, Some("coder@pr-1")).await;
    coder.read_inbox().await;
    reviewer.call_text("channel_send", json!({"message": "@coder over the bridge"})).await;
    assert_eq!(mention_fields(&coder.next_mention().await), expected("@coder over the bridge"));
}

/// Waits until an agent is part of the team.
async fn wait_for_agent(daemon: &Daemon, agent: &str) {
    rookery_testkit::wait::eventually("an agent that is connected is known", || async {
        let known = daemon.get(&format!("/agents/{agent}")).await?;
        Ok((known.status == 200).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn connected_agent_is_reached_before_its_first_call() {
    let daemon = setup().start().unwrap();
    let reviewer = connect(&daemon, Transport::Session, Some("reviewer")).await;
    for transport in [Transport::Session, Transport::Socket, Transport::Bridge] {
        let name = format!("{transport:?}");
        let mut quiet = connect(&daemon, transport, Some(&name)).await;
        wait_for_agent(&daemon, &name).await;
        let sent = reviewer.call("channel_send", json!({"message": format!("@{name} are you there?")})).await;
        assert_eq!(sent["mentions"], json!([name]), "{transport:?}");
        assert_eq!(quiet.next_mention().await["target"], name.as_str(), "{transport:?}");
    }
    // Without a session there is a stream only if the client requests one.
    let mut listens = connect(&daemon, Transport::Stateless, Some("listens")).await;
    let stream = listens.service.listen(SubscriptionFilter::new()).await.unwrap();
    wait_for_agent(&daemon, "listens").await;
    reviewer.call_text("channel_send", json!({"message": "@listens hello"})).await;
    assert_eq!(listens.next_mention().await["target"], "listens");
    let bridge = connect(&daemon, Transport::StatelessBridge, Some("bridged")).await;
    wait_for_agent(&daemon, "bridged").await;
    drop((stream, bridge));
}

#[tokio::test]
async fn inbox_subscription_registers_its_agent() {
    let daemon = setup().start().unwrap();
    let http = rookery_testkit::daemon::client().unwrap();
    let id = open_session(daemon.url(), "quiet").await;
    assert_eq!(rows_of_kind(&daemon, "agent.registered").len(), 0, "a session alone registers no agent");
    let subscribe =
        |uri: String| json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": uri}});
    post(&http, daemon.url(), "quiet", Some(&id), subscribe(inbox_uri("other"))).await;
    assert_eq!(rows_of_kind(&daemon, "agent.registered").len(), 0, "the inbox of another agent");
    let answer = post(&http, daemon.url(), "quiet", Some(&id), subscribe(inbox_uri("quiet"))).await;
    assert!(answer.text().await.unwrap().contains("\"result\""));
    assert_eq!(daemon.get("/agents/quiet").await.unwrap().status, 200);
}

#[tokio::test]
async fn unnamed_reads_register_no_agent() {
    let daemon = setup().start().unwrap();
    for transport in
        [Transport::Session, Transport::Socket, Transport::Bridge, Transport::Stateless, Transport::StatelessBridge]
    {
        let client = connect(&daemon, transport, None).await;
        client.service.list_all_tools().await.unwrap();
        client.service.list_all_resources().await.unwrap();
        client.call("channel_peek", json!({})).await;
    }
    assert_eq!(rows_of_kind(&daemon, "agent.registered").len(), 0);
}

/// Waits for the next sign of life of an agent.
async fn wait_for_sign_of_life(daemon: &Daemon, agent: &str) {
    let observer = connect(daemon, Transport::Stateless, None).await;
    let seen = async || {
        let all = observer.call("coord_get_presence", json!({})).await["instances"].clone();
        let found = all.as_array().unwrap().iter().find(|one| one["instance_id"] == agent).cloned();
        found.expect("an agent that is part of the team")["last_heartbeat"].clone()
    };
    let before = seen().await;
    rookery_testkit::wait::eventually("a sign of life", || async { Ok((seen().await != before).then_some(())) })
        .await
        .unwrap();
}

#[tokio::test]
async fn unregistered_agent_stays_gone_while_connected() {
    let daemon = setup().env("ROOKERY_CONNECTION_OFFLINE_AFTER", "1s").start().unwrap();
    let reviewer = connect(&daemon, Transport::Session, Some("reviewer")).await;
    wait_for_agent(&daemon, "reviewer").await;
    for transport in [Transport::Session, Transport::Bridge] {
        let name = format!("{transport:?}");
        let client = connect(&daemon, transport, Some(&name)).await;
        wait_for_agent(&daemon, &name).await;
        client.call("agent_unregister", json!({})).await;
        // Meanwhile streams keep confirming that they are open.
        for _ in 0..3 {
            wait_for_sign_of_life(&daemon, "reviewer").await;
        }
        client.service.list_all_tools().await.unwrap();
        let sent = reviewer.call("channel_send", json!({"message": format!("@{name} bye")})).await;
        assert_eq!(sent["unknown"], json!([name]), "{transport:?}");
    }
}

#[tokio::test]
async fn waiting_mention_is_pushed_on_connect() {
    let daemon = setup().start().unwrap();
    let reviewer = connect(&daemon, Transport::Session, Some("reviewer")).await;
    let coder = connect(&daemon, Transport::Stateless, Some("coder")).await;
    coder.read_inbox().await;
    reviewer.call_text("channel_send", json!({"message": "@coder while you were away"})).await;
    let mut back = connect(&daemon, Transport::Session, Some("coder")).await;
    assert_eq!(mention_fields(&back.next_mention().await), expected("@coder while you were away"));
    // A client that becomes the agent in its session is notified from then on.
    let mut named = connect(&daemon, Transport::Session, None).await;
    let id = named.register("someone").await;
    reviewer.call_text("channel_send", json!({"message": format!("@{id} welcome")})).await;
    assert_eq!(named.next_mention().await["target"], id.as_str());
}

#[tokio::test]
async fn open_stream_keeps_its_agent_online() {
    let daemon = setup()
        .env("ROOKERY_CALL_ONLY_OFFLINE_AFTER", "1s")
        .env("ROOKERY_CONNECTION_OFFLINE_AFTER", "1s")
        .start()
        .unwrap();
    let listens = connect(&daemon, Transport::Session, Some("listens")).await;
    let calls = connect(&daemon, Transport::Stateless, Some("calls")).await;
    listens.read_inbox().await;
    calls.read_inbox().await;
    let status = async |agent: &str| text(&daemon.get(&format!("/agents/{agent}")).await.unwrap().body["status"]);
    rookery_testkit::wait::eventually("the silent agent goes offline", || async {
        Ok((status("calls").await == "offline").then_some(()))
    })
    .await
    .unwrap();
    assert_ne!(status("listens").await, "offline");
    drop(listens);
    rookery_testkit::wait::eventually("the agent with the closed stream goes offline", || async {
        Ok((status("listens").await == "offline").then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn client_that_does_not_read_does_not_block_senders() {
    let daemon = setup().start().unwrap();
    let sender = connect(&daemon, Transport::Session, Some("sender")).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let id = open_session(daemon.url(), "deaf").await;
        streams.push(open_and_ignore(daemon.url(), &id).await);
    }
    let unread: Client = connect(&daemon, Transport::Stateless, Some("deaf")).await;
    unread.read_inbox().await;
    let long = format!("@deaf {}", "x".repeat(20_000));
    for _ in 0..100 {
        let quick =
            tokio::time::timeout(Duration::from_secs(10), sender.call_text("channel_send", json!({"message": long})));
        assert_eq!(quick.await.expect("a sender waits for a client that does not read"), "sent");
    }
    assert_eq!(unread.read_inbox().await.len(), 100, "the inbox has every message");
}
