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
use crate::query::LogQuery;
use crate::replay::Fold;

pub(super) struct Migration {
    pub(super) version: u32,
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
}

pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("../../migrations/postgres/0001_initial.sql") },
    Migration { version: 2, name: "workflows", sql: include_str!("../../migrations/postgres/0002_workflows.sql") },
    Migration { version: 3, name: "messages", sql: include_str!("../../migrations/postgres/0003_messages.sql") },
    Migration { version: 4, name: "contexts", sql: include_str!("../../migrations/postgres/0004_contexts.sql") },
    Migration { version: 5, name: "workspaces", sql: include_str!("../../migrations/postgres/0005_workspaces.sql") },
    Migration { version: 6, name: "artifacts", sql: include_str!("../../migrations/postgres/0006_artifacts.sql") },
    Migration { version: 7, name: "clutch", sql: include_str!("../../migrations/postgres/0007_clutch.sql") },
    Migration { version: 8, name: "schemas", sql: include_str!("../../migrations/postgres/0008_schemas.sql") },
    Migration { version: 9, name: "deliveries", sql: include_str!("../../migrations/postgres/0009_deliveries.sql") },
    Migration { version: 10, name: "clocks", sql: include_str!("../../migrations/postgres/0010_clocks.sql") },
    Migration { version: 11, name: "outboxes", sql: include_str!("../../migrations/postgres/0011_outboxes.sql") },
    Migration { version: 12, name: "ended runs", sql: include_str!("../../migrations/postgres/0012_ended_runs.sql") },
    Migration { version: 13, name: "teams", sql: include_str!("../../migrations/postgres/0013_teams.sql") },
];

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
    MIGRATIONS.last().map_or(0, |migration| migration.version)
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
    let newest = migrations.last().map_or(0, |migration| migration.version);
    let failed = |error: Problem| cannot(address, &error);
    match version(client, address).await.map_err(failed)? {
        Found::Nothing => create(client, address, birth, migrations).await?,
        Found::Foreign => return Err(OpenError::Foreign { schema: address.schema().to_owned() }),
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
    Version(u32),
}

/// What the schema holds.
pub(super) async fn version(client: &ClientWrapper, address: &Address) -> Result<Found, Problem> {
    let sql = "SELECT count(*) FILTER (WHERE relname = 'schema_version'), count(*) FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind IN ('r', 'p', 'v', 'm')";
    let row = client.query_one(sql, &[&address.schema()]).await?;
    let (ours, all): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if ours == 0 {
        return Ok(if all == 0 { Found::Nothing } else { Found::Foreign });
    }
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[]).await?;
    Ok(Found::Version(u32::try_from(row.try_get::<_, i32>(0)?).unwrap_or(u32::MAX)))
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
        let version = migrations.last().map_or(0, |migration| migration.version);
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
