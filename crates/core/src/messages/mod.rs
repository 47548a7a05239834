//! Sending, holding, reading and acknowledging messages, and deliveries that failed.
//!
//! A message that would cause a storm is held for a person and never dropped.

mod archive;
mod dead_letter;
mod discard;
mod hold;
mod mention;
mod notify;
mod open_deliveries;
mod person;
mod receipt;
mod recipients;
mod send;

pub use archive::{ArchiveChannel, ChannelArchived, MessagesSuperseded};
pub use dead_letter::{DeliveryAbandoned, DeliveryRetried, GiveUpDelivery, RetryDelivery};
pub use discard::{DroppedLetter, LettersDropped, NoteDropped};
pub use hold::{MessageDiscarded, MessageReleased, ReleaseHeld, Verdict};
pub use mention::mentions;
pub(crate) use notify::with_notifications;
pub(crate) use open_deliveries::Open;
pub(crate) use receipt::noticed;
pub use receipt::{AckMessages, MessagesAcked, MessagesRead, ReadMessages, Receipt, Shown};
pub(crate) use send::posted;
pub use send::{Ack, Addressees, Cause, MessageHeld, MessageSent, SendMessage, StormGuard, Tone, What};
