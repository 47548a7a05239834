//! The pull inbox: messages to an agent wait there, from any surface and in order, until acknowledged.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, HttpReply, read};
use rookery_testkit::stream::ReceiveBuffer;
use rookery_testkit::wait;
use rookery_testkit::websocket::{LoggedMessage, Socket};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::sending::{envelope, event_kinds, rejection, rows, send_ok, setup, team};
use crate::team::{Tools, announce, follow};

pub fn to(agents: &[&str]) -> Value {
    agents.iter().map(|agent| json!({"agent_id": agent})).collect()
}

pub async fn inbox(daemon: &Daemon, agent: &str, query: &str) -> Value {
    let reply = daemon.get(&format!("/clutch/v0/agents/{agent}/inbox{query}")).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

pub fn ids(page: &Value) -> Vec<String> {
    let messages = page["messages"].as_array().unwrap();
    messages.iter().map(|placed| placed["message"]["id"].as_str().unwrap().to_owned()).collect()
}

pub async fn ack(daemon: &Daemon, agent: &str, ids: &[&str]) -> HttpReply {
    daemon.post(&format!("/clutch/v0/agents/{agent}/inbox/ack"), json!({"ids": ids})).await.unwrap()
}

async fn as_agent(daemon: &Daemon, caller: &str, method: Method, path: &str, body: Option<Value>) -> HttpReply {
    let mut request = daemon.request(method, path).header("x-agent-id", caller);
    if let Some(body) = body {
        request = request.json(&body);
    }
    read(request).await.unwrap()
}

#[tokio::test]
async fn inbox_keeps_messages_until_acknowledged() {
    let mut daemon = team(&["lead", "ken", "ada"]).await;
    let first = envelope("m1", "x.note", "ada", json!({"to": to(&["agent:ken"]), "payload": {"n": 1.50}}));
    let result = send_ok(&daemon, &first).await;
    send_ok(
        &daemon,
        &envelope("m2", "chat.message", "ada", json!({"to": to(&["ken", "lead"]), "payload": {"text": "hi"}})),
    )
    .await;
    send_ok(&daemon, &envelope("m3", "x.other", "ada", json!({"to": to(&["lead"])}))).await;
    let page = inbox(&daemon, "agent:ken", "").await;
    assert_eq!(ids(&page), ["m1", "m2"]);
    assert_eq!((&page["messages"][0]["message"], &page["messages"][0]["seq"]), (&first, &result["seq"]));
    assert_eq!(page["messages"][1]["message"]["payload"], json!({"text": "hi"}), "as it was sent");

    // The same messages are returned until acknowledged, and pulling appends no event.
    let head = event_kinds(&daemon);
    assert_eq!((ids(&inbox(&daemon, "ken", "").await), event_kinds(&daemon)), (vec!["m1".into(), "m2".into()], head));
    let page = inbox(&daemon, "ken", "?max=1").await;
    assert_eq!(ids(&page), ["m1"]);
    let rest = inbox(&daemon, "ken", &format!("?after={}", page["next"])).await;
    assert_eq!(ids(&rest), ["m2"]);
    assert_eq!(inbox(&daemon, "ken", &format!("?after={}", rest["next"])).await, json!({"messages": [], "next": null}));

    // A daemon crash between pulling and acknowledging does not change that.
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let acked = ack(&daemon, "ken", &["m1"]).await;
    assert_eq!((acked.status.as_u16(), &acked.body), (200, &json!({"acked": ["m1"]})));
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), ["m2"]);
    assert_eq!(ack(&daemon, "agent:ken", &["m1", "m2"]).await.status, 200, "a repeated acknowledgement is no error");
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0]);
    assert_eq!(ids(&inbox(&daemon, "lead", "").await), ["m2", "m3"], "each recipient for itself");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn messages_of_other_surfaces_are_envelopes_in_the_inbox() {
    let daemon = team(&["lead", "ken"]).await;
    let (ken, lead) = (Tools::connect(&daemon, "ken").await, Tools::connect(&daemon, "lead").await);
    let mention = lead.call("channel_send", json!({"message": "@ken look"})).await;
    let coord = json!({"type": "BLOCKING_ISSUE", "to": ["ken"], "subject": "stop", "body": "the build is red"});
    lead.call("coord_publish_message", coord).await;
    let all = json!({"type": "GENERAL", "to": ["all"], "subject": "all", "body": "hello"});
    lead.call("coord_publish_message", all).await;
    let page = inbox(&daemon, "ken", "").await;
    let messages = page["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{page}");
    let mention_message = &messages[0]["message"];
    assert_eq!(
        (&mention_message["type"], &mention_message["payload"]["text"]),
        (&json!("chat.message"), &json!("@ken look"))
    );
    assert_eq!(
        (&mention_message["from"]["agent_id"], &mention_message["payload"]["mentions"]),
        (&json!("agent:lead"), &json!(["ken"]))
    );
    assert_eq!(messages[1]["message"]["payload"]["description"], "the build is red");
    assert_eq!(messages[2]["message"]["payload"]["description"], "hello");
    for id in ids(&page) {
        let one = daemon.get(&format!("/clutch/v0/messages/{id}")).await.unwrap();
        assert_eq!((one.status.as_u16(), &one.body["id"]), (200, &json!(id)));
    }
    // Acknowledged here, a message is acknowledged on every surface.
    let all = ids(&page);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(ack(&daemon, "ken", &all).await.status, 200);
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0]);
    assert_eq!(ken.call("inbox_check", json!({})).await["messages"], json!([]), "{mention}");
    assert_eq!(ken.call("coord_check_messages", json!({})).await["pending"], json!([]));
}

#[tokio::test]
async fn inbox_wait_returns_as_soon_as_a_message_arrives() {
    let daemon = team(&["lead", "ken"]).await;
    assert_eq!(inbox(&daemon, "ken", "?wait=0s").await["messages"], json!([]));
    assert_eq!(inbox(&daemon, "ken", "?wait=20ms").await["messages"], json!([]));
    let waiting = inbox(&daemon, "ken", "?wait=60s&max=5");
    let sending = async {
        for n in 0..3 {
            send_ok(&daemon, &envelope(&format!("other{n}"), "x.note", "ken", json!({"to": to(&["lead"])}))).await;
        }
        send_ok(&daemon, &envelope("m", "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    };
    let (page, ()) = wait::within("a message", async { tokio::join!(waiting, sending) }).await.unwrap();
    assert_eq!(ids(&page), ["m"]);
    // With the last position, the call waits for the next message.
    let later = format!("?wait=60s&after={}", page["next"]);
    let waiting = inbox(&daemon, "ken", &later);
    let sending = async { send_ok(&daemon, &envelope("n", "x.note", "lead", json!({"to": to(&["ken"])}))).await };
    let (page, _) = wait::within("the next", async { tokio::join!(waiting, sending) }).await.unwrap();
    assert_eq!(ids(&page), ["n"]);
}

#[tokio::test]
async fn inbox_of_another_agent_is_not_readable() {
    let daemon = team(&["lead", "ken", "ada"]).await;
    send_ok(&daemon, &envelope("m", "x.note", "ada", json!({"to": to(&["ken"])}))).await;
    send_ok(&daemon, &envelope("a", "x.note", "ken", json!({"to": to(&["ada"])}))).await;
    let path = "/clutch/v0/agents/ken/inbox";
    let acking = Some(json!({"ids": ["m"]}));
    let foreign = as_agent(&daemon, "ada", Method::GET, path, None).await;
    assert_eq!((foreign.status.as_u16(), &foreign.body["code"]), (403, &json!("FORBIDDEN")));
    let foreign = as_agent(&daemon, "ada", Method::POST, &format!("{path}/ack"), acking.clone()).await;
    assert_eq!((foreign.status.as_u16(), &foreign.body["code"]), (403, &json!("FORBIDDEN")));
    assert_eq!(as_agent(&daemon, "lead", Method::GET, path, None).await.status, 200);

    let reply = ack(&daemon, "ken", &["m", "a", "nothing"]).await;
    assert_eq!((reply.status.as_u16(), &reply.body["code"]), (404, &json!("MESSAGE_NOT_FOUND")));
    assert_eq!(reply.body["details"]["unknown"], json!(["a", "nothing"]));
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), ["m"], "none was acknowledged");
    for body in [json!({}), json!({"ids": "m"}), json!({"ids": [1]}), json!({"ids": ["m"], "more": 1})] {
        let reply = daemon.post(&format!("{path}/ack"), body.clone()).await.unwrap();
        assert_eq!(rejection(&reply).0, 400, "{body}");
    }
    for (query, code) in [("?wait=soon", 400), ("?max=0", 400), ("?max=x", 400), ("?after=x", 400), ("?max=99999", 200)]
    {
        assert_eq!(daemon.get(&format!("{path}{query}")).await.unwrap().status, code, "{query}");
    }
    let unknown = daemon.get("/clutch/v0/agents/ghost/inbox").await.unwrap();
    assert_eq!((unknown.status.as_u16(), &unknown.body["code"]), (404, &json!("AGENT_NOT_FOUND")));
    assert_eq!(as_agent(&daemon, "ken", Method::POST, &format!("{path}/ack"), acking).await.status, 200);
}

#[tokio::test]
async fn task_updates_reach_the_requester_and_cancel_reaches_the_holder() {
    let daemon = team(&["lead"]).await;
    let card = json!({"payload": {"v": "clutch/0.1", "agent_id": "ken", "capabilities": [{"id": "skill:law"}]}});
    send_ok(&daemon, &envelope("reg", "agent.register", "ken", card)).await;
    for task in ["t1", "t2"] {
        let about = json!({"task_id": task, "requires": ["skill:law"], "payload": {"query": "?"}});
        send_ok(&daemon, &envelope(&format!("req_{task}"), "task.request", "lead", about)).await;
    }
    let both = || async { Ok(Some(inbox(&daemon, "ken", "").await).filter(|page| ids(page).len() == 2)) };
    let page = wait::eventually("both requests", both).await.unwrap();
    for (placed, task) in page["messages"].as_array().unwrap().iter().zip(["t1", "t2"]) {
        let request = &placed["message"];
        assert_eq!((&request["type"], &request["task_id"]), (&json!("task.request"), &json!(task)));
        assert_eq!(request["from"]["agent_id"], "agent:orchestrator");
    }
    for (id, kind) in [("acc", "task.accept"), ("pro", "task.progress"), ("res", "task.result")] {
        send_ok(&daemon, &envelope(id, kind, "ken", json!({"task_id": "t1", "payload": {"title": "x"}}))).await;
    }
    assert_eq!(ids(&inbox(&daemon, "lead", "").await), ["acc", "pro", "res"], "in order, though sent to the router");
    send_ok(&daemon, &envelope("can", "task.cancel", "lead", json!({"task_id": "t2"}))).await;
    let page = inbox(&daemon, "ken", "").await;
    let kinds: Vec<&Value> = page["messages"].as_array().unwrap().iter().map(|one| &one["message"]["type"]).collect();
    assert_eq!(kinds, ["task.cancel"], "the accepted request is acked, the cancelled one superseded");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn routed_task_is_shown_to_an_mcp_agent() {
    let daemon = team(&["lead", "ken"]).await;
    let ken = Tools::connect(&daemon, "ken").await;
    let waiting = ken.call("inbox_wait", json!({"timeout_seconds": 60}));
    let asking = async {
        let about = json!({"task_id": "t", "to": to(&["agent:ken"]), "payload": {"query": "?"}});
        send_ok(&daemon, &envelope("req", "task.request", "lead", about)).await
    };
    let (waited, _) = wait::within("the notification", async { tokio::join!(waiting, asking) }).await.unwrap();
    assert_eq!(waited["messages"][0]["envelope"]["task_id"], "t", "{waited}");
    assert!(
        waited["notes"][0].as_str().unwrap().starts_with("Task t is given to you: claim it (task_claim)"),
        "{waited}"
    );
    ken.call("task_claim", json!({"task_id": "t"})).await;
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0], "claiming the task acknowledges the request");
    let acked = rows(&daemon).into_iter().filter(|row| row["kind"] == "message.acked").count();
    assert_eq!(acked, 1);
    let after = ken.call("inbox_check", json!({})).await;
    assert_eq!(after, json!({"messages": []}));
}

#[tokio::test]
async fn inbox_stream_delivers_and_acknowledges_messages() {
    let daemon = team(&["lead", "ken", "ada"]).await;
    for (id, agent) in [("m1", "ken"), ("m2", "ada"), ("m3", "ken")] {
        send_ok(&daemon, &envelope(id, "x.note", "lead", json!({"to": to(&[agent])}))).await;
    }
    let mut ken = follow(&daemon, "?inbox=agent:ken").await;
    let names =
        |placed: Vec<LoggedMessage>| placed.into_iter().map(|one| one.message["id"].clone()).collect::<Vec<_>>();
    assert_eq!(names(ken.take(2).await.unwrap()), ["m1", "m3"], "waiting messages come first");
    send_ok(&daemon, &envelope("m4", "x.note", "lead", json!({"to": to(&["ada"])}))).await;
    send_ok(&daemon, &envelope("m5", "chat.message", "lead", json!({"to": to(&["ken"]), "payload": {"text": "hi"}})))
        .await;
    assert_eq!(names(ken.take(1).await.unwrap()), ["m5"], "then new messages, and none for others");

    ken.send(&json!({"op": "ack", "ids": ["m1", "m5"]})).await.unwrap();
    assert_eq!(ken.frame().await.unwrap(), json!({"op": "acked", "ids": ["m1", "m5"]}));
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), ["m3"]);
    for (frame, code) in [
        (json!({"op": "ack", "ids": ["m2"]}), "MESSAGE_NOT_FOUND"),
        (json!({"op": "ack", "ids": ["m3"], "agent_id": "group:workers"}), "INVALID"),
        (json!({"op": "ack"}), "INVALID"),
        (json!({"op": "ack", "ids": ["m3"], "agent_id": "ghost"}), "AGENT_NOT_FOUND"),
    ] {
        ken.send(&frame).await.unwrap();
        let error = ken.frame().await.unwrap();
        assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!(code)), "{frame}");
    }
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), ["m3"], "nothing else was acknowledged");
    drop(ken);
    let mut again = follow(&daemon, "?inbox=ken").await;
    assert_eq!(names(again.take(1).await.unwrap()), ["m3"], "an unacknowledged message is sent again");

    // On a stream without an inbox, an acknowledgement must name its agent.
    let mut all = follow(&daemon, "").await;
    all.send(&json!({"op": "ack", "ids": ["m3"]})).await.unwrap();
    assert_eq!(all.frame().await.unwrap()["details"]["parameter"], "agent_id");
    all.send(&json!({"op": "ack", "ids": ["m3"], "agent_id": "agent:ken"})).await.unwrap();
    let answered = || async { Ok(Some(inbox(&daemon, "ken", "").await).filter(|page| ids(page).is_empty())) };
    wait::eventually("it to be acknowledged", answered).await.unwrap();
    for query in ["?inbox=1", "?inbox=group:workers", "?inbox=ghost", "?inbox=ken&type=x.note"] {
        assert!(Socket::open(daemon.url(), query).await.is_err(), "{query}");
    }
}

#[tokio::test]
async fn inbox_position_of_another_log_is_gone() {
    let daemon = team(&["lead", "ken"]).await;
    let placed = send_ok(&daemon, &envelope("m1", "x.note", "lead", json!({"to": to(&["ken"])}))).await["seq"].clone();
    send_ok(&daemon, &envelope("m2", "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    let log = daemon.get("/clutch/v0/messages?limit=1").await.unwrap().headers["x-rookery-log"].clone();
    let here = format!("?after={}:{placed}", log.to_str().unwrap());
    assert_eq!(ids(&inbox(&daemon, "ken", &here).await), ["m2"]);
    let mut stream = follow(&daemon, &format!("{here}&inbox=ken")).await;
    assert_eq!(stream.next().await.unwrap().message["id"], "m2");
    for after in ["log_other:1", "9999999"] {
        for path in ["agents/ken/inbox?", "deliveries?", "stream?inbox=ken&"] {
            let rejected = daemon.get(&format!("/clutch/v0/{path}after={after}")).await.unwrap();
            assert_eq!((rejected.status.as_u16(), &rejected.body["code"]), (410, &json!("POSITION_GONE")), "{path}");
            assert!(rejected.body["details"]["hint"].is_string(), "{}", rejected.body);
        }
    }
}

#[tokio::test]
async fn subscription_change_from_inbox_to_log_starts_at_head() {
    let daemon = team(&["lead", "ken"]).await;
    let mut ken = follow(&daemon, "?inbox=ken").await;
    for id in ["m1", "m2"] {
        send_ok(&daemon, &envelope(id, "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    }
    ken.take(2).await.unwrap();
    ken.send(&json!({"op": "subscribe", "type": "x.note"})).await.unwrap();
    let head = rows(&daemon).len();
    assert_eq!(ken.frame().await.unwrap(), json!({"op": "subscribed", "after": head}));
    send_ok(&daemon, &envelope("m3", "x.note", "ken", json!({"to": to(&["lead"])}))).await;
    assert_eq!(ken.next().await.unwrap().message["id"], "m3", "and not all that ever was");
}

/// A daemon that checks often whether its followers are still permitted.
async fn start_watchful(agents: &[&str]) -> Daemon {
    let daemon = setup().env("ROOKERY_STREAM_KEEP_ALIVE", "1s").start().unwrap();
    for agent in agents {
        announce(&daemon, agent).await;
    }
    daemon
}

#[tokio::test]
async fn inbox_stream_ends_when_its_agent_leaves() {
    let daemon = start_watchful(&["lead", "ken"]).await;
    let mut ken = follow(&daemon, "?inbox=ken").await;
    let left = read(daemon.request(Method::DELETE, "/clutch/v0/agents/ken")).await.unwrap();
    assert_eq!(left.status, 200, "{}", left.body);
    let (code, reason) = ken.close_frame().await.unwrap().unwrap();
    assert_eq!(code, 1008);
    assert!(reason.contains("'ken'") && reason.contains("left"), "{reason}");
    assert!(Socket::open(daemon.url(), "?inbox=ken").await.is_err());
    let rejected = daemon.get("/clutch/v0/agents/ken/inbox").await.unwrap();
    assert_eq!((rejected.status.as_u16(), &rejected.body["code"]), (404, &json!("AGENT_NOT_FOUND")));
    announce(&daemon, "ken").await;
    follow(&daemon, "?inbox=ken").await;
}

#[tokio::test]
async fn inbox_stream_ends_with_its_token() {
    let daemon = start_watchful(&["lead", "ken"]).await;
    let owner = format!("Bearer {}", daemon.person_key().unwrap());
    let by_owner = |method, path: &str| daemon.request(method, path).header("authorization", &owner);
    let created = read(by_owner(Method::POST, "/admin/tokens").json(&json!({"agent": "ken", "role": "agent"})));
    let created = created.await.unwrap();
    assert_eq!(created.status, 201, "{}", created.body);
    let token = format!("Bearer {}", created.body["token"].as_str().unwrap());
    let opened =
        Socket::connect(daemon.url(), "?inbox=1", &[("authorization", &token)], ReceiveBuffer::Default).await.unwrap();
    let mut ken = opened.unwrap();
    send_ok(&daemon, &envelope("m1", "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    assert_eq!(ken.next().await.unwrap().message["id"], "m1");
    let path = format!("/admin/tokens/{}", created.body["id"].as_str().unwrap());
    assert!(read(by_owner(Method::DELETE, &path)).await.unwrap().status.is_success());
    send_ok(&daemon, &envelope("m2", "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    let (code, reason) = loop {
        match ken.raw().await.unwrap().expect("a close frame") {
            Message::Close(Some(frame)) => break (u16::from(frame.code), frame.reason.to_string()),
            Message::Text(text) => panic!("{text} was sent after the token was revoked"),
            _ => {}
        }
    };
    assert_eq!((code, reason.as_str()), (1008, "the credential is not valid any more"));
}
