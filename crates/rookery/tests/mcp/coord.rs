//! Coordination messages: pending until each recipient acknowledges them.

use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::support::{Client, Way, connect, connect_to, facts, setup, text};

async fn member(daemon: &Daemon, agent: &str) -> Client {
    let client = connect_to(daemon, Way::Alone, "coord", Some(agent)).await;
    client.call("coord_send_heartbeat", json!({})).await;
    client
}

async fn pending(client: &Client) -> Vec<String> {
    let checked = client.call("coord_check_messages", json!({})).await;
    let pending = checked["pending"].as_array().unwrap();
    assert_eq!(checked["count"], pending.len());
    pending.iter().map(|message| text(&message["subject"])).collect()
}

async fn publish(client: &Client, topic: &str, to: Value, subject: &str) -> String {
    let message = json!({"type": topic, "to": to, "subject": subject, "body": format!("{subject} in full")});
    text(&client.call("coord_publish_message", message).await["message_id"])
}

#[tokio::test]
async fn a_message_is_pending_until_it_is_acknowledged() {
    let daemon = setup().start().unwrap();
    let (frontend, backend) = (member(&daemon, "frontend").await, member(&daemon, "backend").await);
    let sent = json!({"type": "BLOCKING_ISSUE", "to": ["backend"], "subject": "API endpoint missing", "body": "..."});
    let published = backend_id(&frontend.call("coord_publish_message", sent).await);
    let checked = backend.call("coord_check_messages", json!({})).await;
    let timestamp = checked["pending"][0]["timestamp"].clone();
    assert!(text(&timestamp).ends_with('Z'));
    let message = json!({"id": published, "type": "BLOCKING_ISSUE", "from": "frontend", "timestamp": timestamp,
        "subject": "API endpoint missing", "body": "..."});
    assert_eq!(checked, json!({"pending": [message], "count": 1}));
    assert_eq!(pending(&backend).await, ["API endpoint missing"], "to see it is not to be done with it");
    assert!(pending(&frontend).await.is_empty());
    let acked = backend.call("coord_ack_message", json!({"message_id": published})).await;
    assert_eq!(acked, json!({"success": true, "acknowledged": published}));
    assert_eq!(backend.call("coord_ack_message", json!({"message_id": published})).await, acked, "again is no error");
    assert_eq!(backend.call("coord_check_messages", json!({})).await, json!({"pending": [], "count": 0}));
    let strange = backend.refused("coord_ack_message", json!({"message_id": "msg-123"})).await;
    assert_eq!(strange["code"], "MESSAGE_NOT_FOUND");
    assert_eq!(
        frontend.refused("coord_ack_message", json!({"message_id": published})).await["code"],
        "MESSAGE_NOT_FOUND"
    );
}

/// The id of a message, of which nothing else is told if everybody is known.
fn backend_id(published: &Value) -> String {
    let id = text(&published["message_id"]);
    assert_eq!(*published, json!({"success": true, "message_id": id}));
    id
}

#[tokio::test]
async fn a_broadcast_is_pending_until_each_acknowledges_it() {
    let daemon = setup().start().unwrap();
    let (a, b, c) = (member(&daemon, "a").await, member(&daemon, "b").await, member(&daemon, "c").await);
    let first = publish(&a, "GENERAL", json!("all"), "one").await;
    publish(&a, "STATUS_UPDATE", json!(["all"]), "two").await;
    assert!(pending(&a).await.is_empty(), "not its author");
    assert_eq!(b.refused("coord_ack_message", json!({"message_id": first})).await["code"], "NOT_DELIVERED");
    assert_eq!((pending(&b).await.len(), pending(&c).await.len()), (2, 2));
    b.call("coord_ack_message", json!({"message_id": first})).await;
    assert_eq!((pending(&b).await, pending(&c).await.len()), (vec!["two".to_owned()], 2));
    let late = member(&daemon, "late").await;
    assert_eq!(pending(&late).await, ["one", "two"], "whoever joins later gets what still counts");
    let status = a.call("message_status", json!({"id": first})).await;
    let standing = |agent: &str| {
        let all = status["recipients"].as_array().unwrap();
        all.iter().find(|one| one["agent_id"] == agent).map(|one| text(&one["status"]))
    };
    assert_eq!((standing("b"), standing("c"), standing("a")), (Some("acked".into()), Some("read".into()), None));

    let held = json!({"type": "GENERAL", "to": ["b", "ghost"], "subject": "for two"});
    let published = a.call("coord_publish_message", held).await;
    assert_eq!(published["unknown"], json!(["ghost"]));
    assert_eq!(pending(&member(&daemon, "ghost").await).await.last().map(String::as_str), Some("for two"));
    for (wrong, code) in [
        (json!({"type": "general", "to": "all", "subject": "x"}), "INVALID_INPUT"),
        (json!({"type": "GENERAL", "to": [], "subject": "x"}), "INVALID_INPUT"),
        (json!({"type": "GENERAL", "to": "all", "subject": " "}), "INVALID_INPUT"),
        (json!({"type": "GENERAL", "to": 7, "subject": "x"}), "INVALID_INPUT"),
        (json!({"type": "GENERAL", "subject": "x"}), "INVALID_INPUT"),
    ] {
        assert_eq!(a.refused("coord_publish_message", wrong.clone()).await["code"], code, "{wrong}");
    }
}

#[tokio::test]
async fn sessions_are_told_of_in_their_own_form() {
    let daemon = setup().start().unwrap();
    let (mut b, p11) = (connect(&daemon, Way::Session, Some("b")).await, member(&daemon, "p11-guardrails").await);
    b.call("coord_send_heartbeat", json!({})).await;
    let described = "Session started. CWD: /path/to/.worktrees/p11-guardrails, Session ID: session-1738756800-12345";
    let start = json!({"type": "SESSION_START", "to": ["all"], "subject": "Session started: p11-guardrails",
        "body": described});
    let id = text(&p11.call("coord_publish_message", start).await["message_id"]);
    let mut parts = id.split('-');
    assert_eq!(parts.next(), Some("msg"));
    assert!(parts.all(|number| number.parse::<u64>().is_ok()) && id.matches('-').count() == 2, "{id}");
    let stored = p11.call("message_status", json!({"id": id})).await;
    assert_eq!((&stored["type"], &stored["from"]), (&json!("SESSION_START"), &json!("p11-guardrails")));
    assert_eq!((&stored["to"], &stored["requires_ack"]), (&json!("all"), &json!(false)));
    let payload = json!({"subject": "Session started: p11-guardrails", "description": described});
    assert_eq!(stored["payload"], payload);

    // Nobody is woken by it, and nobody is nagged; whoever looks finds it.
    let ended = json!({"type": "SESSION_END", "to": "all", "subject": "Session ended: p11-guardrails",
        "body": "Session ended. Reason: task_complete"});
    p11.call("coord_publish_message", ended).await;
    publish(&p11, "GENERAL", json!(["b"]), "a real one").await;
    assert_eq!(b.is_told().await["message"], "a real one");
    let hint = b.raw("coord_get_presence", json!({})).await;
    assert_eq!(hint.meta.unwrap().0["rookery/unread"], 1);
    assert_eq!(pending(&b).await.len(), 3);
    assert_eq!(pending(&b).await, ["a real one"], "what wants no acknowledgement is shown once");
    let one = p11.refused("coord_publish_message", json!({"type": "SESSION_END", "to": ["b"], "subject": "x"})).await;
    assert_eq!(one["code"], "INVALID_INPUT");
    assert_eq!(facts(&daemon, "message.sent").len(), 3);
}

#[tokio::test]
async fn presence_tells_who_is_there() {
    let daemon = setup().start().unwrap();
    let (a, b, c) = (member(&daemon, "a").await, member(&daemon, "b").await, member(&daemon, "c").await);
    drop(c);
    daemon.patch("/agents/b/status", json!({"status": "offline"})).await.unwrap();
    daemon.delete("/agents/c").await.unwrap();
    let present = a.call("coord_get_presence", json!({})).await;
    let told: Vec<(String, String)> = present["instances"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["instance_id"]), text(&one["status"])))
        .collect();
    let expected =
        [("a", "active"), ("b", "stale"), ("c", "offline")].map(|(id, status)| (id.to_owned(), status.to_owned()));
    assert_eq!(told, expected);
    let beat = b.call("coord_send_heartbeat", json!({})).await;
    assert_eq!((&beat["success"], text(&beat["timestamp"]).ends_with('Z')), (&json!(true), true));
    assert_eq!(a.call("coord_get_presence", json!({})).await["instances"][1]["status"], "active");
}

#[tokio::test]
async fn an_issue_does_not_hide_behind_sessions() {
    let daemon = setup().start().unwrap();
    let (a, b) = (member(&daemon, "a").await, member(&daemon, "b").await);
    for _ in 0..101 {
        publish(&a, "SESSION_START", json!("all"), "here I am").await;
    }
    publish(&a, "BLOCKING_ISSUE", json!(["b"]), "help").await;
    publish(&a, "BLOCKING_ISSUE", json!("all"), "help everybody").await;
    let checked = b.call("coord_check_messages", json!({})).await;
    let shown = checked["pending"].as_array().unwrap();
    let last: Vec<&Value> = shown[98..].iter().map(|message| &message["subject"]).collect();
    assert_eq!(last, ["help", "help everybody"]);
    let more = "3 more wait for you: coord_ack_message what you are done with, or give a limit (1000 at most).";
    assert_eq!(checked["notes"], json!([more]));
    let rest = b.call("coord_check_messages", json!({"limit": 1_000})).await;
    assert_eq!(
        (&rest["count"], rest.get("notes")),
        (&json!(5), None),
        "the issues again, and the sessions that were left"
    );
    assert_eq!(pending(&b).await, ["help", "help everybody"], "each session was shown once");
}

#[tokio::test]
async fn message_without_acknowledgement_is_shown_once_to_each_recipient() {
    let daemon = setup().start().unwrap();
    let (a, b, c) = (member(&daemon, "a").await, member(&daemon, "b").await, member(&daemon, "c").await);
    for to in [json!("all"), json!(["b", "c"])] {
        let news = json!({"type": "GENERAL", "to": to, "subject": "news", "body": "b", "requires_ack": false});
        let id = text(&a.call("coord_publish_message", news).await["message_id"]);
        for client in [&b, &c] {
            assert_eq!(pending(client).await, ["news"]);
            assert_eq!(pending(client).await, [""; 0]);
            // An acknowledgement all the same is not refused.
            assert_eq!(client.call("coord_ack_message", json!({"message_id": id})).await["success"], true);
        }
    }
}

#[tokio::test]
async fn session_of_a_coordination_heartbeat_is_shown_with_the_agent() {
    let daemon = setup().start().unwrap();
    let a = member(&daemon, "a").await;
    a.call("coord_send_heartbeat", json!({"session_id": "session-1738756800-12345"})).await;
    assert_eq!(daemon.get("/agents/a").await.unwrap().body["session_id"], "session-1738756800-12345");
    let all = connect(&daemon, Way::Session, Some("a")).await;
    let shown = all.call("agent_get", json!({"id": "a"})).await;
    assert_eq!(shown["session_id"], "session-1738756800-12345");
}

#[tokio::test]
async fn refused_argument_comes_with_a_suggestion() {
    let daemon = setup().start().unwrap();
    let a = member(&daemon, "a").await;
    let refused =
        a.refused("coord_publish_message", json!({"type": "X", "to": "all", "subject": "", "body": "b"})).await;
    for field in ["code", "message", "recoverable", "suggestion"] {
        assert!(!refused[field].is_null(), "{field} of {refused}");
    }
}
