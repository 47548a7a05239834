//! Writing and deleting documents of an instance: Markdown and text that agents and people write together.

mod delete;
mod write;

pub use delete::{DeleteDocument, DocumentDeleted};
pub(crate) use write::begun;
pub use write::{AppendDocument, Base, CreateDocument, DocumentWritten, WriteDocument, Writer};

use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::AgentId;
use crate::kernel::rejection::Rejection;
use crate::model::document::EXTERNAL;
use crate::model::{Undecided, View};

/// The author to record. Only the daemon reports edits of files.
pub(crate) fn author(view: &View, caller: &Caller, writer: &Writer) -> Result<String, Undecided> {
    match writer {
        Writer::Named(author) => {
            view.ensure_may_author_as(caller, author)?;
            Ok(author.to_string())
        }
        Writer::External if matches!(caller.actor, Actor::System | Actor::Watcher) => Ok(EXTERNAL.to_owned()),
        Writer::External => Err(Rejection::new(Code::Forbidden, "only the daemon tells of edits outside of it").into()),
    }
}

/// The agent that a writer is, for what has to be loaded to check it.
pub(crate) fn writer_agent(writer: &Writer) -> Option<&AgentId> {
    match writer {
        Writer::Named(author) => Some(author),
        Writer::External => None,
    }
}
