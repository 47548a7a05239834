//! Coordination: messages that each recipient acknowledges, and who is here.

use rookery_core::model::Table;
use rookery_core::model::agent::{Agent, Membership};
use rookery_core::model::message::{Form, UNKNOWN_RECIPIENT_TTL_MILLIS};
use rookery_core::{AgentId, Caller, MessageId, Timestamp};
use rookery_store::RowQuery;

use super::{Waiting, agent_of};
use crate::error::EngineError;
use crate::messages::InboxHandle;

/// How long an agent that is offline counts as stale.
const STALE_MILLIS: u64 = 15 * 60 * 1_000;

/// The words for presence that coordination uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PresenceWord {
    Active,
    /// Offline, but not for long.
    Stale,
    Offline,
}

impl PresenceWord {
    pub fn of(agent: &Agent, now: Timestamp) -> PresenceWord {
        match agent.membership {
            Membership::Here => PresenceWord::Active,
            Membership::Offline(since) if now < since.plus_millis(STALE_MILLIS) => PresenceWord::Stale,
            Membership::Offline(_) | Membership::Left(_) => PresenceWord::Offline,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            PresenceWord::Active => "active",
            PresenceWord::Stale => "stale",
            PresenceWord::Offline => "offline",
        }
    }
}

/// An agent as coordination shows it.
#[derive(Clone, PartialEq, Debug)]
pub struct InstancePresence {
    pub agent: AgentId,
    pub status: PresenceWord,
    pub last_seen: Timestamp,
}

impl InboxHandle<'_> {
    /// Coordination messages that an agent has not acknowledged, and which it is shown by this. Those that want no
    /// acknowledgement are settled by that: each is shown once.
    pub async fn check_coord(
        &self,
        caller: &Caller,
        agent: &AgentId,
        limit: Option<u32>,
    ) -> Result<Waiting, EngineError> {
        let waiting = self.list_coord(agent, limit).await?;
        self.mark_shown(caller, agent, &waiting).await?;
        let headers = waiting.pending.iter().map(|pending| &pending.message.letter.header);
        let settled: Vec<MessageId> =
            headers.filter(|header| !header.requires_ack).map(|header| header.message.clone()).collect();
        if !settled.is_empty() {
            self.ack(caller, agent, settled).await?;
        }
        Ok(waiting)
    }

    /// Coordination messages to an agent or to everybody that it has not acknowledged.
    pub async fn list_coord(&self, agent: &AgentId, limit: Option<u32>) -> Result<Waiting, EngineError> {
        self.list_classes(agent, limit, |form| form == Form::Coord).await
    }

    /// Who is here or was until lately, in the words of coordination, in the order they joined.
    pub async fn instance_presence(&self) -> Result<Vec<InstancePresence>, EngineError> {
        let now = self.engine.clock().now();
        let (rows, _) = self.engine.store().list(RowQuery::all(Table::Agents).ordered_by("joined")).await?;
        let lately = |agent: &Agent| match agent.membership {
            Membership::Here | Membership::Offline(_) => true,
            Membership::Left(since) => now < since.plus_millis(UNKNOWN_RECIPIENT_TTL_MILLIS),
        };
        let presence = |agent: Agent| InstancePresence {
            status: PresenceWord::of(&agent, now),
            last_seen: self
                .engine
                .board()
                .get(&agent.id)
                .map_or(agent.seen_at, |seen| seen.last_seen.max(agent.seen_at)),
            agent: agent.id,
        };
        Ok(rows.into_iter().filter_map(agent_of).filter(lately).map(presence).collect())
    }
}
