//! Questions as SQL, for every dialect in one place.
//!
//! Derived tables are described as data, so that what is asked of them is generated. The dialects differ in how a value is
//! bound, and in how a planner is told not to use an index; everything else is portable.

use rookery_core::model::{ColumnKind, ColumnValue, LookupPage, Match, Table};
use rookery_core::{Lookup, RunId, Seq, ThreadId};

use crate::query::{Bodies, ColumnTest, Condition, KEY, LogQuery, Order, RowQuery};

/// The columns that a row of the log is read from, in this order; its body's bytes are one more if they are asked for.
pub(crate) const LOG_COLUMNS: &str =
    "seq, at, kind, version, run, thread, actor, auth, cause, fact, body_hash, body_in, via, part_index";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// A statement and what is bound to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) values: Vec<ColumnValue>,
}

struct Binder {
    dialect: Dialect,
    values: Vec<ColumnValue>,
}

impl Binder {
    fn new(dialect: Dialect) -> Binder {
        Binder { dialect, values: vec![] }
    }

    /// Binds a value; how the statement refers to it.
    fn bind(&mut self, value: ColumnValue) -> String {
        self.values.push(value);
        let sigil = match self.dialect {
            Dialect::Sqlite => '?',
            Dialect::Postgres => '$',
        };
        format!("{sigil}{}", self.values.len())
    }

    fn done(self, text: String) -> Sql {
        Sql { text, values: self.values }
    }
}

fn direction(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Ascending => ("ASC", "NULLS FIRST"),
        Order::Descending => ("DESC", "NULLS LAST"),
    }
}

/// `key, doc` of the rows of one table.
pub(crate) fn list(dialect: Dialect, query: &RowQuery) -> Sql {
    let table = query.table;
    let mut binder = Binder::new(dialect);
    let mut text = format!("SELECT key, doc FROM {} WHERE TRUE", table.name());
    for condition in &query.conditions {
        text.push_str(" AND ");
        text.push_str(&test(&mut binder, table, condition));
    }
    if !query.any_of.is_empty() {
        let mut all = |conditions: &Vec<Condition>| {
            let terms = conditions.iter().map(|condition| test(&mut binder, table, condition));
            std::iter::once("TRUE".to_owned()).chain(terms).collect::<Vec<_>>().join(" AND ")
        };
        let alternatives: Vec<String> =
            query.any_of.iter().map(|conditions| format!("({})", all(conditions))).collect();
        text.push_str(&format!(" AND ({})", alternatives.join(" OR ")));
    }
    let (direction, nulls) = direction(query.order);
    let ordered_by = query.order_by.filter(|name| kind(table, name).is_some());
    match ordered_by {
        Some(column) => text.push_str(&format!(" ORDER BY {column} {direction} {nulls}, key {direction}")),
        None => text.push_str(&format!(" ORDER BY key {direction}")),
    }
    if let Some(limit) = query.limit {
        text.push_str(&format!(" LIMIT {}", binder.bind(ColumnValue::Integer(limit.into()))));
    }
    binder.done(text)
}

fn kind(table: Table, name: &str) -> Option<ColumnKind> {
    table.columns().iter().find(|column| column.name == name).map(|column| column.kind)
}

/// A condition as SQL. A value of another kind than its column equals nothing there, whatever a database would convert.
fn test(binder: &mut Binder, table: Table, condition: &Condition) -> String {
    const NEVER: &str = "FALSE";
    let column = condition.column;
    let kind = if column == KEY { Some(ColumnKind::Text) } else { kind(table, column) };
    let Some(kind) = kind else { return NEVER.to_owned() };
    let fits = |value: &ColumnValue| {
        matches!(
            (value, kind),
            (ColumnValue::Text(_), ColumnKind::Text) | (ColumnValue::Integer(_), ColumnKind::Integer)
        )
    };
    let mut compare = |how: &str, value: ColumnValue| format!("{column} {how} {}", binder.bind(value));
    match &condition.test {
        ColumnTest::Is(ColumnValue::Null) => format!("{column} IS NULL"),
        ColumnTest::Is(wanted) if fits(wanted) => compare("=", wanted.clone()),
        ColumnTest::Is(_) => NEVER.to_owned(),
        ColumnTest::IsNot(ColumnValue::Null) | ColumnTest::Present => format!("{column} IS NOT NULL"),
        ColumnTest::IsNot(unwanted) if fits(unwanted) => compare("IS DISTINCT FROM", unwanted.clone()),
        ColumnTest::IsNot(_) => "TRUE".to_owned(),
        ColumnTest::Above(bound) if kind == ColumnKind::Integer => compare(">", ColumnValue::Integer(*bound)),
        ColumnTest::AtMost(bound) if kind == ColumnKind::Integer => compare("<=", ColumnValue::Integer(*bound)),
        ColumnTest::After(bound) if kind == ColumnKind::Text => compare(">", ColumnValue::Text(bound.clone())),
        ColumnTest::Above(_) | ColumnTest::AtMost(_) | ColumnTest::After(_) => NEVER.to_owned(),
        ColumnTest::In(wanted) => {
            let mut terms: Vec<String> =
                wanted.iter().filter(|wanted| fits(wanted)).map(|wanted| compare("=", wanted.clone())).collect();
            if wanted.contains(&ColumnValue::Null) {
                terms.push(format!("{column} IS NULL"));
            }
            if terms.is_empty() { NEVER.to_owned() } else { format!("({})", terms.join(" OR ")) }
        }
    }
}

/// `key, doc` of all rows whose column has a value, or begins with one, or of a page of them. `None` if there is no such column.
pub(crate) fn look_up(dialect: Dialect, lookup: &Lookup) -> Option<Sql> {
    let table = lookup.table();
    let column = table.columns().get(lookup.column())?.name;
    let mut binder = Binder::new(dialect);
    let condition = match lookup.wanted() {
        Match::Equals(wanted) => format!("{column} = {}", binder.bind(wanted.clone())),
        Match::StartsWith(prefix) => {
            let end = successor(prefix);
            let from = format!("{column} >= {}", binder.bind(ColumnValue::Text(prefix.clone())));
            match end {
                Some(end) => format!("{from} AND {column} < {}", binder.bind(ColumnValue::Text(end))),
                None => from,
            }
        }
    };
    let page = lookup.page().map(|page| next_page(&mut binder, page)).unwrap_or_default();
    Some(binder.done(format!("SELECT key, doc FROM {} WHERE {condition}{page}", table.name())))
}

/// The condition, order and limit of a page.
fn next_page(binder: &mut Binder, page: &LookupPage) -> String {
    let after = page.after.clone().map(|after| format!(" AND key > {}", binder.bind(ColumnValue::Text(after))));
    format!("{} ORDER BY key LIMIT {}", after.unwrap_or_default(), page.limit)
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

/// [`LOG_COLUMNS`] of a stretch of the log, and the body if it is asked for.
pub(crate) fn log(dialect: Dialect, query: &LogQuery) -> Sql {
    let mut only = Only { binder: Binder::new(dialect), terms: vec![] };
    if let Some(after) = query.after {
        only.compare("seq >", stored_seq(after));
    }
    if let Some(upto) = query.upto {
        only.compare("seq <=", stored_seq(upto));
    }
    if let Some(places) = &query.places {
        only.among("seq", places.iter().map(|place| stored_seq(*place)));
    }
    if let Some(since) = query.since {
        only.compare("at >", ColumnValue::Integer(since));
    }
    only.or_default("run", query.run.as_ref(), RunId::project_default().as_str());
    only.or_default("thread", query.thread.as_ref(), ThreadId::project_default().as_str());
    only.text("actor", query.actor.as_ref());
    only.text("task", query.task.as_ref());
    only.text("path", query.path.as_ref());
    let (direction, _) = direction(query.order);
    let body = match query.bodies {
        Bodies::Left => "",
        Bodies::Read => ", body",
    };
    let limit = only.binder.bind(ColumnValue::Integer(query.limit.into()));
    let page = format!("ORDER BY seq {direction} LIMIT {limit}");
    let condition = match &query.kinds {
        None => only.sql(),
        Some(kinds) => only.of_kinds(query, kinds, &page),
    };
    let condition = match &query.concerns {
        None => condition,
        Some(agent) => only.concerning(agent, &condition, &page),
    };
    let text = format!("SELECT {LOG_COLUMNS}{body} FROM log WHERE {condition} {page}");
    // Whoever steps through rows stops by itself; a server sends all that it was asked for.
    match (dialect, i64::try_from(query.bytes)) {
        (Dialect::Postgres, Ok(bytes)) if bytes < i64::MAX => {
            let bound = only.binder.bind(ColumnValue::Integer(bytes));
            only.binder.done(within(&text, query.bodies, direction, &bound))
        }
        _ => only.binder.done(text),
    }
}

/// The rows of a page up to the one that reaches the bound. What a row weighs is known without reading it.
fn within(page: &str, bodies: Bodies, direction: &str, bound: &str) -> String {
    let (body, weight) = match bodies {
        Bodies::Left => ("", "octet_length(fact)"),
        Bodies::Read => (", body", "octet_length(fact) + coalesce(octet_length(body), 0)"),
    };
    format!(
        "SELECT {LOG_COLUMNS}{body} FROM (
            SELECT *, (sum({weight}) OVER (ORDER BY seq {direction} ROWS UNBOUNDED PRECEDING) - ({weight}))::bigint AS before
            FROM ({page}) AS page) AS measured
        WHERE before < {bound} ORDER BY seq {direction}"
    )
}

fn stored_seq(seq: Seq) -> ColumnValue {
    ColumnValue::Integer(i64::try_from(seq.0).unwrap_or(i64::MAX))
}

/// Conditions on the log that all hold.
struct Only {
    binder: Binder,
    terms: Vec<String>,
}

impl Only {
    fn compare(&mut self, term: &str, value: ColumnValue) {
        let place = self.binder.bind(value);
        self.terms.push(format!("{term} {place}"));
    }

    fn among(&mut self, column: &str, values: impl Iterator<Item = ColumnValue>) {
        let places: Vec<String> = values.map(|value| self.binder.bind(value)).collect();
        let term = if places.is_empty() { "FALSE".to_owned() } else { format!("{column} IN ({})", places.join(", ")) };
        self.terms.push(term);
    }

    fn text(&mut self, column: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.compare(&format!("{column} ="), ColumnValue::Text(value.clone()));
        }
    }

    /// What names no run or thread is in the project's default one.
    fn or_default(&mut self, column: &str, value: Option<&String>, default: &str) {
        match value {
            Some(value) if value == default => self.terms.push(format!("{column} IS NULL")),
            value => self.text(column, value),
        }
    }

    fn sql(&self) -> String {
        if self.terms.is_empty() { "TRUE".to_owned() } else { self.terms.join(" AND ") }
    }

    /// Several kinds are merged from one ordered stretch of the index each: an `IN` would sort all there ever were. Where
    /// another index is narrower, it is used and the kinds are looked at row by row.
    fn of_kinds(&mut self, query: &LogQuery, kinds: &[String], page: &str) -> String {
        let narrowed = query.places.is_some()
            || [&query.actor, &query.concerns, &query.run, &query.thread, &query.task, &query.path]
                .into_iter()
                .any(Option::is_some);
        let others = self.sql();
        let places: Vec<String> = kinds.iter().map(|kind| self.binder.bind(ColumnValue::Text(kind.clone()))).collect();
        if places.is_empty() {
            // With the others: PostgreSQL wants to see where each value that is bound to the query stands.
            return format!("{others} AND FALSE");
        }
        if narrowed {
            let not_indexed = match self.binder.dialect {
                Dialect::Sqlite => "+kind",
                Dialect::Postgres => "kind",
            };
            return format!("{others} AND {not_indexed} IN ({})", places.join(", "));
        }
        let parts: Vec<String> = places.iter().map(|place| part(&format!("kind = {place}"), &others, page)).collect();
        format!("seq IN ({})", parts.join(" UNION ALL "))
    }

    /// What an agent did that is about itself, and what others did that is about it: one stretch of an index each.
    fn concerning(&mut self, agent: &str, others: &str, page: &str) -> String {
        let place = self.binder.bind(ColumnValue::Text(agent.to_owned()));
        let own = part(&format!("actor = {place} AND concerns = {place}"), others, page);
        let of_others = part(&format!("concerns <> actor AND concerns = {place}"), others, page);
        format!("seq IN ({own} UNION ALL {of_others})")
    }
}

/// The seqs of one ordered stretch of an index.
fn part(which: &str, others: &str, page: &str) -> String {
    format!("SELECT seq FROM (SELECT seq FROM log WHERE {which} AND {others} {page}) AS part")
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
    fn dialects_differ_in_how_values_are_bound() {
        let lookup = Lookup::files_claimed_under("src/".to_owned());
        let text = |dialect| look_up(dialect, &lookup).unwrap().text;
        assert!(text(Dialect::Sqlite).ends_with("held_key >= ?1 AND held_key < ?2"));
        assert!(text(Dialect::Postgres).ends_with("held_key >= $1 AND held_key < $2"));
    }
}
