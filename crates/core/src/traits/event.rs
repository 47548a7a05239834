//! The [`Event`] trait: something that happened, the rows that it changes, and how it changes them.
//!
//! Each event implements the trait beside its struct and has one line in `registry.rs`. Nothing here names one. A released
//! version of an event is never edited: a changed form gets the next version and an upcaster.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kernel::id::{AgentId, IntentId, RunId, TaskId, ThreadId};
use crate::model::artifact::ArtifactRef;
use crate::model::file_path::FilePath;
use crate::model::notification::NotificationRule;
use crate::model::requested_in::RequestedIn;
use crate::model::team::TeamRef;
use crate::model::trace::Trace;
use crate::model::{ArtifactRefId, EventStamp, Key, Row, RowStore, RowWriter};

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

    /// Whether an effect begins with it.
    fn opens_intent(&self) -> bool {
        false
    }

    /// The effect that ends with it.
    fn closes_intent(&self) -> Option<&IntentId> {
        None
    }

    /// Rewrites the JSON of an older version to that of the next one; `None` if there is no such version.
    fn upcast(_version: u32, _event: Value) -> Option<Value> {
        None
    }

    /// Its effect on inboxes, for kinds that are about a task.
    fn notification_rule(&self) -> Option<NotificationRule> {
        None
    }
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

    /// Adds the thread and the trace that the task was requested in.
    #[must_use]
    pub fn requested_in(self, request: &'a RequestedIn) -> Subject<'a> {
        let trace = Some(&request.trace).filter(|trace| !trace.is_none());
        Subject { thread: self.thread.or(request.thread.as_ref()), trace: self.trace.or(trace), ..self }
    }
}

/// Artifacts by their SHA-256, and the thing that names them, as in `task:ID`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedArtifacts<'a> {
    pub by: String,
    pub sha256: Vec<&'a str>,
}

impl<'a> NamedArtifacts<'a> {
    /// The artifacts that one thing names; `None` if there are none.
    pub(crate) fn of(kind: &str, id: &impl fmt::Display, sha256: impl IntoIterator<Item = &'a String>) -> Option<Self> {
        let sha256: Vec<&str> = sha256.into_iter().map(String::as_str).collect();
        (!sha256.is_empty()).then(|| NamedArtifacts { by: format!("{kind}:{id}"), sha256 })
    }

    fn ids(&self) -> impl Iterator<Item = ArtifactRefId> {
        self.sha256.iter().map(|sha256| ArtifactRefId { sha256: (*sha256).to_owned(), by: self.by.clone() })
    }
}

/// An event of any type. Cloning it clones a pointer.
#[derive(Clone)]
pub struct AnyEvent(Arc<dyn ErasedEvent>);

#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error("event {kind} version {version} is not known to this program; a newer one wrote it")]
    Unknown { kind: String, version: u32 },
    #[error("event {kind} version {version} cannot be read")]
    Unreadable { kind: String, version: u32, source: serde_json::Error },
}

impl AnyEvent {
    pub fn new<E: Event>(event: E) -> AnyEvent {
        AnyEvent(Arc::new(event))
    }

    /// The event, if it is of this type.
    pub fn get<E: Event>(&self) -> Option<&E> {
        self.0.as_any().downcast_ref()
    }

    pub fn is<E: Event>(&self) -> bool {
        self.0.as_any().is::<E>()
    }

    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    pub fn version(&self) -> u32 {
        self.0.version()
    }

    /// The event as it is written to the log.
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    pub fn to_value(&self) -> Value {
        self.0.to_value()
    }

    /// The event as it stands in its golden file.
    #[cfg(test)]
    pub(crate) fn pretty(&self) -> String {
        self.0.pretty()
    }

    /// Reads an event of one type, of any version that was ever released.
    pub(crate) fn decode_as<E: Event>(version: u32, bytes: &[u8]) -> Result<AnyEvent, EventError> {
        let unreadable = |source| EventError::Unreadable { kind: E::KIND.to_owned(), version, source };
        if version == E::VERSION {
            return serde_json::from_slice::<E>(bytes).map(AnyEvent::new).map_err(unreadable);
        }
        let unknown = || EventError::Unknown { kind: E::KIND.to_owned(), version };
        if version > E::VERSION {
            return Err(unknown());
        }
        let mut event: Value = serde_json::from_slice(bytes).map_err(unreadable)?;
        for step in version..E::VERSION {
            event = E::upcast(step, event).ok_or_else(unknown)?;
        }
        serde_json::from_value::<E>(event).map(AnyEvent::new).map_err(unreadable)
    }

    pub fn subject(&self) -> Subject<'_> {
        self.0.subject()
    }

    pub fn run(&self) -> Option<&RunId> {
        self.subject().run
    }

    pub fn thread(&self) -> Option<&ThreadId> {
        self.subject().thread
    }

    pub fn task(&self) -> Option<&TaskId> {
        self.subject().task
    }

    /// The agent that it is about, or the holder of what it changes.
    pub fn agent(&self) -> Option<&AgentId> {
        let subject = self.subject();
        subject.agent.or(subject.holder)
    }

    pub fn holder(&self) -> Option<&AgentId> {
        self.subject().holder
    }

    pub fn path(&self) -> Option<&FilePath> {
        self.subject().path
    }

    pub fn of_team(&self) -> Option<&TeamRef> {
        self.subject().team
    }

    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.subject().trace
    }

    /// The artifacts that it names, by their SHA-256.
    pub fn artifacts(&self) -> Vec<&str> {
        self.0.artifacts().map(|named| named.sha256).unwrap_or_default()
    }

    /// Whether an effect begins with this event.
    pub fn opens_intent(&self) -> bool {
        self.0.opens_intent()
    }

    /// The effect that ends with this event.
    pub fn closes_intent(&self) -> Option<&IntentId> {
        self.0.closes_intent()
    }

    /// Every row that it changes.
    pub fn write_set(&self) -> Vec<Key> {
        let mut keys = self.0.write_set();
        if let Some(named) = self.0.artifacts() {
            keys.extend(named.ids().map(Key::ArtifactRef));
        }
        keys
    }

    /// Applies it to the rows of its write set.
    pub fn apply(&self, rows: &mut dyn RowStore, stamp: EventStamp) {
        let mut rows = RowWriter::new(rows);
        if cfg!(debug_assertions) {
            rows.write_set = Some(self.write_set());
        }
        self.0.apply(&mut rows, stamp);
        for id in self.0.artifacts().iter().flat_map(NamedArtifacts::ids) {
            let unnamed = ArtifactRef { sha256: id.sha256.clone(), by: id.by.clone(), named_in: vec![] };
            rows.replace(id, |known: Option<ArtifactRef>| {
                let mut named = known.unwrap_or(unnamed);
                named.named_in.push(stamp.seq);
                Some(named)
            });
        }
    }

    pub(crate) fn notification_rule(&self) -> Option<NotificationRule> {
        self.0.notification_rule()
    }
}

/// Applies an event to one row of its write set, and leaves the others out.
pub fn apply_row(old: Option<Row>, key: &Key, event: &AnyEvent, stamp: EventStamp) -> Option<Row> {
    let mut rows = OneRow { key, row: old };
    event.apply(&mut rows, stamp);
    rows.row
}

struct OneRow<'a> {
    key: &'a Key,
    row: Option<Row>,
}

impl RowStore for OneRow<'_> {
    fn take(&mut self, key: &Key) -> Option<Row> {
        if key == self.key { self.row.take() } else { None }
    }

    fn put(&mut self, key: Key, row: Row) {
        if key == *self.key {
            self.row = Some(row);
        }
    }
}

impl<E: Event> From<E> for AnyEvent {
    fn from(event: E) -> AnyEvent {
        AnyEvent::new(event)
    }
}

impl PartialEq for AnyEvent {
    fn eq(&self, other: &AnyEvent) -> bool {
        self.0.equals(other.0.as_any())
    }
}

impl fmt::Debug for AnyEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

trait ErasedEvent: fmt::Debug + Send + Sync {
    fn kind(&self) -> &'static str;
    fn version(&self) -> u32;
    fn subject(&self) -> Subject<'_>;
    fn write_set(&self) -> Vec<Key>;
    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp);
    fn artifacts(&self) -> Option<NamedArtifacts<'_>>;
    fn opens_intent(&self) -> bool;
    fn closes_intent(&self) -> Option<&IntentId>;
    fn notification_rule(&self) -> Option<NotificationRule>;
    fn encode(&self) -> Vec<u8>;
    fn to_value(&self) -> Value;
    #[cfg(test)]
    fn pretty(&self) -> String;
    fn as_any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<E: Event> ErasedEvent for E {
    fn kind(&self) -> &'static str {
        E::KIND
    }

    fn version(&self) -> u32 {
        E::VERSION
    }

    fn subject(&self) -> Subject<'_> {
        Event::subject(self)
    }

    fn write_set(&self) -> Vec<Key> {
        Event::write_set(self)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        Event::apply(self, rows, stamp);
    }

    fn artifacts(&self) -> Option<NamedArtifacts<'_>> {
        Event::artifacts(self)
    }

    fn opens_intent(&self) -> bool {
        Event::opens_intent(self)
    }

    fn closes_intent(&self) -> Option<&IntentId> {
        Event::closes_intent(self)
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        Event::notification_rule(self)
    }

    fn encode(&self) -> Vec<u8> {
        // Events are plain data with string keys: writing them to memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    #[cfg(test)]
    fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<E>() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// Version 2 renamed `who` to `agent`, version 3 added `attempt`.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Happened {
        agent: AgentId,
        attempt: u32,
    }

    impl Event for Happened {
        const KIND: &'static str = "test.happened";
        const VERSION: u32 = 3;

        fn write_set(&self) -> Vec<Key> {
            vec![]
        }

        fn apply(&self, _: &mut RowWriter<'_>, _: EventStamp) {}

        fn upcast(version: u32, event: Value) -> Option<Value> {
            match version {
                1 => Some(json!({ "agent": event["who"] })),
                2 => Some(json!({ "agent": event["agent"], "attempt": 1 })),
                _ => None,
            }
        }
    }

    fn decode(version: u32, text: &str) -> Result<AnyEvent, EventError> {
        AnyEvent::decode_as::<Happened>(version, text.as_bytes())
    }

    #[test]
    fn event_of_an_older_version_is_upcast_step_by_step() {
        let newest = AnyEvent::new(Happened { agent: "a".into(), attempt: 1 });
        for (version, text) in [(1, r#"{"who":"a"}"#), (2, r#"{"agent":"a"}"#), (3, r#"{"agent":"a","attempt":1}"#)] {
            assert_eq!(decode(version, text).unwrap(), newest);
        }
    }

    #[test]
    fn event_that_is_cut_newer_or_without_upcaster_is_an_error() {
        assert!(matches!(decode(1, "{"), Err(EventError::Unreadable { version: 1, .. })));
        assert!(matches!(decode(3, "{}"), Err(EventError::Unreadable { version: 3, .. })));
        assert!(matches!(decode(4, "{}"), Err(EventError::Unknown { version: 4, .. })));
        assert!(matches!(decode(0, "{}"), Err(EventError::Unknown { version: 0, .. })));
    }
}
