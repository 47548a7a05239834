//! The world: time, faults, the network between agents and nodes, and the order in which everything happens.

mod posting;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rookery_core::model::LifeSource;
use rookery_core::{AgentId, Auth, Caller, Key, LogId, MessageId, NodeId, Position, Rejection, Row, Seq, Timestamp};
use rookery_engine::EngineError;
use rookery_engine::intake::IngestError;
use rookery_store::memory::{Database, Fault};
use rookery_store::node::LeaderRole;
use rookery_store::{Clock, LogHead, Operation, SubmitError};

use super::bundle::Bundle;
use super::check::{self, Checked, OfflineEvidence, Sent, Violation, deliveries, envelopes, routing, teams};
use super::clock::NodeClock;
use super::endpoints::Endpoints;
use super::model::Model;
use super::node::{CallAnswer, Expiry, Parcel, Process, Returned, Start};
use super::script::{Script, Wish, WishedWrite};
use super::writer::{Answers, Turn};
use super::{Plan, Sabotage, Summary};

const EPOCH: i64 = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;
/// A break this long is one that a process must notice.
const NOTICED_MILLIS: u64 = 5_000;
/// How long everything may take to come to its end after the faults have stopped.
const REST_STEPS: u32 = 420;
/// How long the duties of nodes that are gone may go without anybody, after the faults have stopped.
const TAKEN_OVER_STEPS: u32 = 12;
/// How many batches a writer gets done in one step.
const TURNS: u32 = 4;
/// How often a request with a key is sent until its answer is known.
const ATTEMPTS: u32 = 8;

pub(super) struct World {
    plan: Plan,
    rng: StdRng,
    step: u32,
    /// The time that passes for nobody in particular.
    now: u64,
    database: Database,
    database_clock: Arc<NodeClock>,
    /// Which node had each duty when somebody looked last.
    holders: BTreeMap<LeaderRole, NodeId>,
    log_id: LogId,
    histories: u32,
    disk_full: Arc<AtomicBool>,
    disk_full_since: u64,
    disk_full_until: u64,
    model: Model,
    nodes: Vec<Node>,
    agents: Vec<Agent>,
    posts: Vec<Post>,
    endpoints: Endpoints,
    /// What was sent together with an envelope, by the envelope.
    bundles: BTreeMap<MessageId, Bundle>,
    backup: Option<(Database, Model)>,
    /// Where readers of earlier histories stood when a backup took their place.
    abandoned: Vec<Position>,
    /// What a power cut falls back to under sabotage.
    older: Database,
    /// When a sign of life of each agent was last written down, in the world's time.
    written: BTreeMap<AgentId, u64>,
    late: Vec<(u64, usize, Answers)>,
    fresh: u64,
    summary: Summary,
    resting: bool,
}

struct Node {
    clock: Arc<NodeClock>,
    state: State,
    process: Option<Process>,
    starts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Up,
    Down {
        until: u64,
    },
    /// Not scheduled: its clocks go on.
    Stopped {
        until: u64,
        since: u64,
    },
    /// Its machine sleeps: only the time of day goes on.
    Asleep {
        until: u64,
        since: u64,
    },
}

struct Agent {
    id: AgentId,
    source: LifeSource,
    /// Whether it proves its id by a token.
    token: bool,
    /// Whether it shows signs of life to the end.
    steady: bool,
    dies_at: u64,
    beats_at: u64,
}

/// A request on its way to a node.
struct Post {
    due: u64,
    node: usize,
    parcel: Parcel,
    attempt: u32,
}

impl World {
    pub(super) fn new(plan: Plan) -> World {
        let mut rng = StdRng::seed_from_u64(plan.seed);
        let log_id = LogId::from("log_0");
        let database = Database::new(log_id.clone());
        let nodes = (0..rng.random_range(1..=4))
            .map(|_| {
                let skew = if rng.random_bool(0.5) { rng.random_range(-HOUR..HOUR) } else { rng.random_range(-50..50) };
                let clock = Arc::new(NodeClock::new(EPOCH + skew));
                Node { clock, state: State::Down { until: 0 }, process: None, starts: 0 }
            })
            .collect();
        let sources = [LifeSource::Heartbeat, LifeSource::Heartbeat, LifeSource::Connection, LifeSource::Process];
        let agents = (0..rng.random_range(2..=6))
            .map(|number: usize| {
                let steady = rng.random_bool(0.4);
                let silent = rng.random_bool(0.3);
                Agent {
                    id: AgentId::new(format!("agent-{number}")),
                    source: match (steady, silent) {
                        (true, _) => LifeSource::Heartbeat,
                        (false, true) => LifeSource::Call,
                        (false, false) => sources[rng.random_range(0..sources.len())],
                    },
                    token: rng.random_bool(0.3),
                    steady,
                    dies_at: if steady { u64::MAX } else { rng.random_range(20_000..400_000) },
                    beats_at: 0,
                }
            })
            .collect();
        World {
            older: database.copy(log_id.clone()),
            plan,
            rng,
            step: 0,
            now: 0,
            database,
            database_clock: Arc::new(NodeClock::new(EPOCH)),
            holders: BTreeMap::new(),
            log_id,
            histories: 0,
            disk_full: Arc::new(AtomicBool::new(false)),
            disk_full_since: 0,
            disk_full_until: 0,
            model: Model::default(),
            nodes,
            agents,
            posts: vec![],
            endpoints: Endpoints::default(),
            bundles: BTreeMap::new(),
            backup: None,
            abandoned: vec![],
            written: BTreeMap::new(),
            late: vec![],
            fresh: 0,
            summary: Summary::default(),
            resting: false,
        }
    }

    pub(super) fn step(&self) -> u32 {
        self.step
    }

    pub(super) fn run(&mut self) -> Result<Summary, Violation> {
        for _ in 0..self.plan.steps {
            let passed = self.rng.random_range(20..1_500);
            self.pass(passed);
            self.faults()?;
            self.moods();
            self.wishes()?;
            self.everybody_moves()?;
        }
        self.rest()?;
        self.ends()
    }

    /// Faults stop, everybody but the steady falls silent, and what is open comes to its end.
    fn rest(&mut self) -> Checked {
        self.resting = true;
        self.disk_full_until = 0;
        for node in 0..self.nodes.len() {
            self.wakes(node);
        }
        let mut left = Ok(());
        for step in 0..REST_STEPS {
            self.pass(1_000);
            self.everybody_moves()?;
            if step == TAKEN_OVER_STEPS {
                self.every_duty_is_kept()?;
            }
            if step % 20 == 19 {
                left = self.at_rest();
                if left.is_ok() {
                    break;
                }
            }
        }
        left
    }

    fn every_duty_is_kept(&self) -> Checked {
        let alive: Vec<&NodeId> =
            self.nodes.iter().filter_map(|node| node.process.as_ref()).map(Process::node_id).collect();
        check::every_duty_is_kept(&self.database, self.database_clock.now(), &alive)
    }

    fn at_rest(&self) -> Checked {
        let earliest = self.nodes.iter().map(|node| node.clock.now().0).min().unwrap_or_default();
        check::nothing_is_left_open(&self.model, Timestamp(earliest))?;
        let steady = self.agents.iter().filter(|agent| agent.steady && self.is_known(&agent.id));
        let steady: Vec<AgentId> = steady.map(|agent| agent.id.clone()).collect();
        check::the_silent_are_offline(&self.model, &steady)?;
        deliveries::nothing_is_lost(&self.model, &steady)?;
        routing::nobody_waits_in_vain(&self.model)?;
        routing::what_is_given_is_passed_on(&self.model)?;
        let busy = |node: &Node| node.process.as_ref().is_some_and(Process::is_busy);
        if self.nodes.iter().any(busy) || !self.posts.is_empty() {
            return Err(Violation { check: "everything_is_answered", what: "requests are on their way".to_owned() });
        }
        Ok(())
    }

    fn ends(&mut self) -> Result<Summary, Violation> {
        (0..self.nodes.len()).try_for_each(|node| self.follows(node))?;
        self.check_database()?;
        self.every_duty_is_kept()?;
        let head = self.model.head();
        for node in &self.nodes {
            if let Some(process) = node.process.as_ref().filter(|process| process.cursor != head) {
                let what = format!("{} of {head} rows seen", process.cursor);
                return Err(Violation { check: "stream_is_complete", what });
            }
        }
        for process in self.nodes.iter().filter_map(|node| node.process.as_ref()).take(1) {
            envelopes::everything_is_shown_as_it_was_sent(&self.model, |message| process.shows(message))?;
        }
        let mut hasher = DefaultHasher::new();
        for row in self.model.log() {
            (row.seq.0, row.at.0, row.actor.to_string(), row.event.encode()).hash(&mut hasher);
        }
        self.summary.facts = self.model.head().0;
        self.summary.digest = hasher.finish();
        Ok(std::mem::take(&mut self.summary))
    }

    /// Crash points and the end: what is stored is what was committed, and nothing else.
    fn check_database(&self) -> Checked {
        check::facts_never_change(&self.model, &self.database)?;
        check::rows_are_the_fold_of_the_log(&self.database)?;
        let head = LogHead { log: self.log_id.clone(), floor: Seq(1), head: self.database.head() };
        self.abandoned.iter().try_for_each(|position| check::abandoned_position_is_refused(position, &head))?;
        check::holdings_are_counted(&self.model)
    }

    fn pass(&mut self, millis: u64) {
        self.step += 1;
        self.now += millis;
        self.database_clock.passes(millis);
        for node in &self.nodes {
            match node.state {
                State::Asleep { .. } => node.clock.jumps(i64::try_from(millis).unwrap_or(i64::MAX)),
                State::Up | State::Stopped { .. } | State::Down { .. } => node.clock.passes(millis),
            }
        }
        for node in 0..self.nodes.len() {
            let over = match self.nodes[node].state {
                State::Up => false,
                State::Down { until } | State::Stopped { until, .. } | State::Asleep { until, .. } => until <= self.now,
            };
            if over {
                self.wakes(node);
            }
        }
        let full = self.now < self.disk_full_until;
        match (self.disk_full.swap(full, Ordering::Relaxed), full) {
            (false, true) => self.disk_full_since = self.now,
            (true, false) if self.now - self.disk_full_since > NOTICED_MILLIS => {
                self.nodes.iter_mut().for_each(Node::sees_clearly_from_now);
            }
            _ => {}
        }
    }

    fn wakes(&mut self, node: usize) {
        let state = std::mem::replace(&mut self.nodes[node].state, State::Up);
        match state {
            State::Up => {}
            State::Down { .. } => self.starts(node),
            State::Stopped { since, .. } | State::Asleep { since, .. } => {
                if self.now - since > NOTICED_MILLIS {
                    self.nodes[node].sees_clearly_from_now();
                }
            }
        }
    }

    fn starts(&mut self, number: usize) {
        let expiry = match self.plan.sabotage {
            Some(Sabotage::ExpireAtStart) => Expiry::ByTimeOfDay,
            _ => Expiry::ByClearSight,
        };
        let batch_commands = self.rng.random_range(1..=6);
        let node = &mut self.nodes[number];
        node.starts += 1;
        node.process = Some(Process::start(Start {
            name: format!("n{number}s{}x", node.starts),
            machine: number,
            database: &self.database,
            database_clock: self.database_clock.clone(),
            clock: node.clock.clone(),
            disk_full: self.disk_full.clone(),
            batch_commands,
            expiry,
            network: self.endpoints.network.clone(),
        }));
    }

    fn faults(&mut self) -> Checked {
        let node = self.rng.random_range(0..self.nodes.len());
        let soon = |rng: &mut StdRng, now: u64, most: u64| now + rng.random_range(500..most);
        match self.rng.random_range(0..1_000) {
            0..10 => {
                let until = soon(&mut self.rng, self.now, 60_000);
                self.kill(node, until)?;
            }
            10..14 => {
                let until = soon(&mut self.rng, self.now, 30_000);
                self.power_cut(until)?;
            }
            14..24 if self.nodes[node].state == State::Up => {
                let until = soon(&mut self.rng, self.now, 120_000);
                self.nodes[node].state = State::Stopped { until, since: self.now };
            }
            24..32 if self.nodes[node].state == State::Up => {
                let until = soon(&mut self.rng, self.now, 120_000);
                self.nodes[node].state = State::Asleep { until, since: self.now };
            }
            32..36 => self.lid_closes(),
            36..46 => {
                let jump = self.rng.random_range(-2 * HOUR..2 * HOUR);
                self.nodes[node].clock.jumps(jump);
            }
            46..51 => self.disk_full_until = soon(&mut self.rng, self.now, 90_000),
            51..61 => self.backup = Some((self.database.copy(LogId::from("backup")), self.model.clone())),
            61..64 => self.restore()?,
            64..84 => self.older = self.database.copy(self.log_id.clone()),
            _ => {}
        }
        Ok(())
    }

    fn kill(&mut self, node: usize, until: u64) -> Checked {
        self.nodes[node].state = State::Down { until };
        self.late.retain(|(_, of, _)| *of != node);
        let Some(process) = self.nodes[node].process.take() else { return Ok(()) };
        self.summary.kills += 1;
        if self.rng.random_bool(0.3) {
            process.departs();
        }
        for parcel in process.dies() {
            self.summary.unknown += 1;
            self.again(parcel);
        }
        self.check_database()
    }

    fn power_cut(&mut self, until: u64) -> Checked {
        if self.plan.sabotage == Some(Sabotage::LoseCommits) {
            self.database = self.older.copy(self.log_id.clone());
        }
        (0..self.nodes.len()).try_for_each(|node| self.kill(node, until))
    }

    /// One machine that carries everything: nodes and agents sleep for a night.
    fn lid_closes(&mut self) {
        let night = 8 * HOUR;
        self.now += night.unsigned_abs();
        self.database_clock.jumps(night);
        for agent in &mut self.agents {
            agent.beats_at = agent.beats_at.saturating_add_signed(night);
            agent.dies_at = agent.dies_at.saturating_add_signed(night);
        }
        for node in &mut self.nodes {
            node.clock.jumps(night);
            match &mut node.state {
                State::Up => node.sees_clearly_from_now(),
                State::Down { until } | State::Stopped { until, .. } | State::Asleep { until, .. } => {
                    *until = until.saturating_add_signed(night);
                }
            }
        }
        self.posts.iter_mut().for_each(|post| post.due = post.due.saturating_add_signed(night));
        self.late.iter_mut().for_each(|(due, ..)| *due = due.saturating_add_signed(night));
        self.endpoints.sleep(night.unsigned_abs());
    }

    /// An old backup takes the place of everything. What came after it is gone, and nobody may go on from there.
    fn restore(&mut self) -> Checked {
        let Some((backup, model)) = self.backup.take() else { return Ok(()) };
        let until = self.now + 2_000;
        (0..self.nodes.len()).try_for_each(|node| self.kill(node, until))?;
        let abandoned = Position { log: Some(self.log_id.clone()), seq: self.model.head() };
        self.histories += 1;
        if self.plan.sabotage != Some(Sabotage::KeepLogId) {
            self.log_id = LogId::new(format!("log_{}", self.histories));
        }
        self.database = backup.copy(self.log_id.clone());
        self.older = backup.copy(self.log_id.clone());
        self.model = model;
        self.posts.clear();
        self.endpoints.forget();
        self.written.clear();
        self.summary.restores += 1;
        self.abandoned.push(abandoned);
        self.check_database()
    }

    fn is_known(&self, agent: &AgentId) -> bool {
        matches!(self.model.row(&Key::Agent(agent.clone())), Some(Row::Agent(_)))
    }

    /// A node that somebody reaches, if there is one.
    fn reachable(&mut self) -> Option<usize> {
        let mut up: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].state == State::Up).collect();
        up.shuffle(&mut self.rng);
        up.first().copied()
    }

    /// Agents and people think of something to ask.
    fn wishes(&mut self) -> Checked {
        let ids: Vec<AgentId> = self.agents.iter().map(|agent| agent.id.clone()).collect();
        for number in 0..self.agents.len() {
            let (id, dead) = (ids[number].clone(), self.agents[number].dies_at <= self.now);
            if dead || !self.rng.random_bool(0.35) {
                continue;
            }
            self.fresh += 1;
            let caller = self.agents[number].caller();
            let (known, fresh) = (self.is_known(&id), self.fresh);
            // Now and then somebody uses an id that is not its own.
            let caller = if known && self.rng.random_bool(0.03) { Caller::asserted(id.clone()) } else { caller };
            let mut script = Script { rng: &mut self.rng, model: &self.model, agents: &ids, fresh };
            let wish = if known { script.agent_wish(caller, &id) } else { script.first_wish(caller, &id) };
            self.sends(wish);
            if known && self.rng.random_bool(0.05) {
                self.pulls(number)?;
            }
        }
        if self.rng.random_bool(0.3) {
            self.fresh += 1;
            let fresh = self.fresh;
            let wish = Script { rng: &mut self.rng, model: &self.model, agents: &ids, fresh }.other_wish();
            self.sends(wish);
        }
        Ok(())
    }

    /// Gives a request to the network, which may be slow, and may deliver twice what can be told to be the same.
    fn sends(&mut self, wish: Wish) {
        let Wish { caller, what } = wish;
        let parcel = match what {
            WishedWrite::Command(command) => {
                let keyed = self.rng.random_bool(0.4);
                let id = format!("{}-{}", if keyed { "key" } else { "request" }, self.fresh);
                Parcel::Command(Sent { id, caller, command, keyed, since: self.model.head() })
            }
            WishedWrite::Envelopes(envelopes) => Parcel::Bundle(self.bundles(caller, &envelopes)),
        };
        match parcel {
            Parcel::Command(Sent { keyed: false, .. }) => self.posts(parcel, 0),
            parcel if self.rng.random_bool(0.15) => {
                let parcel = repeated(parcel);
                self.posts(parcel.clone(), 0);
                self.posts(parcel, 0);
            }
            parcel => self.posts(parcel, 0),
        }
    }

    fn bundles(&mut self, caller: Caller, envelopes: &[serde_json::Value]) -> Bundle {
        let bundle = Bundle::new(caller, envelopes, self.rng.random_bool(0.5), self.model.head());
        for item in bundle.items.iter() {
            if self.model.row(&Key::Envelope(item.id.clone())).is_none() {
                self.bundles.insert(item.id.clone(), bundle.clone());
            }
        }
        bundle
    }

    fn posts(&mut self, parcel: Parcel, attempt: u32) {
        let delay = if self.rng.random_bool(0.2) { self.rng.random_range(0..6_000) } else { 0 };
        let wait = if attempt == 0 { 0 } else { self.rng.random_range(500..5_000) };
        let node = self.rng.random_range(0..self.nodes.len());
        self.posts.push(Post { due: self.now + delay + wait, node, parcel, attempt });
    }

    /// Nobody knows what became of a request: one with a key can be sent again, and so can envelopes.
    fn again(&mut self, parcel: Parcel) {
        if !matches!(parcel, Parcel::Command(Sent { keyed: false, .. })) {
            self.posts(repeated(parcel), 1);
        }
    }

    fn deliver(&mut self) {
        let (due, rest): (Vec<Post>, Vec<Post>) =
            std::mem::take(&mut self.posts).into_iter().partition(|post| post.due <= self.now);
        self.posts = rest;
        for post in due {
            let node = &mut self.nodes[post.node];
            match (&node.state, &mut node.process) {
                (State::Up | State::Stopped { .. } | State::Asleep { .. }, Some(process)) => {
                    let caller = post.parcel.caller().clone();
                    process.take(post.parcel, self.model.head());
                    self.notices(post.node, &caller);
                }
                _ if post.attempt < ATTEMPTS || self.resting => self.posts(post.parcel, post.attempt + 1),
                _ => {}
            }
        }
    }

    /// Whatever a call will come to, the node has seen the agent, if it is awake and has read of it in the log.
    fn notices(&mut self, node: usize, caller: &Caller) {
        let Some(agent) = caller.actor.agent() else { return };
        let node = &mut self.nodes[node];
        let (State::Up, Some(process)) = (node.state, &mut node.process) else { return };
        if let Some(Row::Agent(row)) = self.model.row_at(&Key::Agent(agent.clone()), process.cursor)
            && row.is_online()
            && !(row.has_credential && caller.auth == Auth::Asserted)
        {
            process.taken.insert(agent.clone(), self.now);
        }
    }

    fn heartbeats(&mut self) {
        for number in 0..self.agents.len() {
            let agent = &self.agents[number];
            let silent = agent.dies_at <= self.now || (self.resting && !agent.steady);
            if silent || agent.source == LifeSource::Call || agent.beats_at > self.now || !self.is_known(&agent.id) {
                continue;
            }
            let (id, source) = (agent.id.clone(), agent.source);
            let Some(node) = self.reachable() else { continue };
            self.agents[number].beats_at = self.now + self.rng.random_range(5_000..20_000);
            let head = self.model.head();
            let caller = self.agents[number].caller();
            self.notices(node, &caller);
            let Some(process) = &mut self.nodes[node].process else { continue };
            match source {
                LifeSource::Heartbeat => process.take_heartbeat(&id, caller, head),
                source => process.sees(&id, source),
            }
        }
    }

    fn everybody_moves(&mut self) -> Checked {
        self.endpoints_move()?;
        self.deliver();
        self.heartbeats();
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.shuffle(&mut self.rng);
        for node in order {
            if self.nodes[node].state == State::Up {
                self.moves(node)?;
            }
        }
        Ok(())
    }

    fn moves(&mut self, node: usize) -> Checked {
        self.hand_out_late(node);
        self.goes_on(node)?;
        if self.freezes(node) {
            return Ok(());
        }
        for _ in 0..self.rng.random_range(1..=TURNS) {
            self.writes(node)?;
            self.goes_on(node)?;
        }
        self.follows(node)
    }

    /// Now and then a process stops between asking its writer and being written, most often where that is worst.
    fn freezes(&mut self, node: usize) -> bool {
        let acts = self.nodes[node].process.as_ref().is_some_and(Process::acts_for_all);
        if self.resting || !self.rng.random_bool(if acts { 0.1 } else { 0.002 }) {
            return false;
        }
        let until = self.now + self.rng.random_range(500..60_000);
        self.nodes[node].state = State::Stopped { until, since: self.now };
        true
    }

    fn follows(&mut self, node: usize) -> Checked {
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        let model = &self.model;
        process.follows(|row| {
            let known = model.log().get((row.seq.0 - 1) as usize);
            if known.is_some_and(|known| known.event.kind() == row.event.kind() && known.at == row.at) {
                return Ok(());
            }
            let what = format!("{} is {} here and {known:?} in the log", row.seq, row.event.kind());
            Err(Violation { check: "stream_is_the_log", what })
        })
    }

    fn hand_out_late(&mut self, node: usize) {
        let now = self.now;
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|(due, of, _)| *of == node && *due <= now);
        self.late = rest;
        for (reply, outcome) in due.into_iter().flat_map(|(.., answers)| answers) {
            drop(reply.send(outcome));
        }
    }

    fn goes_on(&mut self, node: usize) -> Checked {
        let returned = self.nodes[node].process.as_mut().map(Process::goes_on).unwrap_or_default();
        self.collects_posts()?;
        returned.into_iter().try_for_each(|returned| self.told(returned))
    }

    /// Somebody is told what became of a request.
    fn told(&mut self, returned: Returned) -> Checked {
        let asked = returned.asked;
        match returned.answered {
            CallAnswer::Command(sent, Ok(committed)) => {
                self.summary.acknowledged += 1;
                self.summary.duplicates += u64::from(committed.duplicate);
                check::reply_agrees_with_the_log(&self.model, &sent, &committed)?;
                check::key_has_one_answer(&mut self.model, &sent, &committed)
            }
            CallAnswer::Command(sent, Err(EngineError::Submit(SubmitError::Refused(refusal)))) => {
                self.summary.refused += 1;
                check::failure_left_no_trace(&self.model, &sent)?;
                check::refusal_is_justified(&self.model, &sent, asked, &refusal)
            }
            CallAnswer::Command(sent, Err(error)) => {
                if was_not_done(&error) {
                    check::failure_left_no_trace(&self.model, &sent)?;
                }
                self.failed(Parcel::Command(sent), error)
            }
            CallAnswer::Bundle(bundle, Ok(ingested)) => {
                self.summary.acknowledged += 1;
                self.summary.duplicates += u64::from(ingested.iter().any(|answer| answer.duplicate));
                envelopes::reply_agrees_with_the_log(&self.model, &bundle, &ingested)?;
                envelopes::told_to_be_new_once(&mut self.model, &ingested)
            }
            CallAnswer::Bundle(bundle, Err(IngestError::Refused { refusal, pointer })) => {
                self.refused(&bundle, asked, &refusal, &pointer)
            }
            // Its sender could not be brought back.
            CallAnswer::Bundle(
                bundle,
                Err(IngestError::Engine(EngineError::Submit(SubmitError::Refused(refusal)))),
            ) => self.refused(&bundle, asked, &refusal, ""),
            CallAnswer::Bundle(
                _,
                Err(error @ (IngestError::Faults(_) | IngestError::Violations(_) | IngestError::RateLimited { .. })),
            ) => Err(Violation { check: "nothing_breaks", what: error.to_string() }),
            CallAnswer::Bundle(bundle, Err(IngestError::Engine(error))) => {
                if was_not_done(&error) {
                    envelopes::failure_left_no_trace(&self.model, &bundle)?;
                }
                self.failed(Parcel::Bundle(bundle), error)
            }
        }
    }

    fn refused(&mut self, bundle: &Bundle, asked: Seq, refusal: &Rejection, pointer: &str) -> Checked {
        self.summary.refused += 1;
        envelopes::failure_left_no_trace(&self.model, bundle)?;
        envelopes::refusal_is_justified(&self.model, bundle, asked, refusal, pointer)
    }

    /// Something went wrong that is not the request's fault.
    fn failed(&mut self, parcel: Parcel, error: EngineError) -> Checked {
        match error {
            EngineError::Submit(SubmitError::Unavailable { .. } | SubmitError::Busy) => {}
            EngineError::Submit(SubmitError::OutcomeUnknown { .. } | SubmitError::Stopped) => self.summary.unknown += 1,
            error => return Err(Violation { check: "nothing_breaks", what: format!("{parcel:?}: {error}") }),
        }
        self.again(parcel);
        Ok(())
    }

    fn fault(&mut self) -> Option<Fault> {
        if self.disk_full.load(Ordering::Relaxed) {
            return Some(Fault::NotWritten);
        }
        if self.resting {
            return None;
        }
        match self.rng.random_range(0..100) {
            0..2 => Some(Fault::NotWritten),
            2..5 => Some(Fault::AnswerLost),
            5..7 => Some(Fault::CommitLost),
            _ => None,
        }
    }

    fn writes(&mut self, node: usize) -> Checked {
        let fault = self.fault();
        let Some(process) = &self.nodes[node].process else { return Ok(()) };
        let turn = Turn { database: &self.database, model: &self.model, fault, sabotage: self.plan.sabotage };
        let written = turn.take(process);
        for operation in written.operations {
            if let Operation::WritePresence(entries) = operation {
                self.written.extend(entries.into_iter().map(|(agent, _)| (agent, self.now)));
            }
        }
        self.takes_in(node)?;
        self.notices_take_overs();
        if !self.resting && self.rng.random_bool(0.1) {
            let due = self.now + self.rng.random_range(0..3_000);
            self.late.push((due, node, written.answers));
            return Ok(());
        }
        for (reply, outcome) in written.answers {
            // Who asked may be gone.
            drop(reply.send(outcome));
        }
        Ok(())
    }

    /// The model learns what a node has just written, row by row.
    fn takes_in(&mut self, node: usize) -> Checked {
        let Some(writer) = self.nodes[node].process.as_ref().map(|process| process.node_id().clone()) else {
            return Ok(());
        };
        let rows = self.database.log_after(self.model.head());
        for (at, row) in rows.iter().enumerate() {
            check::seq_is_gap_free(&self.model, row)?;
            check::request_is_applied_once(&self.model, row)?;
            check::sealed_ids_are_proven(&self.model, row)?;
            check::task_claims_end_by_facts(&self.model, row)?;
            check::file_claims_end_by_facts(&self.model, row)?;
            check::lead_changes_by_facts(&self.model, row)?;
            check::deliveries_only_go_on(&self.model, row)?;
            teams::kickoffs_are_posted_once(&self.model, row)?;
            teams::turns_end_once(&self.model, row)?;
            check::duties_are_done_by_whoever_has_them(row, &writer, &self.database)?;
            envelopes::idempotency_keys_are_used_once(&self.model, row)?;
            routing::hard_filters_hold(&self.model, row)?;
            routing::hard_filters_hold_for_claims(&self.model, row)?;
            routing::decisions_are_passed_on(row, &rows[at + 1..])?;
            deliveries::ends_are_as_endpoints_saw_them(&self.endpoints, row)?;
            if let Some((agent, evidence)) = check::declaration(row) {
                check::expired_after_clear_sight(agent, evidence, &self.sight(node, agent))?;
                self.summary.declared_offline += 1;
            }
            self.summary.kinds.insert(row.event.kind());
            self.model.add(row.clone());
            if check::ends_a_command(rows.get(at + 1)) {
                check::one_holder_per_path(&self.model)?;
                check::lead_is_one_of_the_live(&self.model)?;
                check::holders_are_here(&self.model)?;
                routing::no_request_is_void(&self.model)?;
                check::runs_follow_their_tasks(&self.model)?;
                teams::agents_are_at_one_turn(&self.model, row)?;
                teams::turns_settle_their_own_messages(&self.model, row)?;
            }
        }
        envelopes::calls_are_answered_once(&self.model, &rows)?;
        envelopes::bundles_are_whole(&self.model, &self.bundles, &rows)
    }

    fn notices_take_overs(&mut self) {
        for (duty, post) in self.database.posts() {
            let before = self.holders.insert(duty, post.node.clone());
            self.summary.take_overs += u64::from(before.is_some_and(|before| before != post.node));
        }
    }

    fn sight(&self, node: usize, agent: &AgentId) -> OfflineEvidence {
        let ago = |at: Option<&u64>| at.map(|at| self.now - at);
        let written_millis_ago = ago(self.written.get(agent));
        let others =
            self.nodes.iter().enumerate().filter(|(number, other)| *number != node && other.state == State::Up);
        let taken_elsewhere_millis_ago = others
            .filter_map(|(_, other)| {
                let process = other.process.as_ref()?;
                let unbroken = process.clock.monotonic() - process.clear_since;
                ago(process.taken.get(agent)).filter(|ago| *ago <= unbroken)
            })
            .collect();
        match &self.nodes[node].process {
            Some(process) => OfflineEvidence {
                clear_millis: process.watched_millis,
                taken_millis_ago: ago(process.taken.get(agent)),
                taken_elsewhere_millis_ago,
                written_millis_ago,
            },
            None => OfflineEvidence {
                clear_millis: 0,
                taken_millis_ago: None,
                taken_elsewhere_millis_ago,
                written_millis_ago,
            },
        }
    }
}

fn repeated(parcel: Parcel) -> Parcel {
    match parcel {
        Parcel::Bundle(bundle) => Parcel::Bundle(Bundle { repeated: true, ..bundle }),
        command @ Parcel::Command(_) => command,
    }
}

fn was_not_done(error: &EngineError) -> bool {
    matches!(error, EngineError::Submit(SubmitError::Unavailable { .. } | SubmitError::Busy))
}

impl Agent {
    fn caller(&self) -> Caller {
        let auth = if self.token { Auth::Token } else { Auth::Asserted };
        Caller { auth, ..Caller::asserted(self.id.clone()) }
    }
}

impl Node {
    fn sees_clearly_from_now(&mut self) {
        if let Some(process) = &mut self.process {
            process.clear_since = process.clock.monotonic();
        }
    }
}
