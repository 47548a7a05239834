//! What can be done with the files of a store, whether a daemon runs or not. All of it blocks.
//!
//! [`source`] is what [`crate::offline`] reads, [`origin`] what it moves away, [`sink`] what it makes anew. [`integrity`] and
//! [`backup`] only read and may run beside a daemon, like a source. [`restore`], an origin and a sink take the lock of
//! their store.

pub use super::backup::{BackupReport, backup};
pub use super::integrity::integrity;
pub use super::restore::{Existing, RestoreReport, restore};
pub use super::sink::{SqliteSink, sink};
pub use super::source::{SqliteOrigin, SqliteSource, origin, source};
