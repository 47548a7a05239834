//! What can be done with the files of a store, whether a daemon runs or not. All of it blocks.
//!
//! [`verify`], [`integrity`], [`backup`] and [`export`] only read and may run beside a daemon. [`restore`] and [`import`]
//! take the lock of the store that they make.

pub use super::backup::{BackupReport, backup};
pub use super::restore::{Existing, RestoreReport, restore};
pub use super::transfer::{ExportReport, ImportReport, export, import};
pub use super::verify::{VerifyReport, integrity, verify};

/// How far something has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}
