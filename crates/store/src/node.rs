//! Nodes: the processes that share one store, where each runs, and which duties it has.
//!
//! A duty is work that one node does for all: expiring agents, firing timers. It is a row `(name, node, epoch, until)` on
//! the store's clock. A node keeps its duties by attending; those of a node that no longer does are taken up by another,
//! with the next epoch. A command that is submitted out of duty names its epoch, and an old one is turned away.

use std::time::Duration;

use rookery_core::{NodeId, SiteId, Timestamp};

/// How long a node may act on its duties after it attended, and how long it counts as here.
pub const LEASE: Duration = Duration::from_secs(6);
/// How often a node attends.
pub const LEASE_RENEWAL_INTERVAL: Duration = Duration::from_secs(2);
/// How long a node that is away is still listed.
pub const REMEMBER_AWAY: Duration = Duration::from_secs(3600);

/// A process that serves the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// New with every start.
    pub id: NodeId,
    pub host: String,
    pub pid: u32,
    /// Where it is reached; `None` before it listens.
    pub url: Option<String>,
    pub version: String,
    pub site: Site,
    pub started_at: Timestamp,
}

/// A folder of the project on one machine. Watcher, files, worktrees and processes belong to a site; a site is held by at
/// most one node, and nothing of it moves to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    pub id: SiteId,
    pub root: String,
}

/// Work that one node does for all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LeaderRole {
    /// Declares agents offline that show no sign of life.
    Sweeper,
    /// Fires what has fallen due.
    Timers,
    /// Carries out effects that belong to no site.
    Effects,
    /// Forgets the replies whose time is over.
    Upkeep,
    /// Gives tasks to whoever fits.
    Router,
    /// Posts messages to the endpoints of agents.
    Courier,
}

impl LeaderRole {
    pub const ALL: [LeaderRole; 6] = [
        LeaderRole::Sweeper,
        LeaderRole::Timers,
        LeaderRole::Effects,
        LeaderRole::Upkeep,
        LeaderRole::Router,
        LeaderRole::Courier,
    ];

    pub fn name(self) -> &'static str {
        match self {
            LeaderRole::Sweeper => "sweeper",
            LeaderRole::Timers => "timers",
            LeaderRole::Effects => "effects",
            LeaderRole::Upkeep => "upkeep",
            LeaderRole::Router => "router",
            LeaderRole::Courier => "courier",
        }
    }

    pub fn parse(name: &str) -> Option<LeaderRole> {
        LeaderRole::ALL.into_iter().find(|duty| duty.name() == name)
    }
}

/// A duty that a node has, and since which change of hands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaderEpoch {
    pub duty: LeaderRole,
    pub epoch: u64,
}

/// What a node learns when it attends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeaseRenewal {
    /// The duties it has now.
    pub tenures: Vec<LeaderEpoch>,
    /// Every node, itself included, the longest running first.
    pub nodes: Vec<Seen>,
    /// How far its clock is ahead of the store's, in milliseconds.
    pub clock_ahead_millis: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub node: Node,
    pub last_seen: Timestamp,
    pub liveness: NodeLiveness,
    pub leader_roles: Vec<LeaderRole>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeLiveness {
    Online,
    /// It has not attended for longer than a lease.
    Offline,
}
