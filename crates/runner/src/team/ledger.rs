//! The resources that a team has used, and which agents woke each other. Checked before every turn to enforce limits and to
//! detect loops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::decide::budget::{LimitReached, Spent};
use super::decide::loops::{LoopCheck, LoopDetector, MessageSender};
use crate::file::TeamLimits;

#[derive(Debug)]
pub(super) struct Ledger {
    limits: TeamLimits,
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    spent: Spent,
    loops: LoopDetector,
    /// Whether the reached limit was reported.
    is_limit_reported: bool,
    /// Rate-limited accounts, with the end of the pause and its reason.
    paused: BTreeMap<String, (Duration, String)>,
    /// Pairs of agent and message that were given up. The messages stay in inboxes, but wake no agent.
    given_up: BTreeSet<(String, String)>,
    /// The first reason why the team fails.
    failure: Option<String>,
}

/// The reason for requesting a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TurnRequest<'a> {
    /// The senders of its messages; empty for a scheduled wakeup.
    WokenBy(&'a [MessageSender<'a>]),
    /// Another attempt, which counts as a turn but not as another round.
    Retry,
}

/// Whether a turn may begin.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Admission {
    Granted,
    /// No further turn begins. `news` is true the first time.
    Limit {
        reached: LimitReached,
        news: bool,
    },
    Loop {
        with: BTreeSet<String>,
        news: bool,
    },
}

impl Ledger {
    pub(super) fn new(limits: TeamLimits, spent: Spent) -> Ledger {
        Ledger { limits, state: Mutex::new(LedgerState { spent, ..LedgerState::default() }) }
    }

    /// Requests a turn. A granted turn is counted.
    pub(super) fn admit(&self, agent: &str, wakes: TurnRequest<'_>, now: Duration) -> Admission {
        let mut state = self.state();
        state.spent.runtime = now;
        if let Some(reached) = state.spent.limit_reached(&self.limits) {
            let news = !std::mem::replace(&mut state.is_limit_reported, true);
            return Admission::Limit { reached, news };
        }
        if let TurnRequest::WokenBy(senders) = wakes
            && let LoopCheck::Held { with, news } = state.loops.ask(agent, senders)
        {
            return Admission::Loop { with, news };
        }
        state.spent.turns += 1;
        Admission::Granted
    }

    /// Returns the limit that prevents another turn, if any.
    pub(super) fn limit_reached(&self, now: Duration) -> Option<LimitReached> {
        let mut state = self.state();
        state.spent.runtime = now;
        state.spent.limit_reached(&self.limits)
    }

    /// The time until `max_runtime` is reached.
    pub(super) fn runtime_left(&self, now: Duration) -> Duration {
        self.limits.max_runtime.map_or(Duration::MAX, |most| most.saturating_sub(now))
    }

    pub(super) fn add_cost(&self, cost_usd: Option<f64>) {
        self.state().spent.cost_usd += cost_usd.unwrap_or_default();
    }

    pub(super) fn record_work(&self, agent: &str) {
        self.state().loops.record_work(agent);
    }

    pub(super) fn count_message(&self) {
        self.state().spent.messages += 1;
    }

    pub(super) fn messages(&self) -> u64 {
        self.state().spent.messages
    }

    /// Prevents turns with the account until then. Returns whether this extends its pause.
    pub(super) fn pause(&self, account: &str, until: Duration, why: &str) -> bool {
        let mut state = self.state();
        let news = state.paused.get(account).is_none_or(|(known, _)| *known < until);
        if news {
            state.paused.insert(account.to_owned(), (until, why.to_owned()));
        }
        news
    }

    /// Returns the remaining pause of the account and its reason.
    pub(super) fn pause_of(&self, account: &str, now: Duration) -> Option<(Duration, String)> {
        let mut state = self.state();
        state.paused.retain(|_, (until, _)| *until > now);
        state.paused.get(account).map(|(until, why)| (until.saturating_sub(now), why.clone()))
    }

    /// Excludes these messages from further turns of the agent, until a person retries them.
    pub(super) fn give_up<'a>(&self, agent: &str, messages: impl Iterator<Item = &'a str>) {
        self.state().given_up.extend(messages.map(|message| (agent.to_owned(), message.to_owned())));
    }

    pub(super) fn is_given_up(&self, agent: &str, message: &str) -> bool {
        // The allocations do not matter: inboxes are small.
        self.state().given_up.contains(&(agent.to_owned(), message.to_owned()))
    }

    /// Forgets all messages that were given up, since a person retried some. The daemon rejects turns for the others.
    pub(super) fn clear_given_up(&self) {
        self.state().given_up.clear();
    }

    /// Fails the team because an agent has given up.
    pub(super) fn fail_by_giving_up(&self, agent: &str, reason: &str) {
        self.fail(format!("{agent} gave up: {reason}"));
    }

    /// Fails the team. Only the first reason is kept.
    pub(super) fn fail(&self, reason: impl Into<String>) {
        self.state().failure.get_or_insert_with(|| reason.into());
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    #[test]
    fn turns_are_granted_until_the_limit_is_reached() {
        let limits = TeamLimits { max_turns: Some(2), ..TeamLimits::default() };
        let ledger = Ledger::new(limits, Spent::default());
        assert_eq!(ledger.admit("a", TurnRequest::WokenBy(&[MessageSender::Outside]), NOW), Admission::Granted);
        assert_eq!(ledger.admit("a", TurnRequest::Retry, NOW), Admission::Granted);
        let reached = LimitReached::Turns(2);
        assert_eq!(
            ledger.admit("b", TurnRequest::WokenBy(&[MessageSender::Outside]), NOW),
            Admission::Limit { reached, news: true }
        );
        assert_eq!(ledger.admit("a", TurnRequest::Retry, NOW), Admission::Limit { reached, news: false });
    }

    #[test]
    fn pause_applies_to_its_account_and_ends() {
        let ledger = Ledger::new(TeamLimits::default(), Spent::default());
        assert!(ledger.pause("claude", Duration::from_secs(10), "out of requests"));
        assert!(!ledger.pause("claude", Duration::from_secs(8), "out of requests"), "that is no news");
        assert_eq!(ledger.pause_of("claude", NOW), Some((Duration::from_secs(5), "out of requests".to_owned())));
        assert_eq!(ledger.pause_of("codex", NOW), None);
        assert_eq!(ledger.pause_of("claude", Duration::from_secs(10)), None);
    }

    #[test]
    fn failure_keeps_the_first_reason() {
        let ledger = Ledger::new(TeamLimits::default(), Spent::default());
        ledger.fail("one");
        ledger.fail("two");
        assert_eq!(ledger.failure().as_deref(), Some("one"));
    }
}
