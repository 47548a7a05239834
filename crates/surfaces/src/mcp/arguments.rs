//! What the arguments of several tools have in common: words of the core with their schema, lists that may be a single
//! entry, and pages.

use std::borrow::Cow;

use rookery_core::model::run::{RunStatus, SourceType};
use rookery_core::model::task::{CheckpointKind, Complexity, WaitingFor};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// How much a list shows unless more is asked for, and at most.
pub const PAGE: u32 = 100;
pub const LARGEST_PAGE: u32 = 1_000;

/// How many entries a caller wants of a list: 1 or more. More than the largest page means the largest page; none at all is
/// a mistake, because a list of nothing tells nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit(u32);

impl Limit {
    pub fn get(self) -> u32 {
        self.0
    }
}

pub fn page(limit: Option<Limit>, usual: u32) -> u32 {
    limit.map_or(usual, Limit::get)
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Limit, D::Error> {
        let given = Value::deserialize(from)?;
        // A number above what a whole one can hold is read as a fraction.
        let large = given.as_f64().filter(|count| count.fract() == 0.0 && *count >= f64::from(LARGEST_PAGE));
        match given.as_u64() {
            Some(count) if count > 0 => Ok(Limit(u32::try_from(count).unwrap_or(LARGEST_PAGE).min(LARGEST_PAGE))),
            None if large.is_some() => Ok(Limit(LARGEST_PAGE)),
            _ => Err(D::Error::custom("must be a whole number, 1 or more")),
        }
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1})
    }
}

/// A list, or its only entry without the brackets: models write both.
pub fn one_or_many<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    let many = match Value::deserialize(from)? {
        Value::Null => return Ok(None),
        Value::Array(many) => many,
        one => vec![one],
    };
    let read = |entry| serde_json::from_value(entry).map_err(D::Error::custom);
    many.into_iter().map(read).collect::<Result<Vec<T>, _>>().map(Some)
}

/// A name that may be left out, and then means something wider. An empty one is a mistake: whoever writes it means
/// somebody or something in particular, and would not notice.
pub fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(from)? {
        Some(name) if name.trim().is_empty() => {
            Err(D::Error::custom("must not be empty; leave it out if none is meant"))
        }
        name => Ok(name),
    }
}

/// As [`name`], telling `null` from an argument that was left out.
pub fn name_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    name(from).map(Some)
}

/// For an argument that may be `null`, which means something else than leaving it out.
pub fn text_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"oneOf": [{"type": "string"}, {"type": "null"}]})
}

pub fn run_status(_: &mut SchemaGenerator) -> Schema {
    word(&RunStatus::ALL.map(RunStatus::as_str))
}

pub fn run_statuses(_: &mut SchemaGenerator) -> Schema {
    words(&RunStatus::ALL.map(RunStatus::as_str))
}

pub fn source_type(_: &mut SchemaGenerator) -> Schema {
    word(&SourceType::TOLD.map(SourceType::as_str))
}

pub fn checkpoint_type(_: &mut SchemaGenerator) -> Schema {
    word(&CheckpointKind::ALL.map(CheckpointKind::as_str))
}

pub fn checkpoint_types(_: &mut SchemaGenerator) -> Schema {
    words(&CheckpointKind::ALL.map(CheckpointKind::as_str))
}

pub fn complexity(_: &mut SchemaGenerator) -> Schema {
    word(&Complexity::ALL.map(Complexity::as_str))
}

pub fn waiting_for(_: &mut SchemaGenerator) -> Schema {
    word(&WaitingFor::ALL.map(WaitingFor::as_str))
}

fn word(words: &[&str]) -> Schema {
    json_schema!({"type": "string", "enum": words})
}

fn words(words: &[&str]) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string", "enum": words}})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_one_or_more_and_never_too_large() {
        let read = |value: Value| serde_json::from_value::<Limit>(value).map(Limit::get).map_err(|no| no.to_string());
        for (given, wanted) in [(json!(1), 1), (json!(1_000), 1_000), (json!(1_001), 1_000), (json!(u64::MAX), 1_000)] {
            assert_eq!(read(given), Ok(wanted));
        }
        assert_eq!(read(json!(1e30)), Ok(1_000));
        for wrong in [json!(0), json!(-1), json!(1.5), json!(2_000.5), json!("5"), json!([]), json!(-1e30)] {
            assert_eq!(read(wrong).unwrap_err(), "must be a whole number, 1 or more");
        }
    }
}
