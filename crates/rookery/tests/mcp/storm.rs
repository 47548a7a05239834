//! Agents that reply to each other endlessly, or one that floods another: excess messages wait for a person.

use reqwest::Method;
use rookery_testkit::daemon::read;
use serde_json::{Value, json};

use crate::support::{Transport, connect, first_text, rows_of_kind, setup, text};

#[tokio::test]
async fn reply_loop_between_agents_is_held() {
    let daemon = setup().env("ROOKERY_MESSAGE_HOPS", "4").start().unwrap();
    let (a, b) = (
        connect(&daemon, Transport::Session, Some("a")).await,
        connect(&daemon, Transport::Stateless, Some("b")).await,
    );
    a.read_inbox().await;
    b.read_inbox().await;
    let mut results = Vec::new();
    for turn in 0..8 {
        let (speaker, other) = if turn % 2 == 0 { (&a, "b") } else { (&b, "a") };
        speaker.read_inbox().await;
        let sent = speaker.call_raw("channel_send", json!({"message": format!("@{other} thanks")})).await;
        results.push(first_text(&sent));
    }
    assert_eq!(results, ["sent", "sent", "sent", "sent", "sent", "held", "sent", "held"].map(str::to_owned));
    let held = b.call_raw("channel_send", json!({"message": "@a thanks again"})).await;
    let notice = held.content[1].as_text().unwrap().text.clone();
    assert!(
        notice.contains("more than 4 times") && held.structured_content.unwrap()["held"] == notice.as_str(),
        "{notice}"
    );
    assert_eq!(
        b.call_text("channel_send", json!({"message": "to nobody in particular"})).await,
        "sent",
        "it notifies no agent"
    );
}

#[tokio::test]
async fn messages_over_the_rate_limit_are_held_for_a_person() {
    let daemon = setup().env("ROOKERY_MESSAGES_PER_MINUTE", "3").start().unwrap();
    let (a, b) = (
        connect(&daemon, Transport::Session, Some("a")).await,
        connect(&daemon, Transport::Stateless, Some("b")).await,
    );
    b.read_inbox().await;
    let mut held = Vec::new();
    for number in 0..6 {
        let sent = a.call("channel_send", json!({"message": format!("@b {number}")})).await;
        if sent["held"].is_string() {
            held.push(text(&sent["id"]));
        }
    }
    assert!((2..=3).contains(&held.len()), "{held:?}");
    assert_eq!(b.read_inbox().await.len(), 6 - held.len(), "held messages are not delivered");
    let status = a.call("message_status", json!({"id": held[0]})).await;
    assert_eq!(status["recipients"][0]["status"], "held");
    assert_eq!(rows_of_kind(&daemon, "message.held").len(), held.len(), "held messages are not dropped");
    assert_eq!(
        b.call_text("channel_send", json!({"message": "@a fine"})).await,
        "sent",
        "other senders are not limited"
    );

    // A person decides: a released message is delivered as if sent now, a discarded one never.
    let person = daemon.person_key().unwrap();
    let send_as_person = async |method: Method, path: String, body: Value| {
        let request = daemon.request(method, &path).bearer_auth(person.trim()).json(&body);
        let reply = read(request).await.unwrap();
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    };
    assert_eq!(daemon.get("/admin/messages/held").await.unwrap().status, 403);
    let waiting = send_as_person(Method::GET, "/admin/messages/held".to_owned(), json!(null)).await;
    assert_eq!((waiting.as_array().unwrap().len(), &waiting[0]["id"]), (held.len(), &json!(held[0])));
    b.call("inbox_ack", json!({"until": "2999-01-01"})).await;
    let decision = |id: &str| format!("/admin/messages/{id}/decision");
    send_as_person(Method::POST, decision(&held[0]), json!({"verdict": "deliver"})).await;
    assert_eq!(b.read_inbox().await.len(), 1);
    send_as_person(Method::POST, decision(&held[1]), json!({"verdict": "discard", "reason": "noise"})).await;
    assert_eq!(b.read_inbox().await.len(), 1);
    let discarded = a.call("message_status", json!({"id": held[1]})).await;
    assert_eq!(discarded["recipients"][0]["status"], "discarded");
    daemon.replay_verify().unwrap();
}
