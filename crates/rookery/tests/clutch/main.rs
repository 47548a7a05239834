//! The Clutch gateway end to end: the real program, a real store, real sockets. Each test has a daemon of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod artifacts;
mod cli;
mod delivery;
mod endpoint;
mod inbox;
mod listing;
mod messages;
mod nodes;
mod registry;
mod routing;
mod runs;
mod scenario;
mod schemas;
mod sending;
mod stream;
mod support;
mod tasks;
mod team;
mod telemetry;
mod timing;
