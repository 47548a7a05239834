//! Envelopes as they come in, good and bad, held against what the reader says of them.
//!
//! `good/` and `bad/` hold messages as they were sent, byte for byte; `faults.json` says what is wrong with each bad one.

mod corpus;
mod properties;
mod schema;
