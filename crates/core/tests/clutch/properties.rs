//! What holds for any JSON, not only for what somebody thought of.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use rookery_core::clutch::canon::{canonical, sameness};
use rookery_core::clutch::{Envelope, Shape, read_batch};
use serde_json::{Map, Value, json};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::Array),
            btree_map(any::<String>(), inner, 0..8).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An envelope in which some fields are anything at all.
fn almost_an_envelope() -> impl Strategy<Value = Value> {
    let least = json!({
        "v": "clutch/0.1", "id": "m", "ts": "2026-02-01T13:20:11Z", "thread_id": "t", "run_id": "r", "task_id": "k",
        "from": {"agent_id": "a"}, "to": [{"agent_id": "b"}], "type": "x.y", "payload": {},
    });
    let names = [
        "v",
        "id",
        "ts",
        "thread_id",
        "run_id",
        "task_id",
        "parent_task_id",
        "trace",
        "from",
        "to",
        "type",
        "domain",
        "payload_type",
        "schema_ref",
        "payload",
        "requires",
        "prefers",
        "security",
        "attachments",
        "idempotency_key",
        "attempt",
        "meta",
        "unknown",
    ];
    btree_map(prop::sample::select(names.to_vec()), any_json(), 0..4).prop_map(move |changes| {
        let mut envelope = least.clone();
        for (name, value) in changes {
            envelope[name] = value;
        }
        envelope
    })
}

/// The same value as another writer might write it: fields in another order, and space between the tokens.
fn otherwise(value: &Value) -> String {
    match value {
        Value::Array(entries) => format!("[ {} ]", entries.iter().map(otherwise).collect::<Vec<_>>().join("\n,\t")),
        Value::Object(fields) => {
            let fields = fields.iter().rev().map(|(name, value)| format!("{} :\r\n{}", json!(name), otherwise(value)));
            format!("{{\n{}\n}}", fields.collect::<Vec<_>>().join(" , "))
        }
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..512)) {
        for shape in [Shape::Json, Shape::Lines, Shape::Either] {
            let _ = read_batch(&bytes, shape);
        }
    }

    #[test]
    fn any_json_is_read_or_refused_with_a_reason(value in any_json()) {
        let faults = Envelope::read(value.to_string().as_bytes()).expect_err("nobody writes an envelope by chance");
        prop_assert!(faults.first().is_some());
    }

    #[test]
    fn every_fault_points_into_the_message(value in almost_an_envelope()) {
        match Envelope::read(value.to_string().as_bytes()) {
            Ok(envelope) => prop_assert_eq!(Value::Object(envelope.document().clone()), value),
            Err(faults) => for fault in &faults {
                let parent = fault.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
                prop_assert!(value.pointer(&fault.pointer).or(value.pointer(parent)).is_some(), "{}", fault);
            },
        }
    }

    #[test]
    fn the_canonical_form_is_one_and_the_same_however_it_was_written(value in any_json()) {
        let form = canonical(&value);
        let read: Value = serde_json::from_slice(&form).unwrap();
        prop_assert_eq!(canonical(&read), form.clone(), "of itself");
        let other: Value = serde_json::from_str(&otherwise(&value)).unwrap();
        prop_assert_eq!(canonical(&other), form.clone(), "of another order");
        prop_assert!(form.iter().all(|byte| *byte >= b' '));
    }

    #[test]
    fn a_message_is_the_same_however_it_was_written(fields in btree_map(any::<String>(), any_json(), 0..8)) {
        let message: Map<String, Value> = fields.into_iter().collect();
        let text = otherwise(&Value::Object(message.clone()));
        let other: Map<String, Value> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(sameness(&message), sameness(&other));
    }
}
