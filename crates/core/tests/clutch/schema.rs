//! The published schema and the reader say the same of every message, but for what a schema cannot say.

use jsonschema::Validator;
use rookery_core::clutch::{Envelope, draft_terms, schema};
use rookery_core::model::capabilities::Card;
use serde_json::{Value, json};

use crate::corpus::{expected, messages};

/// What is wrong with these is not the structure of one value: it takes two fields, or two spellings, or the bytes.
/// The schema has the types of the daemon's own messages too; only the reader refuses them.
const CODES_BEYOND_A_SCHEMA: [&str; 8] = [
    "MALFORMED_JSON",
    "DUPLICATE_KEY",
    "TOO_DEEP",
    "RESERVED_NAME",
    "RESERVED_TYPE",
    "DUPLICATE_RECIPIENT",
    "SCHEMA_REF_MISMATCH",
    "INEXACT_NUMBER",
];

/// The same, for messages whose code is also used for structure.
const BEYOND_A_SCHEMA: [&str; 3] = ["parent_is_the_task", "requires_no_such_range", "ts_no_such_day"];

/// Refused by the schema although what the reader says of them is one of the codes above.
const REFUSED_AS_WELL: [&str; 1] = ["from_a_group"];

fn validator() -> Validator {
    jsonschema::draft202012::options().build(&schema::envelope()).unwrap()
}

#[test]
fn the_schema_is_one() {
    jsonschema::draft202012::meta::validate(&schema::envelope()).unwrap();
}

#[test]
fn every_good_message_is_valid() {
    let validator = validator();
    for (name, bytes) in messages("good") {
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        if let Err(error) = validator.validate(&message) {
            panic!("{name}: {error} at {}", error.instance_path());
        }
    }
}

#[test]
fn every_bad_message_is_invalid_unless_no_schema_could_tell() {
    let (validator, expected) = (validator(), expected());
    for (name, bytes) in messages("bad") {
        let Ok(message) = serde_json::from_slice::<Value>(&bytes) else { continue };
        let by_code = expected[&name]
            .iter()
            .all(|fault| CODES_BEYOND_A_SCHEMA.iter().any(|code| fault.split(' ').next() == Some(code)));
        let beyond = (by_code && !REFUSED_AS_WELL.contains(&name.as_str())) || BEYOND_A_SCHEMA.contains(&name.as_str());
        assert_eq!(validator.is_valid(&message), beyond, "{name}");
    }
}

/// Every field that the protocol names, in one message.
fn whole() -> Value {
    json!({
        "v": "clutch/0.1", "id": "msg_7", "ts": "2026-03-04T09:30:00.250+01:00",
        "thread_id": "thr_prices", "run_id": "run_q1", "task_id": "task_prices", "parent_task_id": "task_report",
        "trace": {"trace_id": "tr_1", "span_id": "sp_1"},
        "from": {"agent_id": "agent:mia", "role": "lead"}, "to": [{"agent_id": "agent:orchestrator"}],
        "type": "task.request", "domain": "research", "payload_type": "research.query.v1",
        "schema_ref": "schema://clutch/research/query@1", "payload": {"query": "What does it cost elsewhere?"},
        "requires": ["skill:research@^1.0"], "prefers": ["tool:browser", "domain:retail"],
        "security": {"policy": {"sandbox": true, "tool_allowlist": ["mcp:browser"]}},
        "attachments": [{"kind": "artifact_ref", "ref": "artifact:sha256-00"}],
        "idempotency_key": "prices-1", "attempt": 1,
        "meta": {"framework": "autogen", "ui_channel": "chat:prices"},
        "deadline": "2026-03-04T18:00:00Z", "limits": {"max_runtime_sec": 600, "max_attempts": 2},
    })
}

#[test]
fn every_field_of_the_protocol_is_described() {
    let (message, described) = (whole(), schema::envelope());
    for (field, _) in message.as_object().unwrap() {
        assert!(!described["properties"][field].is_null(), "{field}");
    }
    let required = ["v", "id", "ts", "thread_id", "run_id", "task_id", "from", "to", "type", "payload"];
    assert_eq!(described["required"], json!(required));
    validator().validate(&message).unwrap();
    Envelope::read(&serde_json::to_vec(&message).unwrap()).unwrap();
    for field in required {
        let mut lacking = message.clone();
        lacking.as_object_mut().unwrap().remove(field);
        assert!(!validator().is_valid(&lacking), "{field}");
    }
}

#[test]
fn limits_are_looked_at_where_they_mean_something() {
    let drafts = jsonschema::draft202012::options().build(&schema::draft()).unwrap();
    for (field, value) in [
        ("deadline", json!("tomorrow")),
        ("deadline", json!("2026-03-04T18:00:00")),
        ("deadline", json!(17)),
        ("limits", json!([])),
        ("limits", json!({"max_runtime_sec": 0})),
        ("limits", json!({"max_attempts": "2"})),
    ] {
        let mut request = whole();
        request[field] = value.clone();
        assert!(!validator().is_valid(&request), "{field}: {value}");
        let draft = json!({field: value});
        assert!(draft_terms(draft.to_string().as_bytes()).is_err() && !drafts.is_valid(&draft), "{draft}");
        // In a message of another type they are somebody's own.
        request["type"] = json!("x.note");
        validator().validate(&request).unwrap();
        Envelope::read(&serde_json::to_vec(&request).unwrap()).unwrap();
    }
    for draft in [json!({}), json!({"id": null, "type": "PLAN", "limits": null}), json!({"requires": ["law"]}), whole()]
    {
        drafts.validate(&draft).unwrap();
        draft_terms(draft.to_string().as_bytes()).unwrap();
    }
}

#[test]
fn every_field_of_a_card_is_described() {
    let described = Card::schema();
    let validator = jsonschema::draft202012::options().build(&described).unwrap();
    let card = json!({
        "v": "clutch/0.1", "agent_id": "agent:mia", "display": {"name": "Mia", "desc": "Reads contracts"},
        "endpoints": {"a2a": {"url": "http://mia:9000/a2a"}, "clutch": {"url": "https://mia:9000/clutch"}},
        "capabilities": [
            {"id": "skill:law", "version": "2.1", "tags": ["contracts"], "tools": ["mcp:files"], "trust_level": "prod",
             "cost_hint": "low"},
            {"id": "tool:mcp", "servers": ["mcp:files"]},
        ],
        "limits": {"max_concurrency": 3, "max_runtime_sec": 900},
        "security": {"sandbox": false, "network": "none", "tool_allowlist": ["mcp:files"]},
        "meta": {"framework": "crewai", "role": "specialist"},
    });
    validator.validate(&card).unwrap();
    let read = Card::read(&card).unwrap();
    validator.validate(&serde_json::to_value(&read).unwrap()).unwrap();
    for (field, _) in card.as_object().unwrap() {
        assert!(!described["properties"][field].is_null(), "{field}");
    }
    let capability = &described["properties"]["capabilities"]["anyOf"][0]["items"];
    for field in ["id", "version", "tags", "tools", "trust_level", "cost_hint", "servers"] {
        assert!(!capability["properties"][field].is_null(), "{field}");
    }
}
