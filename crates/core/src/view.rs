//! The rows a batch has seen, with what its commands changed so far laid over them.
//!
//! Asking for what was never loaded is a value, [`Undecided::Missing`]; the driver loads it and asks the rule again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::command::Undecided;
use crate::id::{AgentId, Timestamp};
use crate::key::{Ask, ColumnValue, Key, Lookup, Match, Table};
use crate::row::Row;

/// How an agent shows that it lives, strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LifeSource {
    /// A process that we watch.
    Process,
    /// An open connection.
    Connection,
    /// Heartbeats that the agent sends.
    Heartbeat,
    /// Nothing but its calls.
    Call,
}

impl LifeSource {
    pub fn as_str(self) -> &'static str {
        match self {
            LifeSource::Process => "process",
            LifeSource::Connection => "connection",
            LifeSource::Heartbeat => "heartbeat",
            LifeSource::Call => "call",
        }
    }

    pub fn parse(text: &str) -> Option<LifeSource> {
        [LifeSource::Process, LifeSource::Connection, LifeSource::Heartbeat, LifeSource::Call]
            .into_iter()
            .find(|source| source.as_str() == text)
    }
}

/// The newest sign of life of an agent. Operational: an input to decisions, never folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Presence {
    pub last_seen: Timestamp,
    pub source: LifeSource,
}

#[derive(Debug, Default)]
pub struct View {
    rows: HashMap<Key, Option<Row>>,
    lookups: HashSet<Lookup>,
    /// For each indexed column and value, the rows in view that have it.
    index: BTreeMap<(Table, usize, ColumnValue), BTreeSet<Key>>,
    presence: HashMap<AgentId, Option<Presence>>,
}

impl View {
    pub fn is_loaded(&self, ask: &Ask) -> bool {
        match ask {
            Ask::Row(key) => self.rows.contains_key(key),
            Ask::Rows(lookup) => self.lookups.contains(lookup),
            Ask::Presence(agent) => self.presence.contains_key(agent),
        }
    }

    /// Takes a row as the store has it. What the batch already changed is newer and stays.
    pub fn load(&mut self, key: Key, row: Option<Row>) {
        if !self.rows.contains_key(&key) {
            self.set(key, row);
        }
    }

    /// Takes the result of a lookup: afterwards every matching row is in view.
    pub fn load_all(&mut self, lookup: Lookup, rows: Vec<(Key, Row)>) {
        for (key, row) in rows {
            self.load(key, Some(row));
        }
        self.lookups.insert(lookup);
    }

    pub fn load_presence(&mut self, agent: AgentId, presence: Option<Presence>) {
        self.presence.insert(agent, presence);
    }

    pub fn set(&mut self, key: Key, row: Option<Row>) {
        let old = self.rows.insert(key.clone(), row);
        if let Some(Some(old)) = &old {
            for entry in Self::entries(old) {
                if let Some(keys) = self.index.get_mut(&entry) {
                    keys.remove(&key);
                }
            }
        }
        if let Some(Some(row)) = self.rows.get(&key) {
            for entry in Self::entries(row) {
                self.index.entry(entry).or_default().insert(key.clone());
            }
        }
    }

    fn entries(row: &Row) -> Vec<(Table, usize, ColumnValue)> {
        let table = row.table();
        let indexed = |at: &usize| table.columns().get(*at).is_some_and(|column| column.indexed);
        row.columns()
            .into_iter()
            .enumerate()
            .filter(|(at, value)| indexed(at) && *value != ColumnValue::Null)
            .map(|(at, value)| (table, at, value))
            .collect()
    }

    /// Halts unless all of these are in view, so that what is missing is loaded in one go.
    pub fn ensure_loaded(&self, asks: Vec<Ask>) -> Result<(), Undecided> {
        let missing: Vec<Ask> = asks.into_iter().filter(|ask| !self.is_loaded(ask)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Undecided::Missing(missing)) }
    }

    pub fn get(&self, key: &Key) -> Result<Option<&Row>, Undecided> {
        match self.rows.get(key) {
            Some(row) => Ok(row.as_ref()),
            None => Err(Undecided::Missing(vec![key.clone().into()])),
        }
    }

    pub fn all(&self, lookup: &Lookup) -> Result<Vec<&Row>, Undecided> {
        if !self.lookups.contains(lookup) {
            return Err(Undecided::Missing(vec![lookup.clone().into()]));
        }
        let (table, column) = (lookup.table(), lookup.column());
        let keys: Vec<&Key> = match lookup.wanted() {
            Match::Equals(value) => self.index.get(&(table, column, value)).into_iter().flatten().collect(),
            Match::StartsWith(prefix) => self
                .index
                .range((table, column, ColumnValue::Text(prefix.clone()))..)
                .take_while(|((t, c, value), _)| {
                    *t == table && *c == column && matches!(value, ColumnValue::Text(text) if text.starts_with(&prefix))
                })
                .flat_map(|(_, keys)| keys)
                .collect(),
        };
        Ok(keys.into_iter().filter_map(|key| self.rows.get(key).and_then(Option::as_ref)).collect())
    }

    pub fn presence(&self, agent: &AgentId) -> Result<Option<Presence>, Undecided> {
        match self.presence.get(agent) {
            Some(presence) => Ok(*presence),
            None => Err(Undecided::Missing(vec![Ask::Presence(agent.clone())])),
        }
    }
}
