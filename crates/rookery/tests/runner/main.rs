//! The runner: whole teams as they are run from the command line, and its programs as they are, misbehaving ones among them.

#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod crash;
mod demo;
mod examples;
mod misbehaving;
mod process;
mod run;
mod stage;
