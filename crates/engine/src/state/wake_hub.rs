//! Wake-ups: who listens on this node, what it has to be told, and when to tell it again.
//!
//! Operational, and only in memory: losing it costs a repeated wake-up. The inbox is the truth. Every node notifies the
//! agents that are connected to it and no others, so that nodes need not know of each other. Nobody waits for a listener:
//! its queue is bounded, a message stands in it once, and what does not fit is told again later.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rookery_core::model::message::{Form, Letter, Priority};
use rookery_core::{AgentId, Instance, MessageId, Timestamp};
use tokio::sync::Notify;

/// How many wake-ups wait for one listener.
const QUEUE: usize = 64;
/// How many messages one agent is reminded of at a time; the rest when it has read some.
const REMINDERS: usize = 500;
/// How much of a text a wake-up shows.
const EXCERPT_CHARACTERS: usize = 500;
const INITIAL_BACKOFF_MILLIS: u64 = 1_000;
const MAX_BACKOFF_MILLIS: u64 = 5 * 60 * 1_000;

/// Tells an agent that a message waits for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wake {
    pub agent: AgentId,
    pub message: MessageId,
    pub form: Form,
    /// What the author is called in the instance of the one that is told.
    pub from: String,
    /// Where it was said.
    pub instance: Instance,
    /// The beginning of the text, or the subject where there is one.
    pub excerpt: String,
    pub priority: Priority,
    pub at: Timestamp,
    /// How often the agent has been told, with this time.
    pub attempt: u32,
}

impl Wake {
    pub fn of(agent: &AgentId, letter: &Letter, at: Timestamp) -> Wake {
        let header = &letter.header;
        let text = letter.subject.as_ref().unwrap_or(&letter.text);
        Wake {
            agent: agent.clone(),
            message: header.message.clone(),
            form: header.form,
            from: header.author_for(&Instance::of(agent)),
            instance: Instance::of_thread(&header.thread),
            excerpt: text.chars().take(EXCERPT_CHARACTERS).collect(),
            priority: header.priority,
            at,
            attempt: 0,
        }
    }
}

#[derive(Debug, Default)]
pub struct WakeHub {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    agents: Mutex<BTreeMap<AgentId, Attention>>,
    /// Rings when somebody began to listen, or has to be looked up again.
    look: Notify,
}

/// An agent that somebody on this node listens for.
#[derive(Debug, Default)]
struct Attention {
    queues: Vec<Arc<Queue>>,
    reminders: BTreeMap<MessageId, Reminder>,
    lookup: LookupState,
}

/// Whether what waits for an agent has to be read from the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum LookupState {
    #[default]
    Due,
    Done,
    /// Done, and there was more than fits.
    Partial,
}

#[derive(Debug)]
struct Reminder {
    wake: Wake,
    /// On the monotonic clock.
    due: u64,
}

#[derive(Debug, Default)]
struct Queue {
    wakes: Mutex<VecDeque<Wake>>,
    filled: Notify,
}

/// Hears of the messages that wait for one agent, again and again until they are read.
#[derive(Debug)]
pub struct WakeListener {
    agent: AgentId,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
}

impl WakeListener {
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// The next wake-up. Safe to drop while it waits.
    pub async fn next(&mut self) -> Wake {
        loop {
            let filled = self.queue.filled.notified();
            let waiting = self.queue.lock().pop_front();
            match waiting {
                Some(wake) => return wake,
                None => filled.await,
            }
        }
    }

    pub fn try_next(&mut self) -> Option<Wake> {
        self.queue.lock().pop_front()
    }
}

impl Drop for WakeListener {
    fn drop(&mut self) {
        let mut agents = self.shared.lock();
        if let Some(attention) = agents.get_mut(&self.agent) {
            attention.queues.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
            if attention.queues.is_empty() {
                agents.remove(&self.agent);
            }
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Wake>> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, wake: Wake) {
        let mut wakes = self.lock();
        wakes.retain(|waiting| waiting.message != wake.message);
        if wakes.len() >= QUEUE {
            wakes.pop_front();
        }
        wakes.push_back(wake);
        drop(wakes);
        self.filled.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Attention>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WakeHub {
    /// Listens for an agent. What waits for it already is told first.
    pub fn listen(&self, agent: &AgentId) -> WakeListener {
        let queue = Arc::new(Queue::default());
        let mut agents = self.shared.lock();
        let attention = agents.entry(agent.clone()).or_default();
        attention.queues.push(queue.clone());
        attention.lookup = LookupState::Due;
        attention.reminders.values_mut().for_each(|reminder| reminder.due = 0);
        drop(agents);
        self.shared.look.notify_one();
        WakeListener { agent: agent.clone(), queue, shared: self.shared.clone() }
    }

    /// How often this node has told an agent of a message that it has not read.
    pub fn attempts(&self, agent: &AgentId, message: &MessageId) -> u32 {
        let agents = self.shared.lock();
        let reminder = agents.get(agent).and_then(|attention| attention.reminders.get(message));
        reminder.map_or(0, |reminder| reminder.wake.attempt)
    }

    /// Waits until somebody has to be looked up.
    pub(crate) async fn lookup_due(&self) {
        self.shared.look.notified().await;
    }

    pub(crate) fn to_look_up(&self) -> Vec<AgentId> {
        let agents = self.shared.lock();
        agents.iter().filter(|(_, of)| of.lookup == LookupState::Due).map(|(agent, _)| agent.clone()).collect()
    }

    /// What waits for an agent may be something else than what was told so far.
    pub(crate) fn look_up_again(&self, agent: &AgentId) {
        if let Some(attention) = self.shared.lock().get_mut(agent) {
            attention.lookup = LookupState::Due;
            self.shared.look.notify_one();
        }
    }

    pub(crate) fn look_everybody_up_again(&self) {
        self.shared.lock().values_mut().for_each(|attention| attention.lookup = LookupState::Due);
        self.shared.look.notify_one();
    }

    /// Those that somebody listens for here.
    pub(crate) fn heard(&self) -> Vec<AgentId> {
        self.shared.lock().keys().cloned().collect()
    }

    /// A message waits for an agent from now on.
    pub(crate) fn add(&self, wake: Wake, now: u64) {
        if let Some(attention) = self.shared.lock().get_mut(&wake.agent) {
            attention.add(wake, now);
        }
    }

    /// These wait for an agent, and nothing else. One that it was told of already keeps its turn.
    pub(crate) fn found(&self, agent: &AgentId, wakes: Vec<Wake>, now: u64) {
        let mut agents = self.shared.lock();
        let Some(attention) = agents.get_mut(agent) else { return };
        attention.lookup = if wakes.len() > REMINDERS { LookupState::Partial } else { LookupState::Done };
        let found: BTreeSet<MessageId> = wakes.iter().map(|wake| wake.message.clone()).collect();
        attention.reminders.retain(|message, _| found.contains(message));
        wakes.into_iter().for_each(|wake| attention.add(wake, now));
    }

    /// The agent has read or acknowledged these.
    pub(crate) fn read<'a>(&self, agent: &AgentId, messages: impl IntoIterator<Item = &'a MessageId>) {
        let mut agents = self.shared.lock();
        let Some(attention) = agents.get_mut(agent) else { return };
        for message in messages {
            attention.reminders.remove(message);
            attention.queues.iter().for_each(|queue| queue.lock().retain(|waiting| waiting.message != *message));
        }
        if attention.lookup == LookupState::Partial && attention.reminders.len() < REMINDERS / 2 {
            attention.lookup = LookupState::Due;
            self.shared.look.notify_one();
        }
    }

    /// Nobody is told of a message as it was; whoever it waits for is looked up again.
    pub(crate) fn forget(&self, message: &MessageId) {
        for attention in self.shared.lock().values_mut() {
            attention.queues.iter().for_each(|queue| queue.lock().retain(|waiting| waiting.message != *message));
            if attention.reminders.remove(message).is_some() {
                attention.lookup = LookupState::Due;
                self.shared.look.notify_one();
            }
        }
    }

    /// Tells everybody what is due, if it is here; when the next turn comes.
    pub(crate) fn ring(&self, now: u64, is_here: impl Fn(&AgentId) -> bool) -> Option<u64> {
        let mut next: Option<u64> = None;
        for (agent, attention) in self.shared.lock().iter_mut() {
            if !is_here(agent) {
                continue;
            }
            for reminder in attention.reminders.values_mut() {
                if reminder.due <= now {
                    reminder.wake.attempt = reminder.wake.attempt.saturating_add(1);
                    attention.queues.iter().for_each(|queue| queue.put(reminder.wake.clone()));
                    reminder.due = now.saturating_add(pause(reminder.wake.attempt));
                }
                next = Some(next.map_or(reminder.due, |next| next.min(reminder.due)));
            }
        }
        next
    }
}

impl Attention {
    fn add(&mut self, wake: Wake, now: u64) {
        if self.reminders.len() >= REMINDERS && !self.reminders.contains_key(&wake.message) {
            self.lookup = LookupState::Partial;
            return;
        }
        self.reminders.entry(wake.message.clone()).or_insert(Reminder { wake, due: now });
    }
}

/// How long after an attempt the next one comes: doubled each time.
fn pause(attempt: u32) -> u64 {
    let doubled = INITIAL_BACKOFF_MILLIS.saturating_mul(1 << attempt.saturating_sub(1).min(20));
    doubled.min(MAX_BACKOFF_MILLIS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(agent: &str, message: &str) -> Wake {
        Wake {
            agent: agent.into(),
            message: message.into(),
            form: Form::Entry,
            from: "b".to_owned(),
            instance: Instance::default(),
            excerpt: "hi".to_owned(),
            priority: Priority::Normal,
            at: Timestamp(0),
            attempt: 0,
        }
    }

    fn heard(listener: &mut WakeListener) -> Vec<(String, u32)> {
        std::iter::from_fn(|| listener.try_next()).map(|wake| (wake.message.to_string(), wake.attempt)).collect()
    }

    #[test]
    fn it_is_told_again_and_again_ever_less_often_until_it_reads() {
        let wakes = WakeHub::default();
        let (a, mut listener) = ("a".into(), wakes.listen(&"a".into()));
        wakes.add(wake("a", "m"), 0);
        let mut turns = vec![];
        let mut now = 0;
        for attempt in 1..=12 {
            let next = wakes.ring(now, |_| true).unwrap();
            assert_eq!(heard(&mut listener), [("m".to_owned(), attempt)]);
            assert_eq!((wakes.ring(next - 1, |_| true), heard(&mut listener)), (Some(next), vec![]));
            turns.push((next - now) / 1_000);
            now = next;
        }
        assert_eq!(turns, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(wakes.attempts(&a, &"m".into()), 12);
        wakes.read(&a, [&"m".into()]);
        assert_eq!((wakes.ring(now * 2, |_| true), wakes.attempts(&a, &"m".into())), (None, 0));
    }

    #[test]
    fn one_that_is_away_is_told_when_it_is_back() {
        let wakes = WakeHub::default();
        let mut listener = wakes.listen(&"a".into());
        wakes.add(wake("a", "m"), 0);
        assert_eq!((wakes.ring(5, |_| false), heard(&mut listener)), (None, vec![]));
        wakes.ring(10, |_| true);
        assert_eq!(heard(&mut listener), [("m".to_owned(), 1)]);
    }

    #[test]
    fn a_listener_that_does_not_listen_holds_nobody_up() {
        let wakes = WakeHub::default();
        let mut slow = wakes.listen(&"a".into());
        let mut quick = wakes.listen(&"a".into());
        for at in 0..QUEUE + 10 {
            wakes.add(wake("a", &format!("m{at:03}")), 0);
            wakes.ring(0, |_| true);
            assert_eq!(heard(&mut quick).len(), 1);
        }
        wakes.ring(1_000, |_| true);
        assert_eq!(heard(&mut slow).len(), QUEUE, "each message once, the newest");
        assert!(!heard(&mut quick).is_empty());
    }

    #[test]
    fn nobody_is_remembered_that_nobody_listens_for() {
        let wakes = WakeHub::default();
        wakes.add(wake("a", "m"), 0);
        let (one, other) = (wakes.listen(&"a".into()), wakes.listen(&"a".into()));
        assert_eq!(wakes.to_look_up(), ["a".into()]);
        wakes.found(&"a".into(), vec![wake("a", "m")], 0);
        assert_eq!((wakes.to_look_up(), wakes.heard().len()), (vec![], 1));
        drop(one);
        wakes.ring(0, |_| true);
        assert_eq!(wakes.attempts(&"a".into(), &"m".into()), 1);
        drop(other);
        assert_eq!((wakes.heard(), wakes.attempts(&"a".into(), &"m".into())), (vec![], 0));
    }

    #[test]
    fn what_was_redacted_is_not_told_as_it_was() {
        let wakes = WakeHub::default();
        let mut listener = wakes.listen(&"a".into());
        wakes.found(&"a".into(), vec![wake("a", "m"), wake("a", "n")], 0);
        wakes.ring(0, |_| true);
        wakes.forget(&"m".into());
        assert_eq!((heard(&mut listener), wakes.to_look_up()), (vec![("n".to_owned(), 1)], vec!["a".into()]));
    }

    #[test]
    fn more_than_fits_is_looked_up_when_some_was_read() {
        let wakes = WakeHub::default();
        let a: AgentId = "a".into();
        let _listener = wakes.listen(&a);
        let many: Vec<Wake> = (0..=REMINDERS).map(|at| wake("a", &format!("m{at:04}"))).collect();
        wakes.found(&a, many, 0);
        assert_eq!(wakes.to_look_up(), []);
        let read: Vec<MessageId> = (0..REMINDERS).map(|at| MessageId::new(format!("m{at:04}"))).collect();
        wakes.read(&a, &read);
        assert_eq!(wakes.to_look_up(), [a]);
    }
}
