//! A private PostgreSQL for tests and benchmarks: a [`Server`] in a temporary folder, on its own port.
//!
//! This crate is small and blocking because `xtask` uses it too, and must not wait for the rest of the workspace to
//! build. Nothing here knows Rookery. Start with `server.rs`; `watchdog.rs` makes sure that nothing outlives us.

mod programs;
mod server;
mod watchdog;

pub use programs::{Programs, psql};
pub use server::{Options, Server};
