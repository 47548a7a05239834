//! Statements for derived tables, generated from their description: nothing here knows what a table is about.

use std::sync::LazyLock;

use rookery_core::key::{ColumnKind, ColumnValue, Match};
use rookery_core::{Key, Lookup, Row, Table};
use rusqlite::types::{ToSql, ToSqlOutput, Value};
use rusqlite::{Connection, params, params_from_iter};

use super::error::Problem;
use crate::offline::DerivedRow;
use crate::query::{Condition, ListQuery, Order, Test};

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

struct Bound<'a>(&'a ColumnValue);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            ColumnValue::Null => Ok(ToSqlOutput::Owned(Value::Null)),
            ColumnValue::Text(text) => text.to_sql(),
            ColumnValue::Integer(integer) => integer.to_sql(),
        }
    }
}

fn value(value: &ColumnValue) -> Value {
    match value {
        ColumnValue::Null => Value::Null,
        ColumnValue::Text(text) => Value::Text(text.clone()),
        ColumnValue::Integer(integer) => Value::Integer(*integer),
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
    let Some(column) = table.columns().get(lookup.column()) else {
        return Err(Problem::Unreadable(format!("{lookup:?} has no column")));
    };
    let (name, column) = (table.name(), column.name);
    let (condition, values) = match lookup.wanted() {
        Match::Equals(wanted) => (format!("{column} = ?1"), vec![value(&wanted)]),
        Match::Begins(prefix) => match successor(&prefix) {
            Some(end) => (format!("{column} >= ?1 AND {column} < ?2"), vec![Value::Text(prefix), Value::Text(end)]),
            None => (format!("{column} >= ?1"), vec![Value::Text(prefix)]),
        },
    };
    let mut statement = connection.prepare_cached(&format!("SELECT key, doc FROM {name} WHERE {condition}"))?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let doc: Vec<u8> = row.get(1)?;
        found.push((parse(table, &id)?, decode(table, &id, &doc)?));
    }
    Ok(found)
}

/// The least text, byte by byte, that is greater than every text with this prefix.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The order of UTF-8's bytes is the order of characters; surrogates are not among them.
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

pub(super) fn list(connection: &Connection, query: &ListQuery) -> Result<Vec<Row>, Problem> {
    let table = query.table;
    let mut sql = format!("SELECT key, doc FROM {} WHERE 1", table.name());
    let mut values = Vec::new();
    for condition in &query.conditions {
        sql.push_str(" AND ");
        sql.push_str(&test(table, condition, &mut values));
    }
    let direction = match query.order {
        Order::Ascending => "ASC",
        Order::Descending => "DESC",
    };
    let ordered_by = query.order_by.filter(|name| kind(table, name).is_some());
    match ordered_by {
        Some(column) => sql.push_str(&format!(" ORDER BY {column} {direction}, key {direction}")),
        None => sql.push_str(&format!(" ORDER BY key {direction}")),
    }
    if let Some(limit) = query.limit {
        sql.push_str(" LIMIT ?");
        values.push(Value::Integer(limit.into()));
    }
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        found.push(decode(table, &id, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)?);
    }
    Ok(found)
}

fn kind(table: Table, name: &str) -> Option<ColumnKind> {
    table.columns().iter().find(|column| column.name == name).map(|column| column.kind)
}

/// A condition as SQL. A value of another kind than its column equals nothing there: SQLite would convert it instead.
fn test(table: Table, condition: &Condition, values: &mut Vec<Value>) -> String {
    const NEVER: &str = "0";
    let column = condition.column;
    let Some(kind) = kind(table, column) else { return NEVER.to_owned() };
    let fits = |value: &ColumnValue| {
        matches!(
            (value, kind),
            (ColumnValue::Text(_), ColumnKind::Text) | (ColumnValue::Integer(_), ColumnKind::Integer)
        )
    };
    let mut bind = |bound: Value, how: &str| {
        values.push(bound);
        format!("{column} {how} ?")
    };
    match &condition.test {
        Test::Is(ColumnValue::Null) => format!("{column} IS NULL"),
        Test::Is(wanted) if fits(wanted) => bind(value(wanted), "="),
        Test::Is(_) => NEVER.to_owned(),
        Test::IsNot(ColumnValue::Null) | Test::Present => format!("{column} IS NOT NULL"),
        Test::IsNot(unwanted) if fits(unwanted) => bind(value(unwanted), "IS NOT"),
        Test::IsNot(_) => "1".to_owned(),
        Test::Above(bound) if kind == ColumnKind::Integer => bind(Value::Integer(*bound), ">"),
        Test::AtMost(bound) if kind == ColumnKind::Integer => bind(Value::Integer(*bound), "<="),
        Test::Above(_) | Test::AtMost(_) => NEVER.to_owned(),
        Test::In(wanted) => {
            let fitting: Vec<Value> = wanted.iter().filter(|wanted| fits(wanted)).map(value).collect();
            let places = vec!["?"; fitting.len()].join(", ");
            values.extend(fitting);
            let or_null =
                if wanted.contains(&ColumnValue::Null) { format!(" OR {column} IS NULL") } else { String::new() };
            format!("({column} IN ({places}){or_null})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_text_begins() {
        assert_eq!(successor("src/").as_deref(), Some("src0"));
        assert_eq!(successor("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(successor("\u{10ffff}"), None);
        assert_eq!(successor(""), None);
    }

    #[test]
    fn statements_are_found_by_their_table() {
        for table in Table::ALL {
            assert!(statements(table).get.contains(&format!("FROM {} ", table.name())));
        }
    }
}
