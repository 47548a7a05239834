//! Mentions that are pushed: by both kinds of streams, and at no sender's cost.

use std::time::Duration;

use rmcp::model::{SubscribeRequestParams, SubscriptionFilter};
use serde_json::{Value, json};

use crate::push::{open_and_ignore, session};
use crate::support::{Client, Way, connect, inbox, setup, text};

/// What a mention says, without what tells one attempt from another.
fn words(told: &Value) -> (String, String, String) {
    assert!(text(&told["timestamp"]).ends_with('Z'), "{told}");
    (text(&told["from"]), text(&told["target"]), text(&told["message"]))
}

fn expected(message: &str) -> (String, String, String) {
    ("reviewer".to_owned(), "coder".to_owned(), message.to_owned())
}

#[tokio::test]
async fn a_mention_is_pushed_to_every_client_of_its_target() {
    let daemon = setup().start().unwrap();
    let reviewer = connect(&daemon, Way::Session, Some("reviewer@pr-1")).await;
    let mut sessions = Vec::new();
    for way in [Way::Session, Way::Socket] {
        let client = connect(&daemon, way, Some("coder@pr-1")).await;
        client.inbox().await;
        #[expect(deprecated, reason = "this is how clients of the older versions do it")]
        client.service.subscribe(SubscribeRequestParams::new(inbox("coder@pr-1"))).await.unwrap();
        sessions.push(client);
    }
    let mut alone = connect(&daemon, Way::Alone, Some("coder@pr-1")).await;
    let filter = SubscriptionFilter::builder().resource_subscription(inbox("coder@pr-1")).build();
    let mut listening = alone.service.listen(filter).await.unwrap();
    reviewer.says("channel_send", json!({"message": "@coder look at this"})).await;
    for client in &mut sessions {
        assert_eq!(words(&client.is_told().await), expected("@coder look at this"));
        assert_eq!(client.hears().await, inbox("coder@pr-1"));
    }
    assert_eq!(words(&alone.is_told().await), expected("@coder look at this"));
    let next = tokio::time::timeout(crate::support::DEADLINE, listening.next()).await.expect("nothing is heard");
    assert!(next.unwrap().is_some());
    let mut other = connect(&daemon, Way::Session, Some("other@pr-1")).await;
    other.inbox().await;
    assert!(other.mentions.try_recv().is_err(), "nobody else is told");
}

#[tokio::test]
async fn the_bridge_passes_mentions_on() {
    let daemon = setup().start().unwrap();
    let reviewer = connect(&daemon, Way::Session, Some("reviewer@pr-1")).await;
    let mut coder = connect(&daemon, Way::Bridge, Some("coder@pr-1")).await;
    coder.inbox().await;
    reviewer.says("channel_send", json!({"message": "@coder over the bridge"})).await;
    assert_eq!(words(&coder.is_told().await), expected("@coder over the bridge"));
}

#[tokio::test]
async fn what_waits_is_told_when_one_connects() {
    let daemon = setup().start().unwrap();
    let reviewer = connect(&daemon, Way::Session, Some("reviewer")).await;
    let coder = connect(&daemon, Way::Alone, Some("coder")).await;
    coder.inbox().await;
    reviewer.says("channel_send", json!({"message": "@coder while you were away"})).await;
    let mut back = connect(&daemon, Way::Session, Some("coder")).await;
    assert_eq!(words(&back.is_told().await), expected("@coder while you were away"));
    // One that becomes the agent in its session is told from then on.
    let mut named = connect(&daemon, Way::Session, None).await;
    let id = named.register("someone").await;
    reviewer.says("channel_send", json!({"message": format!("@{id} welcome")})).await;
    assert_eq!(named.is_told().await["target"], id.as_str());
}

#[tokio::test]
async fn an_open_stream_is_a_sign_of_life() {
    let daemon = setup().env("ROOKERY_SILENT_AFTER", "1s").env("ROOKERY_CONNECTION_AFTER", "1s").start().unwrap();
    let listens = connect(&daemon, Way::Session, Some("listens")).await;
    let calls = connect(&daemon, Way::Alone, Some("calls")).await;
    listens.inbox().await;
    calls.inbox().await;
    let status = async |agent: &str| text(&daemon.get(&format!("/agents/{agent}")).await.unwrap().body["status"]);
    rookery_testkit::patience::eventually("the one that is silent goes offline", || async {
        Ok((status("calls").await == "offline").then_some(()))
    })
    .await
    .unwrap();
    assert_ne!(status("listens").await, "offline");
    drop(listens);
    rookery_testkit::patience::eventually("the one whose stream is closed goes offline", || async {
        Ok((status("listens").await == "offline").then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_no_sender() {
    let daemon = setup().start().unwrap();
    let sender = connect(&daemon, Way::Session, Some("sender")).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let id = session(daemon.url(), "deaf").await;
        streams.push(open_and_ignore(daemon.url(), &id).await);
    }
    let deaf: Client = connect(&daemon, Way::Alone, Some("deaf")).await;
    deaf.inbox().await;
    let long = format!("@deaf {}", "x".repeat(20_000));
    for _ in 0..100 {
        let quick =
            tokio::time::timeout(Duration::from_secs(10), sender.says("channel_send", json!({"message": long})));
        assert_eq!(quick.await.expect("a sender waits for a client that does not read"), "sent");
    }
    assert_eq!(deaf.inbox().await.len(), 100, "the inbox is the truth");
}
