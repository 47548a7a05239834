//! The log as the protocol of envelopes sees it: those that come in, and each by its id; and what it keeps beside them: schemas
//! of payloads, what workflows expect, groups.

mod envelope;
mod groups;
mod ingest;
pub(crate) mod router;
mod schema;
mod schemas;
mod workflows;

pub use envelope::Envelope;
pub use groups::Members;
pub use ingest::{IngestError, Ingested};
pub use schema::SchemaFault;
pub(crate) use schemas::Schemas;
pub use schemas::{KnownSchema, UnfitSchema};
pub use workflows::{Expectation, Validate, Validated};
