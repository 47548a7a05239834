//! The state that all handlers share: the engine, and the limits and pools of this process's sockets.

use std::sync::Arc;

use rookery_engine::Engine;
use rookery_engine::renderer::RendererStatus;
use rookery_engine::watcher::WatchCoverage;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::instance_sockets::Sockets;
use super::limits::{Limits, Places, Pool};
use super::shared_answers::SharedAnswers;

/// This process as surfaces show it.
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
    shared_answers: SharedAnswers,
    stopping: CancellationToken,
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
        let shared_answers = SharedAnswers::default();
        let inner = Inner { engine, about, limits, pools, shared_answers, stopping: CancellationToken::new() };
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

    /// Large answers that readers share.
    pub(crate) fn shared_answers(&self) -> &SharedAnswers {
        &self.inner.shared_answers
    }

    /// Cancelled when the daemon stops: streams end by it.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.stopping
    }
}
