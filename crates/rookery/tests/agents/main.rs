//! Real agent programs with scripted models on a real daemon, judged by its log.
//!
//! `cargo xtask test --only agents` installs the programs and passes their paths to these tests.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step fails its test")]

mod cursor;
mod killed;
mod notices;
mod programs;
mod routed;
mod runs;
mod team;
mod user;
