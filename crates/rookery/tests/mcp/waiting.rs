//! `inbox_wait`: a call that lasts until there is something to do.

use std::time::Duration;

use serde_json::{Value, json};

use crate::push::{post, session};
use crate::support::{Client, DEADLINE, WAYS, Way, connect, setup};

async fn team(daemon: &rookery_testkit::daemon::Daemon, way: Way, name: &str) -> Client {
    let client = connect(daemon, way, Some(name)).await;
    client.inbox().await;
    client
}

fn count(waited: &Value) -> usize {
    waited["messages"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_wait_ends_when_a_message_comes() {
    let daemon = setup().start().unwrap();
    let sender = team(&daemon, Way::Session, "sender").await;
    for way in WAYS {
        let name = format!("{way:?}");
        let client = team(&daemon, way, &name).await;
        assert_eq!(count(&client.call("inbox_wait", json!({"timeout_seconds": 0})).await), 0, "{way:?}");
        let send = async {
            sender.says("channel_send", json!({"message": format!("@{name} go")})).await;
        };
        let (waited, ()) = tokio::join!(client.call("inbox_wait", json!({"timeout_seconds": 600})), send);
        assert_eq!(waited["messages"][0]["entry"]["message"], format!("@{name} go"), "{way:?}");
        let again = client.call("inbox_wait", json!({"timeout_seconds": 0})).await;
        assert_eq!(again, waited, "what was not acknowledged is still there");
        client.call("inbox_ack", json!({"until": waited["messages"][0]["entry"]["id"]})).await;
    }
    let refused = sender.refused("inbox_wait", json!({"timeout_seconds": "long"})).await;
    assert_eq!(refused["code"], "INVALID_INPUT");
}

#[tokio::test]
async fn a_wait_does_not_end_by_what_was_read_before() {
    let daemon = setup().start().unwrap();
    let (a, b) = (team(&daemon, Way::Session, "a").await, team(&daemon, Way::Alone, "b").await);
    for number in 0..105 {
        a.says("channel_send", json!({"message": format!("@b {number}")})).await;
    }
    let first = b.call("inbox_check", json!({})).await;
    let more = "5 more wait for you: inbox_ack what you are done with, or give a limit (1000 at most).";
    assert_eq!((count(&first), &first["notes"][0]), (100, &json!(more)));
    let second = b.call("inbox_wait", json!({"timeout_seconds": 600})).await;
    assert_eq!(second["messages"][99]["entry"]["message"], "@b 104", "what did not fit is unread, and comes at once");
    let send = a.says("channel_send", json!({"message": "@b new"}));
    let (waited, _) = tokio::join!(b.call("inbox_wait", json!({"timeout_seconds": 600})), send);
    assert_eq!((count(&waited), &waited["messages"][99]["entry"]["message"]), (100, &json!("@b new")));
    let few = b.call("inbox_wait", json!({"timeout_seconds": 0, "limit": 1})).await;
    assert_eq!(few["messages"][0]["entry"]["message"], "@b 0");
    assert_eq!(count(&b.call("inbox_check", json!({"limit": 1_000})).await), 106);
    let id = &waited["messages"][99]["entry"]["id"];
    assert_eq!(b.call("inbox_ack", json!({"until": id})).await["acknowledged"].as_array().unwrap().len(), 106);
}

#[tokio::test]
async fn a_wait_ends_when_a_coordination_message_comes() {
    let daemon = setup().start().unwrap();
    let (a, b) = (team(&daemon, Way::Session, "a").await, team(&daemon, Way::Alone, "b").await);
    let issue = json!({"type": "BLOCKING_ISSUE", "to": ["b"], "subject": "help"});
    let (waited, _) =
        tokio::join!(b.raw("inbox_wait", json!({"timeout_seconds": 600})), a.call("coord_publish_message", issue));
    assert_eq!(count(waited.structured_content.as_ref().unwrap()), 0);
    let hint = &waited.content.last().unwrap().as_text().unwrap().text;
    assert!(hint.contains("coord_check_messages"), "{hint}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_stops_keeps_nobody_waiting() {
    let mut daemon = setup().start().unwrap();
    team(&daemon, Way::Alone, "a").await;
    let (http, url) = (rookery_testkit::daemon::client().unwrap(), daemon.url().to_owned());
    let id = session(&url, "a").await;
    let wait = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "inbox_wait", "arguments": {"timeout_seconds": 600}}});
    let waiting = post(&http, &url, "a", Some(&id), wait).await;
    let stop = async { tokio::task::block_in_place(|| daemon.stop()).unwrap() };
    let (waited, stopped) = tokio::join!(tokio::time::timeout(DEADLINE, waiting.text()), stop);
    // Whether it still got its answer is a matter of luck; that it does not hang is not.
    drop(waited.expect("the wait goes on although the daemon is gone"));
    assert_eq!(stopped, Some(0));
}

/// More waits than one agent may have under way, each left by its client: they hold nothing.
#[tokio::test]
async fn a_wait_whose_client_is_gone_holds_nothing() {
    let daemon = setup().env("ROOKERY_MAX_IN_FLIGHT_PER_AGENT", "3").start().unwrap();
    let client = team(&daemon, Way::Alone, "a").await;
    let id = session(daemon.url(), "a").await;
    let http = rookery_testkit::daemon::client().unwrap();
    for number in 0..12 {
        let wait = json!({"jsonrpc": "2.0", "id": number + 10, "method": "tools/call",
            "params": {"name": "inbox_wait", "arguments": {"timeout_seconds": 600}}});
        // Every other one by a session that goes on, the rest by connections that stand for themselves.
        if number % 2 == 0 {
            let leaves = tokio::time::timeout(Duration::from_millis(300), async {
                post(&http, daemon.url(), "a", Some(&id), wait).await.text().await
            });
            assert!(leaves.await.is_err(), "it waits");
        } else {
            let leaving = client.raw("inbox_wait", json!({"timeout_seconds": 600}));
            assert!(tokio::time::timeout(Duration::from_millis(300), leaving).await.is_err(), "it waits");
        }
        rookery_testkit::wait::eventually("its place is free again", || async {
            let all =
                futures_util::future::join_all((0..3).map(|_| client.raw("inbox_wait", json!({"timeout_seconds": 0}))));
            Ok(all.await.iter().all(|answer| answer.is_error != Some(true)).then_some(()))
        })
        .await
        .unwrap();
    }
}
