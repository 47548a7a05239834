//! The types of this face that are those of the protocol.

use rookery_core::model::capabilities::Card;
use serde::Serialize;
use utoipa::ToSchema;

/// A card as it was sent, or as it was made from what the agent said otherwise. Its schema is that of the core.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct AgentCard(pub Card);

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentCards {
    pub agents: Vec<AgentCard>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Beaten {
    pub ok: bool,
    /// When to send the next one at the latest.
    pub next_heartbeat_ms: u64,
}
