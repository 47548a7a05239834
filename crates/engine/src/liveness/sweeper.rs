//! Noticing agents that are gone. It declares with evidence, and never because of our own absence.
//!
//! [`Sweeper`] is a state machine without IO: it is told what is seen and when, and says whom to declare offline. Quiet
//! time is counted on the monotonic clock from what this process itself saw. A full period of grace begins with the
//! first sight of an agent and again whenever we were not able to watch: after a start, a take-over of the duty, a sleep
//! of the machine, a jump of the clock, a store that takes no writes, or a tick that came far too late.
//!
//! Other nodes see agents too. What they saw is on its way to us for a while, and a node that is gone has taken what it
//! saw last with it: neither is held against an agent.

use std::collections::HashMap;

use rookery_core::agents::DeclareOffline;
use rookery_core::model::agent::Evidence;
use rookery_core::model::{LifeSource, Presence};
use rookery_core::{AgentId, Timestamp};

/// Allowed silence for each source of life, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    pub process: u64,
    pub connection: u64,
    pub heartbeat: u64,
    pub call: u64,
}

impl Allowed {
    pub fn silence(&self, source: LifeSource) -> u64 {
        match source {
            LifeSource::Process => self.process,
            LifeSource::Connection => self.connection,
            LifeSource::Heartbeat => self.heartbeat,
            LifeSource::Call => self.call,
        }
    }

    /// How often to look: often enough to be in time, seldom enough to be cheap.
    pub fn tick_millis(&self) -> u64 {
        (self.shortest() / 10).clamp(20, 1_000)
    }

    /// How often nodes tell each other whom they saw; also how much of it a crash may cost.
    pub fn exchange_millis(&self) -> u64 {
        (self.shortest() / 4).clamp(20, 5_000)
    }

    fn shortest(&self) -> u64 {
        self.process.min(self.connection).min(self.heartbeat).min(self.call)
    }
}

/// Whether the last stretch of time can be held against anybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SweepVisibility {
    Clear,
    /// We could not have taken notice: the store takes no writes, or we are overloaded.
    Blind,
}

/// What a tick sees.
#[derive(Clone, Debug)]
pub struct Glance<'a> {
    pub monotonic: u64,
    pub wall: Timestamp,
    pub sight: SweepVisibility,
    /// How long a sign of life may be on its way from another node to this one; 0 if there is none.
    pub on_its_way: u64,
    pub agents: &'a [Sighted],
}

/// A live agent and its newest sign of life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sighted {
    pub agent: AgentId,
    pub presence: Option<Presence>,
    pub witness: Witness,
}

/// What became of the node that saw an agent last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Witness {
    Here,
    /// It may have seen more than it wrote down.
    Gone,
}

#[derive(Debug)]
pub struct Sweeper {
    allowed: Allowed,
    watched: HashMap<AgentId, Watched>,
    last: Option<(u64, Timestamp)>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    last_seen: Timestamp,
    source: LifeSource,
    witness: Witness,
    quiet_since: u64,
}

impl Sweeper {
    pub fn new(allowed: Allowed) -> Sweeper {
        Sweeper { allowed, watched: HashMap::new(), last: None }
    }

    pub fn tick(&mut self, glance: &Glance<'_>) -> Vec<DeclareOffline> {
        if self.was_away(glance) {
            self.watched.clear();
        }
        // After a blind stretch the period begins with the first clear glance, not with the last blind one.
        self.last = match glance.sight {
            SweepVisibility::Clear => Some((glance.monotonic, glance.wall)),
            SweepVisibility::Blind => None,
        };
        let mut declared = Vec::new();
        let mut still = HashMap::with_capacity(glance.agents.len());
        for sighted in glance.agents {
            let agent = &sighted.agent;
            let watched = self.look(sighted, glance.monotonic);
            let limit = self.allowed.silence(watched.source);
            if glance.monotonic.saturating_sub(watched.quiet_since) > limit + glance.on_its_way {
                let evidence =
                    Evidence { last_seen: watched.last_seen, source: Some(watched.source), limit_millis: limit };
                declared.push(DeclareOffline { agent: agent.clone(), evidence });
            }
            still.insert(agent.clone(), watched);
        }
        self.watched = still;
        declared
    }

    /// The quiet time of an agent goes on only while nothing new is seen of it, and whoever saw it last is there to see
    /// more.
    fn look(&self, sighted: &Sighted, now: u64) -> Watched {
        let seen = |presence: Presence| (presence.last_seen, presence.source);
        let (last_seen, source) = sighted.presence.map_or((Timestamp(0), LifeSource::Call), seen);
        let fresh = Watched { last_seen, source, witness: sighted.witness, quiet_since: now };
        match self.watched.get(&sighted.agent) {
            Some(known) if known.last_seen != last_seen => fresh,
            Some(known) if known.witness == Witness::Here && sighted.witness == Witness::Gone => fresh,
            Some(known) => Watched { quiet_since: known.quiet_since, ..fresh },
            None => fresh,
        }
    }

    fn was_away(&self, glance: &Glance<'_>) -> bool {
        let Some((monotonic, wall)) = self.last else { return true };
        let passed = glance.monotonic.saturating_sub(monotonic);
        let on_the_wall = glance.wall.0.saturating_sub(wall.0);
        let jumped = on_the_wall.saturating_sub_unsigned(passed).unsigned_abs() > self.tolerance();
        glance.sight == SweepVisibility::Blind || jumped || passed > self.tolerance()
    }

    /// A tick this late, or clocks this far apart, mean that we were not there.
    fn tolerance(&self) -> u64 {
        (self.allowed.tick_millis() * 5).max(2_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Allowed = Allowed { process: 9_000, connection: 6_000, heartbeat: 6_000, call: 60_000 };

    struct Scene {
        sweeper: Sweeper,
        now: u64,
        wall: i64,
        presence: Presence,
        witness: Witness,
        on_its_way: u64,
    }

    impl Scene {
        fn new(source: LifeSource) -> Scene {
            let presence = Presence { last_seen: Timestamp(1_000_000), source };
            let sweeper = Sweeper::new(ALLOWED);
            Scene { sweeper, now: 0, wall: 1_000_000, presence, witness: Witness::Here, on_its_way: 0 }
        }

        fn seen(&mut self) {
            self.presence.last_seen = Timestamp(self.wall);
        }

        fn tick(&mut self, millis: u64, sight: SweepVisibility) -> usize {
            self.now += millis;
            self.wall += i64::try_from(millis).unwrap();
            let agents = [Sighted { agent: "a".into(), presence: Some(self.presence), witness: self.witness }];
            let (wall, on_its_way) = (Timestamp(self.wall), self.on_its_way);
            self.sweeper.tick(&Glance { monotonic: self.now, wall, sight, on_its_way, agents: &agents }).len()
        }

        /// Ticks for a while; the first moment somebody was declared, if any.
        fn run(&mut self, millis: u64) -> Option<u64> {
            let start = self.now;
            while self.now < start + millis {
                if self.tick(500, SweepVisibility::Clear) > 0 {
                    return Some(self.now - start);
                }
            }
            None
        }
    }

    #[test]
    fn silence_beyond_the_limit_of_its_source_is_declared() {
        for (source, limit) in
            [(LifeSource::Heartbeat, 6_000), (LifeSource::Call, 60_000), (LifeSource::Process, 9_000)]
        {
            let at = Scene::new(source).run(100_000).unwrap();
            assert!((limit..limit + 1_500).contains(&at), "{source:?} after {at}");
        }
    }

    #[test]
    fn signs_of_life_keep_an_agent() {
        let mut scene = Scene::new(LifeSource::Heartbeat);
        for _ in 0..100 {
            assert_eq!(scene.run(3_000), None);
            scene.seen();
        }
    }

    #[test]
    fn a_start_gives_everybody_a_full_period() {
        let mut scene = Scene::new(LifeSource::Heartbeat);
        scene.wall += 10_000_000;
        assert!(scene.run(100_000).unwrap() > ALLOWED.heartbeat);
    }

    #[test]
    fn our_own_absence_is_held_against_nobody() {
        // A late tick, as after a stop of the process.
        let mut scene = Scene::new(LifeSource::Heartbeat);
        scene.run(4_000);
        assert_eq!(scene.tick(60_000, SweepVisibility::Clear), 0);
        assert_eq!(scene.run(5_500), None);

        // The lid was closed: the wall clock went on, the monotonic one did not.
        let mut scene = Scene::new(LifeSource::Heartbeat);
        scene.run(4_000);
        scene.wall += 8 * 3_600_000;
        assert_eq!(scene.run(5_500), None);

        // The store took no writes.
        let mut scene = Scene::new(LifeSource::Heartbeat);
        scene.run(5_500);
        assert_eq!(scene.tick(500, SweepVisibility::Blind), 0);
        assert_eq!(scene.run(6_500), None);
    }

    #[test]
    fn what_another_node_saw_may_still_be_on_its_way() {
        let mut scene = Scene { on_its_way: 3_000, ..Scene::new(LifeSource::Heartbeat) };
        let at = scene.run(100_000).unwrap();
        assert!((9_000..10_500).contains(&at), "after {at}");
    }

    #[test]
    fn a_witness_that_is_gone_took_with_it_what_it_saw_last() {
        let mut scene = Scene::new(LifeSource::Heartbeat);
        assert_eq!(scene.run(5_500), None);
        scene.witness = Witness::Gone;
        let at = scene.run(100_000).unwrap();
        assert!((6_000..7_500).contains(&at), "a full period from when it was noticed, not {at}");

        // That it comes back, or another node takes its place, gives nothing more.
        let mut scene = Scene::new(LifeSource::Heartbeat);
        scene.witness = Witness::Gone;
        assert_eq!(scene.run(4_000), None);
        scene.witness = Witness::Here;
        assert!(scene.run(100_000).unwrap() < 3_500);
    }
}
