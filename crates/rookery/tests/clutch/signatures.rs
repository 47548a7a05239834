//! Signatures end to end: valid ones are accepted; others are rejected with code and pointer, and leave only a record
//! of the
//! attempt.

use reqwest::Method;
use rookery_core::clutch::SecretKey;
use rookery_testkit::daemon::{Daemon, read};
use serde_json::{Value, json};

use crate::sending::{
    count_incoming, envelope, event_kinds, post, post_rejected, rejection, rejection_of, rows, send_ok, setup,
};
use crate::team::rookery;

const SIG: &str = "/security/auth/sig";
const KID: &str = "/security/auth/kid";
const AUTH: &str = "/security/auth";

fn key(kid: &str, seed: u8) -> SecretKey {
    SecretKey::new(kid, [seed; 32])
}

fn signed(key: &SecretKey, mut envelope: Value) -> Value {
    key.sign(envelope.as_object_mut().unwrap());
    envelope
}

fn card(agent: &str, keys: &[&SecretKey]) -> Value {
    let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
    json!({"v": "clutch/0.1", "agent_id": format!("agent:{agent}"), "security": {"keys": keys}})
}

async fn put(daemon: &Daemon, agent: &str, card: &Value) -> (u16, Value) {
    let request = daemon.request(Method::PUT, &format!("/clutch/v0/agents/{agent}")).json(card);
    let reply = read(request).await.unwrap();
    (reply.status.as_u16(), reply.body)
}

/// A daemon with this policy, `ken` with a key and `ada` with another of the same name.
async fn daemon(policy: &str) -> Daemon {
    let daemon = setup().env("ROOKERY_SIGNATURES", policy).start().unwrap();
    assert_eq!(put(&daemon, "ken", &card("ken", &[&key("k1", 1)])).await.0, 200);
    assert_eq!(put(&daemon, "ada", &card("ada", &[&key("k1", 2)])).await.0, 200);
    daemon
}

/// The number of events, except records of rejected messages.
fn count_without_rejections(daemon: &Daemon) -> usize {
    event_kinds(daemon).iter().filter(|kind| *kind != "envelope.rejected").count()
}

#[tokio::test]
async fn valid_signature_is_accepted_and_any_other_is_rejected() {
    let daemon = daemon("sensitive").await;
    let ken = key("k1", 1);
    let said = |id: &str| envelope(id, "x.note", "agent:ken", json!({"payload": {"n": 1.50, "text": "ü"}}));
    let before = count_without_rejections(&daemon);
    send_ok(&daemon, &signed(&ken, said("m1"))).await;
    assert_eq!(rows(&daemon).last().unwrap()["fact"]["signed_by"], "k1");

    let stored = count_without_rejections(&daemon);
    assert_eq!(stored, before + 1);
    let mut tampered = signed(&ken, said("m2"));
    tampered["payload"]["n"] = json!(2);
    assert_eq!(post_rejected(&daemon, &tampered).await, rejection_of(403, "BAD_SIGNATURE", SIG));
    let mut renamed = signed(&ken, said("m2"));
    renamed["id"] = json!("m3");
    assert_eq!(post_rejected(&daemon, &renamed).await, rejection_of(403, "BAD_SIGNATURE", SIG));
    let mut garbled = signed(&ken, said("m2"));
    garbled["security"]["auth"]["sig"] = json!("AAAA");
    assert_eq!(post_rejected(&daemon, &garbled).await, rejection_of(403, "BAD_SIGNATURE", SIG));
    assert_eq!(
        post_rejected(&daemon, &signed(&key("k1", 9), said("m2"))).await,
        rejection_of(403, "BAD_SIGNATURE", SIG)
    );
    assert_eq!(
        post_rejected(&daemon, &signed(&key("k1", 2), said("m2"))).await,
        rejection_of(403, "BAD_SIGNATURE", SIG),
        "ada's"
    );
    assert_eq!(post_rejected(&daemon, &signed(&key("k9", 1), said("m2"))).await, rejection_of(403, "UNKNOWN_KEY", KID));
    let among = json!([signed(&ken, said("m4")), signed(&key("k9", 1), said("m5"))]);
    assert_eq!(post_rejected(&daemon, &among).await, rejection_of(403, "UNKNOWN_KEY", &format!("/1{KID}")));
    assert_eq!(count_without_rejections(&daemon), stored, "nothing was stored");
    for id in ["m2", "m3", "m4", "m5"] {
        assert_eq!(daemon.get(&format!("/clutch/v0/messages/{id}")).await.unwrap().status, 404, "{id}");
    }
    let rejections: Vec<Value> = rows(&daemon).into_iter().filter(|row| row["kind"] == "envelope.rejected").collect();
    let first =
        json!({"message": "m2", "type": "x.note", "from": "ken", "kid": "k1", "code": "BAD_SIGNATURE", "pointer": SIG});
    assert_eq!(rejections[0]["fact"], first);
    assert_eq!(rejections.len(), 3, "a few times, and no more by one sender");
    send_ok(&daemon, &said("m6")).await;
}

#[tokio::test]
async fn signature_policy_decides_which_messages_need_a_signature() {
    let prod = json!({"to": [{"agent_id": "mcp:ship"}], "security": {"policy": {"trust_level": "prod"}}});
    let update = json!({"payload": {"limits": {"max_concurrency": 3}}});
    for (policy, of_sensitive, of_all) in [("off", false, false), ("sensitive", true, false), ("all", true, true)] {
        let daemon = daemon(policy).await;
        let asked = envelope("ask", "task.request", "agent:ken", json!({}));
        let asked = if of_all { signed(&key("k1", 1), asked) } else { asked };
        send_ok(&daemon, &asked).await;
        let stored = count_incoming(&daemon);
        for (kind, more, demanded) in [
            ("agent.update", &update, of_sensitive),
            ("tool.call", &prod, of_sensitive),
            ("task.cancel", &json!({}), of_sensitive),
            ("x.note", &json!({}), of_all),
            ("agent.heartbeat", &json!({}), of_all),
        ] {
            let said = envelope(&format!("m-{kind}"), kind, "agent:ken", more.clone());
            if demanded {
                assert_eq!(
                    post_rejected(&daemon, &said).await,
                    rejection_of(403, "SIGNATURE_REQUIRED", AUTH),
                    "{policy} {kind}"
                );
                assert_eq!(count_incoming(&daemon), stored, "{policy} {kind}");
            } else {
                assert_eq!(post(&daemon, &said).await.status, 202, "{policy} {kind}");
            }
        }
        if of_all {
            for from in ["agent:bob", "agent:stranger"] {
                let said = envelope("m", "x.note", from, json!({}));
                assert_eq!(
                    post_rejected(&daemon, &said).await,
                    rejection_of(403, "SIGNATURE_REQUIRED", AUTH),
                    "{from}"
                );
                let signed_by_ken = signed(&key("k1", 1), said);
                assert_eq!(
                    post_rejected(&daemon, &signed_by_ken).await,
                    rejection_of(403, "UNKNOWN_KEY", KID),
                    "{from}"
                );
            }
            let beat = signed(&key("k1", 1), envelope("beat", "agent.heartbeat", "agent:ken", json!({})));
            assert_eq!(send_ok(&daemon, &beat).await["seq"], Value::Null);
        }
        if policy == "off" {
            let wrong = signed(&key("k9", 9), envelope("m", "x.note", "agent:ken", json!({})));
            send_ok(&daemon, &wrong).await;
        }
    }
}

#[tokio::test]
async fn agent_without_keys_need_not_sign_and_new_agent_brings_its_keys() {
    let daemon = daemon("sensitive").await;
    let bob = key("b1", 5);
    let unchecked = signed(&bob, envelope("m0", "x.note", "agent:bob", json!({})));
    send_ok(&daemon, &unchecked).await;
    let register = |id: &str| envelope(id, "agent.register", "agent:bob", json!({"payload": card("bob", &[&bob])}));
    let by_another = signed(&key("b2", 5), register("m1"));
    assert_eq!(post_rejected(&daemon, &by_another).await, rejection_of(403, "UNKNOWN_KEY", KID));
    let forged = signed(&key("b1", 6), register("m1"));
    assert_eq!(post_rejected(&daemon, &forged).await, rejection_of(403, "BAD_SIGNATURE", SIG));
    let first = signed(&key("c1", 7), envelope("n1", "x.note", "agent:cat", json!({})));
    let cat = signed(
        &key("c1", 7),
        envelope("n0", "agent.register", "agent:cat", json!({"payload": card("cat", &[&key("c1", 7)])})),
    );
    let reply = post(&daemon, &json!([signed(&bob, register("m1")), cat, first])).await;
    assert_eq!(reply.status, 202, "a key counts from its registration on: {}", reply.body);
    assert_eq!(post_rejected(&daemon, &register("m2")).await, rejection_of(403, "SIGNATURE_REQUIRED", AUTH));
}

#[tokio::test]
async fn key_rotation_needs_a_current_key_or_a_person() {
    let daemon = daemon("sensitive").await;
    let (old, new) = (key("k1", 1), key("k2", 3));
    let change = |id: &str, keys: &[&SecretKey]| {
        let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
        envelope(id, "agent.update", "agent:ken", json!({"payload": {"security": {"keys": keys}}}))
    };
    assert_eq!(post_rejected(&daemon, &change("m1", &[&new])).await, rejection_of(403, "SIGNATURE_REQUIRED", AUTH));
    assert_eq!(
        post_rejected(&daemon, &signed(&new, change("m1", &[&new]))).await,
        rejection_of(403, "UNKNOWN_KEY", KID)
    );
    let (status, body) = put(&daemon, "ken", &card("ken", &[&new])).await;
    assert_eq!((status, &body["code"]), (403, &json!("SIGNATURE_REQUIRED")), "{body}");
    let mut moved = card("ken", &[&old]);
    moved["endpoints"] = json!({"clutch": {"url": "http://thief/"}});
    assert_eq!(put(&daemon, "ken", &moved).await.0, 403, "nor is anything else of the card changed by word");
    assert_eq!(put(&daemon, "ken", &card("ken", &[&old])).await.0, 200, "the same card is no change");

    send_ok(&daemon, &signed(&old, change("m1", &[&old, &new]))).await;
    send_ok(&daemon, &signed(&new, change("m2", &[&new]))).await;
    let late = signed(&old, envelope("m3", "x.note", "agent:ken", json!({})));
    assert_eq!(post_rejected(&daemon, &late).await, rejection_of(403, "UNKNOWN_KEY", KID));

    let person = daemon.person_key().unwrap();
    let request = daemon.request(Method::PUT, "/clutch/v0/agents/ken").bearer_auth(person).json(&card("ken", &[&old]));
    assert_eq!(read(request).await.unwrap().status, 200);
    send_ok(&daemon, &signed(&old, envelope("m4", "x.note", "agent:ken", json!({})))).await;
}

#[tokio::test]
async fn duplicate_envelope_gets_its_first_reply_after_key_rotation() {
    let daemon = setup().env("ROOKERY_SIGNATURES", "sensitive").start().unwrap();
    let (old, new) = (key("k1", 1), key("k2", 3));
    // A newcomer needs no signature; by the repeat it has keys, but the message is a known duplicate.
    let register = envelope("m1", "agent.register", "agent:ken", json!({"payload": card("ken", &[&old])}));
    let keys = json!({"payload": {"security": {"keys": [new.public()]}}});
    let rotate = signed(&old, envelope("m2", "agent.update", "agent:ken", keys));
    for message in [&register, &rotate] {
        let first = send_ok(&daemon, message).await;
        let again = json!({"id": first["id"], "seq": first["seq"], "duplicate": true});
        assert_eq!((&first["duplicate"], send_ok(&daemon, message).await), (&json!(false), again));
    }
    let stored = event_kinds(&daemon);
    let reply =
        post(&daemon, &json!([register, rotate, signed(&new, envelope("m3", "x.y", "agent:ken", json!({})))])).await;
    let duplicates: Vec<&Value> =
        reply.body["results"].as_array().unwrap().iter().map(|one| &one["duplicate"]).collect();
    assert_eq!(duplicates, [true, true, false], "{}", reply.body);

    // A message that differs in any field is judged as a new one, without revealing that another exists.
    let mut more = register.clone();
    more["payload"]["display"] = json!({"name": "Ken"});
    let mut later = register.clone();
    later["attempt"] = json!(2);
    let mut unsigned = rotate.clone();
    unsigned["security"].as_object_mut().unwrap().remove("auth");
    for message in [more, later, unsigned] {
        assert_eq!(post_rejected(&daemon, &message).await, rejection_of(403, "SIGNATURE_REQUIRED", AUTH));
    }
    let mut tampered = rotate.clone();
    tampered["payload"]["limits"] = json!({"max_concurrency": 9});
    assert_eq!(post_rejected(&daemon, &tampered).await, rejection_of(403, "UNKNOWN_KEY", KID));
    let other = signed(
        &new,
        envelope("m2", "agent.update", "agent:ken", json!({"payload": {"limits": {"max_concurrency": 2}}})),
    );
    assert_eq!(post_rejected(&daemon, &other).await, rejection_of(409, "ALREADY_EXISTS", "/id"));
    let now: Vec<String> = event_kinds(&daemon).into_iter().filter(|kind| kind != "envelope.rejected").collect();
    assert_eq!(now.len(), stored.len() + 1, "{now:?}");
}

#[tokio::test]
async fn repeated_forgeries_are_logged_a_limited_number_of_times() {
    let daemon = daemon("sensitive").await;
    let forged = |at: usize| signed(&key("k9", 9), envelope(&format!("m{at}"), "x.note", "agent:ken", json!({})));
    for at in 0..50 {
        assert_eq!(rejection(&post(&daemon, &forged(at)).await).1, "UNKNOWN_KEY");
    }
    let noted = event_kinds(&daemon).iter().filter(|kind| *kind == "envelope.rejected").count();
    assert_eq!(noted, 3);
    let shown = daemon.get("/clutch/v0/messages?type=envelope.rejected").await.unwrap().body;
    assert_eq!(shown["messages"][0]["message"]["from"]["agent_id"], "system");
    let by_ken = daemon.get("/clutch/v0/messages?agent_id=ken&type=envelope.rejected").await.unwrap().body;
    assert_eq!(by_ken["messages"], json!([]), "the record is not listed under the claimed sender");
}

#[tokio::test]
async fn envelope_command_creates_keys_signs_and_checks() {
    let daemon = daemon("all").await;
    let folder = daemon.root().to_owned();
    let run = |args: &[&str], input: &str| {
        let program = env!("CARGO_BIN_EXE_rookery");
        let output =
            assert_cmd::Command::new(program).current_dir(&folder).args(args).write_stdin(input).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, public, _) = run(&["envelope", "keygen", "--key", "zoe.key", "--kid", "z1"], "");
    assert_eq!(code, 0);
    let public: Value = serde_json::from_str(&public).unwrap();
    assert_eq!(run(&["envelope", "keygen", "--key", "zoe.key"], "").0, 1, "a key is not written over");
    let card = json!({"v": "clutch/0.1", "agent_id": "agent:zoe", "security": {"keys": [public]}});
    std::fs::write(folder.join("card.json"), card.to_string()).unwrap();
    let register = envelope("m1", "agent.register", "agent:zoe", json!({"payload": card}));
    let (code, line, error) = run(&["envelope", "sign", "--key", "zoe.key"], &register.to_string());
    assert_eq!(code, 0, "{error}");
    let signed: Value = serde_json::from_str(&line).unwrap();
    send_ok(&daemon, &signed).await;
    let (code, printed, error) = run(&["envelope", "check", "-", "--card", "card.json"], &line);
    assert_eq!((code, printed.trim()), (0, "it is right, signed by a key of the card"), "{error}");
    let mut changed = signed;
    changed["ts"] = json!("2027-01-01T00:00:00Z");
    let (code, _, error) = run(&["envelope", "check", "--card", "card.json"], &changed.to_string());
    assert!(code == 1 && error.contains("BAD_SIGNATURE at /security/auth/sig"), "{error}");
    let (code, printed, error) = run(&["envelope", "check"], r#"{"v": "clutch/9", "to": [], "payload": 1}"#);
    assert_eq!(code, 1, "{error}");
    for place in ["UNSUPPORTED_VERSION  /v", "MISSING_FIELD  /id", "INVALID_FIELD  /to", "WRONG_TYPE  /payload"] {
        assert!(printed.contains(place), "{place}: {printed}");
    }
    assert_eq!(run(&["envelope", "sign", "--key", "zoe.key"], r#"{"v": 1}"#).0, 1, "an invalid envelope is not signed");
}

#[tokio::test]
async fn keys_command_adds_a_key_to_an_agent() {
    let daemon = setup().start().unwrap();
    assert_eq!(put(&daemon, "ken", &card("ken", &[&key("k1", 1)])).await.0, 200);
    let run = |args: &[&str]| rookery(daemon.root(), daemon.store(), args);
    let create = |kid: &str, file: &str| run(&["keys", "create", "--agent", "ken", "--kid", kid, "--key", file]);
    let (code, stdout, stderr) = create("k2", "ken.key");
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with("ken can sign with k2 now: "), "{stdout}");

    let (_, listed, _) = run(&["keys", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<(&Value, &Value)> =
        listed.as_array().unwrap().iter().map(|held| (&held["agent"], &held["kid"])).collect();
    assert_eq!(names, [(&json!("ken"), &json!("k1")), (&json!("ken"), &json!("k2"))], "the one before stays");
    assert_eq!(put(&daemon, "ada", &card("ada", &[])).await.0, 200);
    assert_eq!(run(&["keys", "list", "--agent", "ada"]).2, "no agent has a key\n");

    // Its signatures are accepted, and the card cannot be changed without one.
    let update = envelope("u", "agent.update", "agent:ken", json!({"payload": {"display": {"name": "Ken"}}}));
    assert_eq!(post_rejected(&daemon, &update).await, rejection_of(403, "SIGNATURE_REQUIRED", AUTH));
    std::fs::write(daemon.root().join("update.json"), update.to_string()).unwrap();
    let (code, signed, stderr) = run(&["envelope", "sign", "--key", "ken.key", "update.json"]);
    assert_eq!(code, 0, "{stderr}");
    send_ok(&daemon, &serde_json::from_str(&signed).unwrap()).await;

    for (kid, file, expected_error) in [
        ("k2", "other.key", "has a key 'k2' already"),
        ("k3", "ken.key", "exists already"),
        ("a b", "x.key", "no name"),
    ] {
        let (code, stdout, stderr) = create(kid, file);
        assert!(code != 0 && stdout.is_empty() && stderr.contains(expected_error), "{kid} {file}: {stderr}");
    }
    let (code, _, stderr) = run(&["keys", "create", "--agent", "ghost", "--key", "ghost.key"]);
    assert!(code == 1 && stderr.contains("AGENT_NOT_FOUND"), "{stderr}");
    for file in ["other.key", "x.key", "ghost.key"] {
        assert!(!daemon.root().join(file).exists(), "{file} must not exist");
    }
}
