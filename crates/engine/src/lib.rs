//! Placeholder.
pub mod watcher;
