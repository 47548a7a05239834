//! Detects loops of agents that keep waking each other and only talk.
//!
//! A turn is *talk* if every message that woke it came from an agent of the team, and the agent did nothing but send messages
//! in it. Each turn of talk passes on how often every agent was woken in this chain, and the next turn that it wakes increments
//! the counts. An agent that would be woken more than [`MAX_ROUNDS`] times in one chain of talk is in a loop. Messages from
//! outside, and any work, end the chain. (In addition, the daemon holds messages after 20 hops, which also ends loops that
//! look like work.)

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of turns of an agent in one chain of talk.
pub(crate) const MAX_ROUNDS: u32 = 6;

/// The number of times that each agent was woken in a chain of talk.
type Chain = BTreeMap<String, u32>;

/// Tracks which agents wake each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LoopDetector {
    /// The chain of each agent's last turn, which it passes on.
    chains: BTreeMap<String, Chain>,
    /// Agents in a loop, with the other members of the loop.
    held: BTreeMap<String, BTreeSet<String>>,
}

/// Whether a turn may begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LoopCheck {
    Granted,
    /// The agent is in a loop. `news` is true the first time.
    Held {
        with: BTreeSet<String>,
        news: bool,
    },
}

impl LoopDetector {
    /// Requests a turn of `agent`, woken by messages of `senders`.
    pub(crate) fn ask(&mut self, agent: &str, senders: &[MessageSender<'_>]) -> LoopCheck {
        let inside: Option<BTreeSet<&str>> = senders.iter().map(MessageSender::member).collect();
        let Some(inside) = inside.filter(|inside| !inside.is_empty()) else {
            // A message came from outside the team, or the wakeup is scheduled.
            self.release(agent);
            return LoopCheck::Granted;
        };
        let chain = self.woken_by(agent, &inside);
        if chain.get(agent).copied().unwrap_or_default() <= MAX_ROUNDS {
            self.held.remove(agent);
            self.chains.insert(agent.to_owned(), chain);
            return LoopCheck::Granted;
        }
        let with: BTreeSet<String> = chain.keys().filter(|other| *other != agent).cloned().collect();
        let news = self.held.insert(agent.to_owned(), with.clone()).is_none();
        LoopCheck::Held { with, news }
    }

    /// Records that `agent` did more than talk in its turn.
    pub(crate) fn record_work(&mut self, agent: &str) {
        self.chains.remove(agent);
    }

    #[cfg(test)]
    fn is_held(&self, agent: &str) -> bool {
        self.held.contains_key(agent)
    }

    /// The chain of the requested turn of `agent`: the highest counts of its senders' chains, with `agent` incremented.
    fn woken_by(&self, agent: &str, senders: &BTreeSet<&str>) -> Chain {
        let mut chain = Chain::new();
        for sent in senders.iter().filter_map(|sender| self.chains.get(*sender)) {
            for (name, count) in sent {
                let most = chain.entry(name.clone()).or_default();
                *most = (*most).max(*count);
            }
        }
        *chain.entry(agent.to_owned()).or_default() += 1;
        chain
    }

    fn release(&mut self, agent: &str) {
        self.chains.remove(agent);
        self.held.remove(agent);
    }
}

/// The sender of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MessageSender<'a> {
    Member(&'a str),
    /// A person, the system, an agent of another team.
    Outside,
}

impl<'a> MessageSender<'a> {
    fn member(&self) -> Option<&'a str> {
        match self {
            MessageSender::Member(name) => Some(name),
            MessageSender::Outside => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_SYSTEM: [MessageSender<'_>; 1] = [MessageSender::Outside];

    /// Lets agents wake each other in a circle, and returns the number of granted turns.
    fn circle(loops: &mut LoopDetector, names: &[&str], most: usize) -> usize {
        assert_eq!(loops.ask(names[0], &BY_SYSTEM), LoopCheck::Granted);
        let turns = (1..most).take_while(|nth| {
            let (agent, before) = (names[nth % names.len()], names[(nth - 1) % names.len()]);
            loops.ask(agent, &[MessageSender::Member(before)]) == LoopCheck::Granted
        });
        1 + turns.count()
    }

    #[test]
    fn two_agents_that_only_talk_are_held() {
        let mut loops = LoopDetector::default();
        assert_eq!(circle(&mut loops, &["a", "b"], 100), 13, "the first was for the system");
        assert!(loops.is_held("b") && !loops.is_held("a"));
        let with = BTreeSet::from(["a".to_owned()]);
        assert_eq!(loops.ask("b", &[MessageSender::Member("a")]), LoopCheck::Held { with, news: false });
    }

    #[test]
    fn three_agents_in_a_circle_are_held() {
        assert_eq!(circle(&mut LoopDetector::default(), &["a", "b", "c"], 100), 19);
    }

    #[test]
    fn work_ends_the_chain() {
        let mut loops = LoopDetector::default();
        for round in 0..100 {
            assert_eq!(loops.ask("a", &[MessageSender::Member("b")]), LoopCheck::Granted, "{round}");
            assert_eq!(loops.ask("b", &[MessageSender::Member("a")]), LoopCheck::Granted, "{round}");
            loops.record_work("b");
        }
    }

    #[test]
    fn message_from_outside_releases_the_loop() {
        let mut loops = LoopDetector::default();
        circle(&mut loops, &["a", "b"], 100);
        assert!(loops.is_held("b"));
        assert_eq!(loops.ask("b", &[MessageSender::Member("a"), MessageSender::Outside]), LoopCheck::Granted);
        assert!(!loops.is_held("b"));
        assert_eq!(loops.ask("a", &[MessageSender::Member("b")]), LoopCheck::Granted);
    }

    #[test]
    fn many_answers_to_one_agent_are_no_loop() {
        let mut loops = LoopDetector::default();
        let crowd: Vec<String> = (0..50).map(|nth| format!("w{nth}")).collect();
        assert_eq!(loops.ask("lead", &BY_SYSTEM), LoopCheck::Granted);
        for worker in &crowd {
            assert_eq!(loops.ask(worker, &[MessageSender::Member("lead")]), LoopCheck::Granted);
        }
        for worker in &crowd {
            assert_eq!(loops.ask("lead", &[MessageSender::Member(worker)]), LoopCheck::Granted, "{worker}");
        }
    }

    #[test]
    fn scheduled_wakeup_is_not_part_of_a_chain() {
        let mut loops = LoopDetector::default();
        for _ in 0..100 {
            assert_eq!(loops.ask("a", &[]), LoopCheck::Granted);
        }
    }
}
