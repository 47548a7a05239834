//! The file as JSON Schema, for editors. Made of the same tables that the reader knows the keys from.

use serde_json::{Map, Value, json};

use super::workflow;

/// The schema of a workflow file. What it accepts may still be wrong in ways that no schema can say.
pub fn schema() -> Value {
    let mut defs = Map::new();
    let mut schema = workflow::RECORD.schema(&mut defs);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Rookery workflow");
    schema["properties"]["agents"]["minProperties"] = json!(1);
    schema["$defs"] = defs.into();
    schema
}
