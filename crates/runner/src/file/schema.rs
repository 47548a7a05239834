//! The JSON Schema of workflow files, for editors. It is generated from the same tables that the parser uses.

use serde_json::{Map, Value, json};

use super::workflow;

/// Returns the schema of a workflow file. A file that it accepts may still have faults that a schema cannot express.
pub fn schema() -> Value {
    let mut defs = Map::new();
    let mut schema = workflow::RECORD.schema(&mut defs);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Rookery workflow");
    schema["properties"]["agents"]["minProperties"] = json!(1);
    schema["$defs"] = defs.into();
    schema
}
