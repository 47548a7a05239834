//! Starts and stops the services that run beside the surfaces: leases, roster, tokens, sweeper, timers, effects, presence,
//! replies, artifacts, wake-ups, router, dispatcher, courier, watcher, renderer.
//!
//! Here are only their loops and how often they come round. What one round does is in the module of the service; the simulation
//! calls the rounds by its own clocks, so that both run the same code.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rookery_store::CommitFeed;
use rookery_store::node::{LEASE_RENEWAL_INTERVAL, LeaderEpoch, LeaderRole};
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use crate::durations::RETRY_DELAY;
use crate::endpoints::EndpointClient;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::liveness::Sweeping;
use crate::renderer::{self, RendererConfig, RendererStatus};
use crate::roster_follower::RosterFollower;
use crate::watcher::{self, WatchCoverage, WatchMode};
use crate::{
    access, cluster, courier, delivery, dispatcher, effects, liveness, roster_follower, router, timers, upkeep,
};

pub const TIMER_POLL_INTERVAL: Duration = Duration::from_millis(500);
pub const REPLY_CLEANUP_INTERVAL: Duration = Duration::from_secs(3600);
pub const ARTIFACT_CLEANUP_INTERVAL: Duration = Duration::from_secs(3600);
/// How often the last use of browser sessions is recorded.
pub const SESSION_RENEWAL_INTERVAL: Duration = Duration::from_secs(60);
/// How many rounds of effects may be under way: each may wait for something slow.
const EFFECT_ROUNDS: usize = 8;
/// The longest backoff of a failing effect.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The running services. Stop them before the store is closed.
#[derive(Debug)]
pub struct Services {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    watch_coverage: watch::Receiver<WatchCoverage>,
}

impl Services {
    /// Loads the state of the node and starts all services. The watcher is optional.
    pub async fn start(engine: &Engine, watching: WatchMode) -> Result<Services, EngineError> {
        roster_follower::load_state(engine).await?;
        if let Err(error) = dispatcher::prepare(engine).await {
            tracing::warn!(%error, "where adapters begin could not be written down: they begin later");
        }
        let lease = renew_lease(engine, Lease::Renewed).await;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(until(stop.clone(), keep_lease(engine.clone(), lease)));
        tasks.spawn(until(stop.clone(), follow_roster(engine.clone())));
        tasks.spawn(until(stop.clone(), follow_tokens(engine.clone())));
        tasks.spawn(until(stop.clone(), keep_sessions(engine.clone())));
        tasks.spawn(until(stop.clone(), sweep(engine.clone())));
        tasks.spawn(until(stop.clone(), fire_timers(engine.clone())));
        tasks.spawn(until(stop.clone(), carry_out_effects(engine.clone())));
        tasks.spawn(until(stop.clone(), exchange_presence(engine.clone())));
        tasks.spawn(until(stop.clone(), forget_replies(engine.clone())));
        tasks.spawn(until(stop.clone(), collect_artifacts(engine.clone())));
        tasks.spawn(until(stop.clone(), delivery::run(engine.clone())));
        tasks.spawn(until(stop.clone(), router::run(engine.clone())));
        tasks.spawn(until(stop.clone(), dispatcher::run(engine.clone())));
        let (say, watch_coverage) = watch::channel(WatchCoverage::Off);
        if watching == WatchMode::On {
            say.send_replace(WatchCoverage::Blind { reason: "watching has not begun".to_owned() });
            tasks.spawn(until(stop.clone(), watcher::run(engine.clone(), say)));
        }
        Ok(Services { stop, tasks, watch_coverage })
    }

    /// Keeps the context's files at this site, and says what is rendered. Files are read and written in a thread of their
    /// own, so that a slow disk keeps nobody waiting.
    pub fn render(&mut self, engine: &Engine, config: RendererConfig) -> watch::Receiver<RendererStatus> {
        let (say, rendered) = watch::channel(RendererStatus::default());
        let (engine, stop, runtime) = (engine.clone(), self.stop.clone(), Handle::current());
        let work = move || runtime.block_on(until(stop, renderer::run(engine, config, say)));
        self.tasks.spawn_blocking(work);
        rendered
    }

    /// Delivers messages to the endpoints of agents. At the end, what is on its way may still arrive, for a moment.
    pub fn deliver(&mut self, engine: &Engine, carrier: Arc<dyn EndpointClient>) {
        self.tasks.spawn(courier::run(engine.clone(), carrier, self.stop.clone()));
    }

    /// How much of the project's files is seen, as it changes.
    pub fn watch_coverage(&self) -> watch::Receiver<WatchCoverage> {
        self.watch_coverage.clone()
    }

    pub async fn stop(mut self, engine: &Engine) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        if let Err(error) = liveness::exchange_presence(engine).await {
            tracing::warn!(%error, "presence was not written down at the end");
        }
        if let Err(error) = cluster::leave(engine).await {
            tracing::warn!(%error, "the others learn that this node is gone only by missing it");
        }
    }
}

async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn keep_lease(engine: Engine, mut lease: Lease) {
    loop {
        tokio::time::sleep(LEASE_RENEWAL_INTERVAL).await;
        lease = renew_lease(&engine, lease).await;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lease {
    Renewed,
    Failing,
}

/// Logs the first failure, and the first success after one.
async fn renew_lease(engine: &Engine, before: Lease) -> Lease {
    match (cluster::renew_lease(engine).await, before) {
        (Ok(()), Lease::Renewed) => Lease::Renewed,
        (Ok(()), Lease::Failing) => {
            tracing::info!("this node renews its lease again");
            Lease::Renewed
        }
        (Err(error), Lease::Renewed) => {
            tracing::warn!(%error, "this node cannot renew its lease: it pauses its leader roles until it can");
            Lease::Failing
        }
        (Err(_), Lease::Failing) => Lease::Failing,
    }
}

/// Reads the tokens again whenever any node has put or revoked one.
async fn follow_tokens(engine: Engine) {
    let mut changed = engine.store().tokens_changed();
    // One may have come between the first look and now.
    changed.mark_changed();
    while changed.changed().await.is_ok() {
        while let Err(error) = engine.access().reload(engine.store().as_ref()).await {
            tracing::warn!(%error, "tokens could not be read: what was revoked may still be taken");
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// Extends the browser sessions that are in use.
async fn keep_sessions(engine: Engine) {
    loop {
        tokio::time::sleep(SESSION_RENEWAL_INTERVAL).await;
        if let Err(error) = access::keep_sessions(&engine).await {
            tracing::debug!(%error, "the last use of browser sessions could not be recorded");
        }
    }
}

async fn follow_roster(engine: Engine) {
    loop {
        if let Ok(mut following) = RosterFollower::begin(&engine).await {
            while following.next(&engine).await.is_ok() {}
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn sweep(engine: Engine) {
    let every = Duration::from_millis(liveness::allowed(&engine).tick_millis());
    let mut sweeping = Sweeping::default();
    loop {
        tokio::time::sleep(every).await;
        sweeping.glance(&engine).await;
    }
}

async fn fire_timers(engine: Engine) {
    loop {
        if let Err(error) = timers::fire_due(&engine).await {
            tracing::warn!(%error, "timers could not be fired");
        }
        tokio::time::sleep(TIMER_POLL_INTERVAL).await;
    }
}

/// Carries out effects that are open at the start or when this node gets the leader role, then those that the log opens. A
/// failed effect is retried with backoff. A slow round does not delay the next one.
async fn carry_out_effects(engine: Engine) {
    let mut published = engine.store().published();
    let mut duties = engine.cluster().changes();
    let mut rounds = FuturesUnordered::new();
    let (mut backoff, mut again) = (RETRY_DELAY, None);
    rounds.push(effects::carry_out(&engine, &engine));
    loop {
        tokio::select! {
            opened = intent_opened(&mut published, &mut duties), if rounds.len() < EFFECT_ROUNDS => match opened {
                Published::Intent => rounds.push(effects::carry_out(&engine, &engine)),
                Published::NoMore => return,
            },
            Some(ended) = rounds.next() => {
                if let Err(error) = &ended {
                    tracing::warn!(%error, "effects could not be carried out");
                }
                match ended {
                    Ok(effects::Open::Nothing) => backoff = RETRY_DELAY,
                    Ok(effects::Open::Failed) | Err(_) => again = Some(Box::pin(tokio::time::sleep(backoff))),
                }
            }
            Some(()) = waited(&mut again) => {
                again = None;
                backoff = (backoff * 2).min(MAX_RETRY_DELAY);
                rounds.push(effects::carry_out(&engine, &engine));
            }
        }
    }
}

/// Waits for the end of a pause; `None` if there is none.
async fn waited(pause: &mut Option<Pin<Box<Sleep>>>) -> Option<()> {
    match pause {
        Some(pause) => {
            pause.await;
            Some(())
        }
        None => None,
    }
}

enum Published {
    Intent,
    NoMore,
}

/// Waits until there may be an open intent.
async fn intent_opened(published: &mut CommitFeed, duties: &mut watch::Receiver<Vec<LeaderEpoch>>) -> Published {
    loop {
        let batch = tokio::select! {
            batch = published.recv() => batch,
            // The sender lives as long as the engine.
            _ = duties.changed() => return Published::Intent,
        };
        match batch {
            Ok(batch) if batch.rows().iter().all(|row| !row.event.opens_intent()) => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return Published::Intent,
            Err(RecvError::Closed) => return Published::NoMore,
        }
    }
}

async fn exchange_presence(engine: Engine) {
    let every = Duration::from_millis(liveness::allowed(&engine).exchange_millis());
    let mut wait = every;
    loop {
        tokio::time::sleep(wait).await;
        wait = match liveness::exchange_presence(&engine).await {
            Ok(()) => every,
            Err(error) => {
                tracing::debug!(%error, "presence was not exchanged");
                every.min(RETRY_DELAY)
            }
        };
    }
}

/// Whether this node has the leader role for upkeep.
fn has_upkeep_role(tenures: &[LeaderEpoch]) -> bool {
    tenures.iter().any(|tenure| tenure.duty == LeaderRole::Upkeep)
}

async fn collect_artifacts(engine: Engine) {
    let mut duties = engine.cluster().changes();
    while duties.wait_for(|tenures| has_upkeep_role(tenures)).await.is_ok() {
        if let Err(error) = upkeep::collect_artifacts(&engine).await {
            tracing::debug!(%error, "artifacts that nothing names were not all removed");
        }
        tokio::time::sleep(ARTIFACT_CLEANUP_INTERVAL).await;
    }
}

async fn forget_replies(engine: Engine) {
    let mut duties = engine.cluster().changes();
    while duties.wait_for(|tenures| has_upkeep_role(tenures)).await.is_ok() {
        if let Err(error) = upkeep::forget_replies(&engine).await {
            tracing::debug!(%error, "old replies were not forgotten");
        }
        tokio::time::sleep(REPLY_CLEANUP_INTERVAL).await;
    }
}
