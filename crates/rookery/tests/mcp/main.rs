//! The MCP face end to end: the real program, the SDK's own client, every way in. Each test has a daemon of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod bridge;
mod clients;
mod command;
mod context;
mod coord;
mod documents;
mod mentions;
mod parity;
mod push;
mod races;
mod security;
mod storm;
mod support;
mod tools;
mod waiting;
mod workspaces;
mod worktrees;
