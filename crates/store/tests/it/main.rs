//! One suite for every engine, and what only a file can do.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod artifacts;
mod contract;
mod crash;
mod faults;
mod files;
mod lifecycle;
mod mail;
mod relocate;
mod shared;
mod support;
