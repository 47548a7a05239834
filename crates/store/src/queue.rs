//! How commands wait: bounded by count and bytes, callers taking turns, our own commands first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::batch::Outcome;
use crate::operational::Operation;
use crate::store::{Lane, Submission, SubmitError};

/// How many commands wait at most, unless another number is set.
pub const COMMANDS: u32 = 4_096;
/// How many bytes of commands wait at most, unless another number is set.
pub const BYTES: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub commands: usize,
    pub bytes: usize,
    /// Room that only our own commands may use.
    pub reserved: usize,
    pub batch_commands: usize,
    pub batch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            commands: COMMANDS as usize,
            bytes: usize::try_from(BYTES).unwrap_or(usize::MAX),
            reserved: 1_024,
            batch_commands: 512,
            batch_bytes: 1024 * 1024,
        }
    }
}

/// A command and the one who waits for its outcome.
#[derive(Debug)]
pub struct QueuedCommand {
    pub submission: Submission,
    /// What it weighs, told once.
    bytes: usize,
    pub reply: oneshot::Sender<Outcome>,
}

/// A piece of operational state to write, and the one who waits for it.
#[derive(Debug)]
pub struct Chore {
    pub operation: Operation,
    pub reply: oneshot::Sender<Result<usize, SubmitError>>,
}

/// What a writer takes in one go.
#[derive(Debug, Default)]
pub struct Load {
    pub commands: Vec<QueuedCommand>,
    pub chores: Vec<Chore>,
}

#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    state: Mutex<State>,
    /// Wakes a writer that is a thread.
    filled: Condvar,
    /// Wakes a writer that is a task.
    notify: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct State {
    lanes: HashMap<String, VecDeque<QueuedCommand>>,
    /// Callers that wait, in the order of their turn.
    turns: VecDeque<String>,
    internal: VecDeque<QueuedCommand>,
    chores: VecDeque<Chore>,
    commands: usize,
    bytes: usize,
    closed: bool,
}

impl Queue {
    pub fn new(limits: Limits) -> Queue {
        Queue { limits, state: Mutex::default(), filled: Condvar::new(), notify: tokio::sync::Notify::new() }
    }

    pub fn push(&self, submission: Submission) -> Result<oneshot::Receiver<Outcome>, SubmitError> {
        let (reply, outcome) = oneshot::channel();
        let bytes = submission.bytes();
        let mut state = self.lock();
        if state.closed {
            return Err(SubmitError::Stopped);
        }
        match submission.lane.clone() {
            Lane::Internal if state.internal.len() >= self.limits.reserved => return Err(SubmitError::Busy),
            Lane::Internal => state.internal.push_back(QueuedCommand { submission, bytes, reply }),
            Lane::Caller(_) if state.commands >= self.limits.commands || state.bytes + bytes > self.limits.bytes => {
                return Err(SubmitError::Busy);
            }
            Lane::Caller(name) => {
                state.commands += 1;
                state.bytes += bytes;
                let lane = state.lanes.entry(name.clone()).or_default();
                lane.push_back(QueuedCommand { submission, bytes, reply });
                if lane.len() == 1 {
                    state.turns.push_back(name);
                }
            }
        }
        self.wake(state);
        Ok(outcome)
    }

    pub fn push_chore(
        &self,
        operation: Operation,
    ) -> Result<oneshot::Receiver<Result<usize, SubmitError>>, SubmitError> {
        let (reply, outcome) = oneshot::channel();
        let mut state = self.lock();
        if state.closed {
            return Err(SubmitError::Stopped);
        }
        if state.chores.len() >= self.limits.reserved {
            return Err(SubmitError::Busy);
        }
        state.chores.push_back(Chore { operation, reply });
        self.wake(state);
        Ok(outcome)
    }

    /// Waits for work and takes a batch of it. `None` once the queue is closed and empty; an empty load after `idle`.
    pub fn take(&self, idle: Duration) -> Option<Load> {
        let mut state = self.lock();
        if state.is_empty() && !state.closed {
            state = self.filled.wait_timeout(state, idle).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.drain(&mut state)
    }

    /// Takes a batch of what waits right now.
    pub fn take_now(&self) -> Option<Load> {
        self.drain(&mut self.lock())
    }

    /// Resolves when something may be waiting.
    pub async fn filled(&self) {
        self.notify.notified().await;
    }

    /// Takes no more; what waits is still handed out.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.wake(state);
    }

    /// Commands that wait, for the gauges.
    pub fn depth(&self) -> usize {
        let state = self.lock();
        state.commands + state.internal.len()
    }

    fn drain(&self, state: &mut State) -> Option<Load> {
        if state.is_empty() {
            return if state.closed { None } else { Some(Load::default()) };
        }
        let mut load = Load { commands: Vec::new(), chores: state.chores.drain(..).collect() };
        let mut bytes = 0;
        while load.commands.len() < self.limits.batch_commands && bytes < self.limits.batch_bytes {
            let Some(waiting) = state.pop() else { break };
            bytes += waiting.bytes;
            load.commands.push(waiting);
        }
        Some(load)
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.filled.notify_one();
        self.notify.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.commands == 0 && self.internal.is_empty() && self.chores.is_empty()
    }

    /// Our own commands first, then one of each caller in turn.
    fn pop(&mut self) -> Option<QueuedCommand> {
        if let Some(waiting) = self.internal.pop_front() {
            return Some(waiting);
        }
        let name = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&name)?;
        let waiting = lane.pop_front()?;
        if lane.is_empty() {
            self.lanes.remove(&name);
        } else {
            self.turns.push_back(name);
        }
        self.commands -= 1;
        self.bytes -= waiting.bytes;
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use rookery_core::agents::{AgentReturned, ReturnAgent};
    use rookery_core::redaction::{Redact, Target};
    use rookery_core::{AnyEvent, Caller, Seq};

    use super::*;

    fn from(name: &str) -> Submission {
        Submission::new(Caller::asserted(name), ReturnAgent { agent: name.into() })
    }

    fn names(load: &Load) -> Vec<String> {
        load.commands.iter().map(|waiting| waiting.submission.caller.actor.to_string()).collect()
    }

    #[test]
    fn callers_take_turns_and_our_own_commands_go_first() {
        let queue = Queue::new(Limits::default());
        let mut kept = Vec::new();
        for name in ["flood", "flood", "flood", "quiet"] {
            kept.push(queue.push(from(name)).unwrap());
        }
        kept.push(queue.push(Submission::internal(Caller::system(), ReturnAgent { agent: "x".into() })).unwrap());
        assert_eq!(names(&queue.take_now().unwrap()), ["system", "flood", "quiet", "flood", "flood"]);
        assert_eq!(queue.depth(), 0);
    }

    #[test]
    fn the_lane_is_chosen_by_who_submits_and_not_by_a_name() {
        let named = Submission::new(Caller::system(), ReturnAgent { agent: "x".into() });
        assert_eq!(named.lane, Lane::Caller("system".to_owned()));
    }

    #[test]
    fn a_full_queue_is_an_error_and_keeps_room_for_our_own() {
        let queue = Queue::new(Limits { commands: 2, ..Limits::default() });
        let _one = queue.push(from("a")).unwrap();
        let _two = queue.push(from("b")).unwrap();
        assert_eq!(queue.push(from("c")).unwrap_err(), SubmitError::Busy);
        assert!(queue.push(Submission::internal(Caller::system(), ReturnAgent { agent: "x".into() })).is_ok());
    }

    #[test]
    fn a_closed_queue_hands_out_what_waits_and_then_ends() {
        let queue = Queue::new(Limits::default());
        let _one = queue.push(from("a")).unwrap();
        queue.close();
        assert_eq!(queue.push(from("b")).unwrap_err(), SubmitError::Stopped);
        assert_eq!(queue.take_now().unwrap().commands.len(), 1);
        assert!(queue.take_now().is_none());
    }

    #[test]
    fn a_body_kept_elsewhere_and_what_is_redacted_weigh_as_much() {
        let queue = Queue::new(Limits { bytes: 64 * 1024, ..Limits::default() });
        let large = Submission { received_bytes: 64 * 1024, ..from("a") };
        assert_eq!(queue.push(large).unwrap_err(), SubmitError::Busy);
        let fact = AnyEvent::new(AgentReturned { agent: "a".into() });
        let rows = (1..=1_000).map(|seq| Target { seq: Seq(seq), fact: fact.clone(), artifact: None }).collect();
        let redact = Submission::new(Caller::person("anna"), Redact { rows });
        assert_eq!(queue.push(redact).unwrap_err(), SubmitError::Busy);
    }

    #[test]
    fn a_batch_is_bounded() {
        let queue = Queue::new(Limits { batch_commands: 2, ..Limits::default() });
        let kept: Vec<_> = (0..5).map(|_| queue.push(from("a")).unwrap()).collect();
        let sizes: Vec<usize> = (0..3).map(|_| queue.take_now().unwrap().commands.len()).collect();
        assert_eq!((kept.len(), sizes), (5, vec![2, 2, 1]));
    }
}
