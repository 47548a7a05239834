//! Sending and receiving: what surfaces ask about channels, inboxes and coordination messages.
//!
//! The inbox is the truth; what is remembered besides (see [`crate::projections::last_shown`]) only spares work or links a message to the
//! one that led to it.

mod ack;
mod broadcast;
mod channel;
mod coord;
mod deliveries;
mod inbox;
mod mail;
mod pending;
mod place;
mod pull;
mod send;
mod status;

use rookery_core::model::agent::Agent;
use rookery_core::model::message::{Delivery, Message, Recipients};
use rookery_core::{AgentId, Row, Seq, Timestamp};

use crate::engine::Engine;

pub use ack::Until;
pub use channel::Span;
pub(crate) use channel::entries_query;
pub use coord::{InstancePresence, PresenceWord};
pub use deliveries::{DeliveryFilter, DeliveryId, DeliveryPage, DeliveryState, DeliveryStatus};
pub(crate) use mail::Head;
pub use mail::{Mail, Offer, Request};
pub use pending::{Pending, Waiting};
pub(crate) use pull::Waits;
pub use pull::{Mailbox, Parcel, Pull, PullError, Pulled};
pub use send::Post;
pub use status::{MessageStatus, Reached, RecipientStatus};

/// Sends messages, and lists, shows and acknowledges those that are addressed to an agent.
#[derive(Clone, Copy, Debug)]
pub struct InboxHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`InboxHandle`].
    pub fn inbox(&self) -> InboxHandle<'_> {
        InboxHandle { engine: self }
    }
}

/// Entries, inbox and pending messages come in pages of so many unless asked otherwise.
pub const PAGE: u32 = 100;
pub const LARGEST_PAGE: u32 = 1_000;
/// How many rows one read takes in.
const READ: u32 = 500;

fn page(limit: Option<u32>) -> u32 {
    limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE)
}

fn stored(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

pub(crate) fn message_of(row: Row) -> Option<Message> {
    if let Row::Message(message) = row { Some(message) } else { None }
}

fn delivery_of(row: Row) -> Option<Delivery> {
    if let Row::Delivery(delivery) = row { Some(delivery) } else { None }
}

fn agent_of(row: Row) -> Option<Agent> {
    if let Row::Agent(agent) = row { Some(agent) } else { None }
}

fn is_to(message: &Message, agent: &AgentId) -> bool {
    matches!(&message.letter.header.to, Recipients::Agents(agents) if agents.contains(agent))
}

fn has_expired(message: &Message, now: Timestamp) -> bool {
    message.expires_at().is_some_and(|expires| expires < now)
}
