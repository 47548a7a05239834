//! Statements for derived tables, generated from their description: nothing here knows what a table is about.

use std::sync::LazyLock;

use rookery_core::model::ColumnValue;
use rookery_core::{Key, Lookup, Row, Table};
use rusqlite::types::{ToSql, ToSqlOutput, Value};
use rusqlite::{Connection, params, params_from_iter};

use super::error::Problem;
use crate::offline::DerivedRow;
use crate::query::RowQuery;
use crate::sql::{self, Dialect};

struct Statements {
    get: String,
    columns: String,
    insert: String,
    delete: String,
    page: String,
    clear: String,
}

static STATEMENTS: LazyLock<Vec<Statements>> = LazyLock::new(|| Table::ALL.into_iter().map(Statements::of).collect());

impl Statements {
    fn of(table: Table) -> Statements {
        let name = table.name();
        let columns: Vec<&str> = table.columns().iter().map(|column| column.name).chain(["doc"]).collect();
        let places: Vec<String> = (1..=columns.len() + 1).map(|place| format!("?{place}")).collect();
        // Without columns of its own, a table is asked for its key.
        let found: Vec<&str> = table.columns().iter().map(|column| column.name).chain(["key"]).collect();
        let (columns, places, found) = (columns.join(", "), places.join(", "), found.join(", "));
        Statements {
            get: format!("SELECT doc FROM {name} WHERE key = ?1"),
            columns: format!("SELECT {found} FROM {name} WHERE key = ?1"),
            insert: format!("INSERT INTO {name} (key, {columns}) VALUES ({places})"),
            delete: format!("DELETE FROM {name} WHERE key = ?1"),
            page: format!(
                "SELECT key, {columns} FROM {name} WHERE key >= coalesce(?1, '') AND key IS NOT ?1 ORDER BY key LIMIT ?2"
            ),
            clear: format!("DELETE FROM {name}"),
        }
    }
}

fn statements(table: Table) -> &'static Statements {
    &STATEMENTS[table as usize]
}

pub(super) struct Bound<'a>(pub(super) &'a ColumnValue);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            ColumnValue::Null => Ok(ToSqlOutput::Owned(Value::Null)),
            ColumnValue::Text(text) => text.to_sql(),
            ColumnValue::Integer(integer) => integer.to_sql(),
        }
    }
}

fn decode(table: Table, key: &str, doc: &[u8]) -> Result<Row, Problem> {
    Row::decode(table, doc).map_err(|error| Problem::Unreadable(format!("row {key} of {}: {error}", table.name())))
}

fn parse(table: Table, key: &str) -> Result<Key, Problem> {
    Key::parse(table, key).ok_or_else(|| Problem::Unreadable(format!("{key} is no key of {}", table.name())))
}

/// One row by its key. In one process a loop of these costs no more than one statement for many keys.
pub(super) fn get(connection: &Connection, key: &Key) -> Result<Option<Row>, Problem> {
    let id = key.id();
    let mut statement = connection.prepare_cached(&statements(key.table()).get)?;
    let mut rows = statement.query(params![id])?;
    match rows.next()? {
        Some(row) => decode(key.table(), &id, row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?).map(Some),
        None => Ok(None),
    }
}

/// Inserts the row, or updates what is different of it: an index entry that is written again, even as it was, costs a
/// page of the write-ahead log.
pub(super) fn put(connection: &Connection, key: &Key, row: &Row) -> Result<(), Problem> {
    let table = key.table();
    let (id, columns, doc) = (key.id(), row.columns(), row.encode());
    let old = stored_columns(connection, table, &id)?;
    let mut values: Vec<&dyn ToSql> = vec![&id];
    let bound: Vec<Bound<'_>> = columns.iter().map(Bound).collect();
    let Some(old) = old else {
        values.extend(bound.iter().map(|column| column as &dyn ToSql));
        values.push(&doc);
        connection.prepare_cached(&statements(table).insert)?.execute(&*values)?;
        return Ok(());
    };
    let mut sql = format!("UPDATE {} SET ", table.name());
    for (at, column) in table.columns().iter().enumerate().filter(|(at, _)| old.get(*at) != columns.get(*at)) {
        values.extend(bound.get(at).map(|column| column as &dyn ToSql));
        sql.push_str(&format!("{} = ?{}, ", column.name, values.len()));
    }
    values.push(&doc);
    sql.push_str(&format!("doc = ?{} WHERE key = ?1", values.len()));
    connection.prepare_cached(&sql)?.execute(&*values)?;
    Ok(())
}

fn stored_columns(connection: &Connection, table: Table, id: &str) -> Result<Option<Vec<ColumnValue>>, Problem> {
    let mut statement = connection.prepare_cached(&statements(table).columns)?;
    let mut rows = statement.query([id])?;
    match rows.next()? {
        Some(row) => read_columns(row, 0, table.columns().len()).map(Some),
        None => Ok(None),
    }
}

fn read_columns(row: &rusqlite::Row<'_>, from: usize, count: usize) -> Result<Vec<ColumnValue>, Problem> {
    let mut columns = Vec::with_capacity(count);
    for at in from..from + count {
        columns.push(match row.get::<_, Value>(at)? {
            Value::Text(text) => ColumnValue::Text(text),
            Value::Integer(integer) => ColumnValue::Integer(integer),
            _ => ColumnValue::Null,
        });
    }
    Ok(columns)
}

pub(super) fn delete(connection: &Connection, key: &Key) -> Result<(), Problem> {
    connection.prepare_cached(&statements(key.table()).delete)?.execute(params![key.id()])?;
    Ok(())
}

pub(super) fn clear(connection: &Connection, table: Table) -> Result<(), Problem> {
    connection.execute(&statements(table).clear, [])?;
    Ok(())
}

/// Rows of a table after a key, in the order of their keys, with their columns as they are stored.
pub(super) fn page(
    connection: &Connection,
    table: Table,
    after: Option<&Key>,
    limit: u32,
) -> Result<Vec<DerivedRow>, Problem> {
    let mut statement = connection.prepare_cached(&statements(table).page)?;
    let mut rows = statement.query(params![after.map(Key::id), limit])?;
    let width = table.columns().len();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let columns = read_columns(row, 1, width)?;
        let doc: Vec<u8> = row.get(width + 1)?;
        found.push(DerivedRow { key: parse(table, &id)?, row: decode(table, &id, &doc)?, columns });
    }
    Ok(found)
}

/// All rows whose column has a value, or begins with one.
pub(super) fn look_up(connection: &Connection, lookup: &Lookup) -> Result<Vec<(Key, Row)>, Problem> {
    let table = lookup.table();
    let Some(sql) = sql::look_up(Dialect::Sqlite, lookup) else {
        return Err(Problem::Unreadable(format!("{lookup:?} has no column")));
    };
    let mut statement = connection.prepare_cached(&sql.text)?;
    let mut rows = statement.query(params_from_iter(sql.values.iter().map(Bound)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let doc: Vec<u8> = row.get(1)?;
        found.push((parse(table, &id)?, decode(table, &id, &doc)?));
    }
    Ok(found)
}

pub(super) fn list(connection: &Connection, query: &RowQuery) -> Result<Vec<Row>, Problem> {
    let mut found = Vec::new();
    visit(connection, query, |row| found.push(row))?;
    Ok(found)
}

/// Decodes each row when the one before it was taken.
pub(super) fn visit(connection: &Connection, query: &RowQuery, mut take: impl FnMut(Row)) -> Result<(), Problem> {
    let sql = sql::list(Dialect::Sqlite, query);
    let mut statement = connection.prepare_cached(&sql.text)?;
    let mut rows = statement.query(params_from_iter(sql.values.iter().map(Bound)))?;
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        take(decode(query.table, id, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_found_by_their_table() {
        for table in Table::ALL {
            assert!(statements(table).get.contains(&format!("FROM {} ", table.name())));
        }
    }
}
