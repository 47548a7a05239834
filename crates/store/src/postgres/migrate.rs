//! Bringing a schema to the tables and the fold of this program, one node at a time.
//!
//! Migrations are numbered files, the same numbers and names as for SQLite. Everything happens in one transaction: either
//! the schema is as this program wants it, or it is as it was. `format` is the version of the fold: an older one rebuilds
//! the derived rows from the log, a newer one may only be read.

use deadpool_postgres::ClientWrapper;
use rookery_core::{LogId, Seq, Table};

use super::address::Address;
use super::connection::{Frame, HEAD, LOCKED_HEAD, Question, ask, stored};
use super::error::{OpenError, Problem, told};
use super::{log, schema, transact};
use crate::FORMAT;
use crate::migration::{Migration, is_known_history, newest_version};
use crate::query::LogQuery;
use crate::replay::Fold;

pub(super) const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "tables", sql: include_str!("../../migrations/postgres/0001_tables.sql") }];

const OLDEST_SERVER: i32 = 140_000;
const CHUNK: u32 = 1_000;

/// What a new log is called, and the project that it is of.
#[derive(Clone, Debug)]
pub struct Birth {
    pub log_id: LogId,
    pub project_id: String,
    pub project: String,
}

/// Whether a store that was opened may be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fitness {
    Writable,
    /// Made by a newer program.
    OnlyToRead(String),
}

pub(super) fn newest() -> u32 {
    newest_version(MIGRATIONS)
}

/// Creates or migrates the schema, then sees to the derived rows. Nodes that start at once wait for each other.
pub(super) async fn prepare(
    client: &ClientWrapper,
    address: &Address,
    birth: &Birth,
    migrations: &[Migration],
) -> Result<Fitness, OpenError> {
    begin(client, address).await?;
    let prepared = in_transaction(client, address, birth, migrations).await;
    let end = if prepared.is_ok() { "COMMIT" } else { "ROLLBACK" };
    match (prepared, client.batch_execute(end).await) {
        (Ok(_), Err(error)) => Err(cannot(address, &Problem::Sql(error))),
        (prepared, _) => prepared,
    }
}

/// Begins a transaction in which nobody else changes the schema.
pub(super) async fn begin(client: &ClientWrapper, address: &Address) -> Result<(), OpenError> {
    check_server(client).await.map_err(|error| cannot(address, &error))?;
    let run = async {
        client.batch_execute("BEGIN").await?;
        // Locks of this kind are the database's: the name of the schema tells ours from others.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('rookery schema ' || $1, 0))";
        client.query(lock, &[&address.schema()]).await.map(drop)
    };
    run.await.map_err(|error| cannot(address, &Problem::Sql(error)))
}

async fn check_server(client: &ClientWrapper) -> Result<(), Problem> {
    let row = client.query_one("SELECT current_setting('server_version_num')::integer", &[]).await?;
    let version: i32 = row.try_get(0)?;
    if version < OLDEST_SERVER {
        return Err(Problem::Connection(format!("PostgreSQL {} is too old: 14 or newer is needed", version / 10_000)));
    }
    Ok(())
}

/// Brings the schema up within a transaction that [`begin`] began.
pub(super) async fn in_transaction(
    client: &ClientWrapper,
    address: &Address,
    birth: &Birth,
    migrations: &[Migration],
) -> Result<Fitness, OpenError> {
    let newest = newest_version(migrations);
    let failed = |error: Problem| cannot(address, &error);
    match version(client, address, migrations).await.map_err(failed)? {
        Found::Nothing => create(client, address, birth, migrations).await?,
        Found::Foreign => return Err(OpenError::Foreign { schema: address.schema().to_owned() }),
        Found::Development => return Err(OpenError::Development { schema: address.schema().to_owned() }),
        Found::Version(version) if version > newest => return Ok(Fitness::OnlyToRead(newer_schema(version))),
        Found::Version(version) => {
            refuse_moved(client, address).await?;
            if version < newest {
                // Whoever writes right now finishes first; whoever writes next sees the new version.
                ask(client, Frame::Bare, &[Question::new(LOCKED_HEAD, vec![])]).await.map_err(|e| failed(e.into()))?;
                upgrade(client, address, version, migrations).await?;
            }
        }
    }
    fold_anew_if_older(client).await.map_err(failed)
}

/// A store that has moved is left as it is.
async fn refuse_moved(client: &ClientWrapper, address: &Address) -> Result<(), OpenError> {
    let failed = |error: Problem| cannot(address, &error);
    let head = ask(client, Frame::Bare, &[Question::new(HEAD, vec![])]).await.map_err(|error| failed(error.into()))?;
    match stored(&head[0]).map_err(failed)?.moved_to {
        Some(to) => Err(OpenError::Moved { address: address.to_string(), to }),
        None => Ok(()),
    }
}

pub(super) fn newer_schema(version: u32) -> String {
    let known = newest();
    format!(
        "a newer node has brought the store to schema version {version}, and this program knows {known}: update this node"
    )
}

pub(super) fn other_format(format: u32) -> String {
    if format > FORMAT {
        return format!(
            "a newer node has brought the rows to format {format}, and this program writes {FORMAT}: update this node"
        );
    }
    format!("the rows have format {format} and this program writes {FORMAT}: start it again to rebuild them")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nothing,
    Foreign,
    /// A store of a development version from before the first release: its tables and events mean other things.
    Development,
    Version(u32),
}

/// What the schema holds.
pub(super) async fn version(
    client: &ClientWrapper,
    address: &Address,
    migrations: &[Migration],
) -> Result<Found, Problem> {
    let sql = "SELECT count(*) FILTER (WHERE relname = 'schema_version'), count(*) FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind IN ('r', 'p', 'v', 'm')";
    let row = client.query_one(sql, &[&address.schema()]).await?;
    let (ours, all): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if ours == 0 {
        return Ok(if all == 0 { Found::Nothing } else { Found::Foreign });
    }
    let applied = applied(client).await?;
    if !is_known_history(&applied, migrations) {
        return Ok(Found::Development);
    }
    Ok(Found::Version(applied.last().map_or(0, |(version, _)| *version)))
}

/// The migrations that the schema went through, oldest first.
async fn applied(client: &ClientWrapper) -> Result<Vec<(u32, String)>, Problem> {
    let rows = client.query("SELECT version, name FROM schema_version ORDER BY version", &[]).await?;
    let read = |row: &tokio_postgres::Row| {
        let version = u32::try_from(row.try_get::<_, i32>(0)?).unwrap_or(u32::MAX);
        Ok((version, row.try_get(1)?))
    };
    rows.iter().map(read).collect()
}

async fn create(
    client: &ClientWrapper,
    address: &Address,
    birth: &Birth,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    let schema = address.schema();
    let begin = async {
        // One that is there may be ours to use without the right to create any.
        let there = client.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[&schema]).await?;
        if there.is_empty() {
            client.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
        }
        client.batch_execute("CREATE TABLE schema_version (version integer PRIMARY KEY, name text NOT NULL)").await
    };
    begin.await.map_err(|error| cannot(address, &Problem::Sql(error)))?;
    for migration in migrations {
        apply(client, address, migration).await?;
    }
    let born = async {
        let sql = "INSERT INTO log_head (one, log_id, floor, head, format, schema, project)
            VALUES (1, $1, 1, 0, $2, $3, $4)";
        let version = newest_version(migrations);
        let (format, version) = (FORMAT.cast_signed(), version.cast_signed());
        client.execute(sql, &[&birth.log_id.as_str(), &format, &version, &super::text::stored(&birth.project)]).await?;
        let sql = "INSERT INTO meta (name, value) VALUES ('project_id', $1)";
        client.execute(sql, &[&super::text::stored(&birth.project_id)]).await
    };
    born.await.map(drop).map_err(|error| cannot(address, &Problem::Sql(error)))
}

async fn upgrade(
    client: &ClientWrapper,
    address: &Address,
    from: u32,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    for migration in migrations.iter().filter(|migration| migration.version > from) {
        tracing::info!(version = migration.version, name = migration.name, "changing the schema");
        apply(client, address, migration).await?;
        let sql = "UPDATE log_head SET schema = $1";
        let set = client.execute(sql, &[&migration.version.cast_signed()]).await;
        set.map_err(|error| cannot(address, &Problem::Sql(error)))?;
    }
    Ok(())
}

async fn apply(client: &ClientWrapper, address: &Address, migration: &Migration) -> Result<(), OpenError> {
    let run = async {
        client.batch_execute(migration.sql).await?;
        let sql = "INSERT INTO schema_version (version, name) VALUES ($1, $2)";
        client.execute(sql, &[&migration.version.cast_signed(), &migration.name]).await
    };
    run.await.map(drop).map_err(|error| OpenError::Migrate {
        schema: address.schema().to_owned(),
        version: migration.version,
        reason: told(&error),
    })
}

async fn fold_anew_if_older(client: &ClientWrapper) -> Result<Fitness, Problem> {
    let found = stored(&ask(client, Frame::Bare, &[Question::new(HEAD, vec![])]).await?.pop().unwrap_or_default())?;
    if found.format > FORMAT {
        return Ok(Fitness::OnlyToRead(other_format(found.format)));
    }
    if found.format < FORMAT {
        tracing::info!(format = found.format, now = FORMAT, "rebuilding the derived rows from the log");
        ask(client, Frame::Bare, &[Question::new(LOCKED_HEAD, vec![])]).await?;
        rebuild(client, found.head.floor).await?;
    }
    Ok(Fitness::Writable)
}

/// Replaces the derived rows by the fold of the log, in the open transaction.
async fn rebuild(client: &ClientWrapper, floor: Seq) -> Result<(), Problem> {
    let mut fold = Fold::default();
    let mut after = Seq(floor.0.saturating_sub(1));
    loop {
        let query = LogQuery::after(after, CHUNK);
        let rows = ask(client, Frame::Bare, &[log::read(&query)]).await?.pop().unwrap_or_default();
        let rows = log::found(&query, &rows)?;
        let Some(last) = rows.last() else { break };
        after = last.seq;
        rows.iter().for_each(|row| fold.add(row));
    }
    write_fold(client, &fold).await
}

/// Puts a fold in the place of the derived rows, in the open transaction.
pub(super) async fn write_fold(client: &ClientWrapper, fold: &Fold) -> Result<(), Problem> {
    for table in Table::ALL {
        ask(client, Frame::Bare, &[schema::clear(table)]).await?;
    }
    let rows: Vec<_> = fold.rows().iter().collect();
    for chunk in rows.chunks(CHUNK as usize) {
        ask(client, Frame::Bare, &schema::put(chunk.iter().copied())).await?;
    }
    let last = [
        Question::new("DELETE FROM tallies", vec![]),
        transact::count_anew(&fold.tallies()),
        Question::new("UPDATE log_head SET format = $1", vec![Box::new(FORMAT.cast_signed())]),
    ];
    ask(client, Frame::Bare, &last).await?;
    Ok(())
}

fn cannot(address: &Address, problem: &Problem) -> OpenError {
    OpenError::Prepare { schema: address.schema().to_owned(), reason: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use rookery_testkit::postgres::Schema;

    use super::super::connection::Connector;
    use super::*;

    /// All migrations and one more, with its version.
    fn with_next(sql: &'static str) -> (Vec<Migration>, u32) {
        let version = newest() + 1;
        let next = Migration { version, name: "next", sql };
        (MIGRATIONS.iter().copied().chain([next]).collect(), version)
    }

    async fn prepare_at(url: &str, migrations: &[Migration]) -> Result<Fitness, OpenError> {
        let connector = Connector::new(url.parse()?)?;
        let client = connector.preparing().await.unwrap();
        let birth = Birth { log_id: "log_a".into(), project_id: "project-a".to_owned(), project: "project".to_owned() };
        prepare(&client, connector.address(), &birth, migrations).await
    }

    fn schema_of(schema: &Schema) -> String {
        schema.psql("SELECT schema FROM log_head; SELECT string_agg(name, ',') FROM schema_version").unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn migration_by_concurrent_nodes_runs_once() {
        let (schema, (upgraded, next)) = (Schema::new().unwrap(), with_next("CREATE TABLE next (a integer)"));
        let url = schema.url();
        assert_eq!(prepare_at(&url, MIGRATIONS).await.unwrap(), Fitness::Writable);
        let (a, b, c) =
            tokio::join!(prepare_at(&url, &upgraded), prepare_at(&url, &upgraded), prepare_at(&url, &upgraded));
        for fitness in [a, b, c] {
            assert_eq!(fitness.unwrap(), Fitness::Writable);
        }
        assert_eq!(schema_of(&schema), format!("{next}\ntables,next"));
        let older_program = prepare_at(&url, MIGRATIONS).await.unwrap();
        assert!(matches!(&older_program, Fitness::OnlyToRead(reason) if reason.contains("update this node")));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn migration_that_fails_leaves_the_schema_unchanged() {
        let (schema, (upgraded, bad)) =
            (Schema::new().unwrap(), with_next("CREATE TABLE half (a integer); SELECT nothing FROM nowhere"));
        prepare_at(&schema.url(), MIGRATIONS).await.unwrap();
        let failed = prepare_at(&schema.url(), &upgraded).await;
        assert!(matches!(failed, Err(OpenError::Migrate { version, .. }) if version == bad), "{failed:?}");
        assert_eq!(schema_of(&schema), format!("{}\ntables", bad - 1));
        assert_eq!(schema.psql("SELECT to_regclass('half') IS NULL").unwrap(), "t");
    }
}
