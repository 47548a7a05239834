//! A thousand subscribers in one process: completeness, delay, and the cost for the writers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rookery_core::files::Report as AgentReport;
use rookery_core::{Caller, LogId, Timestamp};
use rookery_engine::credentials::Trust;
use rookery_engine::settings::Settings;
use rookery_engine::{Access, Config, Engine, Parts, RandomIds, Subscription, SystemClock};
use rookery_store::memory::{Database, MemoryStore};
use rookery_store::{Clock, Node, PresenceBoard, Site, Store, Submission};
use tokio::task::JoinSet;

use crate::report::{Figure, Report};
use crate::sample::{Client, Spread, closed_loop, percentile};
use crate::stopwatch::Stopwatch;
use crate::work::{self, Order};
use crate::{Plan, say};

const SUBSCRIBERS: usize = 1_000;
const PER_SECOND: u64 = 10_000;
/// The commit interval of the paced writer, about the time of a group commit on a usual disk.
const TICK: Duration = Duration::from_millis(5);
/// The time limit for late subscribers after the last event.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
const WRITERS: usize = 64;

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    measure_paced_delivery(plan, &runtime, report)?;
    say::note("paced delivery measured");
    measure_writer_slowdown(plan, &runtime, report)
}

/// Creates an engine on a store, without services.
pub(crate) fn engine(plan: &Plan, store: Arc<dyn Store>, board: Arc<PresenceBoard>) -> Engine {
    Engine::new(Parts {
        store,
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        board,
        access: Access::new(Trust::Local, None),
        node: Node {
            id: "node_bench".into(),
            host: "bench".to_owned(),
            pid: std::process::id(),
            url: None,
            version: "bench".to_owned(),
            site: Site { id: "site_bench".into(), root: "bench".to_owned() },
            started_at: Timestamp(0),
        },
        // The rate limit of a single sender must not affect the measurement.
        config: Config::new("bench", &plan.folder, Settings { envelopes_per_minute: u32::MAX, ..Settings::default() }),
    })
}

/// Commits events in memory at a steady pace, so that only the delivery is measured.
fn measure_paced_delivery(plan: &Plan, runtime: &tokio::runtime::Runtime, report: &mut Report) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let board = Arc::new(PresenceBoard::default());
    let database = Database::new(LogId::from("log_bench"));
    let store = MemoryStore::new(database.clone(), clock.clone(), board.clone());
    let engine = engine(plan, Arc::new(store), board.clone());
    let begun = Stopwatch::start();
    let ticks = plan.steady.as_millis() / TICK.as_millis();
    let batch = PER_SECOND * TICK.as_millis() as u64 / 1_000;
    let total = ticks as u64 * batch;

    let mut subscribers = JoinSet::new();
    for _ in 0..SUBSCRIBERS {
        let subscription = runtime.block_on(engine.subscribe(None))?;
        subscribers.spawn_on(follow(subscription, total, begun), runtime.handle());
    }
    let first = begun.elapsed() + Duration::from_millis(100);
    for tick in 0..ticks as u32 {
        let due = first + TICK * tick;
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let sent = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
        let submissions = (0..batch).map(|_| Submission::new(Caller::asserted("bench"), agent_report(sent))).collect();
        let outcomes = database.run(submissions, clock.now(), &board, None);
        anyhow::ensure!(outcomes.iter().all(Result::is_ok), "a report was refused");
    }
    let (mut delivered, mut ages) = (0, Vec::new());
    while let Some(seen) = runtime.block_on(subscribers.join_next()) {
        let seen = seen?;
        delivered += seen.count;
        ages.extend(seen.ages);
    }
    ages.sort_unstable();
    let share = 100.0 * delivered as f64 / (total * SUBSCRIBERS as u64) as f64;
    let name = format!("{SUBSCRIBERS} subscribers × {PER_SECOND} events/s");
    report.add(Figure::new(format!("{name}: delivered"), share, "%").at_least(100.0));
    report.add(Figure::new(format!("{name}: p50"), percentile(&ages, 0.5) / 1e6, "ms"));
    report.add(Figure::new(format!("{name}: p99"), percentile(&ages, 0.99) / 1e6, "ms").at_most(100.0));
    Ok(())
}

fn agent_report(sent: u64) -> AgentReport {
    let metadata = [("sent".to_owned(), sent.into())].into_iter().collect();
    AgentReport {
        agent: "bench".into(),
        action: "x.bench".to_owned(),
        resource: None,
        task: None,
        before_hash: None,
        after_hash: None,
        metadata,
    }
}

/// The observations of one subscriber.
#[derive(Default)]
struct Seen {
    count: u64,
    /// The age of the oldest event in each chunk of the log, in nanoseconds.
    ages: Vec<u64>,
}

/// Reads until everything has arrived, or until a timeout without events.
async fn follow(mut subscription: Subscription, total: u64, begun: Stopwatch) -> Seen {
    let mut seen = Seen::default();
    let mut last = None;
    while seen.count < total {
        let Ok(Ok(chunk)) = tokio::time::timeout(SILENCE_TIMEOUT, subscription.next()).await else { break };
        let rows = chunk.rows();
        let in_order =
            last.is_none_or(|last: rookery_core::Seq| rows.first().is_some_and(|row| row.seq == last.next()));
        if !in_order {
            break;
        }
        last = rows.last().map(|row| row.seq);
        seen.count += rows.len() as u64;
        if let Some(event) = rows.first().and_then(|row| row.event.get::<AgentReport>())
            && let Some(sent) = event.metadata.get("sent").and_then(serde_json::Value::as_u64)
        {
            seen.ages.push(begun.nanos().saturating_sub(sent));
        }
    }
    seen
}

struct Writing {
    store: Arc<dyn Store>,
    order: Order,
}

impl Client for Writing {
    async fn act(&mut self) -> anyhow::Result<()> {
        self.store.submit(self.order.create(work::mint())).await?;
        Ok(())
    }
}

/// Runs a closed loop of writers on the real store, alternating with and without subscribers.
fn measure_writer_slowdown(plan: &Plan, runtime: &tokio::runtime::Runtime, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = Arc::new(work::open(&scratch.path().join("fanout.db"))?);
    load.block_on(work::announce(store.as_ref(), WRITERS))?;
    let engine = engine(plan, store.clone(), Arc::new(PresenceBoard::default()));
    let mut crowd: Vec<Writing> =
        (0..WRITERS).map(|at| Writing { store: store.clone(), order: Order::by(at) }).collect();
    let mut ratios = Vec::new();
    for _ in 0..plan.rounds {
        let alone = load.block_on(closed_loop(&mut crowd, plan.slice))?;
        let mut subscribers = JoinSet::new();
        for _ in 0..SUBSCRIBERS {
            let mut subscription = runtime.block_on(engine.subscribe(None)).context("cannot subscribe")?;
            let reading = async move { while subscription.next().await.is_ok() {} };
            subscribers.spawn_on(reading, runtime.handle());
        }
        let followed = load.block_on(closed_loop(&mut crowd, plan.slice))?;
        runtime.block_on(subscribers.shutdown());
        ratios.push(100.0 * followed.per_second / alone.per_second);
    }
    load.block_on(store.close());
    let name = format!("{WRITERS} writers with {SUBSCRIBERS} subscribers / without");
    report.add(Figure::spread(name, Spread::of(ratios), "%").at_least(90.0));
    Ok(())
}
