//! This node among the others: renews its lease and its leader roles, and gives them up at the end.

use std::ops::Deref;

use rookery_core::{Code, Rejection, SiteId, Timestamp};
use rookery_store::node::{LeaderEpoch, LeaderRole, Node, NodeLiveness, Seen};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::state::cluster::Cluster;

/// This node, its leader roles, and the other nodes of the store.
#[derive(Clone, Copy, Debug)]
pub struct ClusterHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`ClusterHandle`].
    pub fn cluster(&self) -> ClusterHandle<'_> {
        ClusterHandle { engine: self }
    }
}

impl<'a> ClusterHandle<'a> {
    pub fn node(&self) -> &'a Node {
        self.engine.cluster_state().node()
    }
}

impl Deref for ClusterHandle<'_> {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.engine.cluster_state()
    }
}

impl ClusterHandle<'_> {
    /// Whether an effect at a site can be done now. One that belongs to a node that is away would only wait.
    pub async fn ensure_site_online(&self, site: &SiteId) -> Result<(), EngineError> {
        if self.is_own_site(site) || self.online_nodes(site).iter().any(is_present) {
            return Ok(());
        }
        // It may have come since this node looked last.
        renew_lease(self.engine).await?;
        let known = self.online_nodes(site);
        if known.iter().any(is_present) {
            return Ok(());
        }
        let place = known.first().map(|seen| format!("{} on {}", seen.node.site.root, seen.node.host));
        let place = place.unwrap_or_else(|| format!("site {site}"));
        Err(Rejection::new(Code::SiteOffline, format!("the workspace is at {place}, where no daemon runs"))
            .hint("start the daemon there with 'rookery up', then try again")
            .into())
    }

    fn online_nodes(&self, site: &SiteId) -> Vec<Seen> {
        self.nodes().into_iter().filter(|seen| seen.node.site.id == *site).collect()
    }

    /// Whether a site is this node's. A store that nobody shares has one place, whatever it was called before it moved.
    pub fn is_own_site(&self, site: &SiteId) -> bool {
        !self.engine.config().shared || self.node().site.id == *site
    }

    /// The site that this node serves; `None` where there can be no other.
    pub fn site(&self) -> Option<SiteId> {
        self.engine.config().shared.then(|| self.node().site.id.clone())
    }

    /// The duty, if this node may act on it now.
    pub fn leader_epoch(&self, duty: LeaderRole) -> Option<LeaderEpoch> {
        self.tenure(duty, self.engine.clock().monotonic())
    }

    /// The time by the store's clock, as far as this node knows it.
    pub(crate) fn store_now(&self) -> Timestamp {
        Timestamp(self.engine.clock().now().0.saturating_sub(self.clock_ahead_millis()))
    }
}

fn is_present(seen: &Seen) -> bool {
    seen.liveness == NodeLiveness::Online
}

/// One round: keeps this node's place and its duties, takes up those that nobody keeps, and learns who else is here.
pub async fn renew_lease(engine: &Engine) -> Result<(), EngineError> {
    let asked = engine.clock().monotonic();
    let renewal = engine.store().renew_lease(engine.cluster().node().clone()).await?;
    engine.cluster().take(renewal, asked, engine.clock().monotonic());
    Ok(())
}

/// The last round: gives up the duties and the place, so that others need not wait for the lease to run out.
pub async fn leave(engine: &Engine) -> Result<(), EngineError> {
    engine.cluster().give_up_roles();
    Ok(engine.store().leave_cluster(engine.cluster().node().id.clone()).await?)
}
