//! What is wrong with an argument, in words of JSON: where it is, what it must be, and what it is instead.
//!
//! Whoever calls a tool knows its input schema and nothing of the types behind it. So what was expected is told from the
//! schema, and of the error itself only where it is.

use schemars::JsonSchema;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::schema;

/// How errors begin that name types nobody has heard of. Whatever begins otherwise is said in words of our own.
const OF_TYPES: [&str; 5] =
    ["invalid type", "invalid value", "invalid length", "unknown variant", "data did not match"];
/// How much of a wrong text is repeated.
const QUOTED: usize = 40;

/// Says why the arguments of `A` could not be read.
pub fn about<A: JsonSchema>(arguments: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (said, schema) = (error.inner().to_string(), Value::Object(schema::typed::<A>()));
    let place = place(error.path());
    if let Some(name) = quoted_after(&said, "missing field ") {
        let field = at(&schema, error.path()).and_then(|parent| field(parent, name));
        let wanted = field.map(|field| format!("; it must be {}", wanted(field))).unwrap_or_default();
        return format!("argument '{}' is missing{wanted}", join(&place, name));
    }
    if place.is_empty() || !OF_TYPES.iter().any(|begin| said.starts_with(begin)) {
        return if place.is_empty() { said } else { format!("argument '{place}': {said}") };
    }
    let given = given(arguments, error.path());
    match at(&schema, error.path()) {
        Some(schema) => {
            let variant = quoted_after(&said, "unknown variant ").map(|word| shown(&word.into()));
            let instead = variant.or_else(|| given.map(|given| shown(culprit(schema, given))));
            let instead = instead.map(|instead| format!(", not {instead}")).unwrap_or_default();
            format!("argument '{place}': must be {}{instead}", wanted(schema))
        }
        // Another name of it, or one that is not announced.
        None => match given {
            Some(given) => format!("argument '{place}': cannot be {}", shown(given)),
            None => format!("argument '{place}': cannot be read"),
        },
    }
}

/// Where the error is, as one would write it: `plan.tasks[0].name`.
fn place(path: &Path) -> String {
    path.iter().fold(String::new(), |place, segment| match segment {
        Segment::Seq { index } => format!("{place}[{index}]"),
        Segment::Map { key } => join(&place, key),
        Segment::Enum { variant } => join(&place, variant),
        Segment::Unknown => place,
    })
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// The word in backticks after a beginning.
fn quoted_after<'a>(said: &'a str, begin: &str) -> Option<&'a str> {
    said.strip_prefix(begin)?.strip_prefix('`')?.split('`').next()
}

/// The part of the arguments that a path leads to.
fn given<'a>(arguments: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(arguments, |value, segment| match segment {
        Segment::Seq { index } => value.get(index),
        Segment::Map { key } => value.get(key),
        Segment::Enum { .. } => None,
        Segment::Unknown => Some(value),
    })
}

/// The part of a schema that a path leads to.
fn at<'a>(schema: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(schema, |schema, segment| match segment {
        Segment::Seq { .. } => choices(schema).into_iter().find_map(|choice| choice.get("items")),
        Segment::Map { key } => field(schema, key),
        Segment::Enum { .. } => None,
        Segment::Unknown => Some(schema),
    })
}

fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    choices(schema).into_iter().find_map(|choice| choice.get("properties")?.get(name))
}

/// A schema, or each of those that it lets one choose from.
fn choices(schema: &Value) -> Vec<&Value> {
    match ["anyOf", "oneOf"].into_iter().find_map(|word| schema.get(word)?.as_array()) {
        Some(several) => several.iter().flat_map(choices).collect(),
        None => vec![schema],
    }
}

/// What a schema asks for. That something may be left out goes without saying.
fn wanted(schema: &Value) -> String {
    let all: Vec<String> = choices(schema).into_iter().flat_map(each_kind).collect();
    let told: Vec<String> = all.iter().filter(|kind| *kind != "null" || all.len() == 1).cloned().collect();
    told.join(" or ")
}

/// What a schema without choices asks for, by each of its types.
fn each_kind(schema: &Value) -> Vec<String> {
    let words = schema.get("enum").or_else(|| schema.get("const"));
    if let Some(words) = words {
        let words = words.as_array().cloned().unwrap_or_else(|| vec![words.clone()]);
        let words: Vec<String> = words.iter().filter(|word| !word.is_null()).map(Value::to_string).collect();
        return vec![if words.len() == 1 { words.concat() } else { format!("one of {}", words.join(", ")) }];
    }
    match schema.get("type") {
        Some(Value::String(kind)) => vec![a(kind, schema)],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).map(|kind| a(kind, schema)).collect(),
        _ => vec!["a value".to_owned()],
    }
}

fn a(kind: &str, schema: &Value) -> String {
    match kind {
        "string" => "a string".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" => whole_number(schema),
        "number" => "a number".to_owned(),
        "array" => match schema.get("items").and_then(|items| items.get("type")).and_then(Value::as_str) {
            Some("string") if schema["items"].get("enum").is_none() => "a list of strings".to_owned(),
            Some("object") => "a list of objects".to_owned(),
            Some("integer" | "number") => "a list of numbers".to_owned(),
            _ => format!("a list, each entry {}", schema.get("items").map_or_else(|| "a value".to_owned(), wanted)),
        },
        "object" => "an object".to_owned(),
        other => other.to_owned(),
    }
}

fn whole_number(schema: &Value) -> String {
    let most = schema.get("maximum").and_then(Value::as_u64).or_else(|| match schema.get("format")?.as_str()? {
        "uint8" => Some(u8::MAX.into()),
        "uint16" => Some(u16::MAX.into()),
        "uint32" => Some(u32::MAX.into()),
        _ => None,
    });
    match (schema.get("minimum").and_then(Value::as_i64), most) {
        (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
        (Some(least), None) => format!("a whole number, {least} or more"),
        (None, _) => "a whole number".to_owned(),
    }
}

/// What of a value is not as asked for: of a list where there may be one, the entry.
fn culprit<'a>(schema: &Value, value: &'a Value) -> &'a Value {
    let Some(entries) = value.as_array() else { return value };
    let Some(items) = choices(schema).into_iter().find_map(|choice| choice.get("items")) else { return value };
    let Some(kind) = items.get("type").and_then(Value::as_str) else { return value };
    entries.iter().find(|entry| !is_a(kind, entry)).unwrap_or(value)
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        _ => value.is_number(),
    }
}

/// A value as it is repeated to whoever gave it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() > QUOTED => {
            format!("the string {}…", Value::from(text.chars().take(QUOTED).collect::<String>()))
        }
        Value::String(text) => format!("the string {}", Value::from(text.as_str())),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use schemars::{Schema, SchemaGenerator, json_schema};
    use serde::Deserialize;
    use serde::de::{Deserializer, Error};
    use serde_json::{Map, json};

    use super::*;
    use crate::mcp::arguments::one_or_many;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        One,
        Two,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum Either {
        #[allow(dead_code, reason = "only whether it can be read is looked at")]
        Text(String),
        #[allow(dead_code, reason = "only whether it can be read is looked at")]
        Texts(Vec<String>),
    }

    impl JsonSchema for Either {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Either".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
        }
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    struct Part {
        #[allow(dead_code, reason = "only whether it can be read is looked at")]
        name: String,
        #[allow(dead_code, reason = "only whether it can be read is looked at")]
        flag: Option<bool>,
    }

    fn picky<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
        Option::<String>::deserialize(from)?;
        Err(D::Error::custom("must be as I like it"))
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only whether it can be read is looked at")]
    struct Arguments {
        text: Option<String>,
        count: Option<u32>,
        seconds: Option<f64>,
        version: Option<u64>,
        word: Option<Word>,
        #[serde(default, deserialize_with = "one_or_many")]
        words: Option<Vec<Word>>,
        either: Option<Either>,
        parts: Option<Vec<Part>>,
        #[serde(alias = "other_name")]
        alias: Option<u32>,
        #[serde(default, deserialize_with = "picky")]
        picky: Option<String>,
        more: Option<Map<String, Value>>,
    }

    fn said(arguments: Value) -> String {
        let read: Result<Arguments, _> = serde_path_to_error::deserialize(&arguments);
        about::<Arguments>(&arguments, &read.unwrap_err())
    }

    #[test]
    fn it_names_the_argument_and_what_it_must_be() {
        for (arguments, wanted) in [
            (json!({"text": 1}), "argument 'text': must be a string, not the number 1"),
            (json!({"count": -1}), "argument 'count': must be a whole number from 0 to 4294967295, not the number -1"),
            (
                json!({"count": 1.5}),
                "argument 'count': must be a whole number from 0 to 4294967295, not the number 1.5",
            ),
            (json!({"version": "1"}), r#"argument 'version': must be a whole number, 0 or more, not the string "1""#),
            (json!({"seconds": true}), "argument 'seconds': must be a number, not true"),
            (json!({"word": "three"}), r#"argument 'word': must be one of "one", "two", not the string "three""#),
            (json!({"word": 3}), r#"argument 'word': must be one of "one", "two", not the number 3"#),
            (
                json!({"words": ["one", "three"]}),
                r#"argument 'words': must be a list, each entry one of "one", "two", not the string "three""#,
            ),
            (
                json!({"words": ["one", 3]}),
                r#"argument 'words': must be a list, each entry one of "one", "two", not the number 3"#,
            ),
            (json!({"either": 1}), "argument 'either': must be a string or a list of strings, not the number 1"),
            (json!({"either": ["a", {}]}), "argument 'either': must be a string or a list of strings, not an object"),
            (json!({"parts": "x"}), r#"argument 'parts': must be a list of objects, not the string "x""#),
            (
                json!({"parts": [{"name": "a"}, {"name": "b", "flag": "yes"}]}),
                r#"argument 'parts[1].flag': must be true or false, not the string "yes""#,
            ),
            (json!({"parts": [{}]}), "argument 'parts[0].name' is missing; it must be a string"),
            (json!({"other_name": "x"}), r#"argument 'other_name': cannot be the string "x""#),
            (json!({"picky": "x"}), "argument 'picky': must be as I like it"),
            (json!({"more": []}), "argument 'more': must be an object, not a list"),
        ] {
            assert_eq!(said(arguments), wanted);
        }
        assert!(said(json!({"count": "x".repeat(5_000)})).len() < 150);
    }
}
