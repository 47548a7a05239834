//! The team's context as files of a real daemon: messages and documents of agents, edits of people, sockets,
//! configuration.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

mod agents;
mod configured;
mod people;
mod socket;
mod support;
