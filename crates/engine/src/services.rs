//! The subscribers that run beside the surfaces: roster, sweeper, timers, intents, presence, replies, watcher.

use std::time::Duration;

use rookery_core::Caller;
use rookery_core::view::Presence;
use rookery_store::store::Health;
use rookery_store::{Operation, Submission, SubmitError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, EngineError};
use crate::sweeper::{Allowed, Glance, Sight, Sweeper};
use crate::watching::{self, Watching};
use crate::{intents, timers};

/// How often presence is written down; also how much of it a crash may cost.
const PRESENCE_EVERY: Duration = Duration::from_secs(5);
const TIMERS_EVERY: Duration = Duration::from_millis(500);
const REPLIES_EVERY: Duration = Duration::from_secs(3600);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The running subscribers. Stop them before the store is closed.
#[derive(Debug)]
pub struct Services {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Services {
    /// Learns who is here and starts everything. The watcher is optional.
    pub async fn start(engine: &Engine, watching: Watching) -> Result<Services, EngineError> {
        engine.roster().learn(&engine.agents().await?.value);
        engine.board().learn(engine.store().presence().await?);
        engine.access().reload(engine.store().as_ref()).await?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(until(stop.clone(), follow_roster(engine.clone())));
        tasks.spawn(until(stop.clone(), sweep(engine.clone())));
        tasks.spawn(until(stop.clone(), fire_timers(engine.clone())));
        tasks.spawn(until(stop.clone(), carry_out_intents(engine.clone())));
        tasks.spawn(until(stop.clone(), write_presence(engine.clone())));
        tasks.spawn(until(stop.clone(), forget_replies(engine.clone())));
        if watching == Watching::On {
            tasks.spawn(until(stop.clone(), watching::run(engine.clone())));
        }
        Ok(Services { stop, tasks })
    }

    pub async fn stop(mut self, engine: &Engine) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        if let Err(error) = flush_presence(engine).await {
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
        let Ok(mut subscription) = engine.subscribe(None).await else {
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        };
        // Whoever joined between the first look and the subscription.
        if let Ok(agents) = engine.agents().await {
            engine.roster().learn(&agents.value);
        }
        while let Ok(chunk) = subscription.next().await {
            chunk.rows().iter().for_each(|row| engine.roster().follow(&row.fact));
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

pub fn allowed(engine: &Engine) -> Allowed {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let settings = engine.settings();
    Allowed {
        process: millis(settings.process_after),
        connection: millis(settings.connection_after),
        heartbeat: millis(settings.offline_after),
        call: millis(settings.silent_after),
    }
}

async fn sweep(engine: Engine) {
    let allowed = allowed(&engine);
    let mut sweeper = Sweeper::new(allowed);
    let mut overloaded = false;
    loop {
        tokio::time::sleep(Duration::from_millis(allowed.tick_millis())).await;
        let healthy = engine.store().health() == Health::Writable && !overloaded;
        let agents: Vec<_> =
            engine.roster().live().into_iter().map(|id| (id.clone(), engine.board().get(&id))).collect();
        let glance = Glance {
            monotonic: engine.clock().monotonic(),
            wall: engine.clock().now(),
            sight: if healthy { Sight::Clear } else { Sight::Blind },
            agents: &agents,
        };
        overloaded = false;
        for declared in sweeper.tick(&glance) {
            let agent = declared.agent.clone();
            match engine.store().submit(Submission::new(Caller::system(), declared)).await {
                Ok(_) => tracing::info!(agent = %agent, "declared offline"),
                Err(SubmitError::Refused(_)) => {}
                Err(error) => {
                    overloaded = true;
                    tracing::warn!(%error, agent = %agent, "could not be declared offline");
                }
            }
        }
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

/// Takes up what is open at the start, then whatever the log opens.
async fn carry_out_intents(engine: Engine) {
    let mut published = engine.store().published();
    loop {
        if let Err(error) = intents::carry_out(&engine).await {
            tracing::warn!(%error, "effects could not be carried out");
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        }
        loop {
            match published.recv().await {
                Ok(batch) if batch.rows().iter().all(|row| !opens_intent(&row.fact)) => {}
                Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => break,
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}

fn opens_intent(fact: &rookery_core::Fact) -> bool {
    matches!(fact, rookery_core::Fact::LogRedacted(fact) if !fact.erases.is_empty())
}

async fn write_presence(engine: Engine) {
    loop {
        tokio::time::sleep(PRESENCE_EVERY).await;
        if let Err(error) = flush_presence(&engine).await {
            tracing::debug!(%error, "presence was not written down");
        }
    }
}

async fn flush_presence(engine: &Engine) -> Result<(), EngineError> {
    let entries: Vec<(_, Presence)> = engine.board().unwritten();
    if !entries.is_empty() {
        engine.store().operate(Operation::WritePresence(entries.clone())).await?;
        engine.board().wrote(&entries);
    }
    Ok(())
}

async fn forget_replies(engine: Engine) {
    loop {
        let before = engine.clock().now();
        if let Err(error) = engine.store().operate(Operation::ForgetReplies { before }).await {
            tracing::debug!(%error, "old replies were not forgotten");
        }
        tokio::time::sleep(REPLIES_EVERY).await;
    }
}
