//! Compiles and applies JSON Schemas (2020-12), within limits.
//!
//! A schema comes from a caller who may be wrong or hostile: nothing is fetched, patterns take time linear in the text, and
//! [`survey`] rejects schemas with endless self-references. A schema and a payload together can still take exponential time
//! and memory, so checks run in processes with limits (`checker`, `serve`, `limits`).

mod checker;
pub(crate) mod limits;
mod registry;
mod serve;
mod survey;

use std::fmt;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use rookery_core::clutch::read_json;
use rookery_core::kernel::limit;
use rookery_core::model::violation::{Violation, missing, pointer_below};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use checker::{Checkers, Finding};
pub(crate) use registry::Schemas;
pub use serve::serve_checks;

/// The largest compiled pattern.
const PATTERN_BYTES: usize = 1024 * 1024;
/// The most errors of a payload that are read, before errors at the same place are merged.
const MAX_ERRORS: usize = 4 * limit::FAULTS;
const MESSAGE_CHARS: usize = 300;

/// A fault of a schema.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SchemaFault {
    /// A JSON pointer into the schema.
    pub pointer: String,
    pub message: String,
}

impl SchemaFault {
    fn new(pointer: impl Into<String>, message: impl Into<String>) -> SchemaFault {
        SchemaFault { pointer: pointer.into(), message: message.into() }
    }
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            pointer => write!(f, "{pointer}: {}", self.message),
        }
    }
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Compiled(Validator);

impl Compiled {
    pub(crate) fn of(text: &str) -> Result<Compiled, SchemaFault> {
        if text.len() > limit::SCHEMA_BYTES {
            let message = format!("a schema has at most {} bytes, not {}", limit::SCHEMA_BYTES, text.len());
            return Err(SchemaFault::new("", message));
        }
        let schema = read_json(text.as_bytes()).map_err(|faults| match faults.first() {
            Some(fault) => SchemaFault::new(fault.pointer.clone(), fault.message.clone()),
            None => SchemaFault::new("", faults.to_string()),
        })?;
        survey::survey(&schema)?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(patterns);
        options.build(&schema).map(Compiled).map_err(|error| {
            SchemaFault::new(error.instance_path().as_str(), shorten_message(&error.masked_with("this").to_string()))
        })
    }

    /// Whether a payload matches the schema. Costs less than listing the violations: it stops at the first one, and caches
    /// the results of schemas that refer to themselves.
    pub(crate) fn is_valid(&self, payload: &Value) -> bool {
        self.0.is_valid(payload)
    }

    /// The places where a payload does not match the schema.
    pub(crate) fn violations(&self, payload: &Value) -> Vec<Violation> {
        self.0.iter_errors(payload).take(MAX_ERRORS).flat_map(|error| violations_of(&error)).collect()
    }
}

/// Converts an error. Missing and unexpected fields are listed one by one, at their own pointers.
fn violations_of(error: &ValidationError<'_>) -> Vec<Violation> {
    let at = format!("/payload{}", error.instance_path().as_str());
    match error.kind() {
        ValidationErrorKind::Required { property } => vec![missing(&at, property.as_str().unwrap_or_default())],
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let places = unexpected.iter().map(|field| pointer_below(&at, field));
            places.map(|pointer| Violation { pointer, message: "is not expected here".to_owned() }).collect()
        }
        _ => {
            let text = error.masked_with("it").to_string();
            vec![Violation { pointer: at, message: shorten_message(text.strip_prefix("it ").unwrap_or(&text)) }]
        }
    }
}

fn shorten_message(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rookery_core::contracts::BUILT_IN;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn fault(schema: &Value) -> SchemaFault {
        Compiled::of(&schema.to_string()).map(|_| ()).unwrap_err()
    }

    fn pointers(schema: &Value, payload: &Value) -> Vec<String> {
        let compiled = Compiled::of(&schema.to_string()).unwrap();
        let mut pointers: Vec<_> = compiled.violations(payload).into_iter().map(|found| found.pointer).collect();
        pointers.sort();
        pointers
    }

    #[test]
    fn built_in_schemas_compile() {
        for built_in in BUILT_IN {
            let compiled = Compiled::of(built_in.text).unwrap_or_else(|fault| panic!("{built_in:?}: {fault}"));
            assert!(!compiled.violations(&json!({})).is_empty(), "{built_in:?} requires something");
        }
    }

    #[test]
    fn invalid_schema_is_rejected_with_its_pointer() {
        for (schema, pointer) in [
            (json!({ "type": "objekt" }), "/type"),
            (json!({ "properties": { "a": { "minLength": -1 } } }), "/properties/a/minLength"),
            (json!({ "required": "a" }), "/required"),
            (json!([]), ""),
            (json!({ "properties": { "a": { "pattern": "(" } } }), "/properties/a/pattern"),
            (json!({ "pattern": "(a)\\1" }), "/pattern"),
            (json!({ "pattern": "(?=a)b" }), "/pattern"),
            (json!({ "pattern": "((a{1000}){1000}){1000}" }), "/pattern"),
        ] {
            let fault = fault(&schema);
            assert_eq!(fault.pointer, pointer, "{schema}: {fault}");
            assert!(!fault.message.is_empty());
        }
        for (text, pointer) in [("{", ""), (r#"{"a": 1, "a": 2}"#, "/a"), ("", ""), ("{} {}", "")] {
            assert_eq!(Compiled::of(text).map(|_| ()).unwrap_err().pointer, pointer, "{text}");
        }
        let long = format!("{{\"title\": \"{}\"}}", "x".repeat(limit::SCHEMA_BYTES));
        assert!(Compiled::of(&long).is_err());
    }

    #[test]
    fn every_violation_has_its_pointer() {
        let schema = json!({
            "type": "object",
            "required": ["a", "b/c"],
            "additionalProperties": false,
            "properties": {
                "a": { "type": "array", "items": { "type": "string" } },
                "n": { "required": ["deep"] },
            }
        });
        for (payload, expected) in [
            (json!({ "a": [], "b/c": 1 }), vec!["/payload/b~1c"]),
            (json!({}), vec!["/payload/a", "/payload/b~1c"]),
            (
                json!({ "a": [1, "x", 2], "n": {}, "z": 1 }),
                vec!["/payload/a/0", "/payload/a/2", "/payload/b~1c", "/payload/n/deep", "/payload/z"],
            ),
            (json!([]), vec!["/payload"]),
        ] {
            assert_eq!(pointers(&schema, &payload), expected, "{payload}");
        }
    }

    #[test]
    fn violation_message_does_not_repeat_the_payload() {
        let schema = json!({ "properties": { "a": { "type": "array" }, "b": { "enum": ["x".repeat(9_000)] } } });
        let compiled = Compiled::of(&schema.to_string()).unwrap();
        let found = compiled.violations(&json!({ "a": "secret".repeat(99), "b": "secret" }));
        assert_eq!((found.len(), found[0].message.as_str()), (2, r#"is not of type "array""#));
        for violation in found {
            assert!(!violation.message.contains("secret") && violation.message.len() < 2_000, "{violation:?}");
        }
    }

    #[test]
    fn references_outside_of_the_schema_are_rejected() {
        let tree = json!({
            "$defs": { "node": { "$anchor": "n", "required": ["id"],
                                 "properties": { "children": { "items": { "$ref": "#/$defs/node" } },
                                                 "next": { "$ref": "#n" } } } },
            "$ref": "#/$defs/node",
        });
        let payload = json!({ "id": 1, "children": [{ "id": 2 }, {}], "next": { "next": { "id": 1 } } });
        assert_eq!(pointers(&tree, &payload), ["/payload/children/1/id", "/payload/next/id"]);
        let property = json!({ "properties": { "$ref": { "type": "string" } }, "const": { "$ref": "http://x" } });
        assert!(Compiled::of(&property.to_string()).is_ok(), "a field of that name is no reference");
        for (schema, pointer) in [
            (json!({ "$ref": "https://example.com/schema.json" }), "/$ref"),
            (json!({ "items": { "$ref": "file:///etc/passwd" } }), "/items/$ref"),
            (json!({ "items": { "$ref": "other.json#/a" } }), "/items/$ref"),
            (json!({ "$dynamicRef": "https://example.com/#x" }), "/$dynamicRef"),
            (json!({ "$ref": "#/$defs/nothing" }), "/$ref"),
            (json!({ "$ref": "#nothing" }), "/$ref"),
            (json!({ "$ref": 7 }), "/$ref"),
            (json!({ "properties": { "a": { "$id": "https://example.com/a" } } }), "/properties/a/$id"),
            (json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), "/$schema"),
            (json!({ "$schema": "https://example.com/my-own" }), "/$schema"),
        ] {
            assert_eq!(fault(&schema).pointer, pointer, "{schema}");
        }
    }

    #[test]
    fn endless_self_reference_is_rejected() {
        for schema in [
            json!({ "$ref": "#" }),
            json!({ "allOf": [{ "$ref": "#" }] }),
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }] } } }),
        ] {
            assert!(fault(&schema).message.contains("refers to itself"), "{schema}");
        }
    }

    /// A chain of definitions, each of which refers twice to the previous one.
    fn doubled(levels: usize, combine: impl Fn(Value) -> Value) -> Value {
        let mut defs = serde_json::Map::from_iter([("d0".to_owned(), json!({ "type": "null" }))]);
        for level in 1..=levels {
            let before = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
            defs.insert(format!("d{level}"), combine(before));
        }
        json!({ "$ref": format!("#/$defs/d{levels}"), "$defs": defs })
    }

    #[test]
    fn too_many_applied_schemas_are_rejected() {
        let bomb = doubled(14, |before| json!({ "anyOf": [before, before] }));
        assert!(fault(&bomb).message.contains("too many"), "{}", fault(&bomb));
        let chain = doubled(200, |before| before);
        assert!(fault(&chain).message.contains("one after the other"), "{}", fault(&chain));
    }

    #[test]
    fn recursion_into_the_payload_is_accepted() {
        let wide = doubled(30, |before| json!({ "properties": { "a": before, "b": before } }));
        assert_eq!(pointers(&wide, &json!({ "a": { "b": 1 } })), [""; 0]);
        let nested = (0..40).fold(json!(null), |inner, _| json!({ "a": inner }));
        let recursive = json!({ "type": ["object", "null"], "properties": { "a": { "$ref": "#" } } });
        assert_eq!(pointers(&recursive, &nested), [""; 0]);
    }
}
