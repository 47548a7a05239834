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
use crate::rendering::{self, RendererStatus, Rendering};
use crate::roster_follower::Following;
use crate::watching::{self, WatchCoverage, WatchMode};
use crate::{
    access, cluster, courier, delivery, dispatcher, effects, liveness, roster_follower, router, timers, upkeep,
};

pub const TIMER_POLL_INTERVAL: Duration = Duration::from_millis(500);
pub const REPLIES_EVERY: Duration = Duration::from_secs(3600);
pub const ARTIFACTS_EVERY: Duration = Duration::from_secs(3600);
/// How often the last use of browser sessions is recorded.
pub const SESSIONS_EVERY: Duration = Duration::from_secs(60);
/// How many rounds of effects may be under way: each may wait for something slow.
const EFFECT_ROUNDS: usize = 8;
/// How far the pauses between tries of a failing effect grow.
const RETRY_AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// The running subscribers. Stop them before the store is closed.
#[derive(Debug)]
pub struct Services {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    sight: watch::Receiver<WatchCoverage>,
}

impl Services {
    /// Learns who is here and starts everything. The watcher is optional.
    pub async fn start(engine: &Engine, watching: WatchMode) -> Result<Services, EngineError> {
        roster_follower::take_stock(engine).await?;
        if let Err(error) = dispatcher::prepare(engine).await {
            tracing::warn!(%error, "where adapters begin could not be written down: they begin later");
        }
        let attended = attend_once(engine, Attended::Yes).await;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(until(stop.clone(), attend(engine.clone(), attended)));
        tasks.spawn(until(stop.clone(), follow_roster(engine.clone())));
        tasks.spawn(until(stop.clone(), follow_tokens(engine.clone())));
        tasks.spawn(until(stop.clone(), keep_sessions(engine.clone())));
        tasks.spawn(until(stop.clone(), sweep(engine.clone())));
        tasks.spawn(until(stop.clone(), fire_timers(engine.clone())));
        tasks.spawn(until(stop.clone(), carry_out_intents(engine.clone())));
        tasks.spawn(until(stop.clone(), exchange_presence(engine.clone())));
        tasks.spawn(until(stop.clone(), forget_replies(engine.clone())));
        tasks.spawn(until(stop.clone(), collect_artifacts(engine.clone())));
        tasks.spawn(until(stop.clone(), delivery::run(engine.clone())));
        tasks.spawn(until(stop.clone(), router::run(engine.clone())));
        tasks.spawn(until(stop.clone(), dispatcher::run(engine.clone())));
        let (say, sight) = watch::channel(WatchCoverage::Off);
        if watching == WatchMode::On {
            say.send_replace(WatchCoverage::Blind { reason: "watching has not begun".to_owned() });
            tasks.spawn(until(stop.clone(), watching::run(engine.clone(), say)));
        }
        Ok(Services { stop, tasks, sight })
    }

    /// Keeps the context's files at this site, and says what is rendered. Files are read and written in a thread of their
    /// own, so that a slow disk keeps nobody waiting.
    pub fn render(&mut self, engine: &Engine, rendering: Rendering) -> watch::Receiver<RendererStatus> {
        let (say, rendered) = watch::channel(RendererStatus::default());
        let (engine, stop, runtime) = (engine.clone(), self.stop.clone(), Handle::current());
        let work = move || runtime.block_on(until(stop, rendering::run(engine, rendering, say)));
        self.tasks.spawn_blocking(work);
        rendered
    }

    /// Delivers messages to the endpoints of agents. At the end, what is on its way may still arrive, for a moment.
    pub fn deliver(&mut self, engine: &Engine, carrier: Arc<dyn EndpointClient>) {
        self.tasks.spawn(courier::run(engine.clone(), carrier, self.stop.clone()));
    }

    /// How much of the project's files is seen, as it changes.
    pub fn sight(&self) -> watch::Receiver<WatchCoverage> {
        self.sight.clone()
    }

    pub async fn stop(mut self, engine: &Engine) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        if let Err(error) = liveness::exchange_presence(engine).await {
            tracing::warn!(%error, "presence was not written down at the end");
        }
        if let Err(error) = cluster::depart(engine).await {
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

async fn attend(engine: Engine, mut attended: Attended) {
    loop {
        tokio::time::sleep(LEASE_RENEWAL_INTERVAL).await;
        attended = attend_once(&engine, attended).await;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attended {
    Yes,
    No,
}

/// Says so when it fails, and when it no longer does.
async fn attend_once(engine: &Engine, before: Attended) -> Attended {
    match (cluster::attend(engine).await, before) {
        (Ok(()), Attended::Yes) => Attended::Yes,
        (Ok(()), Attended::No) => {
            tracing::info!("this node attends again");
            Attended::Yes
        }
        (Err(error), Attended::Yes) => {
            tracing::warn!(%error, "this node cannot attend: it leaves its duties until it can");
            Attended::No
        }
        (Err(_), Attended::No) => Attended::No,
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
        tokio::time::sleep(SESSIONS_EVERY).await;
        if let Err(error) = access::keep_sessions(&engine).await {
            tracing::debug!(%error, "the last use of browser sessions could not be recorded");
        }
    }
}

async fn follow_roster(engine: Engine) {
    loop {
        if let Ok(mut following) = Following::begin(&engine).await {
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

/// Takes up what is open at the start or when the duty comes to this node, then whatever the log opens; what failed again
/// and again, ever less often. A round that takes long does not keep the next from beginning.
async fn carry_out_intents(engine: Engine) {
    let mut published = engine.store().published();
    let mut duties = engine.cluster().changes();
    let mut rounds = FuturesUnordered::new();
    let (mut patience, mut again) = (RETRY_DELAY, None);
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
                    Ok(effects::Open::Nothing) => patience = RETRY_DELAY,
                    Ok(effects::Open::Failed) | Err(_) => again = Some(Box::pin(tokio::time::sleep(patience))),
                }
            }
            Some(()) = waited(&mut again) => {
                again = None;
                patience = (patience * 2).min(RETRY_AT_LEAST_EVERY);
                rounds.push(effects::carry_out(&engine, &engine));
            }
        }
    }
}

/// The end of a pause; nothing where there is none.
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

/// Waits until there may be an intent to take up.
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

/// Whether this node has the duty of upkeep.
fn keeps_up(tenures: &[LeaderEpoch]) -> bool {
    tenures.iter().any(|tenure| tenure.duty == LeaderRole::Upkeep)
}

async fn collect_artifacts(engine: Engine) {
    let mut duties = engine.cluster().changes();
    while duties.wait_for(|tenures| keeps_up(tenures)).await.is_ok() {
        if let Err(error) = upkeep::collect_artifacts(&engine).await {
            tracing::debug!(%error, "artifacts that nothing names were not all removed");
        }
        tokio::time::sleep(ARTIFACTS_EVERY).await;
    }
}

async fn forget_replies(engine: Engine) {
    let mut duties = engine.cluster().changes();
    while duties.wait_for(|tenures| keeps_up(tenures)).await.is_ok() {
        if let Err(error) = upkeep::forget_replies(&engine).await {
            tracing::debug!(%error, "old replies were not forgotten");
        }
        tokio::time::sleep(REPLIES_EVERY).await;
    }
}
