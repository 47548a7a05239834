//! The REST API end to end: the real program, a real store, real sockets. Each test has its own daemon.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step fails its test")]

mod agents;
mod bad_input;
mod cli;
mod events;
mod handoffs;
mod lists;
mod offline;
mod parity;
mod resources;
mod security;
mod shares;
mod stream;
mod support;
mod tasks;
mod teams;
mod watcher;
mod web;
