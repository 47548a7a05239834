//! Attempts to escape: hostile agent programs in a real sandbox, started by `rookery run` from a workflow file, beside a real
//! daemon. Every attempt runs through [`Target::attack`](target::Target::attack), which fails if anything outside the agent's
//! own folder changed or a secret was found where the agent can read it. Each test adds its own assertions.
//!
//! One file for each way out. The tests need bubblewrap and user namespaces, and fail where these do not work: a machine that
//! cannot test the sandbox must not report that it holds.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod basics;
mod context;
mod files;
mod git;
mod identity;
mod limits;
mod network;
mod shares;
mod sink;
mod target;
