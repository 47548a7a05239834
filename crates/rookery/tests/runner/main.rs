//! The runner: its programs as they are, misbehaving ones among them, and what they can reach.

#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod process;
mod sandbox;
