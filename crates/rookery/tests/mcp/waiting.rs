//! `inbox_wait`: a call that lasts until a message arrives.

use std::time::Duration;

use serde_json::{Value, json};

use crate::push::{open_session, post};
use crate::support::{Client, DEADLINE, TRANSPORTS, Transport, connect, setup};

async fn connect_agent(daemon: &rookery_testkit::daemon::Daemon, transport: Transport, name: &str) -> Client {
    let client = connect(daemon, transport, Some(name)).await;
    client.read_inbox().await;
    client
}

fn count_messages(waited: &Value) -> usize {
    waited["messages"].as_array().unwrap().len()
}

#[tokio::test]
async fn inbox_wait_ends_when_a_message_arrives() {
    let daemon = setup().start().unwrap();
    let sender = connect_agent(&daemon, Transport::Session, "sender").await;
    for transport in TRANSPORTS {
        let name = format!("{transport:?}");
        let client = connect_agent(&daemon, transport, &name).await;
        assert_eq!(count_messages(&client.call("inbox_wait", json!({"timeout_seconds": 0})).await), 0, "{transport:?}");
        let send = async {
            sender.call_text("channel_send", json!({"message": format!("@{name} go")})).await;
        };
        let (waited, ()) = tokio::join!(client.call("inbox_wait", json!({"timeout_seconds": 600})), send);
        assert_eq!(waited["messages"][0]["entry"]["message"], format!("@{name} go"), "{transport:?}");
        let again = client.call("inbox_wait", json!({"timeout_seconds": 0})).await;
        assert_eq!(again, waited, "unacknowledged messages remain");
        client.call("inbox_ack", json!({"until": waited["messages"][0]["entry"]["id"]})).await;
    }
    let rejected = sender.call_rejected("inbox_wait", json!({"timeout_seconds": "long"})).await;
    assert_eq!(rejected["code"], "INVALID_INPUT");
}

#[tokio::test]
async fn inbox_wait_ignores_messages_read_before() {
    let daemon = setup().start().unwrap();
    let (a, b) = (
        connect_agent(&daemon, Transport::Session, "a").await,
        connect_agent(&daemon, Transport::Stateless, "b").await,
    );
    for number in 0..105 {
        a.call_text("channel_send", json!({"message": format!("@b {number}")})).await;
    }
    let first = b.call("inbox_check", json!({})).await;
    let more = "5 more wait for you: inbox_ack what you are done with, or give a limit (1000 at most).";
    assert_eq!((count_messages(&first), &first["notes"][0]), (100, &json!(more)));
    let second = b.call("inbox_wait", json!({"timeout_seconds": 600})).await;
    assert_eq!(
        second["messages"][99]["entry"]["message"], "@b 104",
        "messages that did not fit are unread and returned at once"
    );
    let send = a.call_text("channel_send", json!({"message": "@b new"}));
    let (waited, _) = tokio::join!(b.call("inbox_wait", json!({"timeout_seconds": 600})), send);
    assert_eq!((count_messages(&waited), &waited["messages"][99]["entry"]["message"]), (100, &json!("@b new")));
    let few = b.call("inbox_wait", json!({"timeout_seconds": 0, "limit": 1})).await;
    assert_eq!(few["messages"][0]["entry"]["message"], "@b 0");
    assert_eq!(count_messages(&b.call("inbox_check", json!({"limit": 1_000})).await), 106);
    let id = &waited["messages"][99]["entry"]["id"];
    assert_eq!(b.call("inbox_ack", json!({"until": id})).await["acknowledged"].as_array().unwrap().len(), 106);
}

#[tokio::test]
async fn inbox_wait_ends_when_a_coordination_message_arrives() {
    let daemon = setup().start().unwrap();
    let (a, b) = (
        connect_agent(&daemon, Transport::Session, "a").await,
        connect_agent(&daemon, Transport::Stateless, "b").await,
    );
    let issue = json!({"type": "BLOCKING_ISSUE", "to": ["b"], "subject": "help"});
    let (waited, _) =
        tokio::join!(b.call_raw("inbox_wait", json!({"timeout_seconds": 600})), a.call("coord_publish_message", issue));
    assert_eq!(count_messages(waited.structured_content.as_ref().unwrap()), 0);
    let hint = &waited.content.last().unwrap().as_text().unwrap().text;
    assert!(hint.contains("coord_check_messages"), "{hint}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_shutdown_ends_open_inbox_waits() {
    let mut daemon = setup().start().unwrap();
    connect_agent(&daemon, Transport::Stateless, "a").await;
    let (http, url) = (rookery_testkit::daemon::client().unwrap(), daemon.url().to_owned());
    let id = open_session(&url, "a").await;
    let wait = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "inbox_wait", "arguments": {"timeout_seconds": 600}}});
    let waiting = post(&http, &url, "a", Some(&id), wait).await;
    let stop = async { tokio::task::block_in_place(|| daemon.stop()).unwrap() };
    let (waited, stopped) = tokio::join!(tokio::time::timeout(DEADLINE, waiting.text()), stop);
    // The wait may or may not get its answer, but it must not hang.
    drop(waited.expect("the wait outlives the daemon"));
    assert_eq!(stopped, Some(0));
}

/// More waits than one agent may have at a time, each abandoned by its client.
#[tokio::test]
async fn inbox_wait_of_a_gone_client_frees_its_place() {
    let daemon = setup().env("ROOKERY_MAX_IN_FLIGHT_PER_AGENT", "3").start().unwrap();
    let client = connect_agent(&daemon, Transport::Stateless, "a").await;
    let id = open_session(daemon.url(), "a").await;
    let http = rookery_testkit::daemon::client().unwrap();
    for number in 0..12 {
        let wait = json!({"jsonrpc": "2.0", "id": number + 10, "method": "tools/call",
            "params": {"name": "inbox_wait", "arguments": {"timeout_seconds": 600}}});
        // Every second wait uses a session that stays open; the others use stateless connections.
        if number % 2 == 0 {
            let leaves = tokio::time::timeout(Duration::from_millis(300), async {
                post(&http, daemon.url(), "a", Some(&id), wait).await.text().await
            });
            assert!(leaves.await.is_err(), "it waits");
        } else {
            let leaving = client.call_raw("inbox_wait", json!({"timeout_seconds": 600}));
            assert!(tokio::time::timeout(Duration::from_millis(300), leaving).await.is_err(), "it waits");
        }
        rookery_testkit::wait::eventually("the place is free again", || async {
            let all = futures_util::future::join_all(
                (0..3).map(|_| client.call_raw("inbox_wait", json!({"timeout_seconds": 0}))),
            );
            Ok(all.await.iter().all(|answer| answer.is_error != Some(true)).then_some(()))
        })
        .await
        .unwrap();
    }
}
