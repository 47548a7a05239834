//! The Clutch gateway end to end: the real program, a real store, real sockets. Each test has its own daemon.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step fails its test")]

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
mod notifications;
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
mod tools;
mod webhooks;
