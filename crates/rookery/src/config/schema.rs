//! The JSON Schema of `rookery.toml`, for editors and for checking a file before it is used.

use serde_json::{Map, Value, json};

use rookery_engine::settings::{Definition, TABLE};

use super::hooks;

/// The schema, made from the table of settings.
pub fn json_schema() -> Value {
    let (nested, plain): (Vec<_>, Vec<_>) = TABLE.iter().partition(|definition| definition.name.starts_with(CONTEXT));
    let (outbound, plain): (Vec<_>, Vec<_>) =
        plain.into_iter().partition(|definition| definition.name.starts_with(OUTBOUND));
    let mut properties: Map<String, Value> =
        plain.into_iter().map(|definition| (definition.name.to_owned(), property(definition))).collect();
    properties.insert("context".to_owned(), context(&nested));
    properties.insert("outbound".to_owned(), table(OUTBOUND, &outbound));
    properties.insert("adapters".to_owned(), hooks::schema());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rookery.toml",
        "description": "Settings of a Rookery project. A flag wins over the environment, which wins over this file.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// Settings with this beginning are a table of the file.
const CONTEXT: &str = "context_";
/// As above.
const OUTBOUND: &str = "outbound_";

fn context(settings: &[&Definition]) -> Value {
    json!({
        "description": "What the context of instances is kept in, unless an instance says otherwise; false turns it off.",
        "anyOf": [{ "const": false }, table(CONTEXT, settings)],
    })
}

fn table(prefix: &str, settings: &[&Definition]) -> Value {
    let name = |definition: &Definition| definition.name.trim_start_matches(prefix).to_owned();
    let properties: Map<String, Value> = settings.iter().map(|known| (name(known), property(known))).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn property(definition: &Definition) -> Value {
    let mut property = (definition.schema)();
    property["description"] = json!(format!("{} Environment: {}.", definition.help.trim(), definition.env));
    if let Some(default) = fixed_default(definition, &property) {
        property["default"] = default;
    }
    property
}

/// The default in the form that the file would have it; `None` if it depends on the project or is absence.
fn fixed_default(definition: &Definition, schema: &Value) -> Option<Value> {
    let text = definition.default_text();
    match schema["type"].as_str() {
        Some("integer") => text.parse::<u64>().ok().map(Value::from),
        Some("boolean") => text.parse::<bool>().ok().map(Value::from),
        Some("array") => Some(json!([])),
        _ => Some(json!(text)).filter(|_| !text.is_empty() && !text.contains('{')),
    }
}
