//! The types of this face. What the protocol itself describes is described by its own schema.

use rookery_core::clutch::Card;
use serde::Serialize;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Object, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// A card as it was sent, or as it was made from what the agent said otherwise.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct AgentCard(pub Card);

impl PartialSchema for AgentCard {
    fn schema() -> RefOr<Schema> {
        RefOr::T(serde_json::from_value(Card::schema()).unwrap_or_else(|_| Schema::Object(Object::new())))
    }
}

impl ToSchema for AgentCard {}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_described_as_its_own_schema_does() {
        let (described, own) = (serde_json::to_value(AgentCard::schema()).unwrap(), Card::schema());
        for field in ["required", "properties"] {
            assert_eq!(described[field], own[field]);
        }
    }
}
