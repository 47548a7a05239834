//! The lease and the leader roles of this node, until when it may act on them, and the other nodes.
//!
//! A duty is acted on only for as long as a lease lasts, counted on this machine's monotonic clock from before we asked
//! for it. If the store is away, it runs out by itself, before another node may take the duty up. What was on its way by
//! then carries its epoch, and the store turns it away once the duty has changed hands.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::{NodeId, Timestamp};
use rookery_store::node::{LEASE, LeaderEpoch, LeaderRole, LeaseRenewal, Node, NodeLiveness, Seen};
use tokio::sync::watch;

/// Clocks further apart than this are worth a warning.
const CLOCKS_APART_MILLIS: u64 = 1_000;

#[derive(Debug)]
pub struct Cluster {
    node: Node,
    last: Mutex<Last>,
    /// The leader roles as of the last renewal; changes when they do.
    tenures: watch::Sender<Vec<LeaderEpoch>>,
}

#[derive(Debug, Default)]
struct Last {
    renewal: LeaseRenewal,
    /// Monotonic time up to which its tenures may be acted on.
    until: u64,
}

impl Cluster {
    pub(crate) fn new(node: Node) -> Cluster {
        Cluster { node, last: Mutex::default(), tenures: watch::Sender::new(vec![]) }
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Every node that was online at the last renewal of the lease, this one included.
    pub fn nodes(&self) -> Vec<Seen> {
        self.lock().renewal.nodes.clone()
    }

    pub fn clock_ahead_millis(&self) -> i64 {
        self.lock().renewal.clock_ahead_millis
    }

    /// The duty, if this node has it and may act on it at this monotonic time.
    pub fn tenure(&self, duty: LeaderRole, now: u64) -> Option<LeaderEpoch> {
        let last = self.lock();
        let held = last.renewal.tenures.iter().find(|tenure| tenure.duty == duty);
        held.copied().filter(|_| now < last.until)
    }

    /// Tells when duties come and go.
    pub fn changes(&self) -> watch::Receiver<Vec<LeaderEpoch>> {
        self.tenures.subscribe()
    }

    /// The nodes that are here, so that what they see will be written down.
    pub(crate) fn present(&self) -> BTreeSet<NodeId> {
        let last = self.lock();
        let here = last.renewal.nodes.iter().filter(|seen| seen.liveness == NodeLiveness::Online);
        here.map(|seen| seen.node.id.clone()).chain([self.node.id.clone()]).collect()
    }

    /// Whether any other node is here, or was not long ago.
    pub(crate) fn has_other_nodes(&self) -> bool {
        self.lock().renewal.nodes.iter().any(|seen| seen.node.id != self.node.id)
    }

    /// Takes what the store said to a question that was asked at the monotonic time `asked`.
    pub(crate) fn take(&self, renewal: LeaseRenewal, asked: u64, now: u64) {
        let tenures = renewal.tenures.clone();
        let lease = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        let mut last = self.lock();
        let ran_out = last.until <= now;
        *last = Last { renewal, until: asked.saturating_add(lease) };
        drop(last);
        self.tenures.send_if_modified(|known| {
            let changed = ran_out || *known != tenures;
            *known = tenures;
            changed
        });
    }

    pub(crate) fn give_up_roles(&self) {
        self.lock().until = 0;
    }

    /// What a person should know about the nodes.
    pub fn warnings(&self) -> Vec<String> {
        let last = self.lock();
        let LeaseRenewal { nodes, clock_ahead_millis, .. } = &last.renewal;
        let is_here = |seen: &&Seen| seen.liveness == NodeLiveness::Online;
        // A folder that another process serves by now misses nobody.
        let served: BTreeSet<_> = nodes.iter().filter(is_here).map(|seen| &seen.node.site.id).collect();
        let missing = nodes.iter().filter(|seen| !is_here(seen) && !served.contains(&seen.node.site.id));
        let mut warnings: Vec<String> = missing.map(|seen| away(&seen.node, seen.last_seen)).collect();
        if clock_ahead_millis.unsigned_abs() > CLOCKS_APART_MILLIS {
            let (by, side) =
                (clock_ahead_millis.unsigned_abs(), if *clock_ahead_millis > 0 { "ahead of" } else { "behind" });
            let (seconds, tenths) = (by / 1_000, by % 1_000 / 100);
            warnings.push(format!("this machine's clock is {seconds}.{tenths} s {side} the store's"));
        }
        for seen in nodes.iter().filter(is_here).filter(|seen| seen.node.version != self.node.version) {
            let Node { host, pid, version, .. } = &seen.node;
            warnings.push(format!(
                "the node on {host} (process {pid}) runs version {version}, this one {}",
                self.node.version
            ));
        }
        warnings
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn away(node: &Node, last_seen: Timestamp) -> String {
    let since = jiff::Timestamp::from_millisecond(last_seen.0).map(|at| format!(" since {at:.0}")).unwrap_or_default();
    let Node { host, pid, site, .. } = node;
    format!("the node on {host} (process {pid}) is away{since}: nobody watches the files in {}", site.root)
}

#[cfg(test)]
mod tests {
    use rookery_store::node::Site;

    use super::*;

    fn node(id: &str) -> Node {
        Node {
            id: id.into(),
            host: format!("host-of-{id}"),
            pid: 7,
            url: None,
            version: "1.0.0".to_owned(),
            site: Site { id: format!("site_{id}").as_str().into(), root: format!("/{id}") },
            started_at: Timestamp(0),
        }
    }

    fn seen(node: Node, whereabouts: NodeLiveness) -> Seen {
        Seen { node, last_seen: Timestamp(1_700_000_000_000), liveness: whereabouts, leader_roles: vec![] }
    }

    const SWEEPER: LeaderEpoch = LeaderEpoch { duty: LeaderRole::Sweeper, epoch: 3 };

    #[test]
    fn a_duty_runs_out_a_lease_after_it_was_asked_for() {
        let cluster = Cluster::new(node("a"));
        assert_eq!(cluster.tenure(LeaderRole::Sweeper, 0), None);
        // The answer took a second: that second is not ours.
        let renewal = LeaseRenewal { tenures: vec![SWEEPER], ..LeaseRenewal::default() };
        cluster.take(renewal, 10_000, 11_000);
        assert_eq!(cluster.tenure(LeaderRole::Sweeper, 15_999), Some(SWEEPER));
        assert_eq!(cluster.tenure(LeaderRole::Sweeper, 16_000), None);
        assert_eq!(cluster.tenure(LeaderRole::Timers, 11_000), None);
        cluster.give_up_roles();
        assert_eq!(cluster.tenure(LeaderRole::Sweeper, 11_000), None);
    }

    #[test]
    fn whoever_waits_for_a_duty_is_told_when_it_comes_and_when_it_is_back() {
        let cluster = Cluster::new(node("a"));
        let mut changes = cluster.changes();
        let held = || LeaseRenewal { tenures: vec![SWEEPER], ..LeaseRenewal::default() };
        cluster.take(held(), 0, 10);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        cluster.take(held(), 2_000, 2_010);
        assert!(!changes.has_changed().unwrap(), "nothing is new");
        cluster.take(held(), 9_000, 9_010);
        assert!(changes.has_changed().unwrap(), "it had run out");
    }

    #[test]
    fn people_are_told_of_nodes_that_are_missed_clocks_apart_and_other_versions() {
        let cluster = Cluster::new(node("a"));
        let warned = |nodes: Vec<Seen>, clock_ahead_millis| {
            cluster.take(LeaseRenewal { tenures: vec![], nodes, clock_ahead_millis }, 0, 0);
            cluster.warnings()
        };
        let here = |node| seen(node, NodeLiveness::Online);
        assert_eq!(warned(vec![here(node("a")), here(node("b"))], 1_000), [""; 0]);
        let gone = seen(node("b"), NodeLiveness::Offline);
        let missed = warned(vec![here(node("a")), gone.clone()], -2_500);
        assert_eq!(
            missed,
            [
                "the node on host-of-b (process 7) is away since 2023-11-14T22:13:20Z: nobody watches the files in /b",
                "this machine's clock is 2.5 s behind the store's",
            ]
        );
        let again = Node { id: "c".into(), version: "2.0.0".to_owned(), ..node("b") };
        let restarted = warned(vec![here(node("a")), gone, here(again)], 0);
        assert_eq!(restarted, ["the node on host-of-b (process 7) runs version 2.0.0, this one 1.0.0"]);
    }
}
