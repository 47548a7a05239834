//! The MCP API end to end: the real program, the SDK's own client, every transport. Each test has its own daemon.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step fails its test")]

mod arguments;
mod bridge;
mod clients;
mod codes;
mod command;
mod context;
mod coord;
mod differences;
mod documents;
mod examples;
mod hostile;
mod identity;
mod lifecycle;
mod mentions;
mod parity;
mod plans;
mod push;
mod races;
mod restarts;
mod schema;
mod security;
mod storm;
mod support;
mod task_context;
mod tools;
mod waiting;
mod wire;
mod workspaces;
mod worktrees;
