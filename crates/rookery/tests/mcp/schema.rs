//! Whether a result is what its tool announced. Enough of JSON Schema for the schemas that tools have.

use serde_json::Value;

/// Fails where a value is not as the schema says: a kind, a field that is missing, a field that nobody announced.
pub fn conforms(schema: &Value, value: &Value, place: &str) {
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let fits = |choice: &&Value| choice.get("type").is_none_or(|kind| is_of(kind, value));
        let choice = choices.iter().find(fits).unwrap_or_else(|| panic!("{place}: {value} is none of {schema}"));
        return conforms(choice, value, place);
    }
    if let Some(kind) = schema.get("type") {
        assert!(is_of(kind, value), "{place}: {value} is not {kind}");
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        assert!(words.contains(value), "{place}: {value} is not among {words:?}");
    }
    match value {
        Value::Object(fields) => {
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                assert!(fields.contains_key(name.as_str().unwrap()), "{place}: {name} is missing in {value}");
            }
            let Some(known) = schema.get("properties") else { return };
            for (name, field) in fields {
                let announced = known.get(name).unwrap_or_else(|| panic!("{place}: nobody announced {name}"));
                conforms(announced, field, &format!("{place}.{name}"));
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                conforms(schema.get("items").unwrap_or(&Value::Bool(true)), entry, place);
            }
        }
        _ => {}
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        None => kind.as_array().unwrap().iter().any(|kind| is_of(kind, value)),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some(other) => panic!("{other} is no kind of value"),
    }
}
