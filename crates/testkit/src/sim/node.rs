//! A node: a real engine with its subscribers over a shared database, moved along by the world instead of a runtime.

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
use super::check::{Checked, Sent, stream_is_in_order};
use super::clock::NodeClock;
use super::network::Network;
use super::script::GUARD;
use super::store::NodeStore;

type Future<T> = Pin<Box<dyn std::future::Future<Output = T>>>;

/// How long something may have happened before the router and the courier hear of it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Asks a future once whether it is done.
fn poll<T>(future: &mut Future<T>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A process: everything that is lost when it is killed.
pub(super) struct Process {
    pub(super) engine: Engine,
    pub(super) queue: Arc<Queue>,
    pub(super) board: Arc<PresenceBoard>,
    pub(super) clock: Arc<NodeClock>,
    rounds: Vec<Round>,
    following: Option<RosterFollower>,
    /// How far the subscriber of this process has come.
    pub(super) cursor: Seq,
    calls: Vec<Call>,
    /// Monotonic time since which nothing kept it from watching.
    pub(super) clear_since: u64,
    /// The sweeper's tenure, and the monotonic time since which the process has it.
    sweeping: Option<(LeaderEpoch, u64)>,
    /// For how long it had been watching, by the duty and without a break, when it looked last.
    pub(super) watched_millis: u64,
    /// When it took the newest sign of life of each agent, in the world's time.
    pub(super) taken: BTreeMap<AgentId, u64>,
}

/// Something the process does again and again, one at a time.
struct Round {
    name: RoundName,
    every: u64,
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

/// Something that a process is asked for.
#[derive(Clone, Debug)]
pub(super) enum Parcel {
    Command(Sent),
    Bundle(Bundle),
}

impl Parcel {
    pub(super) fn caller(&self) -> &Caller {
        match self {
            Parcel::Command(sent) => &sent.caller,
            Parcel::Bundle(bundle) => &bundle.caller,
        }
    }
}

/// A request on its way through the process.
struct Call {
    /// The head of the log when it arrived.
    asked: Seq,
    kind: CallKind,
}

enum CallKind {
    Command(Sent, Future<Result<Committed, EngineError>>),
    Bundle(Bundle, Future<Result<Vec<Ingested>, IngestError>>),
    Heartbeat(Future<Result<(), EngineError>>),
}

impl CallKind {
    /// What it came to, if it is over. A sender of heartbeats goes on whatever it is told.
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

/// What a request came to.
#[derive(Debug)]
pub(super) struct Returned {
    /// The head of the log when it arrived.
    pub(super) asked: Seq,
    pub(super) answered: CallAnswer,
}

#[derive(Debug)]
pub(super) enum CallAnswer {
    Command(Sent, Result<Committed, EngineError>),
    Bundle(Bundle, Result<Vec<Ingested>, IngestError>),
}

/// How the sweeper of a process works: as it should, or by the time of day as a sabotage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expiry {
    ByClearSight,
    ByTimeOfDay,
}

/// What a process is started with.
pub(super) struct Start<'a> {
    pub(super) name: String,
    /// The machine that it runs on.
    pub(super) machine: usize,
    pub(super) database: &'a Database,
    pub(super) database_clock: Arc<NodeClock>,
    pub(super) clock: Arc<NodeClock>,
    pub(super) disk_full: Arc<AtomicBool>,
    pub(super) batch_commands: usize,
    pub(super) expiry: Expiry,
    /// The way to the endpoints of agents.
    pub(super) network: Network,
}

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

/// Effects on a machine that is not there. Most succeed; whether one does depends on nothing but what it is about.
struct NoExecutor;

impl EffectExecutor for NoExecutor {
    fn perform(&self, effect: Effect, _decided: Seq) -> Pending<'_, Performed> {
        let performed = match effect {
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
                let outcome = Outcome::Made { base_branch: "main".to_owned(), branch: BranchOrigin::Created };
                Performed::Settled(workspace, outcome)
            }
            Effect::MergeWorktree { workspace, .. } => {
                Performed::Settled(workspace, Outcome::Merged { merge_commit: "abc".to_owned() })
            }
            Effect::RemoveWorktree { workspace } => {
                Performed::Settled(workspace, Outcome::Removed { backup_ref: None, branch: BranchFate::Kept })
            }
        };
        Box::pin(std::future::ready(performed))
    }
}

/// Shorter than a daemon's where the default would only make the simulation longer.
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
    pub(super) fn start(start: Start<'_>) -> Process {
        let board = Arc::new(PresenceBoard::default());
        let limits = Limits { batch_commands: start.batch_commands, ..Limits::default() };
        let queue = Arc::new(Queue::new(limits));
        let clock = start.clock;
        let node = Node {
            id: NodeId::new(format!("node_{}", start.name)),
            host: format!("machine-{}", start.machine),
            pid: 1,
            url: None,
            version: "simulated".to_owned(),
            site: Site { id: SiteId::new(format!("site_{}", start.machine)), root: "simulation".to_owned() },
            started_at: clock.now(),
        };
        let store = NodeStore {
            memory: MemoryStore::new(start.database.clone(), clock.clone(), board.clone()).of(node.id.clone()),
            database: start.database.clone(),
            database_clock: start.database_clock,
            queue: queue.clone(),
            disk_full: start.disk_full,
        };
        let engine = Engine::new(Parts {
            store: Arc::new(store),
            clock: clock.clone(),
            ids: Arc::new(CountedIds { name: start.name, count: AtomicU64::new(0) }),
            board: board.clone(),
            access: Access::new(Trust::Local, None),
            node,
            config: config(),
        });
        let monotonic = clock.monotonic();
        let mut process = Process {
            rounds: all_rounds(&engine, &queue, start.expiry, start.network),
            engine: engine.clone(),
            queue,
            board,
            clock,
            following: None,
            cursor: start.database.head(),
            calls: vec![],
            clear_since: monotonic,
            sweeping: None,
            watched_millis: 0,
            taken: BTreeMap::new(),
        };
        process.rounds.iter_mut().for_each(|round| round.due = monotonic + round.every);
        // Reads of the memory engine are never late.
        let mut begin: Future<Result<RosterFollower, EngineError>> = Box::pin(async move {
            roster_follower::load_state(&engine).await?;
            // On a full disk it attends when its time comes again.
            drop(cluster::renew_lease(&engine).await);
            RosterFollower::begin(&engine).await
        });
        process.following = poll(&mut begin).and_then(Result::ok);
        process
    }

    /// A request arrives.
    pub(super) fn take(&mut self, parcel: Parcel, head: Seq) {
        let kind = match parcel {
            Parcel::Command(sent) => self.command(sent),
            Parcel::Bundle(bundle) => self.bundle(bundle),
        };
        self.calls.push(Call { asked: head, kind });
    }

    fn command(&self, sent: Sent) -> CallKind {
        let engine = self.engine.clone();
        let idempotency =
            sent.keyed.then(|| IdempotencyKey { key: sent.id.clone(), fingerprint: format!("{:?}", sent.command) });
        let request = Request::untyped(sent.caller.clone(), AnyCommand::clone(&sent.command))
            .with_idempotency(idempotency)
            .with_body(sent.id.clone().into_bytes());
        CallKind::Command(sent, Box::pin(async move { engine.submit(request).await }))
    }

    fn bundle(&self, bundle: Bundle) -> CallKind {
        let (engine, caller) = (self.engine.clone(), bundle.caller.clone());
        let (bytes, shape) = (bundle.bytes.clone(), bundle.shape);
        let future: Future<_> =
            Box::pin(async move { engine.intake().ingest(&bytes, shape, |_| Ok(caller.clone())).await });
        CallKind::Bundle(bundle, future)
    }

    /// A heartbeat arrives.
    pub(super) fn take_heartbeat(&mut self, agent: &AgentId, caller: Caller, head: Seq) {
        let (engine, agent) = (self.engine.clone(), agent.clone());
        let future: Future<_> = Box::pin(async move { engine.liveness().heartbeat(&caller, &agent).await });
        self.calls.push(Call { asked: head, kind: CallKind::Heartbeat(future) });
    }

    /// A sign of life that needs no call: a connection is open, a process runs.
    pub(super) fn sees(&mut self, agent: &AgentId, source: LifeSource) {
        let caller = Caller { auth: Auth::Token, ..Caller::asserted(agent.clone()) };
        // It is proven: nothing refuses it.
        drop(self.engine.liveness().record_presence(&caller, agent, source));
    }

    /// Lets everything go on as far as it can without a turn of the writer.
    pub(super) fn goes_on(&mut self) -> Vec<Returned> {
        let monotonic = self.clock.monotonic();
        for round in &mut self.rounds {
            if round.running.is_none() && round.due <= monotonic {
                if round.name == RoundName::Sweep {
                    let tenure = self.engine.cluster().leader_epoch(LeaderRole::Sweeper);
                    self.sweeping = tenure.map(|tenure| match self.sweeping {
                        Some((known, since)) if known == tenure => (tenure, since),
                        _ => (tenure, monotonic),
                    });
                    let since = self.sweeping.map_or(monotonic, |(_, since)| since.max(self.clear_since));
                    self.watched_millis = monotonic - since;
                }
                round.running = Some((round.begin)());
            }
            if let Some(future) = &mut round.running
                && poll(future).is_some()
            {
                round.running = None;
                round.due = monotonic + round.every;
            }
        }
        let mut returned = Vec::new();
        for mut call in std::mem::take(&mut self.calls) {
            match call.kind.poll() {
                Some(answered) => returned.extend(answered.map(|answered| Returned { asked: call.asked, answered })),
                None => self.calls.push(call),
            }
        }
        returned
    }

    /// The subscriber takes what there is, and is checked on the way.
    pub(super) fn follows(&mut self, mut each: impl FnMut(&LogRow) -> Checked) -> Checked {
        let Some(mut following) = self.following.take() else { return Ok(()) };
        loop {
            let engine = self.engine.clone();
            let mut next: Pin<Box<dyn std::future::Future<Output = _> + '_>> = Box::pin(following.next(&engine));
            let chunk = match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(chunk)) => chunk,
                Poll::Ready(Err(_)) | Poll::Pending => break,
            };
            for row in chunk.rows() {
                stream_is_in_order(self.cursor, row)?;
                each(row)?;
                self.cursor = row.seq;
            }
        }
        self.following = Some(following);
        Ok(())
    }

    /// What was on its way when the process was killed: nobody knows what became of it.
    pub(super) fn dies(self) -> Vec<Parcel> {
        let parcel = |call: Call| match call.kind {
            CallKind::Command(sent, _) => Some(Parcel::Command(sent)),
            CallKind::Bundle(bundle, _) => Some(Parcel::Bundle(bundle)),
            CallKind::Heartbeat(_) => None,
        };
        self.calls.into_iter().filter_map(parcel).collect()
    }

    /// An envelope as this node shows it.
    pub(super) fn shows(&self, message: &MessageId) -> Option<(Seq, Envelope)> {
        let (engine, message) = (self.engine.clone(), message.clone());
        let mut read: Future<_> = Box::pin(async move { engine.query().envelope(&message).await });
        // Reads of the memory engine are never late.
        poll(&mut read)?.ok()?.value.map(|found| (found.seq, found.envelope))
    }

    /// What waits for an agent, as its inbox at this node shows it.
    pub(super) fn pulls(&self, agent: &AgentId, most: u32) -> Option<Vec<MessageId>> {
        let (engine, agent) = (self.engine.clone(), agent.clone());
        let pull = Pull { most: Some(most), ..Pull::default() };
        let mut read: Future<_> = Box::pin(async move { engine.inbox().pull(&agent, pull).await });
        // Reads of the memory engine are never late.
        let pulled = poll(&mut read)?.ok()?;
        Some(pulled.messages.into_iter().map(|parcel| parcel.id).collect())
    }

    /// It stops as it should, and gives up its place.
    pub(super) fn departs(&self) {
        let engine = self.engine.clone();
        let mut departing: Future<_> = Box::pin(async move { cluster::leave(&engine).await });
        // The memory engine does it while it is asked.
        drop(poll(&mut departing));
    }

    pub(super) fn node_id(&self) -> &NodeId {
        &self.engine.cluster().node().id
    }

    /// Whether something that it does out of a duty waits for the writer.
    pub(super) fn acts_for_all(&self) -> bool {
        self.rounds.iter().any(|round| round.name != RoundName::Other && round.running.is_some())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.queue.depth() > 0 || !self.calls.is_empty()
    }
}

fn all_rounds(engine: &Engine, queue: &Arc<Queue>, expiry: Expiry, network: Network) -> Vec<Round> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let every = |name: RoundName, duration: Duration, begin: Box<dyn Fn() -> Future<()>>| Round {
        name,
        every: millis(duration),
        due: 0,
        begin,
        running: None,
    };
    let allowed = liveness::allowed(engine);
    let (tick, exchange) =
        (Duration::from_millis(allowed.tick_millis()), Duration::from_millis(allowed.exchange_millis()));
    vec![
        every(RoundName::Sweep, tick, sweep(engine.clone(), queue.clone(), expiry)),
        // A failed round is tried again when its time comes: that is what the daemon's loops do.
        every(
            RoundName::Timers,
            TIMER_POLL_INTERVAL,
            again(engine, |engine| async move { drop(timers::fire_due(&engine).await) }),
        ),
        every(
            RoundName::Effects,
            RETRY_DELAY,
            again(engine, |engine| async move { drop(effects::carry_out(&engine, &NoExecutor).await) }),
        ),
        every(RoundName::Routing, POLL_INTERVAL, route(engine.clone())),
        every(RoundName::Other, POLL_INTERVAL, deliver(engine.clone(), network)),
        every(
            RoundName::Other,
            exchange,
            again(engine, |engine| async move { drop(liveness::exchange_presence(&engine).await) }),
        ),
        every(
            RoundName::Other,
            LEASE_RENEWAL_INTERVAL,
            again(engine, |engine| async move { drop(cluster::renew_lease(&engine).await) }),
        ),
        every(
            RoundName::Other,
            REPLY_CLEANUP_INTERVAL,
            again(engine, |engine| async move { drop(upkeep::forget_replies(&engine).await) }),
        ),
    ]
}

fn again<F>(engine: &Engine, round: impl Fn(Engine) -> F + 'static) -> Box<dyn Fn() -> Future<()>>
where
    F: std::future::Future<Output = ()> + 'static,
{
    let engine = engine.clone();
    Box::new(move || Box::pin(round(engine.clone())))
}

/// The router hears what there is to hear and routes what is due. The daemon does so whenever the log grows.
fn route(engine: Engine) -> Box<dyn Fn() -> Future<()>> {
    let routing = Arc::new(tokio::sync::Mutex::new(Routing::default()));
    Box::new(move || {
        let (engine, routing) = (engine.clone(), routing.clone());
        Box::pin(async move {
            let mut routing = routing.lock().await;
            while let Some(heard) = routing.hear().now_or_never() {
                if heard.is_err() {
                    *routing = Routing::default();
                }
            }
            drop(routing.round(&engine).await);
        })
    })
}

/// The courier of a process, and what it has on its way.
#[derive(Default)]
struct CourierState {
    courier: Option<Courier>,
    jobs: Vec<Future<Delivered>>,
}

impl CourierState {
    /// Takes what there is to hear, and posts what is due. The daemon does so whenever something happens.
    async fn round(&mut self, engine: &Engine, network: &Network) -> Result<(), EngineError> {
        if self.courier.as_ref().is_none_or(Courier::is_over) {
            self.jobs.clear();
            self.courier = Courier::begin(engine, Arc::new(network.clone())).await?;
        }
        let Some(courier) = &mut self.courier else { return Ok(()) };
        while let Some(heard) = courier.hear().now_or_never() {
            heard?;
        }
        go_on(&mut self.jobs, courier);
        for job in courier.round().await? {
            self.jobs.push(Box::pin(job.deliver()));
        }
        go_on(&mut self.jobs, courier);
        Ok(())
    }
}

fn go_on(jobs: &mut Vec<Future<Delivered>>, courier: &mut Courier) {
    jobs.retain_mut(|job| match poll(job) {
        Some(delivered) => {
            courier.settle(delivered);
            false
        }
        None => true,
    });
}

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

fn sweep(engine: Engine, queue: Arc<Queue>, expiry: Expiry) -> Box<dyn Fn() -> Future<()>> {
    let sweeping = Arc::new(tokio::sync::Mutex::new(Sweeping::default()));
    Box::new(move || {
        let (engine, queue, sweeping) = (engine.clone(), queue.clone(), sweeping.clone());
        Box::pin(async move {
            match expiry {
                Expiry::ByClearSight => sweeping.lock().await.glance(&engine).await,
                Expiry::ByTimeOfDay => expire_by_time_of_day(&engine, &queue).await,
            }
        })
    })
}

/// Sabotage: quiet time counted from the last time of day that anybody wrote down.
async fn expire_by_time_of_day(engine: &Engine, queue: &Queue) {
    let Some(tenure) = engine.cluster().leader_epoch(LeaderRole::Sweeper) else { return };
    let Ok(agents) = engine.query().agents().await else { return };
    for agent in agents.value {
        let Some(presence) = engine.board().get(&agent.id).filter(|_| agent.is_online()) else { continue };
        let limit_millis = liveness::allowed(engine).silence(presence.source);
        if presence.last_seen.plus_millis(limit_millis) < engine.clock().now() {
            let evidence = Evidence { last_seen: presence.last_seen, source: Some(presence.source), limit_millis };
            let command = DeclareOffline { agent: agent.id, evidence };
            drop(queue.push(Submission::internal(Caller::system(), command).out_of(tenure)));
        }
    }
}
