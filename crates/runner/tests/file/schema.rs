//! The schema for editors holds the same files: it accepts every good one, and refuses every bad one that it can.

use rookery_runner::file::schema;
use serde_json::Value;

use crate::corpus::files;

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

/// A file as an editor sees it; none if it is no YAML.
fn value(text: &str) -> Option<Value> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).ok()
}

#[test]
fn the_schema_is_one() {
    jsonschema::draft202012::meta::validate(&schema()).unwrap();
}

#[test]
fn every_good_file_is_accepted() {
    let validator = validator();
    for (file, text) in files("good") {
        let value = value(&text).unwrap();
        let faults: Vec<_> = validator.iter_errors(&value).map(|e| format!("{} {e}", e.instance_path())).collect();
        assert_eq!(faults, [""; 0], "{file}");
    }
}

/// Each bad file says in its first line whether a schema can refuse it.
#[test]
fn bad_files_are_refused_where_a_schema_can() {
    let validator = validator();
    for (file, text) in files("bad") {
        let accepts = value(&text).is_some_and(|value| validator.is_valid(&value));
        let said = text.lines().next().unwrap_or_default();
        assert_eq!(said, if accepts { "# schema: accepts" } else { "# schema: refuses" }, "{file}");
    }
}

#[test]
fn every_key_is_described() {
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
