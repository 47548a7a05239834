//! One suite for every engine, and tests of files and shared databases.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

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
