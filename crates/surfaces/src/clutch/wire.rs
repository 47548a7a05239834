//! The types of this face that are those of the protocol.

use rookery_core::model::agent::Agent;
use rookery_core::model::capabilities::Card;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// A card as it was sent, or as it was made from what the agent said otherwise. Its schema is that of the core.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct AgentCard(Value);

impl AgentCard {
    /// The card with every section of the protocol, empty where the agent said nothing. One without a name is called by
    /// its id.
    pub fn of(agent: &Agent) -> AgentCard {
        let mut card = serde_json::to_value(Card::of(agent)).unwrap_or_default();
        for section in ["endpoints", "limits", "security"] {
            if card[section].is_null() {
                card[section] = json!({});
            }
        }
        if card["display"]["name"].is_null() {
            card["display"]["name"] = json!(agent.id);
        }
        AgentCard(card)
    }
}

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
