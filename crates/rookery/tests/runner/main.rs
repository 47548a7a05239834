//! The runner: whole teams as they are run from the command line, its programs as they are, misbehaving ones among them, and what
//! they can reach.

#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod commands;
mod crash;
mod demo;
mod examples;
mod misbehaving;
mod process;
mod run;
mod sandbox;
mod sdk;
mod stage;
mod steering;
