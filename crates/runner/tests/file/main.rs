//! Tests of valid and invalid workflow files: their previews, their faults, and the schema for editors.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a corpus that cannot be read fails its test")]

mod corpus;
mod fuzz;
mod fuzz_one;
mod properties;
mod schema;
