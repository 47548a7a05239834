//! Passes the log on to adapters, and tells how deliveries go.
//!
//! | file | what it owns |
//! |---|---|
//! | `feed` | passes the log on to adapters: in order, again until it arrives, and on after a crash |
//! | `outbox` | how far one has come, as the store keeps it |
//! | `status` | what a person is told of it, and can do |

mod feed;
mod outbox;
mod status;

pub(crate) use feed::{prepare, run};
pub use status::{DispatcherHandle, OutletStatus};
