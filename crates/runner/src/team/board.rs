//! Who of a team is at what: the one place that loops of agents write to and the supervisor looks at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::report::{Standing, State, Tally};
use crate::backend::Usage;

#[derive(Debug)]
pub(super) struct Board {
    posts: Mutex<Posts>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Posts {
    agents: BTreeMap<String, Post>,
    /// Counts everything that happened.
    stirred: u64,
}

#[derive(Debug)]
struct Post {
    phase: Phase,
    /// How often it was woken, and up to which of these it has looked.
    woken: u64,
    seen: u64,
    wake: Arc<Notify>,
    stop: CancellationToken,
    /// Somebody may have paused it, which nobody has asked the daemon about since.
    may_be_paused: bool,
    tally: Tally,
    /// Why its last turn failed, if it did.
    failed: Option<String>,
}

/// What an agent is at.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Phase {
    Idle,
    Working,
    /// It will be at it again by itself.
    Waiting(State),
    /// It has something to do, and gets to it when whoever paused it lets it go on.
    Paused {
        why: String,
    },
    /// It has something to do and does not get to it, unless somebody outside sees to it.
    Held {
        why: String,
    },
    Stopped,
}

impl Phase {
    /// Whether a person who was told one needs not be told the other.
    fn is_like(&self, other: &Phase) -> bool {
        match (self, other) {
            (Phase::Waiting(State::Waiting { why, .. }), Phase::Waiting(State::Waiting { why: other, .. })) => {
                why == other
            }
            (one, other) => one == other,
        }
    }

    fn is_busy(&self) -> bool {
        matches!(self, Phase::Working | Phase::Waiting(_) | Phase::Paused { .. })
    }
}

/// What the supervisor sees at a glance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Glance {
    /// Whether anybody works, has to look at its inbox or is about to try again.
    pub busy: bool,
    pub working: bool,
    pub stirred: u64,
    pub all_stopped: bool,
}

impl Board {
    pub(super) fn of<'a>(names: impl Iterator<Item = (&'a str, Tally)>, stop: &CancellationToken) -> Board {
        let post = |tally| Post {
            phase: Phase::Idle,
            woken: 1,
            seen: 0,
            wake: Arc::new(Notify::new()),
            stop: stop.child_token(),
            may_be_paused: true,
            tally,
            failed: None,
        };
        let agents = names.map(|(name, tally)| (name.to_owned(), post(tally))).collect();
        Board { posts: Mutex::new(Posts { agents, stirred: 0 }), changed: Notify::new() }
    }

    /// Returns when something changed since this was last called.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn glance(&self) -> Glance {
        let posts = self.posts();
        let live = || posts.agents.values().filter(|post| post.phase != Phase::Stopped);
        Glance {
            busy: live().any(Post::is_busy),
            working: live().any(|post| post.phase == Phase::Working),
            stirred: posts.stirred,
            all_stopped: live().next().is_none(),
        }
    }

    /// Whether anybody else is at something.
    pub(super) fn is_busy_without(&self, name: &str) -> bool {
        let posts = self.posts();
        let mut others = posts.agents.iter().filter(|(other, _)| *other != name).map(|(_, post)| post);
        others.any(|post| post.is_busy() && !matches!(post.phase, Phase::Paused { .. }))
    }

    /// There may be something for the agent.
    pub(super) fn wake(&self, name: &str) {
        self.change(name, |post| {
            post.woken += 1;
            post.wake.notify_one();
        });
    }

    pub(super) fn wake_all(&self) {
        let names: Vec<String> = self.posts().agents.keys().cloned().collect();
        names.iter().for_each(|name| self.wake(name));
    }

    /// Somebody paused the agent, or may have.
    pub(super) fn may_pause(&self, name: &str) {
        self.change(name, |post| post.may_be_paused = true);
    }

    /// The daemon says that the agent is not paused.
    pub(super) fn is_not_paused(&self, name: &str) {
        self.change(name, |post| post.may_be_paused = false);
    }

    pub(super) fn may_be_paused(&self, name: &str) -> bool {
        self.posts().agents.get(name).is_some_and(|post| post.may_be_paused)
    }

    /// Ends the agent's turn, and gives it no further one.
    pub(super) fn stop(&self, name: &str) {
        if let Some(post) = self.posts().agents.get(name) {
            post.stop.cancel();
        }
    }

    /// What wakes an agent and what stops it.
    pub(super) fn bell(&self, name: &str) -> Option<(Arc<Notify>, CancellationToken)> {
        self.posts().agents.get(name).map(|post| (Arc::clone(&post.wake), post.stop.clone()))
    }

    /// How often an agent was woken: what to tell [`Board::rests`] after having looked.
    pub(super) fn woken(&self, name: &str) -> u64 {
        self.posts().agents.get(name).map_or(0, |post| post.woken)
    }

    /// The agent has looked at everything that it was woken for up to `seen`, and is at `phase` now. Tells whether that is
    /// news.
    pub(super) fn rests(&self, name: &str, seen: u64, phase: Phase) -> bool {
        let mut news = false;
        self.change(name, |post| {
            post.seen = seen;
            news = !post.phase.is_like(&phase);
            post.phase = phase;
        });
        news
    }

    pub(super) fn works(&self, name: &str, seen: u64) {
        self.change(name, |post| {
            post.seen = seen;
            post.phase = Phase::Working;
            post.tally.turns += 1;
        });
    }

    /// A turn is over; `failed` says why if what it was about was given up.
    pub(super) fn worked(&self, name: &str, usage: Usage, failed: Option<String>) {
        self.change(name, |post| {
            post.phase = Phase::Idle;
            // It has to look whether more came meanwhile.
            post.woken += 1;
            post.tally.add(usage);
            post.failed = failed;
        });
    }

    /// The agent's last turn, before a restart, failed for good.
    pub(super) fn has_failed(&self, name: &str, why: &str) {
        self.change(name, |post| post.failed = Some(why.to_owned()));
    }

    pub(super) fn stopped(&self, name: &str) {
        self.change(name, |post| post.phase = Phase::Stopped);
    }

    pub(super) fn turns(&self, name: &str) -> u64 {
        self.posts().agents.get(name).map_or(0, |post| post.tally.turns)
    }

    /// Those that may still have something to do.
    pub(super) fn free(&self) -> Vec<String> {
        let posts = self.posts();
        let free = posts.agents.iter().filter(|(_, post)| !matches!(post.phase, Phase::Stopped | Phase::Held { .. }));
        free.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn standing(&self, name: &str) -> Standing {
        let posts = self.posts();
        let Some(post) = posts.agents.get(name) else {
            return Standing { name: name.to_owned(), state: State::Stopped, tally: Tally::default() };
        };
        Standing { name: name.to_owned(), state: post.state(), tally: post.tally }
    }

    /// How every agent stands, with why its last turn failed if it did.
    pub(super) fn standings(&self) -> Vec<(Standing, Option<String>)> {
        let posts = self.posts();
        let standing = |(name, post): (&String, &Post)| {
            (Standing { name: name.clone(), state: post.state(), tally: post.tally }, post.failed.clone())
        };
        posts.agents.iter().map(standing).collect()
    }

    pub(super) fn total(&self) -> Tally {
        let mut total = Tally::default();
        for post in self.posts().agents.values() {
            total.turns += post.tally.turns;
            total.add(post.tally.usage);
        }
        total
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Post)) {
        let mut posts = self.posts();
        if let Some(post) = posts.agents.get_mut(name) {
            change(post);
            posts.stirred += 1;
        }
        drop(posts);
        self.changed.notify_one();
    }

    /// What was written before a panic is whole: every change is one assignment after the other.
    fn posts(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Post {
    /// Whether it works, has to look at its inbox or is about to try again.
    fn is_busy(&self) -> bool {
        self.phase != Phase::Stopped && (self.phase.is_busy() || self.woken != self.seen)
    }

    fn state(&self) -> State {
        match &self.phase {
            Phase::Idle if self.failed.is_some() => State::Failed,
            Phase::Idle => State::Idle,
            Phase::Working => State::Working,
            Phase::Waiting(state) => state.clone(),
            Phase::Paused { why } | Phase::Held { why } => State::Held { why: why.clone() },
            Phase::Stopped => State::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        Board::of([("a", Tally::default()), ("b", Tally::default())].into_iter(), &CancellationToken::new())
    }

    #[test]
    fn whoever_has_not_looked_is_busy() {
        let board = board();
        assert!(board.glance().busy, "nobody has looked yet");
        for name in ["a", "b"] {
            board.rests(name, board.woken(name), Phase::Idle);
        }
        assert!(!board.glance().busy);
        board.wake("a");
        assert!(board.glance().busy);
    }

    #[test]
    fn being_woken_while_looking_is_not_forgotten() {
        let board = board();
        let (a, b) = (board.woken("a"), board.woken("b"));
        board.wake("a");
        board.rests("a", a, Phase::Idle);
        board.rests("b", b, Phase::Idle);
        assert!(board.glance().busy);
    }

    #[test]
    fn who_is_stopped_or_held_keeps_nobody_waiting() {
        let board = board();
        board.rests("a", board.woken("a"), Phase::Held { why: "a loop".to_owned() });
        board.stopped("b");
        board.wake("b");
        let glance = board.glance();
        assert!(!glance.busy && !glance.all_stopped);
        assert_eq!(board.free(), Vec::<String>::new());
        board.stopped("a");
        assert!(board.glance().all_stopped);
    }

    #[test]
    fn work_between_two_looks_is_seen() {
        let board = board();
        let before = board.glance().stirred;
        board.works("a", board.woken("a"));
        board.worked("a", Usage { input_tokens: 3, ..Usage::default() }, None);
        assert_ne!(board.glance().stirred, before);
        assert_eq!((board.turns("a"), board.total().usage.input_tokens), (1, 3));
    }
}
