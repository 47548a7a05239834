//! Rebuilding the derived rows from the log, and comparing them with what a store has.

use rookery_core::{EventStamp, Key, Row, Seq};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use rookery_core::traits::LogRow;

use crate::batch::count;

/// The fold of a log, row by row.
#[derive(Debug, Default)]
pub struct Fold {
    rows: HashMap<Key, Row>,
    upto: Seq,
}

impl Fold {
    pub fn add(&mut self, row: &LogRow) {
        row.event.apply(&mut self.rows, EventStamp { seq: row.seq, at: row.at });
        self.upto = row.seq;
    }

    pub fn upto(&self) -> Seq {
        self.upto
    }

    pub fn rows(&self) -> &HashMap<Key, Row> {
        &self.rows
    }

    pub fn into_rows(self) -> HashMap<Key, Row> {
        self.rows
    }

    pub fn tallies(&self) -> BTreeMap<&'static str, i64> {
        let mut tallies = BTreeMap::new();
        self.rows.values().for_each(|row| count(&mut tallies, Some(row), 1));
        tallies
    }

    /// Compares with the rows and tallies a store has. Empty if they are the same.
    pub fn differences(&self, stored: &HashMap<Key, Row>, tallies: &BTreeMap<String, u64>) -> Vec<String> {
        let mut found = Vec::new();
        for (key, row) in &self.rows {
            match stored.get(key) {
                None => found.push(format!("{key:?} is missing")),
                Some(other) if other != row => found.push(format!("{key:?} differs")),
                Some(_) => {}
            }
        }
        let extra = stored.keys().filter(|key| !self.rows.contains_key(*key));
        found.extend(extra.map(|key| format!("{key:?} should not be there")));
        found.extend(tally_differences(&self.tallies(), tallies));
        found.sort();
        found
    }
}

/// Compares the tallies of folded rows with those that a store has. Empty if they are the same.
pub(crate) fn tally_differences(folded: &BTreeMap<&'static str, i64>, stored: &BTreeMap<String, u64>) -> Vec<String> {
    let names: BTreeSet<&str> = folded.keys().copied().chain(stored.keys().map(String::as_str)).collect();
    let difference = |name: &str| {
        let (folded, stored) = (folded.get(name).copied().unwrap_or(0), stored.get(name).copied().unwrap_or(0));
        (i64::try_from(stored).ok() != Some(folded)).then(|| format!("tally {name} is {stored}, should be {folded}"))
    };
    names.into_iter().filter_map(difference).collect()
}
