//! The traits [`Command`], [`CommandReply`] and [`Event`], the types that hide which one it is, and the row of the log.
//!
//! They are apart from `kernel` because they name rows and keys: `kernel` is below `model`, and `model` is below this folder.

mod command;
mod event;
mod log;
mod reply;

pub use command::{AnyCommand, Command, Decision, DecisionContext, UntypedDecision, ensure_may_write, read_set};
pub use event::{AnyEvent, Event, EventError, NamedArtifacts, Subject, apply_row};
pub use log::{Body, BodyBytes, LogRow};
pub use reply::{AnyReply, AnyReplySource, CommandReply, FirstSeq, ReplySource, StoredRow};
