//! Coordination messages: pending until each recipient acknowledges them.

use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::support::{Client, Transport, connect, connect_to, rows_of_kind, setup, text};

async fn member(daemon: &Daemon, agent: &str) -> Client {
    let client = connect_to(daemon, Transport::Stateless, "coord", Some(agent)).await;
    client.call("coord_send_heartbeat", json!({})).await;
    client
}

async fn pending_subjects(client: &Client) -> Vec<String> {
    let checked = client.call("coord_check_messages", json!({})).await;
    let pending_subjects = checked["pending"].as_array().unwrap();
    assert_eq!(checked["count"], pending_subjects.len());
    pending_subjects.iter().map(|message| text(&message["subject"])).collect()
}

async fn publish_message(client: &Client, topic: &str, to: Value, subject: &str) -> String {
    let message = json!({"type": topic, "to": to, "subject": subject, "body": format!("{subject} in full")});
    text(&client.call("coord_publish_message", message).await["message_id"])
}

#[tokio::test]
async fn coordination_message_is_pending_until_acknowledged() {
    let daemon = setup().start().unwrap();
    let (frontend, backend) = (member(&daemon, "frontend").await, member(&daemon, "backend").await);
    let sent = json!({"type": "BLOCKING_ISSUE", "to": ["backend"], "subject": "API endpoint missing", "body": "..."});
    let published = sole_message_id(&frontend.call("coord_publish_message", sent).await);
    let checked = backend.call("coord_check_messages", json!({})).await;
    let timestamp = checked["pending"][0]["timestamp"].clone();
    assert!(text(&timestamp).ends_with('Z'));
    let message = json!({"id": published, "type": "BLOCKING_ISSUE", "from": "frontend", "timestamp": timestamp,
        "subject": "API endpoint missing", "body": "..."});
    assert_eq!(checked, json!({"pending": [message], "count": 1}));
    assert_eq!(pending_subjects(&backend).await, ["API endpoint missing"], "showing a message does not acknowledge it");
    assert!(pending_subjects(&frontend).await.is_empty());
    let acked = backend.call("coord_ack_message", json!({"message_id": published})).await;
    assert_eq!(acked, json!({"success": true, "acknowledged": published}));
    assert_eq!(
        backend.call("coord_ack_message", json!({"message_id": published})).await,
        acked,
        "a repeated acknowledgement is no error"
    );
    assert_eq!(backend.call("coord_check_messages", json!({})).await, json!({"pending": [], "count": 0}));
    let strange = backend.call_rejected("coord_ack_message", json!({"message_id": "msg-123"})).await;
    assert_eq!(strange["code"], "MESSAGE_NOT_FOUND");
    assert_eq!(
        frontend.call_rejected("coord_ack_message", json!({"message_id": published})).await["code"],
        "MESSAGE_NOT_FOUND"
    );
}

/// The id of a published message; the result has no other field if all recipients are known.
fn sole_message_id(published: &Value) -> String {
    let id = text(&published["message_id"]);
    assert_eq!(*published, json!({"success": true, "message_id": id}));
    id
}

#[tokio::test]
async fn broadcast_is_pending_until_each_recipient_acknowledges() {
    let daemon = setup().start().unwrap();
    let (a, b, c) = (member(&daemon, "a").await, member(&daemon, "b").await, member(&daemon, "c").await);
    let first = publish_message(&a, "GENERAL", json!("all"), "one").await;
    publish_message(&a, "STATUS_UPDATE", json!(["all"]), "two").await;
    assert!(pending_subjects(&a).await.is_empty(), "not its author");
    assert_eq!(b.call_rejected("coord_ack_message", json!({"message_id": first})).await["code"], "NOT_DELIVERED");
    assert_eq!((pending_subjects(&b).await.len(), pending_subjects(&c).await.len()), (2, 2));
    b.call("coord_ack_message", json!({"message_id": first})).await;
    assert_eq!((pending_subjects(&b).await, pending_subjects(&c).await.len()), (vec!["two".to_owned()], 2));
    let late = member(&daemon, "late").await;
    assert_eq!(pending_subjects(&late).await, ["one", "two"], "a later agent gets open broadcasts");
    let status = a.call("message_status", json!({"id": first})).await;
    let standing = |agent: &str| {
        let all = status["recipients"].as_array().unwrap();
        all.iter().find(|one| one["agent_id"] == agent).map(|one| text(&one["status"]))
    };
    assert_eq!((standing("b"), standing("c"), standing("a")), (Some("acked".into()), Some("read".into()), None));

    let held = json!({"type": "GENERAL", "to": ["b", "ghost"], "subject": "for two"});
    let published = a.call("coord_publish_message", held).await;
    assert_eq!(published["unknown"], json!(["ghost"]));
    assert_eq!(pending_subjects(&member(&daemon, "ghost").await).await.last().map(String::as_str), Some("for two"));
    for (wrong, code) in [
        (json!({"type": "general", "to": "all", "subject": "x"}), "INVALID_INPUT"),
        (json!({"type": "GENERAL", "to": [], "subject": "x"}), "INVALID_INPUT"),
        (json!({"type": "GENERAL", "to": "all", "subject": " "}), "INVALID_INPUT"),
        (json!({"type": "GENERAL", "to": 7, "subject": "x"}), "INVALID_INPUT"),
        (json!({"type": "GENERAL", "subject": "x"}), "INVALID_INPUT"),
    ] {
        assert_eq!(a.call_rejected("coord_publish_message", wrong.clone()).await["code"], code, "{wrong}");
    }
}

#[tokio::test]
async fn session_messages_keep_their_documented_form() {
    let daemon = setup().start().unwrap();
    let (mut b, p11) = (connect(&daemon, Transport::Session, Some("b")).await, member(&daemon, "p11-guardrails").await);
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

    // Session messages cause no notification; they are shown on the next check.
    let ended = json!({"type": "SESSION_END", "to": "all", "subject": "Session ended: p11-guardrails",
        "body": "Session ended. Reason: task_complete"});
    p11.call("coord_publish_message", ended).await;
    publish_message(&p11, "GENERAL", json!(["b"]), "a real one").await;
    assert_eq!(b.next_mention().await["message"], "a real one");
    let hint = b.call_raw("coord_get_presence", json!({})).await;
    assert_eq!(hint.meta.unwrap().0["rookery/unread"], 1);
    assert_eq!(pending_subjects(&b).await.len(), 3);
    assert_eq!(pending_subjects(&b).await, ["a real one"], "a message without acknowledgement is shown once");
    let one =
        p11.call_rejected("coord_publish_message", json!({"type": "SESSION_END", "to": ["b"], "subject": "x"})).await;
    assert_eq!(one["code"], "INVALID_INPUT");
    assert_eq!(rows_of_kind(&daemon, "message.sent").len(), 3);
}

#[tokio::test]
async fn presence_lists_active_stale_and_offline_agents() {
    let daemon = setup().start().unwrap();
    let (a, b, c) = (member(&daemon, "a").await, member(&daemon, "b").await, member(&daemon, "c").await);
    drop(c);
    daemon.patch("/agents/b/status", json!({"status": "offline"})).await.unwrap();
    daemon.delete("/agents/c").await.unwrap();
    let present = a.call("coord_get_presence", json!({})).await;
    let statuses: Vec<(String, String)> = present["instances"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["instance_id"]), text(&one["status"])))
        .collect();
    let expected =
        [("a", "active"), ("b", "stale"), ("c", "offline")].map(|(id, status)| (id.to_owned(), status.to_owned()));
    assert_eq!(statuses, expected);
    let beat = b.call("coord_send_heartbeat", json!({})).await;
    assert_eq!((&beat["success"], text(&beat["timestamp"]).ends_with('Z')), (&json!(true), true));
    assert_eq!(a.call("coord_get_presence", json!({})).await["instances"][1]["status"], "active");
}

#[tokio::test]
async fn blocking_issue_is_shown_despite_many_session_messages() {
    let daemon = setup().start().unwrap();
    let (a, b) = (member(&daemon, "a").await, member(&daemon, "b").await);
    for _ in 0..101 {
        publish_message(&a, "SESSION_START", json!("all"), "here I am").await;
    }
    publish_message(&a, "BLOCKING_ISSUE", json!(["b"]), "help").await;
    publish_message(&a, "BLOCKING_ISSUE", json!("all"), "help everybody").await;
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
        "the issues again, and the remaining session messages"
    );
    assert_eq!(pending_subjects(&b).await, ["help", "help everybody"], "each session was shown once");
}

#[tokio::test]
async fn message_without_acknowledgement_is_shown_once_to_each_recipient() {
    let daemon = setup().start().unwrap();
    let (a, b, c) = (member(&daemon, "a").await, member(&daemon, "b").await, member(&daemon, "c").await);
    for to in [json!("all"), json!(["b", "c"])] {
        let news = json!({"type": "GENERAL", "to": to, "subject": "news", "body": "b", "requires_ack": false});
        let id = text(&a.call("coord_publish_message", news).await["message_id"]);
        for client in [&b, &c] {
            assert_eq!(pending_subjects(client).await, ["news"]);
            assert_eq!(pending_subjects(client).await, [""; 0]);
            // An acknowledgement is still accepted.
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
    let all = connect(&daemon, Transport::Session, Some("a")).await;
    let shown = all.call("agent_get", json!({"id": "a"})).await;
    assert_eq!(shown["session_id"], "session-1738756800-12345");
}

#[tokio::test]
async fn rejected_argument_has_a_suggestion() {
    let daemon = setup().start().unwrap();
    let a = member(&daemon, "a").await;
    let rejected =
        a.call_rejected("coord_publish_message", json!({"type": "X", "to": "all", "subject": "", "body": "b"})).await;
    for field in ["code", "message", "recoverable", "suggestion"] {
        assert!(!rejected[field].is_null(), "{field} of {rejected}");
    }
}
