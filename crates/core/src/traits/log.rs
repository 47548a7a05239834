//! A row of the log: a fact with its place, its time and where it came from.

use super::AnyEvent;
use crate::kernel::caller::{Actor, Auth};
use crate::kernel::id::{RunId, Seq, TaskId, ThreadId, Timestamp};

/// The request or envelope as it was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// SHA-256 in hex; stays when the bytes are gone.
    pub sha256: String,
    pub bytes: BodyBytes,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BodyBytes {
    Here(Vec<u8>),
    /// A file of the artifact folder, named by the hash.
    Artifact,
    /// Redacted.
    Gone,
}

#[derive(Clone, PartialEq, Debug)]
pub struct LogRow {
    pub seq: Seq,
    pub at: Timestamp,
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
    pub actor: Actor,
    pub auth: Auth,
    /// Who spoke in the actor's name, if somebody did: a person, or an agent with a lead's token.
    pub via: Option<String>,
    /// The fact that led to this one.
    pub cause: Option<Seq>,
    /// The place of this row among those that one command appended, counted from 0.
    pub part_index: u32,
    pub event: AnyEvent,
    pub body: Option<Body>,
}

impl LogRow {
    /// The first row that the same command appended; it carries the body of the request.
    pub fn first(&self) -> Seq {
        Seq(self.seq.0.saturating_sub(self.part_index.into()))
    }

    pub fn task(&self) -> Option<&TaskId> {
        self.event.task()
    }

    /// The agent that the fact is about, or its author where it is about none: what a reader filters by.
    pub fn concerns(&self) -> String {
        self.event.agent().map_or_else(|| self.actor.to_string(), ToString::to_string)
    }
}
