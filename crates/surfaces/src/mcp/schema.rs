//! Schemas as models and clients read them best: without references, titles and number formats that nobody knows.

use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

pub type Object = Map<String, Value>;

/// The schema of a tool's arguments. What may be left out is left out, so `null` is not offered.
pub fn input<T: JsonSchema>() -> Arc<Object> {
    arguments::<T>(|_, field| {
        field.remove(RARE);
        true
    })
}

/// The same without the arguments that are seldom needed, which are taken all the same, and without what goes without
/// saying: that a count is not negative, and what an id is.
pub fn short_input<T: JsonSchema>() -> Arc<Object> {
    arguments::<T>(|name, field| {
        field.remove("minimum");
        if IDS.contains(&name) {
            field.remove("description");
        }
        !field.contains_key(RARE)
    })
}

const IDS: [&str; 3] = ["id", "task_id", "agent_id"];

/// Marks an argument that is seldom needed: `#[schemars(extend("x-rare" = true))]`.
const RARE: &str = "x-rare";

fn arguments<T: JsonSchema>(keep: impl Fn(&str, &mut Object) -> bool + Copy) -> Arc<Object> {
    let mut schema = of::<T>(Contract::Deserialize);
    tidy(&mut schema, keep);
    Arc::new(schema)
}

/// The schema of a tool's result, as it is written: what is left out when there is nothing to say is not required.
pub fn output<T: JsonSchema>() -> Arc<Object> {
    let mut schema = of::<T>(Contract::Serialize);
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.insert(NOTES.to_owned(), json!({"type": "array", "items": {"type": "string"}}));
    }
    Arc::new(schema)
}

/// Where any result's structure has what else its reader should know: that messages wait, or a name that nobody has.
pub const NOTES: &str = "notes";

/// The schema of a tool's arguments with all that is known of its types, to tell what is wrong with them.
pub fn typed<T: JsonSchema>() -> Object {
    match raw::<T>(Contract::Deserialize) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn of<T: JsonSchema>(contract: Contract) -> Object {
    let mut schema = raw::<T>(contract);
    simplify(&mut schema);
    match schema {
        Value::Object(mut schema) => {
            schema.remove("description");
            schema.entry("type").or_insert_with(|| "object".into());
            // Clients look for it even where a tool takes nothing.
            schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
            schema
        }
        _ => Map::new(),
    }
}

fn raw<T: JsonSchema>(contract: Contract) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.contract = contract;
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Takes away what only a validator of another kind would use.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("title").is_some_and(Value::is_string) {
                fields.remove("title");
            }
            if fields.get("format").is_some_and(Value::is_string) {
                fields.remove("format");
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            // "Anything" may be written as `true`, which some clients do not take for a schema.
            for field in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
                if *field.1 == Value::Bool(true) {
                    *field.1 = Value::Object(Map::new());
                }
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(entries) => entries.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// Takes the nulls out of an object's fields, and the fields that are not kept; and so for the objects in them.
fn tidy(schema: &mut Object, keep: impl Fn(&str, &mut Object) -> bool + Copy) {
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.values_mut().for_each(without_null);
        fields.retain(|name, field| field.as_object_mut().is_none_or(|field| keep(name, field)));
        fields.values_mut().filter_map(Value::as_object_mut).for_each(|field| tidy(field, keep));
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        tidy(items, keep);
    }
}

/// `["string", "null"]` becomes `"string"`, and a choice between something and null becomes the something.
fn without_null(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            fields.remove("anyOf");
            for (name, value) in only {
                fields.entry(name).or_insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[allow(dead_code, reason = "only its schema is looked at")]
    enum Kind {
        One,
        Two,
    }

    /// Not shown.
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Arguments {
        /// What it is called.
        name: String,
        /// How often.
        times: Option<u32>,
        kind: Option<Kind>,
        title: Option<String>,
        detail: Option<Value>,
        #[schemars(extend("x-rare" = true))]
        parts: Option<Vec<Part>>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Part {
        size: Option<u32>,
    }

    #[test]
    fn an_input_schema_is_plain() {
        let expected = json!({
            "type": "object",
            "properties": {
                "name": {"description": "What it is called.", "type": "string"},
                "times": {"description": "How often.", "type": "integer", "minimum": 0},
                "kind": {"type": "string", "enum": ["one", "two"]},
                "title": {"type": "string"},
                "detail": {},
                "parts": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0}}},
                },
            },
            "required": ["name"],
        });
        assert_eq!(Value::Object((*input::<Arguments>()).clone()), expected);
        let short = Value::Object((*short_input::<Arguments>()).clone());
        assert_eq!(short["properties"]["times"], json!({"description": "How often.", "type": "integer"}));
        assert!(short["properties"].get("parts").is_none(), "{short}");
    }
}
