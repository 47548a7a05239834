//! What a team has used and who woke whom: asked before every turn, so that limits and loops end a team and not a bill.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::decide::budget::{Reached, Spent};
use super::decide::loops::{Loops, Sender, Turn};
use crate::file::Limits;

#[derive(Debug)]
pub(super) struct Ledger {
    limits: Limits,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    spent: Spent,
    loops: Loops,
    /// The limit that was told.
    told: bool,
    /// The accounts that are out of requests: until when, and why.
    paused: BTreeMap<String, (Duration, String)>,
    /// What was given up: agents and messages. They stay in inboxes, and wake nobody.
    given_up: BTreeSet<(String, String)>,
    /// Why the team fails, if it does: the first reason.
    failure: Option<String>,
}

/// What a turn is asked for by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wakes<'a> {
    /// Whoever sent its messages; nobody if its time has come.
    By(&'a [Sender<'a>]),
    /// Another attempt, which counts as a turn and not as another round.
    Again,
}

/// Whether a turn may begin.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Admission {
    Granted,
    /// No further turn begins. `news` for whoever hears it first.
    Limit {
        reached: Reached,
        news: bool,
    },
    Loop {
        with: BTreeSet<String>,
        news: bool,
    },
}

impl Ledger {
    pub(super) fn new(limits: Limits, spent: Spent) -> Ledger {
        Ledger { limits, kept: Mutex::new(Kept { spent, ..Kept::default() }) }
    }

    /// Asks for a turn; if it is granted, it counts.
    pub(super) fn admit(&self, agent: &str, wakes: Wakes<'_>, now: Duration) -> Admission {
        let mut kept = self.kept();
        kept.spent.runtime = now;
        if let Some(reached) = kept.spent.reached(&self.limits) {
            let news = !std::mem::replace(&mut kept.told, true);
            return Admission::Limit { reached, news };
        }
        if let Wakes::By(senders) = wakes
            && let Turn::Held { with, news } = kept.loops.ask(agent, senders)
        {
            return Admission::Loop { with, news };
        }
        kept.spent.turns += 1;
        Admission::Granted
    }

    /// The limit that leaves no room for another turn.
    pub(super) fn reached(&self, now: Duration) -> Option<Reached> {
        let mut kept = self.kept();
        kept.spent.runtime = now;
        kept.spent.reached(&self.limits)
    }

    /// How long until there was enough time.
    pub(super) fn runtime_left(&self, now: Duration) -> Duration {
        self.limits.max_runtime.map_or(Duration::MAX, |most| most.saturating_sub(now))
    }

    pub(super) fn cost(&self, cost_usd: Option<f64>) {
        self.kept().spent.cost_usd += cost_usd.unwrap_or_default();
    }

    pub(super) fn worked(&self, agent: &str) {
        self.kept().loops.worked(agent);
    }

    pub(super) fn message(&self) {
        self.kept().spent.messages += 1;
    }

    pub(super) fn messages(&self) -> u64 {
        self.kept().spent.messages
    }

    /// Nobody who uses the account begins before then. True if nobody knew.
    pub(super) fn pause(&self, account: &str, until: Duration, why: &str) -> bool {
        let mut kept = self.kept();
        let news = kept.paused.get(account).is_none_or(|(known, _)| *known < until);
        if news {
            kept.paused.insert(account.to_owned(), (until, why.to_owned()));
        }
        news
    }

    /// How long everybody waits who uses the account, and why.
    pub(super) fn paused(&self, account: &str, now: Duration) -> Option<(Duration, String)> {
        let mut kept = self.kept();
        kept.paused.retain(|_, (until, _)| *until > now);
        kept.paused.get(account).map(|(until, why)| (until.saturating_sub(now), why.clone()))
    }

    /// The agent has no further turn for these messages, unless somebody wants them tried again.
    pub(super) fn give_up<'a>(&self, agent: &str, messages: impl Iterator<Item = &'a str>) {
        self.kept().given_up.extend(messages.map(|message| (agent.to_owned(), message.to_owned())));
    }

    pub(super) fn is_given_up(&self, agent: &str, message: &str) -> bool {
        // Nobody has so many that this matters.
        self.kept().given_up.contains(&(agent.to_owned(), message.to_owned()))
    }

    /// Somebody wants what was given up to be tried again; whatever is still closed is found to be so.
    pub(super) fn take_up_again(&self) {
        self.kept().given_up.clear();
    }

    /// An agent has given up: the team fails by that.
    pub(super) fn gave_up(&self, agent: &str, reason: &str) {
        self.fail(format!("{agent} gave up: {reason}"));
    }

    /// The team fails by this, whatever comes after.
    pub(super) fn fail(&self, reason: impl Into<String>) {
        self.kept().failure.get_or_insert_with(|| reason.into());
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.kept().failure.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    #[test]
    fn turns_count_until_there_are_enough() {
        let limits = Limits { max_turns: Some(2), ..Limits::default() };
        let ledger = Ledger::new(limits, Spent::default());
        assert_eq!(ledger.admit("a", Wakes::By(&[Sender::Outside]), NOW), Admission::Granted);
        assert_eq!(ledger.admit("a", Wakes::Again, NOW), Admission::Granted);
        let reached = Reached::Turns(2);
        assert_eq!(ledger.admit("b", Wakes::By(&[Sender::Outside]), NOW), Admission::Limit { reached, news: true });
        assert_eq!(ledger.admit("a", Wakes::Again, NOW), Admission::Limit { reached, news: false });
    }

    #[test]
    fn a_pause_is_for_everybody_who_uses_the_account_and_ends() {
        let ledger = Ledger::new(Limits::default(), Spent::default());
        assert!(ledger.pause("claude", Duration::from_secs(10), "out of requests"));
        assert!(!ledger.pause("claude", Duration::from_secs(8), "out of requests"), "that is no news");
        assert_eq!(ledger.paused("claude", NOW), Some((Duration::from_secs(5), "out of requests".to_owned())));
        assert_eq!(ledger.paused("codex", NOW), None);
        assert_eq!(ledger.paused("claude", Duration::from_secs(10)), None);
    }

    #[test]
    fn the_first_reason_is_the_one() {
        let ledger = Ledger::new(Limits::default(), Spent::default());
        ledger.fail("one");
        ledger.fail("two");
        assert_eq!(ledger.failure().as_deref(), Some("one"));
    }
}
