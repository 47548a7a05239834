//! One round of each subscriber: what it does whenever its time has come.
//!
//! Nothing here sleeps or loops for ever. The daemon calls these from its loops in [`crate::services`]; the simulation
//! calls them by its own clocks, so that both run the same code. The rounds of attendance, timers and effects are
//! [`crate::cluster::attend`], [`crate::timers::fire_due`] and [`crate::intents::carry_out`].

use std::time::Duration;

use rookery_core::{AgentId, Caller, Row, Table};
use rookery_store::node::{LEASE, LEASE_RENEWAL_INTERVAL, LeaderEpoch, LeaderRole};
use rookery_store::store::Health;
use rookery_store::{Operation, RowQuery, Submission, SubmitError};

use crate::artifacts::{Collected, Trial};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::subscribe::{Chunk, SubscribeError, Subscription};
use crate::sweeper::{Allowed, Glance, Sight, Sighted, Sweeper, Witness};

/// Learns who is here, when each was last seen, which teams run, and which tokens are good. The first round of all.
pub async fn take_stock(engine: &Engine) -> Result<(), EngineError> {
    learn_team(engine).await?;
    engine.board().learn(engine.store().presence().await?);
    engine.access().reload(engine.store().as_ref()).await?;
    Ok(())
}

async fn learn_team(engine: &Engine) -> Result<(), EngineError> {
    let agents = engine.query().agents().await?;
    engine.roster().learn_all(&agents.value, agents.head.head);
    let (rows, head) = engine.store().list(RowQuery::all(Table::Teams)).await?;
    for row in &rows {
        if let Row::Team(team) = row {
            engine.access().team_sessions().learn(team, head.head);
        }
    }
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
        // Whoever joined or left before the subscription; what came after it is told by it.
        learn_team(engine).await?;
        Ok(Following { subscription })
    }

    /// Takes the next stretch of the log; waits until there is one. Safe to drop while it waits.
    pub async fn next(&mut self, engine: &Engine) -> Result<Chunk, SubscribeError> {
        let chunk = self.subscription.next().await?;
        for row in chunk.rows() {
            engine.follow(row.seq, &row.event);
        }
        Ok(chunk)
    }
}

/// The sweeper with what it needs to know from one glance to the next.
#[derive(Debug, Default)]
pub struct Sweeping {
    /// The sweeper of this tenure: whoever takes the duty over begins anew, and gives everybody a full period.
    under: Option<(LeaderEpoch, Sweeper)>,
    overloaded: bool,
}

impl Sweeping {
    /// Looks once, and declares whom it finds gone, if that is for this node to do.
    pub async fn glance(&mut self, engine: &Engine) {
        let Some(tenure) = engine.cluster().leader_epoch(LeaderRole::Sweeper) else {
            self.under = None;
            return;
        };
        let healthy = engine.store().health() == Health::Writable && !self.overloaded;
        let agents = sighted(engine);
        let glance = Glance {
            monotonic: engine.clock().monotonic(),
            wall: engine.clock().now(),
            sight: if healthy { Sight::Clear } else { Sight::Blind },
            on_its_way: on_its_way(engine),
            agents: &agents,
        };
        self.overloaded = false;
        for declared in self.sweeper(engine, tenure).tick(&glance) {
            let agent = declared.agent.clone();
            match engine.commit(Submission::internal(Caller::system(), declared).out_of(tenure)).await {
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

impl Sweeping {
    fn sweeper(&mut self, engine: &Engine, tenure: LeaderEpoch) -> &mut Sweeper {
        let known = self.under.take().filter(|(under, _)| *under == tenure);
        let (_, sweeper) = self.under.insert(known.unwrap_or_else(|| (tenure, Sweeper::new(allowed(engine)))));
        sweeper
    }
}

/// The live agents as far as this node knows, and whether the nodes that saw them last are here.
fn sighted(engine: &Engine) -> Vec<Sighted> {
    let present = engine.cluster().present();
    let witness = |agent: &AgentId| match engine.board().witness(agent) {
        Some(node) if !present.contains(&node) => Witness::Gone,
        Some(_) | None => Witness::Here,
    };
    let live = engine.roster().live().into_iter();
    live.map(|agent| Sighted { presence: engine.board().get(&agent), witness: witness(&agent), agent }).collect()
}

/// How long it takes at most until we know what another node saw, or know that it is gone: agents may call any node.
fn on_its_way(engine: &Engine) -> u64 {
    if !engine.cluster().has_company() {
        return 0;
    }
    let noticed = u64::try_from((LEASE + LEASE_RENEWAL_INTERVAL).as_millis()).unwrap_or(u64::MAX);
    allowed(engine).exchange_millis() + noticed
}

pub fn allowed(engine: &Engine) -> Allowed {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let settings = engine.settings();
    Allowed {
        process: millis(settings.process_offline_after),
        connection: millis(settings.connection_offline_after),
        heartbeat: millis(settings.offline_after),
        call: millis(settings.call_only_offline_after),
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

/// Removes what is left of artifacts that never came whole, and those that nothing names for long enough, if that is for
/// this node to do.
pub async fn collect_artifacts(engine: &Engine) -> Result<(), EngineError> {
    if engine.cluster().leader_epoch(LeaderRole::Upkeep).is_none() {
        return Ok(());
    }
    while engine.store().tidy_artifacts().await? > 0 {}
    loop {
        let Collected { artifacts, bytes, more, .. } =
            engine.artifacts().collect(engine.settings().keep_artifacts, Trial::Real).await?;
        if artifacts > 0 {
            tracing::info!(artifacts, bytes, "removed artifacts that nothing names");
        }
        if !more {
            return Ok(());
        }
    }
}

/// Forgets the remembered replies whose time is over, if that is for this node to do.
pub async fn forget_replies(engine: &Engine) -> Result<(), EngineError> {
    if engine.cluster().leader_epoch(LeaderRole::Upkeep).is_none() {
        return Ok(());
    }
    let before = engine.cluster().store_now();
    while engine.store().operate(Operation::ForgetReplies { before }).await? > 0 {}
    Ok(())
}
