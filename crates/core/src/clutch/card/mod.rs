//! Reading an AgentCard strictly, and the JSON Schema of it.

mod read;
mod schema;
