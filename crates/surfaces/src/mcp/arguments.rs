//! What the arguments of several tools have in common: words of the core with their schema, lists that may be a single
//! entry, and pages.

use rookery_core::run::{SourceType, Status};
use rookery_core::task::{CheckpointKind, Complexity, WaitingFor};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// How much a list shows unless more is asked for, and at most.
pub const PAGE: u32 = 100;
pub const LARGEST_PAGE: u32 = 1_000;

pub fn page(limit: Option<u32>, usual: u32) -> u32 {
    limit.unwrap_or(usual).clamp(1, LARGEST_PAGE)
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
    word(&Status::ALL.map(Status::as_str))
}

pub fn run_statuses(_: &mut SchemaGenerator) -> Schema {
    words(&Status::ALL.map(Status::as_str))
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
