//! Signatures end to end: what is signed rightly is taken, and whatever else is refused with its code and place, and leaves
//! nothing behind but that somebody tried.

use reqwest::Method;
use rookery_core::clutch::SecretKey;
use rookery_testkit::daemon::{Daemon, read};
use serde_json::{Value, json};

use crate::sending::{came_in, envelope, expected, kinds, post, refused, rows, sent, setup, told};
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

/// The facts but for the notes of what was refused.
fn kept(daemon: &Daemon) -> usize {
    kinds(daemon).iter().filter(|kind| *kind != "envelope.rejected").count()
}

#[tokio::test]
async fn what_is_signed_rightly_is_taken_and_everything_else_is_refused() {
    let daemon = daemon("sensitive").await;
    let ken = key("k1", 1);
    let said = |id: &str| envelope(id, "x.note", "agent:ken", json!({"payload": {"n": 1.50, "text": "ü"}}));
    let before = kept(&daemon);
    sent(&daemon, &signed(&ken, said("m1"))).await;
    assert_eq!(rows(&daemon).last().unwrap()["fact"]["signed_by"], "k1");

    let stored = kept(&daemon);
    assert_eq!(stored, before + 1);
    let mut tampered = signed(&ken, said("m2"));
    tampered["payload"]["n"] = json!(2);
    assert_eq!(refused(&daemon, &tampered).await, expected(403, "BAD_SIGNATURE", SIG));
    let mut renamed = signed(&ken, said("m2"));
    renamed["id"] = json!("m3");
    assert_eq!(refused(&daemon, &renamed).await, expected(403, "BAD_SIGNATURE", SIG));
    let mut garbled = signed(&ken, said("m2"));
    garbled["security"]["auth"]["sig"] = json!("AAAA");
    assert_eq!(refused(&daemon, &garbled).await, expected(403, "BAD_SIGNATURE", SIG));
    assert_eq!(refused(&daemon, &signed(&key("k1", 9), said("m2"))).await, expected(403, "BAD_SIGNATURE", SIG));
    assert_eq!(
        refused(&daemon, &signed(&key("k1", 2), said("m2"))).await,
        expected(403, "BAD_SIGNATURE", SIG),
        "ada's"
    );
    assert_eq!(refused(&daemon, &signed(&key("k9", 1), said("m2"))).await, expected(403, "UNKNOWN_KEY", KID));
    let among = json!([signed(&ken, said("m4")), signed(&key("k9", 1), said("m5"))]);
    assert_eq!(refused(&daemon, &among).await, expected(403, "UNKNOWN_KEY", &format!("/1{KID}")));
    assert_eq!(kept(&daemon), stored, "nothing was stored");
    for id in ["m2", "m3", "m4", "m5"] {
        assert_eq!(daemon.get(&format!("/clutch/v0/messages/{id}")).await.unwrap().status, 404, "{id}");
    }
    let noted: Vec<Value> = rows(&daemon).into_iter().filter(|row| row["kind"] == "envelope.rejected").collect();
    let first =
        json!({"message": "m2", "type": "x.note", "from": "ken", "kid": "k1", "code": "BAD_SIGNATURE", "pointer": SIG});
    assert_eq!(noted[0]["fact"], first);
    assert_eq!(noted.len(), 3, "a few times, and no more by one sender");
    sent(&daemon, &said("m6")).await;
}

#[tokio::test]
async fn each_policy_demands_what_it_says() {
    let prod = json!({"to": [{"agent_id": "mcp:ship"}], "security": {"policy": {"trust_level": "prod"}}});
    let update = json!({"payload": {"limits": {"max_concurrency": 3}}});
    for (policy, of_sensitive, of_all) in [("off", false, false), ("sensitive", true, false), ("all", true, true)] {
        let daemon = daemon(policy).await;
        let asked = envelope("ask", "task.request", "agent:ken", json!({}));
        let asked = if of_all { signed(&key("k1", 1), asked) } else { asked };
        sent(&daemon, &asked).await;
        let stored = came_in(&daemon);
        for (kind, more, demanded) in [
            ("agent.update", &update, of_sensitive),
            ("tool.call", &prod, of_sensitive),
            ("task.cancel", &json!({}), of_sensitive),
            ("x.note", &json!({}), of_all),
            ("agent.heartbeat", &json!({}), of_all),
        ] {
            let said = envelope(&format!("m-{kind}"), kind, "agent:ken", more.clone());
            if demanded {
                assert_eq!(refused(&daemon, &said).await, expected(403, "SIGNATURE_REQUIRED", AUTH), "{policy} {kind}");
                assert_eq!(came_in(&daemon), stored, "{policy} {kind}");
            } else {
                assert_eq!(post(&daemon, &said).await.status, 202, "{policy} {kind}");
            }
        }
        if of_all {
            for from in ["agent:bob", "agent:stranger"] {
                let said = envelope("m", "x.note", from, json!({}));
                assert_eq!(refused(&daemon, &said).await, expected(403, "SIGNATURE_REQUIRED", AUTH), "{from}");
                let vouched = signed(&key("k1", 1), said);
                assert_eq!(refused(&daemon, &vouched).await, expected(403, "UNKNOWN_KEY", KID), "{from}");
            }
            let beat = signed(&key("k1", 1), envelope("beat", "agent.heartbeat", "agent:ken", json!({})));
            assert_eq!(sent(&daemon, &beat).await["seq"], Value::Null);
        }
        if policy == "off" {
            let wrong = signed(&key("k9", 9), envelope("m", "x.note", "agent:ken", json!({})));
            sent(&daemon, &wrong).await;
        }
    }
}

#[tokio::test]
async fn who_has_no_keys_need_not_sign_and_whoever_is_new_brings_its_own() {
    let daemon = daemon("sensitive").await;
    let bob = key("b1", 5);
    let unchecked = signed(&bob, envelope("m0", "x.note", "agent:bob", json!({})));
    sent(&daemon, &unchecked).await;
    let register = |id: &str| envelope(id, "agent.register", "agent:bob", json!({"payload": card("bob", &[&bob])}));
    let by_another = signed(&key("b2", 5), register("m1"));
    assert_eq!(refused(&daemon, &by_another).await, expected(403, "UNKNOWN_KEY", KID));
    let forged = signed(&key("b1", 6), register("m1"));
    assert_eq!(refused(&daemon, &forged).await, expected(403, "BAD_SIGNATURE", SIG));
    let first = signed(&key("c1", 7), envelope("n1", "x.note", "agent:cat", json!({})));
    let cat = signed(
        &key("c1", 7),
        envelope("n0", "agent.register", "agent:cat", json!({"payload": card("cat", &[&key("c1", 7)])})),
    );
    let reply = post(&daemon, &json!([signed(&bob, register("m1")), cat, first])).await;
    assert_eq!(reply.status, 202, "a key vouches from when it is known: {}", reply.body);
    assert_eq!(refused(&daemon, &register("m2")).await, expected(403, "SIGNATURE_REQUIRED", AUTH));
}

#[tokio::test]
async fn keys_are_rotated_by_one_of_them_or_by_a_person() {
    let daemon = daemon("sensitive").await;
    let (old, new) = (key("k1", 1), key("k2", 3));
    let change = |id: &str, keys: &[&SecretKey]| {
        let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
        envelope(id, "agent.update", "agent:ken", json!({"payload": {"security": {"keys": keys}}}))
    };
    assert_eq!(refused(&daemon, &change("m1", &[&new])).await, expected(403, "SIGNATURE_REQUIRED", AUTH));
    assert_eq!(refused(&daemon, &signed(&new, change("m1", &[&new]))).await, expected(403, "UNKNOWN_KEY", KID));
    let (status, told) = put(&daemon, "ken", &card("ken", &[&new])).await;
    assert_eq!((status, &told["code"]), (403, &json!("SIGNATURE_REQUIRED")), "{told}");
    let mut moved = card("ken", &[&old]);
    moved["endpoints"] = json!({"clutch": {"url": "http://thief/"}});
    assert_eq!(put(&daemon, "ken", &moved).await.0, 403, "nor is anything else of the card changed by word");
    assert_eq!(put(&daemon, "ken", &card("ken", &[&old])).await.0, 200, "the same card is no change");

    sent(&daemon, &signed(&old, change("m1", &[&old, &new]))).await;
    sent(&daemon, &signed(&new, change("m2", &[&new]))).await;
    let late = signed(&old, envelope("m3", "x.note", "agent:ken", json!({})));
    assert_eq!(refused(&daemon, &late).await, expected(403, "UNKNOWN_KEY", KID));

    let person = daemon.person_key().unwrap();
    let request = daemon.request(Method::PUT, "/clutch/v0/agents/ken").bearer_auth(person).json(&card("ken", &[&old]));
    assert_eq!(read(request).await.unwrap().status, 200);
    sent(&daemon, &signed(&old, envelope("m4", "x.note", "agent:ken", json!({})))).await;
}

#[tokio::test]
async fn what_came_in_before_is_answered_as_it_was_whatever_became_of_the_keys() {
    let daemon = setup().env("ROOKERY_SIGNATURES", "sensitive").start().unwrap();
    let (old, new) = (key("k1", 1), key("k2", 3));
    // Nobody asks a newcomer to sign; by its second try it has keys, and is asked.
    let register = envelope("m1", "agent.register", "agent:ken", json!({"payload": card("ken", &[&old])}));
    let keys = json!({"payload": {"security": {"keys": [new.public()]}}});
    let rotate = signed(&old, envelope("m2", "agent.update", "agent:ken", keys));
    for message in [&register, &rotate] {
        let first = sent(&daemon, message).await;
        let again = json!({"id": first["id"], "seq": first["seq"], "duplicate": true});
        assert_eq!((&first["duplicate"], sent(&daemon, message).await), (&json!(false), again));
    }
    let stored = kinds(&daemon);
    let told =
        post(&daemon, &json!([register, rotate, signed(&new, envelope("m3", "x.y", "agent:ken", json!({})))])).await;
    let duplicates: Vec<&Value> =
        told.body["results"].as_array().unwrap().iter().map(|one| &one["duplicate"]).collect();
    assert_eq!(duplicates, [true, true, false], "{}", told.body);

    // What differs in anything is judged, and nobody learns whether there was another.
    let mut more = register.clone();
    more["payload"]["display"] = json!({"name": "Ken"});
    let mut later = register.clone();
    later["attempt"] = json!(2);
    let mut unsigned = rotate.clone();
    unsigned["security"].as_object_mut().unwrap().remove("auth");
    for message in [more, later, unsigned] {
        assert_eq!(refused(&daemon, &message).await, expected(403, "SIGNATURE_REQUIRED", AUTH));
    }
    let mut tampered = rotate.clone();
    tampered["payload"]["limits"] = json!({"max_concurrency": 9});
    assert_eq!(refused(&daemon, &tampered).await, expected(403, "UNKNOWN_KEY", KID));
    let other = signed(
        &new,
        envelope("m2", "agent.update", "agent:ken", json!({"payload": {"limits": {"max_concurrency": 2}}})),
    );
    assert_eq!(refused(&daemon, &other).await, expected(409, "ALREADY_EXISTS", "/id"));
    let now: Vec<String> = kinds(&daemon).into_iter().filter(|kind| kind != "envelope.rejected").collect();
    assert_eq!(now.len(), stored.len() + 1, "{now:?}");
}

#[tokio::test]
async fn a_flood_of_forgeries_does_not_fill_the_log() {
    let daemon = daemon("sensitive").await;
    let forged = |at: usize| signed(&key("k9", 9), envelope(&format!("m{at}"), "x.note", "agent:ken", json!({})));
    for at in 0..50 {
        assert_eq!(told(&post(&daemon, &forged(at)).await).1, "UNKNOWN_KEY");
    }
    let noted = kinds(&daemon).iter().filter(|kind| *kind == "envelope.rejected").count();
    assert_eq!(noted, 3);
    let shown = daemon.get("/clutch/v0/messages?type=envelope.rejected").await.unwrap().body;
    assert_eq!(shown["messages"][0]["message"]["from"]["agent_id"], "system");
    let by_ken = daemon.get("/clutch/v0/messages?agent_id=ken&type=envelope.rejected").await.unwrap().body;
    assert_eq!(by_ken["messages"], json!([]), "it is not from whom it said");
}

#[tokio::test]
async fn the_command_line_makes_keys_and_signs_and_checks() {
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
    sent(&daemon, &signed).await;
    let (code, told, error) = run(&["envelope", "check", "-", "--card", "card.json"], &line);
    assert_eq!((code, told.trim()), (0, "it is right, signed by a key of the card"), "{error}");
    let mut changed = signed;
    changed["ts"] = json!("2027-01-01T00:00:00Z");
    let (code, _, error) = run(&["envelope", "check", "--card", "card.json"], &changed.to_string());
    assert!(code == 1 && error.contains("BAD_SIGNATURE at /security/auth/sig"), "{error}");
    let (code, told, error) = run(&["envelope", "check"], r#"{"v": "clutch/9", "to": [], "payload": 1}"#);
    assert_eq!(code, 1, "{error}");
    for place in ["UNSUPPORTED_VERSION  /v", "MISSING_FIELD  /id", "INVALID_FIELD  /to", "WRONG_TYPE  /payload"] {
        assert!(told.contains(place), "{place}: {told}");
    }
    assert_eq!(run(&["envelope", "sign", "--key", "zoe.key"], r#"{"v": 1}"#).0, 1, "what cannot be sent is not signed");
}

#[tokio::test]
async fn a_person_gives_an_agent_keys_from_the_terminal() {
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

    // What it signs is taken, and nobody else can change the agent's card.
    let update = envelope("u", "agent.update", "agent:ken", json!({"payload": {"display": {"name": "Ken"}}}));
    assert_eq!(refused(&daemon, &update).await, expected(403, "SIGNATURE_REQUIRED", AUTH));
    std::fs::write(daemon.root().join("update.json"), update.to_string()).unwrap();
    let (code, signed, stderr) = run(&["envelope", "sign", "--key", "ken.key", "update.json"]);
    assert_eq!(code, 0, "{stderr}");
    sent(&daemon, &serde_json::from_str(&signed).unwrap()).await;

    for (kid, file, told) in [
        ("k2", "other.key", "has a key 'k2' already"),
        ("k3", "ken.key", "exists already"),
        ("a b", "x.key", "no name"),
    ] {
        let (code, stdout, stderr) = create(kid, file);
        assert!(code != 0 && stdout.is_empty() && stderr.contains(told), "{kid} {file}: {stderr}");
    }
    let (code, _, stderr) = run(&["keys", "create", "--agent", "ghost", "--key", "ghost.key"]);
    assert!(code == 1 && stderr.contains("AGENT_NOT_FOUND"), "{stderr}");
    for file in ["other.key", "x.key", "ghost.key"] {
        assert!(!daemon.root().join(file).exists(), "{file} is the key of nobody");
    }
}
