//! How much waits for each agent, remembered between calls: every result of a tool tells it, and it seldom changes.
//!
//! Kept up by whoever follows the log and by this node's own commands; without a follower nothing is remembered. What was
//! counted while something changed is not taken in.

use rookery_core::messages::{MessagesAcked, MessagesRead, MessagesSuperseded};
use rookery_core::model::message::{Header, Recipients};
use rookery_core::{AgentId, AnyEvent, EventRef, TaskId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::arrival::Arrival;

/// Messages expire without a fact that says so: counted anew after so long in any case.
const KEPT_MILLIS: u64 = 30_000;
const AGENTS: usize = 10_000;

/// How much waits for an agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unread {
    /// Not acknowledged yet.
    pub pending: usize,
    /// Of these, not even shown to it.
    pub unseen: usize,
    /// Of the unseen, mentions, direct messages and messages of the Clutch protocol: what its inbox shows.
    pub inbox: usize,
    /// Of the unseen, coordination messages that want its attention: those about sessions do not.
    pub coord: usize,
    /// Of those that were shown to it, what its inbox shows.
    pub inbox_read: usize,
    /// Of those that were shown to it, coordination messages that want its attention.
    pub coord_read: usize,
    /// The tasks that the router gave to it, and that it has neither taken nor given back; the oldest first.
    pub given: Vec<TaskId>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    followed: bool,
    /// Counted up with every change.
    version: u64,
    known: BTreeMap<AgentId, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    unread: Unread,
    until: u64,
}

/// The version before counting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before(u64);

impl Counts {
    pub(crate) fn get(&self, agent: &AgentId, now: u64) -> Option<Unread> {
        self.lock().known.get(agent).filter(|known| now < known.until).map(|known| known.unread.clone())
    }

    pub(crate) fn before(&self) -> Before {
        Before(self.lock().version)
    }

    /// Takes what was counted, unless something changed meanwhile or nobody would tell of a change.
    pub(crate) fn counted(&self, agent: &AgentId, unread: Unread, before: Before, now: u64) {
        let mut state = self.lock();
        if !state.followed || state.version != before.0 {
            return;
        }
        if state.known.len() >= AGENTS {
            state.known.clear();
        }
        state.known.insert(agent.clone(), Known { unread, until: now.saturating_add(KEPT_MILLIS) });
    }

    pub(crate) fn changed<'a>(&self, agents: impl IntoIterator<Item = &'a AgentId>) {
        let mut state = self.lock();
        state.version += 1;
        for agent in agents {
            state.known.remove(agent);
        }
    }

    pub(crate) fn all_changed(&self) {
        let mut state = self.lock();
        state.version += 1;
        state.known.clear();
    }

    pub(crate) fn sent(&self, header: &Header) {
        match &header.to {
            Recipients::Agents(agents) => self.changed(agents.iter().chain(&header.unknown)),
            Recipients::Everyone => self.all_changed(),
        }
    }

    /// What a fact means for what waits.
    pub(crate) fn note(&self, fact: &AnyEvent) {
        match fact.typed() {
            EventRef::MessageSent(fact) => self.sent(&fact.letter.header),
            EventRef::MessageReleased(fact) => self.sent(&fact.header),
            EventRef::MessagesRead(MessagesRead(receipt))
            | EventRef::MessagesAcked(MessagesAcked(receipt))
            | EventRef::MessagesSuperseded(MessagesSuperseded(receipt)) => self.changed([&receipt.agent]),
            EventRef::AgentRegistered(fact) => self.changed([&fact.id]),
            EventRef::AgentLeft(fact) => self.changed([&fact.agent]),
            _ => match Arrival::of(fact) {
                Arrival::Nobody => {}
                Arrival::Agents(agents) => self.changed(agents),
                Arrival::Everyone => self.all_changed(),
            },
        }
    }

    /// From now on somebody tells of every change, until what this returns is dropped.
    pub(crate) fn follow(&self) -> Followed<'_> {
        self.lock().followed = true;
        Followed { counts: self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Followed<'a> {
    counts: &'a Counts,
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        let mut state = self.counts.lock();
        state.followed = false;
        state.version += 1;
        state.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Unread {
        Unread { pending: 2, unseen: 1, inbox: 1, inbox_read: 1, ..Unread::default() }
    }

    #[test]
    fn counts_are_remembered_while_somebody_follows_and_nothing_changed() {
        let (counts, a, b) = (Counts::default(), AgentId::from("a"), AgentId::from("b"));
        counts.counted(&a, two(), counts.before(), 0);
        assert_eq!(counts.get(&a, 0), None, "nobody would tell of a change");
        let followed = counts.follow();
        let before = counts.before();
        counts.changed([&b]);
        counts.counted(&a, two(), before, 0);
        assert_eq!(counts.get(&a, 0), None, "something changed while it was counted");
        counts.counted(&a, two(), counts.before(), 0);
        assert_eq!((counts.get(&a, KEPT_MILLIS - 1), counts.get(&a, KEPT_MILLIS)), (Some(two()), None));
        counts.changed([&b]);
        assert_eq!(counts.get(&a, 0), Some(two()));
        counts.changed([&a]);
        assert_eq!(counts.get(&a, 0), None);
        counts.counted(&a, two(), counts.before(), 0);
        drop(followed);
        assert_eq!(counts.get(&a, 0), None);
    }
}
