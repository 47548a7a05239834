//! Mentions that are pushed: by both kinds of streams, and at no sender's cost.

use std::time::Duration;

use rmcp::model::{SubscribeRequestParams, SubscriptionFilter};
use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::push::{open_and_ignore, post, session};
use crate::support::{Client, Way, connect, facts, inbox, setup, text};

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

/// Waits until an agent is part of the team.
async fn joins(daemon: &Daemon, agent: &str) {
    rookery_testkit::wait::eventually("an agent that is connected is known", || async {
        let known = daemon.get(&format!("/agents/{agent}")).await?;
        Ok((known.status == 200).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn whoever_is_connected_is_reached_before_its_first_call() {
    let daemon = setup().start().unwrap();
    let reviewer = connect(&daemon, Way::Session, Some("reviewer")).await;
    for way in [Way::Session, Way::Socket, Way::Bridge] {
        let name = format!("{way:?}");
        let mut quiet = connect(&daemon, way, Some(&name)).await;
        joins(&daemon, &name).await;
        let sent = reviewer.call("channel_send", json!({"message": format!("@{name} are you there?")})).await;
        assert_eq!(sent["mentions"], json!([name]), "{way:?}");
        assert_eq!(quiet.is_told().await["target"], name.as_str(), "{way:?}");
    }
    // Without a session there is a stream only if the client asks for one.
    let mut listens = connect(&daemon, Way::Alone, Some("listens")).await;
    let _stream = listens.service.listen(SubscriptionFilter::new()).await.unwrap();
    joins(&daemon, "listens").await;
    reviewer.says("channel_send", json!({"message": "@listens hello"})).await;
    assert_eq!(listens.is_told().await["target"], "listens");
    let _bridge = connect(&daemon, Way::BridgeAlone, Some("bridged")).await;
    joins(&daemon, "bridged").await;
}

#[tokio::test]
async fn whoever_follows_its_inbox_is_known_from_then_on() {
    let daemon = setup().start().unwrap();
    let http = rookery_testkit::daemon::client().unwrap();
    let id = session(daemon.url(), "quiet").await;
    assert_eq!(facts(&daemon, "agent.registered").len(), 0, "a session alone is nobody's word to take part");
    let follow =
        |uri: String| json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": uri}});
    post(&http, daemon.url(), "quiet", Some(&id), follow(inbox("other"))).await;
    assert_eq!(facts(&daemon, "agent.registered").len(), 0, "somebody else's inbox");
    let answer = post(&http, daemon.url(), "quiet", Some(&id), follow(inbox("quiet"))).await;
    assert!(answer.text().await.unwrap().contains("\"result\""));
    assert_eq!(daemon.get("/agents/quiet").await.unwrap().status, 200);
}

#[tokio::test]
async fn looking_around_without_a_name_makes_nobody() {
    let daemon = setup().start().unwrap();
    for way in [Way::Session, Way::Socket, Way::Bridge, Way::Alone, Way::BridgeAlone] {
        let client = connect(&daemon, way, None).await;
        client.service.list_all_tools().await.unwrap();
        client.service.list_all_resources().await.unwrap();
        client.call("channel_peek", json!({})).await;
    }
    assert_eq!(facts(&daemon, "agent.registered").len(), 0);
}

/// Waits for the next sign of life of an agent.
async fn shows_itself(daemon: &Daemon, agent: &str) {
    let looks = connect(daemon, Way::Alone, None).await;
    let seen = async || {
        let all = looks.call("coord_get_presence", json!({})).await["instances"].clone();
        let found = all.as_array().unwrap().iter().find(|one| one["instance_id"] == agent).cloned();
        found.expect("an agent that is part of the team")["last_heartbeat"].clone()
    };
    let before = seen().await;
    rookery_testkit::wait::eventually("a sign of life", || async { Ok((seen().await != before).then_some(())) })
        .await
        .unwrap();
}

#[tokio::test]
async fn whoever_leaves_while_it_is_connected_has_left() {
    let daemon = setup().env("ROOKERY_CONNECTION_OFFLINE_AFTER", "1s").start().unwrap();
    let reviewer = connect(&daemon, Way::Session, Some("reviewer")).await;
    joins(&daemon, "reviewer").await;
    for way in [Way::Session, Way::Bridge] {
        let name = format!("{way:?}");
        let client = connect(&daemon, way, Some(&name)).await;
        joins(&daemon, &name).await;
        client.call("agent_unregister", json!({})).await;
        // Meanwhile streams show again and again that they are open.
        for _ in 0..3 {
            shows_itself(&daemon, "reviewer").await;
        }
        client.service.list_all_tools().await.unwrap();
        let sent = reviewer.call("channel_send", json!({"message": format!("@{name} bye")})).await;
        assert_eq!(sent["unknown"], json!([name]), "{way:?}");
    }
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
    let daemon = setup()
        .env("ROOKERY_CALL_ONLY_OFFLINE_AFTER", "1s")
        .env("ROOKERY_CONNECTION_OFFLINE_AFTER", "1s")
        .start()
        .unwrap();
    let listens = connect(&daemon, Way::Session, Some("listens")).await;
    let calls = connect(&daemon, Way::Alone, Some("calls")).await;
    listens.inbox().await;
    calls.inbox().await;
    let status = async |agent: &str| text(&daemon.get(&format!("/agents/{agent}")).await.unwrap().body["status"]);
    rookery_testkit::wait::eventually("the one that is silent goes offline", || async {
        Ok((status("calls").await == "offline").then_some(()))
    })
    .await
    .unwrap();
    assert_ne!(status("listens").await, "offline");
    drop(listens);
    rookery_testkit::wait::eventually("the one whose stream is closed goes offline", || async {
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
