//! The router with a store in memory: its decisions, the tasks it leaves alone, and failures that it survives.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

mod store;
#[path = "../support/mod.rs"]
mod support;

use rookery_core::{Actor, AnyEvent, Caller, Command, EventRef, LogId, RunId, TaskId};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use rookery_core::clutch::Shape;
use rookery_core::handoffs::{AcceptHandoff, OfferHandoff};
use rookery_core::model::handoff::HandoffNote;
use rookery_core::model::run::RunStatus;
use rookery_core::model::task::{Outcome, Task, TaskState};
use rookery_core::runs::SetRunStatus;
use rookery_core::tasks::{ClaimTask, CompleteTask, CreateTask, HeldByOther, Required, StartTask};
use rookery_core::traits::BodyBytes;
use rookery_engine::history::Envelope;
use rookery_engine::router::Routing;
use rookery_engine::settings::Settings;
use rookery_engine::{Config, Engine, EngineError, Request, SystemClock, cluster};
use rookery_store::SubmitError;
use rookery_store::artifact::ArtifactError;
use rookery_store::memory::Database;
use serde_json::{Value, json};

use store::FaultyStore;

struct Team {
    engine: Engine,
    database: Database,
    store: Arc<FaultyStore>,
    routing: Routing,
}

impl Team {
    async fn new() -> Team {
        let database = Database::new(LogId::from("log_r"));
        let (clock, node) = (Arc::new(SystemClock::default()), support::node("here", Path::new("/")));
        let mut store = None;
        let engine =
            support::engine_over(&database, clock, node, Config::new("test", "/", Settings::default()), |memory| {
                store.insert(Arc::new(FaultyStore::new(memory))).clone()
            });
        let store = store.unwrap();
        cluster::renew_lease(&engine).await.unwrap();
        Team { engine, database, store, routing: Routing::default() }
    }

    /// Processes all published events, then routes due tasks.
    async fn route_due(&mut self) -> Result<(), EngineError> {
        // No timer runs out during the test.
        while let Some(heard) = tokio::task::unconstrained(self.routing.hear()).now_or_never() {
            heard.unwrap();
        }
        self.routing.round(&self.engine).await
    }

    async fn send_envelope(&self, id: &str, kind: &str, from: &str, more: Value) {
        let mut envelope = json!({
            "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11.123Z", "thread_id": "thr_1", "run_id": "run_1",
            "task_id": "t", "from": {"agent_id": from}, "to": [{"agent_id": "agent:orchestrator"}], "type": kind,
            "payload": {},
        });
        for (field, value) in more.as_object().unwrap() {
            envelope[field] = value.clone();
        }
        let caller = |actor: &Actor| Ok(Caller::asserted(actor.to_string().as_str()));
        self.engine.intake().ingest(&serde_json::to_vec(&envelope).unwrap(), Shape::Json, caller).await.unwrap();
    }

    /// Registers an agent with a skill and a concurrency limit.
    async fn register_agent(&self, agent: &str, skill: &str, max: u32) {
        let card = json!({"v": "clutch/0.1", "agent_id": agent, "capabilities": [{"id": skill}],
                          "limits": {"max_concurrency": max}});
        self.send_envelope(&format!("reg_{agent}"), "agent.register", agent, json!({"payload": card})).await;
    }

    async fn request_task(&self, task: &str, skill: &str, more: Value) {
        let mut fields = json!({"task_id": task, "requires": [skill]});
        for (field, value) in more.as_object().unwrap() {
            fields[field] = value.clone();
        }
        self.send_envelope(&format!("req_{task}"), "task.request", "ui", fields).await;
    }

    async fn submit_as(&self, agent: &str, command: impl Command) {
        self.engine.submit(Request::new(Caller::asserted(agent), command)).await.unwrap();
    }

    /// Creates a task and starts it as this agent.
    async fn start_own_task(&self, agent: &str, task: &str) {
        let create = CreateTask {
            id: task.into(),
            run: RunId::project_default(),
            title: task.to_owned(),
            description: String::new(),
            assigned_by: agent.to_owned(),
            assigned_to: None,
            resources: vec![],
            depends_on: vec![],
        };
        self.submit_as(agent, create).await;
        self.submit_as(
            agent,
            StartTask { task: task.into(), agent: Some(agent.into()), held_by_other: HeldByOther::KeepHolder },
        )
        .await;
    }

    async fn complete_task(&self, agent: &str, task: &str) {
        let outcome = Outcome { text: Some("done".to_owned()), detail: None };
        self.submit_as(
            agent,
            CompleteTask { task: task.into(), agent: None, outcome, outcome_required: Required::No, contract: None },
        )
        .await;
    }

    async fn task(&self, id: &str) -> Task {
        self.engine.query().task(&TaskId::from(id)).await.unwrap().value.unwrap()
    }

    async fn holder(&self, id: &str) -> Option<String> {
        self.task(id).await.held_by().map(ToString::to_string)
    }

    fn event_counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for row in self.database.log() {
            *counts.entry(row.event.kind()).or_default() += 1;
        }
        counts
    }

    /// The hash of a message's body, which is stored as an artifact.
    fn artifact_of(&self, request: &str) -> String {
        let is_it = |received: &AnyEvent| matches!(received.typed(), EventRef::EnvelopeReceived(received) if received.message.as_str() == request);
        let body = self.database.log().into_iter().find(|row| is_it(&row.event)).unwrap().body.unwrap();
        assert_eq!(body.bytes, BodyBytes::Artifact);
        body.sha256
    }

    /// The request as forwarded for a task.
    async fn forwarded_request(&self, task: &str) -> Value {
        let id = self.task(task).await.routing.offered_in.unwrap();
        match self.engine.query().envelope(&id).await.unwrap().value.unwrap().envelope {
            Envelope::Verbatim(bytes) => serde_json::from_slice(&bytes).unwrap(),
            Envelope::Shown(value) => value,
        }
    }
}

/// An unroutable task costs nothing while nothing relevant changes, and the log does not grow.
#[tokio::test]
async fn unroutable_task_is_reported_once_despite_unrelated_changes() {
    let mut team = Team::new().await;
    // Ben is rejected in turn for the missing skill or for being busy.
    team.register_agent("ben", "skill:cooking", 1).await;
    team.start_own_task("ben", "first").await;
    for number in 0..500 {
        team.request_task(&format!("t{number}"), ["skill:law", "skill:magic"][number % 2], json!({})).await;
    }
    team.route_due().await.unwrap();
    assert_eq!(team.event_counts()["routing.failed"], 500);
    team.complete_task("ben", "first").await;
    team.route_due().await.unwrap();
    assert_eq!(team.event_counts()["routing.failed"], 1_000, "for another reason");
    let (counts, routings) = (team.event_counts(), team.store.routing_count());
    for number in 0..20 {
        let task = format!("own{number}");
        team.start_own_task("ben", &task).await;
        team.route_due().await.unwrap();
        team.complete_task("ben", &task).await;
        team.route_due().await.unwrap();
        team.register_agent(&format!("cook{number}"), "skill:cooking", 3).await;
        team.route_due().await.unwrap();
    }
    assert_eq!(team.store.routing_count(), routings, "no routing was submitted in vain");
    assert_eq!(team.event_counts()["routing.failed"], counts["routing.failed"]);
    assert_eq!(team.event_counts().get("routing.decided"), None);
    // The next holder of the leader role knows the reported failures too.
    team.routing = Routing::default();
    team.route_due().await.unwrap();
    assert_eq!(team.store.routing_count(), routings);
    // An agent with room for three gets the three oldest; the others get no further report.
    team.register_agent("ken", "skill:law", 3).await;
    team.route_due().await.unwrap();
    for task in ["t0", "t2", "t4"] {
        assert_eq!(team.holder(task).await.as_deref(), Some("ken"), "{task}");
    }
    assert_eq!(
        (team.event_counts()["routing.decided"], team.event_counts()["routing.failed"]),
        (3, counts["routing.failed"])
    );
    for task in ["t0", "t2"] {
        team.send_envelope(&format!("res_{task}"), "task.result", "ken", json!({"task_id": task})).await;
        team.route_due().await.unwrap();
    }
    assert_eq!((team.holder("t6").await.as_deref(), team.holder("t8").await.as_deref()), (Some("ken"), Some("ken")));
    assert_eq!(team.store.routing_count(), routings + 5);
}

#[tokio::test]
async fn tasks_of_a_paused_run_are_routed_when_it_resumes() {
    let mut team = Team::new().await;
    team.register_agent("ada", "skill:law", 1).await;
    team.request_task("begun", "skill:law", json!({})).await;
    team.route_due().await.unwrap();
    team.submit_as("ada", ClaimTask { task: "begun".into(), agent: "ada".into() }).await;
    let set_status = |to| SetRunStatus { run: "run_1".into(), to, reason: None };
    team.submit_as("ada", set_status(RunStatus::Paused)).await;
    for number in 0..50 {
        team.request_task(&format!("t{number}"), "skill:law", json!({})).await;
    }
    team.register_agent("ken", "skill:law", 100).await;
    team.register_agent("ben", "skill:cooking", 100).await;
    let routings = team.store.routing_count();
    for number in 0..10 {
        team.start_own_task("ben", &format!("other{number}")).await;
        team.route_due().await.unwrap();
    }
    team.routing = Routing::default();
    team.route_due().await.unwrap();
    assert_eq!(team.store.routing_count(), routings, "paused tasks are not tried repeatedly");
    assert_eq!(team.event_counts()["routing.decided"], 1);
    team.submit_as("ada", set_status(RunStatus::InProgress)).await;
    team.route_due().await.unwrap();
    assert_eq!(team.event_counts()["routing.decided"], 51);
    // Tasks that were waiting before the pause are left alone as well.
    team.request_task("late", "skill:magic", json!({})).await;
    team.route_due().await.unwrap();
    team.submit_as("ada", set_status(RunStatus::Paused)).await;
    team.register_agent("merlin", "skill:magic", 1).await;
    team.route_due().await.unwrap();
    assert_eq!((team.store.routing_count(), team.holder("late").await), (routings + 51, None));
    team.submit_as("ada", set_status(RunStatus::InProgress)).await;
    team.route_due().await.unwrap();
    assert_eq!(team.holder("late").await.as_deref(), Some("merlin"));
}

/// A payload large enough to be stored as an artifact.
fn large_payload(words: &str) -> Value {
    json!({"payload": {"title": words, "text": "word ".repeat(40_000)}})
}

#[tokio::test]
async fn unreadable_request_does_not_block_other_routing() {
    let mut team = Team::new().await;
    for task in ["damaged", "lost", "away"] {
        team.request_task(task, "skill:law", large_payload(task)).await;
    }
    team.request_task("whole", "skill:law", large_payload("whole")).await;
    let hash = |task: &str| team.artifact_of(&format!("req_{task}"));
    let (damaged, lost, away) = (hash("damaged"), hash("lost"), hash("away"));
    team.store.set_artifact_error(&damaged, Some(ArtifactError::Damaged { sha256: damaged.clone() }));
    team.store.set_artifact_error(&lost, Some(ArtifactError::Absent { sha256: lost.clone() }));
    team.store.set_artifact_error(&away, Some(ArtifactError::Unavailable { reason: "no such device".to_owned() }));
    team.register_agent("ken", "skill:law", 10).await;
    assert!(matches!(team.route_due().await, Err(EngineError::Artifact(ArtifactError::Unavailable { .. }))));
    for task in ["damaged", "lost", "whole"] {
        assert_eq!(team.holder(task).await.as_deref(), Some("ken"), "{task}");
        let passed_on = team.forwarded_request(task).await;
        assert_eq!(
            (&passed_on["payload"]["title"], &passed_on["to"]),
            (&json!(task), &json!([{"agent_id": "agent:ken"}]))
        );
    }
    assert!(team.forwarded_request("whole").await["payload"]["text"].is_string());
    assert!(team.forwarded_request("damaged").await["payload"]["description"].is_string(), "taken from the task");
    assert_eq!(team.task("away").await.state, TaskState::Pending);
    team.store.set_artifact_error(&away, None);
    team.route_due().await.unwrap();
    assert_eq!(team.holder("away").await.as_deref(), Some("ken"), "the request is routed once its body is readable");
    assert!(team.forwarded_request("away").await["payload"]["text"].is_string());
}

#[tokio::test]
async fn forwarded_request_keeps_its_body_when_the_commit_outcome_is_unknown() {
    let mut team = Team::new().await;
    team.request_task("t", "skill:law", large_payload("t")).await;
    team.register_agent("ken", "skill:law", 1).await;
    team.store.withhold_next();
    let lost = team.route_due().await;
    assert!(matches!(lost, Err(EngineError::Submit(SubmitError::OutcomeUnknown { .. }))), "{lost:?}");
    team.store.deliver_withheld().await;
    assert!(team.forwarded_request("t").await["payload"]["text"].is_string());
    team.route_due().await.unwrap();
    assert_eq!(team.event_counts()["task.forwarded"], 1);
}

#[tokio::test]
async fn accepted_handoff_frees_its_sender_for_the_next_task() {
    let mut team = Team::new().await;
    for agent in ["ada", "ken"] {
        team.register_agent(agent, "skill:law", 1).await;
    }
    team.start_own_task("ada", "own").await;
    for task in ["t1", "t2"] {
        team.request_task(task, "skill:law", json!({})).await;
    }
    team.route_due().await.unwrap();
    assert_eq!((team.holder("t1").await.as_deref(), team.holder("t2").await), (Some("ken"), None));
    team.start_own_task("ada", "more").await;
    team.complete_task("ada", "own").await;
    team.route_due().await.unwrap();
    assert_eq!(team.holder("t2").await, None, "ada has another task by now");
    let note = HandoffNote { summary: "half of it".to_owned(), ..HandoffNote::default() };
    let offer = OfferHandoff { id: "h".into(), from: "ada".into(), to: Some("ken".into()), task: "more".into(), note };
    team.submit_as("ada", offer).await;
    team.submit_as("ken", AcceptHandoff { handoff: "h".into(), agent: "ken".into() }).await;
    team.route_due().await.unwrap();
    assert_eq!(team.holder("t2").await.as_deref(), Some("ada"));
}
