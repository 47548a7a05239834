//! What the protocol of envelopes keeps beside its messages: schemas of payloads, what workflows expect, groups.

mod groups;
mod schema;
mod schemas;
mod workflows;

pub use groups::Members;
pub use schema::SchemaFault;
pub(crate) use schemas::Schemas;
pub use schemas::{KnownSchema, UnfitSchema};
pub use workflows::{Expectation, Validate, Validated};
