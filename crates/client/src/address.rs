//! The address of a daemon.

use std::fmt;
use std::path::PathBuf;

/// The address of a daemon, as published by the daemon itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// The base URL of the HTTP server, without a trailing slash.
    pub url: String,
    /// The Unix socket, if it serves one. It is preferred, since only this user can access it.
    pub socket: Option<PathBuf>,
    /// The id of the project that it must serve.
    pub project: String,
}

/// Finds the current address of the daemon, when it does not answer at the last one.
pub trait Locate: Send + Sync + fmt::Debug {
    /// Returns `None` while no daemon runs.
    fn locate(&self) -> Option<Address>;
}
