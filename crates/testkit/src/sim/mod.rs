//! Simulation: whole teams over whole clusters, with everything that can go wrong, from one number.
//!
//! One to four nodes share a database in memory and take turns at its duties. Each runs the daemon's own engine, queue,
//! driver, attendance, sweeper, timers, effects, router, courier and subscriber; only the clocks, the disk, the network and the
//! writer's thread are the simulation's. Scripted agents ask for everything that can be asked, by commands and by envelopes of
//! the Clutch protocol, open their inboxes, and reply to what comes to their endpoints, while nodes are killed, stopped and put
//! to sleep, commits fail in each of their ways, requests come late, twice or never, endpoints fail, hang and answer nobody,
//! clocks jump, disks fill up and old backups come back. Named checks ([`check`]) watch every row, reply, post and restart.
//! Then the faults stop, and what was begun must come to its end.
//!
//! Everything is chosen by one generator, on one thread: a seed that fails fails again. A [`Sabotage`] breaks one thing
//! on purpose, to prove that some check notices.
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

pub const STEPS: u32 = 300;

/// One thing that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// Batches are decided over rows that another node has changed meanwhile.
    SkipLock,
    /// Quiet time is counted by the time of day from what was written down, also before anybody was watching.
    ExpireAtStart,
    /// Success is answered although nothing was committed.
    AckBeforeCommit,
    /// The answers to requests with a key are not kept.
    ForgetReplies,
    /// A batch whose answer was lost is run again without a look at its keys.
    ApplyTwice,
    /// A changed row is not written.
    SkipFold,
    /// A power cut takes the newest commits with it.
    LoseCommits,
    /// A restored backup goes on under the name of the history it came from.
    KeepLogId,
    /// What a node submits out of a duty is taken also when another node has taken that over.
    IgnoreEpochs,
    /// Commands that are to be done together are done one by one.
    TearBundles,
    /// Tasks are given to another agent than the router chose, as if that one were like the other.
    MixUpAgents,
    /// What is posted to endpoints is said to have been taken, and never arrives.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    pub seed: u64,
    /// How many steps faults go on for.
    pub steps: u32,
    pub sabotage: Option<Sabotage>,
}

impl Plan {
    pub fn new(seed: u64) -> Plan {
        Plan { seed, steps: STEPS, sabotage: None }
    }
}

/// What a run went through, to see that it went through something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    pub facts: u64,
    pub acknowledged: u64,
    pub refused: u64,
    pub unknown: u64,
    pub duplicates: u64,
    pub kills: u64,
    pub restores: u64,
    /// Agents that the sweeper declared offline.
    pub declared_offline: u64,
    /// How often a duty went from one node to another.
    pub take_overs: u64,
    /// Messages that were posted to endpoints, with those that were again.
    pub posts: u64,
    /// Those that came to an endpoint that had them already.
    pub posted_again: u64,
    /// Answers of endpoints that came when nobody waited for them any more.
    pub answers_unheard: u64,
    /// Replies of endpoints that were sent more than once.
    pub replies_repeated: u64,
    /// The kinds of facts that happened.
    pub kinds: BTreeSet<&'static str>,
    /// Of the whole log: the same seed has the same one.
    pub digest: u64,
}

/// A seed that failed, when, and at what.
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
        writeln!(f, "  {}", violation.what)?;
        write!(f, "  again: cargo run -p rookery-testkit --bin sim -- --seeds {0}..{1}", plan.seed, plan.seed + 1)?;
        if plan.steps != STEPS {
            write!(f, " --steps {}", plan.steps)?;
        }
        if let Some(sabotage) = plan.sabotage {
            write!(f, " --sabotage {}", sabotage.name())?;
        }
        Ok(())
    }
}

/// Runs one seed from its beginning to its end.
pub fn run(plan: Plan) -> Result<Summary, Failure> {
    let mut world = world::World::new(plan);
    world.run().map_err(|violation| Failure { plan, step: world.step(), violation })
}
