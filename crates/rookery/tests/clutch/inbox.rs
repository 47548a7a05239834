//! The pull inbox: what is sent to an agent by whichever face waits there, in order, until it is acknowledged.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, HttpReply, read};
use rookery_testkit::stream::ReceiveBuffer;
use rookery_testkit::wait;
use rookery_testkit::websocket::{LoggedMessage, Socket};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::sending::{envelope, kinds, rows, sent, setup, team, told};
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
async fn what_is_sent_to_an_agent_waits_until_it_acknowledges_it() {
    let mut daemon = team(&["lead", "ken", "ada"]).await;
    let first = envelope("m1", "x.note", "ada", json!({"to": to(&["agent:ken"]), "payload": {"n": 1.50}}));
    let result = sent(&daemon, &first).await;
    sent(
        &daemon,
        &envelope("m2", "chat.message", "ada", json!({"to": to(&["ken", "lead"]), "payload": {"text": "hi"}})),
    )
    .await;
    sent(&daemon, &envelope("m3", "x.other", "ada", json!({"to": to(&["lead"])}))).await;
    let page = inbox(&daemon, "agent:ken", "").await;
    assert_eq!(ids(&page), ["m1", "m2"]);
    assert_eq!((&page["messages"][0]["message"], &page["messages"][0]["seq"]), (&first, &result["seq"]));
    assert_eq!(page["messages"][1]["message"]["payload"], json!({"text": "hi"}), "as it was sent");

    // It is the same again until it is acknowledged, and pulling writes nothing down.
    let head = kinds(&daemon);
    assert_eq!((ids(&inbox(&daemon, "ken", "").await), kinds(&daemon)), (vec!["m1".into(), "m2".into()], head));
    let page = inbox(&daemon, "ken", "?max=1").await;
    assert_eq!(ids(&page), ["m1"]);
    let rest = inbox(&daemon, "ken", &format!("?after={}", page["next"])).await;
    assert_eq!(ids(&rest), ["m2"]);
    assert_eq!(inbox(&daemon, "ken", &format!("?after={}", rest["next"])).await, json!({"messages": [], "next": null}));

    // Nor does an end of the daemon between pulling and acknowledging change that.
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let acked = ack(&daemon, "ken", &["m1"]).await;
    assert_eq!((acked.status.as_u16(), &acked.body), (200, &json!({"acked": ["m1"]})));
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), ["m2"]);
    assert_eq!(ack(&daemon, "agent:ken", &["m1", "m2"]).await.status, 200, "again is no mistake");
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0]);
    assert_eq!(ids(&inbox(&daemon, "lead", "").await), ["m2", "m3"], "each recipient for itself");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn messages_of_other_faces_are_envelopes_there() {
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
    let said = &messages[0]["message"];
    assert_eq!((&said["type"], &said["payload"]["text"]), (&json!("chat.message"), &json!("@ken look")));
    assert_eq!((&said["from"]["agent_id"], &said["payload"]["mentions"]), (&json!("agent:lead"), &json!(["ken"])));
    assert_eq!(messages[1]["message"]["payload"]["description"], "the build is red");
    assert_eq!(messages[2]["message"]["payload"]["description"], "hello");
    for id in ids(&page) {
        let one = daemon.get(&format!("/clutch/v0/messages/{id}")).await.unwrap();
        assert_eq!((one.status.as_u16(), &one.body["id"]), (200, &json!(id)));
    }
    // Acknowledged here, it is done with everywhere.
    let all = ids(&page);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(ack(&daemon, "ken", &all).await.status, 200);
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0]);
    assert_eq!(ken.call("inbox_check", json!({})).await["messages"], json!([]), "{mention}");
    assert_eq!(ken.call("coord_check_messages", json!({})).await["pending"], json!([]));
}

#[tokio::test]
async fn whoever_waits_is_told_as_soon_as_there_is_something() {
    let daemon = team(&["lead", "ken"]).await;
    assert_eq!(inbox(&daemon, "ken", "?wait=0s").await["messages"], json!([]));
    assert_eq!(inbox(&daemon, "ken", "?wait=20ms").await["messages"], json!([]));
    let waiting = inbox(&daemon, "ken", "?wait=60s&max=5");
    let sending = async {
        for n in 0..3 {
            sent(&daemon, &envelope(&format!("other{n}"), "x.note", "ken", json!({"to": to(&["lead"])}))).await;
        }
        sent(&daemon, &envelope("m", "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    };
    let (page, ()) = wait::within("a message", async { tokio::join!(waiting, sending) }).await.unwrap();
    assert_eq!(ids(&page), ["m"]);
    // From the place of the last one on, it waits for the next.
    let later = format!("?wait=60s&after={}", page["next"]);
    let waiting = inbox(&daemon, "ken", &later);
    let sending = async { sent(&daemon, &envelope("n", "x.note", "lead", json!({"to": to(&["ken"])}))).await };
    let (page, _) = wait::within("the next", async { tokio::join!(waiting, sending) }).await.unwrap();
    assert_eq!(ids(&page), ["n"]);
}

#[tokio::test]
async fn nobody_else_opens_an_inbox_and_nothing_unknown_is_acknowledged() {
    let daemon = team(&["lead", "ken", "ada"]).await;
    sent(&daemon, &envelope("m", "x.note", "ada", json!({"to": to(&["ken"])}))).await;
    sent(&daemon, &envelope("a", "x.note", "ken", json!({"to": to(&["ada"])}))).await;
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
        assert_eq!(told(&reply).0, 400, "{body}");
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
async fn what_an_assignee_tells_reaches_whoever_asked_and_a_cancel_whoever_has_it() {
    let daemon = team(&["lead"]).await;
    let card = json!({"payload": {"v": "clutch/0.1", "agent_id": "ken", "capabilities": [{"id": "skill:law"}]}});
    sent(&daemon, &envelope("reg", "agent.register", "ken", card)).await;
    for task in ["t1", "t2"] {
        let about = json!({"task_id": task, "requires": ["skill:law"], "payload": {"query": "?"}});
        sent(&daemon, &envelope(&format!("req_{task}"), "task.request", "lead", about)).await;
    }
    let both = || async { Ok(Some(inbox(&daemon, "ken", "").await).filter(|page| ids(page).len() == 2)) };
    let page = wait::eventually("both requests", both).await.unwrap();
    for (placed, task) in page["messages"].as_array().unwrap().iter().zip(["t1", "t2"]) {
        let request = &placed["message"];
        assert_eq!((&request["type"], &request["task_id"]), (&json!("task.request"), &json!(task)));
        assert_eq!(request["from"]["agent_id"], "agent:orchestrator");
    }
    for (id, kind) in [("acc", "task.accept"), ("pro", "task.progress"), ("res", "task.result")] {
        sent(&daemon, &envelope(id, kind, "ken", json!({"task_id": "t1", "payload": {"title": "x"}}))).await;
    }
    assert_eq!(ids(&inbox(&daemon, "lead", "").await), ["acc", "pro", "res"], "in order, though sent to the router");
    sent(&daemon, &envelope("can", "task.cancel", "lead", json!({"task_id": "t2"}))).await;
    let page = inbox(&daemon, "ken", "").await;
    let kinds: Vec<&Value> = page["messages"].as_array().unwrap().iter().map(|one| &one["message"]["type"]).collect();
    assert_eq!(kinds, ["task.cancel"], "whoever took t1 has seen its request, and that of t2 is void");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn a_task_that_is_given_to_an_agent_of_another_face_is_seen_there() {
    let daemon = team(&["lead", "ken"]).await;
    let ken = Tools::connect(&daemon, "ken").await;
    let waiting = ken.call("inbox_wait", json!({"timeout_seconds": 60}));
    let asking = async {
        let about = json!({"task_id": "t", "to": to(&["agent:ken"]), "payload": {"query": "?"}});
        sent(&daemon, &envelope("req", "task.request", "lead", about)).await
    };
    let (told, _) = wait::within("to be told", async { tokio::join!(waiting, asking) }).await.unwrap();
    assert_eq!(told["messages"][0]["envelope"]["task_id"], "t", "{told}");
    assert!(told["notes"][0].as_str().unwrap().starts_with("Task t is given to you: claim it (task_claim)"), "{told}");
    ken.call("task_claim", json!({"task_id": "t"})).await;
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0], "whoever takes the task has seen the request");
    let acked = rows(&daemon).into_iter().filter(|row| row["kind"] == "message.acked").count();
    assert_eq!(acked, 1);
    let after = ken.call("inbox_check", json!({})).await;
    assert_eq!(after, json!({"messages": []}));
}

#[tokio::test]
async fn a_connected_agent_gets_what_is_for_it_and_acknowledges_it_there() {
    let daemon = team(&["lead", "ken", "ada"]).await;
    for (id, agent) in [("m1", "ken"), ("m2", "ada"), ("m3", "ken")] {
        sent(&daemon, &envelope(id, "x.note", "lead", json!({"to": to(&[agent])}))).await;
    }
    let mut ken = follow(&daemon, "?inbox=agent:ken").await;
    let names =
        |placed: Vec<LoggedMessage>| placed.into_iter().map(|one| one.message["id"].clone()).collect::<Vec<_>>();
    assert_eq!(names(ken.take(2).await.unwrap()), ["m1", "m3"], "what waits comes first");
    sent(&daemon, &envelope("m4", "x.note", "lead", json!({"to": to(&["ada"])}))).await;
    sent(&daemon, &envelope("m5", "chat.message", "lead", json!({"to": to(&["ken"]), "payload": {"text": "hi"}})))
        .await;
    assert_eq!(names(ken.take(1).await.unwrap()), ["m5"], "then what comes, and nothing that is for others");

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
    assert_eq!(names(again.take(1).await.unwrap()), ["m3"], "what is not acknowledged comes again");

    // On a stream of everything it has to be said whose they are.
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
async fn a_place_of_another_log_is_not_one_of_the_inbox() {
    let daemon = team(&["lead", "ken"]).await;
    let placed = sent(&daemon, &envelope("m1", "x.note", "lead", json!({"to": to(&["ken"])}))).await["seq"].clone();
    sent(&daemon, &envelope("m2", "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    let log = daemon.get("/clutch/v0/messages?limit=1").await.unwrap().headers["x-rookery-log"].clone();
    let here = format!("?after={}:{placed}", log.to_str().unwrap());
    assert_eq!(ids(&inbox(&daemon, "ken", &here).await), ["m2"]);
    let mut stream = follow(&daemon, &format!("{here}&inbox=ken")).await;
    assert_eq!(stream.next().await.unwrap().message["id"], "m2");
    for after in ["log_other:1", "9999999"] {
        for path in ["agents/ken/inbox?", "deliveries?", "stream?inbox=ken&"] {
            let refused = daemon.get(&format!("/clutch/v0/{path}after={after}")).await.unwrap();
            assert_eq!((refused.status.as_u16(), &refused.body["code"]), (410, &json!("POSITION_GONE")), "{path}");
            assert!(refused.body["details"]["hint"].is_string(), "{}", refused.body);
        }
    }
}

#[tokio::test]
async fn who_leaves_its_inbox_for_the_log_begins_now() {
    let daemon = team(&["lead", "ken"]).await;
    let mut ken = follow(&daemon, "?inbox=ken").await;
    for id in ["m1", "m2"] {
        sent(&daemon, &envelope(id, "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    }
    ken.take(2).await.unwrap();
    ken.send(&json!({"op": "subscribe", "type": "x.note"})).await.unwrap();
    let head = rows(&daemon).len();
    assert_eq!(ken.frame().await.unwrap(), json!({"op": "subscribed", "after": head}));
    sent(&daemon, &envelope("m3", "x.note", "ken", json!({"to": to(&["lead"])}))).await;
    assert_eq!(ken.next().await.unwrap().message["id"], "m3", "and not all that ever was");
}

/// A daemon that looks often whether whoever follows it still may.
async fn watchful(agents: &[&str]) -> Daemon {
    let daemon = setup().env("ROOKERY_STREAM_KEEP_ALIVE", "1s").start().unwrap();
    for agent in agents {
        announce(&daemon, agent).await;
    }
    daemon
}

#[tokio::test]
async fn the_stream_of_an_inbox_ends_when_its_agent_leaves() {
    let daemon = watchful(&["lead", "ken"]).await;
    let mut ken = follow(&daemon, "?inbox=ken").await;
    let left = read(daemon.request(Method::DELETE, "/clutch/v0/agents/ken")).await.unwrap();
    assert_eq!(left.status, 200, "{}", left.body);
    let (code, reason) = ken.close_frame().await.unwrap().unwrap();
    assert_eq!(code, 1008);
    assert!(reason.contains("'ken'") && reason.contains("left"), "{reason}");
    assert!(Socket::open(daemon.url(), "?inbox=ken").await.is_err());
    let refused = daemon.get("/clutch/v0/agents/ken/inbox").await.unwrap();
    assert_eq!((refused.status.as_u16(), &refused.body["code"]), (404, &json!("AGENT_NOT_FOUND")));
    announce(&daemon, "ken").await;
    follow(&daemon, "?inbox=ken").await;
}

#[tokio::test]
async fn the_stream_of_an_inbox_ends_with_the_token_that_opened_it() {
    let daemon = watchful(&["lead", "ken"]).await;
    let owner = format!("Bearer {}", daemon.person_key().unwrap());
    let by_owner = |method, path: &str| daemon.request(method, path).header("authorization", &owner);
    let made = read(by_owner(Method::POST, "/admin/tokens").json(&json!({"agent": "ken", "role": "agent"})));
    let made = made.await.unwrap();
    assert_eq!(made.status, 201, "{}", made.body);
    let token = format!("Bearer {}", made.body["token"].as_str().unwrap());
    let opened =
        Socket::connect(daemon.url(), "?inbox=1", &[("authorization", &token)], ReceiveBuffer::Default).await.unwrap();
    let mut ken = opened.unwrap();
    sent(&daemon, &envelope("m1", "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    assert_eq!(ken.next().await.unwrap().message["id"], "m1");
    let path = format!("/admin/tokens/{}", made.body["id"].as_str().unwrap());
    assert!(read(by_owner(Method::DELETE, &path)).await.unwrap().status.is_success());
    sent(&daemon, &envelope("m2", "x.note", "lead", json!({"to": to(&["ken"])}))).await;
    let (code, reason) = loop {
        match ken.raw().await.unwrap().expect("a word before the end") {
            Message::Close(Some(told)) => break (u16::from(told.code), told.reason.to_string()),
            Message::Text(text) => panic!("{text} was told to whoever may not know it"),
            _ => {}
        }
    };
    assert_eq!((code, reason.as_str()), (1008, "the credential is not valid any more"));
}
