//! Delivery to the endpoints of agents: at least once, in order for each task, under failures of the endpoint and
//! crashes of
//! the daemon.

use std::collections::BTreeMap;

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, Setup, read};
use rookery_testkit::wait;
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Reaction};
use crate::inbox::{ids, inbox, to};
use crate::sending::{self, envelope, rows, send_ok};
use crate::team::rookery;

/// A daemon with short retry backoffs.
fn setup() -> Setup {
    sending::setup()
        .env("ROOKERY_DELIVERY_BACKOFF", "20ms")
        .env("ROOKERY_DELIVERY_CIRCUIT_BACKOFF", "50ms")
        .env("ROOKERY_DELIVERY_TIMEOUT", "2s")
        .env("ROOKERY_DELIVERY_ATTEMPTS", "6")
}

async fn start_with_ada(setup: Setup) -> Daemon {
    let daemon = setup.start().unwrap();
    let announced = json!({"id": "ada", "tool": "test", "role": "worker"});
    assert_eq!(daemon.post("/agents/announce", announced).await.unwrap().status, 201);
    daemon
}

/// A message of ada to ken about a task.
fn note(id: &str, task: &str) -> Value {
    envelope(id, "x.note", "ada", json!({"to": to(&["agent:ken"]), "task_id": task, "payload": {"text": id}}))
}

async fn list_deliveries(daemon: &Daemon, query: &str) -> Vec<Value> {
    let reply = daemon.get(&format!("/clutch/v0/deliveries{query}")).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body["deliveries"].as_array().unwrap().clone()
}

/// Waits until this many deliveries are in a state.
async fn wait_for_deliveries(daemon: &Daemon, state: &str, count: usize) -> Vec<Value> {
    let find = || async {
        let found = list_deliveries(daemon, &format!("?state={state}&limit=1000")).await;
        Ok(Some(found).filter(|found| found.len() == count))
    };
    let found = wait::eventually(&format!("{count} deliveries to be {state}"), find).await;
    match found {
        Ok(found) => found,
        Err(error) => panic!("{error}: {:?}", list_deliveries(daemon, "").await),
    }
}

#[tokio::test]
async fn delivery_is_posted_verbatim_and_acknowledged_by_its_answer() {
    let daemon = start_with_ada(setup()).await;
    let endpoint = Endpoint::start(Reaction::Answer(202)).await;
    endpoint.register_for(&daemon, "ken", json!({})).await;
    let message = note("m1", "t");
    let raw = serde_json::to_string_pretty(&message).unwrap();
    assert_eq!(sending::post_text(&daemon, "application/json", raw.clone()).await.status, 202);
    let got = &endpoint.wait_for(1).await[0];
    assert_eq!(String::from_utf8(got.bytes.clone()).unwrap(), raw, "byte for byte");
    assert_eq!((got.header("content-type"), got.header("x-rookery-message")), (Some("application/json"), Some("m1")));
    assert_eq!((got.header("x-rookery-recipient"), got.header("x-rookery-attempt")), (Some("ken"), Some("1")));
    let acked = wait_for_deliveries(&daemon, "acked", 1).await;
    assert_eq!((&acked[0]["message_id"], &acked[0]["agent_id"]), (&json!("m1"), &json!("agent:ken")));
    assert_eq!((&acked[0]["task_id"], acked[0]["acked_at"].is_string()), (&json!("t"), true));
    assert_eq!(acked[0]["attempts"], 1);
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), [""; 0]);

    // The agent's key proves that the message comes from this daemon.
    let (code, key, error) = rookery(daemon.root(), daemon.store(), &["deliveries", "key", "ken"]);
    assert_eq!(code, 0, "{error}");
    let signature = got.header("x-rookery-signature").unwrap();
    let part = |name: &str| signature.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_owned();
    assert_eq!(part("v1="), hmac(key.trim(), &format!("{}.{raw}", part("t="))), "{signature}");

    // Messages of other surfaces arrive too, as do those sent before the agent had an endpoint.
    daemon.post("/agents/announce", json!({"id": "eve", "tool": "test"})).await.unwrap();
    send_ok(&daemon, &envelope("m2", "x.note", "ada", json!({"to": to(&["eve"])}))).await;
    let later = Endpoint::start(Reaction::Answer(200)).await;
    later.register_for(&daemon, "eve", json!({})).await;
    assert_eq!(later.wait_for(1).await[0].id(), "m2");
    daemon.replay_verify().unwrap();
}

fn hmac(key: &str, text: &str) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn failing_endpoint_receives_all_messages_in_task_order() {
    let daemon = start_with_ada(setup().env("ROOKERY_DELIVERY_ATTEMPTS", "50")).await;
    let endpoint = Endpoint::start(Reaction::Answer(200)).await;
    let bad = [
        Reaction::Answer(503),
        Reaction::Cut,
        Reaction::Hang,
        Reaction::Answer(429),
        Reaction::Redirect,
        Reaction::Cut,
    ];
    endpoint.set_reactions(&bad, Reaction::Answer(200));
    endpoint.register_for(&daemon, "ken", json!({})).await;
    let tasks = ["t0", "t1", "t2"];
    for number in 0..30 {
        send_ok(&daemon, &note(&format!("m{number:02}"), tasks[number % 3])).await;
    }
    let acked = wait_for_deliveries(&daemon, "acked", 30).await;
    let attempts: u64 = acked.iter().filter_map(|delivery| delivery["attempts"].as_u64()).sum();
    assert!(attempts >= 30, "each took one attempt or more: {acked:?}");
    let mut taken: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for got in endpoint.received() {
        let of_task = taken.entry(got.body["task_id"].as_str().unwrap().to_owned()).or_default();
        // What came again is what came last: nothing overtakes it.
        if of_task.last().is_none_or(|last| last != got.id()) {
            of_task.push(got.id().to_owned());
        }
    }
    for (at, task) in tasks.into_iter().enumerate() {
        let expected: Vec<String> = (0..10).map(|number| format!("m{:02}", number * 3 + at)).collect();
        assert_eq!(taken[task], expected, "{task}");
    }
    assert!(endpoint.received().len() >= 30 + bad.len(), "each of them was tried again");
}

#[tokio::test]
async fn undeliverable_message_is_a_dead_letter_that_can_be_retried() {
    let daemon = start_with_ada(setup().env("ROOKERY_DELIVERY_ATTEMPTS", "3")).await;
    let endpoint = Endpoint::start(Reaction::Answer(500)).await;
    endpoint.register_for(&daemon, "ken", json!({})).await;
    send_ok(&daemon, &note("m1", "t")).await;
    let dead = wait_for_deliveries(&daemon, "dead", 1).await.remove(0);
    assert_eq!((&dead["attempts"], &dead["last_error"]), (&json!(3), &json!("it answered 500")));
    assert!(dead["dead_at"].is_string() && dead["next_at"].is_null() && dead["age_ms"].is_number(), "{dead}");
    assert_eq!(ids(&inbox(&daemon, "ken", "").await), ["m1"], "the agent still finds it");
    let escalated = daemon.get("/events?action=authority.escalation").await.unwrap().body;
    assert!(escalated.to_string().contains("m1"), "{escalated}");
    let abandoned = rows(&daemon).into_iter().filter(|row| row["kind"] == "delivery.abandoned").count();
    assert_eq!((abandoned, endpoint.received().len()), (1, 3));

    // Another agent may not retry it, and only dead deliveries can be retried; a person does so by command.
    let path = format!("/clutch/v0/deliveries/{}/retry", dead["id"].as_str().unwrap());
    let foreign = read(daemon.request(Method::POST, &path).header("x-agent-id", "eve")).await.unwrap();
    assert_eq!((foreign.status.as_u16(), &foreign.body["code"]), (403, &json!("FORBIDDEN")));
    for unknown in ["dlv_00", "nothing", "dlv_6d206b"] {
        let reply = daemon.post(&format!("/clutch/v0/deliveries/{unknown}/retry"), json!({})).await.unwrap();
        assert_eq!((reply.status.as_u16(), &reply.body["code"]), (404, &json!("MESSAGE_NOT_FOUND")), "{unknown}");
    }
    endpoint.set_reactions(&[], Reaction::Answer(200));
    let (code, listed, error) = rookery(daemon.root(), daemon.store(), &["deliveries", "--state", "dead"]);
    assert!(code == 0 && listed.contains("m1") && listed.contains("it answered 500"), "{listed}{error}");
    let (code, printed, error) =
        rookery(daemon.root(), daemon.store(), &["deliveries", "retry", dead["id"].as_str().unwrap()]);
    assert_eq!(code, 0, "{printed}{error}");
    wait_for_deliveries(&daemon, "acked", 1).await;
    assert_eq!(endpoint.ids(), ["m1", "m1", "m1", "m1"]);
    let again = daemon.post(&path, json!({})).await.unwrap();
    assert_eq!((again.status.as_u16(), &again.body["code"]), (409, &json!("INVALID_STATE")));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn permanently_rejected_message_does_not_block_others() {
    let daemon = start_with_ada(setup()).await;
    let endpoint = Endpoint::start(Reaction::Answer(200)).await;
    endpoint.set_reactions(&[Reaction::Answer(422)], Reaction::Answer(200));
    endpoint.register_for(&daemon, "ken", json!({})).await;
    for id in ["m1", "m2"] {
        send_ok(&daemon, &note(id, "t")).await;
    }
    wait_for_deliveries(&daemon, "acked", 1).await;
    let dead = wait_for_deliveries(&daemon, "dead", 1).await;
    assert_eq!((&dead[0]["message_id"], &dead[0]["attempts"]), (&json!("m1"), &json!(1)));
    assert_eq!(endpoint.ids(), ["m1", "m2"]);
}

#[tokio::test]
async fn message_with_lost_body_does_not_block_others() {
    let daemon = setup().start().unwrap();
    if daemon.store().is_some() {
        // In a database, artifacts are rows that this test could not damage.
        return;
    }
    for agent in ["ada", "ken"] {
        let announced = json!({"id": agent, "tool": "test", "role": "worker"});
        assert_eq!(daemon.post("/agents/announce", announced).await.unwrap().status, 201);
    }
    let mut large = note("m1", "t");
    large["payload"]["blob"] = json!("x".repeat(200_000));
    for message in [&large, &note("m2", "t")] {
        send_ok(&daemon, message).await;
    }
    let folder = daemon.root().join(".rookery/artifacts");
    let kept: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in kept.iter().filter(|file| file.is_file()) {
        std::fs::write(file, "something else").unwrap();
    }
    let endpoint = Endpoint::start(Reaction::Answer(200)).await;
    endpoint.register_for(&daemon, "ken", json!({})).await;
    let dead = wait_for_deliveries(&daemon, "dead", 1).await;
    assert_eq!((&dead[0]["message_id"], &dead[0]["attempts"]), (&json!("m1"), &json!(1)));
    let last_error = dead[0]["last_error"].as_str().unwrap();
    assert!(last_error.starts_with("its words cannot be read: ") && last_error.ends_with("is damaged"), "{last_error}");
    wait_for_deliveries(&daemon, "acked", 1).await;
    assert_eq!(endpoint.ids(), ["m2"], "other messages about the task are delivered");
}

#[tokio::test]
async fn daemon_crash_before_the_answer_repeats_the_delivery() {
    let mut daemon = start_with_ada(setup().env("ROOKERY_DELIVERY_TIMEOUT", "60s")).await;
    let endpoint = Endpoint::start(Reaction::Hang).await;
    endpoint.register_for(&daemon, "ken", json!({})).await;
    for id in ["m1", "m2"] {
        send_ok(&daemon, &note(id, "t")).await;
    }
    send_ok(&daemon, &note("m3", "u")).await;
    endpoint.wait_for(2).await;
    daemon.kill().unwrap();
    endpoint.set_reactions(&[], Reaction::Answer(200));
    daemon.restart().unwrap();
    wait_for_deliveries(&daemon, "acked", 3).await;
    let of = |task: &str| {
        let got = endpoint.received().into_iter().filter(|got| got.body["task_id"] == task);
        got.map(|got| got.id().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((of("t"), of("u")), (vec!["m1".into(), "m1".into(), "m2".into()], vec!["m3".into(), "m3".into()]));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn endpoint_that_is_down_is_paused_and_retried() {
    let daemon =
        start_with_ada(setup().env("ROOKERY_DELIVERY_ATTEMPTS", "1000").env("ROOKERY_DELIVERY_CIRCUIT_FAILURES", "3"))
            .await;
    let endpoint = Endpoint::start(Reaction::Answer(503)).await;
    endpoint.register_for(&daemon, "ken", json!({})).await;
    for number in 0..20 {
        send_ok(&daemon, &note(&format!("m{number:02}"), &format!("t{number:02}"))).await;
    }
    // At most one batch is posted before the circuit opens; then one message at a time tests the endpoint.
    let got = endpoint.wait_for(6).await;
    let tries = |id: &str| got.iter().filter(|got| got.id() == id).count();
    let untried = (0..20).filter(|number| tries(&format!("m{number:02}")) == 0).count();
    assert!(untried >= 10, "{untried} of 20 were never tried: {:?}", endpoint.ids());
    assert_eq!(list_deliveries(&daemon, "?state=dead").await, Vec::<Value>::new());
    let notified = list_deliveries(&daemon, "?state=notified").await;
    assert!(notified.iter().all(|one| one["last_error"] == "it answered 503" && one["next_at"].is_string()));
    // Deliveries that were never tried wait for the endpoint too.
    let paused = || async {
        let pending = list_deliveries(&daemon, "?state=pending").await;
        let waits = |one: &&Value| one["endpoint_rests_until"].is_string() && one["next_at"].is_string();
        Ok(pending.iter().find(waits).cloned())
    };
    wait::eventually("a delivery to say that the endpoint is left alone", paused).await.unwrap();
    endpoint.set_reactions(&[], Reaction::Answer(200));
    let acked = wait_for_deliveries(&daemon, "acked", 20).await;
    assert!(acked.iter().all(|one| one["endpoint_rests_until"].is_null()), "{acked:?}");
}

#[tokio::test]
async fn local_endpoint_of_a_card_is_not_served_where_tokens_are_required() {
    let daemon = setup().env("ROOKERY_DELIVERY_ATTEMPTS", "1").arg("--require-token").start().unwrap();
    let key = daemon.person_key().unwrap();
    let endpoint = Endpoint::start(Reaction::Answer(200)).await;
    let as_person = |method: Method, path: &str, body: Value| {
        let request = daemon.request(method, path).bearer_auth(&key).json(&body);
        async move { read(request).await.unwrap() }
    };
    for (agent, url) in [("ken", endpoint.url()), ("eve", "http://169.254.169.254/latest")] {
        let card = json!({"v": "clutch/0.1", "agent_id": agent, "endpoints": {"clutch": {"url": url}}});
        assert_eq!(as_person(Method::PUT, &format!("/clutch/v0/agents/{agent}"), card).await.status, 200);
    }
    let message = envelope("m", "x.note", "person:local", json!({"to": to(&["ken", "eve"])}));
    let reply = as_person(Method::POST, "/clutch/v0/messages", message).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let find = || async {
        let reply = as_person(Method::GET, "/clutch/v0/deliveries?state=dead", json!({})).await;
        Ok(Some(reply.body).filter(|body| body["deliveries"].as_array().is_some_and(|dead| dead.len() == 2)))
    };
    let dead = wait::eventually("both to be given up on", find).await.unwrap();
    assert!(dead.to_string().contains("on this machine or in a private network"), "{dead}");
    assert_eq!(endpoint.received(), []);
}
