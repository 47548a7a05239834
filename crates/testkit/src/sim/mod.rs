//! Fault simulation: a cluster with a team of agents and all kinds of faults, determined by one seed.
//!
//! One to four nodes share a database in memory and its leader roles. Each node runs the daemon's own engine, queue, batch
//! driver, lease renewal, sweeper, timers, effects, router, courier and subscriber. Only the clocks, the disk, the network and
//! the writer's thread belong to the simulation. Scripted agents send every command, as commands and as Clutch envelopes, open
//! their inboxes, and reply to messages at their endpoints. Meanwhile nodes are killed, paused and suspended, commits fail in
//! every possible way, requests arrive late, twice or never, endpoints fail, hang and answer too late, clocks jump, disks fill
//! up, and old backups are restored. Named checks ([`check`]) watch every row, reply, post and restart. In the end the faults
//! stop, and all open work must finish.
//!
//! One random generator on one thread makes every choice, so a failing seed fails again. A [`Sabotage`] breaks one thing on
//! purpose, to prove that a check notices it.
//!
//! Not simulated: surfaces, the watcher's file system, artifacts on disk, SQLite itself.

mod bundle;
mod check;
mod clock;
mod endpoints;
mod model;
mod network;
mod node;
mod script;
mod store;
mod world;
mod writer;

use std::collections::BTreeSet;
use std::fmt;

pub use check::Violation;

/// The number of steps with faults, unless a plan has another.
pub const STEPS: u32 = 300;

/// A deliberate defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// Decides batches over outdated rows that another node has changed.
    SkipLock,
    /// Measures silence by the time of day since the stored heartbeat, even for a time without a watching node.
    ExpireAtStart,
    /// Reports success although nothing was committed.
    AckBeforeCommit,
    /// Does not keep the replies to requests with an idempotency key.
    ForgetReplies,
    /// Repeats a batch whose answer was lost, without its idempotency keys.
    ApplyTwice,
    /// Does not write a changed row.
    SkipFold,
    /// Loses the newest commits in a power cut.
    LoseCommits,
    /// Restores a backup without a new log id.
    KeepLogId,
    /// Accepts the work of a node whose leader role another node has taken over.
    IgnoreEpochs,
    /// Commits the commands of one request separately.
    TearBundles,
    /// Gives tasks to another agent than the router chose, with the profile of the chosen one.
    MixUpAgents,
    /// Reports posts to endpoints as accepted, and drops them.
    SwallowPosts,
}

impl Sabotage {
    pub const ALL: [Sabotage; 12] = [
        Sabotage::SkipLock,
        Sabotage::ExpireAtStart,
        Sabotage::AckBeforeCommit,
        Sabotage::ForgetReplies,
        Sabotage::ApplyTwice,
        Sabotage::SkipFold,
        Sabotage::LoseCommits,
        Sabotage::KeepLogId,
        Sabotage::IgnoreEpochs,
        Sabotage::TearBundles,
        Sabotage::MixUpAgents,
        Sabotage::SwallowPosts,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Sabotage::SkipLock => "skip-lock",
            Sabotage::ExpireAtStart => "expire-at-start",
            Sabotage::AckBeforeCommit => "ack-before-commit",
            Sabotage::ForgetReplies => "forget-replies",
            Sabotage::ApplyTwice => "apply-twice",
            Sabotage::SkipFold => "skip-fold",
            Sabotage::LoseCommits => "lose-commits",
            Sabotage::KeepLogId => "keep-log-id",
            Sabotage::IgnoreEpochs => "ignore-epochs",
            Sabotage::TearBundles => "tear-bundles",
            Sabotage::MixUpAgents => "mix-up-agents",
            Sabotage::SwallowPosts => "swallow-posts",
        }
    }

    pub fn parse(name: &str) -> Option<Sabotage> {
        Sabotage::ALL.into_iter().find(|sabotage| sabotage.name() == name)
    }
}

/// A seed and its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    pub seed: u64,
    /// The number of steps with faults.
    pub steps: u32,
    pub sabotage: Option<Sabotage>,
}

impl Plan {
    pub fn new(seed: u64) -> Plan {
        Plan { seed, steps: STEPS, sabotage: None }
    }
}

/// Counts of a run, which show that it covered something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    pub events: u64,
    pub acknowledged: u64,
    pub rejected: u64,
    pub unknown: u64,
    pub duplicates: u64,
    pub kills: u64,
    pub restores: u64,
    /// Agents that the sweeper declared offline.
    pub declared_offline: u64,
    /// How often a leader role moved from one node to another.
    pub take_overs: u64,
    /// Posts to endpoints, including repeated ones.
    pub posts: u64,
    /// Posts that arrived at an endpoint that had their message already.
    pub repeated_posts: u64,
    /// Answers of endpoints that arrived after the courier's timeout.
    pub answers_after_timeout: u64,
    /// Replies of endpoints that were sent more than once.
    pub repeated_replies: u64,
    /// The kinds of events that occurred.
    pub kinds: BTreeSet<&'static str>,
    /// The hash of the whole log, which is the same in every run of a seed.
    pub digest: u64,
}

/// The failure of a seed: its step and the violated check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub plan: Plan,
    pub step: u32,
    pub violation: Violation,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { plan, step, violation } = self;
        writeln!(f, "seed {} failed at step {step}: {}", plan.seed, violation.check)?;
        writeln!(f, "  {}", violation.details)?;
        write!(f, "  run again: cargo run -p rookery-testkit --bin sim -- --seeds {0}..{1}", plan.seed, plan.seed + 1)?;
        if plan.steps != STEPS {
            write!(f, " --steps {}", plan.steps)?;
        }
        if let Some(sabotage) = plan.sabotage {
            write!(f, " --sabotage {}", sabotage.name())?;
        }
        Ok(())
    }
}

/// Runs one seed.
pub fn run(plan: Plan) -> Result<Summary, Failure> {
    let mut world = world::World::new(plan);
    world.run().map_err(|violation| Failure { plan, step: world.step(), violation })
}
