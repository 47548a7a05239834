//! The Clutch protocol's words: envelopes as they come in, read strictly, and the forms in which they are compared and signed.
//!
//! Bytes become an [`Envelope`] or a list of all [`Faults`], each with a code, the place in the message and a sentence for
//! whoever wrote it. What an envelope carries beyond the protocol is kept and never a fault. Nothing here looks anything up:
//! whether a task, an agent or a key exists is for the rules. How rows of the log are shown as envelopes is in
//! [`crate::envelope`].
//!
//! What an envelope does is decided by [`Ingest`]: it is recorded ([`EnvelopeReceived`]), and the rules of the noun that it is
//! about decide the rest, as they do for every other face.

mod attachment;
mod batch;
mod beat;
pub mod canon;
mod card;
mod envelope;
mod excerpt;
mod fault;
mod form;
mod ingest;
mod instant;
mod intake;
mod json;
pub mod legacy;
mod place;
mod received;
mod rejected;
pub mod schema;
mod security;
pub mod signature;
mod tool;

pub use attachment::Attachment;
pub use batch::{Received, Shape, read_batch};
pub use beat::Heartbeat;
pub use envelope::{Envelope, Meta, Sender};
pub use fault::{Fault, Faults};
pub use ingest::{Act, Ingest, unknown_recipient};
pub use instant::parse as parse_instant;
pub use intake::{Taken, draft_terms, take_in};
pub use legacy::LegacyType;
pub use received::EnvelopeReceived;
pub use rejected::{EnvelopeRejected, NoteRejected};
pub use security::{Security, Signature};
pub use signature::{SecretKey, Signing, SigningPolicy};
pub use tool::{AnswerCall, ToolCall, ToolDenied};

/// A JSON value, read as strictly as messages are: no field named twice, not too deep.
pub fn read_json(bytes: &[u8]) -> Result<serde_json::Value, Faults> {
    let (value, faults) = json::read(bytes, &place::Place::Root)?;
    if faults.is_empty() { Ok(value) } else { Err(faults) }
}
