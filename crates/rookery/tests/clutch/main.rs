//! The Clutch gateway end to end: the real program, a real store, real sockets. Each test has a daemon of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod artifacts;
mod cast;
mod cli;
mod delivery;
mod described;
mod endpoint;
mod hooks;
mod inbox;
mod legacy;
mod listing;
mod mcp;
mod messages;
mod nodes;
mod registry;
mod routing;
mod runs;
mod scenario;
mod schemas;
mod sending;
mod signatures;
mod stream;
mod support;
mod tasks;
mod team;
mod telemetry;
mod timing;
mod told;
mod tools;
mod webhooks;
