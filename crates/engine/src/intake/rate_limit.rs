//! Refuses envelopes of senders that send too fast.

use std::collections::BTreeMap;

use rookery_core::clutch::Taken;
use rookery_core::model::message_type::MessageType;
use rookery_core::{Code, Rejection};

use super::{IngestError, Item};
use crate::intake::IntakeHandle;

/// Whether it is counted here. Chat is by the rule, which holds it for a person; and what accepts, ends or answers work, or is a mere
/// sign of life, is never refused for being much.
fn is_counted(message_type: &MessageType) -> bool {
    match message_type {
        MessageType::TaskRequest
        | MessageType::TaskProgress
        | MessageType::ToolCall
        | MessageType::AgentRegister
        | MessageType::AgentUpdate
        | MessageType::Extension(_) => true,
        MessageType::TaskAccept
        | MessageType::TaskResult
        | MessageType::TaskError
        | MessageType::TaskCancel
        | MessageType::TaskTimeout
        | MessageType::ChatMessage
        | MessageType::ChatSystem
        | MessageType::ToolResult
        | MessageType::ToolError
        | MessageType::AgentHeartbeat
        | MessageType::RoutingDecision
        | MessageType::RoutingFailure => false,
    }
}

impl IntakeHandle<'_> {
    /// Refuses all of them if a sender of one is beyond its rate.
    pub(super) fn check_rates(&self, items: &[Item<'_>]) -> Result<(), IngestError> {
        let changes = |item: &Item<'_>| matches!(&item.taken, Taken::Heartbeat(beat) if beat.says_something());
        let counted = |item: &&Item<'_>| {
            item.known.is_none() && (is_counted(&item.received.envelope.message_type) || changes(item))
        };
        let counted: Vec<(String, &Item<'_>)> =
            items.iter().filter(counted).map(|item| (item.caller.actor.to_string(), item)).collect();
        let mut sent: BTreeMap<&str, u64> = BTreeMap::new();
        for (sender, _) in &counted {
            *sent.entry(sender.as_str()).or_default() += 1;
        }
        let per_minute = self.engine.settings().envelopes_per_minute;
        let Err(exceeded) = self.engine.rates().count(&sent, per_minute, self.engine.clock().monotonic()) else {
            return Ok(());
        };
        metrics::counter!("rookery_envelopes_rushed_total").increment(1);
        let first = counted.iter().find(|(sender, _)| sender == exceeded.sender).map(|(_, item)| *item);
        let message = format!("'{}' sends more than {per_minute} envelopes a minute", exceeded.sender);
        let hint = format!("nothing was stored; send it again in {} ms", exceeded.wait_millis);
        let pointer = first.map_or_else(String::new, |item| item.pointer("/from/agent_id"));
        let refusal = Rejection::new(Code::RateLimited, message).hint(hint).about(&pointer);
        Err(IngestError::RateLimited { refusal, wait_millis: exceeded.wait_millis })
    }
}
