//! Outgoing webhooks to a real receiver: matching messages in log order, signed, at least once, under failures of the
//! receiver
//! and crashes of the daemon.

use reqwest::Method;
use rookery_engine::adapters::seal;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::endpoint::{Endpoint, Reaction, ReceivedRequest};
use crate::sending::{self, envelope, rows, send_ok};
use crate::team::{ok, rookery};

const SECRET: &str = "correct horse battery staple";

struct HookedDaemon {
    daemon: Daemon,
    _folder: TempDir,
}

fn start_with_hook(receiver: &Endpoint, table: &str) -> HookedDaemon {
    start_configured(sending::setup(), receiver, table)
}

/// A daemon with short retry backoffs and this configuration of its webhook `out`.
fn start_configured(setup: Setup, receiver: &Endpoint, table: &str) -> HookedDaemon {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[adapters.http.out]\nurl = \"{}\"\nsecret_env = \"TEST_SECRET\"\n{table}\n", receiver.url());
    std::fs::write(folder.path().join("rookery.toml"), config).unwrap();
    let setup = setup
        .env("TEST_SECRET", SECRET)
        .env("ROOKERY_DELIVERY_BACKOFF", "20ms")
        .env("ROOKERY_DELIVERY_CIRCUIT_FAILURES", "3")
        .env("ROOKERY_DELIVERY_TIMEOUT", "2s");
    HookedDaemon { daemon: setup.start_at(folder.path()).unwrap(), _folder: folder }
}

async fn note(daemon: &Daemon, number: usize) {
    let id = format!("m{number:03}");
    send_ok(daemon, &envelope(&id, "x.note", "ada", json!({"payload": {"n": number}}))).await;
}

/// The status of the webhook.
async fn hook_status(daemon: &Daemon) -> Value {
    let mut found = ok(daemon, "/endpoints").await["endpoints"].take();
    assert_eq!((&found[0]["name"], found.as_array().unwrap().len()), (&json!("http:out"), 1));
    found[0].take()
}

async fn wait_for_hook(daemon: &Daemon, goal: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let find = || async { Ok(Some(hook_status(daemon).await).filter(|out| holds(out))) };
    match wait::eventually(goal, find).await {
        Ok(found) => found,
        Err(error) => panic!("{error}: {}", hook_status(daemon).await),
    }
}

async fn post_as_person(daemon: &Daemon, path: &str) -> HttpReply {
    let key = daemon.person_key().unwrap();
    read(daemon.request(Method::POST, path).bearer_auth(key).json(&json!({}))).await.unwrap()
}

/// Message ids in the order of their first arrival.
fn first_arrivals(got: &[ReceivedRequest]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for request in got {
        if !seen.iter().any(|id| id == request.id()) {
            seen.push(request.id().to_owned());
        }
    }
    seen
}

fn notes(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("m{number:03}")).collect()
}

#[tokio::test]
async fn webhook_receives_matching_messages_in_order_and_signed() {
    let receiver = Endpoint::start(Reaction::Answer(204)).await;
    let table = "types = [\"x.note\", \"chat.message\"]\nrun_id = \"run:run_work\"\nagent_id = \"agent:ada\"";
    let HookedDaemon { daemon, _folder } = start_with_hook(&receiver, table);
    for number in 0..5 {
        note(&daemon, number).await;
        send_ok(&daemon, &envelope(&format!("o{number}"), "x.other", "ada", json!({}))).await;
        send_ok(&daemon, &envelope(&format!("e{number}"), "x.note", "eve", json!({}))).await;
        send_ok(&daemon, &envelope(&format!("r{number}"), "x.note", "ada", json!({"run_id": "run_else"}))).await;
    }
    send_ok(&daemon, &envelope("m005", "chat.message", "ada", json!({"payload": {"text": "done"}}))).await;
    let got = receiver.wait_for(6).await;
    assert_eq!(first_arrivals(&got), notes(0..6));
    let (first, bytes) = (&got[0], &got[0].bytes);
    let shown = ok(&daemon, "/messages/m000").await;
    assert_eq!(first.body, shown, "the form of every listing");
    let signature = first.header("x-rookery-signature").unwrap();
    let (time, sealed) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    assert_eq!(sealed, seal(SECRET.as_bytes(), time.parse().unwrap(), bytes), "{signature}");
    let place = rows(&daemon).into_iter().find(|row| row["fact"]["message"] == "m000").unwrap()["seq"].to_string();
    for (name, value) in
        [("hook", "out"), ("delivery", "m000@2026-02-01T13:20:11.123Z"), ("attempt", "1"), ("seq", &place)]
    {
        assert_eq!(first.header(&format!("x-rookery-{name}")), Some(value));
    }
    let settled = wait_for_hook(&daemon, "everything to be settled", |out| out["behind"] == 0).await;
    assert_eq!((&settled["state"], &settled["failing"], &settled["dead"]), (&json!("ok"), &json!(null), &json!([])));
    assert_eq!(receiver.received().len(), 6, "no other message arrived");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn webhook_body_has_its_configured_form() {
    let receiver = Endpoint::start(Reaction::Answer(200)).await;
    let table = "types = \"x.note\"\nfrom = \"start\"\nbody = { text = \"/payload/n\", id = \"/id\", kind = \"note\", no = \"/x\" }";
    // Messages from before the webhook was configured are sent too, by `from = "start"`.
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = sending::setup().env("TEST_SECRET", SECRET).start_at(folder.path()).unwrap();
    note(&daemon, 7).await;
    daemon.kill().unwrap();
    let config = format!("[adapters.http.out]\nurl = \"{}\"\nsecret_env = \"TEST_SECRET\"\n{table}\n", receiver.url());
    std::fs::write(folder.path().join("rookery.toml"), config).unwrap();
    daemon.restart().unwrap();
    assert_eq!(receiver.wait_for(1).await[0].body, json!({"text": 7, "id": "m007", "kind": "note"}));
}

#[tokio::test]
async fn failing_webhook_receives_all_messages_in_order_even_after_a_crash() {
    let receiver = Endpoint::start(Reaction::Answer(200)).await;
    let bad = [Reaction::Answer(503), Reaction::Cut, Reaction::Hang, Reaction::Answer(429), Reaction::Redirect];
    let HookedDaemon { mut daemon, _folder } = start_with_hook(&receiver, "types = \"x.note\"\nattempts = 100000");
    for number in 0..40 {
        if number == 5 {
            receiver.set_reactions(&bad, Reaction::Answer(200));
        }
        note(&daemon, number).await;
    }
    receiver.wait_for(40 + bad.len()).await;
    assert_eq!(first_arrivals(&receiver.received()), notes(0..40));

    // The receiver is down during a restart, and the daemon restarts again while the backlog is sent.
    receiver.set_reactions(&[], Reaction::Answer(500));
    for number in 40..80 {
        note(&daemon, number).await;
    }
    let failing = wait_for_hook(&daemon, "it to fail", |out| out["failing"]["failures"].as_u64() >= Some(3)).await;
    assert_eq!((&failing["state"], &failing["failing"]["error"]), (&json!("failing"), &json!("it answered 500")));
    daemon.restart().unwrap();
    let failed_before =
        wait_for_hook(&daemon, "further failures", |out| out["failing"]["failures"].as_u64() >= Some(5)).await;
    assert_eq!(
        failed_before["failing"]["since"], failing["failing"]["since"],
        "the failure is remembered across a restart"
    );
    let warned = daemon.get("/admin/info").await.unwrap().body["warnings"].to_string();
    assert!(warned.contains("http:out did not get through") && warned.contains("rookery endpoints retry"), "{warned}");
    receiver.set_reactions(&[], Reaction::Answer(200));
    let some = || async { Ok(Some(()).filter(|()| first_arrivals(&receiver.received()).len() >= 50)) };
    wait::eventually("some of it to arrive", some).await.unwrap();
    daemon.restart().unwrap();
    let all = || async { Ok(Some(()).filter(|()| first_arrivals(&receiver.received()).len() >= 80)) };
    wait::eventually("all of it to arrive", all).await.unwrap();
    assert_eq!(first_arrivals(&receiver.received()), notes(0..80), "nothing is lost, and nothing overtakes another");
    wait_for_hook(&daemon, "the webhook to recover", |out| out["state"] == "ok" && out["behind"] == 0).await;

    // Settled messages are not sent again.
    let count = receiver.received().len();
    daemon.restart().unwrap();
    note(&daemon, 80).await;
    receiver.wait_for(count + 1).await;
    assert_eq!(receiver.received()[count].id(), "m080");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn rejected_webhook_message_is_a_dead_letter_to_retry_or_discard() {
    let receiver = Endpoint::start(Reaction::Answer(200)).await;
    let HookedDaemon { daemon, _folder } = start_with_hook(&receiver, "types = \"x.note\"\nattempts = 2");
    // The first message is rejected permanently, the second fails in all its attempts.
    receiver
        .set_reactions(&[Reaction::Answer(422), Reaction::Answer(500), Reaction::Answer(500)], Reaction::Answer(200));
    for number in 0..3 {
        note(&daemon, number).await;
    }
    receiver.wait_for(4).await;
    let got = wait_for_hook(&daemon, "two to be put aside", |out| out["dead"].as_array().unwrap().len() == 2).await;
    let dead_letter =
        |at: usize| (got["dead"][at]["attempts"].as_u64().unwrap(), got["dead"][at]["error"].as_str().unwrap());
    assert_eq!((dead_letter(0), dead_letter(1)), ((1, "it answered 422"), (2, "it answered 500")));
    assert_eq!(receiver.ids(), ["m000", "m001", "m001", "m002"]);
    let (code, listed, error) = rookery(daemon.root(), daemon.store(), &["endpoints"]);
    assert_eq!(code, 0, "{error}");
    assert!(listed.contains("http:out") && listed.contains("it answered 422"), "{listed}");
    let (_, doctor, _) = rookery(daemon.root(), daemon.store(), &["doctor"]);
    assert!(doctor.contains("has put aside messages that it could not pass on: 2"), "{doctor}");

    let asked = daemon.post("/clutch/v0/endpoints/http:out/retry", json!({})).await.unwrap();
    assert_eq!((asked.status.as_u16(), &asked.body["code"]), (403, &json!("FORBIDDEN")), "only by a person");
    let unknown = post_as_person(&daemon, "/clutch/v0/endpoints/http:in/retry").await;
    assert_eq!((unknown.status.as_u16(), &unknown.body["code"]), (404, &json!("ADAPTER_NOT_FOUND")));
    receiver.set_reactions(&[Reaction::Answer(422), Reaction::Answer(200)], Reaction::Answer(200));
    let (code, _, error) = rookery(daemon.root(), daemon.store(), &["endpoints", "retry", "http:out"]);
    assert_eq!(code, 0, "{error}");
    let left = wait_for_hook(&daemon, "one to get through", |out| out["dead"].as_array().unwrap().len() == 1).await;
    assert_eq!((&left["dead"][0]["attempts"], &left["dead"][0]["again"]), (&json!(2), &json!(false)));
    assert_eq!(receiver.ids()[4..], ["m000", "m001"]);
    let (code, _, error) = rookery(daemon.root(), daemon.store(), &["endpoints", "discard", "http:out"]);
    assert_eq!(code, 0, "{error}");
    note(&daemon, 3).await;
    receiver.wait_for(7).await;
    let settled = wait_for_hook(&daemon, "everything to be settled", |out| out["behind"] == 0).await;
    assert_eq!((&settled["dead"], &settled["state"]), (&json!([]), &json!("ok")));
    let of_kind = |kind: &str| rows(&daemon).into_iter().filter(|row| row["kind"] == kind).collect::<Vec<Value>>();
    assert_eq!(of_kind("envelope.received").len(), 4, "every envelope is in the log");
    // The discarded messages are logged with the person.
    let [dropped] = &of_kind("adapter.dropped")[..] else { panic!("one event") };
    assert!(dropped["actor"].as_str().unwrap().starts_with("person:"), "{dropped}");
    let dead_letters = json!([{"seq": left["dead"][0]["seq"], "attempts": 2, "error": "it answered 422"}]);
    assert_eq!((&dropped["fact"]["adapter"], &dropped["fact"]["letters"]), (&json!("http:out"), &dead_letters));
    let (code, _, error) = rookery(daemon.root(), daemon.store(), &["endpoints", "discard", "http:out"]);
    assert_eq!((code, of_kind("adapter.dropped").len()), (0, 1), "nothing is left to let go of: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_delivery_resumes_on_another_node() {
    let (schema, receiver) = (Schema::new().unwrap(), Endpoint::start(Reaction::Answer(200)).await);
    let node = || start_configured(sending::setup().store(schema.url()), &receiver, "types = \"x.note\"");
    let (mut first, second) = (node(), node());
    for number in 0..20 {
        note(if number % 2 == 0 { &first.daemon } else { &second.daemon }, number).await;
    }
    receiver.wait_for(20).await;
    let settled = |out: &Value| out["state"] == "ok" && out["behind"] == 0;
    wait_for_hook(&second.daemon, "the other node to see the positions", settled).await;
    assert_eq!(receiver.ids(), notes(0..20), "each was sent by one of them");
    // The sending node is killed during a post.
    receiver.set_reactions(&[Reaction::Hang], Reaction::Answer(200));
    note(&second.daemon, 20).await;
    receiver.wait_for(21).await;
    first.daemon.kill().unwrap();
    for number in 21..30 {
        note(&second.daemon, number).await;
    }
    receiver.wait_for(31).await;
    assert_eq!(first_arrivals(&receiver.received()), notes(0..30));
    let again = post_as_person(&second.daemon, "/clutch/v0/endpoints/http:out/retry").await;
    assert_eq!((again.status.as_u16(), &again.body["dead"]), (200, &json!([])));
    wait_for_hook(&second.daemon, "everything to be settled", settled).await;
}

#[tokio::test]
async fn required_tokens_permit_configured_webhooks_and_not_card_endpoints() {
    let (receiver, agents) =
        (Endpoint::start(Reaction::Answer(200)).await, Endpoint::start(Reaction::Answer(200)).await);
    let setup = sending::setup().arg("--require-token");
    let HookedDaemon { daemon, _folder } = start_configured(setup, &receiver, "types = \"x.note\"\n");
    let person = daemon.person_key().unwrap();
    let card = json!({"v": "clutch/0.1", "agent_id": "ken", "endpoints": {"clutch": {"url": agents.url()}}});
    let put = daemon.request(Method::PUT, "/clutch/v0/agents/ken").bearer_auth(&person).json(&card);
    assert_eq!(read(put).await.unwrap().status, 200);
    let note = envelope("m1", "x.note", "person:local", json!({"to": [{"agent_id": "agent:ken"}]}));
    let post = daemon.request(Method::POST, "/clutch/v0/messages").bearer_auth(&person).json(&note);
    let reply = read(post).await.unwrap();
    assert_eq!(reply.status, 202, "{}", reply.body);
    assert_eq!(receiver.wait_for(1).await[0].id(), "m1", "the configured address is trusted");
    let rejected = || async {
        let list = daemon.request(Method::GET, "/clutch/v0/deliveries").bearer_auth(&person);
        let last_error = read(list).await?.body["deliveries"][0]["last_error"].as_str().unwrap_or_default().to_owned();
        Ok(Some(last_error).filter(|last_error| !last_error.is_empty()))
    };
    let last_error = wait::eventually("the delivery to be refused", rejected).await.unwrap();
    assert!(
        last_error.contains("on this machine or in a private network: name the host under [outbound] allow"),
        "{last_error}"
    );
    assert_eq!(agents.ids(), [""; 0]);
}

#[tokio::test]
async fn agents_add_allows_the_host_and_port_where_tokens_are_required() {
    let (allowed, listed) =
        (Endpoint::start(Reaction::Answer(200)).await, Endpoint::start(Reaction::Answer(200)).await);
    let folder = tempfile::tempdir().unwrap();
    let authority = listed.url().split('/').nth(2).unwrap().to_owned();
    std::fs::write(folder.path().join("rookery.toml"), format!("[outbound]\nallow = [\"{authority}\"]\n")).unwrap();
    let mut daemon = sending::setup().arg("--require-token").start_at(folder.path()).unwrap();
    let add = ["agents", "add", "ken", "--url", allowed.url(), "--capability", "research", "--json"];
    let (code, printed, error) = rookery(daemon.root(), daemon.store(), &add);
    assert_eq!(code, 0, "{error}");
    let card: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&card["agent_id"], &card["capabilities"][0]["id"]), (&json!("agent:ken"), &json!("skill:research")));
    let person = daemon.person_key().unwrap();
    let card = json!({"v": "clutch/0.1", "agent_id": "ada", "endpoints": {"clutch": {"url": listed.url()}}});
    let put = daemon.request(Method::PUT, "/clutch/v0/agents/ada").bearer_auth(&person).json(&card);
    assert_eq!(read(put).await.unwrap().status, 200);
    daemon.restart().unwrap();
    let to = json!({"to": [{"agent_id": "agent:ken"}, {"agent_id": "agent:ada"}]});
    let note = envelope("m1", "x.note", "person:local", to);
    let post = daemon.request(Method::POST, "/clutch/v0/messages").bearer_auth(&person).json(&note);
    assert_eq!(read(post).await.unwrap().status, 202);
    assert_eq!((allowed.wait_for(1).await[0].id(), listed.wait_for(1).await[0].id()), ("m1", "m1"));
    let by_person =
        |row: &Value| row["kind"] == "agent.registered" && row["actor"].to_string().contains("person:local");
    assert!(daemon.export().unwrap().iter().any(by_person), "the person is the author of the registration");
    let (code, _, error) = rookery(daemon.root(), daemon.store(), &["agents", "add", "eve", "--url", "ftp://x"]);
    assert!(code != 0 && error.contains("must be an http or https address"), "{error}");
}
