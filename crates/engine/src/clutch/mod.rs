//! The log as the protocol of envelopes sees it: those that come in and what is done with them, messages by any of its indexes,
//! and runs as trees of tasks.

mod attempts;
mod envelope;
mod ingest;
mod messages;
pub(crate) mod rejections;
pub(crate) mod router;
mod runs;
mod show;
mod signatures;

pub use attempts::{Attempt, Ending};
pub use envelope::Envelope;
pub use ingest::{IngestError, Ingested};
pub use messages::{MessageFilter, MessagePage, Stretch};
pub use runs::{MESSAGES, RunEntry, RunList, RunTree, TaskNode};
pub use show::{Envelopes, Rendered, Shown, is_whole};
