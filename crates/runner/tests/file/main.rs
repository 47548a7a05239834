//! Workflow files that are right and wrong: what is made of them, what is told about them, and what an editor's schema says.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a corpus that cannot be read fails its test")]

mod corpus;
mod fuzz;
mod fuzz_one;
mod properties;
mod schema;
