//! What a whole run may take.

use std::time::Duration;

use super::cursor::{Field, Reader};
use super::shape::{Record, Shape, optional};

/// More than anybody can mean.
pub(super) const MAX_COUNT: u64 = 1_000_000_000;

pub(super) const RECORD: Record = Record {
    name: "limits",
    about: "What the whole run may take; when one is reached, no further turn begins.",
    keys: &[
        optional("max_turns", Shape::Count(1, MAX_COUNT), "Turns of all agents together"),
        optional("max_messages", Shape::Count(1, MAX_COUNT), "Messages in the channel"),
        optional("max_runtime", Shape::Duration, "How long it may run: 30s, 5m, 2h, 1d"),
        optional("max_cost_usd", Shape::Amount, "What the models may cost, in US dollars"),
    ],
};

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Limits {
    pub max_turns: Option<u64>,
    pub max_messages: Option<u64>,
    pub max_runtime: Option<Duration>,
    pub max_cost_usd: Option<f64>,
}

impl Limits {
    pub(super) fn read(field: &Field<'_>, reader: &mut Reader<'_>) -> Limits {
        let Some(keys) = field.record(reader, &RECORD) else { return Limits::default() };
        Limits {
            max_turns: keys.get("max_turns").and_then(|field| field.count(reader, 1, MAX_COUNT)),
            max_messages: keys.get("max_messages").and_then(|field| field.count(reader, 1, MAX_COUNT)),
            max_runtime: keys.get("max_runtime").and_then(|field| field.duration(reader)),
            max_cost_usd: keys.get("max_cost_usd").and_then(|field| field.amount(reader)),
        }
    }
}
