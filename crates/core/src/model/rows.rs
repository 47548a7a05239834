//! Typed write access to rows, for events.

use std::fmt;

use super::{Key, Row, Stored, View};
use crate::kernel::id::{Seq, Timestamp};

/// The position and the time of an event in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventStamp {
    pub seq: Seq,
    pub at: Timestamp,
}

/// Rows by key, wherever they are kept.
pub trait RowStore {
    /// Removes the row, to be put back changed or not at all.
    fn take(&mut self, key: &Key) -> Option<Row>;
    fn put(&mut self, key: Key, row: Row);
}

impl RowStore for View {
    fn take(&mut self, key: &Key) -> Option<Row> {
        self.take(key)
    }

    fn put(&mut self, key: Key, row: Row) {
        self.set(key, Some(row));
    }
}

macro_rules! maps {
    ($($map:ident),+) => {$(
        impl RowStore for std::collections::$map<Key, Row> {
            fn take(&mut self, key: &Key) -> Option<Row> {
                self.remove(key)
            }

            fn put(&mut self, key: Key, row: Row) {
                self.insert(key, row);
            }
        }
    )+};
}

maps!(BTreeMap, HashMap);

/// Typed write access to rows. Entities are named by their id.
pub struct RowWriter<'a> {
    rows: &'a mut dyn RowStore,
    /// The rows that may be changed; checked by debug builds.
    pub(crate) write_set: Option<Vec<Key>>,
}

impl fmt::Debug for RowWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowWriter")
    }
}

impl<'a> RowWriter<'a> {
    pub fn new(rows: &'a mut dyn RowStore) -> RowWriter<'a> {
        RowWriter { rows, write_set: None }
    }

    fn check(&self, key: &Key) {
        debug_assert!(self.write_set.as_ref().is_none_or(|keys| keys.contains(key)), "{key:?} is not in the write set");
    }

    /// Writes a row, be there one or not.
    pub fn put<E: Stored>(&mut self, id: E::Id, entity: E) {
        let key = E::key(id);
        self.check(&key);
        self.rows.put(key, entity.into_row());
    }

    pub fn remove<E: Stored>(&mut self, id: E::Id) {
        let key = E::key(id);
        self.check(&key);
        self.rows.take(&key);
    }

    /// Changes a row; a missing one is skipped.
    pub fn update<E: Stored>(&mut self, id: E::Id, change: impl FnOnce(&mut E)) {
        self.replace(id, |old: Option<E>| {
            let mut entity = old?;
            change(&mut entity);
            Some(entity)
        });
    }

    /// Writes what becomes of a row, from what it was.
    pub fn replace<E: Stored>(&mut self, id: E::Id, change: impl FnOnce(Option<E>) -> Option<E>) {
        let key = E::key(id);
        self.check(&key);
        let old = self.rows.take(&key).and_then(E::take_row);
        if let Some(new) = change(old) {
            self.rows.put(key, new.into_row());
        }
    }

    /// Changes a row of any table; a missing one is skipped.
    pub fn change(&mut self, key: &Key, change: impl FnOnce(Row) -> Row) {
        self.check(key);
        if let Some(row) = self.rows.take(key) {
            self.rows.put(key.clone(), change(row));
        }
    }
}
