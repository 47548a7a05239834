//! Work on a whole store in PostgreSQL: read it at one moment, move it away, make it anew. All of it blocks, on a thread
//! that may, and needs a runtime around it.

use super::address::Address;
use super::connection::Connector;
use super::error::Problem;
pub use super::sink::PostgresSink;
pub use super::source::{PostgresOrigin, PostgresSource};
use crate::offline::OfflineError;

/// Opens a store that exists for reading, beside whoever writes it.
pub fn source(address: Address) -> Result<PostgresSource, OfflineError> {
    PostgresSource::open(&Connector::new(address)?)
}

/// Opens a store that exists for moving it away, unless a node serves it.
pub fn origin(address: Address) -> Result<PostgresOrigin, OfflineError> {
    PostgresOrigin::open(&Connector::new(address)?)
}

/// A store to be made in a schema that is not there, or has nothing in it.
pub fn sink(address: Address) -> Result<PostgresSink, OfflineError> {
    Ok(PostgresSink::new(Connector::new(address)?))
}

/// What is wrong with, or risky about, the server and the schema; each problem is a sentence.
pub fn problems(address: Address) -> Result<Vec<String>, OfflineError> {
    super::doctor::problems(&Connector::new(address)?)
}

impl From<Problem> for OfflineError {
    fn from(problem: Problem) -> OfflineError {
        match problem {
            Problem::Unreadable(reason) => OfflineError::Unreadable(reason),
            problem => OfflineError::Database(Box::new(problem)),
        }
    }
}

impl From<super::OpenError> for OfflineError {
    fn from(error: super::OpenError) -> OfflineError {
        OfflineError::Database(Box::new(error))
    }
}
