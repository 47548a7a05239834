//! The log as the protocol of envelopes sees it: those that come in and what is done with them, messages by any of its indexes,
//! and runs as trees of tasks; and what it keeps beside them: schemas of payloads, what workflows expect, groups.

mod attempts;
pub(crate) mod courier;
mod envelope;
mod groups;
mod ingest;
mod known;
mod messages;
mod rates;
pub(crate) mod router;
mod runs;
mod schema;
mod schemas;
mod show;
mod signatures;
mod trace;
mod workflows;

pub use attempts::{Ending, TaskAttempt};
pub use courier::{Courier, Delivered, Job};
pub use envelope::{Envelope, Located};
pub use groups::Members;
pub use ingest::{IngestError, Ingested, IntakeHandle};
pub use messages::{HistoryHandle, MessageFilter, MessagePage, Sender, Stretch};
pub use router::{RouterHandle, Routing};
pub use runs::{MESSAGES, RunEntry, RunList, RunTree, TaskNode};
pub use schema::{SchemaFault, serve_checks};
pub(crate) use schemas::Schemas;
pub use schemas::{ContractsHandle, KnownSchema, UnfitSchema};
pub use show::{Envelopes, Rendered, Shown};
pub use trace::Traced;
