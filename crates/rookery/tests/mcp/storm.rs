//! Agents that answer each other without end, or one that does not stop: what is too much waits for a person.

use serde_json::json;

use crate::support::{Way, connect, facts, said, setup, text};

#[tokio::test]
async fn agents_that_answer_each_other_are_stopped() {
    let daemon = setup().env("ROOKERY_MESSAGE_HOPS", "4").start().unwrap();
    let (a, b) = (connect(&daemon, Way::Session, Some("a")).await, connect(&daemon, Way::Alone, Some("b")).await);
    a.inbox().await;
    b.inbox().await;
    let mut words = Vec::new();
    for turn in 0..8 {
        let (speaker, other) = if turn % 2 == 0 { (&a, "b") } else { (&b, "a") };
        speaker.inbox().await;
        let sent = speaker.raw("channel_send", json!({"message": format!("@{other} thanks")})).await;
        words.push(said(&sent));
    }
    assert_eq!(words, ["sent", "sent", "sent", "sent", "sent", "held", "sent", "held"].map(str::to_owned));
    let held = b.raw("channel_send", json!({"message": "@a thanks again"})).await;
    let told = held.content[1].as_text().unwrap().text.clone();
    assert!(told.contains("more than 4 times") && held.structured_content.unwrap()["held"] == told.as_str(), "{told}");
    assert_eq!(b.says("channel_send", json!({"message": "to nobody in particular"})).await, "sent", "it wakes nobody");
}

#[tokio::test]
async fn one_that_does_not_stop_is_held() {
    let daemon = setup().env("ROOKERY_MESSAGES_PER_MINUTE", "3").start().unwrap();
    let (a, b) = (connect(&daemon, Way::Session, Some("a")).await, connect(&daemon, Way::Alone, Some("b")).await);
    b.inbox().await;
    let mut held = Vec::new();
    for number in 0..6 {
        let sent = a.call("channel_send", json!({"message": format!("@b {number}")})).await;
        if sent["held"].is_string() {
            held.push(text(&sent["id"]));
        }
    }
    assert!((2..=3).contains(&held.len()), "{held:?}");
    assert_eq!(b.inbox().await.len(), 6 - held.len(), "what is held reaches nobody");
    let status = a.call("message_status", json!({"id": held[0]})).await;
    assert_eq!(status["recipients"][0]["status"], "held");
    assert_eq!(facts(&daemon, "message.held").len(), held.len(), "and nothing is dropped");
    assert_eq!(b.says("channel_send", json!({"message": "@a fine"})).await, "sent", "others go on");
}
