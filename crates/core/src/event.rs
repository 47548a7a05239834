//! The [`Event`] trait: something that happened, the rows that it changes, and how it changes them.
//!
//! Each event implements the trait beside its struct and has one line in `registry.rs`. Nothing here names one. A released
//! version of an event is never edited: a changed form gets the next version and an upcaster.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clutch::Trace;
use crate::file::FilePath;
use crate::id::{AgentId, RunId, Seq, TaskId, ThreadId, Timestamp};
use crate::model::{Key, Row, Stored, View};
use crate::task::Task;
use crate::team::TeamRef;
use crate::told::{Concerned, Told};

/// Something that happened. Replaying the log applies each event to the rows again, with the same result.
pub trait Event: Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    const KIND: &'static str;
    const VERSION: u32 = 1;

    /// The run, thread, task, agent and path that it is about: columns of the log, and what readers filter by.
    fn subject(&self) -> Subject<'_> {
        Subject::default()
    }

    /// Every row that `apply` may change.
    fn write_set(&self) -> Vec<Key>;

    /// Changes the rows of the write set. Total: a missing row is skipped, and there is no clock and no configuration.
    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp);

    /// The artifacts that it names, so that they are kept.
    fn artifacts(&self) -> Option<NamedArtifacts<'_>> {
        None
    }

    /// Rewrites the JSON of an older version to that of the next one; `None` if there is no such version.
    fn upcast(_version: u32, _event: Value) -> Option<Value> {
        None
    }

    /// The inboxes that it reaches, for kinds that notify.
    fn told(&self) -> Option<&Told> {
        None
    }

    fn told_mut(&mut self) -> Option<&mut Told> {
        None
    }

    /// The agents that it concerns, given the task as it was before.
    fn concerned(&self, _task: &Task) -> Vec<Concerned> {
        vec![]
    }

    /// Whether it withdraws an open offer of the task to this agent.
    fn withdraws_offer(&self, _agent: &AgentId) -> bool {
        true
    }
}

/// The position and the time of an event in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventStamp {
    pub seq: Seq,
    pub at: Timestamp,
}

/// The things that an event is about.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Subject<'a> {
    pub run: Option<&'a RunId>,
    pub thread: Option<&'a ThreadId>,
    pub task: Option<&'a TaskId>,
    /// The agent that joined, works, holds or answers. Decisions of authority are about no agent.
    pub agent: Option<&'a AgentId>,
    /// The holder of what the event changes, before it does.
    pub holder: Option<&'a AgentId>,
    pub path: Option<&'a FilePath>,
    pub team: Option<&'a TeamRef>,
    /// The trace of the request that asked for the task.
    pub trace: Option<&'a Trace>,
}

impl<'a> Subject<'a> {
    pub fn agent(agent: &'a AgentId) -> Subject<'a> {
        Subject { agent: Some(agent), ..Subject::default() }
    }

    pub fn task(task: &'a TaskId, run: Option<&'a RunId>) -> Subject<'a> {
        Subject { task: Some(task), run, ..Subject::default() }
    }

    /// A team's run and thread are those of its instance.
    pub fn team(team: &'a TeamRef) -> Subject<'a> {
        Subject { team: Some(team), run: Some(&team.run), thread: Some(&team.thread), ..Subject::default() }
    }

    /// Adds the thread and the trace in which the task was asked for.
    #[must_use]
    pub fn asked_in(self, told: &'a Told) -> Subject<'a> {
        let trace = Some(&told.trace).filter(|trace| !trace.is_none());
        Subject { thread: self.thread.or(told.thread.as_ref()), trace: self.trace.or(trace), ..self }
    }
}

/// Artifacts by their SHA-256, and the thing that names them, as in `task:ID`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedArtifacts<'a> {
    pub by: String,
    pub sha256: Vec<&'a str>,
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
}

impl fmt::Debug for RowWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowWriter")
    }
}

impl<'a> RowWriter<'a> {
    pub fn new(rows: &'a mut dyn RowStore) -> RowWriter<'a> {
        RowWriter { rows }
    }

    /// Writes a row, be there one or not.
    pub fn put<E: Stored>(&mut self, id: E::Id, entity: E) {
        self.rows.put(E::key(id), entity.into_row());
    }

    pub fn remove<E: Stored>(&mut self, id: E::Id) {
        self.rows.take(&E::key(id));
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
        let old = self.rows.take(&key).and_then(E::take_row);
        if let Some(new) = change(old) {
            self.rows.put(key, new.into_row());
        }
    }

    /// Changes a row of any table; a missing one is skipped.
    pub fn change(&mut self, key: &Key, change: impl FnOnce(Row) -> Row) {
        if let Some(row) = self.rows.take(key) {
            self.rows.put(key.clone(), change(row));
        }
    }
}
