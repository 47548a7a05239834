//! Envelopes that are sent in one call, as their sender and the checks know them.

use std::sync::Arc;

use rookery_core::clutch::signature::signed_by;
use rookery_core::clutch::{Act, Envelope, Ingest, Received, Shape, Taken, read_batch, take_in};
use rookery_core::{AnyCommand, Caller, MessageId, Seq};
use serde_json::Value;

use super::script::GUARD;

/// The content of one call: an envelope, an array of envelopes, or one envelope on each line.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    pub(super) caller: Caller,
    pub(super) bytes: Arc<[u8]>,
    pub(super) shape: Shape,
    /// Empty if the daemon must reject the call as unreadable.
    pub(super) items: Arc<[BundleItem]>,
    /// Whether it was sent more than once.
    pub(super) repeated: bool,
    /// The head of the log when the bundle was first sent.
    pub(super) since: Seq,
}

/// An envelope of a bundle, with its command.
#[derive(Clone, Debug)]
pub(super) struct BundleItem {
    pub(super) id: MessageId,
    pub(super) key: Option<UsedKey>,
    /// `None` for a heartbeat, which the log does not keep.
    pub(super) ingest: Option<Box<Ingest>>,
    /// Whether the signature does not fit the keys of the card.
    pub(super) forged: bool,
}

/// The use of an idempotency key, which is scoped to a run and a sender, for one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct UsedKey {
    pub(super) scope: String,
    pub(super) command_hash: [u8; 32],
}

impl Bundle {
    pub(super) fn new(caller: Caller, envelopes: &[Value], lines: bool, since: Seq) -> Bundle {
        let (text, shape) = match envelopes {
            [one] => (one.to_string(), Shape::Json),
            several if lines => {
                (several.iter().map(|envelope| format!("{envelope}\n")).collect::<String>(), Shape::Lines)
            }
            several => (Value::from(several).to_string(), Shape::Either),
        };
        let items = read(text.as_bytes(), shape);
        Bundle { caller, bytes: text.into_bytes().into(), shape, items: items.into(), repeated: false, since }
    }

    /// The index of the envelope that a JSON pointer leads into.
    pub(super) fn item_index(&self, pointer: &str) -> usize {
        let first = pointer.split('/').nth(1).and_then(|step| step.parse().ok());
        first.filter(|_| self.items.len() > 1).unwrap_or(0)
    }
}

impl BundleItem {
    pub(super) fn command(&self) -> Option<AnyCommand> {
        self.ingest.as_deref().cloned().map(AnyCommand::from)
    }
}

fn read(bytes: &[u8], shape: Shape) -> Vec<BundleItem> {
    let Ok(received) = read_batch(bytes, shape) else { return vec![] };
    let Ok(taken) = take_in(&received, GUARD) else { return vec![] };
    received.iter().zip(taken).map(|(received, taken)| item(received, taken)).collect()
}

fn item(received: &Received<'_>, taken: Taken) -> BundleItem {
    let ingest = match taken {
        Taken::Command(ingest) => Some(ingest),
        Taken::Heartbeat(_) => None,
    };
    let forged = ingest.as_ref().is_some_and(|ingest| is_forged(&received.envelope, ingest));
    BundleItem { id: received.envelope.id.clone(), key: used_key(&received.envelope), ingest, forged }
}

fn is_forged(envelope: &Envelope, ingest: &Ingest) -> bool {
    match &ingest.act {
        Act::Register(register) if envelope.security.auth.is_some() => {
            register.card().is_some_and(|card| signed_by(envelope, &card.security.keys).is_err())
        }
        _ => false,
    }
}

pub(super) fn used_key(envelope: &Envelope) -> Option<UsedKey> {
    let key = envelope.idempotency_key.as_ref()?;
    let scope = format!("{} {} {key}", envelope.run, envelope.from.actor);
    Some(UsedKey { scope, command_hash: envelope.command_hash() })
}
