//! The phase of each agent of a team. The agents' loops update it, and the supervisor reads it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::report::{AgentState, MemberStatus, UsageTotals};
use crate::backend::Usage;

#[derive(Debug)]
pub(super) struct Board {
    slots: Mutex<AgentSlots>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct AgentSlots {
    agents: BTreeMap<String, AgentSlot>,
    /// The number of changes so far.
    changes: u64,
}

#[derive(Debug)]
struct AgentSlot {
    phase: Phase,
    /// The number of wake-ups, and how many of them it has handled.
    woken: u64,
    seen: u64,
    wake: Arc<Notify>,
    stop: CancellationToken,
    /// Whether it may have been paused since the daemon was last asked.
    may_be_paused: bool,
    tally: UsageTotals,
    /// The reason why its last turn failed, if it did.
    failed: Option<String>,
}

/// The activity of an agent.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Phase {
    Idle,
    Working,
    /// It continues by itself after a delay.
    Waiting(AgentState),
    /// It has work, and continues once it is resumed.
    Paused {
        why: String,
    },
    /// It has work, but cannot continue without help from outside.
    Held {
        why: String,
    },
    Stopped,
}

impl Phase {
    /// Whether the difference is not worth a report.
    fn is_like(&self, other: &Phase) -> bool {
        match (self, other) {
            (
                Phase::Waiting(AgentState::Waiting { why, .. }),
                Phase::Waiting(AgentState::Waiting { why: other, .. }),
            ) => why == other,
            (one, other) => one == other,
        }
    }

    fn is_busy(&self) -> bool {
        matches!(self, Phase::Working | Phase::Waiting(_) | Phase::Paused { .. })
    }
}

/// A summary of all agents' activity for the supervisor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TeamActivity {
    /// Whether any agent works, has to check its inbox or waits for a retry.
    pub busy: bool,
    pub working: bool,
    pub changes: u64,
    pub all_stopped: bool,
}

impl Board {
    pub(super) fn of<'a>(names: impl Iterator<Item = (&'a str, UsageTotals)>, stop: &CancellationToken) -> Board {
        let slot = |tally| AgentSlot {
            phase: Phase::Idle,
            woken: 1,
            seen: 0,
            wake: Arc::new(Notify::new()),
            stop: stop.child_token(),
            may_be_paused: true,
            tally,
            failed: None,
        };
        let agents = names.map(|(name, tally)| (name.to_owned(), slot(tally))).collect();
        Board { slots: Mutex::new(AgentSlots { agents, changes: 0 }), changed: Notify::new() }
    }

    /// Waits for a change since the last call.
    pub(super) async fn wait_for_change(&self) {
        self.changed.notified().await;
    }

    pub(super) fn activity(&self) -> TeamActivity {
        let slots = self.slots();
        let live = || slots.agents.values().filter(|slot| slot.phase != Phase::Stopped);
        TeamActivity {
            busy: live().any(AgentSlot::is_busy),
            working: live().any(|slot| slot.phase == Phase::Working),
            changes: slots.changes,
            all_stopped: live().next().is_none(),
        }
    }

    /// Whether any other agent is busy.
    pub(super) fn has_other_busy(&self, name: &str) -> bool {
        let slots = self.slots();
        let mut others = slots.agents.iter().filter(|(other, _)| *other != name).map(|(_, slot)| slot);
        others.any(|slot| slot.is_busy() && !matches!(slot.phase, Phase::Paused { .. }))
    }

    /// Makes the agent check its inbox.
    pub(super) fn wake(&self, name: &str) {
        self.change(name, |slot| {
            slot.woken += 1;
            slot.wake.notify_one();
        });
    }

    pub(super) fn wake_all(&self) {
        let names: Vec<String> = self.slots().agents.keys().cloned().collect();
        names.iter().for_each(|name| self.wake(name));
    }

    /// Marks that the agent may have been paused.
    pub(super) fn mark_maybe_paused(&self, name: &str) {
        self.change(name, |slot| slot.may_be_paused = true);
    }

    /// Marks that the agent is not paused according to the daemon.
    pub(super) fn mark_not_paused(&self, name: &str) {
        self.change(name, |slot| slot.may_be_paused = false);
    }

    pub(super) fn may_be_paused(&self, name: &str) -> bool {
        self.slots().agents.get(name).is_some_and(|slot| slot.may_be_paused)
    }

    /// Cancels the agent's turn and its loop.
    pub(super) fn stop(&self, name: &str) {
        if let Some(slot) = self.slots().agents.get(name) {
            slot.stop.cancel();
        }
    }

    /// The signals that wake and stop an agent.
    pub(super) fn signals(&self, name: &str) -> Option<(Arc<Notify>, CancellationToken)> {
        self.slots().agents.get(name).map(|slot| (Arc::clone(&slot.wake), slot.stop.clone()))
    }

    /// The number of wake-ups of an agent, to be passed to [`Board::set_phase`] after checking the inbox.
    pub(super) fn woken(&self, name: &str) -> u64 {
        self.slots().agents.get(name).map_or(0, |slot| slot.woken)
    }

    /// Sets the phase of an agent that has handled its wake-ups up to `seen`. Returns whether the change is worth a report.
    pub(super) fn set_phase(&self, name: &str, seen: u64, phase: Phase) -> bool {
        let mut news = false;
        self.change(name, |slot| {
            slot.seen = seen;
            news = !slot.phase.is_like(&phase);
            slot.phase = phase;
        });
        news
    }

    pub(super) fn begin_turn(&self, name: &str, seen: u64) {
        self.change(name, |slot| {
            slot.seen = seen;
            slot.phase = Phase::Working;
            slot.tally.turns += 1;
        });
    }

    /// Records the end of a turn. `failed` is the reason if its messages were given up.
    pub(super) fn end_turn(&self, name: &str, usage: Usage, failed: Option<String>) {
        self.change(name, |slot| {
            slot.phase = Phase::Idle;
            // The agent has to check for messages that arrived meanwhile.
            slot.woken += 1;
            slot.tally.add(usage);
            slot.failed = failed;
        });
    }

    /// Records that the agent's last turn before a restart failed and was given up.
    pub(super) fn set_failed(&self, name: &str, why: &str) {
        self.change(name, |slot| slot.failed = Some(why.to_owned()));
    }

    pub(super) fn set_stopped(&self, name: &str) {
        self.change(name, |slot| slot.phase = Phase::Stopped);
    }

    pub(super) fn turns(&self, name: &str) -> u64 {
        self.slots().agents.get(name).map_or(0, |slot| slot.tally.turns)
    }

    /// The agents that can still have work.
    pub(super) fn available(&self) -> Vec<String> {
        let slots = self.slots();
        let available =
            slots.agents.iter().filter(|(_, slot)| !matches!(slot.phase, Phase::Stopped | Phase::Held { .. }));
        available.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn status(&self, name: &str) -> MemberStatus {
        let slots = self.slots();
        let Some(slot) = slots.agents.get(name) else {
            return MemberStatus { name: name.to_owned(), state: AgentState::Stopped, tally: UsageTotals::default() };
        };
        MemberStatus { name: name.to_owned(), state: slot.state(), tally: slot.tally }
    }

    /// The status of every agent, with the reason why its last turn failed, if it did.
    pub(super) fn statuses(&self) -> Vec<(MemberStatus, Option<String>)> {
        let slots = self.slots();
        let standing = |(name, slot): (&String, &AgentSlot)| {
            (MemberStatus { name: name.clone(), state: slot.state(), tally: slot.tally }, slot.failed.clone())
        };
        slots.agents.iter().map(standing).collect()
    }

    pub(super) fn total(&self) -> UsageTotals {
        let mut total = UsageTotals::default();
        for slot in self.slots().agents.values() {
            total.turns += slot.tally.turns;
            total.add(slot.tally.usage);
        }
        total
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut AgentSlot)) {
        let mut slots = self.slots();
        if let Some(slot) = slots.agents.get_mut(name) {
            change(slot);
            slots.changes += 1;
        }
        drop(slots);
        self.changed.notify_one();
    }

    /// Ignores poisoning: a panic cannot leave the slots inconsistent, since each change only assigns fields.
    fn slots(&self) -> MutexGuard<'_, AgentSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AgentSlot {
    /// Whether it works, has to check its inbox or waits for a retry.
    fn is_busy(&self) -> bool {
        self.phase != Phase::Stopped && (self.phase.is_busy() || self.woken != self.seen)
    }

    fn state(&self) -> AgentState {
        match &self.phase {
            Phase::Idle if self.failed.is_some() => AgentState::Failed,
            Phase::Idle => AgentState::Idle,
            Phase::Working => AgentState::Working,
            Phase::Waiting(state) => state.clone(),
            Phase::Paused { why } | Phase::Held { why } => AgentState::Held { why: why.clone() },
            Phase::Stopped => AgentState::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        Board::of([("a", UsageTotals::default()), ("b", UsageTotals::default())].into_iter(), &CancellationToken::new())
    }

    #[test]
    fn agent_with_unchecked_inbox_is_busy() {
        let board = board();
        assert!(board.activity().busy, "no inbox was checked yet");
        for name in ["a", "b"] {
            board.set_phase(name, board.woken(name), Phase::Idle);
        }
        assert!(!board.activity().busy);
        board.wake("a");
        assert!(board.activity().busy);
    }

    #[test]
    fn wake_up_during_inbox_check_is_not_lost() {
        let board = board();
        let (a, b) = (board.woken("a"), board.woken("b"));
        board.wake("a");
        board.set_phase("a", a, Phase::Idle);
        board.set_phase("b", b, Phase::Idle);
        assert!(board.activity().busy);
    }

    #[test]
    fn stopped_or_held_agent_is_not_busy() {
        let board = board();
        board.set_phase("a", board.woken("a"), Phase::Held { why: "a loop".to_owned() });
        board.set_stopped("b");
        board.wake("b");
        let activity = board.activity();
        assert!(!activity.busy && !activity.all_stopped);
        assert_eq!(board.available(), Vec::<String>::new());
        board.set_stopped("a");
        assert!(board.activity().all_stopped);
    }

    #[test]
    fn turn_between_two_checks_changes_the_count() {
        let board = board();
        let before = board.activity().changes;
        board.begin_turn("a", board.woken("a"));
        board.end_turn("a", Usage { input_tokens: 3, ..Usage::default() }, None);
        assert_ne!(board.activity().changes, before);
        assert_eq!((board.turns("a"), board.total().usage.input_tokens), (1, 3));
    }
}
