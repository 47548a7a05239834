//! Statements for derived tables, generated from their description: nothing here knows what a table is about.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rookery_core::model::{ColumnKind, ColumnValue};
use rookery_core::{Key, Lookup, Row, Table};

use super::connection::{Param, Question, some_text, text};
use super::error::Problem;
use super::text::stored;
use crate::offline::DerivedRow;
use crate::query::RowQuery;
use crate::sql::{self, Dialect};

struct Statements {
    get: String,
    put: String,
    delete: String,
    page: String,
    clear: String,
}

static STATEMENTS: LazyLock<Vec<Statements>> = LazyLock::new(|| Table::ALL.into_iter().map(Statements::of).collect());

impl Statements {
    fn of(table: Table) -> Statements {
        let name = table.name();
        let columns: Vec<&str> = table.columns().iter().map(|column| column.name).chain(["doc"]).collect();
        let kinds = table.columns().iter().map(|column| match column.kind {
            ColumnKind::Text => "text[]",
            ColumnKind::Integer => "bigint[]",
        });
        let places: Vec<String> = std::iter::once("text[]")
            .chain(kinds)
            .chain(["bytea[]"])
            .enumerate()
            .map(|(at, kind)| format!("${}::{kind}", at + 1))
            .collect();
        let set: Vec<String> = columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        let (columns, places, set) = (columns.join(", "), places.join(", "), set.join(", "));
        Statements {
            get: format!("SELECT key, doc FROM {name} WHERE key = ANY($1)"),
            put: format!(
                "INSERT INTO {name} (key, {columns}) SELECT * FROM unnest({places})
                    ON CONFLICT (key) DO UPDATE SET {set}"
            ),
            delete: format!("DELETE FROM {name} WHERE key = ANY($1)"),
            page: format!("SELECT key, {columns} FROM {name} WHERE key > $1 ORDER BY key LIMIT $2"),
            clear: format!("DELETE FROM {name}"),
        }
    }
}

fn statements(table: Table) -> &'static Statements {
    &STATEMENTS[table as usize]
}

fn decode(table: Table, key: &str, doc: &[u8]) -> Result<Row, Problem> {
    Row::decode(table, doc).map_err(|error| Problem::Unreadable(format!("row {key} of {}: {error}", table.name())))
}

fn parse(table: Table, key: &str) -> Result<Key, Problem> {
    Key::parse(table, key).ok_or_else(|| Problem::Unreadable(format!("{key} is no key of {}", table.name())))
}

/// `key, doc` of what was found in a table.
pub(super) fn found(table: Table, rows: &[tokio_postgres::Row]) -> Result<Vec<(Key, Row)>, Problem> {
    rows.iter().map(|row| Ok((parse(table, &text(row, 0)?)?, row_of(table, row)?))).collect()
}

/// The row in `key, doc`.
pub(super) fn row_of(table: Table, row: &tokio_postgres::Row) -> Result<Row, Problem> {
    decode(table, row.try_get(0)?, row.try_get(1)?)
}

/// Asks for rows by their keys, one statement for each table.
pub(super) fn get<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Vec<(Table, Question)> {
    let mut ids: BTreeMap<Table, Vec<String>> = BTreeMap::new();
    for key in keys {
        ids.entry(key.table()).or_default().push(stored(&key.id()));
    }
    ids.into_iter()
        .map(|(table, ids)| (table, Question::new(statements(table).get.as_str(), vec![Box::new(ids)])))
        .collect()
}

pub(super) fn look_up(lookup: &Lookup) -> Result<Question, Problem> {
    let sql = sql::look_up(Dialect::Postgres, lookup);
    sql.map(Question::from).ok_or_else(|| Problem::Unreadable(format!("{lookup:?} has no column")))
}

pub(super) fn list(query: &RowQuery) -> Question {
    sql::list(Dialect::Postgres, query).into()
}

/// Writes rows, one statement for each table: each row is named once.
pub(super) fn put<'a>(rows: impl IntoIterator<Item = (&'a Key, &'a Row)>) -> Vec<Question> {
    let mut tables: BTreeMap<Table, Vec<(&Key, &Row)>> = BTreeMap::new();
    for (key, row) in rows {
        tables.entry(key.table()).or_default().push((key, row));
    }
    tables.into_iter().map(|(table, rows)| put_all(table, &rows)).collect()
}

fn put_all(table: Table, rows: &[(&Key, &Row)]) -> Question {
    let columns: Vec<Vec<ColumnValue>> = rows.iter().map(|(_, row)| row.columns()).collect();
    let mut params: Vec<Param> = vec![Box::new(rows.iter().map(|(key, _)| stored(&key.id())).collect::<Vec<_>>())];
    for (at, column) in table.columns().iter().enumerate() {
        let values = columns.iter().map(|columns| columns.get(at).cloned().unwrap_or(ColumnValue::Null));
        params.push(match column.kind {
            ColumnKind::Text => Box::new(values.map(as_text).collect::<Vec<_>>()),
            ColumnKind::Integer => Box::new(values.map(as_integer).collect::<Vec<_>>()),
        });
    }
    params.push(Box::new(rows.iter().map(|(_, row)| row.encode()).collect::<Vec<_>>()));
    Question::new(statements(table).put.as_str(), params)
}

fn as_text(value: ColumnValue) -> Option<String> {
    match value {
        ColumnValue::Text(text) => Some(stored(&text)),
        _ => None,
    }
}

fn as_integer(value: ColumnValue) -> Option<i64> {
    match value {
        ColumnValue::Integer(integer) => Some(integer),
        _ => None,
    }
}

pub(super) fn delete<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Vec<Question> {
    let mut ids: BTreeMap<Table, Vec<String>> = BTreeMap::new();
    for key in keys {
        ids.entry(key.table()).or_default().push(stored(&key.id()));
    }
    ids.into_iter().map(|(table, ids)| Question::new(statements(table).delete.as_str(), vec![Box::new(ids)])).collect()
}

pub(super) fn clear(table: Table) -> Question {
    Question::new(statements(table).clear.as_str(), vec![])
}

/// Rows of a table after a key, with their columns as they are stored.
pub(super) fn page(table: Table, after: &str, limit: i64) -> Question {
    Question::new(statements(table).page.as_str(), vec![Box::new(stored(after)), Box::new(limit)])
}

/// What [`page`] found.
pub(super) fn with_columns(table: Table, rows: &[tokio_postgres::Row]) -> Result<Vec<DerivedRow>, Problem> {
    let one = |row: &tokio_postgres::Row| {
        let id = text(row, 0)?;
        let mut columns = Vec::with_capacity(table.columns().len());
        for (at, column) in table.columns().iter().enumerate() {
            let at = at + 1;
            columns.push(match column.kind {
                ColumnKind::Text => some_text(row, at)?.map_or(ColumnValue::Null, ColumnValue::Text),
                ColumnKind::Integer => {
                    row.try_get::<_, Option<i64>>(at)?.map_or(ColumnValue::Null, ColumnValue::Integer)
                }
            });
        }
        let doc: &[u8] = row.try_get(table.columns().len() + 1)?;
        Ok(DerivedRow { key: parse(table, &id)?, row: decode(table, &id, doc)?, columns })
    };
    rows.iter().map(one).collect()
}
