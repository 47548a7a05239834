//! The way from the couriers of all nodes to the endpoints of agents: what is posted lies here until the world moves it on.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use rookery_engine::endpoints::{Carrying, EndpointClient, HttpAnswer, HttpAttempt};

/// What a courier hears of a post.
pub(super) type Heard = Result<HttpAnswer, String>;

#[derive(Clone, Debug, Default)]
pub(super) struct Network(Arc<Mutex<Posts>>);

#[derive(Debug, Default)]
struct Posts {
    count: u64,
    new: Vec<(u64, HttpAttempt)>,
    heard: BTreeMap<u64, Heard>,
    /// Nobody waits for what becomes of these any more.
    unheard: BTreeSet<u64>,
}

/// A courier that waits for an answer.
struct PendingAnswer {
    network: Network,
    number: u64,
}

/// Whether somebody hears an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reaches {
    Somebody,
    Nobody,
}

impl Network {
    /// What was posted since somebody asked last.
    pub(super) fn collect(&self) -> Vec<(u64, HttpAttempt)> {
        std::mem::take(&mut self.lock().new)
    }

    pub(super) fn answer(&self, number: u64, heard: Heard) -> Reaches {
        let mut posts = self.lock();
        if posts.unheard.remove(&number) {
            return Reaches::Nobody;
        }
        posts.heard.insert(number, heard);
        Reaches::Somebody
    }

    fn lock(&self) -> MutexGuard<'_, Posts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndpointClient for Network {
    fn post(&self, posting: HttpAttempt) -> Carrying<'_> {
        let mut posts = self.lock();
        posts.count += 1;
        let number = posts.count;
        posts.new.push((number, posting));
        Box::pin(PendingAnswer { network: self.clone(), number })
    }
}

impl Future for PendingAnswer {
    type Output = Heard;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Heard> {
        let heard = self.network.lock().heard.remove(&self.number);
        heard.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        let mut posts = self.network.lock();
        if posts.heard.remove(&self.number).is_none() {
            posts.unheard.insert(self.number);
        }
    }
}
