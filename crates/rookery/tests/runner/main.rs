//! The runner: whole teams run from the command line, real and misbehaving agent programs, and their sandboxes.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

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
