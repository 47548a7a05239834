//! The network between the couriers of all nodes and the endpoints of agents. It holds posts until the world moves them on.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use rookery_engine::endpoints::{Carrying, EndpointClient, HttpAnswer, HttpAttempt};

/// The outcome of a post for its courier.
pub(super) type PostOutcome = Result<HttpAnswer, String>;

#[derive(Clone, Debug, Default)]
pub(super) struct Network(Arc<Mutex<Posts>>);

#[derive(Debug, Default)]
struct Posts {
    count: u64,
    new: Vec<(u64, HttpAttempt)>,
    outcomes: BTreeMap<u64, PostOutcome>,
    /// Posts whose couriers no longer wait for the outcome.
    abandoned: BTreeSet<u64>,
}

/// Resolves to the outcome of a post.
struct PendingAnswer {
    network: Network,
    number: u64,
}

/// Whether a courier still waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Listener {
    Waiting,
    Gone,
}

impl Network {
    /// Takes the posts since the last call.
    pub(super) fn take_new_posts(&self) -> Vec<(u64, HttpAttempt)> {
        std::mem::take(&mut self.lock().new)
    }

    /// Stores the outcome of a post, unless its courier stopped waiting.
    pub(super) fn answer(&self, number: u64, outcome: PostOutcome) -> Listener {
        let mut posts = self.lock();
        if posts.abandoned.remove(&number) {
            return Listener::Gone;
        }
        posts.outcomes.insert(number, outcome);
        Listener::Waiting
    }

    fn lock(&self) -> MutexGuard<'_, Posts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndpointClient for Network {
    fn post(&self, attempt: HttpAttempt) -> Carrying<'_> {
        let mut posts = self.lock();
        posts.count += 1;
        let number = posts.count;
        posts.new.push((number, attempt));
        Box::pin(PendingAnswer { network: self.clone(), number })
    }
}

impl Future for PendingAnswer {
    type Output = PostOutcome;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<PostOutcome> {
        let outcome = self.network.lock().outcomes.remove(&self.number);
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        let mut posts = self.network.lock();
        if posts.outcomes.remove(&self.number).is_none() {
            posts.abandoned.insert(self.number);
        }
    }
}
