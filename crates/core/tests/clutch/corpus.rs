//! Every message of the corpus, and the faults that it has: all of them, and no others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rookery_core::clutch::{Envelope, LegacyType, Shape, read_batch};
use rookery_core::kernel::parse::FaultCode;
use rookery_core::model::addressee::Address;
use rookery_core::model::message_type::MessageType;
use serde_json::Value;

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clutch").join(name)
}

/// The messages of a folder by name.
pub fn messages(name: &str) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

/// What is wrong with each message of `bad/`, as `CODE /pointer`.
pub fn expected() -> BTreeMap<String, Vec<String>> {
    serde_json::from_slice(&fs::read(folder("faults.json")).unwrap()).unwrap()
}

fn good(name: &str) -> Envelope {
    Envelope::read(&messages("good")[name]).unwrap()
}

#[test]
fn every_good_message_is_read() {
    for (name, bytes) in messages("good") {
        let envelope = Envelope::read(&bytes).unwrap_or_else(|faults| panic!("{name}: {faults}"));
        let sent: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(Value::Object(envelope.document().clone()), sent, "{name} is kept whole");
    }
}

#[test]
fn every_bad_message_has_the_faults_that_are_written_down() {
    let expected = expected();
    let messages = messages("bad");
    assert!(messages.keys().eq(expected.keys()), "each file has a line in faults.json and each line a file");
    assert!(messages.len() >= 60);
    for (name, bytes) in messages {
        let faults = Envelope::read(&bytes).expect_err(&name);
        let found: Vec<_> =
            faults.iter().map(|fault| format!("{} {}", fault.code, fault.pointer).trim_end().to_owned()).collect();
        assert_eq!(found, expected[&name], "{name}: {faults}");
        for fault in &faults {
            assert!(fault.message.len() > 10 && !fault.message.contains("::"), "{name}: {}", fault.message);
        }
    }
}

/// What cannot be in a committed file of a decent size is in `what_is_too_large_is_refused`.
#[test]
fn every_code_is_in_the_corpus() {
    let told: Vec<_> = expected().into_values().flatten().collect();
    for code in FaultCode::ALL.into_iter().filter(|&code| code != FaultCode::Empty) {
        assert!(told.iter().any(|fault| fault.split(' ').next() == Some(code.as_str())), "{code}");
    }
}

#[test]
fn the_kind_in_front_of_an_id_is_left_out() {
    let envelope = good("prefixes");
    assert_eq!((envelope.thread.as_str(), envelope.run.as_str(), envelope.task.as_str()), ("thr_1", "run_1", "task_1"));
    assert_eq!(envelope.parent, Some("task_0".into()));
    assert_eq!(envelope.from.actor.to_string(), "ken");
    assert_eq!(
        envelope.to,
        [Address::Agent("ken".into()), Address::Group("workers".to_owned()), Address::Person("anna".to_owned())]
    );
}

#[test]
fn what_is_not_said_has_its_default() {
    for name in ["least", "optional_fields_null"] {
        let envelope = good(name);
        assert_eq!(envelope.attempt, 1);
        assert_eq!(envelope.to, [Address::Orchestrator]);
        assert_eq!((envelope.parent, envelope.payload_type, envelope.domain), (None, None, None));
        assert_eq!(envelope.security, Default::default());
    }
}

#[test]
fn the_whole_envelope_of_the_protocol_is_read() {
    let envelope = good("whole");
    assert_eq!(envelope.ts.0, 1_769_952_011_123);
    assert_eq!(envelope.message_type, MessageType::TaskResult);
    assert_eq!(envelope.from.role.as_deref(), Some("worker"));
    assert_eq!(envelope.payload_type.as_ref().unwrap().schema_ref(), "schema://clutch/research/summary@1");
    assert_eq!(envelope.payload()["findings"][0], "...");
    assert_eq!(envelope.prefers[1].to_string(), "domain:fintech");
    assert_eq!(envelope.security.auth.as_ref().unwrap().kid, "key_01");
    assert_eq!(envelope.security.policy.tool_allowlist.as_ref().unwrap().len(), 2);
    assert_eq!(envelope.attachments[0].artifact(), Some("report_456"));
    assert_eq!(envelope.idempotency_key.as_deref(), Some("idem_01HX..."));
    assert_eq!(envelope.meta.ui_channel.as_deref(), Some("chat:research"));
    assert_eq!(envelope.trace.span_id.as_deref(), Some("sp_..."));
    assert_eq!(envelope.shown(), serde_json::from_slice::<Value>(&messages("good")["whole"]).unwrap());
}

#[test]
fn a_policy_that_allows_no_tools_is_not_one_that_says_nothing() {
    assert_eq!(good("policy_whole").security.policy.tool_allowlist, Some(vec![]));
    assert_eq!(good("least").security.policy.tool_allowlist, None);
}

#[test]
fn legacy_types_do_and_show_what_they_are_today() {
    for (name, legacy, today) in [
        ("legacy_plan", LegacyType::Plan, MessageType::TaskRequest),
        ("legacy_proposal", LegacyType::Proposal, MessageType::TaskProgress),
        ("legacy_exec_report", LegacyType::ExecReport, MessageType::TaskResult),
        ("legacy_review", LegacyType::Review, MessageType::TaskResult),
        ("legacy_blocker", LegacyType::Blocker, MessageType::ChatSystem),
        ("legacy_blocker_with_code", LegacyType::Blocker, MessageType::TaskError),
    ] {
        let envelope = good(name);
        assert_eq!((envelope.legacy, &envelope.message_type), (Some(legacy), &today));
        let shown = envelope.shown();
        assert_eq!((&shown["type"], &shown["meta"]["legacy_type"]), (&today.as_str().into(), &legacy.as_str().into()));
        assert_eq!(shown["domain"].as_str(), envelope.domain.as_deref());
        assert_eq!(shown["payload_type"].as_str(), envelope.payload_type.as_ref().map(|named| named.as_str()));
    }
    assert_eq!(good("legacy_plan").domain.as_deref(), Some("planning"));
    assert_eq!(good("legacy_review").payload_type.unwrap().as_str(), "review.feedback.v1");
}

#[test]
fn what_is_too_large_is_refused() {
    let with_payload = |bytes: usize| {
        let mut message: Value = serde_json::from_slice(&messages("good")["least"]).unwrap();
        message["payload"]["text"] = "x".into();
        let rest = message.to_string().len() - 1;
        message["payload"]["text"] = "x".repeat(bytes - rest).into();
        message.to_string()
    };
    let most = 1024 * 1024;
    assert_eq!(with_payload(most).len(), most);
    assert!(Envelope::read(with_payload(most).as_bytes()).is_ok());
    let faults = Envelope::read(with_payload(most + 1).as_bytes()).unwrap_err();
    assert_eq!(faults.first().map(|fault| (fault.code, fault.pointer.as_str())), Some((FaultCode::TooLarge, "")));

    let mut message: Value = serde_json::from_slice(&messages("good")["least"]).unwrap();
    message["to"] = (0..1_001).map(|index| serde_json::json!({ "agent_id": format!("a{index}") })).collect();
    let faults = Envelope::read(message.to_string().as_bytes()).unwrap_err();
    assert_eq!(faults.first().map(|fault| (fault.code, fault.pointer.as_str())), Some((FaultCode::TooLarge, "/to")));
}

/// At each limit a message is taken, and one beyond it is refused at the place.
#[test]
fn every_limit_is_where_it_says() {
    use serde_json::json;
    let least: Value = serde_json::from_slice(&messages("good")["least"]).unwrap();
    let nested = |depth: usize| {
        let text = "[".repeat(depth) + &"]".repeat(depth);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let text = |bytes: usize| json!("x".repeat(bytes));
    type Sized<'a> = &'a dyn Fn(usize) -> Value;
    let agents = |count: usize| (0..count).map(|n| json!({ "agent_id": format!("a{n}") })).collect::<Value>();
    let needs = |count: usize| (0..count).map(|n| json!(format!("skill:s{n}"))).collect::<Value>();
    let attachments =
        |count: usize| (0..count).map(|n| json!({ "kind": "link", "ref": format!("r{n}") })).collect::<Value>();
    let limits: [(&str, &str, usize, Sized<'_>, FaultCode); 10] = [
        ("id", "/id", 128, &text, FaultCode::TooLarge),
        ("thread_id", "/thread_id", 256, &text, FaultCode::TooLarge),
        ("run_id", "/run_id", 256, &text, FaultCode::TooLarge),
        ("task_id", "/task_id", 256, &text, FaultCode::TooLarge),
        ("domain", "/domain", 256, &text, FaultCode::TooLarge),
        ("idempotency_key", "/idempotency_key", 256, &text, FaultCode::TooLarge),
        ("to", "/to", 1_000, &agents, FaultCode::TooLarge),
        ("requires", "/requires", 1_000, &needs, FaultCode::TooLarge),
        ("attachments", "/attachments", 1_000, &attachments, FaultCode::TooLarge),
        // The message itself is one level.
        ("own", "/own", 99, &nested, FaultCode::TooDeep),
    ];
    for (field, pointer, most, sized, code) in limits {
        let with = |size: usize| {
            let mut message = least.clone();
            message[field] = sized(size);
            Envelope::read(message.to_string().as_bytes())
        };
        assert!(with(most).is_ok(), "{field} of {most}: {:?}", with(most).err());
        let faults = with(most + 1).unwrap_err();
        let first = faults.first().unwrap();
        assert_eq!(first.code, code, "{field}: {faults}");
        assert!(first.pointer.starts_with(pointer), "{field}: {faults}");
    }
}

mod batches {
    use super::*;

    fn line(name: &str) -> String {
        let message: Value = serde_json::from_slice(&messages("good")[name]).unwrap();
        message.to_string()
    }

    fn told(bytes: &[u8], shape: Shape) -> Vec<(FaultCode, String)> {
        let faults = read_batch(bytes, shape).unwrap_err();
        faults.iter().map(|fault| (fault.code, fault.pointer.clone())).collect()
    }

    #[test]
    fn one_several_and_lines_are_told_apart() {
        let (a, b) = (line("least"), line("prefixes"));
        let pretty = String::from_utf8(messages("good")["whole"].clone()).unwrap();
        for (text, shape, bodies) in [
            (a.clone(), Shape::Json, vec![&a]),
            (format!("\n {a}\n"), Shape::Either, vec![&a]),
            (format!("[{a} , {b}]"), Shape::Json, vec![&a, &b]),
            (format!(" [{a}]"), Shape::Either, vec![&a]),
            (format!("{a}\n{b}\n"), Shape::Lines, vec![&a, &b]),
            (format!("{a}\r\n\r\n{b}"), Shape::Lines, vec![&a, &b]),
            (format!("{a}\n{b}"), Shape::Either, vec![&a, &b]),
            (a.clone(), Shape::Lines, vec![&a]),
            (pretty.trim().to_owned(), Shape::Either, vec![&pretty.trim().to_owned()]),
        ] {
            let read = read_batch(text.as_bytes(), shape).unwrap_or_else(|faults| panic!("{shape:?} {text}: {faults}"));
            let sent: Vec<_> = read.iter().map(|one| one.body).collect();
            assert_eq!(sent, bodies.iter().map(|body| body.as_bytes()).collect::<Vec<_>>(), "{shape:?}");
            assert!(read.iter().all(|one| Envelope::read(one.body).as_ref() == Ok(&one.envelope)));
        }
    }

    #[test]
    fn every_fault_of_a_batch_is_told_with_the_index_of_its_message() {
        let (a, bad) = (line("least"), line("least").replace("agent:orchestrator", "agent:"));
        let late = || vec![(FaultCode::InvalidField, "/1/to/0/agent_id".to_owned())];
        assert_eq!(told(format!("[{a},{bad}]").as_bytes(), Shape::Json), late());
        assert_eq!(told(format!("{a}\n\n{bad}\n{a}").as_bytes(), Shape::Lines), late());
        assert_eq!(
            told(format!("{{]\n{a}\n[]\n{bad}").as_bytes(), Shape::Lines),
            [
                (FaultCode::MalformedJson, "/0".to_owned()),
                (FaultCode::WrongType, "/2".to_owned()),
                (FaultCode::InvalidField, "/3/to/0/agent_id".to_owned())
            ]
        );
    }

    #[test]
    fn what_is_no_batch_is_refused() {
        let a = line("least");
        let many = vec![a.as_str(); 1_001];
        for (text, shape, code) in [
            (String::new(), Shape::Json, FaultCode::Empty),
            (" \r\n\t".to_owned(), Shape::Lines, FaultCode::Empty),
            ("[]".to_owned(), Shape::Either, FaultCode::Empty),
            (format!("[{a}"), Shape::Either, FaultCode::MalformedJson),
            (format!("[{a}]{a}"), Shape::Either, FaultCode::MalformedJson),
            (format!("{a}\n{a}"), Shape::Json, FaultCode::MalformedJson),
            (format!("{a} {a}"), Shape::Json, FaultCode::MalformedJson),
            ("7".to_owned(), Shape::Either, FaultCode::WrongType),
            (format!("[{}]", many.join(",")), Shape::Json, FaultCode::TooLarge),
            (many.join("\n"), Shape::Lines, FaultCode::TooLarge),
        ] {
            assert_eq!(told(text.as_bytes(), shape), [(code, String::new())], "{shape:?} {:.80}", text);
        }
        assert_eq!(told(b"{\"a\": \"\xff\"}", Shape::Lines), [(FaultCode::MalformedJson, String::new())]);
    }

    #[test]
    fn a_content_type_tells_the_shape() {
        for (content_type, shape) in [
            ("application/json", Some(Shape::Json)),
            ("Application/JSON; charset=utf-8", Some(Shape::Json)),
            ("application/clutch+json", Some(Shape::Json)),
            ("application/x-ndjson", Some(Shape::Lines)),
            ("application/jsonl;charset=utf-8", Some(Shape::Lines)),
            ("text/plain", None),
            ("text/plain; a=application/json", None),
            ("text/x+json", None),
            ("application/x-www-form-urlencoded", None),
            ("", None),
        ] {
            assert_eq!(Shape::of_content_type(content_type), shape, "{content_type}");
        }
    }
}
