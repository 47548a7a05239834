//! What can be read, described as data: portable to every engine, written down once.

use rookery_core::model::{ColumnValue, Table};
use rookery_core::{LogId, Seq};

/// Which log, and how far it reaches. Every read tells the head that it is true at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogHead {
    pub log: LogId,
    /// The first seq that is kept.
    pub floor: Seq,
    /// The newest seq; one less than the floor if the log is empty.
    pub head: Seq,
}

/// Rows of one table: all conditions hold, and those of one of the alternatives if there are any. Ordered by one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowQuery {
    pub table: Table,
    pub conditions: Vec<Condition>,
    pub any_of: Vec<Vec<Condition>>,
    /// A column's name, or `None` for the key.
    pub order_by: Option<&'static str>,
    pub order: Order,
    pub limit: Option<u32>,
}

impl RowQuery {
    pub fn all(table: Table) -> RowQuery {
        RowQuery { table, conditions: vec![], any_of: vec![], order_by: None, order: Order::Ascending, limit: None }
    }

    #[must_use]
    pub fn with(mut self, column: &'static str, test: ColumnTest) -> RowQuery {
        self.conditions.push(Condition { column, test });
        self
    }

    #[must_use]
    pub fn with_any_of(mut self, alternatives: Vec<Vec<Condition>>) -> RowQuery {
        self.any_of = alternatives;
        self
    }

    /// Whether a row is selected whose columns have these values.
    pub(crate) fn selects(&self, value_of: impl Fn(&str) -> Option<ColumnValue>) -> bool {
        let holds =
            |condition: &Condition| value_of(condition.column).is_some_and(|value| condition.test.holds(&value));
        self.conditions.iter().all(holds)
            && (self.any_of.is_empty() || self.any_of.iter().any(|alternative| alternative.iter().all(holds)))
    }

    #[must_use]
    pub fn ordered_by(mut self, column: &'static str) -> RowQuery {
        self.order_by = Some(column);
        self
    }

    #[must_use]
    pub fn at_most(mut self, limit: Option<u32>) -> RowQuery {
        self.limit = limit;
        self
    }
}

/// The name of the key in a condition, beside the columns that a table describes.
pub const KEY: &str = "key";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    pub column: &'static str,
    pub test: ColumnTest,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnTest {
    Is(ColumnValue),
    /// One of these; no value is one of none.
    In(Vec<ColumnValue>),
    IsNot(ColumnValue),
    Present,
    Above(i64),
    /// A text after this one, byte by byte.
    After(String),
    AtMost(i64),
}

impl ColumnTest {
    pub fn holds(&self, value: &ColumnValue) -> bool {
        let integer = match value {
            ColumnValue::Integer(integer) => Some(*integer),
            _ => None,
        };
        match self {
            ColumnTest::Is(wanted) => value == wanted,
            ColumnTest::In(wanted) => wanted.contains(value),
            ColumnTest::IsNot(unwanted) => value != unwanted,
            ColumnTest::Present => *value != ColumnValue::Null,
            ColumnTest::Above(bound) => integer.is_some_and(|integer| integer > *bound),
            ColumnTest::After(bound) => matches!(value, ColumnValue::Text(text) if text.as_bytes() > bound.as_bytes()),
            ColumnTest::AtMost(bound) => integer.is_some_and(|integer| integer <= *bound),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Ascending,
    Descending,
}

/// A stretch of the log. All given conditions hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogQuery {
    pub after: Option<Seq>,
    pub upto: Option<Seq>,
    /// Only rows at these places; a list as long as a page at most.
    pub places: Option<Vec<Seq>>,
    /// Rows later than this time, in epoch milliseconds.
    pub since: Option<i64>,
    pub actor: Option<String>,
    /// The agent a fact is about, or its author: see `LogRow::concerns`.
    pub concerns: Option<String>,
    pub kinds: Option<Vec<String>>,
    pub run: Option<String>,
    pub thread: Option<String>,
    pub task: Option<String>,
    /// A claim's path key.
    pub path: Option<String>,
    pub order: Order,
    pub limit: u32,
    /// Ends with the row whose fact reaches so many bytes in all.
    pub bytes: usize,
    pub bodies: Bodies,
}

/// Whether rows are read with the bytes of their bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bodies {
    Left,
    Read,
}

impl LogQuery {
    pub fn after(after: Seq, limit: u32) -> LogQuery {
        LogQuery { after: Some(after), order: Order::Ascending, ..LogQuery::newest(limit) }
    }

    pub fn newest(limit: u32) -> LogQuery {
        LogQuery {
            after: None,
            upto: None,
            places: None,
            since: None,
            actor: None,
            concerns: None,
            kinds: None,
            run: None,
            thread: None,
            task: None,
            path: None,
            order: Order::Descending,
            limit,
            bytes: usize::MAX,
            bodies: Bodies::Left,
        }
    }

    /// The rows at these places that there are, in order.
    pub fn at(places: Vec<Seq>) -> LogQuery {
        let limit = u32::try_from(places.len()).unwrap_or(u32::MAX);
        LogQuery { places: Some(places), order: Order::Ascending, ..LogQuery::newest(limit) }
    }

    pub fn one(seq: Seq) -> LogQuery {
        LogQuery { upto: Some(seq), ..LogQuery::after(Seq(seq.0.saturating_sub(1)), 1) }
    }
}
