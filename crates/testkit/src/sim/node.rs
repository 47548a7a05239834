//! A node: a real engine with its subscribers over a shared database. The world polls it in place of an async runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use rookery_core::agents::DeclareOffline;
use rookery_core::model::LifeSource;
use rookery_core::model::agent::Evidence;
use rookery_core::model::intent::Effect;
use rookery_core::teams::TeamStartOutcome;
use rookery_core::traits::LogRow;
use rookery_core::workspaces::{BranchFate, BranchOrigin, Outcome};
use rookery_core::{AgentId, AnyCommand, Auth, Caller, Code, MessageId, NodeId, Seq, SiteId};
use rookery_engine::courier::{Courier, Delivered};
use rookery_engine::credentials::Trust;
use rookery_engine::durations::RETRY_DELAY;
use rookery_engine::endpoints::DeliveryPolicy;
use rookery_engine::history::Envelope;
use rookery_engine::intake::{IngestError, Ingested};
use rookery_engine::liveness::Sweeping;
use rookery_engine::messages::Pull;
use rookery_engine::ports::effect_executor::{EffectExecutor, Performed};
use rookery_engine::roster_follower::RosterFollower;
use rookery_engine::router::Routing;
use rookery_engine::settings::Settings;
use rookery_engine::submit::IdempotencyKey;
use rookery_engine::supervisor::{REPLY_CLEANUP_INTERVAL, TIMER_POLL_INTERVAL};
use rookery_engine::{
    Access, Config, Engine, EngineError, Ids, Parts, Request, cluster, effects, liveness, roster_follower, timers,
    upkeep,
};
use rookery_store::memory::{Database, MemoryStore};
use rookery_store::node::{LEASE_RENEWAL_INTERVAL, LeaderEpoch, LeaderRole, Node, Site};
use rookery_store::queue::{Limits, Queue};
use rookery_store::{Clock, Committed, Pending, PresenceBoard, Submission};

use super::bundle::Bundle;
use super::check::{CheckResult, SentCommand, stream_is_in_order};
use super::clock::NodeClock;
use super::network::Network;
use super::script::GUARD;
use super::store::NodeStore;

type Future<T> = Pin<Box<dyn std::future::Future<Output = T>>>;

/// How often the router and the courier look for new events.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Polls a future once.
fn poll<T>(future: &mut Future<T>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A process: all state that is lost when it is killed.
pub(super) struct Process {
    pub(super) engine: Engine,
    pub(super) queue: Arc<Queue>,
    pub(super) board: Arc<PresenceBoard>,
    pub(super) clock: Arc<NodeClock>,
    rounds: Vec<Round>,
    follower: Option<RosterFollower>,
    /// The position of this process's subscriber.
    pub(super) cursor: Seq,
    calls: Vec<Call>,
    /// The monotonic time since which the process watches without a break.
    pub(super) watching_since: u64,
    /// The epoch of the sweeper role, and the monotonic time since which the process has it.
    sweeper_epoch: Option<(LeaderEpoch, u64)>,
    /// How long the process had watched without a break as the sweeper, at its last round.
    pub(super) watched_millis: u64,
    /// When the process received the newest sign of life of each agent, in the world's time.
    pub(super) heard_from: BTreeMap<AgentId, u64>,
}

/// Periodic work of the process, with at most one run at a time.
struct Round {
    name: RoundName,
    interval_millis: u64,
    due: u64,
    begin: Box<dyn Fn() -> Future<()>>,
    running: Option<Future<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RoundName {
    Sweep,
    Timers,
    Effects,
    Routing,
    Other,
}

/// A request to a process.
#[derive(Clone, Debug)]
pub(super) enum ClientRequest {
    Command(SentCommand),
    Bundle(Bundle),
}

impl ClientRequest {
    pub(super) fn caller(&self) -> &Caller {
        match self {
            ClientRequest::Command(sent) => &sent.caller,
            ClientRequest::Bundle(bundle) => &bundle.caller,
        }
    }
}

/// A request in progress.
struct Call {
    /// The head of the log when the request arrived.
    asked: Seq,
    kind: CallKind,
}

enum CallKind {
    Command(SentCommand, Future<Result<Committed, EngineError>>),
    Bundle(Bundle, Future<Result<Vec<Ingested>, IngestError>>),
    Heartbeat(Future<Result<(), EngineError>>),
}

impl CallKind {
    /// Polls the call. Returns its answer once it is done; heartbeats have none, since their sender ignores it.
    fn poll(&mut self) -> Option<Option<CallAnswer>> {
        match self {
            CallKind::Command(sent, future) => {
                poll(future).map(|result| Some(CallAnswer::Command(sent.clone(), result)))
            }
            CallKind::Bundle(bundle, future) => {
                poll(future).map(|result| Some(CallAnswer::Bundle(bundle.clone(), result)))
            }
            CallKind::Heartbeat(future) => poll(future).map(|_| None),
        }
    }
}

/// A finished request with its answer.
#[derive(Debug)]
pub(super) struct FinishedCall {
    /// The head of the log when the request arrived.
    pub(super) asked: Seq,
    pub(super) answer: CallAnswer,
}

#[derive(Debug)]
pub(super) enum CallAnswer {
    Command(SentCommand, Result<Committed, EngineError>),
    Bundle(Bundle, Result<Vec<Ingested>, IngestError>),
}

/// How the sweeper measures silence: correctly, or by the time of day as a sabotage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expiry {
    ByWatchTime,
    ByTimeOfDay,
}

/// The options of a process.
pub(super) struct ProcessOptions<'a> {
    pub(super) name: String,
    /// The number of the process's machine.
    pub(super) machine: usize,
    pub(super) database: &'a Database,
    pub(super) database_clock: Arc<NodeClock>,
    pub(super) clock: Arc<NodeClock>,
    pub(super) disk_full: Arc<AtomicBool>,
    pub(super) batch_commands: usize,
    pub(super) expiry: Expiry,
    /// The network to the endpoints of agents.
    pub(super) network: Network,
}

/// Mints unique, repeatable ids.
#[derive(Debug)]
struct CountedIds {
    name: String,
    count: AtomicU64,
}

impl Ids for CountedIds {
    fn mint(&self, prefix: &str) -> String {
        format!("{prefix}{}{}", self.name, self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// Pretends to carry out effects. Most succeed; the outcome depends only on the effect.
struct FakeExecutor;

impl EffectExecutor for FakeExecutor {
    fn perform(&self, effect: Effect, _decided: Seq) -> Pending<'_, Performed> {
        let outcome = match effect {
            Effect::EraseArtifact { .. } => Performed::Done,
            Effect::LaunchTeam { launch, .. } if launch.file == "bad.yaml" => {
                Performed::TeamStarted(TeamStartOutcome::Failed { reason: "refused".to_owned() })
            }
            Effect::LaunchTeam { .. } => Performed::TeamStarted(TeamStartOutcome::Running),
            Effect::MakeWorktree { workspace } | Effect::MergeWorktree { workspace, .. }
                if workspace.as_str().ends_with(['3', '7']) =>
            {
                Performed::Settled(workspace, Outcome::Failed { code: Code::GitFailed, reason: "refused".to_owned() })
            }
            Effect::MakeWorktree { workspace } => {
                let made = Outcome::Made { base_branch: "main".to_owned(), branch: BranchOrigin::Created };
                Performed::Settled(workspace, made)
            }
            Effect::MergeWorktree { workspace, .. } => {
                Performed::Settled(workspace, Outcome::Merged { merge_commit: "abc".to_owned() })
            }
            Effect::RemoveWorktree { workspace } => {
                Performed::Settled(workspace, Outcome::Removed { backup_ref: None, branch: BranchFate::Kept })
            }
        };
        Box::pin(std::future::ready(outcome))
    }
}

/// Settings with shorter times than the defaults, where those would only make the simulation longer.
fn config() -> Config {
    let settings = Settings {
        call_only_offline_after: Duration::from_secs(120),
        escalate_conflicts_after: Duration::from_secs(60),
        messages_per_minute: GUARD.per_minute,
        message_hops: GUARD.hops,
        delivery_attempts: 4,
        delivery_circuit_failures: 4,
        delivery_circuit_backoff: Duration::from_secs(2),
        ..Settings::default()
    };
    let delivery = DeliveryPolicy { in_flight: 12, ..DeliveryPolicy::new(&settings) };
    Config { shared: true, delivery, ..Config::new("simulation", PathBuf::from("simulation"), settings) }
}

impl Process {
    pub(super) fn start(options: ProcessOptions<'_>) -> Process {
        let board = Arc::new(PresenceBoard::default());
        let limits = Limits { batch_commands: options.batch_commands, ..Limits::default() };
        let queue = Arc::new(Queue::new(limits));
        let clock = options.clock;
        let node = Node {
            id: NodeId::new(format!("node_{}", options.name)),
            host: format!("machine-{}", options.machine),
            pid: 1,
            url: None,
            version: "simulated".to_owned(),
            site: Site { id: SiteId::new(format!("site_{}", options.machine)), root: "simulation".to_owned() },
            started_at: clock.now(),
        };
        let store = NodeStore {
            memory: MemoryStore::new(options.database.clone(), clock.clone(), board.clone()).of(node.id.clone()),
            database: options.database.clone(),
            database_clock: options.database_clock,
            queue: queue.clone(),
            disk_full: options.disk_full,
        };
        let engine = Engine::new(Parts {
            store: Arc::new(store),
            clock: clock.clone(),
            ids: Arc::new(CountedIds { name: options.name, count: AtomicU64::new(0) }),
            board: board.clone(),
            access: Access::new(Trust::Local, None),
            node,
            config: config(),
        });
        let monotonic = clock.monotonic();
        let mut process = Process {
            rounds: all_rounds(&engine, &queue, options.expiry, options.network),
            engine: engine.clone(),
            queue,
            board,
            clock,
            follower: None,
            cursor: options.database.head(),
            calls: vec![],
            watching_since: monotonic,
            sweeper_epoch: None,
            watched_millis: 0,
            heard_from: BTreeMap::new(),
        };
        process.rounds.iter_mut().for_each(|round| round.due = monotonic + round.interval_millis);
        // Reads of the memory engine finish at the first poll.
        let mut begin: Future<Result<RosterFollower, EngineError>> = Box::pin(async move {
            roster_follower::load_state(&engine).await?;
            // On a full disk, the next round renews the lease.
            drop(cluster::renew_lease(&engine).await);
            RosterFollower::begin(&engine).await
        });
        process.follower = poll(&mut begin).and_then(Result::ok);
        process
    }

    /// Starts a request.
    pub(super) fn receive(&mut self, request: ClientRequest, head: Seq) {
        let kind = match request {
            ClientRequest::Command(sent) => self.start_command(sent),
            ClientRequest::Bundle(bundle) => self.start_bundle(bundle),
        };
        self.calls.push(Call { asked: head, kind });
    }

    fn start_command(&self, sent: SentCommand) -> CallKind {
        let engine = self.engine.clone();
        let idempotency =
            sent.keyed.then(|| IdempotencyKey { key: sent.id.clone(), fingerprint: format!("{:?}", sent.command) });
        let request = Request::untyped(sent.caller.clone(), AnyCommand::clone(&sent.command))
            .with_idempotency(idempotency)
            .with_body(sent.id.clone().into_bytes());
        CallKind::Command(sent, Box::pin(async move { engine.submit(request).await }))
    }

    fn start_bundle(&self, bundle: Bundle) -> CallKind {
        let (engine, caller) = (self.engine.clone(), bundle.caller.clone());
        let (bytes, shape) = (bundle.bytes.clone(), bundle.shape);
        let future: Future<_> =
            Box::pin(async move { engine.intake().ingest(&bytes, shape, |_| Ok(caller.clone())).await });
        CallKind::Bundle(bundle, future)
    }

    /// Starts a heartbeat request.
    pub(super) fn receive_heartbeat(&mut self, agent: &AgentId, caller: Caller, head: Seq) {
        let (engine, agent) = (self.engine.clone(), agent.clone());
        let future: Future<_> = Box::pin(async move { engine.liveness().heartbeat(&caller, &agent).await });
        self.calls.push(Call { asked: head, kind: CallKind::Heartbeat(future) });
    }

    /// Records a sign of life without a call: an open connection or a running process.
    pub(super) fn record_presence(&mut self, agent: &AgentId, source: LifeSource) {
        let caller = Caller { auth: Auth::Token, ..Caller::asserted(agent.clone()) };
        // The caller is proven, so this is never rejected.
        drop(self.engine.liveness().record_presence(&caller, agent, source));
    }

    /// Polls all rounds and calls once. Returns the calls that finished.
    pub(super) fn advance(&mut self) -> Vec<FinishedCall> {
        let monotonic = self.clock.monotonic();
        for round in &mut self.rounds {
            if round.running.is_none() && round.due <= monotonic {
                if round.name == RoundName::Sweep {
                    let epoch = self.engine.cluster().leader_epoch(LeaderRole::Sweeper);
                    self.sweeper_epoch = epoch.map(|epoch| match self.sweeper_epoch {
                        Some((known, since)) if known == epoch => (epoch, since),
                        _ => (epoch, monotonic),
                    });
                    let since = self.sweeper_epoch.map_or(monotonic, |(_, since)| since.max(self.watching_since));
                    self.watched_millis = monotonic - since;
                }
                round.running = Some((round.begin)());
            }
            if let Some(future) = &mut round.running
                && poll(future).is_some()
            {
                round.running = None;
                round.due = monotonic + round.interval_millis;
            }
        }
        let mut finished = Vec::new();
        for mut call in std::mem::take(&mut self.calls) {
            match call.kind.poll() {
                Some(answer) => finished.extend(answer.map(|answer| FinishedCall { asked: call.asked, answer })),
                None => self.calls.push(call),
            }
        }
        finished
    }

    /// Lets the subscriber read all new rows, and checks them.
    pub(super) fn read_stream(&mut self, mut check: impl FnMut(&LogRow) -> CheckResult) -> CheckResult {
        let Some(mut follower) = self.follower.take() else { return Ok(()) };
        loop {
            let engine = self.engine.clone();
            let mut next: Pin<Box<dyn std::future::Future<Output = _> + '_>> = Box::pin(follower.next(&engine));
            let chunk = match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(chunk)) => chunk,
                Poll::Ready(Err(_)) | Poll::Pending => break,
            };
            for row in chunk.rows() {
                stream_is_in_order(self.cursor, row)?;
                check(row)?;
                self.cursor = row.seq;
            }
        }
        self.follower = Some(follower);
        Ok(())
    }

    /// Ends the process. Returns the unanswered requests, whose outcome is unknown.
    pub(super) fn into_unanswered(self) -> Vec<ClientRequest> {
        let request = |call: Call| match call.kind {
            CallKind::Command(sent, _) => Some(ClientRequest::Command(sent)),
            CallKind::Bundle(bundle, _) => Some(ClientRequest::Bundle(bundle)),
            CallKind::Heartbeat(_) => None,
        };
        self.calls.into_iter().filter_map(request).collect()
    }

    /// Reads an envelope through this node.
    pub(super) fn read_envelope(&self, message: &MessageId) -> Option<(Seq, Envelope)> {
        let (engine, message) = (self.engine.clone(), message.clone());
        let mut read: Future<_> = Box::pin(async move { engine.query().envelope(&message).await });
        // Reads of the memory engine finish at the first poll.
        poll(&mut read)?.ok()?.value.map(|found| (found.seq, found.envelope))
    }

    /// Reads an agent's inbox through this node.
    pub(super) fn read_inbox(&self, agent: &AgentId, most: u32) -> Option<Vec<MessageId>> {
        let (engine, agent) = (self.engine.clone(), agent.clone());
        let pull = Pull { most: Some(most), ..Pull::default() };
        let mut read: Future<_> = Box::pin(async move { engine.inbox().pull(&agent, pull).await });
        // Reads of the memory engine finish at the first poll.
        let pulled = poll(&mut read)?.ok()?;
        Some(pulled.messages.into_iter().map(|message| message.id).collect())
    }

    /// Leaves the cluster, as in an orderly shutdown.
    pub(super) fn leave_cluster(&self) {
        let engine = self.engine.clone();
        let mut leaving: Future<_> = Box::pin(async move { cluster::leave(&engine).await });
        // The memory engine finishes at the first poll.
        drop(poll(&mut leaving));
    }

    pub(super) fn node_id(&self) -> &NodeId {
        &self.engine.cluster().node().id
    }

    /// Whether work of a leader role is in progress.
    pub(super) fn has_leader_work(&self) -> bool {
        self.rounds.iter().any(|round| round.name != RoundName::Other && round.running.is_some())
    }

    /// Whether commands are queued or calls are in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.queue.depth() > 0 || !self.calls.is_empty()
    }
}

fn all_rounds(engine: &Engine, queue: &Arc<Queue>, expiry: Expiry, network: Network) -> Vec<Round> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let every = |name: RoundName, duration: Duration, begin: Box<dyn Fn() -> Future<()>>| Round {
        name,
        interval_millis: millis(duration),
        due: 0,
        begin,
        running: None,
    };
    let allowed = liveness::allowed(engine);
    let (tick, exchange) =
        (Duration::from_millis(allowed.tick_millis()), Duration::from_millis(allowed.exchange_millis()));
    vec![
        every(RoundName::Sweep, tick, sweep(engine.clone(), queue.clone(), expiry)),
        // The next round retries a failed one, as in the daemon's loops.
        every(
            RoundName::Timers,
            TIMER_POLL_INTERVAL,
            repeat(engine, |engine| async move { drop(timers::fire_due(&engine).await) }),
        ),
        every(
            RoundName::Effects,
            RETRY_DELAY,
            repeat(engine, |engine| async move { drop(effects::carry_out(&engine, &FakeExecutor).await) }),
        ),
        every(RoundName::Routing, POLL_INTERVAL, route(engine.clone())),
        every(RoundName::Other, POLL_INTERVAL, deliver(engine.clone(), network)),
        every(
            RoundName::Other,
            exchange,
            repeat(engine, |engine| async move { drop(liveness::exchange_presence(&engine).await) }),
        ),
        every(
            RoundName::Other,
            LEASE_RENEWAL_INTERVAL,
            repeat(engine, |engine| async move { drop(cluster::renew_lease(&engine).await) }),
        ),
        every(
            RoundName::Other,
            REPLY_CLEANUP_INTERVAL,
            repeat(engine, |engine| async move { drop(upkeep::forget_replies(&engine).await) }),
        ),
    ]
}

/// Creates the future of a round from a function of the engine.
fn repeat<F>(engine: &Engine, round: impl Fn(Engine) -> F + 'static) -> Box<dyn Fn() -> Future<()>>
where
    F: std::future::Future<Output = ()> + 'static,
{
    let engine = engine.clone();
    Box::new(move || Box::pin(round(engine.clone())))
}

/// A round of the router: reads new events and routes due tasks. The daemon does so whenever the log grows.
fn route(engine: Engine) -> Box<dyn Fn() -> Future<()>> {
    let routing = Arc::new(tokio::sync::Mutex::new(Routing::default()));
    Box::new(move || {
        let (engine, routing) = (engine.clone(), routing.clone());
        Box::pin(async move {
            let mut routing = routing.lock().await;
            while let Some(result) = routing.hear().now_or_never() {
                if result.is_err() {
                    *routing = Routing::default();
                }
            }
            drop(routing.round(&engine).await);
        })
    })
}

/// The courier of a process, and its deliveries in progress.
#[derive(Default)]
struct CourierState {
    courier: Option<Courier>,
    jobs: Vec<Future<Delivered>>,
}

impl CourierState {
    /// Reads new events and posts due messages. The daemon does so whenever the log grows or an answer arrives.
    async fn round(&mut self, engine: &Engine, network: &Network) -> Result<(), EngineError> {
        if self.courier.as_ref().is_none_or(Courier::is_over) {
            self.jobs.clear();
            self.courier = Courier::begin(engine, Arc::new(network.clone())).await?;
        }
        let Some(courier) = &mut self.courier else { return Ok(()) };
        while let Some(result) = courier.hear().now_or_never() {
            result?;
        }
        settle_jobs(&mut self.jobs, courier);
        for job in courier.round().await? {
            self.jobs.push(Box::pin(job.deliver()));
        }
        settle_jobs(&mut self.jobs, courier);
        Ok(())
    }
}

/// Polls all jobs and settles the finished ones.
fn settle_jobs(jobs: &mut Vec<Future<Delivered>>, courier: &mut Courier) {
    jobs.retain_mut(|job| match poll(job) {
        Some(delivered) => {
            courier.settle(delivered);
            false
        }
        None => true,
    });
}

/// A round of the courier.
fn deliver(engine: Engine, network: Network) -> Box<dyn Fn() -> Future<()>> {
    let courier_state = Rc::new(tokio::sync::Mutex::new(CourierState::default()));
    Box::new(move || {
        let (engine, network, courier_state) = (engine.clone(), network.clone(), courier_state.clone());
        Box::pin(async move {
            let mut courier_state = courier_state.lock().await;
            if courier_state.round(&engine, &network).await.is_err() {
                *courier_state = CourierState::default();
            }
        })
    })
}

/// A round of the sweeper.
fn sweep(engine: Engine, queue: Arc<Queue>, expiry: Expiry) -> Box<dyn Fn() -> Future<()>> {
    let sweeping = Arc::new(tokio::sync::Mutex::new(Sweeping::default()));
    Box::new(move || {
        let (engine, queue, sweeping) = (engine.clone(), queue.clone(), sweeping.clone());
        Box::pin(async move {
            match expiry {
                Expiry::ByWatchTime => sweeping.lock().await.glance(&engine).await,
                Expiry::ByTimeOfDay => expire_by_time_of_day(&engine, &queue).await,
            }
        })
    })
}

/// Sabotage: measures silence from the time of day of the stored presence.
async fn expire_by_time_of_day(engine: &Engine, queue: &Queue) {
    let Some(epoch) = engine.cluster().leader_epoch(LeaderRole::Sweeper) else { return };
    let Ok(agents) = engine.query().agents().await else { return };
    for agent in agents.value {
        let Some(presence) = engine.board().get(&agent.id).filter(|_| agent.is_online()) else { continue };
        let limit_millis = liveness::allowed(engine).silence(presence.source);
        if presence.last_seen.plus_millis(limit_millis) < engine.clock().now() {
            let evidence = Evidence { last_seen: presence.last_seen, source: Some(presence.source), limit_millis };
            let command = DeclareOffline { agent: agent.id, evidence };
            drop(queue.push(Submission::internal(Caller::system(), command).out_of(epoch)));
        }
    }
}
