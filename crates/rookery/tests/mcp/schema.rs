//! Checks results against the output schemas of tools, with as much of JSON Schema as those use.

use serde_json::Value;

/// Panics where a value differs from the schema: a wrong type, a missing field, an undeclared field.
pub fn assert_conforms(schema: &Value, value: &Value, place: &str) {
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let fits = |choice: &&Value| choice.get("type").is_none_or(|kind| is_of(kind, value));
        let choice = choices.iter().find(fits).unwrap_or_else(|| panic!("{place}: {value} is none of {schema}"));
        return assert_conforms(choice, value, place);
    }
    if let Some(kind) = schema.get("type") {
        assert!(is_of(kind, value), "{place}: {value} is not {kind}");
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        assert!(values.contains(value), "{place}: {value} is not among {values:?}");
    }
    match value {
        Value::Object(fields) => {
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                assert!(fields.contains_key(name.as_str().unwrap()), "{place}: {name} is missing in {value}");
            }
            let Some(known) = schema.get("properties") else { return };
            for (name, field) in fields {
                let declared = known.get(name).unwrap_or_else(|| panic!("{place}: {name} is not declared"));
                assert_conforms(declared, field, &format!("{place}.{name}"));
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                assert_conforms(schema.get("items").unwrap_or(&Value::Bool(true)), entry, place);
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
