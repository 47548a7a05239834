//! Telling clients that something they follow has changed, without ever waiting for one of them.
//!
//! The log is read once for all: [`concerned`] says which inbox or document a fact changes. A change is put into the queue of every
//! client that follows it. A queue holds each address once, however often it changed, and the client's own task sends
//! from it; so a client that does not read costs a few names and holds up nobody.

use rookery_core::{AgentId, AnyEvent, EventRef};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rookery_core::model::message::{Header, Recipients};
use rookery_engine::SubscribeError;
use tokio::sync::Notify;

use super::resources;
use crate::http::App;

/// How many addresses one client can follow.
pub const MAX_FOLLOWED: usize = 256;
/// How long a client may take to accept a notice before it is left out.
pub const SEND_TIME: Duration = Duration::from_secs(10);
/// How long to wait before the log is read again after it could not be.
const RETRY: Duration = Duration::from_secs(1);

/// What a fact changes that clients can follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangedResources {
    Nothing,
    Addresses(Vec<String>),
    /// Every inbox.
    Everyone,
}

/// What a fact changes. A fact that puts something before an agent belongs here.
pub fn concerned(fact: &AnyEvent) -> ChangedResources {
    let inboxes = |agents: &[AgentId]| ChangedResources::Addresses(agents.iter().map(resources::inbox).collect());
    let message = |header: &Header| match &header.to {
        Recipients::Agents(agents) => inboxes(agents),
        Recipients::Everyone if header.wakes => ChangedResources::Everyone,
        Recipients::Everyone => ChangedResources::Nothing,
    };
    match fact.typed() {
        EventRef::HandoffInitiated(handoff) => inboxes(handoff.to.as_slice()),
        EventRef::TaskReserved(task) => inboxes(std::slice::from_ref(&task.agent)),
        EventRef::EnvelopeReceived(received) => inboxes(&received.delivered),
        EventRef::TaskReassigned(task) => inboxes(std::slice::from_ref(&task.to)),
        EventRef::MessageSent(sent) => message(&sent.letter.header),
        EventRef::MessageReleased(released) => message(&released.header),
        EventRef::DocumentWritten(written) => ChangedResources::Addresses(vec![resources::document(&written.id)]),
        EventRef::DocumentDeleted(deleted) => ChangedResources::Addresses(vec![resources::document(&deleted.id)]),
        _ => ChangedResources::Nothing,
    }
}

/// Reads the log from now on and tells whoever follows what it changes.
pub async fn follow(app: &App, subscriptions: &Subscriptions) {
    while !app.stopping().is_cancelled() {
        match tail(app, subscriptions).await {
            Err(SubscribeError::Stopped) => return,
            Err(error) => tracing::debug!(%error, "the log cannot be followed; trying again"),
            Ok(()) => return,
        }
        // What changed meanwhile is not known: everybody who follows something looks again.
        tokio::time::sleep(RETRY).await;
        subscriptions.all_changed(|_| true);
    }
}

async fn tail(app: &App, subscriptions: &Subscriptions) -> Result<(), SubscribeError> {
    let mut log = app.engine().subscribe(None).await?;
    loop {
        let chunk = tokio::select! {
            () = app.stopping().cancelled() => return Ok(()),
            chunk = log.next() => chunk?,
        };
        for row in chunk.rows() {
            match concerned(&row.event) {
                ChangedResources::Nothing => {}
                ChangedResources::Addresses(addresses) => addresses.iter().for_each(|it| subscriptions.changed(it)),
                ChangedResources::Everyone => subscriptions.all_changed(|address| resources::owner(address).is_some()),
            }
        }
    }
}

/// Who follows what.
#[derive(Debug, Default)]
pub struct Subscriptions {
    by_address: Mutex<HashMap<String, Vec<Weak<SubscriptionQueue>>>>,
}

impl Subscriptions {
    /// Notes a change for everybody who follows the address. Never waits.
    pub fn changed(&self, address: &str) {
        let mut all = self.lock();
        let Some(queues) = all.get_mut(address) else { return };
        queues.retain(|queue| match queue.upgrade() {
            Some(queue) => {
                queue.put(address);
                true
            }
            None => false,
        });
        if queues.is_empty() {
            all.remove(address);
        }
    }

    fn all_changed(&self, counts: impl Fn(&str) -> bool) {
        let addresses: Vec<String> = self.lock().keys().filter(|address| counts(address)).cloned().collect();
        addresses.iter().for_each(|address| self.changed(address));
    }

    /// Puts changes of the address into the queue from now on, until the queue is gone.
    pub fn follow(&self, address: &str, queue: &Arc<SubscriptionQueue>) -> Result<(), TooManySubscriptions> {
        queue.add(address)?;
        let mut all = self.lock();
        let queues = all.entry(address.to_owned()).or_default();
        if !queues.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(queue))) {
            queues.push(Arc::downgrade(queue));
        }
        Ok(())
    }

    pub fn leave(&self, address: &str, queue: &Arc<SubscriptionQueue>) {
        queue.remove(address);
        let mut all = self.lock();
        if let Some(queues) = all.get_mut(address) {
            queues.retain(|known| known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(queue)));
            if queues.is_empty() {
                all.remove(address);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Weak<SubscriptionQueue>>>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client follows as many addresses as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a client can follow at most {MAX_FOLLOWED} resources")]
pub struct TooManySubscriptions;

/// What one client follows, and what of it changed and was not sent yet.
#[derive(Debug, Default)]
pub struct SubscriptionQueue {
    state: Mutex<SubscriptionState>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct SubscriptionState {
    followed: BTreeSet<String>,
    changed: BTreeSet<String>,
}

impl SubscriptionQueue {
    /// The next address that changed; waits until there is one. Safe to drop while it waits.
    pub async fn next(&self) -> String {
        loop {
            let woken = self.wake.notified();
            if let Some(address) = self.lock().changed.pop_first() {
                return address;
            }
            woken.await;
        }
    }

    /// Notes a change of an address that the client follows.
    pub fn put(&self, address: &str) {
        let mut state = self.lock();
        if state.followed.contains(address) && state.changed.insert(address.to_owned()) {
            self.wake.notify_one();
        }
    }

    fn add(&self, address: &str) -> Result<(), TooManySubscriptions> {
        let mut state = self.lock();
        if state.followed.len() >= MAX_FOLLOWED && !state.followed.contains(address) {
            return Err(TooManySubscriptions);
        }
        state.followed.insert(address.to_owned());
        Ok(())
    }

    fn remove(&self, address: &str) {
        let mut state = self.lock();
        state.followed.remove(address);
        state.changed.remove(address);
    }

    fn lock(&self) -> MutexGuard<'_, SubscriptionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_that_nobody_took_yet_are_one() {
        let (notices, queue) = (Subscriptions::default(), Arc::new(SubscriptionQueue::default()));
        notices.follow("a", &queue).unwrap();
        notices.follow("b", &queue).unwrap();
        for _ in 0..1_000 {
            notices.changed("a");
            notices.changed("b");
            notices.changed("c");
        }
        assert_eq!((queue.next().await, queue.next().await), ("a".to_owned(), "b".to_owned()));
        assert!(queue.lock().changed.is_empty());
        notices.leave("a", &queue);
        notices.changed("a");
        assert!(queue.lock().changed.is_empty());
    }

    #[test]
    fn a_client_that_is_gone_leaves_nothing_behind() {
        let (notices, queue) = (Subscriptions::default(), Arc::new(SubscriptionQueue::default()));
        notices.follow("a", &queue).unwrap();
        drop(queue);
        notices.changed("a");
        assert!(notices.lock().is_empty());
    }

    #[test]
    fn a_client_follows_so_much_and_no_more() {
        let (notices, queue) = (Subscriptions::default(), Arc::new(SubscriptionQueue::default()));
        for number in 0..MAX_FOLLOWED {
            notices.follow(&number.to_string(), &queue).unwrap();
        }
        assert_eq!(notices.follow("one more", &queue), Err(TooManySubscriptions));
        assert_eq!(notices.follow("0", &queue), Ok(()));
    }
}
