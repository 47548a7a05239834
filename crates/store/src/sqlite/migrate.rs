//! Bringing a database to the schema and the fold of this program.
//!
//! Migrations are numbered files, applied in one transaction each, after a copy was made. `format` is the version of the
//! fold: an older one rebuilds the derived rows from the log, a newer one may only be read.

use std::path::Path;

use rookery_core::{LogId, Table};
use rusqlite::{Connection, OptionalExtension, params};

use super::connection::{APPLICATION_ID, begin, beside, commit, roll_back, stored};
use super::error::{OpenError, Problem};
use super::{FORMAT, backup, log, schema, transact};
use crate::query::LogQuery;
use crate::replay::Fold;

pub(super) struct Migration {
    pub(super) version: u32,
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
}

pub(super) const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "initial", sql: include_str!("../../migrations/sqlite/0001_initial.sql") }];

const CHUNK: u32 = 1_000;

/// What a new log is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Birth<'a> {
    pub(super) log_id: &'a LogId,
    pub(super) project: &'a str,
}

/// Whether a store that was opened may be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fitness {
    Writable,
    /// Made by a newer program.
    OnlyToRead(String),
}

/// Creates or migrates the schema, then sees to the derived rows.
pub(super) fn prepare(
    connection: &Connection,
    path: &Path,
    birth: Birth<'_>,
    migrations: &[Migration],
) -> Result<Fitness, OpenError> {
    let sql = |source| OpenError::Sql { path: path.to_owned(), source };
    let newest = migrations.last().map_or(0, |migration| migration.version);
    match version(connection).map_err(sql)? {
        None if is_empty(connection).map_err(sql)? => create(connection, path, birth, migrations)?,
        None => return Err(OpenError::Foreign { path: path.to_owned() }),
        Some(version) if version > newest => {
            return Ok(Fitness::OnlyToRead(format!(
                "its schema has version {version} and this program knows {newest}; use the newer program"
            )));
        }
        Some(version) if version < newest => upgrade(connection, path, version, migrations)?,
        Some(_) => {}
    }
    fold_anew_if_older(connection).map_err(|source| OpenError::Rebuild { path: path.to_owned(), source })
}

/// The version of the schema; `None` if there is none.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<Option<u32>> {
    let known = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'";
    if connection.query_row(known, [], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    connection.query_row("SELECT max(version) FROM schema_version", [], |row| row.get(0))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// All of a new database or nothing of it.
fn create(connection: &Connection, path: &Path, birth: Birth<'_>, migrations: &[Migration]) -> Result<(), OpenError> {
    connection
        .execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}"))
        .map_err(|source| OpenError::Sql { path: path.to_owned(), source })?;
    in_transaction(connection, |connection| {
        connection
            .execute_batch("CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT")?;
        migrations.iter().try_for_each(|migration| apply(connection, migration))?;
        connection.execute(
            "INSERT INTO log_head (one, log_id, floor, head, format, project) VALUES (1, ?1, 1, 0, ?2, ?3)",
            params![birth.log_id.as_str(), FORMAT, birth.project],
        )?;
        set_clean(connection, true)
    })
    .map_err(|source| OpenError::Migrate { path: path.to_owned(), version: 1, source })
}

fn upgrade(connection: &Connection, path: &Path, from: u32, migrations: &[Migration]) -> Result<(), OpenError> {
    let copy = beside(path, &format!(".schema-{from}"));
    backup::copy_database(path, &copy, &mut |_| {})
        .map_err(|source| OpenError::Copy { path: path.to_owned(), source: Box::new(source) })?;
    tracing::info!(copy = %copy.display(), "copied the store before changing its schema");
    for migration in migrations.iter().filter(|migration| migration.version > from) {
        in_transaction(connection, |connection| apply(connection, migration)).map_err(|source| OpenError::Migrate {
            path: path.to_owned(),
            version: migration.version,
            source,
        })?;
    }
    Ok(())
}

fn apply(connection: &Connection, migration: &Migration) -> rusqlite::Result<()> {
    connection.execute_batch(migration.sql)?;
    connection
        .execute(
            "INSERT INTO schema_version (version, name) VALUES (?1, ?2)",
            params![migration.version, migration.name],
        )
        .map(drop)
}

fn fold_anew_if_older(connection: &Connection) -> Result<Fitness, Problem> {
    let format = stored(connection)?.format;
    if format > FORMAT {
        return Ok(Fitness::OnlyToRead(other_format(format)));
    }
    if format < FORMAT {
        tracing::info!(format, now = FORMAT, "rebuilding the derived rows from the log");
        in_transaction(connection, rebuild)?;
    }
    Ok(Fitness::Writable)
}

pub(super) fn other_format(format: u32) -> String {
    format!("its rows have format {format} and this program writes format {FORMAT}; use the program that made them")
}

/// Replaces the derived rows by the fold of the log. The caller commits.
pub(super) fn rebuild(connection: &Connection) -> Result<(), Problem> {
    let head = stored(connection)?.head;
    let mut fold = Fold::default();
    let mut after = rookery_core::Seq(head.floor.0.saturating_sub(1));
    loop {
        let rows = log::read(connection, &LogQuery::after(after, CHUNK))?;
        let Some(last) = rows.last() else { break };
        after = last.seq;
        rows.iter().for_each(|row| fold.add(row));
    }
    write_fold(connection, &fold)
}

pub(super) fn write_fold(connection: &Connection, fold: &Fold) -> Result<(), Problem> {
    for table in Table::ALL {
        schema::clear(connection, table)?;
    }
    for (key, row) in fold.rows() {
        schema::put(connection, key, row)?;
    }
    connection.execute("DELETE FROM tallies", [])?;
    transact::count(connection, &fold.tallies())?;
    connection.execute("UPDATE log_head SET format = ?1", [FORMAT])?;
    Ok(())
}

fn in_transaction<E: From<rusqlite::Error>>(
    connection: &Connection,
    run: impl FnOnce(&Connection) -> Result<(), E>,
) -> Result<(), E> {
    begin(connection)?;
    let result = run(connection).and_then(|()| Ok(commit(connection)?));
    if result.is_err() {
        // The first failure is the one to tell; closing the connection rolls back in any case.
        drop(roll_back(connection));
    }
    result
}

/// Whether the last one to write closed the store as it should.
pub(super) fn is_clean(connection: &Connection) -> rusqlite::Result<bool> {
    let found: Option<String> =
        connection.query_row("SELECT value FROM meta WHERE name = 'clean'", [], |row| row.get(0)).optional()?;
    Ok(found.as_deref() == Some("1"))
}

pub(super) fn set_clean(connection: &Connection, clean: bool) -> rusqlite::Result<()> {
    let value = if clean { "1" } else { "0" };
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('clean', ?1)", [value]).map(drop)
}

/// What SQLite finds wrong with the file by a quick look; `None` if nothing.
pub(super) fn quick_check(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((found != "ok").then_some(found))
}
