//! The [`Entity`] trait: a row type with its table, its id and the columns that it is found by.
//!
//! Tables are described as data, so that every store generates its loads and upserts from one description.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Key, Row, Table};
use crate::kernel::id::{
    AgentId, HandoffId, IntentId, MessageId, RunId, TaskId, TeamId, TemplateId, ThreadId, TimerId, TurnId, WorkspaceId,
};

/// A row type. Each has one line in `tables.rs`.
pub trait Entity: Clone + PartialEq + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    type Id: RowId;

    const TABLE: &'static str;
    /// The columns besides the key and the document.
    const COLUMNS: &'static [Column];

    /// The values of [`Entity::COLUMNS`], in their order.
    fn columns(&self) -> Vec<ColumnValue>;

    /// The totals that this row counts in. The store updates them with the rows, so that totals need no scan.
    fn tallies(&self) -> Vec<&'static str> {
        vec![]
    }
}

/// The place of an entity among all rows; `tables.rs` implements it.
pub trait Stored: Entity {
    fn table() -> Table;
    fn key(id: Self::Id) -> Key;
    fn from_row(row: &Row) -> Option<&Self>;
    fn take_row(row: Row) -> Option<Self>;
    fn into_row(self) -> Row;
}

/// The id of a row within its table.
pub trait RowId: Sized {
    fn to_text(&self) -> String;
    /// The id as it was stored; `None` if the text cannot be one.
    fn from_text(text: &str) -> Option<Self>;
}

macro_rules! plain_ids {
    ($($id:ty),+ $(,)?) => {$(
        impl RowId for $id {
            fn to_text(&self) -> String {
                self.to_string()
            }

            fn from_text(text: &str) -> Option<Self> {
                Some(text.into())
            }
        }
    )+};
}

plain_ids!(
    AgentId,
    TaskId,
    HandoffId,
    TimerId,
    IntentId,
    RunId,
    TemplateId,
    MessageId,
    ThreadId,
    WorkspaceId,
    TeamId,
    TurnId,
    String
);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    Text,
    Integer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnKind,
    pub indexed: bool,
}

impl Column {
    pub(crate) const fn text(name: &'static str) -> Column {
        Column { name, kind: ColumnKind::Text, indexed: true }
    }

    pub(crate) const fn integer(name: &'static str) -> Column {
        Column { name, kind: ColumnKind::Integer, indexed: true }
    }

    pub(crate) const fn unindexed(self) -> Column {
        Column { indexed: false, ..self }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ColumnValue {
    Null,
    Text(String),
    Integer(i64),
}

impl From<Option<String>> for ColumnValue {
    fn from(value: Option<String>) -> Self {
        value.map_or(ColumnValue::Null, ColumnValue::Text)
    }
}

impl From<&str> for ColumnValue {
    fn from(value: &str) -> Self {
        ColumnValue::Text(value.to_owned())
    }
}

impl From<bool> for ColumnValue {
    fn from(value: bool) -> Self {
        ColumnValue::Integer(i64::from(value))
    }
}

impl From<u64> for ColumnValue {
    fn from(value: u64) -> Self {
        ColumnValue::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}
