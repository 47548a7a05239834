//! The real daemon under load, killed, starved of disk, and with clients that misbehave: what was acknowledged is there
//! exactly once, streams have neither gap nor repeat, and nobody who does not read holds up anybody else.
//!
//! One file for each promise; [`wire`] speaks to the daemon as a client would, [`ledger`] knows what a log must be.

mod crash;
#[cfg(target_os = "linux")]
mod disk;
mod fan_out;
mod follow;
mod large;
mod ledger;
mod stalled;
mod stop;
mod wire;

use rookery_testkit::daemon::Setup;

/// The daemon under test. Files are not watched: these tests change none.
fn daemon() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).arg("--no-watch")
}
