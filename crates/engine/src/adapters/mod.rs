//! Adapters: other programs and protocols, translated to envelopes and from them.
//!
//! | file | what it owns |
//! |---|---|
//! | `hook` | webhooks that come in |
//! | `mapping` | from JSON and headers to an envelope, by what the configuration says |
//! | `outgoing` | webhooks that go out, and how they are signed |
//! | `hmac` | how a sender proves that it knows the secret, and that it is not an old request again |
//!
//! An adapter is translation and a connection. What it takes in goes through the engine as every envelope does; what it passes
//! on is handed to it one by one by the dispatcher. So a further adapter is one more [`Outlet`] in the settings, and nothing
//! else has to know of it.

mod hmac;
mod hook;
mod mapping;
mod outgoing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rookery_core::traits::LogRow;
use rookery_core::{Seq, Timestamp};
use rookery_store::Pending;
use serde_json::{Map, Value};

use crate::message_view::{Envelopes, MessageFilter};

pub use hmac::{DELIVERY, Scheme, SignatureError, seal};
pub use hook::{Hook, Secret};
pub use mapping::{Gap, Mapping, Source};
pub use outgoing::Outgoing;

/// Another program or protocol. Most speak in one direction only.
pub trait Adapter: Send + Sync + fmt::Debug + 'static {
    /// Its kind and which one of them it is, like `http:ci`.
    fn name(&self) -> String;

    /// Whether a message is for it to pass on.
    fn can_handle(&self, _message: &Heading<'_>) -> bool {
        false
    }

    /// What came from outside, as envelopes.
    fn inbound<'a>(&'a self, _raw: Raw<'a>) -> Pending<'a, Result<Vec<Map<String, Value>>, InboundError>> {
        let told = format!("{} takes nothing in", self.name());
        Box::pin(std::future::ready(Err(InboundError::NotMeant(told))))
    }

    /// Passes a message on, and answers when the other side has it.
    fn outbound<'a>(&'a self, _passing: Passing) -> Pending<'a, Result<(), OutboundError>> {
        let told = format!("{} passes nothing on", self.name());
        Box::pin(std::future::ready(Err(OutboundError::Never(told))))
    }
}

/// A message before its words are read: enough to tell whether somebody wants it.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    row: &'a LogRow,
    envelopes: &'a Envelopes,
}

impl<'a> Heading<'a> {
    pub fn new(row: &'a LogRow, envelopes: &'a Envelopes) -> Heading<'a> {
        Heading { row, envelopes }
    }

    /// The type that it is shown with.
    pub fn message_type(&self) -> &'a str {
        self.envelopes.type_of(self.row)
    }

    pub fn passes(&self, filter: &MessageFilter) -> bool {
        filter.takes(self.row, self.envelopes)
    }
}

/// What came from outside, as it came.
#[derive(Clone, Copy)]
pub struct Raw<'a> {
    pub body: &'a [u8],
    /// A header by its name in small letters.
    pub header: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// When it came.
    pub at: Timestamp,
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("bytes", &self.body.len()).field("at", &self.at).finish_non_exhaustive()
    }
}

/// Why no envelope was made of what came.
#[derive(Debug, thiserror::Error)]
pub enum InboundError {
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error("not JSON: {0}")]
    Json(serde_json::Error),
    #[error(transparent)]
    Gap(#[from] Gap),
    /// It is in order, and not for this adapter: what would have to be otherwise.
    #[error("{0}")]
    NotMeant(String),
}

/// A message on its way out.
#[derive(Clone, PartialEq, Debug)]
pub struct Passing {
    /// Its place in the log.
    pub seq: Seq,
    /// As it is shown everywhere.
    pub message: Value,
    /// How often it was tried, with this time.
    pub attempt: u32,
    pub at: Timestamp,
}

/// Why a message did not get through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutboundError {
    /// The other side will never take this one.
    Never(String),
    NotNow {
        error: String,
        /// How long it wants to be left alone.
        asked: Option<Duration>,
    },
}

/// An adapter that the log is passed on to, and how.
#[derive(Clone, Debug)]
pub struct Outlet {
    pub adapter: Arc<dyn Adapter>,
    pub begins: Begins,
    /// After so many in vain a message is put aside, and the next one has its turn.
    pub attempts: u32,
}

/// Where in the log an adapter begins that was never here before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Begins {
    /// With what comes from now on.
    #[default]
    Now,
    Start,
}
