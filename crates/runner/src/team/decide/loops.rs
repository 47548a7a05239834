//! Ping-pong: agents that wake each other again and again, and do nothing but talk.
//!
//! The rule: a turn is *talk* if every message that woke it came from an agent of the team, and the agent did nothing else in
//! it that can be seen. Each turn of talk hands on how often every agent was woken in this chain; the next one that is woken
//! by it counts on. An agent that would be woken once more than [`MAX_ROUNDS`] times in one chain of talk is in a loop.
//! Whatever comes from outside, and any work, ends the chain. (The daemon holds messages after 20 hops besides, whoever sends them: that
//! also ends loops that look like work.)

use std::collections::{BTreeMap, BTreeSet};

/// How often an agent may have its turn in one chain of talk.
pub(crate) const MAX_ROUNDS: u32 = 6;

/// How often agents were woken in a chain of talk.
type Chain = BTreeMap<String, u32>;

/// Follows who wakes whom.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Loops {
    /// The chain that each agent's last turn was part of, and hands on.
    chains: BTreeMap<String, Chain>,
    /// Who is in a loop, with those that it is in it with.
    held: BTreeMap<String, BTreeSet<String>>,
}

/// Whether a turn may begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Granted,
    /// It would go round once more. `news` if that was not so before.
    Held {
        with: BTreeSet<String>,
        news: bool,
    },
}

impl Loops {
    /// Asks for a turn of `agent`, woken by messages of `senders`. None of those is known as a member of the team if the
    /// message came from outside.
    pub(crate) fn ask(&mut self, agent: &str, senders: &[Sender<'_>]) -> Turn {
        let inside: Option<BTreeSet<&str>> = senders.iter().map(Sender::member).collect();
        let Some(inside) = inside.filter(|inside| !inside.is_empty()) else {
            // Somebody else has a word in it, or its alarm rang.
            self.free(agent);
            return Turn::Granted;
        };
        let chain = self.woken_by(agent, &inside);
        if chain.get(agent).copied().unwrap_or_default() <= MAX_ROUNDS {
            self.held.remove(agent);
            self.chains.insert(agent.to_owned(), chain);
            return Turn::Granted;
        }
        let with: BTreeSet<String> = chain.keys().filter(|other| *other != agent).cloned().collect();
        let news = self.held.insert(agent.to_owned(), with.clone()).is_none();
        Turn::Held { with, news }
    }

    /// A turn of `agent` is over, in which it did more than talk.
    pub(crate) fn worked(&mut self, agent: &str) {
        self.chains.remove(agent);
    }

    #[cfg(test)]
    fn is_held(&self, agent: &str) -> bool {
        self.held.contains_key(agent)
    }

    /// The chain that a turn of `agent` would be part of: the longest that its senders hand on, and itself once more.
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

    fn free(&mut self, agent: &str) {
        self.chains.remove(agent);
        self.held.remove(agent);
    }
}

/// Who sent a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender<'a> {
    Member(&'a str),
    /// A person, the system, an agent of another team.
    Outside,
}

impl<'a> Sender<'a> {
    fn member(&self) -> Option<&'a str> {
        match self {
            Sender::Member(name) => Some(name),
            Sender::Outside => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_SYSTEM: [Sender<'_>; 1] = [Sender::Outside];

    /// Lets agents wake each other in a circle, and tells how many turns they got.
    fn circle(loops: &mut Loops, names: &[&str], most: usize) -> usize {
        assert_eq!(loops.ask(names[0], &BY_SYSTEM), Turn::Granted);
        let turns = (1..most).take_while(|nth| {
            let (agent, before) = (names[nth % names.len()], names[(nth - 1) % names.len()]);
            loops.ask(agent, &[Sender::Member(before)]) == Turn::Granted
        });
        1 + turns.count()
    }

    #[test]
    fn two_that_only_talk_are_held() {
        let mut loops = Loops::default();
        assert_eq!(circle(&mut loops, &["a", "b"], 100), 13, "the first was for the system");
        assert!(loops.is_held("b") && !loops.is_held("a"));
        let with = BTreeSet::from(["a".to_owned()]);
        assert_eq!(loops.ask("b", &[Sender::Member("a")]), Turn::Held { with, news: false });
    }

    #[test]
    fn three_in_a_circle_are_held_too() {
        assert_eq!(circle(&mut Loops::default(), &["a", "b", "c"], 100), 19);
    }

    #[test]
    fn work_ends_the_chain() {
        let mut loops = Loops::default();
        for round in 0..100 {
            assert_eq!(loops.ask("a", &[Sender::Member("b")]), Turn::Granted, "{round}");
            assert_eq!(loops.ask("b", &[Sender::Member("a")]), Turn::Granted, "{round}");
            loops.worked("b");
        }
    }

    #[test]
    fn a_word_from_outside_sets_free() {
        let mut loops = Loops::default();
        circle(&mut loops, &["a", "b"], 100);
        assert!(loops.is_held("b"));
        assert_eq!(loops.ask("b", &[Sender::Member("a"), Sender::Outside]), Turn::Granted);
        assert!(!loops.is_held("b"));
        assert_eq!(loops.ask("a", &[Sender::Member("b")]), Turn::Granted);
    }

    #[test]
    fn many_who_answer_one_are_no_loop() {
        let mut loops = Loops::default();
        let crowd: Vec<String> = (0..50).map(|nth| format!("w{nth}")).collect();
        assert_eq!(loops.ask("lead", &BY_SYSTEM), Turn::Granted);
        for worker in &crowd {
            assert_eq!(loops.ask(worker, &[Sender::Member("lead")]), Turn::Granted);
        }
        for worker in &crowd {
            assert_eq!(loops.ask("lead", &[Sender::Member(worker)]), Turn::Granted, "{worker}");
        }
    }

    #[test]
    fn an_alarm_is_no_part_of_a_chain() {
        let mut loops = Loops::default();
        for _ in 0..100 {
            assert_eq!(loops.ask("a", &[]), Turn::Granted);
        }
    }
}
