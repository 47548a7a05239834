//! What this node remembers of who was shown what. Operational, and only in memory.
//!
//! | what | its loss would cost |
//! |---|---|
//! | the newest message shown to an agent in a thread | the next message it sends there begins a new chain |
//! | what an agent has peeked at | it has to look again before it may acknowledge that |
//! | up to where an agent is done with messages to everybody | the next look reads them all again |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::model::message::Message;
use rookery_core::{AgentId, MessageId, Seq, ThreadId};

/// For how many agents something is remembered; those that were shown something longest ago are forgotten first.
const AGENTS: usize = 10_000;
const THREADS_OF_AN_AGENT: usize = 100;
const PEEKED_BY_AN_AGENT: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct LastShown {
    agents: Mutex<BTreeMap<AgentId, Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    newest: BTreeMap<ThreadId, (Seq, MessageId)>,
    peeked: BTreeSet<MessageId>,
    settled: Option<Settled>,
    last: Seq,
}

/// All messages to everybody up to here are done with, for the agent that joined there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Settled {
    joined: Seq,
    upto: Seq,
}

impl LastShown {
    /// The agent was shown these.
    pub(crate) fn saw<'a>(&self, agent: &AgentId, messages: impl IntoIterator<Item = &'a Message>) {
        let mut agents = self.lock();
        let memory = agents.entry(agent.clone()).or_default();
        for message in messages {
            let thread = &message.letter.header.thread;
            let news = (message.sent, message.id().clone());
            memory.last = memory.last.max(message.sent);
            match memory.newest.get_mut(thread) {
                Some(newest) => *newest = news.max(newest.clone()),
                None => drop(memory.newest.insert(thread.clone(), news)),
            }
        }
        while memory.newest.len() > THREADS_OF_AN_AGENT {
            let oldest = memory.newest.iter().min_by_key(|(_, (seq, _))| *seq).map(|(thread, _)| thread.clone());
            memory.newest.retain(|thread, _| Some(thread) != oldest.as_ref());
        }
        if agents.len() > AGENTS {
            let oldest = agents.iter().min_by_key(|(_, memory)| memory.last).map(|(agent, _)| agent.clone());
            agents.retain(|agent, _| Some(agent) != oldest.as_ref());
        }
    }

    /// The newest message that the agent was shown in a thread.
    pub(crate) fn newest(&self, agent: &AgentId, thread: &ThreadId) -> Option<MessageId> {
        self.lock().get(agent).and_then(|memory| memory.newest.get(thread)).map(|(_, message)| message.clone())
    }

    /// The agent saw these without their being marked as read.
    pub(crate) fn peeked(&self, agent: &AgentId, messages: impl IntoIterator<Item = MessageId>) {
        let mut agents = self.lock();
        let peeked = &mut agents.entry(agent.clone()).or_default().peeked;
        peeked.extend(messages);
        while peeked.len() > PEEKED_BY_AN_AGENT {
            peeked.pop_first();
        }
    }

    pub(crate) fn has_peeked(&self, agent: &AgentId, message: &MessageId) -> bool {
        self.lock().get(agent).is_some_and(|memory| memory.peeked.contains(message))
    }

    pub(crate) fn done(&self, agent: &AgentId, messages: &[MessageId]) {
        if let Some(memory) = self.lock().get_mut(agent) {
            memory.peeked.retain(|message| !messages.contains(message));
        }
    }

    /// Up to where an agent that joined there is done with messages to everybody.
    pub(crate) fn settled(&self, agent: &AgentId, joined: Seq) -> Seq {
        let agents = self.lock();
        let settled = agents.get(agent).and_then(|memory| memory.settled).filter(|settled| settled.joined == joined);
        settled.map_or(Seq::ZERO, |settled| settled.upto)
    }

    pub(crate) fn settle(&self, agent: &AgentId, joined: Seq, upto: Seq) {
        let mut agents = self.lock();
        let memory = agents.entry(agent.clone()).or_default();
        let before =
            memory.settled.filter(|settled| settled.joined == joined).map_or(Seq::ZERO, |settled| settled.upto);
        memory.settled = Some(Settled { joined, upto: before.max(upto) });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Memory>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
