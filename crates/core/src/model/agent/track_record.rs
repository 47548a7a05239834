//! How an agent's latest tasks ended: whether each succeeded, for as many as say something about the next.

use serde::{Deserialize, Serialize};

/// The newest outcome is the lowest bit of `outcomes`; a success is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TrackRecord {
    outcomes: u64,
    count: u32,
}

impl TrackRecord {
    /// How many outcomes are remembered.
    pub const WINDOW: u32 = 50;

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn successes(&self) -> u32 {
        self.outcomes.count_ones()
    }

    pub(crate) fn succeeded(&mut self) {
        self.add(1);
    }

    pub(crate) fn failed(&mut self) {
        self.add(0);
    }

    fn add(&mut self, outcome: u64) {
        self.outcomes = ((self.outcomes << 1) | outcome) & ((1 << Self::WINDOW) - 1);
        self.count = (self.count + 1).min(Self::WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::LeaveTeam;
    use crate::model::agent::AgentRole;
    use crate::tasks::FailTask;
    use crate::testing::{World, by, complete, fail};

    #[test]
    fn what_is_long_ago_counts_no_more() {
        let mut recent = TrackRecord::default();
        (0..10).for_each(|_| recent.failed());
        (0..45).for_each(|_| recent.succeeded());
        assert_eq!((recent.successes(), recent.count()), (45, 50));
        (0..5).for_each(|_| recent.succeeded());
        assert_eq!((recent.successes(), recent.count()), (50, 50));
    }

    #[test]
    fn work_that_ends_is_remembered_with_whoever_did_it() {
        let mut w = World::of(&["lead", "a"]);
        for task in ["t", "u", "v"] {
            w.creates(task, &[]);
            w.starts("a", task);
        }
        w.does(&by("a"), complete("t"));
        w.does(&by("a"), FailTask { error: None, ..fail("u") });
        w.does(&by("a"), crate::testing::release("v"));
        let recent = w.agent("a").recent;
        assert_eq!((recent.successes(), recent.count()), (1, 2));
        w.does(&by("a"), LeaveTeam { agent: "a".into() });
        w.joins("a", AgentRole::Worker);
        assert_eq!(w.agent("a").recent, recent, "one that comes again is the same");
    }

    #[test]
    fn being_given_a_task_is_remembered() {
        let mut w = World::of(&["lead", "a"]);
        assert_eq!(w.agent("a").last_assigned, None);
        w.reserves("t", "a");
        let given = w.agent("a").last_assigned;
        assert!(given.is_some());
        w.creates("u", &[]);
        w.claims("a", "u");
        assert_eq!(w.agent("a").last_assigned, given, "it asked for that one itself");
        w.does(&by("lead"), crate::testing::assign("u", "lead"));
        assert!(w.agent("lead").last_assigned > given);
    }
}
