//! The log as the protocol of envelopes sees it: those that come in, and each by its id.

mod envelope;
mod ingest;
pub(crate) mod router;

pub use envelope::Envelope;
pub use ingest::{IngestError, Ingested};
