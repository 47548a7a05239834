//! The rules of Rookery, pure: which rows a command reads, what it decides, and how an event changes the rows.
//!
//! Nothing here reads a clock, a file, a random number or a configuration, and nothing is async. A command is decided over a [`View`]
//! of loaded rows; a decision that needs more returns [`Undecided::Missing`] and never fetches. Start with the traits [`Command`] and
//! [`Event`], the rows in [`model`], and `registry.rs`, which lists every command and event. The folder of a noun (`agent`, `task`,
//! `run`, `template`, `file`, `handoff`, `message`, `document`, `workspace`, `contract`, `group`, `team`, `turn`) has its rules;
//! `clutch` reads that protocol, and `routing` chooses an agent for a task.

pub mod actor;
pub mod adapter;
pub mod agent;
pub mod area;
pub mod artifact;
pub mod clutch;
pub mod code;
pub mod command;
pub mod contract;
pub mod document;
pub mod envelope;
pub mod event;
pub mod event_id;
pub mod file;
pub mod group;
pub mod handoff;
pub mod id;
pub mod instance;
pub mod intent;
pub mod limit;
pub mod log;
pub mod message;
pub mod model;
pub mod name;
pub mod outbound;
pub mod redact;
pub mod refusal;
pub mod registry;
pub mod report;
pub mod routing;
pub mod run;
pub mod session;
pub mod task;
pub mod team;
pub mod template;
#[cfg(test)]
mod testing;
pub mod timer;
pub mod told;
pub mod turn;
pub mod workspace;

pub use actor::{Actor, Auth, Authority, Caller};
pub use area::Area;
pub use code::{Code, CodeClass, RetryAdvice};
pub use command::{AnyCommand, Command, Decision, DecisionContext, Reply, Undecided, ensure_may_write, read_set};
pub use event::{AnyEvent, Event, EventStamp, apply_row};
pub use id::{
    AgentId, HandoffId, IntentId, LogId, MessageId, NodeId, Position, RunId, Seq, SiteId, TaskId, TeamId, TemplateId,
    ThreadId, TimerId, Timestamp, TurnId, WorkspaceId,
};
pub use instance::Instance;
pub use model::{Key, Lookup, ReadItem, ReadSet, Row, Table, View};
pub use refusal::Rejection;
pub use registry::{EventRef, decide};
