//! The schema for editors accepts every good file, and rejects bad ones as far as a schema can.

use rookery_runner::file::schema;
use serde_json::Value;

use crate::corpus::files;

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

/// Parses a file as an editor does. Returns `None` if it is not YAML.
fn value(text: &str) -> Option<Value> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).ok()
}

#[test]
fn schema_is_valid() {
    jsonschema::draft202012::meta::validate(&schema()).unwrap();
}

#[test]
fn good_files_are_accepted() {
    let validator = validator();
    for (file, text) in files("good") {
        let value = value(&text).unwrap();
        let faults: Vec<_> = validator.iter_errors(&value).map(|e| format!("{} {e}", e.instance_path())).collect();
        assert_eq!(faults, [""; 0], "{file}");
    }
}

/// The first line of each bad file states whether the schema rejects it.
#[test]
fn bad_files_are_rejected_as_far_as_a_schema_can() {
    let validator = validator();
    for (file, text) in files("bad") {
        let accepts = value(&text).is_some_and(|value| validator.is_valid(&value));
        let expected = text.lines().next().unwrap_or_default();
        assert_eq!(expected, if accepts { "# schema: accepts" } else { "# schema: refuses" }, "{file}");
    }
}

#[test]
fn every_key_has_a_description() {
    fn check(path: &str, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{path}.{name}");
        }
        for (name, def) in schema["$defs"].as_object().into_iter().flatten() {
            check(name, def);
        }
    }
    check("workflow", &schema());
}
