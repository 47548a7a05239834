//! The team's context as files of a real daemon: what agents say and write, what people save, sockets and configuration.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

mod agents;
mod configured;
mod people;
mod socket;
mod support;
