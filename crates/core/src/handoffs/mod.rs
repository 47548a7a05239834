//! Structured handoffs: one agent passes a task on with the notes that the next one needs.

mod answer;
mod offer;

pub use answer::{AcceptHandoff, HandoffAccepted, HandoffRejected, RejectHandoff};
pub use offer::{HandoffInitiated, OfferHandoff};
