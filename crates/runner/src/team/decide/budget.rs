//! What the whole run may take. When one limit is reached, no further turn begins.

use std::fmt;
use std::time::Duration;

use crate::file::{Limits, show_duration};

/// What was taken so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Spent {
    /// Turns that began.
    pub turns: u64,
    /// Messages in the channel.
    pub messages: u64,
    pub runtime: Duration,
    pub cost_usd: f64,
}

/// The limit that was reached.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Reached {
    Turns(u64),
    Messages(u64),
    Runtime(Duration),
    Cost(f64),
}

impl Spent {
    /// The first limit that leaves no room for another turn.
    pub(crate) fn reached(&self, limits: &Limits) -> Option<Reached> {
        let turns = limits.max_turns.filter(|most| self.turns >= *most).map(Reached::Turns);
        let messages = || limits.max_messages.filter(|most| self.messages >= *most).map(Reached::Messages);
        let runtime = || limits.max_runtime.filter(|most| self.runtime >= *most).map(Reached::Runtime);
        let cost = || limits.max_cost_usd.filter(|most| self.cost_usd >= *most).map(Reached::Cost);
        turns.or_else(messages).or_else(runtime).or_else(cost)
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reached::Turns(most) => write!(f, "the limit of {most} turns (max_turns) is reached"),
            Reached::Messages(most) => write!(f, "the limit of {most} messages (max_messages) is reached"),
            Reached::Runtime(most) => write!(f, "the limit of {} (max_runtime) is reached", show_duration(*most)),
            Reached::Cost(most) => write!(f, "the limit of {most} US dollars (max_cost_usd) is reached"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPENT: Spent = Spent { turns: 3, messages: 7, runtime: Duration::from_secs(60), cost_usd: 0.5 };

    #[test]
    fn without_limits_nothing_is_reached() {
        assert_eq!(SPENT.reached(&Limits::default()), None);
    }

    #[test]
    fn a_limit_is_reached_when_there_is_room_for_nothing_more() {
        let none = Limits::default;
        for (limits, reached) in [
            (Limits { max_turns: Some(3), ..none() }, Some(Reached::Turns(3))),
            (Limits { max_turns: Some(4), ..none() }, None),
            (Limits { max_messages: Some(7), ..none() }, Some(Reached::Messages(7))),
            (Limits { max_messages: Some(8), ..none() }, None),
            (Limits { max_runtime: Some(SPENT.runtime), ..none() }, Some(Reached::Runtime(SPENT.runtime))),
            (Limits { max_runtime: Some(Duration::from_secs(61)), ..none() }, None),
            (Limits { max_cost_usd: Some(0.5), ..none() }, Some(Reached::Cost(0.5))),
            (Limits { max_cost_usd: Some(0.51), ..none() }, None),
        ] {
            assert_eq!(SPENT.reached(&limits), reached, "{limits:?}");
        }
    }

    #[test]
    fn the_key_of_the_limit_is_told() {
        assert_eq!(Reached::Runtime(SPENT.runtime).to_string(), "the limit of 1m (max_runtime) is reached");
    }
}
