//! The rounds of the sweeper: what it sees on this node, and the agents that it declares offline.

use std::time::Duration;

use rookery_core::{AgentId, Caller};
use rookery_store::node::{LEASE, LEASE_RENEWAL_INTERVAL, LeaderEpoch, LeaderRole};
use rookery_store::store::Health;
use rookery_store::{Submission, SubmitError};

use super::sweeper::{Allowed, Glance, Sighted, SweepVisibility, Sweeper, Witness};
use crate::engine::Engine;

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
            sight: if healthy { SweepVisibility::Clear } else { SweepVisibility::Blind },
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
    if !engine.cluster().has_other_nodes() {
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
