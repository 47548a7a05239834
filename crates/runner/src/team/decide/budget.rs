//! The limits of a team. When one is reached, no further turn begins.

use std::fmt;
use std::time::Duration;

use crate::file::{TeamLimits, show_duration};

/// The resources used so far.
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
pub(crate) enum LimitReached {
    Turns(u64),
    Messages(u64),
    Runtime(Duration),
    Cost(f64),
}

impl Spent {
    /// Returns the first limit that prevents another turn, if any.
    pub(crate) fn limit_reached(&self, limits: &TeamLimits) -> Option<LimitReached> {
        let turns = limits.max_turns.filter(|most| self.turns >= *most).map(LimitReached::Turns);
        let messages = || limits.max_messages.filter(|most| self.messages >= *most).map(LimitReached::Messages);
        let runtime = || limits.max_runtime.filter(|most| self.runtime >= *most).map(LimitReached::Runtime);
        let cost = || limits.max_cost_usd.filter(|most| self.cost_usd >= *most).map(LimitReached::Cost);
        turns.or_else(messages).or_else(runtime).or_else(cost)
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitReached::Turns(most) => write!(f, "the limit of {most} turns (max_turns) is reached"),
            LimitReached::Messages(most) => write!(f, "the limit of {most} messages (max_messages) is reached"),
            LimitReached::Runtime(most) => write!(f, "the limit of {} (max_runtime) is reached", show_duration(*most)),
            LimitReached::Cost(most) => write!(f, "the limit of {most} US dollars (max_cost_usd) is reached"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPENT: Spent = Spent { turns: 3, messages: 7, runtime: Duration::from_secs(60), cost_usd: 0.5 };

    #[test]
    fn missing_limits_are_never_reached() {
        assert_eq!(SPENT.limit_reached(&TeamLimits::default()), None);
    }

    #[test]
    fn limit_is_reached_when_it_is_used_up() {
        let none = TeamLimits::default;
        for (limits, reached) in [
            (TeamLimits { max_turns: Some(3), ..none() }, Some(LimitReached::Turns(3))),
            (TeamLimits { max_turns: Some(4), ..none() }, None),
            (TeamLimits { max_messages: Some(7), ..none() }, Some(LimitReached::Messages(7))),
            (TeamLimits { max_messages: Some(8), ..none() }, None),
            (TeamLimits { max_runtime: Some(SPENT.runtime), ..none() }, Some(LimitReached::Runtime(SPENT.runtime))),
            (TeamLimits { max_runtime: Some(Duration::from_secs(61)), ..none() }, None),
            (TeamLimits { max_cost_usd: Some(0.5), ..none() }, Some(LimitReached::Cost(0.5))),
            (TeamLimits { max_cost_usd: Some(0.51), ..none() }, None),
        ] {
            assert_eq!(SPENT.limit_reached(&limits), reached, "{limits:?}");
        }
    }

    #[test]
    fn reached_limit_names_its_key() {
        assert_eq!(LimitReached::Runtime(SPENT.runtime).to_string(), "the limit of 1m (max_runtime) is reached");
    }
}
