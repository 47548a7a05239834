//! Webhooks that go out, to a real receiver: what it wants, in the order of the log, signed, at least once, however the
//! receiver behaves and whenever the daemon dies.

use reqwest::Method;
use rookery_engine::adapters::seal;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::endpoint::{Endpoint, Got, Manner};
use crate::sending::{self, envelope, rows, sent};
use crate::team::{ok, rookery};

const SECRET: &str = "correct horse battery staple";

struct Hooked {
    daemon: Daemon,
    _folder: TempDir,
}

fn hooked(receiver: &Endpoint, table: &str) -> Hooked {
    started(sending::setup(), receiver, table)
}

/// A daemon that is quick to try again, with this table for its hook `out`.
fn started(setup: Setup, receiver: &Endpoint, table: &str) -> Hooked {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[adapters.http.out]\nurl = \"{}\"\nsecret_env = \"TEST_SECRET\"\n{table}\n", receiver.url());
    std::fs::write(folder.path().join("rookery.toml"), config).unwrap();
    let setup = setup
        .env("TEST_SECRET", SECRET)
        .env("ROOKERY_DELIVERY_BACKOFF", "20ms")
        .env("ROOKERY_DELIVERY_CIRCUIT_FAILURES", "3")
        .env("ROOKERY_DELIVERY_TIMEOUT", "2s");
    Hooked { daemon: setup.start_at(folder.path()).unwrap(), _folder: folder }
}

async fn note(daemon: &Daemon, number: usize) {
    let id = format!("m{number:03}");
    sent(daemon, &envelope(&id, "x.note", "ada", json!({"payload": {"n": number}}))).await;
}

/// How the hook does.
async fn out(daemon: &Daemon) -> Value {
    let mut found = ok(daemon, "/endpoints").await["endpoints"].take();
    assert_eq!((&found[0]["name"], found.as_array().unwrap().len()), (&json!("http:out"), 1));
    found[0].take()
}

async fn until(daemon: &Daemon, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let find = || async { Ok(Some(out(daemon).await).filter(|out| holds(out))) };
    match wait::eventually(what, find).await {
        Ok(found) => found,
        Err(error) => panic!("{error}: {}", out(daemon).await),
    }
}

async fn by_a_person(daemon: &Daemon, path: &str) -> HttpReply {
    let key = daemon.person_key().unwrap();
    read(daemon.request(Method::POST, path).bearer_auth(key).json(&json!({}))).await.unwrap()
}

/// The messages in the order in which they were taken first.
fn once(got: &[Got]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for got in got {
        if !seen.iter().any(|id| id == got.id()) {
            seen.push(got.id().to_owned());
        }
    }
    seen
}

fn notes(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("m{number:03}")).collect()
}

#[tokio::test]
async fn it_gets_what_it_wants_in_order_and_can_tell_who_sends() {
    let receiver = Endpoint::start(Manner::Answer(204)).await;
    let table = "types = [\"x.note\", \"chat.message\"]\nrun_id = \"run:run_work\"\nagent_id = \"agent:ada\"";
    let Hooked { daemon, _folder } = hooked(&receiver, table);
    for number in 0..5 {
        note(&daemon, number).await;
        sent(&daemon, &envelope(&format!("o{number}"), "x.other", "ada", json!({}))).await;
        sent(&daemon, &envelope(&format!("e{number}"), "x.note", "eve", json!({}))).await;
        sent(&daemon, &envelope(&format!("r{number}"), "x.note", "ada", json!({"run_id": "run_else"}))).await;
    }
    sent(&daemon, &envelope("m005", "chat.message", "ada", json!({"payload": {"text": "done"}}))).await;
    let got = receiver.has(6).await;
    assert_eq!(once(&got), notes(0..6));
    let (first, bytes) = (&got[0], &got[0].bytes);
    let shown = ok(&daemon, "/messages/m000").await;
    assert_eq!(first.body, shown, "as it is shown everywhere");
    let signature = first.header("x-rookery-signature").unwrap();
    let (time, sealed) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    assert_eq!(sealed, seal(SECRET.as_bytes(), time.parse().unwrap(), bytes), "{signature}");
    let place = rows(&daemon).into_iter().find(|row| row["fact"]["message"] == "m000").unwrap()["seq"].to_string();
    for (name, value) in
        [("hook", "out"), ("delivery", "m000@2026-02-01T13:20:11.123Z"), ("attempt", "1"), ("seq", &place)]
    {
        assert_eq!(first.header(&format!("x-rookery-{name}")), Some(value));
    }
    let settled = until(&daemon, "everything to be settled", |out| out["behind"] == 0).await;
    assert_eq!((&settled["state"], &settled["failing"], &settled["dead"]), (&json!("ok"), &json!(null), &json!([])));
    assert_eq!(receiver.got().len(), 6, "and nothing else came");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn a_body_has_the_form_that_is_configured_and_could_come_in_elsewhere() {
    let receiver = Endpoint::start(Manner::Answer(200)).await;
    let table = "types = \"x.note\"\nfrom = \"start\"\nbody = { text = \"/payload/n\", id = \"/id\", kind = \"note\", no = \"/x\" }";
    // What was said before there was a hook is sent too: it asks for that.
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = sending::setup().env("TEST_SECRET", SECRET).start_at(folder.path()).unwrap();
    note(&daemon, 7).await;
    daemon.kill().unwrap();
    let config = format!("[adapters.http.out]\nurl = \"{}\"\nsecret_env = \"TEST_SECRET\"\n{table}\n", receiver.url());
    std::fs::write(folder.path().join("rookery.toml"), config).unwrap();
    daemon.restart().unwrap();
    assert_eq!(receiver.has(1).await[0].body, json!({"text": 7, "id": "m007", "kind": "note"}));
}

#[tokio::test]
async fn a_receiver_that_fails_hangs_or_cuts_gets_everything_in_order_also_after_a_crash() {
    let receiver = Endpoint::start(Manner::Answer(200)).await;
    let bad = [Manner::Answer(503), Manner::Cut, Manner::Hang, Manner::Answer(429), Manner::Redirect];
    let Hooked { mut daemon, _folder } = hooked(&receiver, "types = \"x.note\"\nattempts = 100000");
    for number in 0..40 {
        if number == 5 {
            receiver.does(&bad, Manner::Answer(200));
        }
        note(&daemon, number).await;
    }
    receiver.has(40 + bad.len()).await;
    assert_eq!(once(&receiver.got()), notes(0..40));

    // It is down, and the daemon dies before it is back; then again in the middle of what waited.
    receiver.does(&[], Manner::Answer(500));
    for number in 40..80 {
        note(&daemon, number).await;
    }
    let failing = until(&daemon, "it to fail", |out| out["failing"]["failures"].as_u64() >= Some(3)).await;
    assert_eq!((&failing["state"], &failing["failing"]["error"]), (&json!("failing"), &json!("it answered 500")));
    daemon.restart().unwrap();
    let failed_before = until(&daemon, "it to fail on", |out| out["failing"]["failures"].as_u64() >= Some(5)).await;
    assert_eq!(failed_before["failing"]["since"], failing["failing"]["since"], "it is known after a restart");
    let warned = daemon.get("/admin/info").await.unwrap().body["warnings"].to_string();
    assert!(warned.contains("http:out did not get through") && warned.contains("rookery endpoints retry"), "{warned}");
    receiver.does(&[], Manner::Answer(200));
    let some = || async { Ok(Some(()).filter(|()| once(&receiver.got()).len() >= 50)) };
    wait::eventually("some of it to arrive", some).await.unwrap();
    daemon.restart().unwrap();
    let all = || async { Ok(Some(()).filter(|()| once(&receiver.got()).len() >= 80)) };
    wait::eventually("all of it to arrive", all).await.unwrap();
    assert_eq!(once(&receiver.got()), notes(0..80), "nothing is lost, and nothing overtakes another");
    until(&daemon, "it to be well again", |out| out["state"] == "ok" && out["behind"] == 0).await;

    // What was settled is not sent again.
    let count = receiver.got().len();
    daemon.restart().unwrap();
    note(&daemon, 80).await;
    receiver.has(count + 1).await;
    assert_eq!(receiver.got()[count].id(), "m080");
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn what_it_does_not_take_is_put_aside_and_can_be_tried_again_or_let_go() {
    let receiver = Endpoint::start(Manner::Answer(200)).await;
    let Hooked { daemon, _folder } = hooked(&receiver, "types = \"x.note\"\nattempts = 2");
    // The first is refused for good, the second fails as often as it may.
    receiver.does(&[Manner::Answer(422), Manner::Answer(500), Manner::Answer(500)], Manner::Answer(200));
    for number in 0..3 {
        note(&daemon, number).await;
    }
    receiver.has(4).await;
    let got = until(&daemon, "two to be put aside", |out| out["dead"].as_array().unwrap().len() == 2).await;
    let told = |at: usize| (got["dead"][at]["attempts"].as_u64().unwrap(), got["dead"][at]["error"].as_str().unwrap());
    assert_eq!((told(0), told(1)), ((1, "it answered 422"), (2, "it answered 500")));
    assert_eq!(receiver.ids(), ["m000", "m001", "m001", "m002"]);
    let (code, listed, error) = rookery(daemon.root(), daemon.store(), &["endpoints"]);
    assert_eq!(code, 0, "{error}");
    assert!(listed.contains("http:out") && listed.contains("it answered 422"), "{listed}");
    let (_, doctor, _) = rookery(daemon.root(), daemon.store(), &["doctor"]);
    assert!(doctor.contains("has put aside messages that it could not pass on: 2"), "{doctor}");

    let asked = daemon.post("/clutch/v0/endpoints/http:out/retry", json!({})).await.unwrap();
    assert_eq!((asked.status.as_u16(), &asked.body["code"]), (403, &json!("FORBIDDEN")), "only by a person");
    let unknown = by_a_person(&daemon, "/clutch/v0/endpoints/http:in/retry").await;
    assert_eq!((unknown.status.as_u16(), &unknown.body["code"]), (404, &json!("ADAPTER_NOT_FOUND")));
    receiver.does(&[Manner::Answer(422), Manner::Answer(200)], Manner::Answer(200));
    let (code, _, error) = rookery(daemon.root(), daemon.store(), &["endpoints", "retry", "http:out"]);
    assert_eq!(code, 0, "{error}");
    let left = until(&daemon, "one to get through", |out| out["dead"].as_array().unwrap().len() == 1).await;
    assert_eq!((&left["dead"][0]["attempts"], &left["dead"][0]["again"]), (&json!(2), &json!(false)));
    assert_eq!(receiver.ids()[4..], ["m000", "m001"]);
    let (code, _, error) = rookery(daemon.root(), daemon.store(), &["endpoints", "discard", "http:out"]);
    assert_eq!(code, 0, "{error}");
    note(&daemon, 3).await;
    receiver.has(7).await;
    let settled = until(&daemon, "everything to be settled", |out| out["behind"] == 0).await;
    assert_eq!((&settled["dead"], &settled["state"]), (&json!([]), &json!("ok")));
    let of_kind = |kind: &str| rows(&daemon).into_iter().filter(|row| row["kind"] == kind).collect::<Vec<Value>>();
    assert_eq!(of_kind("envelope.received").len(), 4, "all of it is in the log");
    // So is that a person let go of what did not get through.
    let [dropped] = &of_kind("adapter.dropped")[..] else { panic!("it is told once") };
    assert!(dropped["actor"].as_str().unwrap().starts_with("person:"), "{dropped}");
    let letter = json!([{"seq": left["dead"][0]["seq"], "attempts": 2, "error": "it answered 422"}]);
    assert_eq!((&dropped["fact"]["adapter"], &dropped["fact"]["letters"]), (&json!("http:out"), &letter));
    let (code, _, error) = rookery(daemon.root(), daemon.store(), &["endpoints", "discard", "http:out"]);
    assert_eq!((code, of_kind("adapter.dropped").len()), (0, 1), "nothing is left to let go of: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_sends_and_another_goes_on_where_it_was() {
    let (schema, receiver) = (Schema::new().unwrap(), Endpoint::start(Manner::Answer(200)).await);
    let node = || started(sending::setup().store(schema.url()), &receiver, "types = \"x.note\"");
    let (mut first, second) = (node(), node());
    for number in 0..20 {
        note(if number % 2 == 0 { &first.daemon } else { &second.daemon }, number).await;
    }
    receiver.has(20).await;
    let settled = |out: &Value| out["state"] == "ok" && out["behind"] == 0;
    until(&second.daemon, "the other to know of it", settled).await;
    assert_eq!(receiver.ids(), notes(0..20), "each was sent by one of them");
    // It dies with one on its way.
    receiver.does(&[Manner::Hang], Manner::Answer(200));
    note(&second.daemon, 20).await;
    receiver.has(21).await;
    first.daemon.kill().unwrap();
    for number in 21..30 {
        note(&second.daemon, number).await;
    }
    receiver.has(31).await;
    assert_eq!(once(&receiver.got()), notes(0..30));
    let again = by_a_person(&second.daemon, "/clutch/v0/endpoints/http:out/retry").await;
    assert_eq!((again.status.as_u16(), &again.body["dead"]), (200, &json!([])));
    until(&second.daemon, "everything to be settled", settled).await;
}

#[tokio::test]
async fn with_tokens_the_owners_hooks_are_served_and_what_cards_name_is_not() {
    let (receiver, agents) = (Endpoint::start(Manner::Answer(200)).await, Endpoint::start(Manner::Answer(200)).await);
    let setup = sending::setup().arg("--require-token");
    let Hooked { daemon, _folder } = started(setup, &receiver, "types = \"x.note\"\n");
    let person = daemon.person_key().unwrap();
    let card = json!({"v": "clutch/0.1", "agent_id": "ken", "endpoints": {"clutch": {"url": agents.url()}}});
    let put = daemon.request(Method::PUT, "/clutch/v0/agents/ken").bearer_auth(&person).json(&card);
    assert_eq!(read(put).await.unwrap().status, 200);
    let note = envelope("m1", "x.note", "person:local", json!({"to": [{"agent_id": "agent:ken"}]}));
    let post = daemon.request(Method::POST, "/clutch/v0/messages").bearer_auth(&person).json(&note);
    let reply = read(post).await.unwrap();
    assert_eq!(reply.status, 202, "{}", reply.body);
    assert_eq!(receiver.has(1).await[0].id(), "m1", "its address is the owner's word");
    let refused = || async {
        let list = daemon.request(Method::GET, "/clutch/v0/deliveries").bearer_auth(&person);
        let told = read(list).await?.body["deliveries"][0]["last_error"].as_str().unwrap_or_default().to_owned();
        Ok(Some(told).filter(|told| !told.is_empty()))
    };
    let told = wait::eventually("the delivery to be refused", refused).await.unwrap();
    assert!(told.contains("on this machine or in a private network: name the host under [outbound] allow"), "{told}");
    assert_eq!(agents.ids(), [""; 0]);
}

#[tokio::test]
async fn agents_add_allows_the_host_and_port_where_tokens_are_required() {
    let (allowed, listed) = (Endpoint::start(Manner::Answer(200)).await, Endpoint::start(Manner::Answer(200)).await);
    let folder = tempfile::tempdir().unwrap();
    let authority = listed.url().split('/').nth(2).unwrap().to_owned();
    std::fs::write(folder.path().join("rookery.toml"), format!("[outbound]\nallow = [\"{authority}\"]\n")).unwrap();
    let mut daemon = sending::setup().arg("--require-token").start_at(folder.path()).unwrap();
    let add = ["agents", "add", "ken", "--url", allowed.url(), "--capability", "research", "--json"];
    let (code, said, error) = rookery(daemon.root(), daemon.store(), &add);
    assert_eq!(code, 0, "{error}");
    let card: Value = serde_json::from_str(&said).unwrap();
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
    assert_eq!((allowed.has(1).await[0].id(), listed.has(1).await[0].id()), ("m1", "m1"));
    let by_person =
        |row: &Value| row["kind"] == "agent.registered" && row["actor"].to_string().contains("person:local");
    assert!(daemon.export().unwrap().iter().any(by_person), "the person is the author of what is allowed");
    let (code, _, error) = rookery(daemon.root(), daemon.store(), &["agents", "add", "eve", "--url", "ftp://x"]);
    assert!(code != 0 && error.contains("must be an http or https address"), "{error}");
}
