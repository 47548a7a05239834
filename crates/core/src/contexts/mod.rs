//! Configuring the context of an instance, and the documents that an instance starts with.

mod configure;
mod initial_documents;

pub use configure::{ConfigureContext, ContextConfigured};
pub(crate) use initial_documents::{documents, read_set};
