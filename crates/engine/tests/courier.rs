//! The courier as the daemon runs it, over a store in memory and endpoints that do what the story says.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

mod support;

use rookery_core::messages::MessagesAcked;
use rookery_core::{AgentId, AnyEvent, Caller, EventRef, LogId, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rookery_core::agents::{CurrentTask, DeclareOffline, SetAgentStatus};
use rookery_core::clutch::Shape;
use rookery_core::model::LifeSource;
use rookery_core::model::agent::{AgentStatus, Evidence};
use rookery_engine::endpoints::{Carrying, EndpointClient, HttpAnswer, HttpAttempt};
use rookery_engine::settings::Settings;
use rookery_engine::watcher::WatchMode;
use rookery_engine::{Config, Engine, Request, Services, Subscription};
use rookery_store::Clock;
use rookery_store::memory::Database;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use support::{TIMEOUT, engine, node};

#[derive(Debug)]
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    /// It never ends, so that no duty does.
    fn monotonic(&self) -> u64 {
        0
    }
}

/// Takes every message, once it is allowed to.
#[derive(Debug)]
struct Gate {
    came: mpsc::UnboundedSender<HttpAttempt>,
    allowed: Semaphore,
}

impl EndpointClient for Gate {
    fn post(&self, posting: HttpAttempt) -> Carrying<'_> {
        Box::pin(async move {
            self.came.send(posting).map_err(|error| error.to_string())?;
            let pass = self.allowed.acquire().await.map_err(|error| error.to_string())?;
            pass.forget();
            Ok(HttpAnswer { status: 202, retry_after: None })
        })
    }
}

struct Scene {
    engine: Engine,
    clock: Arc<HandClock>,
    services: Services,
    gate: Arc<Gate>,
    came: mpsc::UnboundedReceiver<HttpAttempt>,
}

impl Scene {
    /// A team of ada and of ken, who has an endpoint.
    async fn new() -> Scene {
        let clock = Arc::new(HandClock(AtomicI64::new(1_700_000_000_000)));
        let database = Database::new(LogId::from("log_c"));
        let root = Path::new("/nowhere");
        let engine =
            engine(&database, clock.clone(), node("one", root), Config::new("test", root, Settings::default()));
        let mut services = Services::start(&engine, WatchMode::Off).await.unwrap();
        let (send, came) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate { came: send, allowed: Semaphore::new(0) });
        services.deliver(&engine, gate.clone());
        let scene = Scene { engine, clock, services, gate, came };
        scene.joins("ada", json!({})).await;
        scene.joins("ken", json!({"clutch": {"url": "http://ken.test/"}})).await;
        scene
    }

    async fn joins(&self, agent: &str, endpoints: Value) {
        let card = json!({"v": "clutch/0.1", "agent_id": format!("agent:{agent}"), "endpoints": endpoints});
        let more = json!({"to": [{"agent_id": "agent:orchestrator"}], "payload": card});
        self.sends(&format!("joins_{agent}"), "agent.register", agent, more).await;
    }

    async fn sends(&self, id: &str, kind: &str, from: &str, more: Value) {
        let mut envelope = json!({
            "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11.123Z", "thread_id": "thr", "run_id": "run_default",
            "task_id": "t", "from": {"agent_id": format!("agent:{from}")}, "to": [{"agent_id": "agent:ken"}],
            "type": kind, "payload": {},
        });
        for (field, value) in more.as_object().unwrap() {
            envelope[field] = value.clone();
        }
        let caller = Caller::asserted(from);
        let bytes = serde_json::to_vec(&envelope).unwrap();
        self.engine.intake().ingest(&bytes, Shape::Json, |_| Ok(caller.clone())).await.unwrap();
    }

    async fn came(&mut self) -> HttpAttempt {
        tokio::time::timeout(TIMEOUT, self.came.recv()).await.unwrap().unwrap()
    }

    async fn facts(&self) -> Subscription {
        self.engine.subscribe(None).await.unwrap()
    }
}

/// The facts up to the first of a kind.
async fn upto(log: &mut Subscription, kind: &str) -> Vec<AnyEvent> {
    let reading = async {
        let mut facts: Vec<AnyEvent> = Vec::new();
        while facts.last().is_none_or(|fact| fact.kind() != kind) {
            facts.extend(log.next().await.unwrap().rows().iter().map(|row| row.event.clone()));
        }
        facts
    };
    tokio::time::timeout(TIMEOUT, reading).await.unwrap()
}

#[tokio::test]
async fn what_is_on_its_way_at_the_end_may_arrive_and_is_written_down() {
    let mut scene = Scene::new().await;
    let mut log = scene.facts().await;
    scene.sends("m1", "x.note", "ada", json!({})).await;
    scene.sends("m2", "x.note", "ada", json!({})).await;
    assert_eq!(scene.came().await.message, "m1".into());
    let Scene { engine, services, gate, mut came, .. } = scene;
    let allow = async {
        // The end has begun by then: everything that was told to stop has been asked to.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        gate.allowed.add_permits(1);
    };
    tokio::join!(services.stop(&engine), allow);
    let facts = upto(&mut log, "message.acked").await;
    assert!(
        matches!(facts.last().map(AnyEvent::typed), Some(EventRef::MessagesAcked(MessagesAcked(acked))) if acked.messages == ["m1".into()])
    );
    assert!(came.try_recv().is_err(), "nothing is begun at the end");
}

#[tokio::test]
async fn an_endpoint_that_takes_messages_shows_that_its_agent_lives() {
    let mut scene = Scene::new().await;
    let ken = AgentId::from("ken");
    let mut log = scene.facts().await;
    scene.gate.allowed.add_permits(10);
    for (number, minutes) in [(1, 29), (2, 58), (3, 87)] {
        scene.clock.0.store(1_700_000_000_000 + minutes * 60_000, Ordering::Relaxed);
        scene.sends(&format!("m{number}"), "x.note", "ada", json!({})).await;
        scene.came().await;
        let kinds: Vec<&str> = upto(&mut log, "message.acked").await.iter().map(AnyEvent::kind).collect();
        assert_eq!(kinds, ["envelope.received", "message.acked"], "a sign of life is no fact");
        let seen = || scene.engine.board().get(&ken).unwrap();
        let patient = async {
            while seen().last_seen != scene.clock.now() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, patient).await.unwrap();
        assert_eq!(seen().source, LifeSource::Call);
    }

    // One that was missed comes back by it, and one that went by its own word does not.
    let missed = Evidence { last_seen: scene.clock.now(), source: Some(LifeSource::Call), limit_millis: 1 };
    let missed = DeclareOffline { agent: ken.clone(), evidence: missed };
    scene.engine.submit(Request::new(Caller::system(), missed)).await.unwrap();
    scene.sends("m4", "x.note", "ada", json!({})).await;
    let facts = upto(&mut log, "agent.returned").await;
    assert!(matches!(facts.last().map(AnyEvent::typed), Some(EventRef::AgentReturned(back)) if back.agent == ken));
    let goes = SetAgentStatus { agent: ken.clone(), status: AgentStatus::Offline, current_task: CurrentTask::AsBefore };
    scene.engine.submit(Request::new(Caller::asserted("ken"), goes)).await.unwrap();
    for message in ["m5", "m6"] {
        scene.sends(message, "x.note", "ada", json!({})).await;
        let facts = upto(&mut log, "message.acked").await;
        assert!(!facts.iter().any(|fact| fact.kind() == "agent.returned"), "{message}");
    }
}

#[tokio::test]
async fn an_endpoint_does_not_stand_in_for_heartbeats() {
    let mut scene = Scene::new().await;
    let ken = AgentId::from("ken");
    scene.gate.allowed.add_permits(10);
    scene.engine.liveness().heartbeat(&Caller::asserted("ken"), &ken).await.unwrap();
    let beat = scene.engine.board().get(&ken).unwrap().last_seen;
    let mut log = scene.facts().await;
    for message in ["m1", "m2"] {
        scene.clock.0.fetch_add(10_000, Ordering::Relaxed);
        scene.sends(message, "x.note", "ada", json!({})).await;
        scene.came().await;
        upto(&mut log, "message.acked").await;
    }
    assert_eq!(scene.engine.board().get(&ken).unwrap().last_seen, beat);
}
