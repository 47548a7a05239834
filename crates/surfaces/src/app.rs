//! What handlers share: the engine, and the limits and gauges of this process's sockets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rookery_engine::Engine;
use rookery_engine::rendering::Rendered;
use rookery_engine::watching::Sight;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::mcp::{Notices, Sessions};
use crate::sockets::Sockets;

/// Every figure that bounds what a caller can ask of this process.
#[derive(Clone, Debug)]
pub struct Limits {
    pub body_bytes: usize,
    /// How large an uploaded artifact may be.
    pub artifact_bytes: u64,
    pub uri_bytes: usize,
    pub in_flight_per_agent: usize,
    pub connections: usize,
    pub subscriptions: usize,
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

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 1024 * 1024,
            artifact_bytes: 1024 * 1024 * 1024,
            uri_bytes: 8 * 1024,
            in_flight_per_agent: 100,
            connections: 2_048,
            subscriptions: 1_024,
            request_time: Duration::from_secs(30),
            header_time: Duration::from_secs(10),
            write_time: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            sessions: 1_024,
            session_idle: Duration::from_secs(12 * 3600),
        }
    }
}

/// Facts about this process that surfaces show.
#[derive(Clone, Debug)]
pub struct About {
    /// Tells one project's daemon from another's.
    pub project_id: String,
    pub version: &'static str,
    pub port: u16,
    /// `sqlite` or another engine, and where it is, without secrets.
    pub store: String,
    /// Names besides loopback that this daemon answers to.
    pub allowed_hosts: Vec<String>,
    /// How much of the project's files is seen right now.
    pub sight: watch::Receiver<Sight>,
    /// Which contexts have files here, and what is wrong with them.
    pub rendered: watch::Receiver<Rendered>,
    /// Where the sockets of instances go.
    pub sockets: Sockets,
    pub started_at: i64,
}

#[derive(Clone, Debug)]
pub struct App {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    about: About,
    limits: Limits,
    subscriptions: Arc<Semaphore>,
    in_flight: Mutex<HashMap<String, usize>>,
    stopping: CancellationToken,
    sessions: Arc<Sessions>,
    notices: Notices,
}

impl App {
    pub fn new(engine: Engine, about: About, limits: Limits) -> App {
        let subscriptions = Arc::new(Semaphore::new(limits.subscriptions));
        let sessions = Arc::new(Sessions::new(&limits, engine.clock().clone()));
        let inner = Inner {
            engine,
            about,
            limits,
            subscriptions,
            in_flight: Mutex::default(),
            stopping: CancellationToken::new(),
            sessions,
            notices: Notices::default(),
        };
        App { inner: Arc::new(inner) }
    }

    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub fn about(&self) -> &About {
        &self.inner.about
    }

    pub fn sockets(&self) -> &Sockets {
        &self.inner.about.sockets
    }

    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub fn subscriptions(&self) -> &Arc<Semaphore> {
        &self.inner.subscriptions
    }

    /// Cancelled when the daemon stops: streams end by it.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.stopping
    }

    /// Clients of the MCP face that need a session.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.inner.sessions
    }

    /// Who wants to be told what has changed.
    pub fn notices(&self) -> &Notices {
        &self.inner.notices
    }

    /// Takes one of the agent's places for a request under way; `None` if all are taken.
    pub fn enter(&self, agent: &str) -> Option<Place> {
        let mut places = self.inner.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = places.entry(agent.to_owned()).or_default();
        if *taken >= self.inner.limits.in_flight_per_agent {
            return None;
        }
        *taken += 1;
        Some(Place { app: self.clone(), agent: agent.to_owned() })
    }
}

/// A request under way. Dropping it makes room for the next.
#[derive(Debug)]
pub struct Place {
    app: App,
    agent: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.app.inner.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = places.get_mut(&self.agent) {
            *taken -= 1;
            if *taken == 0 {
                places.remove(&self.agent);
            }
        }
    }
}
