//! The real daemon under load, with crashes, a full disk and misbehaving clients: acknowledged writes are present exactly
//! once, streams have neither gaps nor repeats, and a client that does not read delays no other.
//!
//! One file for each promise. [`wire`] sends requests as a client does; [`store_checks`] compares the tables with the log.

mod crash;
mod damage;
#[cfg(target_os = "linux")]
mod disk;
mod fan_out;
mod follow;
#[cfg(target_os = "linux")]
mod full_start;
mod large;
mod stalled;
mod stop;
mod store_checks;
mod wire;

use rookery_testkit::daemon::Setup;

/// The daemon under test. Files are not watched: these tests change none.
fn daemon() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).arg("--no-watch")
}
