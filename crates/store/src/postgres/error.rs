//! What can go wrong with a database elsewhere, and what that means for the commands that were on their way.

use std::error::Error as _;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

use super::address::AddressError;
use crate::store::{ReadError, SubmitError};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the address of the store cannot be used: {0}")]
    Address(#[from] AddressError),
    #[error("the certificates cannot be read: {reason}")]
    Certificates { reason: String },
    #[error("{address} cannot be reached: {reason}")]
    Unreachable { address: String, reason: String },
    #[error("schema '{schema}' holds tables of something else")]
    Foreign { schema: String },
    #[error(
        "schema '{schema}' was written by a development version of rookery from before the first release, and cannot be read"
    )]
    Development { schema: String },
    #[error("schema '{schema}' of {address} holds no store")]
    Absent { address: String, schema: String },
    #[error("the store at {address} has moved to {to} and is not written any more")]
    Moved { address: String, to: String },
    #[error("schema '{schema}' cannot be brought to version {version}: {reason}")]
    Migrate { schema: String, version: u32, reason: String },
    #[error("schema '{schema}' cannot be prepared: {reason}")]
    Prepare { schema: String, reason: String },
}

/// Something that a statement, or what it brought back, had against it.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("{}", told(.0))]
    Sql(#[from] tokio_postgres::Error),
    #[error("{0}")]
    Connection(String),
    #[error("{0}")]
    Unreadable(String),
}

/// What the server or the driver says, with its causes: the driver's own words are often only "db error".
pub(super) fn told(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} ({})", said.message(), said.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl From<PoolError> for Problem {
    fn from(error: PoolError) -> Problem {
        match error {
            PoolError::Backend(error) => Problem::Sql(error),
            PoolError::Timeout(TimeoutType::Wait) => {
                Problem::Connection("all connections to the database are busy".to_owned())
            }
            PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
                Problem::Connection("the database does not answer".to_owned())
            }
            error => Problem::Connection(error.to_string()),
        }
    }
}

impl Problem {
    /// Whether it struck the connection and not what was asked: another one may do.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            Problem::Sql(error) => is_of_connection(error),
            Problem::Connection(_) | Problem::Unreadable(_) => false,
        }
    }
}

fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        None => !is_of_content(error),
        Some(code) => ends_connection(code),
    }
}

/// Whether what came back is not what a column should hold: neither the server nor the connection had anything against it.
fn is_of_content(error: &tokio_postgres::Error) -> bool {
    let of_transport = error.source().is_none_or(|source| source.is::<std::io::Error>());
    error.code().is_none() && !error.is_closed() && !of_transport
}

fn ends_connection(code: &SqlState) -> bool {
    [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::CANNOT_CONNECT_NOW,
    ]
    .contains(code)
        || code.code().starts_with("08")
        // The server ended an idle session.
        || code.code() == "57P05"
}

impl From<Problem> for ReadError {
    fn from(problem: Problem) -> ReadError {
        match problem {
            Problem::Unreadable(reason) => ReadError::Corrupt { reason },
            Problem::Sql(error) if is_of_content(&error) => ReadError::Corrupt { reason: told(&error) },
            Problem::Sql(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                ReadError::Unavailable { reason: "the database took too long to answer".to_owned() }
            }
            problem => ReadError::Unavailable { reason: problem.to_string() },
        }
    }
}

impl From<Problem> for SubmitError {
    fn from(problem: Problem) -> SubmitError {
        Trouble::from(problem).error()
    }
}

/// What a failed transaction means for its commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// The connection is gone, and with it everything that was not committed.
    Lost(String),
    /// The database takes nothing, whatever the command.
    Away(String),
    /// Somebody else was in the way for too long.
    Busy(String),
    /// A command that cannot be carried out.
    Poison(String),
    /// Nobody can tell whether the batch was written.
    Unknown(String),
    /// This store is not to be written by this program.
    Closed(String),
}

impl Trouble {
    /// Whether the commands of a batch are worth another try, each alone.
    pub(super) fn may_spare_others(&self) -> bool {
        matches!(self, Trouble::Poison(_))
    }

    /// Whether the same batch is worth another try on another connection. Nothing of it was done.
    pub(super) fn is_worth_another_try(&self) -> bool {
        matches!(self, Trouble::Lost(_))
    }

    pub(super) fn makes_unhealthy(&self) -> bool {
        !matches!(self, Trouble::Poison(_) | Trouble::Busy(_))
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Trouble::Lost(reason)
            | Trouble::Away(reason)
            | Trouble::Busy(reason)
            | Trouble::Poison(reason)
            | Trouble::Unknown(reason)
            | Trouble::Closed(reason) => reason,
        }
    }

    pub(super) fn error(&self) -> SubmitError {
        match self.clone() {
            Trouble::Lost(reason) | Trouble::Away(reason) | Trouble::Busy(reason) | Trouble::Closed(reason) => {
                SubmitError::Unavailable { reason }
            }
            Trouble::Poison(reason) => SubmitError::Broken { reason },
            Trouble::Unknown(reason) => SubmitError::OutcomeUnknown { reason },
        }
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        match problem {
            Problem::Sql(error) => error.into(),
            Problem::Connection(reason) => Trouble::Away(reason),
            Problem::Unreadable(reason) => Trouble::Poison(reason),
        }
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Trouble {
        let reason = told(&error);
        let Some(code) = error.code() else { return Trouble::Lost(reason) };
        if ends_connection(code) {
            return Trouble::Lost(reason);
        }
        if [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::QUERY_CANCELED,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
        ]
        .contains(code)
        {
            return Trouble::Busy(format!("another node or query was in the way for too long: {reason}"));
        }
        // A server that only reads, has no room or memory or connections left, refuses us, or has lost our tables.
        let away = [
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_COLUMN,
            SqlState::INVALID_SCHEMA_NAME,
            SqlState::INSUFFICIENT_PRIVILEGE,
        ];
        let class = code.code().get(..2).unwrap_or_default();
        if away.contains(code) || ["28", "3D", "53", "58"].contains(&class) {
            return Trouble::Away(reason);
        }
        Trouble::Poison(reason)
    }
}
