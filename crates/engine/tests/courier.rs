//! The courier as the daemon runs it, with a store in memory and an endpoint controlled by the test.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

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
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    /// Never advances, so that leases never expire.
    fn monotonic(&self) -> u64 {
        0
    }
}

/// An endpoint that accepts a message once the test allows it.
#[derive(Debug)]
struct GatedEndpoint {
    attempts: mpsc::UnboundedSender<HttpAttempt>,
    allowed: Semaphore,
}

impl EndpointClient for GatedEndpoint {
    fn post(&self, posting: HttpAttempt) -> Carrying<'_> {
        Box::pin(async move {
            self.attempts.send(posting).map_err(|error| error.to_string())?;
            let pass = self.allowed.acquire().await.map_err(|error| error.to_string())?;
            pass.forget();
            Ok(HttpAnswer { status: 202, retry_after: None })
        })
    }
}

struct Scene {
    engine: Engine,
    clock: Arc<ManualClock>,
    services: Services,
    gate: Arc<GatedEndpoint>,
    attempts: mpsc::UnboundedReceiver<HttpAttempt>,
}

impl Scene {
    /// A team of ada, and of ken with an endpoint.
    async fn new() -> Scene {
        let clock = Arc::new(ManualClock(AtomicI64::new(1_700_000_000_000)));
        let database = Database::new(LogId::from("log_c"));
        let root = Path::new("/nowhere");
        let engine =
            engine(&database, clock.clone(), node("one", root), Config::new("test", root, Settings::default()));
        let mut services = Services::start(&engine, WatchMode::Off).await.unwrap();
        let (send, attempts) = mpsc::unbounded_channel();
        let gate = Arc::new(GatedEndpoint { attempts: send, allowed: Semaphore::new(0) });
        services.deliver(&engine, gate.clone());
        let scene = Scene { engine, clock, services, gate, attempts };
        scene.register_agent("ada", json!({})).await;
        scene.register_agent("ken", json!({"clutch": {"url": "http://ken.test/"}})).await;
        scene
    }

    async fn register_agent(&self, agent: &str, endpoints: Value) {
        let card = json!({"v": "clutch/0.1", "agent_id": format!("agent:{agent}"), "endpoints": endpoints});
        let more = json!({"to": [{"agent_id": "agent:orchestrator"}], "payload": card});
        self.send_envelope(&format!("joins_{agent}"), "agent.register", agent, more).await;
    }

    async fn send_envelope(&self, id: &str, kind: &str, from: &str, more: Value) {
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

    async fn next_attempt(&mut self) -> HttpAttempt {
        tokio::time::timeout(TIMEOUT, self.attempts.recv()).await.unwrap().unwrap()
    }

    async fn subscribe(&self) -> Subscription {
        self.engine.subscribe(None).await.unwrap()
    }
}

/// The events up to the first of a kind.
async fn events_until(log: &mut Subscription, kind: &str) -> Vec<AnyEvent> {
    let reading = async {
        let mut events: Vec<AnyEvent> = Vec::new();
        while events.last().is_none_or(|event| event.kind() != kind) {
            events.extend(log.next().await.unwrap().rows().iter().map(|row| row.event.clone()));
        }
        events
    };
    tokio::time::timeout(TIMEOUT, reading).await.unwrap()
}

#[tokio::test]
async fn shutdown_waits_for_delivery_under_way_and_records_it() {
    let mut scene = Scene::new().await;
    let mut log = scene.subscribe().await;
    scene.send_envelope("m1", "x.note", "ada", json!({})).await;
    scene.send_envelope("m2", "x.note", "ada", json!({})).await;
    assert_eq!(scene.next_attempt().await.message, "m1".into());
    let Scene { engine, services, gate, mut attempts, .. } = scene;
    let allow = async {
        // By then, all services have been asked to stop.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        gate.allowed.add_permits(1);
    };
    tokio::join!(services.stop(&engine), allow);
    let events = events_until(&mut log, "message.acked").await;
    assert!(
        matches!(events.last().map(AnyEvent::typed), Some(EventRef::MessagesAcked(MessagesAcked(acked))) if acked.messages == ["m1".into()])
    );
    assert!(attempts.try_recv().is_err(), "no attempt starts during the shutdown");
}

#[tokio::test]
async fn delivery_to_endpoint_keeps_its_agent_online() {
    let mut scene = Scene::new().await;
    let ken = AgentId::from("ken");
    let mut log = scene.subscribe().await;
    scene.gate.allowed.add_permits(10);
    for (number, minutes) in [(1, 29), (2, 58), (3, 87)] {
        scene.clock.0.store(1_700_000_000_000 + minutes * 60_000, Ordering::Relaxed);
        scene.send_envelope(&format!("m{number}"), "x.note", "ada", json!({})).await;
        scene.next_attempt().await;
        let kinds: Vec<&str> = events_until(&mut log, "message.acked").await.iter().map(AnyEvent::kind).collect();
        assert_eq!(kinds, ["envelope.received", "message.acked"], "a sign of life appends no event");
        let presence = || scene.engine.board().get(&ken).unwrap();
        let updated = async {
            while presence().last_seen != scene.clock.now() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, updated).await.unwrap();
        assert_eq!(presence().source, LifeSource::Call);
    }

    // A missed agent returns by a delivery; one that went offline itself does not.
    let missed = Evidence { last_seen: scene.clock.now(), source: Some(LifeSource::Call), limit_millis: 1 };
    let missed = DeclareOffline { agent: ken.clone(), evidence: missed };
    scene.engine.submit(Request::new(Caller::system(), missed)).await.unwrap();
    scene.send_envelope("m4", "x.note", "ada", json!({})).await;
    let events = events_until(&mut log, "agent.returned").await;
    assert!(matches!(events.last().map(AnyEvent::typed), Some(EventRef::AgentReturned(back)) if back.agent == ken));
    let goes_offline =
        SetAgentStatus { agent: ken.clone(), status: AgentStatus::Offline, current_task: CurrentTask::AsBefore };
    scene.engine.submit(Request::new(Caller::asserted("ken"), goes_offline)).await.unwrap();
    for message in ["m5", "m6"] {
        scene.send_envelope(message, "x.note", "ada", json!({})).await;
        let events = events_until(&mut log, "message.acked").await;
        assert!(!events.iter().any(|event| event.kind() == "agent.returned"), "{message}");
    }
}

#[tokio::test]
async fn delivery_does_not_replace_missing_heartbeats() {
    let mut scene = Scene::new().await;
    let ken = AgentId::from("ken");
    scene.gate.allowed.add_permits(10);
    scene.engine.liveness().heartbeat(&Caller::asserted("ken"), &ken).await.unwrap();
    let heartbeat_at = scene.engine.board().get(&ken).unwrap().last_seen;
    let mut log = scene.subscribe().await;
    for message in ["m1", "m2"] {
        scene.clock.0.fetch_add(10_000, Ordering::Relaxed);
        scene.send_envelope(message, "x.note", "ada", json!({})).await;
        scene.next_attempt().await;
        events_until(&mut log, "message.acked").await;
    }
    assert_eq!(scene.engine.board().get(&ken).unwrap().last_seen, heartbeat_at);
}
