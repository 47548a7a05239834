//! Limits on what callers can ask of this process, and fair shares of them: how many requests, streams, downloads and connections there can be at once, in total and for each caller.
//!
//! Every place is charged to an account. An account has at most its share of the places, and the last of them are kept for
//! people (before a request is read: for the Unix socket), so that no agent can lock the person out who would stop it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use rookery_core::{Actor, Caller, Code};
use rookery_engine::settings::Settings;
use tokio::sync::Notify;

use super::error::HttpError;

/// The last part of the places that is reserved: one in so many.
const RESERVED_PART: usize = 8;
/// The share of callers without a name, and of those without a limit of their own: one place in so many.
const SHARE_PART: usize = 4;
/// A process may use the reserve while it holds less than this part of it: one place in so many.
const RESERVE_SHARE_PART: usize = 8;

/// Every figure that bounds what a caller can ask of this process.
#[derive(Clone, Debug)]
pub struct Limits {
    pub body_bytes: usize,
    /// How large an uploaded artifact may be.
    pub artifact_bytes: u64,
    pub uri_bytes: usize,
    /// How many requests can be under way, and how many of one caller with a name.
    pub requests: usize,
    pub in_flight_per_agent: usize,
    pub connections: usize,
    /// How many streams can be open, and how many of one caller.
    pub subscriptions: usize,
    pub streams_per_caller: usize,
    /// How many artifacts can be sent at once, and how many to one caller.
    pub downloads: usize,
    pub downloads_per_caller: usize,
    pub request_time: Duration,
    /// How long a client may take to send the head of a request.
    pub header_time: Duration,
    /// How long a client may leave what we send it unread.
    pub write_time: Duration,
    /// How long a stream is silent at most.
    pub keep_alive: Duration,
    /// How many MCP sessions there can be, and how long one may be silent without an open stream.
    pub sessions: usize,
    pub session_idle: Duration,
}

/// The longest path and query of a request.
const URI_BYTES: usize = 8 * 1024;

impl Limits {
    pub fn new(settings: &Settings) -> Limits {
        Limits {
            body_bytes: settings.max_body_bytes.to_usize(),
            artifact_bytes: settings.max_artifact_bytes.get(),
            uri_bytes: URI_BYTES,
            requests: settings.max_requests as usize,
            in_flight_per_agent: settings.max_in_flight_per_agent as usize,
            connections: settings.max_connections as usize,
            subscriptions: settings.max_subscriptions as usize,
            streams_per_caller: settings.max_streams_per_caller as usize,
            downloads: settings.max_downloads as usize,
            downloads_per_caller: settings.max_downloads_per_caller as usize,
            request_time: settings.request_timeout,
            header_time: settings.header_timeout,
            write_time: settings.write_timeout,
            keep_alive: settings.stream_keep_alive,
            sessions: settings.max_sessions as usize,
            session_idle: settings.session_idle,
        }
    }
}

/// The caller that a place is charged to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Account {
    Person(String),
    Agent(String),
    /// Callers without a name share one account.
    Anonymous,
    /// A process of this user that is connected by the Unix socket.
    Process(i32),
    /// All connections over loopback share one account: it is not known yet who speaks.
    Loopback,
    /// Another machine.
    Address(IpAddr),
}

impl Account {
    /// The account of a caller. One that speaks for another is charged itself.
    pub fn of(caller: &Caller) -> Account {
        match (&caller.acting_through, &caller.actor) {
            (Some(by), _) if by.starts_with("person:") => Account::Person(by.clone()),
            (Some(by), _) => Account::Agent(by.clone()),
            (None, Actor::Person(name)) => Account::Person(format!("person:{name}")),
            (None, Actor::Agent(agent)) => Account::Agent(agent.to_string()),
            (None, _) => Account::Anonymous,
        }
    }
}

/// How many places there are.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub total: usize,
    /// For each account with a name; `None` for a quarter of the total.
    pub per_caller: Option<usize>,
}

/// Places of one kind.
#[derive(Debug)]
pub struct Pool {
    name: &'static str,
    total: usize,
    /// Of callers without a name together.
    share: usize,
    /// Of each account that has a name.
    named_share: usize,
    reserved: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_account: HashMap<Account, usize>,
}

/// Why there is no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The caller has its share already.
    Share,
    /// All callers together have taken every place that is not reserved.
    Pool,
}

impl Pool {
    pub fn new(name: &'static str, places: Places) -> Arc<Pool> {
        let reserved = places.total / RESERVED_PART;
        let unreserved = places.total - reserved;
        // A pool that is too small to be divided goes to those who come first.
        let share = if reserved == 0 { places.total } else { places.total / SHARE_PART };
        let named_share = places.per_caller.unwrap_or(share).min(unreserved.max(1));
        let (taken, freed) = (Mutex::default(), Notify::new());
        Arc::new(Pool { name, total: places.total, share, named_share, reserved, taken, freed })
    }

    /// Takes a place until it is dropped.
    pub fn take(self: &Arc<Pool>, account: Account) -> Result<RequestPermit, Full> {
        let mut taken = self.lock();
        let own = taken.by_account.get(&account).copied().unwrap_or(0);
        match self.check(&account, own, taken.total) {
            Ok(()) => {
                taken.total += 1;
                *taken.by_account.entry(account.clone()).or_default() += 1;
                Ok(RequestPermit { pool: self.clone(), account })
            }
            Err(full) => {
                let reason = if full == Full::Share { "share" } else { "pool" };
                metrics::counter!("rookery_refused_places_total", "pool" => self.name, "reason" => reason).increment(1);
                Err(full)
            }
        }
    }

    fn check(&self, account: &Account, own: usize, taken: usize) -> Result<(), Full> {
        if taken >= self.total {
            return Err(Full::Pool);
        }
        if own >= self.share_of(account) {
            return Err(Full::Share);
        }
        let in_reserve = taken >= self.total - self.reserved;
        if in_reserve && !self.may_use_reserve(account, own) {
            return Err(Full::Pool);
        }
        Ok(())
    }

    fn may_use_reserve(&self, account: &Account, own: usize) -> bool {
        match account {
            Account::Person(_) => true,
            // The next command line has none; the proxy of a busy sandbox has many.
            Account::Process(_) => own < (self.reserved / RESERVE_SHARE_PART).max(1),
            Account::Agent(_) | Account::Anonymous | Account::Loopback | Account::Address(_) => false,
        }
    }

    fn share_of(&self, account: &Account) -> usize {
        match account {
            Account::Loopback => self.total - self.reserved,
            Account::Anonymous => self.share,
            Account::Person(_) | Account::Agent(_) | Account::Process(_) | Account::Address(_) => self.named_share,
        }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.lock().total
    }

    /// Waits until no place is taken.
    pub async fn emptied(&self) {
        loop {
            let freed = self.freed.notified();
            if self.taken() == 0 {
                return;
            }
            freed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that is taken. Dropping it makes room for another.
#[derive(Debug)]
pub struct RequestPermit {
    pool: Arc<Pool>,
    account: Account,
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let mut taken = self.pool.lock();
        taken.total -= 1;
        if let Some(own) = taken.by_account.get_mut(&self.account) {
            *own -= 1;
            if *own == 0 {
                taken.by_account.remove(&self.account);
            }
        }
        if taken.total == 0 {
            self.pool.freed.notify_waiters();
        }
    }
}

impl Full {
    /// 429 if the caller can make room itself, 503 if all callers together are too many.
    fn status(self) -> StatusCode {
        match self {
            Full::Share => StatusCode::TOO_MANY_REQUESTS,
            Full::Pool => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub fn of_streams(self) -> HttpError {
        let (message, hint) = match self {
            Full::Share => {
                ("this caller has as many streams open as it may", "close one, or raise max_streams_per_caller")
            }
            Full::Pool => {
                ("no more streams can be opened here", "close those that are not needed, or raise max_subscriptions")
            }
        };
        HttpError::new(Code::TooManySubscribers, message).status(self.status()).hint(hint).retry_after(5)
    }

    pub fn of_requests(self) -> HttpError {
        let (message, hint) = match self {
            Full::Share => ("too many requests under way", "wait for the answers to earlier requests"),
            Full::Pool => ("too many requests of all callers under way", "try again soon, or raise max_requests"),
        };
        HttpError::new(Code::TooManyRequests, message).status(self.status()).hint(hint).retry_after(1)
    }

    pub fn of_downloads(self) -> HttpError {
        let (message, hint) = match self {
            Full::Share => (
                "this caller has as many downloads under way as it may",
                "finish one, or raise max_downloads_per_caller",
            ),
            Full::Pool => ("too many downloads under way", "try again soon, or raise max_downloads"),
        };
        HttpError::new(Code::TooManyDownloads, message).status(self.status()).hint(hint).retry_after(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> Account {
        Account::Agent(name.to_owned())
    }

    fn person() -> Account {
        Account::Person("person:anna".to_owned())
    }

    /// As many places as an account gets.
    fn fill(pool: &Arc<Pool>, account: &Account) -> (Vec<RequestPermit>, Full) {
        let mut places = Vec::new();
        loop {
            match pool.take(account.clone()) {
                Ok(place) => places.push(place),
                Err(full) => return (places, full),
            }
        }
    }

    #[test]
    fn one_caller_gets_its_share_and_no_more() {
        let pool = Pool::new("streams", Places { total: 1_024, per_caller: None });
        let (places, full) = fill(&pool, &agent("a"));
        assert_eq!((places.len(), full), (256, Full::Share));
        assert!(pool.take(agent("b")).is_ok());
        drop(places);
        assert!(pool.take(agent("a")).is_ok());
    }

    #[test]
    fn reserve_is_kept_for_people_however_many_agents_there_are() {
        let pool = Pool::new("streams", Places { total: 1_024, per_caller: None });
        let taken: Vec<_> = (0..5).map(|number| fill(&pool, &agent(&number.to_string()))).collect();
        assert_eq!(taken.iter().map(|(places, _)| places.len()).sum::<usize>(), 896);
        assert_eq!(pool.take(Account::Anonymous).unwrap_err(), Full::Pool);
        let (people, full) = fill(&pool, &person());
        assert_eq!((people.len(), full), (128, Full::Pool));
    }

    #[test]
    fn connections_over_loopback_leave_room_for_the_socket() {
        let pool = Pool::new("connections", Places { total: 2_048, per_caller: None });
        let (tcp, full) = fill(&pool, &Account::Loopback);
        assert_eq!((tcp.len(), full), (1_792, Full::Share));
        // A process with many connections has none of the reserve; the next command line has.
        let (process, _) = fill(&pool, &Account::Process(1));
        assert_eq!(process.len(), 32);
        assert!(pool.take(Account::Process(2)).is_ok());
    }

    #[test]
    fn small_pools_are_not_divided() {
        let pool = Pool::new("streams", Places { total: 2, per_caller: Some(256) });
        let (places, full) = fill(&pool, &agent("a"));
        assert_eq!((places.len(), full), (2, Full::Pool));
        let (places, full) = fill(&Pool::new("none", Places { total: 0, per_caller: None }), &person());
        assert_eq!((places.len(), full), (0, Full::Pool));
    }

    #[test]
    fn speaking_for_another_is_charged_to_the_speaker() {
        let caller = Caller::asserted("a");
        assert_eq!(Account::of(&caller), agent("a"));
        let spoken_for = Caller { acting_through: Some("person:anna".to_owned()), ..caller };
        assert_eq!(Account::of(&spoken_for), person());
        assert_eq!(Account::of(&Caller::anonymous()), Account::Anonymous);
    }

    #[tokio::test]
    async fn emptied_waits_for_the_last_place() {
        let pool = Pool::new("streams", Places { total: 4, per_caller: None });
        pool.emptied().await;
        let place = pool.take(Account::Anonymous).unwrap();
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.emptied().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(place);
        waiting.await.unwrap();
    }
}
