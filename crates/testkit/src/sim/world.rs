//! The world: time, faults, the network between agents and nodes, and the order of everything.

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
use super::check::{self, CheckResult, OfflineEvidence, SentCommand, Violation, deliveries, envelopes, routing, teams};
use super::clock::NodeClock;
use super::endpoints::Endpoints;
use super::model::Model;
use super::node::{CallAnswer, ClientRequest, Expiry, FinishedCall, Process, ProcessOptions};
use super::script::{Script, ScriptedContent, ScriptedRequest};
use super::writer::{UnsentReplies, WriterTurn};
use super::{Plan, Sabotage, Summary};

/// The time of day at the start.
const EPOCH_MILLIS: i64 = 1_700_000_000_000;
const HOUR_MILLIS: i64 = 3_600_000;
/// A pause, or a full disk, of this length restarts the watch time of a process.
const NOTICEABLE_PAUSE_MILLIS: u64 = 5_000;
/// The most steps that open work may take after the faults have stopped.
const SETTLE_STEPS: u32 = 420;
/// The most steps without a leader for some role after the faults have stopped.
const TAKE_OVER_STEPS: u32 = 12;
/// The most batches that a writer commits in one step.
const WRITER_TURNS: u32 = 4;
/// How often a request is sent to a node that does not run.
const SEND_ATTEMPTS: u32 = 8;

pub(super) struct World {
    plan: Plan,
    rng: StdRng,
    step: u32,
    /// The world's time, in milliseconds.
    now: u64,
    database: Database,
    database_clock: Arc<NodeClock>,
    /// The holder of each leader role at the last look.
    leaders: BTreeMap<LeaderRole, NodeId>,
    log_id: LogId,
    histories: u32,
    disk_full: Arc<AtomicBool>,
    disk_full_since: u64,
    disk_full_until: u64,
    model: Model,
    nodes: Vec<SimNode>,
    agents: Vec<SimAgent>,
    in_flight: Vec<InFlightRequest>,
    endpoints: Endpoints,
    /// The bundle of each envelope.
    bundles: BTreeMap<MessageId, Bundle>,
    backup: Option<(Database, Model)>,
    /// The last positions of logs that a restored backup replaced.
    abandoned: Vec<Position>,
    /// The state to which a power cut falls back under sabotage.
    older: Database,
    /// When the presence of each agent was last written, in the world's time.
    presence_written: BTreeMap<AgentId, u64>,
    /// Replies that reach their callers later: when, by which node.
    late: Vec<(u64, usize, UnsentReplies)>,
    /// The number of the newest scripted request.
    serial: u64,
    summary: Summary,
    /// Whether the faults have stopped.
    is_settling: bool,
}

struct SimNode {
    clock: Arc<NodeClock>,
    state: NodeState,
    process: Option<Process>,
    starts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NodeState {
    Up,
    Down {
        until: u64,
    },
    /// Not scheduled, while its clocks advance.
    Stopped {
        until: u64,
        since: u64,
    },
    /// On a sleeping machine, where only the time of day advances.
    Asleep {
        until: u64,
        since: u64,
    },
}

struct SimAgent {
    id: AgentId,
    source: LifeSource,
    /// Whether the agent proves its id by a token.
    has_token: bool,
    /// Whether the agent shows signs of life until the end.
    is_steady: bool,
    dies_at: u64,
    beats_at: u64,
}

/// A request on its way to a node.
struct InFlightRequest {
    due: u64,
    node: usize,
    request: ClientRequest,
    attempt: u32,
}

impl World {
    pub(super) fn new(plan: Plan) -> World {
        let mut rng = StdRng::seed_from_u64(plan.seed);
        let log_id = LogId::from("log_0");
        let database = Database::new(log_id.clone());
        let nodes = (0..rng.random_range(1..=4))
            .map(|_| {
                let skew = if rng.random_bool(0.5) {
                    rng.random_range(-HOUR_MILLIS..HOUR_MILLIS)
                } else {
                    rng.random_range(-50..50)
                };
                let clock = Arc::new(NodeClock::new(EPOCH_MILLIS + skew));
                SimNode { clock, state: NodeState::Down { until: 0 }, process: None, starts: 0 }
            })
            .collect();
        let sources = [LifeSource::Heartbeat, LifeSource::Heartbeat, LifeSource::Connection, LifeSource::Process];
        let agents = (0..rng.random_range(2..=6))
            .map(|number: usize| {
                let steady = rng.random_bool(0.4);
                let silent = rng.random_bool(0.3);
                SimAgent {
                    id: AgentId::new(format!("agent-{number}")),
                    source: match (steady, silent) {
                        (true, _) => LifeSource::Heartbeat,
                        (false, true) => LifeSource::Call,
                        (false, false) => sources[rng.random_range(0..sources.len())],
                    },
                    has_token: rng.random_bool(0.3),
                    is_steady: steady,
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
            database_clock: Arc::new(NodeClock::new(EPOCH_MILLIS)),
            leaders: BTreeMap::new(),
            log_id,
            histories: 0,
            disk_full: Arc::new(AtomicBool::new(false)),
            disk_full_since: 0,
            disk_full_until: 0,
            model: Model::default(),
            nodes,
            agents,
            in_flight: vec![],
            endpoints: Endpoints::default(),
            bundles: BTreeMap::new(),
            backup: None,
            abandoned: vec![],
            presence_written: BTreeMap::new(),
            late: vec![],
            serial: 0,
            summary: Summary::default(),
            is_settling: false,
        }
    }

    pub(super) fn step(&self) -> u32 {
        self.step
    }

    pub(super) fn run(&mut self) -> Result<Summary, Violation> {
        for _ in 0..self.plan.steps {
            let passed = self.rng.random_range(20..1_500);
            self.advance_time(passed);
            self.inject_faults()?;
            self.disturb_endpoints();
            self.send_scripted_requests()?;
            self.advance_all()?;
        }
        self.settle()?;
        self.finish()
    }

    /// Stops the faults and silences all agents but the steady ones, and waits until all open work is done.
    fn settle(&mut self) -> CheckResult {
        self.is_settling = true;
        self.disk_full_until = 0;
        for node in 0..self.nodes.len() {
            self.wake(node);
        }
        let mut result = Ok(());
        for step in 0..SETTLE_STEPS {
            self.advance_time(1_000);
            self.advance_all()?;
            if step == TAKE_OVER_STEPS {
                self.every_leader_role_is_held()?;
            }
            if step % 20 == 19 {
                result = self.check_settled();
                if result.is_ok() {
                    break;
                }
            }
        }
        result
    }

    fn every_leader_role_is_held(&self) -> CheckResult {
        let alive: Vec<&NodeId> =
            self.nodes.iter().filter_map(|node| node.process.as_ref()).map(Process::node_id).collect();
        check::every_leader_role_is_held(&self.database, self.database_clock.now(), &alive)
    }

    /// Checks that no work is open.
    fn check_settled(&self) -> CheckResult {
        let earliest = self.nodes.iter().map(|node| node.clock.now().0).min().unwrap_or_default();
        check::nothing_is_left_open(&self.model, Timestamp(earliest))?;
        let steady = self.agents.iter().filter(|agent| agent.is_steady && self.is_known(&agent.id));
        let steady: Vec<AgentId> = steady.map(|agent| agent.id.clone()).collect();
        check::silent_agents_are_offline(&self.model, &steady)?;
        deliveries::no_message_is_lost(&self.model, &steady)?;
        routing::routable_tasks_are_routed(&self.model)?;
        routing::reserved_tasks_are_forwarded(&self.model)?;
        let busy = |node: &SimNode| node.process.as_ref().is_some_and(Process::is_busy);
        if self.nodes.iter().any(busy) || !self.in_flight.is_empty() {
            return Err(Violation { check: "everything_is_answered", details: "requests are in progress".to_owned() });
        }
        Ok(())
    }

    /// Runs the final checks and returns the summary.
    fn finish(&mut self) -> Result<Summary, Violation> {
        (0..self.nodes.len()).try_for_each(|node| self.read_stream(node))?;
        self.check_database()?;
        self.every_leader_role_is_held()?;
        let head = self.model.head();
        for node in &self.nodes {
            if let Some(process) = node.process.as_ref().filter(|process| process.cursor != head) {
                let details = format!("{} of {head} rows seen", process.cursor);
                return Err(Violation { check: "stream_is_complete", details });
            }
        }
        for process in self.nodes.iter().filter_map(|node| node.process.as_ref()).take(1) {
            envelopes::envelopes_are_shown_as_sent(&self.model, |message| process.read_envelope(message))?;
        }
        let mut hasher = DefaultHasher::new();
        for row in self.model.log() {
            (row.seq.0, row.at.0, row.actor.to_string(), row.event.encode()).hash(&mut hasher);
        }
        self.summary.events = self.model.head().0;
        self.summary.digest = hasher.finish();
        Ok(std::mem::take(&mut self.summary))
    }

    /// Checks, at crashes and in the end, that exactly the committed state is stored.
    fn check_database(&self) -> CheckResult {
        check::events_never_change(&self.model, &self.database)?;
        check::rows_are_the_fold_of_the_log(&self.database)?;
        let head = LogHead { log: self.log_id.clone(), floor: Seq(1), head: self.database.head() };
        self.abandoned.iter().try_for_each(|position| check::abandoned_position_is_refused(position, &head))?;
        check::holdings_are_counted(&self.model)
    }

    /// Advances all clocks, and wakes the nodes whose time has come.
    fn advance_time(&mut self, millis: u64) {
        self.step += 1;
        self.now += millis;
        self.database_clock.advance(millis);
        for node in &self.nodes {
            match node.state {
                NodeState::Asleep { .. } => node.clock.jump(i64::try_from(millis).unwrap_or(i64::MAX)),
                NodeState::Up | NodeState::Stopped { .. } | NodeState::Down { .. } => node.clock.advance(millis),
            }
        }
        for node in 0..self.nodes.len() {
            let is_due = match self.nodes[node].state {
                NodeState::Up => false,
                NodeState::Down { until } | NodeState::Stopped { until, .. } | NodeState::Asleep { until, .. } => {
                    until <= self.now
                }
            };
            if is_due {
                self.wake(node);
            }
        }
        let full = self.now < self.disk_full_until;
        match (self.disk_full.swap(full, Ordering::Relaxed), full) {
            (false, true) => self.disk_full_since = self.now,
            (true, false) if self.now - self.disk_full_since > NOTICEABLE_PAUSE_MILLIS => {
                self.nodes.iter_mut().for_each(SimNode::restart_watch);
            }
            _ => {}
        }
    }

    fn wake(&mut self, node: usize) {
        let state = std::mem::replace(&mut self.nodes[node].state, NodeState::Up);
        match state {
            NodeState::Up => {}
            NodeState::Down { .. } => self.start_process(node),
            NodeState::Stopped { since, .. } | NodeState::Asleep { since, .. } => {
                if self.now - since > NOTICEABLE_PAUSE_MILLIS {
                    self.nodes[node].restart_watch();
                }
            }
        }
    }

    fn start_process(&mut self, number: usize) {
        let expiry = match self.plan.sabotage {
            Some(Sabotage::ExpireAtStart) => Expiry::ByTimeOfDay,
            _ => Expiry::ByWatchTime,
        };
        let batch_commands = self.rng.random_range(1..=6);
        let node = &mut self.nodes[number];
        node.starts += 1;
        node.process = Some(Process::start(ProcessOptions {
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

    /// Injects at most one random fault.
    fn inject_faults(&mut self) -> CheckResult {
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
            14..24 if self.nodes[node].state == NodeState::Up => {
                let until = soon(&mut self.rng, self.now, 120_000);
                self.nodes[node].state = NodeState::Stopped { until, since: self.now };
            }
            24..32 if self.nodes[node].state == NodeState::Up => {
                let until = soon(&mut self.rng, self.now, 120_000);
                self.nodes[node].state = NodeState::Asleep { until, since: self.now };
            }
            32..36 => self.suspend_machine(),
            36..46 => {
                let jump = self.rng.random_range(-2 * HOUR_MILLIS..2 * HOUR_MILLIS);
                self.nodes[node].clock.jump(jump);
            }
            46..51 => self.disk_full_until = soon(&mut self.rng, self.now, 90_000),
            51..61 => self.backup = Some((self.database.copy(LogId::from("backup")), self.model.clone())),
            61..64 => self.restore()?,
            64..84 => self.older = self.database.copy(self.log_id.clone()),
            _ => {}
        }
        Ok(())
    }

    fn kill(&mut self, node: usize, until: u64) -> CheckResult {
        self.nodes[node].state = NodeState::Down { until };
        self.late.retain(|(_, of, _)| *of != node);
        let Some(process) = self.nodes[node].process.take() else { return Ok(()) };
        self.summary.kills += 1;
        if self.rng.random_bool(0.3) {
            process.leave_cluster();
        }
        for request in process.into_unanswered() {
            self.summary.unknown += 1;
            self.retry(request);
        }
        self.check_database()
    }

    fn power_cut(&mut self, until: u64) -> CheckResult {
        if self.plan.sabotage == Some(Sabotage::LoseCommits) {
            self.database = self.older.copy(self.log_id.clone());
        }
        (0..self.nodes.len()).try_for_each(|node| self.kill(node, until))
    }

    /// Suspends a machine with all nodes and agents for a night.
    fn suspend_machine(&mut self) {
        let night = 8 * HOUR_MILLIS;
        self.now += night.unsigned_abs();
        self.database_clock.jump(night);
        for agent in &mut self.agents {
            agent.beats_at = agent.beats_at.saturating_add_signed(night);
            agent.dies_at = agent.dies_at.saturating_add_signed(night);
        }
        for node in &mut self.nodes {
            node.clock.jump(night);
            match &mut node.state {
                NodeState::Up => node.restart_watch(),
                NodeState::Down { until } | NodeState::Stopped { until, .. } | NodeState::Asleep { until, .. } => {
                    *until = until.saturating_add_signed(night);
                }
            }
        }
        self.in_flight.iter_mut().for_each(|post| post.due = post.due.saturating_add_signed(night));
        self.late.iter_mut().for_each(|(due, ..)| *due = due.saturating_add_signed(night));
        self.endpoints.postpone(night.unsigned_abs());
    }

    /// Restores the backup. Later events are gone, and positions after the backup must be rejected.
    fn restore(&mut self) -> CheckResult {
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
        self.in_flight.clear();
        self.endpoints.clear();
        self.presence_written.clear();
        self.summary.restores += 1;
        self.abandoned.push(abandoned);
        self.check_database()
    }

    /// Whether an agent is registered.
    fn is_known(&self, agent: &AgentId) -> bool {
        matches!(self.model.row(&Key::Agent(agent.clone())), Some(Row::Agent(_)))
    }

    /// Chooses a running node, if there is one.
    fn reachable_node(&mut self) -> Option<usize> {
        let mut up: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.nodes[*node].state == NodeState::Up).collect();
        up.shuffle(&mut self.rng);
        up.first().copied()
    }

    /// Lets agents and people send requests.
    fn send_scripted_requests(&mut self) -> CheckResult {
        let ids: Vec<AgentId> = self.agents.iter().map(|agent| agent.id.clone()).collect();
        for number in 0..self.agents.len() {
            let (id, dead) = (ids[number].clone(), self.agents[number].dies_at <= self.now);
            if dead || !self.rng.random_bool(0.35) {
                continue;
            }
            self.serial += 1;
            let caller = self.agents[number].caller();
            let (known, serial) = (self.is_known(&id), self.serial);
            // Sometimes a caller uses the id of another agent.
            let caller = if known && self.rng.random_bool(0.03) { Caller::asserted(id.clone()) } else { caller };
            let mut script = Script { rng: &mut self.rng, model: &self.model, agents: &ids, serial };
            let scripted = if known { script.agent_request(caller, &id) } else { script.first_request(caller, &id) };
            self.send(scripted);
            if known && self.rng.random_bool(0.05) {
                self.open_inbox(number)?;
            }
        }
        if self.rng.random_bool(0.3) {
            self.serial += 1;
            let serial = self.serial;
            let scripted = Script { rng: &mut self.rng, model: &self.model, agents: &ids, serial }.other_request();
            self.send(scripted);
        }
        Ok(())
    }

    /// Sends a request through the network, which may be slow, and may duplicate a request that has a key or an id.
    fn send(&mut self, scripted: ScriptedRequest) {
        let ScriptedRequest { caller, content } = scripted;
        let request = match content {
            ScriptedContent::Command(command) => {
                let keyed = self.rng.random_bool(0.4);
                let id = format!("{}-{}", if keyed { "key" } else { "request" }, self.serial);
                ClientRequest::Command(SentCommand { id, caller, command, keyed, since: self.model.head() })
            }
            ScriptedContent::Envelopes(envelopes) => ClientRequest::Bundle(self.make_bundle(caller, &envelopes)),
        };
        match request {
            ClientRequest::Command(SentCommand { keyed: false, .. }) => self.enqueue(request, 0),
            request if self.rng.random_bool(0.15) => {
                let request = mark_repeated(request);
                self.enqueue(request.clone(), 0);
                self.enqueue(request, 0);
            }
            request => self.enqueue(request, 0),
        }
    }

    fn make_bundle(&mut self, caller: Caller, envelopes: &[serde_json::Value]) -> Bundle {
        let bundle = Bundle::new(caller, envelopes, self.rng.random_bool(0.5), self.model.head());
        for item in bundle.items.iter() {
            if self.model.row(&Key::Envelope(item.id.clone())).is_none() {
                self.bundles.insert(item.id.clone(), bundle.clone());
            }
        }
        bundle
    }

    /// Puts a request on its way to a random node.
    fn enqueue(&mut self, request: ClientRequest, attempt: u32) {
        let delay = if self.rng.random_bool(0.2) { self.rng.random_range(0..6_000) } else { 0 };
        let wait = if attempt == 0 { 0 } else { self.rng.random_range(500..5_000) };
        let node = self.rng.random_range(0..self.nodes.len());
        self.in_flight.push(InFlightRequest { due: self.now + delay + wait, node, request, attempt });
    }

    /// Retries a request with an unknown outcome, if it has a key or consists of envelopes.
    fn retry(&mut self, request: ClientRequest) {
        if !matches!(request, ClientRequest::Command(SentCommand { keyed: false, .. })) {
            self.enqueue(mark_repeated(request), 1);
        }
    }

    /// Delivers the requests that are due to their nodes.
    fn deliver_requests(&mut self) {
        let (due, rest): (Vec<InFlightRequest>, Vec<InFlightRequest>) =
            std::mem::take(&mut self.in_flight).into_iter().partition(|post| post.due <= self.now);
        self.in_flight = rest;
        for post in due {
            let node = &mut self.nodes[post.node];
            match (&node.state, &mut node.process) {
                (NodeState::Up | NodeState::Stopped { .. } | NodeState::Asleep { .. }, Some(process)) => {
                    let caller = post.request.caller().clone();
                    process.receive(post.request, self.model.head());
                    self.note_sign_of_life(post.node, &caller);
                }
                _ if post.attempt < SEND_ATTEMPTS || self.is_settling => self.enqueue(post.request, post.attempt + 1),
                _ => {}
            }
        }
    }

    /// Notes that a node heard from an agent, whatever the outcome of the call. The node must be awake and must have read
    /// of the agent in the log.
    fn note_sign_of_life(&mut self, node: usize, caller: &Caller) {
        let Some(agent) = caller.actor.agent() else { return };
        let node = &mut self.nodes[node];
        let (NodeState::Up, Some(process)) = (node.state, &mut node.process) else { return };
        if let Some(Row::Agent(row)) = self.model.row_at(&Key::Agent(agent.clone()), process.cursor)
            && row.is_online()
            && !(row.has_credential && caller.auth == Auth::Asserted)
        {
            process.heard_from.insert(agent.clone(), self.now);
        }
    }

    /// Lets agents send signs of life.
    fn send_heartbeats(&mut self) {
        for number in 0..self.agents.len() {
            let agent = &self.agents[number];
            let silent = agent.dies_at <= self.now || (self.is_settling && !agent.is_steady);
            if silent || agent.source == LifeSource::Call || agent.beats_at > self.now || !self.is_known(&agent.id) {
                continue;
            }
            let (id, source) = (agent.id.clone(), agent.source);
            let Some(node) = self.reachable_node() else { continue };
            self.agents[number].beats_at = self.now + self.rng.random_range(5_000..20_000);
            let head = self.model.head();
            let caller = self.agents[number].caller();
            self.note_sign_of_life(node, &caller);
            let Some(process) = &mut self.nodes[node].process else { continue };
            match source {
                LifeSource::Heartbeat => process.receive_heartbeat(&id, caller, head),
                source => process.record_presence(&id, source),
            }
        }
    }

    /// Advances the endpoints, the network and all nodes, in random order.
    fn advance_all(&mut self) -> CheckResult {
        self.advance_endpoints()?;
        self.deliver_requests();
        self.send_heartbeats();
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.shuffle(&mut self.rng);
        for node in order {
            if self.nodes[node].state == NodeState::Up {
                self.advance_node(node)?;
            }
        }
        Ok(())
    }

    fn advance_node(&mut self, node: usize) -> CheckResult {
        self.send_late_replies(node);
        self.advance_process(node)?;
        if self.maybe_freeze(node) {
            return Ok(());
        }
        for _ in 0..self.rng.random_range(1..=WRITER_TURNS) {
            self.run_writer(node)?;
            self.advance_process(node)?;
        }
        self.read_stream(node)
    }

    /// Sometimes freezes a process between a request to its writer and the commit, more often during work of a leader role.
    fn maybe_freeze(&mut self, node: usize) -> bool {
        let has_leader_work = self.nodes[node].process.as_ref().is_some_and(Process::has_leader_work);
        if self.is_settling || !self.rng.random_bool(if has_leader_work { 0.1 } else { 0.002 }) {
            return false;
        }
        let until = self.now + self.rng.random_range(500..60_000);
        self.nodes[node].state = NodeState::Stopped { until, since: self.now };
        true
    }

    /// Lets a node's subscriber read the log, and compares it with the model.
    fn read_stream(&mut self, node: usize) -> CheckResult {
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        let model = &self.model;
        process.read_stream(|row| {
            let known = model.log().get((row.seq.0 - 1) as usize);
            if known.is_some_and(|known| known.event.kind() == row.event.kind() && known.at == row.at) {
                return Ok(());
            }
            let details = format!("{} is {} here and {known:?} in the log", row.seq, row.event.kind());
            Err(Violation { check: "stream_is_the_log", details })
        })
    }

    fn send_late_replies(&mut self, node: usize) {
        let now = self.now;
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|(due, of, _)| *of == node && *due <= now);
        self.late = rest;
        for (reply, outcome) in due.into_iter().flat_map(|(.., answers)| answers) {
            drop(reply.send(outcome));
        }
    }

    fn advance_process(&mut self, node: usize) -> CheckResult {
        let finished = self.nodes[node].process.as_mut().map(Process::advance).unwrap_or_default();
        self.collect_posts()?;
        finished.into_iter().try_for_each(|call| self.check_answer(call))
    }

    /// Checks the answer to a request, and retries the request if its outcome is unknown.
    fn check_answer(&mut self, call: FinishedCall) -> CheckResult {
        let asked = call.asked;
        match call.answer {
            CallAnswer::Command(sent, Ok(committed)) => {
                self.summary.acknowledged += 1;
                self.summary.duplicates += u64::from(committed.duplicate);
                check::reply_agrees_with_the_log(&self.model, &sent, &committed)?;
                check::key_has_one_answer(&mut self.model, &sent, &committed)
            }
            CallAnswer::Command(sent, Err(EngineError::Submit(SubmitError::Refused(refusal)))) => {
                self.summary.rejected += 1;
                check::failure_left_no_trace(&self.model, &sent)?;
                check::rejection_is_justified(&self.model, &sent, asked, &refusal)
            }
            CallAnswer::Command(sent, Err(error)) => {
                if proves_no_commit(&error) {
                    check::failure_left_no_trace(&self.model, &sent)?;
                }
                self.handle_failure(ClientRequest::Command(sent), error)
            }
            CallAnswer::Bundle(bundle, Ok(ingested)) => {
                self.summary.acknowledged += 1;
                self.summary.duplicates += u64::from(ingested.iter().any(|answer| answer.duplicate));
                envelopes::reply_agrees_with_the_log(&self.model, &bundle, &ingested)?;
                envelopes::envelope_is_new_once(&mut self.model, &ingested)
            }
            CallAnswer::Bundle(bundle, Err(IngestError::Refused { refusal, pointer })) => {
                self.check_rejection(&bundle, asked, &refusal, &pointer)
            }
            // The sender could not return.
            CallAnswer::Bundle(
                bundle,
                Err(IngestError::Engine(EngineError::Submit(SubmitError::Refused(refusal)))),
            ) => self.check_rejection(&bundle, asked, &refusal, ""),
            CallAnswer::Bundle(
                _,
                Err(error @ (IngestError::Faults(_) | IngestError::Violations(_) | IngestError::RateLimited { .. })),
            ) => Err(Violation { check: "no_unexpected_errors", details: error.to_string() }),
            CallAnswer::Bundle(bundle, Err(IngestError::Engine(error))) => {
                if proves_no_commit(&error) {
                    envelopes::failure_left_no_trace(&self.model, &bundle)?;
                }
                self.handle_failure(ClientRequest::Bundle(bundle), error)
            }
        }
    }

    fn check_rejection(&mut self, bundle: &Bundle, asked: Seq, refusal: &Rejection, pointer: &str) -> CheckResult {
        self.summary.rejected += 1;
        envelopes::failure_left_no_trace(&self.model, bundle)?;
        envelopes::rejection_is_justified(&self.model, bundle, asked, refusal, pointer)
    }

    /// Retries a request after a failure that it did not cause.
    fn handle_failure(&mut self, request: ClientRequest, error: EngineError) -> CheckResult {
        match error {
            EngineError::Submit(SubmitError::Unavailable { .. } | SubmitError::Busy) => {}
            EngineError::Submit(SubmitError::OutcomeUnknown { .. } | SubmitError::Stopped) => self.summary.unknown += 1,
            error => return Err(Violation { check: "no_unexpected_errors", details: format!("{request:?}: {error}") }),
        }
        self.retry(request);
        Ok(())
    }

    /// Chooses the fault of the next commit.
    fn commit_fault(&mut self) -> Option<Fault> {
        if self.disk_full.load(Ordering::Relaxed) {
            return Some(Fault::NotWritten);
        }
        if self.is_settling {
            return None;
        }
        match self.rng.random_range(0..100) {
            0..2 => Some(Fault::NotWritten),
            2..5 => Some(Fault::AnswerLost),
            5..7 => Some(Fault::CommitLost),
            _ => None,
        }
    }

    /// Gives a node's writer a turn, and checks the new rows.
    fn run_writer(&mut self, node: usize) -> CheckResult {
        let fault = self.commit_fault();
        let Some(process) = &self.nodes[node].process else { return Ok(()) };
        let turn = WriterTurn { database: &self.database, model: &self.model, fault, sabotage: self.plan.sabotage };
        let output = turn.run(process);
        for operation in output.operations {
            if let Operation::WritePresence(entries) = operation {
                self.presence_written.extend(entries.into_iter().map(|(agent, _)| (agent, self.now)));
            }
        }
        self.check_new_rows(node)?;
        self.count_take_overs();
        if !self.is_settling && self.rng.random_bool(0.1) {
            let due = self.now + self.rng.random_range(0..3_000);
            self.late.push((due, node, output.replies));
            return Ok(());
        }
        for (reply, outcome) in output.replies {
            // The caller may be gone.
            drop(reply.send(outcome));
        }
        Ok(())
    }

    /// Checks the rows that a node has just written, and adds them to the model.
    fn check_new_rows(&mut self, node: usize) -> CheckResult {
        let Some(writer) = self.nodes[node].process.as_ref().map(|process| process.node_id().clone()) else {
            return Ok(());
        };
        let rows = self.database.log_after(self.model.head());
        for (at, row) in rows.iter().enumerate() {
            check::seq_is_gap_free(&self.model, row)?;
            check::request_is_applied_once(&self.model, row)?;
            check::ids_with_credentials_are_proven(&self.model, row)?;
            check::task_claims_change_by_events(&self.model, row)?;
            check::file_claims_change_by_events(&self.model, row)?;
            check::lead_changes_by_events(&self.model, row)?;
            check::deliveries_only_advance(&self.model, row)?;
            teams::kickoffs_are_posted_once(&self.model, row)?;
            teams::turns_end_once(&self.model, row)?;
            check::leader_work_is_done_by_the_leader(row, &writer, &self.database)?;
            envelopes::idempotency_keys_are_used_once(&self.model, row)?;
            routing::hard_filters_hold(&self.model, row)?;
            routing::hard_filters_hold_for_claims(&self.model, row)?;
            routing::decisions_are_forwarded(row, &rows[at + 1..])?;
            deliveries::endings_match_the_endpoints(&self.endpoints, row)?;
            if let Some((agent, evidence)) = check::offline_declaration(row) {
                check::expiry_needs_full_watch(agent, evidence, &self.offline_evidence(node, agent))?;
                self.summary.declared_offline += 1;
            }
            self.summary.kinds.insert(row.event.kind());
            self.model.add(row.clone());
            if check::ends_a_command(rows.get(at + 1)) {
                check::one_holder_per_path(&self.model)?;
                check::lead_is_online(&self.model)?;
                check::holders_are_online(&self.model)?;
                routing::open_requests_have_reservations(&self.model)?;
                check::runs_follow_their_tasks(&self.model)?;
                teams::agents_have_one_turn(&self.model, row)?;
                teams::turns_settle_their_own_messages(&self.model, row)?;
            }
        }
        envelopes::calls_are_answered_once(&self.model, &rows)?;
        envelopes::bundles_are_whole(&self.model, &self.bundles, &rows)
    }

    fn count_take_overs(&mut self) {
        for (role, post) in self.database.posts() {
            let before = self.leaders.insert(role, post.node.clone());
            self.summary.take_overs += u64::from(before.is_some_and(|before| before != post.node));
        }
    }

    /// Collects the world's evidence about an agent that a node declared offline.
    fn offline_evidence(&self, node: usize, agent: &AgentId) -> OfflineEvidence {
        let ago = |at: Option<&u64>| at.map(|at| self.now - at);
        let written_millis_ago = ago(self.presence_written.get(agent));
        let others =
            self.nodes.iter().enumerate().filter(|(number, other)| *number != node && other.state == NodeState::Up);
        let heard_elsewhere_millis_ago = others
            .filter_map(|(_, other)| {
                let process = other.process.as_ref()?;
                let watching = process.clock.monotonic() - process.watching_since;
                ago(process.heard_from.get(agent)).filter(|ago| *ago <= watching)
            })
            .collect();
        match &self.nodes[node].process {
            Some(process) => OfflineEvidence {
                watched_millis: process.watched_millis,
                heard_millis_ago: ago(process.heard_from.get(agent)),
                heard_elsewhere_millis_ago,
                written_millis_ago,
            },
            None => OfflineEvidence {
                watched_millis: 0,
                heard_millis_ago: None,
                heard_elsewhere_millis_ago,
                written_millis_ago,
            },
        }
    }
}

/// Marks a bundle as sent more than once.
fn mark_repeated(request: ClientRequest) -> ClientRequest {
    match request {
        ClientRequest::Bundle(bundle) => ClientRequest::Bundle(Bundle { repeated: true, ..bundle }),
        command @ ClientRequest::Command(_) => command,
    }
}

/// Whether an error proves that nothing was committed.
fn proves_no_commit(error: &EngineError) -> bool {
    matches!(error, EngineError::Submit(SubmitError::Unavailable { .. } | SubmitError::Busy))
}

impl SimAgent {
    fn caller(&self) -> Caller {
        let auth = if self.has_token { Auth::Token } else { Auth::Asserted };
        Caller { auth, ..Caller::asserted(self.id.clone()) }
    }
}

impl SimNode {
    /// Restarts the watch time after a pause.
    fn restart_watch(&mut self) {
        if let Some(process) = &mut self.process {
            process.watching_since = process.clock.monotonic();
        }
    }
}
