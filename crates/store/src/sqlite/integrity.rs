//! What SQLite says of a file itself, and whether a file is a store at all.

use std::path::Path;

use rusqlite::Connection;

use super::connection::{self, APPLICATION_ID};
use super::error::OpenError;
use super::migrate::{self, MIGRATIONS};
use crate::offline::OfflineError;

/// How many problems SQLite's own check tells at most.
const PROBLEMS: u32 = 100;

/// What SQLite's own check of the file finds; empty if nothing.
pub fn integrity(path: &Path) -> Result<Vec<String>, OfflineError> {
    ensure_not_empty(path)?;
    let connection = open_existing(path)?;
    Ok(check(&connection)?)
}

/// Refuses a file without a byte, which was a store once or is none.
pub(super) fn ensure_not_empty(path: &Path) -> Result<(), OpenError> {
    if connection::is_empty(path) { Err(OpenError::Empty { path: path.to_owned() }) } else { Ok(()) }
}

pub(super) fn check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({PROBLEMS})"))?;
    let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// Opens a file for reading if it is a store.
pub(super) fn open_existing(path: &Path) -> Result<Connection, OpenError> {
    if !path.is_file() {
        return Err(OpenError::Absent { path: path.to_owned() });
    }
    let failed = |source| OpenError::Sql { path: path.to_owned(), source };
    let connection = connection::reader(path).map_err(failed)?;
    let id: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(failed)?;
    if id != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    migrate::refuse_development(&connection, path, MIGRATIONS)?;
    Ok(connection)
}
