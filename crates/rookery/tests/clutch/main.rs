//! The Clutch gateway end to end: the real program, a real store, real sockets. Each test has a daemon of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod artifacts;
mod registry;
mod schemas;
mod support;
