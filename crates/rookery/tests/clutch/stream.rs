//! The WebSocket: frames, filters, resuming, slow clients, and its end at a shutdown.

use rookery_testkit::stream::ReceiveBuffer;
use rookery_testkit::wait;
use rookery_testkit::websocket::{LoggedMessage, Socket};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::sending::{self, post_text};
use crate::team::{create_task, envelope, follow, note, pages, setup, team, team_of, text};

fn numbers(placed: &[LoggedMessage]) -> Vec<u64> {
    placed.iter().map(|placed| placed.message["payload"]["metadata"]["n"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn streamed_messages_equal_listed_messages() {
    let team = team(&["ken"]).await;
    let mut now = follow(&team, "").await;
    note(&team, "ken", 1).await;
    let came = now.next().await.unwrap();
    let (listed, _) = pages(&team, "/messages?limit=1000").await;
    assert_eq!(Some(&came), listed.last(), "a new stream starts at the head");
    let mut all = follow(&team, "?after=0").await;
    assert_eq!(all.take(listed.len()).await.unwrap(), listed, "a late follower gets the same messages");
}

#[tokio::test]
async fn resumed_stream_has_no_gap_and_no_repeat() {
    let mut team = team(&["ken"]).await;
    let mut first = follow(&team, "").await;
    for number in 0..40 {
        note(&team, "ken", number).await;
    }
    let seen = first.take(15).await.unwrap();
    drop(first);
    let last = seen[14].seq;
    let mut again = follow(&team, &format!("?after={last}")).await;
    for number in 40..60 {
        note(&team, "ken", number).await;
    }
    let rest = again.take(45).await.unwrap();
    assert_eq!([numbers(&seen), numbers(&rest)].concat(), (0..60).collect::<Vec<_>>());
    team.restart().unwrap();
    let mut after_crash = follow(&team, &format!("?after={last}")).await;
    assert_eq!(after_crash.take(45).await.unwrap(), rest);
}

#[tokio::test]
async fn stream_filters_apply_to_past_and_new_messages() {
    let team = team(&["ken", "mia"]).await;
    for number in 0..10 {
        note(&team, if number % 2 == 0 { "ken" } else { "mia" }, number).await;
    }
    let mut past = follow(&team, "?agent_id=mia&type=report.added&after=0").await;
    let mut now = follow(&team, "?agent_id=agent:mia&type=report.added").await;
    let work = create_task(&team, "work").await;
    let mut of_task = follow(&team, &format!("?task_id={work}&after=0")).await;
    for number in 10..20 {
        note(&team, if number % 2 == 0 { "ken" } else { "mia" }, number).await;
    }
    assert_eq!(numbers(&past.take(10).await.unwrap()), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    assert_eq!(numbers(&now.take(5).await.unwrap()), [11, 13, 15, 17, 19]);
    assert_eq!(of_task.next().await.unwrap().message_type(), "task.request");
}

#[tokio::test]
async fn batched_frames_are_arrays_of_messages() {
    let team = team(&["ken", "mia"]).await;
    for number in 0..30 {
        note(&team, "ken", number).await;
    }
    for query in ["?batch=1&after=0", "?batch=1&after=0&agent_id=ken"] {
        let (listed, _) = pages(&team, "/messages?limit=1000").await;
        let mut stream = follow(&team, query).await;
        let wanted: Vec<LoggedMessage> = listed
            .iter()
            .filter(|placed| !query.contains("ken") || placed.message["from"]["agent_id"] == "agent:ken")
            .cloned()
            .collect();
        let (mut came, mut frames) = (Vec::new(), 0);
        while came.len() < wanted.len() {
            let frame = stream.frame().await.unwrap();
            came.extend(frame.as_array().unwrap().iter().map(|entry| LoggedMessage::read(entry).unwrap()));
            frames += 1;
        }
        assert_eq!(came, wanted);
        assert!(frames < wanted.len(), "{frames} frames");
        note(&team, "mia", 1).await;
        note(&team, "ken", 2).await;
        let live = stream.frame().await.unwrap();
        let agent = if query.contains("ken") { "agent:ken" } else { "agent:mia" };
        assert_eq!(live[0]["message"]["from"]["agent_id"], agent);
    }
}

#[tokio::test]
async fn subscription_can_be_changed() {
    let team = team(&["ken", "mia"]).await;
    let mut stream = follow(&team, "?agent_id=ken").await;
    note(&team, "ken", 1).await;
    let first = stream.next().await.unwrap();
    stream.send(&json!({"op": "subscribe", "agent_id": "mia", "after": 0, "type": "report.added"})).await.unwrap();
    assert_eq!(stream.frame().await.unwrap(), json!({"op": "subscribed", "after": 0}));
    note(&team, "mia", 2).await;
    assert_eq!(numbers(&[stream.next().await.unwrap()]), [2]);
    // Without a position the stream continues where it is, without repeats.
    stream.send(&json!({"op": "subscribe"})).await.unwrap();
    let here = stream.frame().await.unwrap();
    assert!(here["after"].as_u64().unwrap() > first.seq, "{here}");
    note(&team, "ken", 3).await;
    assert_eq!(numbers(&[stream.next().await.unwrap()]), [3]);
}

#[tokio::test]
async fn invalid_stream_operation_is_an_error_and_changes_nothing() {
    let team = team(&["ken"]).await;
    let mut stream = follow(&team, "?agent_id=ken").await;
    let error_of = |frame: Value| {
        assert_eq!((&frame["type"], &frame["retryable"]), (&json!("error"), &json!(false)), "{frame}");
        assert!(frame["message"].is_string(), "{frame}");
        (text(&frame["code"]), frame["details"]["parameter"].clone())
    };
    for (asked, code, parameter) in [
        ("not json", "INVALID", Value::Null),
        ("{}", "INVALID", Value::Null),
        (r#"{"op":"dance"}"#, "INVALID", json!("op")),
        (r#"{"op":"subscribe","runid":"x"}"#, "INVALID", Value::Null),
        (r#"{"op":"subscribe","type":"task.requested"}"#, "INVALID", json!("type")),
        (r#"{"op":"subscribe","agent_id":"group:x"}"#, "INVALID", json!("agent_id")),
        (r#"{"op":"subscribe","after":-1}"#, "INVALID", json!("after")),
        (r#"{"op":"subscribe","after":{}}"#, "INVALID", json!("after")),
        (r#"{"op":"subscribe","after":9999999}"#, "POSITION_GONE", Value::Null),
        (r#"{"op":"subscribe","after":"log_other:1"}"#, "POSITION_GONE", Value::Null),
    ] {
        stream.send_text(asked).await.unwrap();
        assert_eq!(error_of(stream.frame().await.unwrap()), (code.to_owned(), parameter), "{asked}");
    }
    stream.send_raw(Message::binary(vec![1, 2])).await.unwrap();
    assert_eq!(error_of(stream.frame().await.unwrap()).0, "INVALID");
    note(&team, "ken", 1).await;
    assert_eq!(numbers(&[stream.next().await.unwrap()]), [1], "the subscription is unchanged");
}

#[tokio::test]
async fn published_envelope_is_stored_and_streamed() {
    let team = team(&["ken"]).await;
    let mut sender = follow(&team, "?type=task.request").await;
    let mut other = follow(&team, "?type=task.created").await;
    let sent = envelope("msg_1", "task.request", "task_1", json!({"title": "find out", "own": 1.50}));
    sender.send(&json!({"op": "publish", "message": sent})).await.unwrap();
    let (mut published, mut came) = (None, None);
    while published.is_none() || came.is_none() {
        let frame = sender.frame().await.unwrap();
        if frame["op"] == "published" {
            published = Some(frame)
        } else {
            came = Some(LoggedMessage::read(&frame).unwrap())
        }
    }
    let (published, came) = (published.unwrap(), came.unwrap());
    assert_eq!(published["results"], json!([{"id": "msg_1", "seq": came.seq, "duplicate": false}]));
    assert_eq!(came.message, sent, "the envelope is shown verbatim");
    let follower = other.next().await.unwrap();
    assert_eq!(
        (&follower.message["task_id"], &follower.message["meta"]["cause"]),
        (&json!("task_1"), &json!(came.seq))
    );
    // A duplicate is recognized; an invalid envelope is rejected with its pointer, and nothing is stored.
    sender.send(&json!({"op": "publish", "message": sent})).await.unwrap();
    assert_eq!(sender.frame().await.unwrap()["results"][0]["duplicate"], true);
    sender.send(&json!({"op": "publish", "message": {"v": "clutch/0.1"}})).await.unwrap();
    let refused = sender.frame().await.unwrap();
    assert_eq!((&refused["type"], refused["details"]["pointer"].is_string()), (&json!("error"), true), "{refused}");
    sender.send(&json!({"op": "publish"})).await.unwrap();
    assert_eq!(sender.frame().await.unwrap()["details"]["parameter"], "message");
    assert_eq!(pages(&team, "/messages?type=task.request").await.0, [came]);
}

#[tokio::test]
async fn ping_is_answered_with_a_pong() {
    let team = team(&["ken"]).await;
    let mut stream = follow(&team, "").await;
    stream.send_raw(Message::Ping("here?".into())).await.unwrap();
    loop {
        match stream.raw().await.unwrap().unwrap() {
            Message::Pong(said) => return assert_eq!(&said[..], b"here?"),
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A client that sends continuously still gets all messages and answers.
#[tokio::test]
async fn busy_client_still_receives_every_message() {
    const NOTES: u64 = 1_000;
    let team = team(&["ken"]).await;
    let note = |at: u64| sending::envelope(&format!("note_{at}"), "x.note", "ken", json!({}));
    let lines: String = (0..NOTES).map(|at| format!("{}\n", note(at))).collect();
    assert_eq!(post_text(&team, "application/x-ndjson", lines).await.status, 202);
    let mut stream = follow(&team, "?type=x.note&after=0&batch=1").await;
    let talking = async {
        let (mut seen, mut answers) = (0, 0);
        while seen < NOTES || answers == 0 {
            // One ping and one operation are always pending: they take less time than reading a page.
            stream.send_raw(Message::Ping("here?".into())).await.unwrap();
            stream.send(&json!({"op": "dance"})).await.unwrap();
            match stream.raw().await.unwrap().unwrap() {
                Message::Text(frame) => match serde_json::from_str(&frame).unwrap() {
                    Value::Array(entries) => {
                        for entry in entries {
                            assert_eq!(entry["message"]["id"], format!("note_{seen}"));
                            seen += 1;
                        }
                    }
                    answer => {
                        assert_eq!(answer["details"]["parameter"], "op");
                        answers += 1;
                    }
                },
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    wait::within("all notes", talking).await.unwrap();
}

#[tokio::test]
async fn invalid_stream_request_is_rejected_before_the_handshake() {
    let team = team(&["ken"]).await;
    let ask = async |query: &str, headers: &[(&'static str, &str)]| {
        let rejected = Socket::connect(team.url(), query, headers, ReceiveBuffer::Default).await.unwrap();
        let rejected = rejected.err().unwrap_or_else(|| panic!("{query} {headers:?} was let in"));
        (rejected.status, text(&rejected.body["code"]))
    };
    let invalid = |status, code: &str| (status, code.to_owned());
    assert_eq!(ask("?after=x", &[]).await, invalid(400, "INVALID"));
    assert_eq!(ask("?batch=yes", &[]).await, invalid(400, "INVALID"));
    assert_eq!(ask("?type=nothing", &[]).await, invalid(400, "INVALID"));
    assert_eq!(ask("?after=999999", &[]).await, invalid(410, "POSITION_GONE"));
    assert_eq!(ask("", &[("authorization", "Bearer wrong")]).await, invalid(401, "UNAUTHENTICATED"));
    assert_eq!(ask("", &[("origin", "http://evil.example")]).await, invalid(403, "FOREIGN_ORIGIN"));
    assert_eq!(ask("", &[("host", "evil.example")]).await, invalid(403, "FOREIGN_HOST"));
    let plain = team.get("/clutch/v0/stream").await.unwrap();
    assert_eq!((plain.status.as_u16(), &plain.body["code"]), (426, &json!("UPGRADE_REQUIRED")));
    let own = team.url().to_owned();
    Socket::connect(team.url(), "", &[("origin", &own)], ReceiveBuffer::Default).await.unwrap().unwrap();
}

#[tokio::test]
async fn stream_over_the_subscription_limit_is_rejected() {
    let team = team_of(setup().env("ROOKERY_MAX_SUBSCRIPTIONS", "1"), &["ken"]).await;
    let open = follow(&team, "").await;
    let rejected = Socket::connect(team.url(), "", &[], ReceiveBuffer::Default).await.unwrap().unwrap_err();
    assert_eq!((rejected.status, &rejected.body["code"]), (503, &json!("TOO_MANY_SUBSCRIBERS")));
    drop(open);
    wait::eventually("a place is free again", async || {
        Ok(Socket::connect(team.url(), "", &[], ReceiveBuffer::Default).await?.ok())
    })
    .await
    .unwrap();
}

/// A connection that is never read blocks no writer and no other reader, and the daemon stops in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_subscriber_does_not_block_writers_or_shutdown() {
    let mut team = team(&["ken"]).await;
    let mut never = Vec::new();
    for _ in 0..5 {
        never.push(Socket::connect(team.url(), "?after=0", &[], ReceiveBuffer::Small).await.unwrap().unwrap());
    }
    let mut reader = follow(&team, "").await;
    let large = "x".repeat(50_000);
    for number in 0..100 {
        let body = json!({"agent_id": "ken", "action": "x.n", "metadata": {"n": number, "text": large}});
        assert_eq!(team.post("/events", body).await.unwrap().status, 201);
    }
    assert_eq!(numbers(&reader.take(100).await.unwrap()), (0..100).collect::<Vec<_>>());
    // A client that starts to read late gets everything.
    let mut late = never.pop().unwrap();
    let (listed, _) = pages(&team, "/messages?limit=1000").await;
    assert_eq!(late.take(listed.len()).await.unwrap(), listed);
    assert_eq!(team.stop().unwrap(), Some(0));
    assert_eq!(reader.close_code().await.unwrap(), Some(1001), "the close code says that the daemon shuts down");
}
