//! Envelopes as they come in, good and bad, held against what the reader says of them.
//!
//! `good/` and `bad/` hold messages as they were sent, byte for byte; `faults.json` says what is wrong with each bad one.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod corpus;
mod fuzz;
mod fuzz_one;
mod mutate;
mod properties;
mod schema;
