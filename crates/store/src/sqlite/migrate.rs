//! Bringing a database to the schema and the fold of this program.
//!
//! Migrations are numbered files, applied in one transaction each, after a copy was made. `format` is the version of the
//! fold: an older one rebuilds the derived rows from the log, a newer one may only be read.

use std::path::Path;

use rookery_core::{LogId, Table};
use rusqlite::{Connection, OptionalExtension, params};

use super::connection::{APPLICATION_ID, begin, beside, commit, has_table, roll_back, stored};
use super::error::{OpenError, Problem};
use super::{FORMAT, backup, log, schema, transact};
use crate::migration::{Migration, is_known_history, newest_version};
use crate::offline::other_format;
use crate::query::LogQuery;
use crate::replay::Fold;

pub(super) const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "tables", sql: include_str!("../../migrations/sqlite/0001_tables.sql") }];

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
    refuse_development(connection, path, migrations)?;
    let newest = newest_version(migrations);
    let version = version(connection).map_err(sql)?;
    if version.is_some()
        && let Some(to) = moved_to(connection).map_err(sql)?
    {
        return Err(OpenError::Moved { path: path.to_owned(), to });
    }
    match version {
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
    Ok(applied(connection)?.last().map(|(version, _)| *version))
}

/// The migrations that the database went through, oldest first.
fn applied(connection: &Connection) -> rusqlite::Result<Vec<(u32, String)>> {
    if !has_table(connection, "schema_version")? {
        return Ok(vec![]);
    }
    let mut statement = connection.prepare("SELECT version, name FROM schema_version ORDER BY version")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Refuses a store of a development version from before the first release: its tables and events mean other things.
pub(super) fn refuse_development(
    connection: &Connection,
    path: &Path,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    let applied = applied(connection).map_err(|source| OpenError::Sql { path: path.to_owned(), source })?;
    if is_known_history(&applied, migrations) {
        return Ok(());
    }
    Err(OpenError::Development { path: path.to_owned() })
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
        mark_clean(connection)
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
    // In the order of their keys, so that a table grows at its end.
    let mut rows: Vec<_> = fold.rows().iter().collect();
    rows.sort_unstable_by_key(|(key, _)| *key);
    for (key, row) in rows {
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
    Ok(named(connection, "clean")?.as_deref() == Some("1"))
}

/// Says that the store was closed as it should be.
pub(super) fn mark_clean(connection: &Connection) -> rusqlite::Result<()> {
    name(connection, "clean", "1")
}

/// Says that somebody writes the store and has not closed it yet.
pub(super) fn mark_in_use(connection: &Connection) -> rusqlite::Result<()> {
    name(connection, "clean", "0")
}

/// Where the store went, if it was moved away.
pub(super) fn moved_to(connection: &Connection) -> rusqlite::Result<Option<String>> {
    named(connection, "moved_to")
}

pub(super) fn mark_moved(connection: &Connection, to: &str) -> rusqlite::Result<()> {
    name(connection, "moved_to", to)
}

/// Says that this is where the store is.
pub(super) fn mark_here(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM meta WHERE name = 'moved_to'", []).map(drop)
}

/// The project's id, if a store that it came from had one.
pub(super) fn project_id(connection: &Connection) -> rusqlite::Result<Option<String>> {
    named(connection, "project_id")
}

pub(super) fn mark_project(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    name(connection, "project_id", id)
}

fn named(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    connection.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).optional()
}

fn name(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", [name, value]).map(drop)
}

/// What SQLite finds wrong with the file by a quick look; `None` if nothing.
pub(super) fn quick_check(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((found != "ok").then_some(found))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rookery_core::model::ColumnKind;

    use super::*;
    use crate::sqlite::connection;

    const BIRTH_LOG: &str = "log_a";

    fn new_store(path: &Path, migrations: &[Migration]) -> (Connection, Fitness) {
        connection::create_private(path).unwrap();
        let connection = connection::writer(path).unwrap();
        let birth = Birth { log_id: &LogId::from(BIRTH_LOG), project: "p" };
        let fitness = prepare(&connection, path, birth, migrations).unwrap();
        (connection, fitness)
    }

    #[test]
    fn derived_tables_are_as_they_are_described() {
        let folder = tempfile::tempdir().unwrap();
        let (connection, _) = new_store(&folder.path().join("rookery.db"), MIGRATIONS);
        for table in Table::ALL {
            let mut statement = connection.prepare(&format!("PRAGMA table_info({})", table.name())).unwrap();
            let found = statement.query_map([], |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
            let found: Vec<(String, String)> = found.map(Result::unwrap).collect();
            let kind = |kind| if kind == ColumnKind::Text { "TEXT" } else { "INTEGER" };
            let described = table.columns().iter().map(|column| (column.name, kind(column.kind)));
            let wanted: Vec<(String, String)> = std::iter::once(("key", "TEXT"))
                .chain(described)
                .chain([("doc", "BLOB")])
                .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
                .collect();
            assert_eq!(found, wanted, "{}", table.name());
            let indexes = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL";
            let mut statement = connection.prepare(indexes).unwrap();
            let found = statement.query_map([table.name()], |row| row.get(0)).unwrap();
            let found: BTreeSet<String> = found.map(Result::unwrap).collect();
            let indexed = table.columns().iter().filter(|column| column.indexed);
            let wanted = indexed.map(|column| format!("{}_{}", table.name(), column.name)).collect();
            assert_eq!(found, wanted, "{}", table.name());
        }
    }

    #[test]
    fn every_lookup_and_condition_uses_an_index() {
        let folder = tempfile::tempdir().unwrap();
        let (connection, _) = new_store(&folder.path().join("rookery.db"), MIGRATIONS);
        let indexed = Table::ALL
            .into_iter()
            .flat_map(|table| table.columns().iter().map(move |column| (table, column)))
            .filter(|(_, column)| column.indexed);
        for (table, column) in indexed {
            let sql = format!("EXPLAIN QUERY PLAN SELECT doc FROM {} WHERE {} = ?1", table.name(), column.name);
            let plan: String = connection.query_row(&sql, ["x"], |row| row.get(3)).unwrap();
            assert!(plan.contains(&format!("USING INDEX {}_{}", table.name(), column.name)), "{plan}");
        }
    }

    /// What agents ask for with every call is read in order from one stretch of an index.
    #[test]
    fn pages_of_messages_and_versions_are_one_range_of_an_index() {
        use crate::query::{ColumnTest, Order, RowQuery};
        use crate::sql::{self, Dialect};
        let folder = tempfile::tempdir().unwrap();
        let (connection, _) = new_store(&folder.path().join("rookery.db"), MIGRATIONS);
        for (table, column, order_by) in [
            (Table::Deliveries, "pending", "sent"),
            (Table::Deliveries, "state", "sent"),
            (Table::Messages, "audience", "sent"),
            (Table::Messages, "channel", "at"),
            (Table::Versions, "document", "version"),
        ] {
            for order in [Order::Ascending, Order::Descending] {
                let query = RowQuery::all(table)
                    .with(column, ColumnTest::Is("x".into()))
                    .with(order_by, ColumnTest::Above(7))
                    .ordered_by(order_by)
                    .at_most(Some(100));
                let sql = sql::list(Dialect::Sqlite, &RowQuery { order, ..query });
                let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", sql.text)).unwrap();
                let plan = statement.query_map(["x", "7", "100"], |row| row.get::<_, String>(3)).unwrap();
                let plan: Vec<String> = plan.map(Result::unwrap).collect();
                let index = format!("{}_{column} ({column}=? AND {order_by}>?)", table.name());
                assert!(matches!(&plan[..], [step] if step.ends_with(&index)), "{plan:?}");
            }
        }
    }

    /// All migrations and one more, with its version.
    fn and_then(sql: &'static str) -> (Vec<Migration>, u32) {
        let version = newest_version(MIGRATIONS) + 1;
        let next = Migration { version, name: "next", sql };
        (MIGRATIONS.iter().copied().chain([next]).collect(), version)
    }

    #[test]
    fn an_older_schema_is_copied_and_then_brought_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rookery.db");
        drop(new_store(&path, MIGRATIONS));
        let (upgraded, next) = and_then("CREATE TABLE next (a INTEGER) STRICT");
        let (connection, fitness) = new_store(&path, &upgraded);
        assert_eq!((version(&connection).unwrap(), fitness), (Some(next), Fitness::Writable));
        let copy = connection::reader(&beside(&path, &format!(".schema-{}", next - 1))).unwrap();
        assert_eq!(version(&copy).unwrap(), Some(next - 1));
        assert_eq!(stored(&copy).unwrap().head.log.as_str(), BIRTH_LOG);
        drop(connection);
        // An older program may read what the newer one left.
        let (_, fitness) = new_store(&path, MIGRATIONS);
        assert!(matches!(fitness, Fitness::OnlyToRead(_)));
    }

    #[test]
    fn a_migration_that_fails_leaves_the_schema_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rookery.db");
        let (connection, _) = new_store(&path, MIGRATIONS);
        let (upgraded, bad) = and_then("CREATE TABLE half (a INTEGER) STRICT; SELECT nothing FROM nowhere");
        let birth = Birth { log_id: &LogId::from(BIRTH_LOG), project: "p" };
        let failed = prepare(&connection, &path, birth, &upgraded);
        assert!(matches!(failed, Err(OpenError::Migrate { version, .. }) if version == bad));
        assert_eq!(version(&connection).unwrap(), Some(bad - 1));
        let half = "SELECT count(*) FROM sqlite_schema WHERE name = 'half'";
        assert_eq!(connection.query_row(half, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}
