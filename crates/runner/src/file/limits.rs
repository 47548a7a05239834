//! The limits of a whole run.

use std::time::Duration;

use super::cursor::{Field, FileReader};
use super::shape::{Record, Shape, optional_key};

/// The largest accepted count.
pub(super) const MAX_COUNT: u64 = 1_000_000_000;

pub(super) const RECORD: Record = Record {
    name: "limits",
    about: "Limits of the whole run; when one is reached, no further turn begins.",
    keys: &[
        optional_key("max_turns", Shape::Count(1, MAX_COUNT), "Turns of all agents together"),
        optional_key("max_messages", Shape::Count(1, MAX_COUNT), "Messages in the channel"),
        optional_key("max_runtime", Shape::Duration, "Duration of the run: 30s, 5m, 2h, 1d"),
        optional_key("max_cost_usd", Shape::Amount, "Cost of the models, in US dollars"),
    ],
};

#[derive(Clone, PartialEq, Debug, Default)]
pub struct TeamLimits {
    pub max_turns: Option<u64>,
    pub max_messages: Option<u64>,
    pub max_runtime: Option<Duration>,
    pub max_cost_usd: Option<f64>,
}

impl TeamLimits {
    pub(super) fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> TeamLimits {
        let Some(keys) = field.record(reader, &RECORD) else { return TeamLimits::default() };
        TeamLimits {
            max_turns: keys.get("max_turns").and_then(|field| field.count(reader, 1, MAX_COUNT)),
            max_messages: keys.get("max_messages").and_then(|field| field.count(reader, 1, MAX_COUNT)),
            max_runtime: keys.get("max_runtime").and_then(|field| field.duration(reader)),
            max_cost_usd: keys.get("max_cost_usd").and_then(|field| field.amount(reader)),
        }
    }
}
