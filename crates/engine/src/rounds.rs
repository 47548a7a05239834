//! One round of each subscriber: what it does whenever its time has come.
//!
//! Nothing here sleeps or loops for ever. The daemon calls these from its loops in [`crate::services`]; the simulation
//! calls them by its own clocks, so that both run the same code. The rounds of timers and effects are
//! [`crate::timers::fire_due`] and [`crate::intents::carry_out`].

use std::time::Duration;

use rookery_core::Caller;
use rookery_store::store::Health;
use rookery_store::{Operation, Submission, SubmitError};

use crate::engine::{Engine, EngineError};
use crate::subscribe::{Chunk, SubscribeError, Subscription};
use crate::sweeper::{Allowed, Glance, Sight, Sweeper};

/// Learns who is here, when each was last seen, and which tokens are good. The first round of all.
pub async fn take_stock(engine: &Engine) -> Result<(), EngineError> {
    engine.roster().learn(&engine.agents().await?.value);
    engine.board().learn(engine.store().presence().await?);
    engine.access().reload(engine.store().as_ref()).await?;
    Ok(())
}

/// Keeps the roster up with the log.
#[derive(Debug)]
pub struct Following {
    subscription: Subscription,
}

impl Following {
    pub async fn begin(engine: &Engine) -> Result<Following, EngineError> {
        let subscription = engine.subscribe(None).await?;
        // Whoever joined between the first look and the subscription.
        engine.roster().learn(&engine.agents().await?.value);
        Ok(Following { subscription })
    }

    /// Takes the next stretch of the log; waits until there is one. Safe to drop while it waits.
    pub async fn next(&mut self, engine: &Engine) -> Result<Chunk, SubscribeError> {
        let chunk = self.subscription.next().await?;
        chunk.rows().iter().for_each(|row| engine.roster().follow(&row.fact));
        Ok(chunk)
    }
}

/// The sweeper with what it needs to know from one glance to the next.
#[derive(Debug)]
pub struct Sweeping {
    sweeper: Sweeper,
    overloaded: bool,
}

impl Sweeping {
    pub fn new(engine: &Engine) -> Sweeping {
        Sweeping { sweeper: Sweeper::new(allowed(engine)), overloaded: false }
    }

    /// Looks once, and declares whom it finds gone.
    pub async fn glance(&mut self, engine: &Engine) {
        let healthy = engine.store().health() == Health::Writable && !self.overloaded;
        let agents: Vec<_> =
            engine.roster().live().into_iter().map(|id| (id.clone(), engine.board().get(&id))).collect();
        let glance = Glance {
            monotonic: engine.clock().monotonic(),
            wall: engine.clock().now(),
            sight: if healthy { Sight::Clear } else { Sight::Blind },
            agents: &agents,
        };
        self.overloaded = false;
        for declared in self.sweeper.tick(&glance) {
            let agent = declared.agent.clone();
            match engine.store().submit(Submission::internal(Caller::system(), declared)).await {
                Ok(_) => tracing::info!(agent = %agent, "declared offline"),
                Err(SubmitError::Refused(_)) => {}
                Err(error) => {
                    self.overloaded = true;
                    tracing::warn!(%error, agent = %agent, "could not be declared offline");
                }
            }
        }
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

/// Learns what other processes saw, and writes down what was seen here since the last time.
pub async fn exchange_presence(engine: &Engine) -> Result<(), EngineError> {
    engine.board().learn(engine.store().presence().await?);
    let entries = engine.board().unwritten();
    if !entries.is_empty() {
        engine.store().operate(Operation::WritePresence(entries.clone())).await?;
        engine.board().wrote(&entries);
    }
    Ok(())
}

/// Forgets the remembered replies whose time is over.
pub async fn forget_replies(engine: &Engine) -> Result<(), EngineError> {
    let before = engine.clock().now();
    while engine.store().operate(Operation::ForgetReplies { before }).await? > 0 {}
    Ok(())
}
