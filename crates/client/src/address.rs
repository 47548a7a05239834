//! Where a daemon is.

use std::fmt;
use std::path::PathBuf;

/// Where a daemon can be reached, as it tells itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Base address of the HTTP face, without a slash at the end.
    pub url: String,
    /// The Unix socket, where one is served. It is preferred: it is this user's own.
    pub socket: Option<PathBuf>,
    /// The project that it must serve.
    pub project: String,
}

/// Whoever knows where the daemon is now. It is asked when the daemon does not answer where it was.
pub trait Whereabouts: Send + Sync + fmt::Debug {
    /// None while no daemon runs.
    fn now(&self) -> Option<Address>;
}
