//! Rows of the log, written and read.

use rookery_core::kernel::caller::{Actor, Auth};
use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{AnyEvent, RunId, Seq, ThreadId, Timestamp};
use rusqlite::{Connection, params, params_from_iter};

use super::connection::{seq, stored_seq};
use super::error::Problem;
use super::schema::Bound;
use crate::offline::{Entry, RawRow};
use crate::query::{Bodies, LogQuery};
use crate::sql::{self, Dialect};

const APPEND: &str = "INSERT INTO log
    (seq, at, kind, version, run, thread, task, path, actor, concerns, auth, via, cause, part_index, fact, body_hash,
     body_in, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

/// A row as it is to be stored: the fact in the very bytes that are written, whatever its version.
#[derive(Debug)]
struct Raw<'a> {
    row: &'a LogRow,
    kind: &'a str,
    version: u32,
    fact: &'a [u8],
    body: Option<&'a Body>,
}

pub(super) fn append(connection: &Connection, rows: &[LogRow]) -> Result<(), Problem> {
    for row in rows {
        let (kind, version, fact) = (row.event.kind(), row.event.version(), row.event.encode());
        append_raw(connection, &Raw { row, kind, version, fact: &fact, body: row.body.as_ref() })?;
    }
    Ok(())
}

/// Appends rows in the bytes that another store had them in.
pub(super) fn append_entries(connection: &Connection, entries: &[Entry]) -> Result<(), Problem> {
    for Entry { raw, row } in entries {
        let (kind, version, fact) = (raw.kind.as_str(), raw.version, &raw.fact);
        append_raw(connection, &Raw { row, kind, version, fact, body: raw.body.as_ref() })?;
    }
    Ok(())
}

fn append_raw(connection: &Connection, raw: &Raw<'_>) -> Result<(), Problem> {
    let row = raw.row;
    let (body_in, bytes) = match raw.body.map(|body| &body.bytes) {
        Some(BodyBytes::Here(bytes)) => (Some("row"), Some(bytes)),
        Some(BodyBytes::Artifact) => (Some("artifact"), None),
        Some(BodyBytes::Gone) | None => (None, None),
    };
    connection.prepare_cached(APPEND)?.execute(params![
        stored_seq(row.seq),
        row.at.0,
        raw.kind,
        raw.version,
        row.run.as_ref().map(RunId::as_str),
        row.thread.as_ref().map(ThreadId::as_str),
        row.task().map(|task| task.as_str()),
        row.event.path().map(|path| path.key()),
        row.actor.to_string(),
        row.concerns(),
        row.auth.as_str(),
        row.via.as_deref(),
        row.cause.map(stored_seq),
        row.part_index,
        raw.fact,
        raw.body.map(|body| &body.sha256),
        body_in,
        bytes,
    ])?;
    Ok(())
}

/// Takes the texts out of rows.
pub(super) fn blank(connection: &Connection, blanked: &[(Seq, Vec<u8>)]) -> Result<(), Problem> {
    let mut statement =
        connection.prepare_cached("UPDATE log SET fact = ?2, body = NULL, body_in = NULL WHERE seq = ?1")?;
    for (seq, fact) in blanked {
        statement.execute(params![stored_seq(*seq), fact])?;
    }
    Ok(())
}

/// Whether a row keeps its body in this artifact, or something in the log refers to it.
pub(super) fn names_artifact(connection: &Connection, sha256: &str) -> Result<bool, Problem> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM log WHERE body_hash = ?1 AND body_in = 'artifact'
            UNION ALL SELECT 1 FROM artifact_refs WHERE sha256 = ?1 LIMIT 1",
    )?;
    Ok(statement.exists([sha256])?)
}

pub(super) fn read(connection: &Connection, query: &LogQuery) -> Result<Vec<LogRow>, Problem> {
    let sql = sql::log(Dialect::Sqlite, query);
    let mut statement = connection.prepare_cached(&sql.text)?;
    let mut rows = statement.query(params_from_iter(sql.values.iter().map(Bound)))?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < query.bytes
        && let Some(row) = rows.next()?
    {
        bytes += row.get_ref(9)?.as_blob().map_or(0, <[u8]>::len);
        found.push(decode(row, query.bodies)?);
    }
    Ok(found)
}

/// Rows as they are stored, in order.
pub(super) fn read_raw(connection: &Connection, after: Seq, limit: u32) -> Result<Vec<RawRow>, Problem> {
    let sql = format!("SELECT {}, body FROM log WHERE seq > ?1 ORDER BY seq LIMIT ?2", sql::LOG_COLUMNS);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![stored_seq(after), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(RawRow {
            seq: seq(row.get(0)?)?,
            at: Timestamp(row.get(1)?),
            kind: row.get(2)?,
            version: row.get(3)?,
            run: row.get(4)?,
            thread: row.get(5)?,
            actor: row.get(6)?,
            auth: row.get(7)?,
            via: row.get(12)?,
            cause: row.get::<_, Option<i64>>(8)?.map(seq).transpose()?,
            part_index: row.get(13)?,
            fact: row.get(9)?,
            body: body(row)?,
        });
    }
    Ok(found)
}

/// A row selected by [`sql::LOG_COLUMNS`], with its body's bytes as one more column if they are read.
fn decode(row: &rusqlite::Row<'_>, bodies: Bodies) -> Result<LogRow, Problem> {
    let place: i64 = row.get(0)?;
    let unreadable = |what: &str| Problem::Unreadable(format!("{what} of log row {place}"));
    let (kind, version): (String, u32) = (row.get(2)?, row.get(3)?);
    let bytes = row.get_ref(9)?.as_blob().map_err(rusqlite::Error::from)?;
    let fact = AnyEvent::decode(&kind, version, bytes)
        .map_err(|error| Problem::Unreadable(format!("log row {place}: {error}")))?;
    let body = match bodies {
        Bodies::Left => None,
        Bodies::Read => body(row)?,
    };
    Ok(LogRow {
        seq: seq(place)?,
        at: Timestamp(row.get(1)?),
        run: row.get::<_, Option<String>>(4)?.map(RunId::new),
        thread: row.get::<_, Option<String>>(5)?.map(ThreadId::new),
        actor: Actor::parse(&row.get::<_, String>(6)?),
        auth: Auth::parse(&row.get::<_, String>(7)?).ok_or_else(|| unreadable("the auth"))?,
        via: row.get(12)?,
        cause: row.get::<_, Option<i64>>(8)?.map(seq).transpose()?,
        part_index: row.get(13)?,
        event: fact,
        body,
    })
}

fn body(row: &rusqlite::Row<'_>) -> Result<Option<Body>, Problem> {
    let Some(sha256) = row.get::<_, Option<String>>(10)? else { return Ok(None) };
    let bytes = match row.get::<_, Option<String>>(11)?.as_deref() {
        Some("row") => BodyBytes::Here(row.get::<_, Option<Vec<u8>>>(14)?.unwrap_or_default()),
        Some(_) => BodyBytes::Artifact,
        None => BodyBytes::Gone,
    };
    Ok(Some(Body { sha256, bytes }))
}

#[cfg(test)]
mod tests {
    use rookery_core::LogId;

    use super::*;
    use crate::sqlite::connection;
    use crate::sqlite::migrate::{Birth, MIGRATIONS, prepare};

    /// How SQLite would answer, in its own words.
    fn plan(connection: &Connection, query: &LogQuery) -> String {
        let sql = sql::log(Dialect::Sqlite, query);
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", sql.text)).unwrap();
        let values = sql.values.iter().map(Bound);
        let lines = statement.query_map(params_from_iter(values), |row| row.get(3)).unwrap();
        lines.map(Result::<String, _>::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn no_question_to_the_log_scans_or_sorts_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rookery.db");
        connection::create_private(&path).unwrap();
        let connection = connection::writer(&path).unwrap();
        prepare(&connection, &path, Birth { log_id: &LogId::from("log_a"), project: "p" }, MIGRATIONS).unwrap();
        let some = |text: &str| Some(text.to_owned());
        let kinds = |kinds: &[&str]| Some(kinds.iter().map(|kind| (*kind).to_owned()).collect());
        for base in [LogQuery::newest(100), LogQuery::after(Seq(5), 100)] {
            let all = || base.clone();
            let cases = [
                (LogQuery { run: some("run_x"), ..all() }, "log_run"),
                (LogQuery { thread: some("thr_x"), ..all() }, "log_thread"),
                (LogQuery { task: some("task_x"), ..all() }, "log_task"),
                (LogQuery { path: some("src/"), ..all() }, "log_path"),
                (LogQuery { actor: some("a"), ..all() }, "log_actor"),
                (LogQuery { concerns: some("a"), ..all() }, "log_concerns"),
                (LogQuery { concerns: some("a"), kinds: kinds(&["a", "b"]), ..all() }, "log_actor"),
                (LogQuery { kinds: kinds(&["a"]), ..all() }, "log_kind"),
                (LogQuery { kinds: kinds(&["a", "b"]), ..all() }, "log_kind"),
                (LogQuery { kinds: kinds(&["a", "b"]), task: some("task_x"), ..all() }, "log_task"),
            ];
            for (query, index) in cases {
                let plan = plan(&connection, &query);
                assert!(plan.contains(index) && !plan.contains("TEMP B-TREE FOR ORDER BY"), "{query:?}: {plan}");
            }
            let places = vec![Seq(7), Seq(900_000)];
            for kinds in [None, kinds(&["a"])] {
                let plan = plan(&connection, &LogQuery { kinds, places: Some(places.clone()), ..all() });
                assert!(plan.contains("PRIMARY KEY (rowid=?)"), "{plan}");
            }
            let plain = plan(&connection, &base);
            assert!(!plain.contains("TEMP B-TREE"), "{plain}");
        }
    }
}
