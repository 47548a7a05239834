//! The rules of Rookery, pure: which rows a command reads, what it decides, and how an event changes the rows.
//!
//! Nothing here reads a clock, a file, a random number or a configuration, and nothing is async. A command is decided over a [`View`]
//! of loaded rows; a decision that needs more returns [`Undecided::Missing`] and never fetches. Start with the traits [`Command`] and
//! [`Event`], the rows in [`model`], and `registry.rs`, which lists every command and event.
//!
//! Folders are layers, and a folder imports only those below it. From the bottom:
//!
//! | layer | content |
//! |---|---|
//! | `kernel` | ids, codes, limits, callers, rejections; knows no noun |
//! | `model` | rows with their methods, value types, the view; knows no event and no command |
//! | `traits` | [`Command`] and [`Event`], the types that hide which one it is, the log row. Above `model`, because events name rows |
//! | `documents`, `contexts`, `workspaces`, `contracts`, `groups`, `artifacts`, `effects` | nouns that name no other noun but `documents` |
//! | `files`, `runs`, `messages`, `eligibility` | claims, runs, messages, and the limits of a task |
//! | `tasks` | commands and events of tasks |
//! | `agents`, `handoffs`, `plans`, `routing` | nouns that change tasks |
//! | `teams`, `redaction` | teams with their turns, and taking texts out of the log |
//! | `clutch`, `registry`, `envelope` | reading that protocol, the list of everything, log rows as envelopes |

pub mod agents;
pub mod artifacts;
pub mod clutch;
pub mod contexts;
pub mod contracts;
pub mod documents;
pub mod effects;
pub mod eligibility;
pub mod envelope;
pub mod files;
pub mod groups;
pub mod handoffs;
pub mod kernel;
pub mod messages;
pub mod model;
pub mod plans;
pub mod redaction;
pub mod registry;
pub mod routing;
pub mod runs;
pub mod tasks;
pub mod teams;
#[cfg(test)]
mod testing;
pub mod traits;
pub mod workspaces;

pub use kernel::caller::{Actor, Auth, Authority, Caller};
pub use kernel::code::{Code, CodeClass, RetryAdvice};
pub use kernel::id::{
    AgentId, HandoffId, IntentId, LogId, MessageId, NodeId, Position, RunId, Seq, SiteId, TaskId, TeamId, TemplateId,
    ThreadId, TimerId, Timestamp, TurnId, WorkspaceId,
};
pub use kernel::instance::Instance;
pub use kernel::network::Area;
pub use kernel::rejection::Rejection;
pub use model::{EventStamp, Key, Lookup, ReadItem, ReadSet, Row, Table, Undecided, View};
pub use registry::{EventRef, decide};
pub use traits::{
    AnyCommand, AnyEvent, AnyReply, AnyReplySource, Command, CommandReply, Decision, DecisionContext, Event, FirstSeq,
    ReplySource, UntypedDecision, apply_row, ensure_may_write, read_set,
};
