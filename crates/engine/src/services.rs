//! The subscribers that run beside the surfaces: roster, sweeper, timers, intents, presence, replies, watcher.
//!
//! Here are only their loops and how often they come round; what one round does is in [`crate::rounds`].

use std::time::Duration;

use rookery_store::Feed;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, EngineError};
use crate::rounds::{self, Following, Sweeping};
use crate::watching::{self, Sight, Watching};
use crate::{intents, timers};

/// How often presence is written down and learned; also how much of it a crash may cost.
pub const PRESENCE_EVERY: Duration = Duration::from_secs(5);
pub const TIMERS_EVERY: Duration = Duration::from_millis(500);
pub const REPLIES_EVERY: Duration = Duration::from_secs(3600);
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How far the pauses between tries of a failing effect grow.
const RETRY_AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// The running subscribers. Stop them before the store is closed.
#[derive(Debug)]
pub struct Services {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    sight: watch::Receiver<Sight>,
}

impl Services {
    /// Learns who is here and starts everything. The watcher is optional.
    pub async fn start(engine: &Engine, watching: Watching) -> Result<Services, EngineError> {
        rounds::take_stock(engine).await?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(until(stop.clone(), follow_roster(engine.clone())));
        tasks.spawn(until(stop.clone(), sweep(engine.clone())));
        tasks.spawn(until(stop.clone(), fire_timers(engine.clone())));
        tasks.spawn(until(stop.clone(), carry_out_intents(engine.clone())));
        tasks.spawn(until(stop.clone(), exchange_presence(engine.clone())));
        tasks.spawn(until(stop.clone(), forget_replies(engine.clone())));
        let (say, sight) = watch::channel(Sight::Off);
        if watching == Watching::On {
            say.send_replace(Sight::Blind { reason: "watching has not begun".to_owned() });
            tasks.spawn(until(stop.clone(), watching::run(engine.clone(), say)));
        }
        Ok(Services { stop, tasks, sight })
    }

    /// How much of the project's files is seen, as it changes.
    pub fn sight(&self) -> watch::Receiver<Sight> {
        self.sight.clone()
    }

    pub async fn stop(mut self, engine: &Engine) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        if let Err(error) = rounds::exchange_presence(engine).await {
            tracing::warn!(%error, "presence was not written down at the end");
        }
    }
}

async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn follow_roster(engine: Engine) {
    loop {
        if let Ok(mut following) = Following::begin(&engine).await {
            while following.next(&engine).await.is_ok() {}
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

async fn sweep(engine: Engine) {
    let every = Duration::from_millis(rounds::allowed(&engine).tick_millis());
    let mut sweeping = Sweeping::new(&engine);
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
        tokio::time::sleep(TIMERS_EVERY).await;
    }
}

/// Takes up what is open at the start, then whatever the log opens; what failed again and again, ever less often.
async fn carry_out_intents(engine: Engine) {
    let mut published = engine.store().published();
    let mut patience = RETRY_AFTER;
    loop {
        let again = match intents::carry_out(&engine, &engine).await {
            Ok(intents::Open::Nothing) => {
                patience = RETRY_AFTER;
                None
            }
            Ok(intents::Open::Failed) => Some(patience),
            Err(error) => {
                tracing::warn!(%error, "effects could not be carried out");
                Some(patience)
            }
        };
        let opened = match again {
            None => Ok(intent_opened(&mut published).await),
            Some(wait) => tokio::time::timeout(wait, intent_opened(&mut published)).await,
        };
        match opened {
            Ok(Published::Intent) => {}
            Ok(Published::NoMore) => return,
            Err(_) => patience = (patience * 2).min(RETRY_AT_LEAST_EVERY),
        }
    }
}

enum Published {
    Intent,
    NoMore,
}

/// Waits until there may be a new intent.
async fn intent_opened(published: &mut Feed) -> Published {
    loop {
        match published.recv().await {
            Ok(batch) if batch.rows().iter().all(|row| !opens_intent(&row.fact)) => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return Published::Intent,
            Err(RecvError::Closed) => return Published::NoMore,
        }
    }
}

fn opens_intent(fact: &rookery_core::Fact) -> bool {
    matches!(fact, rookery_core::Fact::LogRedacted(fact) if !fact.erases.is_empty())
}

async fn exchange_presence(engine: Engine) {
    loop {
        tokio::time::sleep(PRESENCE_EVERY).await;
        if let Err(error) = rounds::exchange_presence(&engine).await {
            tracing::debug!(%error, "presence was not exchanged");
        }
    }
}

async fn forget_replies(engine: Engine) {
    loop {
        if let Err(error) = rounds::forget_replies(&engine).await {
            tracing::debug!(%error, "old replies were not forgotten");
        }
        tokio::time::sleep(REPLIES_EVERY).await;
    }
}
