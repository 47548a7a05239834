//! The published schema and the reader say the same of every message, but for what a schema cannot say.

use jsonschema::Validator;
use rookery_core::clutch::schema;
use serde_json::Value;

use crate::corpus::{expected, messages};

/// What is wrong with these is not the structure of one value: it takes two fields, or two spellings, or the bytes.
const CODES_BEYOND_A_SCHEMA: [&str; 7] = [
    "MALFORMED_JSON",
    "DUPLICATE_KEY",
    "TOO_DEEP",
    "RESERVED_NAME",
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
