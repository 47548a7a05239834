//! Incoming envelopes: single, in batches, duplicated, and invalid.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqwest::Method;
use rookery_testkit::daemon::read;
use serde_json::{Value, json};

use crate::sending::{
    envelope, event_kinds, post, post_rejected, post_text, rejection, rejection_of, rows, send_ok, setup, team,
};

fn note(id: &str, from: &str) -> Value {
    envelope(id, "x.note", from, json!({"payload": {"n": 1.50, "text": "a  b"}, "own_field": [1, null]}))
}

#[tokio::test]
async fn envelope_is_returned_byte_for_byte() {
    let daemon = team(&["ken", "ada"]).await;
    let spelled = serde_json::to_string_pretty(&note("m1", "agent:ken")).unwrap().replace("1.5", "1.50e0");
    let reply = post_text(&daemon, "application/json", spelled.clone()).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let seq = reply.body["results"][0]["seq"].as_u64().unwrap();
    assert_eq!(reply.body, json!({"results": [{"id": "m1", "seq": seq, "duplicate": false}]}));
    let request = daemon.request(Method::GET, "/clutch/v0/messages/m1");
    let shown = request.send().await.unwrap();
    assert_eq!(shown.status(), 200);
    assert_eq!(shown.text().await.unwrap(), spelled, "byte for byte");
    let row = rows(&daemon).into_iter().find(|row| row["seq"] == seq).unwrap();
    assert_eq!((&row["kind"], &row["actor"]), (&json!("envelope.received"), &json!("ken")));
    assert_eq!((&row["run"], &row["thread"]), (&json!("run_work"), &json!("thr_talk")));
    assert_eq!(rejection(&daemon.get("/clutch/v0/messages/ghost").await.unwrap()).0, 404);
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn batch_as_array_or_lines_is_stored_in_order() {
    let daemon = team(&["ken"]).await;
    let array = json!([note("m1", "ken"), note("m2", "ken"), note("m1", "ken")]);
    let reply = post(&daemon, &array).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let results = &reply.body["results"];
    let first = results[0]["seq"].as_u64().unwrap();
    assert_eq!(
        *results,
        json!([{"id": "m1", "seq": first, "duplicate": false}, {"id": "m2", "seq": first + 1, "duplicate": false},
               {"id": "m1", "seq": first, "duplicate": true}])
    );
    let lines = format!("{}\n\n{}\n", note("m3", "ken"), note("m4", "ken"));
    let reply = post_text(&daemon, "application/x-ndjson", lines).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    assert_eq!(reply.body["results"][1], json!({"id": "m4", "seq": first + 3, "duplicate": false}));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn envelope_without_json_content_type_is_rejected() {
    let daemon = team(&["ken"]).await;
    let (before, body) = (event_kinds(&daemon), note("m1", "ken").to_string());
    for media in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json", ""] {
        let reply = post_text(&daemon, media, body.clone()).await;
        assert_eq!(rejection(&reply), rejection_of(415, "UNSUPPORTED_MEDIA_TYPE", ""), "{media}");
    }
    let bare = read(daemon.request(Method::POST, "/clutch/v0/messages").body(body.clone())).await.unwrap();
    assert_eq!(rejection(&bare), rejection_of(415, "UNSUPPORTED_MEDIA_TYPE", ""));
    assert_eq!(event_kinds(&daemon), before);
    let reply = post_text(&daemon, "application/json; charset=utf-8", body).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
}

#[tokio::test]
async fn batch_with_a_rejected_envelope_stores_nothing() {
    let daemon = team(&["ken"]).await;
    let before = event_kinds(&daemon);
    let mut stranger = note("m3", "ken");
    stranger["to"] = json!([{"agent_id": "agent:ken"}, {"agent_id": "agent:ghost"}]);
    let request = envelope("m1", "task.request", "ken", json!({"idempotency_key": "once"}));
    let batch = json!([request, note("m2", "ken"), stranger]);
    assert_eq!(post_rejected(&daemon, &batch).await, rejection_of(400, "UNKNOWN_RECIPIENT", "/2/to/1/agent_id"));
    assert_eq!(event_kinds(&daemon), before);
    let lines = format!("{}\n{}", note("m2", "ken"), envelope("m4", "task.accept", "ken", json!({})));
    let reply = post_text(&daemon, "application/x-ndjson", lines).await;
    assert_eq!(rejection(&reply), rejection_of(404, "TASK_NOT_FOUND", "/1/task_id"));
    assert_eq!(event_kinds(&daemon), before);
    let good = json!([request, note("m2", "ken")]);
    let reply = post(&daemon, &good).await;
    assert_eq!(reply.status, 202, "the rejected batch left no trace: {}", reply.body);
    assert_eq!(reply.body["results"][0]["duplicate"], false);
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn duplicate_envelope_gets_the_first_reply_even_after_a_crash() {
    let mut daemon = team(&["ken"]).await;
    let first = send_ok(&daemon, &note("m1", "ken")).await;
    let mut again = note("m1", "agent:ken");
    again["attempt"] = json!(2);
    again["trace"] = json!({"trace_id": "t"});
    again["from"] = json!({"agent_id": "ken"});
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let repeated = json!({"id": "m1", "seq": first["seq"], "duplicate": true});
    assert_eq!(send_ok(&daemon, &again).await, repeated);
    again["payload"] = json!({"n": 2});
    assert_eq!(post_rejected(&daemon, &again).await, rejection_of(409, "ALREADY_EXISTS", "/id"));
    let mut elsewhere = note("m1", "ken");
    elsewhere["run_id"] = json!("run_elsewhere");
    assert_eq!(
        post_rejected(&daemon, &elsewhere).await,
        rejection_of(409, "ALREADY_EXISTS", "/id"),
        "in another run too"
    );
    assert_eq!(event_kinds(&daemon).iter().filter(|kind| *kind == "envelope.received").count(), 1);
}

#[tokio::test]
async fn idempotency_key_executes_duplicate_envelope_once() {
    let daemon = team(&["ken", "ada"]).await;
    let keyed = |id: &str, more: Value| {
        let mut envelope = note(id, "ken");
        envelope["idempotency_key"] = json!("once");
        envelope["payload"] = more;
        envelope
    };
    let first = send_ok(&daemon, &keyed("m1", json!({"n": 1}))).await;
    let mut again = keyed("m2", json!({"n": 1}));
    again["ts"] = json!("2026-02-01T13:20:12.123Z");
    assert_eq!(send_ok(&daemon, &again).await, json!({"id": "m1", "seq": first["seq"], "duplicate": true}));
    let other = keyed("m3", json!({"n": 2}));
    assert_eq!(post_rejected(&daemon, &other).await, rejection_of(422, "IDEMPOTENCY_MISMATCH", "/idempotency_key"));
    let among = post_rejected(&daemon, &json!([note("m4", "ken"), other])).await;
    assert_eq!(among, rejection_of(422, "IDEMPOTENCY_MISMATCH", "/1/idempotency_key"));
    let mut elsewhere = other.clone();
    elsewhere["run_id"] = json!("run_other");
    assert_eq!(send_ok(&daemon, &elsewhere).await["duplicate"], false, "keys are of a run and a sender");
    let mut of_ada = other;
    of_ada["from"] = json!({"agent_id": "ada"});
    of_ada["id"] = json!("m5");
    assert_eq!(send_ok(&daemon, &of_ada).await["duplicate"], false);
}

#[tokio::test]
async fn envelope_in_the_name_of_another_sender_is_rejected() {
    let daemon = team(&["ken", "ada"]).await;
    let key = daemon.person_key().unwrap();
    let new_token = daemon.request(Method::POST, "/admin/tokens").bearer_auth(&key).json(&json!({"agent": "ken"}));
    let token = read(new_token).await.unwrap().body["token"].as_str().unwrap().to_owned();
    let before = event_kinds(&daemon).len();
    let send = |body: Value| daemon.request(Method::POST, "/clutch/v0/messages").json(&body);
    let foreign = rejection_of(403, "FORBIDDEN", "/from/agent_id");
    let with = |token: &str, body: Value| send(body).bearer_auth(token);
    assert_eq!(rejection(&read(with(&token, note("m", "ada"))).await.unwrap()), foreign);
    assert_eq!(rejection(&read(send(note("m", "ada")).header("x-agent-id", "ken")).await.unwrap()), foreign);
    assert_eq!(rejection(&read(send(note("m", "person:anna"))).await.unwrap()), foreign);
    let many = json!([note("m", "ken"), note("n", "ada")]);
    assert_eq!(rejection(&read(with(&token, many)).await.unwrap()), rejection_of(403, "FORBIDDEN", "/1/from/agent_id"));
    assert_eq!(rejection(&read(with("wrong", note("m", "ken"))).await.unwrap()).0, 401);
    assert_eq!(event_kinds(&daemon).len(), before);
    assert_eq!(read(with(&token, note("m1", "ken"))).await.unwrap().status, 202);
    assert_eq!(read(send(note("m2", "stranger"))).await.unwrap().status, 202, "anybody may send");
    assert_eq!(read(with(&key, note("m3", "ada"))).await.unwrap().status, 202, "a person may speak for an agent");
    assert_eq!(rows(&daemon).last().unwrap()["via"], "person:local");
    assert_eq!(read(with(&key, note("m4", "person:local"))).await.unwrap().status, 202);
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/clutch")
}

#[tokio::test]
async fn invalid_envelope_is_rejected_with_pointers_and_not_stored() {
    let daemon = team(&["ken"]).await;
    let before = event_kinds(&daemon);
    let faults: BTreeMap<String, Vec<String>> =
        serde_json::from_slice(&std::fs::read(corpus().join("faults.json")).unwrap()).unwrap();
    for (name, faults) in &faults {
        let bytes = std::fs::read(corpus().join("bad").join(format!("{name}.json"))).unwrap();
        // An empty body and an array have other faults as a batch than as an envelope.
        if bytes.trim_ascii().is_empty() || bytes.trim_ascii().starts_with(b"[") {
            continue;
        }
        let reply = post_text(&daemon, "application/json", bytes).await;
        let (status, code, pointer) = rejection(&reply);
        assert_eq!((status, format!("{code} {pointer}").trim_end()), (400, faults[0].as_str()), "{name}");
        let listed_faults = reply.body["details"]["faults"].as_array().unwrap();
        let all: Vec<String> = listed_faults
            .iter()
            .map(|fault| format!("{} {}", fault["code"].as_str().unwrap(), fault["pointer"].as_str().unwrap()))
            .map(|fault| fault.trim_end().to_owned())
            .collect();
        assert_eq!(all, *faults, "{name}");
    }
    for (kind, payload, pointer) in [
        ("chat.message", json!({}), "/payload/text"),
        ("chat.message", json!({"text": " "}), "/payload/text"),
        ("chat.message", json!({"text": "x", "mentions": ["group:x"]}), "/payload/mentions/0"),
        ("agent.register", json!({"v": "clutch/0.1"}), "/payload/agent_id"),
        ("agent.register", json!({"card": {"v": "clutch/0.1"}}), "/payload/card/agent_id"),
    ] {
        let wrong = envelope("m", kind, "ken", json!({"payload": payload}));
        let (status, _, place) = post_rejected(&daemon, &wrong).await;
        assert_eq!((status, place.as_str()), (400, pointer), "{kind}");
        let (status, _, place) = post_rejected(&daemon, &json!([note("n", "ken"), wrong])).await;
        assert_eq!((status, place), (400, format!("/1{pointer}")), "{kind}");
    }
    let limits = envelope("m", "task.request", "ken", json!({"limits": {"max_runtime_sec": 0}, "deadline": "soon"}));
    assert_eq!(post_rejected(&daemon, &limits).await.2, "/deadline");
    assert_eq!(event_kinds(&daemon), before);
}

#[tokio::test]
async fn large_envelope_is_returned_whole() {
    let daemon = team(&["ken"]).await;
    let large = envelope("m1", "x.blob", "ken", json!({"payload": {"blob": "x".repeat(200_000)}}));
    let small = note("m2", "ken");
    let reply = post(&daemon, &json!([large, small])).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    assert_eq!(daemon.get("/clutch/v0/messages/m1").await.unwrap().body, large);
    assert_eq!(daemon.get("/clutch/v0/messages/m2").await.unwrap().body, small);
}

#[tokio::test]
async fn oversized_text_is_an_artifact_with_an_excerpt() {
    let daemon = setup().env("ROOKERY_MAX_BODY_BYTES", "2MiB").start().unwrap();
    for agent in ["ken", "ada"] {
        daemon.post("/agents/announce", json!({"id": agent, "tool": "test", "role": "worker"})).await.unwrap();
    }
    let long = "spam and eggs ".repeat(30_000);
    let chat = envelope("m1", "chat.message", "ken", json!({"to": [{"agent_id": "ada"}], "payload": {"text": long}}));
    send_ok(&daemon, &chat).await;
    let asked =
        envelope("m2", "task.request", "ken", json!({"to": [{"agent_id": "person:anna"}], "payload": {"text": long}}));
    send_ok(&daemon, &asked).await;
    send_ok(&daemon, &envelope("m3", "task.accept", "ada", json!({}))).await;
    let result = envelope("m4", "task.result", "ada", json!({"payload": {"summary": long, "n": 1}}));
    send_ok(&daemon, &result).await;
    for (id, message) in [("m1", &chat), ("m2", &asked), ("m4", &result)] {
        assert_eq!(daemon.get(&format!("/clutch/v0/messages/{id}")).await.unwrap().body, *message, "{id} is whole");
    }
    let log = rows(&daemon);
    let text = log.iter().find(|row| row["kind"] == "message.sent").unwrap()["fact"]["text"].as_str().unwrap();
    assert!(text.starts_with("spam and eggs ") && text.len() < 20_000, "{}", text.len());
    let task = daemon.get("/tasks/task_one").await.unwrap().body;
    assert_eq!(task["state"], "completed");
    let detail = &task["outcome_detail"];
    let reference = detail["attachments"][0]["ref"].as_str().unwrap();
    assert!(detail["excerpt"].as_str().unwrap().contains(reference), "{detail}");
    let whole = daemon.get(&format!("/clutch/v0/artifacts/{}", reference.strip_prefix("artifact:").unwrap())).await;
    assert_eq!(whole.unwrap().status, 200, "the whole text is an artifact");
    let fit = |bytes: usize| {
        let least = envelope("m5", "x.blob", "ken", json!({"payload": {"blob": ""}})).to_string().len();
        envelope("m5", "x.blob", "ken", json!({"payload": {"blob": "x".repeat(bytes - least)}}))
    };
    assert_eq!(post_rejected(&daemon, &fit(1024 * 1024 + 1)).await, rejection_of(400, "TOO_LARGE", ""));
    send_ok(&daemon, &fit(1024 * 1024)).await;
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn heartbeats_and_cards_are_accepted_as_envelopes() {
    let daemon = team(&["lead"]).await;
    let beat = |id: &str| envelope(id, "agent.heartbeat", "ken", json!({}));
    assert_eq!(post_rejected(&daemon, &beat("m0")).await, rejection_of(404, "AGENT_NOT_FOUND", "/from/agent_id"));
    let card = json!({"v": "clutch/0.1", "agent_id": "agent:ken", "display": {"name": "Ken"},
                      "capabilities": [{"id": "skill:research", "version": "1.0"}]});
    send_ok(&daemon, &envelope("m1", "agent.register", "agent:ken", json!({"payload": card}))).await;
    let ken = daemon.get("/agents/ken").await.unwrap().body;
    assert_eq!((&ken["name"], &ken["capabilities"]), (&json!("Ken"), &json!(["research"])));
    let before = event_kinds(&daemon);
    assert_eq!(send_ok(&daemon, &beat("m2")).await, json!({"id": "m2", "seq": null, "duplicate": false}));
    assert_eq!(event_kinds(&daemon), before, "presence is not in the log");
    let change = json!({"capabilities": [{"id": "skill:law"}]});
    send_ok(&daemon, &envelope("m3", "agent.update", "ken", json!({"payload": change}))).await;
    assert_eq!(daemon.get("/agents/ken").await.unwrap().body["capabilities"], json!(["law"]));
    assert_eq!(event_kinds(&daemon)[before.len()..], ["envelope.received", "agent.updated"]);
}

#[tokio::test]
async fn duplicate_chat_envelope_appends_one_message() {
    let daemon = team(&["ken", "ada"]).await;
    let chat =
        envelope("m1", "chat.message", "ken", json!({"to": [{"agent_id": "agent:ada"}], "payload": {"text": "hello"}}));
    let first = send_ok(&daemon, &chat).await;
    assert_eq!(send_ok(&daemon, &chat).await["seq"], first["seq"]);
    let log = rows(&daemon);
    let message = log.iter().find(|row| row["kind"] == "message.sent").unwrap();
    assert_eq!(message["cause"], first["seq"], "it follows from the envelope");
    assert_eq!((&message["fact"]["text"], &message["fact"]["to"]), (&json!("hello"), &json!({"agents": ["ada"]})));
    assert_eq!(log.iter().filter(|row| row["kind"] == "message.sent").count(), 1);
    let follower = format!("/clutch/v0/messages/{}", message_id_of(message["seq"].as_u64().unwrap()));
    let follower = daemon.get(&follower).await.unwrap().body;
    assert_eq!((&follower["type"], &follower["meta"]["cause"]), (&json!("x.message.sent"), &first["seq"]));
    let legacy = envelope("m2", "PLAN", "ken", json!({"task_id": "task_two"}));
    send_ok(&daemon, &legacy).await;
    let shown = daemon.get("/clutch/v0/messages/m2").await.unwrap().body;
    assert_eq!((&shown["type"], &shown["meta"]["legacy_type"]), (&json!("task.request"), &json!("PLAN")));
}

/// The id under which an event is listed.
fn message_id_of(seq: u64) -> String {
    rookery_core::kernel::event_id::of(rookery_core::Seq(seq))
}

#[tokio::test]
async fn list_shows_envelope_verbatim_and_its_effects_by_kind() {
    let daemon = team(&["ken"]).await;
    let people = json!([{"agent_id": "person:anna"}]);
    let request =
        envelope("m1", "task.request", "ken", json!({"to": people, "payload": {"title": "x".repeat(100_000)}}));
    send_ok(&daemon, &request).await;
    let listed = async |query: &str| {
        let reply = daemon.get(&format!("/clutch/v0/messages?run_id=run_work{query}")).await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body["messages"].as_array().unwrap().iter().map(|entry| entry["message"].clone()).collect::<Vec<_>>()
    };
    let types = |messages: &[Value]| messages.iter().map(|message| message["type"].clone()).collect::<Vec<_>>();
    let all = listed("").await;
    assert_eq!(types(&all), ["task.request", "x.task.created"]);
    assert_eq!(all[0], request);
    assert_eq!(listed("&type=task.request").await, [request]);
    assert_eq!(types(&listed("&type=task.created").await), ["x.task.created"]);
    assert_eq!(listed("&type=task.created&limit=1").await.len(), 1);
}

#[tokio::test]
async fn rate_limited_sender_gets_retry_after_and_loses_no_result() {
    let daemon = setup().env("ROOKERY_ENVELOPES_PER_MINUTE", "4").start().unwrap();
    let card = json!({"v": "clutch/0.1", "agent_id": "agent:ken"});
    let request = envelope("m2", "task.request", "ken", json!({"to": [{"agent_id": "person:anna"}]}));
    let batch = json!([
        envelope("m1", "agent.register", "ken", json!({"payload": card})),
        request,
        note("m3", "ken"),
        note("m4", "ken"),
    ]);
    assert_eq!(post(&daemon, &batch).await.status, 202);
    let stored = event_kinds(&daemon);
    let among = json!([note("n1", "ada"), note("n2", "ken")]);
    let reply = post(&daemon, &among).await;
    assert_eq!(rejection(&reply), rejection_of(429, "RATE_LIMITED", "/1/from/agent_id"));
    let (wait, seconds) =
        (reply.body["details"]["retry_after_ms"].as_u64(), reply.headers["retry-after"].to_str().unwrap());
    assert!(wait.is_some_and(|millis| millis > 0 && millis <= 15_000), "{}", reply.body);
    assert!(reply.body["retryable"] == true && (1..=15).contains(&seconds.parse::<u32>().unwrap()), "{}", reply.body);
    assert_eq!(event_kinds(&daemon), stored, "nothing of the batch was stored");
    // Messages that accept, end or answer work, chat, and heartbeats are exempt from the limit.
    for (id, kind, payload) in [
        ("o1", "task.accept", json!({})),
        ("o2", "agent.heartbeat", json!({})),
        ("o3", "chat.message", json!({"text": "done"})),
        ("o4", "tool.result", json!({"tool": "mcp:x"})),
        ("o5", "task.result", json!({"title": "done"})),
    ] {
        send_ok(&daemon, &envelope(id, kind, "ken", json!({"payload": payload}))).await;
    }
    send_ok(&daemon, &note("n1", "ada")).await;
}

#[tokio::test]
async fn heartbeat_sets_status_and_current_task() {
    let daemon = team(&["lead", "ken"]).await;
    send_ok(&daemon, &envelope("m1", "task.request", "lead", json!({"to": [{"agent_id": "person:anna"}]}))).await;
    let beat = |id: &str, payload: Value| envelope(id, "agent.heartbeat", "ken", json!({"payload": payload}));
    let ken = async || {
        let ken = daemon.get("/agents/ken").await.unwrap().body;
        (ken["status"].clone(), ken["current_task"].clone())
    };
    let result =
        send_ok(&daemon, &beat("m2", json!({"status": "blocked", "current_task_id": "task:task_one", "load": 0.4})))
            .await;
    assert_eq!(result, json!({"id": "m2", "seq": null, "duplicate": false}));
    assert_eq!(ken().await, (json!("blocked"), json!("task_one")));
    let before = event_kinds(&daemon);
    for same in
        [json!({}), json!({"status": "busy"}), json!({"status": "sunny"}), json!({"current_task_id": "task_one"})]
    {
        send_ok(&daemon, &beat("m3", same)).await;
    }
    assert_eq!(event_kinds(&daemon), before, "an unchanged heartbeat is not in the log");
    let ghost = post_rejected(&daemon, &beat("m4", json!({"current_task_id": "ghost"}))).await;
    assert_eq!(ghost, rejection_of(404, "TASK_NOT_FOUND", "/payload/current_task_id"));
    let reply = daemon.post("/clutch/v0/agents/ken/heartbeat", json!({"status": "working"})).await.unwrap();
    assert_eq!((reply.status.as_u16(), ken().await.0), (200, json!("working")), "{}", reply.body);
}

#[tokio::test]
async fn received_time_is_shown_beside_each_message() {
    let daemon = team(&["ken", "ada"]).await;
    send_ok(&daemon, &envelope("m1", "x.note", "ken", json!({"to": [{"agent_id": "agent:ada"}]}))).await;
    let row = rows(&daemon).pop().unwrap();
    let received = rookery_core::kernel::time::iso(rookery_core::Timestamp(row["at"].as_i64().unwrap()));
    for path in ["/messages?type=x.note", "/agents/ada/inbox?wait=0s"] {
        let reply = daemon.get(&format!("/clutch/v0{path}")).await.unwrap();
        let placed = &reply.body["messages"][0];
        assert_eq!(placed["received_at"], received, "{path}: {}", reply.body);
        assert_eq!(placed["message"]["ts"], "2026-02-01T13:20:11.123Z");
    }
    let one = daemon.get("/clutch/v0/messages/m1").await.unwrap();
    assert_eq!(one.headers["x-received-at"], received.as_str());
}
