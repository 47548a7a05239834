//! Rows of the log, written and read.

use rookery_core::kernel::caller::{Actor, Auth};
use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{AnyEvent, RunId, Seq, ThreadId, Timestamp};
use tokio_postgres::Row;

use super::connection::{Question, column, seq, some_text, stored_seq, text};
use super::error::Problem;
use super::text::stored;
use crate::offline::{Entry, RawRow};
use crate::query::{Bodies, LogQuery};
use crate::sql::{self, Dialect};

const APPEND: &str = "INSERT INTO log
    (seq, at, kind, version, run, thread, task, path, actor, concerns, auth, via, cause, part_index, fact, body_hash, body_in,
     body)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::integer[], $15::bytea[],
        $16::text[], $17::text[], $18::bytea[])";

const BLANK: &str = "UPDATE log SET fact = blank.fact, body = NULL, body_in = NULL
    FROM unnest($1::bigint[], $2::bytea[]) AS blank (seq, fact) WHERE log.seq = blank.seq";

/// A row as it is stored: the fact in the very bytes that were written, whatever its version.
#[derive(Debug)]
pub(super) struct Raw<'a> {
    pub(super) row: &'a LogRow,
    pub(super) kind: &'a str,
    pub(super) version: u32,
    pub(super) fact: Vec<u8>,
    pub(super) body: Option<&'a Body>,
}

impl<'a> From<&'a Entry> for Raw<'a> {
    fn from(entry: &'a Entry) -> Raw<'a> {
        let Entry { raw, row } = entry;
        Raw { row, kind: &raw.kind, version: raw.version, fact: raw.fact.clone(), body: raw.body.as_ref() }
    }
}

impl Raw<'_> {
    pub(super) fn of(row: &LogRow) -> Raw<'_> {
        let (kind, version, fact) = (row.event.kind(), row.event.version(), row.event.encode());
        Raw { row, kind, version, fact, body: row.body.as_ref() }
    }
}

/// Everything of the log rows, column by column.
pub(super) fn append(raws: Vec<Raw<'_>>) -> Question {
    let body_in = |raw: &Raw<'_>| match raw.body.map(|body| &body.bytes) {
        Some(BodyBytes::Here(_)) => Some("row"),
        Some(BodyBytes::Artifact) => Some("artifact"),
        Some(BodyBytes::Gone) | None => None,
    };
    let body = |raw: &Raw<'_>| match raw.body.map(|body| &body.bytes) {
        Some(BodyBytes::Here(bytes)) => Some(bytes.clone()),
        _ => None,
    };
    let owned = |text: Option<&str>| text.map(stored);
    Question::new(
        APPEND,
        vec![
            column(&raws, |raw| stored_seq(raw.row.seq)),
            column(&raws, |raw| raw.row.at.0),
            column(&raws, |raw| raw.kind.to_owned()),
            column(&raws, |raw| i32::try_from(raw.version).unwrap_or(i32::MAX)),
            column(&raws, |raw| owned(raw.row.run.as_ref().map(RunId::as_str))),
            column(&raws, |raw| owned(raw.row.thread.as_ref().map(ThreadId::as_str))),
            column(&raws, |raw| owned(raw.row.task().map(|task| task.as_str()))),
            column(&raws, |raw| owned(raw.row.event.path().map(|path| path.key()))),
            column(&raws, |raw| stored(&raw.row.actor.to_string())),
            column(&raws, |raw| stored(&raw.row.concerns())),
            column(&raws, |raw| raw.row.auth.as_str().to_owned()),
            column(&raws, |raw| owned(raw.row.via.as_deref())),
            column(&raws, |raw| raw.row.cause.map(stored_seq)),
            column(&raws, |raw| i32::try_from(raw.row.part_index).unwrap_or(i32::MAX)),
            column(&raws, |raw| raw.fact.clone()),
            column(&raws, |raw| raw.body.map(|body| body.sha256.clone())),
            column(&raws, |raw| owned(body_in(raw))),
            column(&raws, body),
        ],
    )
}

/// Takes the texts out of rows.
pub(super) fn blank(blanked: &[(Seq, Vec<u8>)]) -> Question {
    let (seqs, facts): (Vec<i64>, Vec<Vec<u8>>) =
        blanked.iter().map(|(seq, fact)| (stored_seq(*seq), fact.clone())).unzip();
    Question::new(BLANK, vec![Box::new(seqs), Box::new(facts)])
}

pub(super) fn read(query: &LogQuery) -> Question {
    sql::log(Dialect::Postgres, query).into()
}

/// What [`read`] found, up to the row that reaches the query's bound.
pub(super) fn found(query: &LogQuery, rows: &[Row]) -> Result<Vec<LogRow>, Problem> {
    let (mut found, mut bytes) = (Vec::with_capacity(rows.len()), 0);
    for row in rows {
        if bytes >= query.bytes {
            break;
        }
        bytes += row.try_get::<_, &[u8]>(9)?.len();
        found.push(decode(row, query.bodies)?);
    }
    Ok(found)
}

/// Rows of the log after a place, in order and in the very bytes that are stored.
pub(super) fn read_raw(after: Seq, limit: u32) -> Question {
    read(&LogQuery { bodies: Bodies::Read, ..LogQuery::after(after, limit) })
}

/// What [`read_raw`] found.
pub(super) fn raw(rows: &[Row]) -> Result<Vec<RawRow>, Problem> {
    let one = |row: &Row| {
        Ok(RawRow {
            seq: seq(row.try_get(0)?)?,
            at: Timestamp(row.try_get(1)?),
            kind: text(row, 2)?,
            version: u32::try_from(row.try_get::<_, i32>(3)?).unwrap_or(u32::MAX),
            run: some_text(row, 4)?,
            thread: some_text(row, 5)?,
            actor: text(row, 6)?,
            auth: text(row, 7)?,
            via: some_text(row, 12)?,
            cause: row.try_get::<_, Option<i64>>(8)?.map(seq).transpose()?,
            part_index: part_index(row)?,
            fact: row.try_get(9)?,
            body: body(row)?,
        })
    };
    rows.iter().map(one).collect()
}

/// A row selected by [`sql::LOG_COLUMNS`], with its body's bytes as one more column if they are read.
pub(super) fn decode(row: &Row, bodies: Bodies) -> Result<LogRow, Problem> {
    let place: i64 = row.try_get(0)?;
    let kind: &str = row.try_get(2)?;
    let version = u32::try_from(row.try_get::<_, i32>(3)?).unwrap_or(u32::MAX);
    let fact = AnyEvent::decode(kind, version, row.try_get(9)?)
        .map_err(|error| Problem::Unreadable(format!("log row {place}: {error}")))?;
    let auth =
        Auth::parse(row.try_get(7)?).ok_or_else(|| Problem::Unreadable(format!("the auth of log row {place}")))?;
    let body = match bodies {
        Bodies::Left => None,
        Bodies::Read => body(row)?,
    };
    Ok(LogRow {
        seq: seq(place)?,
        at: Timestamp(row.try_get(1)?),
        run: some_text(row, 4)?.map(RunId::new),
        thread: some_text(row, 5)?.map(ThreadId::new),
        actor: Actor::parse(&text(row, 6)?),
        auth,
        via: some_text(row, 12)?,
        cause: row.try_get::<_, Option<i64>>(8)?.map(seq).transpose()?,
        part_index: part_index(row)?,
        event: fact,
        body,
    })
}

fn part_index(row: &Row) -> Result<u32, Problem> {
    Ok(u32::try_from(row.try_get::<_, i32>(13)?).unwrap_or(u32::MAX))
}

fn body(row: &Row) -> Result<Option<Body>, Problem> {
    let Some(sha256) = row.try_get::<_, Option<String>>(10)? else { return Ok(None) };
    let bytes = match row.try_get::<_, Option<&str>>(11)? {
        Some("row") => BodyBytes::Here(row.try_get::<_, Option<Vec<u8>>>(14)?.unwrap_or_default()),
        Some(_) => BodyBytes::Artifact,
        None => BodyBytes::Gone,
    };
    Ok(Some(Body { sha256, bytes }))
}
