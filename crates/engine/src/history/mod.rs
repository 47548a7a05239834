//! The log as messages: by any of its indexes, with their texts, and the traces of tasks.

mod envelope;
mod messages;
mod show;
mod trace;

use crate::engine::Engine;

pub use envelope::{Envelope, Located};
pub use messages::{MessagePage, Stretch};
pub use trace::Traced;

/// Reads the log as messages: envelopes with their texts, and traces of tasks.
#[derive(Clone, Copy, Debug)]
pub struct HistoryHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`HistoryHandle`].
    pub fn history(&self) -> HistoryHandle<'_> {
        HistoryHandle { engine: self }
    }
}
