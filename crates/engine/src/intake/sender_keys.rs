//! Whether envelopes are signed by whom they say they are from, found out before anything is done with them.
//!
//! The arithmetic is done here, over the keys that are known now; the rule looks again whether the key is still its
//! sender's. What is not signed and should be is for the rule alone, which sees the rows; heartbeats reach no rule.

use std::collections::{BTreeSet, HashMap};

use rookery_core::agents::Announcement;
use rookery_core::clutch::signature::signed_by;
use rookery_core::clutch::{Act, EnvelopeRejected, NoteRejected, SigningPolicy, Taken};
use rookery_core::model::agent::Agent;
use rookery_core::model::capabilities::Card;
use rookery_core::model::capabilities::SigningKey;
use rookery_core::model::capabilities::keys_of;
use rookery_core::{AgentId, Caller, Code, Key, Rejection, Row};
use rookery_store::Submission;
use serde_json::Value;

use super::{IngestError, Item};
use crate::error::EngineError;
use crate::intake::IntakeHandle;

/// How many are checked before others have their turn.
const CHECKED_AT_ONCE: usize = 16;

impl IntakeHandle<'_> {
    /// Notes with each envelope which key it is signed by. One that is signed wrongly ends it for all.
    pub(super) async fn check_signatures(&self, items: &mut [Item<'_>]) -> Result<(), IngestError> {
        let policy = self.engine.settings().signatures;
        if policy == SigningPolicy::Off {
            return Ok(());
        }
        self.find_duplicates(items, policy).await?;
        let mut keys = self.sender_keys(items, policy).await?;
        let mut checked = 0;
        for item in items.iter_mut().filter(|item| item.known.is_none()) {
            let found = match item.received.envelope.from.actor.agent() {
                Some(sender) => found_key(item, keys.entry(sender.clone()).or_default(), policy),
                None => Ok(None),
            };
            match found {
                Ok(by) => item.signed(policy, by),
                Err(refusal) => {
                    self.record_rejection(item, &refusal).await;
                    return Err(item.refused(refusal));
                }
            }
            if item.received.envelope.security.auth.is_some() {
                checked += 1;
                if checked % CHECKED_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(())
    }

    /// The keys of those who sign, or send what no rule looks at.
    async fn sender_keys(
        &self,
        items: &[Item<'_>],
        policy: SigningPolicy,
    ) -> Result<HashMap<AgentId, Vec<SigningKey>>, EngineError> {
        let concerned = |item: &&Item<'_>| {
            let heartbeat = matches!(item.taken, Taken::Heartbeat(_)) && policy == SigningPolicy::All;
            heartbeat || item.received.envelope.security.auth.is_some()
        };
        let senders = items.iter().filter(concerned).filter_map(|item| item.received.envelope.from.actor.agent());
        let senders: BTreeSet<AgentId> = senders.cloned().collect();
        if senders.is_empty() {
            return Ok(HashMap::new());
        }
        let (rows, _) = self.engine.store().rows(senders.iter().cloned().map(Key::Agent).collect()).await?;
        let known = |row: Option<Row>| match row {
            Some(Row::Agent(agent)) => keys_of(Some(&agent)).to_vec(),
            _ => vec![],
        };
        Ok(senders.into_iter().zip(rows.into_iter().map(known)).collect())
    }

    /// Whether an unsigned card may take the place of the one that is known. A signed message, or a credential, always may.
    pub async fn check_card(&self, caller: &Caller, card: &Card) -> Result<(), EngineError> {
        if self.engine.settings().signatures == SigningPolicy::Off || caller.is_proven() {
            return Ok(());
        }
        let known: Option<Agent> = self.engine.query().agent(&card.agent_id).await?.value;
        match known {
            Some(agent) if !keys_of(Some(&agent)).is_empty() && Card::of(&agent) != *card => Err(Rejection::new(
                Code::SignatureRequired,
                format!("'{}' has keys, and signs what changes its card", agent.id),
            )
            .hint("send the card as an 'agent.register' that is signed by one of its keys, or with a token")
            .into()),
            _ => Ok(()),
        }
    }

    /// Notes in the log that somebody signed what it may not, unless too much of that was noted just now.
    pub(super) async fn record_rejection(&self, item: &Item<'_>, refusal: &Rejection) {
        if !matches!(refusal.code, Code::BadSignature | Code::UnknownKey) {
            return;
        }
        let envelope = &item.received.envelope;
        let from = envelope.from.actor.to_string();
        metrics::counter!("rookery_envelopes_rejected_total", "code" => refusal.code.as_str()).increment(1);
        let Some(others) = self.engine.rejections().note(&from, self.engine.clock().monotonic()) else { return };
        let rejected = EnvelopeRejected {
            message: envelope.id.clone(),
            message_type: envelope.message_type.clone(),
            from,
            kid: envelope.security.auth.as_ref().map(|auth| auth.kid.clone()),
            code: refusal.code,
            pointer: refusal.pointer.clone().unwrap_or_default(),
            others,
        };
        let noted = Submission::internal(Caller::system(), NoteRejected { rejected });
        if let Err(error) = self.engine.commit(noted).await {
            tracing::warn!(%error, "a message with a wrong signature was refused, and that could not be noted");
        }
    }
}

/// The key that an envelope is signed by, among those of its sender and those that it brought along before.
fn found_key(
    item: &Item<'_>,
    keys: &mut Vec<SigningKey>,
    policy: SigningPolicy,
) -> Result<Option<SigningKey>, Rejection> {
    let brought = brought(item);
    // Whoever has no keys yet vouches with those that it brings.
    let own = if keys.is_empty() { &brought } else { &*keys };
    let heartbeat = matches!(item.taken, Taken::Heartbeat(_));
    let found = match &item.received.envelope.security.auth {
        // Nobody can check the signature of one that has no keys; it is as good as none.
        Some(_) if own.is_empty() && policy == SigningPolicy::Sensitive => None,
        None if !heartbeat || policy != SigningPolicy::All || item.caller.acting_through.is_some() => None,
        _ => Some(signed_by(&item.received.envelope, own)?),
    };
    // The newest key of a name counts.
    keys.retain(|key| !brought.iter().any(|new| new.kid == key.kid));
    keys.extend(brought);
    Ok(found)
}

/// The keys that an envelope gives to its sender, if it is taken.
fn brought(item: &Item<'_>) -> Vec<SigningKey> {
    let Taken::Command(ingest) = &item.taken else { return vec![] };
    match &ingest.act {
        Act::Register(register) => match &register.announcement {
            Announcement::Card { card, .. } => card.security.keys.clone(),
            Announcement::CardChange(change) => {
                let keys = change.get("security").and_then(|security| security.get("keys"));
                let keys = keys.and_then(Value::as_array).into_iter().flatten();
                keys.filter_map(|key| serde_json::from_value(key.clone()).ok()).collect()
            }
            Announcement::Presence
            | Announcement::Profile(_)
            | Announcement::Introduction(_)
            | Announcement::ProfileChange(_) => vec![],
        },
        _ => vec![],
    }
}
