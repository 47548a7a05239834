//! What handlers share: the engine, and the limits and gauges of this process's sockets.

use std::sync::Arc;
use std::time::Duration;

use rookery_engine::Engine;
use rookery_engine::rendering::RendererStatus;
use rookery_engine::settings::Settings;
use rookery_engine::watching::WatchCoverage;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mcp::{Notices, Sessions};
use crate::shares::{Places, Pool};
use crate::sockets::Sockets;

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
    pub sight: watch::Receiver<WatchCoverage>,
    /// Which contexts have files here, and what is wrong with them.
    pub rendered: watch::Receiver<RendererStatus>,
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
    pools: Pools,
    stopping: CancellationToken,
    sessions: Arc<Sessions>,
    notices: Notices,
}

#[derive(Debug)]
struct Pools {
    streams: Arc<Pool>,
    requests: Arc<Pool>,
    downloads: Arc<Pool>,
    connections: Arc<Pool>,
}

impl Pools {
    fn new(limits: &Limits) -> Pools {
        let pool = |name, total, per_caller| Pool::new(name, Places { total, per_caller });
        Pools {
            streams: pool("streams", limits.subscriptions, Some(limits.streams_per_caller)),
            requests: pool("requests", limits.requests, Some(limits.in_flight_per_agent)),
            downloads: pool("downloads", limits.downloads, Some(limits.downloads_per_caller)),
            connections: pool("connections", limits.connections, None),
        }
    }
}

impl App {
    pub fn new(engine: Engine, about: About) -> App {
        let limits = Limits::new(engine.settings());
        let pools = Pools::new(&limits);
        let sessions = Arc::new(Sessions::new(&limits, engine.clock().clone()));
        let inner = Inner {
            engine,
            about,
            limits,
            pools,
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

    /// Streams that are open, and calls that wait for something.
    pub fn streams(&self) -> &Arc<Pool> {
        &self.inner.pools.streams
    }

    /// Requests under way, until their answers were sent.
    pub fn requests(&self) -> &Arc<Pool> {
        &self.inner.pools.requests
    }

    /// Artifacts that are being sent.
    pub fn downloads(&self) -> &Arc<Pool> {
        &self.inner.pools.downloads
    }

    pub fn connections(&self) -> &Arc<Pool> {
        &self.inner.pools.connections
    }

    /// Everything that is shared among callers.
    pub fn pools(&self) -> [&Arc<Pool>; 4] {
        [self.streams(), self.requests(), self.downloads(), self.connections()]
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
}
