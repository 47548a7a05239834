//! The log as the protocol of envelopes sees it: those that come in and what is done with them, messages by any of its indexes,
//! and runs as trees of tasks.

mod attempts;
pub(crate) mod courier;
mod envelope;
mod ingest;
mod messages;
pub(crate) mod router;
mod runs;
mod show;

pub use attempts::{Attempt, Ending};
pub use courier::{Answered, Carrier, Carrying, Effort, Http, Posting, Reach, SIGNATURE_HEADER, delivery_key};
pub use envelope::Envelope;
pub use ingest::{IngestError, Ingested};
pub use messages::{MessageFilter, MessagePage, Stretch};
pub use runs::{MESSAGES, RunEntry, RunList, RunTree, TaskNode};
pub use show::{Envelopes, Rendered, Shown, is_whole};
