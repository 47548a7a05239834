//! Channel and inbox: recipients of messages, and the extent of an acknowledgement.

use rmcp::model::ReadResourceRequestParams;
use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::support::{Client, TRANSPORTS, Transport, connect, connect_to, first_text, inbox_uri, setup, text};

/// Connects one client of the context tools for each agent and makes the agents known to the daemon.
async fn connect_team<const N: usize>(daemon: &Daemon, names: [&str; N]) -> [Client; N] {
    let mut clients = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let transport = [Transport::Session, Transport::Stateless, Transport::Socket][number % 3];
        let client = connect_to(daemon, transport, "context", Some(name)).await;
        assert_eq!(client.call_text("inbox_check", json!({})).await, "[]", "{name}");
        clients.push(client);
    }
    clients.try_into().unwrap_or_else(|_| panic!("as many clients as names"))
}

fn texts(value: &Value, list: &str) -> Vec<String> {
    value[list].as_array().unwrap().iter().map(|one| text(&one["message"])).collect()
}

#[tokio::test]
async fn mention_flow_from_send_to_acknowledgement() {
    let daemon = setup().start().unwrap();
    for transport in TRANSPORTS {
        let instance = format!("{transport:?}").to_lowercase();
        let reviewer = connect_to(&daemon, transport, "context", Some(&format!("reviewer@{instance}"))).await;
        let coder = connect_to(&daemon, transport, "context", Some(&format!("coder@{instance}"))).await;
        coder.call("channel_peek", json!({})).await;
        let sent = reviewer.call_raw("channel_send", json!({"message": "@coder please fix the auth issue"})).await;
        assert_eq!((sent.content.len(), first_text(&sent).as_str()), (1, "sent"), "{transport:?}");

        let shown = coder.call_raw("inbox_check", json!({})).await;
        let read: Value = serde_json::from_str(&first_text(&shown)).unwrap();
        let timestamp = text(&read[0]["entry"]["timestamp"]);
        let id = sent.structured_content.unwrap()["id"].clone();
        let entry = json!({"id": id, "timestamp": timestamp, "from": "reviewer",
            "message": "@coder please fix the auth issue", "mentions": ["coder"]});
        assert_eq!(read, json!([{"entry": entry, "unread": true, "priority": "normal"}]), "{transport:?}");
        assert_eq!(shown.structured_content, Some(json!({"messages": read})), "{transport:?}");
        assert_eq!(coder.call("channel_mentions", json!({})).await, json!({"messages": read}), "{transport:?}");

        assert_eq!(coder.call_text("inbox_ack", json!({"until": timestamp})).await, "acknowledged", "{transport:?}");
        assert_eq!(coder.call_text("inbox_check", json!({})).await, "[]", "{transport:?}");
        let channel: Value = serde_json::from_str(&coder.call_text("channel_read", json!({})).await).unwrap();
        assert_eq!(channel, json!([entry]), "{transport:?}");
    }
}

#[tokio::test]
async fn mention_reaches_the_named_agents_only() {
    let daemon = setup().start().unwrap();
    let [a, b, other, default] = connect_team(&daemon, ["a@x", "b@x", "a@y", "d"]).await;
    a.call_text("channel_send", json!({"message": "@b and @a, also @a@y and @d@default"})).await;
    assert_eq!(b.read_inbox().await.len(), 1);
    assert!(a.read_inbox().await.is_empty(), "an agent gets no message of its own");
    let elsewhere = other.call("inbox_check", json!({})).await["messages"][0].clone();
    assert_eq!((&elsewhere["entry"]["from"], &elsewhere["priority"]), (&json!("a@x"), &json!("high")));
    assert_eq!(elsewhere["entry"]["mentions"], json!(["b@x", "a@x", "a", "d@default"]));
    assert_eq!(default.call("inbox_check", json!({})).await["messages"][0]["entry"]["from"], "a@x");
    assert_eq!(
        texts(&other.call("channel_read", json!({})).await, "entries"),
        [""; 0],
        "a channel belongs to its instance"
    );

    let missed = a.call_raw("channel_send", json!({"message": "@nobody @b@z hello"})).await;
    assert_eq!(first_text(&missed), "sent");
    assert_eq!(missed.structured_content.unwrap()["unknown"], json!(["nobody", "b@z"]));
    let notice = &missed.content[1].as_text().unwrap().text;
    assert!(notice.contains("@nobody, @b@z") && notice.contains("@b, @a@y, @d@default"), "{notice}");

    a.call_text("channel_send", json!({"message": "only for you", "to": "b"})).await;
    let direct = b.call("inbox_check", json!({})).await["messages"][1]["entry"].clone();
    assert_eq!((&direct["message"], &direct["to"]), (&json!("only for you"), &json!(["b"])));
    assert_eq!(
        texts(&b.call("channel_peek", json!({})).await, "entries").len(),
        2,
        "a direct message is not in the channel"
    );
    let unknown = a.call_rejected("channel_send", json!({"message": "x", "to": "ghost"})).await;
    assert_eq!(unknown["code"], "AGENT_NOT_FOUND");
    assert_eq!(a.call_rejected("channel_send", json!({"message": "  "})).await["code"], "INVALID_INPUT");
}

#[tokio::test]
async fn urgent_or_shared_mention_has_high_priority() {
    let daemon = setup().start().unwrap();
    let [a, b, c] = connect_team(&daemon, ["a", "b", "c"]).await;
    for (message, priority) in [
        ("@b look", "normal"),
        ("@b we are BLOCKED", "high"),
        ("@b asap!", "high"),
        ("@b it is unblocked", "normal"),
        ("@b and @c", "high"),
        ("@b and @ghost", "normal"),
    ] {
        a.call_text("channel_send", json!({"message": message})).await;
        let last = b.call("inbox_check", json!({})).await["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&last["entry"]["message"], &last["priority"]), (&json!(message), &json!(priority)));
    }
    assert_eq!(c.read_inbox().await.len(), 1);
}

#[tokio::test]
async fn channel_since_is_exclusive_and_limit_returns_the_newest() {
    let daemon = setup().start().unwrap();
    let [a, b] = connect_team(&daemon, ["a", "b"]).await;
    let mut times = Vec::new();
    for number in 0..4 {
        let sent = a.call("channel_send", json!({"message": format!("@b {number}")})).await;
        times.push(text(&sent["timestamp"]));
    }
    let peek = async |arguments: Value| texts(&b.call("channel_peek", arguments).await, "entries");
    assert_eq!(peek(json!({"limit": 2})).await, ["@b 2", "@b 3"]);
    let read = async |arguments: Value| texts(&b.call("channel_read", arguments).await, "entries");
    assert_eq!(read(json!({"since": times[2]})).await, ["@b 3"]);
    assert_eq!(b.read_inbox().await, ["@b 0", "@b 1", "@b 2"], "exactly what was returned is acknowledged");
    assert_eq!(read(json!({"since": times[0], "limit": 1})).await, ["@b 3"]);
    assert_eq!(read(json!({"since": "2000-01-01", "limit": 3})).await, ["@b 1", "@b 2", "@b 3"]);
    assert_eq!(b.read_inbox().await, ["@b 0"]);
    assert_eq!(b.call_rejected("channel_read", json!({"since": "lately"})).await["code"], "INVALID_INPUT");
    assert_eq!(read(json!({"since": "2999-01-01"})).await.len(), 0);
}

#[tokio::test]
async fn acknowledgement_covers_only_shown_messages() {
    let daemon = setup().start().unwrap();
    let [a, b] = connect_team(&daemon, ["a", "b"]).await;
    let send = async |message: &str| {
        let sent = a.call("channel_send", json!({"message": message})).await;
        (text(&sent["id"]), text(&sent["timestamp"]))
    };
    let acknowledged_until = async |until: &str| {
        let acked = b.call("inbox_ack", json!({"until": until})).await;
        acked["acknowledged"].as_array().unwrap().len()
    };
    let (first, _) = send("@b 1").await;
    let (_, second_at) = send("@b 2").await;
    assert_eq!(acknowledged_until("2999-01-01").await, 0, "nothing was shown yet");
    assert_eq!(acknowledged_until(&first).await, 0, "not even by its id");
    let told = b.call_text("inbox_ack", json!({"until": "2999-01-01"})).await;
    assert_eq!(
        told,
        "Nothing was covered: up to there you were shown no message that is still open. inbox_check shows what is."
    );
    assert_eq!(b.read_inbox().await.len(), 2);
    let (third, third_at) = send("@b 3").await;
    assert_eq!(acknowledged_until(&third).await, 2, "up to the third, but the third was never shown");
    assert_eq!(b.read_inbox().await, ["@b 3"]);
    for (until, covered) in [(&second_at[..], 0), (&third_at[..], 1)] {
        assert_eq!(acknowledged_until(until).await, covered);
    }
    // A time of any precision and offset stands for the whole of its unit.
    for length in [4 + 6, 13, 16, 19, 23] {
        let (_, at) = send("@b again").await;
        assert_eq!(b.read_inbox().await.len(), 1);
        assert_eq!(acknowledged_until(&at[..length]).await, 1, "{}", &at[..length]);
    }
    send("@b peeked").await;
    b.call("inbox_peek", json!({})).await;
    let listed = b.call_raw("document_list", json!({})).await;
    assert_eq!(listed.meta.unwrap().0["rookery/unread"], 1, "a peeked message stays unread");
    assert_eq!(acknowledged_until("2999-01-01").await, 1, "a peeked message was shown");
    send("@b looked at by whoever tells b").await;
    for tool in ["inbox_peek", "channel_peek"] {
        b.call(tool, json!({"on_behalf": true})).await;
        assert_eq!(acknowledged_until("2999-01-01").await, 0, "b itself was not shown the message");
    }
    assert_eq!(b.read_inbox().await.len(), 1);
    assert_eq!(acknowledged_until("2999-01-01").await, 1);
    for until in ["never", ""] {
        assert_eq!(b.call_rejected("inbox_ack", json!({"until": until})).await["code"], "MESSAGE_NOT_FOUND", "{until}");
    }
}

#[tokio::test]
async fn tool_results_announce_unread_messages_until_shown() {
    let daemon = setup().start().unwrap();
    let [a, b] = connect_team(&daemon, ["a", "b"]).await;
    let unread = async |tool: &str, arguments: Value| {
        let result = b.call_raw(tool, arguments).await;
        let count = result.meta.as_ref().map_or(json!(0), |meta| meta.0["rookery/unread"].clone());
        (count, result.content.len())
    };
    assert_eq!(unread("document_list", json!({})).await, (json!(0), 1));
    a.call_text("channel_send", json!({"message": "@b one"})).await;
    a.call_text("channel_send", json!({"message": "@b two"})).await;
    assert_eq!(unread("document_list", json!({})).await, (json!(2), 2));
    assert_eq!(unread("document_read", json!({"file": "none.md"})).await, (json!(2), 2), "errors announce it too");
    for tool in ["inbox_peek", "channel_peek"] {
        assert_eq!(unread(tool, json!({})).await, (json!(0), 1), "{tool} has just shown them");
    }
    assert_eq!(unread("inbox_check", json!({})).await, (json!(0), 1));
    assert_eq!(
        unread("document_list", json!({})).await,
        (json!(0), 1),
        "read messages are not unread, even if not acknowledged"
    );
    assert_eq!(b.read_inbox().await.len(), 2);
}

#[tokio::test]
async fn registration_again_announces_unacknowledged_messages() {
    let daemon = setup().start().unwrap();
    let (a, b) =
        (connect(&daemon, Transport::Session, Some("a")).await, connect(&daemon, Transport::Session, Some("b")).await);
    let joins = json!({"name": "b", "runtime": "custom"});
    assert_eq!(b.call("agent_register", joins.clone()).await.get("notes"), None);
    a.call_text("channel_send", json!({"message": "@b one"})).await;
    a.call_text("coord_publish_message", json!({"type": "SESSION_START", "to": "all", "subject": "here"})).await;
    let resource = async || {
        let read = b.service.read_resource(ReadResourceRequestParams::new(inbox_uri("b"))).await.unwrap();
        let read: Value = serde_json::to_value(&read.contents[0]).unwrap();
        serde_json::from_str::<Value>(&text(&read["text"])).unwrap()["unread"].clone()
    };
    let listed = b.call_raw("document_list", json!({})).await;
    assert_eq!((&listed.meta.unwrap().0["rookery/unread"], resource().await), (&json!(1), json!(1)), "one number");
    assert_eq!(b.read_inbox().await, ["@b one"]);
    assert_eq!(b.call("document_list", json!({})).await.get("notes"), None, "the messages count as being worked on");
    let registered = b.call_raw("agent_register", joins.clone()).await;
    assert_eq!((registered.meta, resource().await), (None, json!(0)));
    let notes = registered.structured_content.unwrap()["notes"].clone();
    let open =
        "You have 1 message read but not acknowledged. See whether they are done (inbox_check) before you go on.";
    assert_eq!(notes, json!([open]));
    a.call_text("channel_send", json!({"message": "@b two"})).await;
    let notes = b.call("document_list", json!({})).await["notes"].clone();
    let both = "You have 1 unread message, and 1 read but not acknowledged. Read them (inbox_check) before you go on.";
    assert_eq!(notes, json!([both]));
    b.read_inbox().await;
    b.call("inbox_ack", json!({"until": "2999-01-01"})).await;
    assert_eq!(b.call("agent_register", joins).await.get("notes"), None);
}

#[tokio::test]
async fn channel_page_names_omitted_entries() {
    let daemon = setup().start().unwrap();
    let [a, b] = connect_team(&daemon, ["a", "b"]).await;
    let first = text(&a.call("channel_send", json!({"message": "first"})).await["timestamp"]);
    for number in 0..120 {
        a.call_text("channel_send", json!({"message": number.to_string()})).await;
    }
    let read = async |tool: &str, arguments: Value| {
        let read = b.call(tool, arguments).await;
        (read["entries"].as_array().unwrap().len(), read["notes"][0].clone())
    };
    for tool in ["channel_read", "channel_peek"] {
        let page = b.call(tool, json!({})).await;
        assert_eq!(page["before"], page["entries"][0]["timestamp"], "{tool}");
        let note = format!("There are earlier ones than these 100: before {} returns them.", page["before"]);
        assert_eq!(page["notes"][0], note, "{tool}");
        let rest = b.call(tool, json!({"before": page["before"]})).await;
        assert_eq!((rest["entries"].as_array().unwrap().len(), rest.get("before")), (21, None), "{tool}");
        assert_eq!(
            read(tool, json!({"limit": 5})).await,
            (5, Value::Null),
            "{tool}: the limit was given by the caller"
        );
    }
    let left_out = json!("20 earlier ones since then were left out. limit 120 returns all.");
    assert_eq!(read("channel_read", json!({"since": first})).await, (100, left_out));
    assert_eq!(read("channel_read", json!({"since": first, "limit": 120})).await, (120, Value::Null));
    // A shortened time stands for the start of its unit.
    for length in [10, 13, 16] {
        let since = json!({"since": first[..length], "limit": 1_000});
        assert_eq!(read("channel_read", since).await, (121, Value::Null), "{}", &first[..length]);
    }
}

#[tokio::test]
async fn paging_backwards_returns_every_entry_once() {
    const MANY: usize = 1_010;
    let daemon = setup().env("ROOKERY_MESSAGES_PER_MINUTE", "100000").start().unwrap();
    let [a, b] = connect_team(&daemon, ["a", "b"]).await;
    let since = text(&a.call("channel_send", json!({"message": "before all that"})).await["timestamp"]);
    for number in 0..MANY {
        a.call_text("channel_send", json!({"message": format!("{number}")})).await;
    }
    let (mut pages, mut arguments) = (Vec::new(), json!({"since": since, "limit": 5_000}));
    loop {
        let page = b.call("channel_read", arguments.clone()).await;
        pages.push(texts(&page, "entries"));
        let Some(before) = page.get("before") else { break };
        assert!(page["notes"][0].as_str().unwrap().contains(&format!("with before {before}")), "{}", page["notes"]);
        arguments["before"] = before.clone();
        a.call_text("channel_send", json!({"message": "meanwhile"})).await;
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 10]);
    let all: Vec<String> = pages.into_iter().rev().flatten().collect();
    assert_eq!(all, (0..MANY).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(b.call_rejected("channel_read", json!({"before": "lately"})).await["code"], "INVALID_INPUT");
    let minute = json!({"before": since[..16], "since": "2000-01-01"});
    assert_eq!(b.call("channel_read", minute).await["entries"], json!([]), "no entry of that minute");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_crash_between_send_and_read_loses_nothing() {
    let mut daemon = setup().start().unwrap();
    let [a, b] = connect_team(&daemon, ["a", "b"]).await;
    a.call_text("channel_send", json!({"message": "@b before"})).await;
    assert_eq!(b.read_inbox().await, ["@b before"]);
    a.call_text("channel_send", json!({"message": "@b unseen"})).await;
    a.call_text("document_append", json!({"content": "kept"})).await;
    tokio::task::block_in_place(|| daemon.kill()).unwrap();
    tokio::task::block_in_place(|| daemon.restart()).unwrap();
    let b = connect_to(&daemon, Transport::Session, "context", Some("b")).await;
    let hinted = b.call_raw("document_read", json!({})).await;
    assert_eq!((first_text(&hinted).as_str(), &hinted.meta.unwrap().0["rookery/unread"]), ("kept", &json!(1)));
    let acked = b.call("inbox_ack", json!({"until": "2999-01-01"})).await;
    assert_eq!(acked["acknowledged"].as_array().unwrap().len(), 1, "only messages shown before the crash");
    assert_eq!(b.read_inbox().await, ["@b unseen"]);
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn message_status_shows_each_recipient() {
    let daemon = setup().start().unwrap();
    let [a, c] = connect_team(&daemon, ["a", "c"]).await;
    let b = connect_to(&daemon, Transport::Stateless, "context", Some("b")).await;
    assert!(b.read_inbox().await.is_empty());
    let id = a.call("channel_send", json!({"message": "@b and @c"})).await["id"].clone();
    let recipient_status = async |agent: &str| {
        let status = a.call("message_status", json!({"id": id})).await;
        let found = status["recipients"].as_array().unwrap().iter().find(|one| one["agent_id"] == agent).cloned();
        found.unwrap()
    };
    assert_eq!(recipient_status("c").await["status"], "queued");
    // A listening client is notified repeatedly until it reads the message.
    let mut listening = connect(&daemon, Transport::Session, Some("b")).await;
    let first_mention = listening.next_mention().await;
    assert_eq!(
        (&first_mention["from"], &first_mention["target"], &first_mention["message"]),
        (&json!("a"), &json!("b"), &json!("@b and @c"))
    );
    let notified = recipient_status("b").await;
    assert_eq!(notified["status"], "notified");
    assert!(notified["notified"].as_u64().unwrap() >= 1);
    let again = listening.next_mention().await;
    assert_eq!(
        (&again["id"], again["attempt"].as_u64() > first_mention["attempt"].as_u64()),
        (&first_mention["id"], true)
    );
    b.read_inbox().await;
    let read = recipient_status("b").await;
    assert_eq!((&read["status"], read["read_at"].is_string(), read.get("acked_at")), (&json!("read"), true, None));
    b.call("inbox_ack", json!({"until": id})).await;
    assert_eq!(recipient_status("b").await["status"], "acked");
    c.call("channel_read", json!({})).await;
    assert_eq!(recipient_status("c").await["status"], "acked", "reading the channel acknowledges");

    let direct = a.call("channel_send", json!({"message": "psst", "to": "b"})).await["id"].clone();
    assert_eq!(b.call("message_status", json!({"id": direct})).await["payload"]["description"], "psst");
    assert_eq!(c.call_rejected("message_status", json!({"id": direct})).await["code"], "MESSAGE_NOT_FOUND");
}

#[tokio::test]
async fn unnamed_caller_may_read_and_needs_an_identity_to_write() {
    let daemon = setup().start().unwrap();
    let [a] = connect_team(&daemon, ["a"]).await;
    a.call_text("channel_send", json!({"message": "hello"})).await;
    let unnamed = connect_to(&daemon, Transport::Stateless, "context", None).await;
    assert_eq!(texts(&unnamed.call("channel_read", json!({})).await, "entries"), ["hello"]);
    assert_eq!(unnamed.call_text("document_read", json!({})).await, "");
    for (tool, arguments) in [
        ("channel_send", json!({"message": "x"})),
        ("inbox_check", json!({})),
        ("inbox_wait", json!({})),
        ("document_write", json!({"content": "x"})),
    ] {
        assert_eq!(unnamed.call_rejected(tool, arguments).await["code"], "NO_IDENTITY", "{tool}");
    }
    let named = json!({"message": "@a I am joe", "agent_id": "joe"});
    assert_eq!(unnamed.call_text("channel_send", named).await, "sent");
    let heard = a.call("inbox_check", json!({})).await;
    assert_eq!(heard["messages"][0]["entry"]["from"], "joe");
    let joe = connect_to(&daemon, Transport::Stateless, "context", Some("joe")).await;
    let foreign = joe.call_rejected("channel_send", json!({"message": "x", "agent_id": "a"})).await;
    assert_eq!(foreign["code"], "FORBIDDEN", "joe is another agent");
    let member = connect_to(&daemon, Transport::Stateless, "context", Some("a@default")).await;
    assert_eq!(member.read_inbox().await, [""; 0], "a member of default is another agent");
}

#[tokio::test]
async fn oversized_message_is_kept_as_a_document() {
    let daemon = setup().start().unwrap();
    let [a, b, c] = connect_team(&daemon, ["a@x", "b@x", "c@x"]).await;
    let whole = format!("@b look {} and @c too", "x".repeat(300 * 1024));
    assert_eq!(a.call_text("channel_send", json!({"message": whole})).await, "sent");
    let short = b.read_inbox().await.remove(0);
    assert!(short.len() < 4_096 && short.starts_with("@b look xxx"), "{} bytes", short.len());
    assert_eq!(c.read_inbox().await.first(), Some(&short), "an agent mentioned further below is notified too");
    let file = a.call("document_list", json!({})).await["files"][0].clone();
    assert!(short.contains(&format!("document_read {{\"file\": {file}}}")), "{short}");
    assert_eq!(b.call_text("document_read", json!({"file": file})).await, whole);
}

/// The runner gave up on a message: the agent still finds it, marked and after newer ones.
#[tokio::test]
async fn given_up_message_is_marked_and_listed_last() {
    let daemon = setup().start().unwrap();
    let [a, b] = connect_team(&daemon, ["a", "b"]).await;
    let post = async |path: &str, body: Value| -> Value {
        let request = daemon.request(reqwest::Method::POST, path).bearer_auth(daemon.person_key().unwrap());
        let reply = rookery_testkit::daemon::read(request.json(&body)).await.unwrap();
        assert!(reply.status.is_success(), "{path}: {}", reply.body);
        reply.body
    };
    let first = text(&a.call("channel_send", json!({"message": "@b one"})).await["id"]);
    let runner = json!({"host": "here", "boot_id": "b", "pid": 1, "started_at": 1});
    let agents = json!([{"name": "b", "backend": "mock"}]);
    post("/teams/b/start", json!({"workflow": "b", "mode": "standalone", "agents": agents, "runner": runner})).await;
    let turn =
        json!({"team": "b", "generation": 1, "agent": "b", "attempt": 3, "cause": "messages", "messages": [first]});
    let turn = text(&post("/turns", turn).await["turn"]);
    post(&format!("/turns/{turn}/end"), json!({"outcome": "failed", "last": true})).await;
    a.call_text("channel_send", json!({"message": "@b two"})).await;
    let shown = b.call("inbox_peek", json!({})).await["messages"].clone();
    assert_eq!((&shown[0]["given_up"], &shown[1]["given_up"]), (&json!(true), &Value::Null), "{shown}");
    let newest = b.call("inbox_peek", json!({"limit": 1})).await["messages"].clone();
    assert_eq!(newest[0]["entry"]["message"], "@b two");
}
