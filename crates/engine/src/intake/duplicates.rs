//! Envelopes that are in the log already, byte for byte. They do nothing, so nobody has to vouch for them once more: the keys
//! that they were judged by may be gone by now, or may be those that they brought along.

use std::collections::HashMap;

use rookery_core::clutch::signature::is_sensitive;
use rookery_core::clutch::{SigningPolicy, Taken};
use rookery_core::kernel::hex::hex;
use rookery_core::model::envelope::Filed;
use rookery_core::model::message_type::MessageType;
use rookery_core::{Key, Row, Seq};
use rookery_store::LogQuery;
use rookery_store::query::Bodies;
use sha2::{Digest, Sha256};

use super::{Ingested, Item};
use crate::error::EngineError;
use crate::intake::IntakeHandle;

/// How many bodies are read at once.
const BODIES: usize = 50;

impl IntakeHandle<'_> {
    /// Takes note of those that were stored before. Whoever may send as their sender and has every byte of them learns nothing by
    /// the answer but their place; one that differs in anything is judged like any other.
    pub(super) async fn find_duplicates(
        &self,
        items: &mut [Item<'_>],
        policy: SigningPolicy,
    ) -> Result<(), EngineError> {
        let judged: Vec<&mut Item<'_>> = items.iter_mut().filter(|item| is_judged(item, policy)).collect();
        if judged.is_empty() {
            return Ok(());
        }
        let keys = judged.iter().map(|item| Key::Envelope(item.received.envelope.id.clone())).collect();
        let (rows, _) = self.engine.store().rows(keys).await?;
        let filed: Vec<Option<Filed>> = rows.into_iter().map(filed).collect();
        let places: Vec<Seq> = filed.iter().flatten().map(|filed| filed.received).collect();
        if places.is_empty() {
            return Ok(());
        }
        let mut bodies: HashMap<Seq, (String, String)> = HashMap::new();
        for places in places.chunks(BODIES) {
            let (log, _) =
                self.engine.store().log(LogQuery { bodies: Bodies::Read, ..LogQuery::at(places.to_vec()) }).await?;
            bodies.extend(log.into_iter().filter_map(|row| Some((row.seq, (row.actor.to_string(), row.body?.sha256)))));
        }
        for (item, filed) in judged.into_iter().zip(filed) {
            let Some(filed) = filed else { continue };
            let sent = (item.caller.actor.to_string(), hex(&Sha256::digest(item.received.body)));
            if bodies.get(&filed.received) == Some(&sent) {
                item.known = Some(Ingested { id: filed.id, seq: Some(filed.received), duplicate: true });
            }
        }
        Ok(())
    }
}

/// Whether a signature may be asked for, so that what was right then could be wrong now.
fn is_judged(item: &Item<'_>, policy: SigningPolicy) -> bool {
    let envelope = &item.received.envelope;
    let sent_by_sender = item.caller.actor == envelope.from.actor && matches!(item.taken, Taken::Command(_));
    let kind = &envelope.message_type;
    let demanded = policy == SigningPolicy::All || is_sensitive(kind) || *kind == MessageType::ToolCall;
    sent_by_sender && (demanded || envelope.security.auth.is_some())
}

fn filed(row: Option<Row>) -> Option<Filed> {
    match row {
        Some(Row::Envelope(filed)) => Some(filed),
        _ => None,
    }
}
