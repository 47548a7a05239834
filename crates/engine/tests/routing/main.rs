//! The router over a store in memory: what it does, what it leaves alone, and what it survives.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

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

use store::Watched;

struct Team {
    engine: Engine,
    database: Database,
    store: Arc<Watched>,
    routing: Routing,
}

impl Team {
    async fn new() -> Team {
        let database = Database::new(LogId::from("log_r"));
        let (clock, node) = (Arc::new(SystemClock::default()), support::node("here", Path::new("/")));
        let mut store = None;
        let engine =
            support::engine_over(&database, clock, node, Config::new("test", "/", Settings::default()), |memory| {
                store.insert(Arc::new(Watched::new(memory))).clone()
            });
        let store = store.unwrap();
        cluster::renew_lease(&engine).await.unwrap();
        Team { engine, database, store, routing: Routing::default() }
    }

    /// Hears all there is to hear and routes what is due.
    async fn routes(&mut self) -> Result<(), EngineError> {
        // Nothing is late here, and so nothing must look as if it were.
        while let Some(heard) = tokio::task::unconstrained(self.routing.hear()).now_or_never() {
            heard.unwrap();
        }
        self.routing.round(&self.engine).await
    }

    async fn sends(&self, id: &str, kind: &str, from: &str, more: Value) {
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

    /// An agent with a skill that takes so many tasks at a time.
    async fn joins(&self, agent: &str, skill: &str, max: u32) {
        let card = json!({"v": "clutch/0.1", "agent_id": agent, "capabilities": [{"id": skill}],
                          "limits": {"max_concurrency": max}});
        self.sends(&format!("reg_{agent}"), "agent.register", agent, json!({"payload": card})).await;
    }

    async fn asks(&self, task: &str, skill: &str, more: Value) {
        let mut said = json!({"task_id": task, "requires": [skill]});
        for (field, value) in more.as_object().unwrap() {
            said[field] = value.clone();
        }
        self.sends(&format!("req_{task}"), "task.request", "ui", said).await;
    }

    async fn does(&self, agent: &str, command: impl Command) {
        self.engine.submit(Request::new(Caller::asserted(agent), command)).await.unwrap();
    }

    /// A task of its own that an agent begins, and one that it ends.
    async fn works(&self, agent: &str, task: &str) {
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
        self.does(agent, create).await;
        self.does(
            agent,
            StartTask { task: task.into(), agent: Some(agent.into()), held_by_other: HeldByOther::KeepHolder },
        )
        .await;
    }

    async fn ends(&self, agent: &str, task: &str) {
        let outcome = Outcome { text: Some("done".to_owned()), detail: None };
        self.does(
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

    fn told(&self) -> BTreeMap<&'static str, usize> {
        let mut told = BTreeMap::new();
        for row in self.database.log() {
            *told.entry(row.event.kind()).or_default() += 1;
        }
        told
    }

    /// The hash of the body that a message came with, which is a file.
    fn artifact_of(&self, request: &str) -> String {
        let is_it = |fact: &AnyEvent| matches!(fact.typed(), EventRef::EnvelopeReceived(fact) if fact.message.as_str() == request);
        let body = self.database.log().into_iter().find(|row| is_it(&row.event)).unwrap().body.unwrap();
        assert_eq!(body.bytes, BodyBytes::Artifact);
        body.sha256
    }

    /// The request as it was passed on for a task.
    async fn passed_on(&self, task: &str) -> Value {
        let id = self.task(task).await.routing.offered_in.unwrap();
        match self.engine.query().envelope(&id).await.unwrap().value.unwrap().envelope {
            Envelope::Verbatim(bytes) => serde_json::from_slice(&bytes).unwrap(),
            Envelope::Shown(value) => value,
        }
    }
}

/// What nobody fits for costs nothing while nothing changes for it, however much others do, and the log does not grow by it.
#[tokio::test]
async fn what_waits_is_told_once_whatever_others_do() {
    let mut team = Team::new().await;
    // One who lacks the skill is rejected for that, or for having enough to do, in turn.
    team.joins("ben", "skill:cooking", 1).await;
    team.works("ben", "first").await;
    for number in 0..500 {
        team.asks(&format!("t{number}"), ["skill:law", "skill:magic"][number % 2], json!({})).await;
    }
    team.routes().await.unwrap();
    assert_eq!(team.told()["routing.failed"], 500);
    team.ends("ben", "first").await;
    team.routes().await.unwrap();
    assert_eq!(team.told()["routing.failed"], 1_000, "for another reason");
    let (told, choices) = (team.told(), team.store.choices());
    for number in 0..20 {
        let task = format!("own{number}");
        team.works("ben", &task).await;
        team.routes().await.unwrap();
        team.ends("ben", &task).await;
        team.routes().await.unwrap();
        team.joins(&format!("cook{number}"), "skill:cooking", 3).await;
        team.routes().await.unwrap();
    }
    assert_eq!(team.store.choices(), choices, "nothing was submitted for nothing");
    assert_eq!(team.told()["routing.failed"], told["routing.failed"]);
    assert_eq!(team.told().get("routing.decided"), None);
    // The next node that has the duty knows what was told, too.
    team.routing = Routing::default();
    team.routes().await.unwrap();
    assert_eq!(team.store.choices(), choices);
    // Whoever can take three gets the three that are the oldest, and the rest is told nothing but that.
    team.joins("ken", "skill:law", 3).await;
    team.routes().await.unwrap();
    for task in ["t0", "t2", "t4"] {
        assert_eq!(team.holder(task).await.as_deref(), Some("ken"), "{task}");
    }
    assert_eq!((team.told()["routing.decided"], team.told()["routing.failed"]), (3, told["routing.failed"]));
    for task in ["t0", "t2"] {
        team.sends(&format!("res_{task}"), "task.result", "ken", json!({"task_id": task})).await;
        team.routes().await.unwrap();
    }
    assert_eq!((team.holder("t6").await.as_deref(), team.holder("t8").await.as_deref()), (Some("ken"), Some("ken")));
    assert_eq!(team.store.choices(), choices + 5);
}

#[tokio::test]
async fn what_belongs_to_a_run_at_rest_waits_without_a_word_and_goes_on_with_it() {
    let mut team = Team::new().await;
    team.joins("ada", "skill:law", 1).await;
    team.asks("begun", "skill:law", json!({})).await;
    team.routes().await.unwrap();
    team.does("ada", ClaimTask { task: "begun".into(), agent: "ada".into() }).await;
    let sets = |to| SetRunStatus { run: "run_1".into(), to, reason: None };
    team.does("ada", sets(RunStatus::Paused)).await;
    for number in 0..50 {
        team.asks(&format!("t{number}"), "skill:law", json!({})).await;
    }
    team.joins("ken", "skill:law", 100).await;
    team.joins("ben", "skill:cooking", 100).await;
    let choices = team.store.choices();
    for number in 0..10 {
        team.works("ben", &format!("other{number}")).await;
        team.routes().await.unwrap();
    }
    team.routing = Routing::default();
    team.routes().await.unwrap();
    assert_eq!(team.store.choices(), choices, "nobody looks at it again and again");
    assert_eq!(team.told()["routing.decided"], 1);
    team.does("ada", sets(RunStatus::InProgress)).await;
    team.routes().await.unwrap();
    assert_eq!(team.told()["routing.decided"], 51);
    // What waits already when its run is paused is left alone as well.
    team.asks("late", "skill:magic", json!({})).await;
    team.routes().await.unwrap();
    team.does("ada", sets(RunStatus::Paused)).await;
    team.joins("merlin", "skill:magic", 1).await;
    team.routes().await.unwrap();
    assert_eq!((team.store.choices(), team.holder("late").await), (choices + 51, None));
    team.does("ada", sets(RunStatus::InProgress)).await;
    team.routes().await.unwrap();
    assert_eq!(team.holder("late").await.as_deref(), Some("merlin"));
}

/// Large enough to be a file.
fn large(words: &str) -> Value {
    json!({"payload": {"title": words, "text": "word ".repeat(40_000)}})
}

#[tokio::test]
async fn one_request_that_cannot_be_read_holds_up_no_other() {
    let mut team = Team::new().await;
    for task in ["damaged", "lost", "away"] {
        team.asks(task, "skill:law", large(task)).await;
    }
    team.asks("whole", "skill:law", large("whole")).await;
    let hash = |task: &str| team.artifact_of(&format!("req_{task}"));
    let (damaged, lost, away) = (hash("damaged"), hash("lost"), hash("away"));
    team.store.reads(&damaged, Some(ArtifactError::Damaged { sha256: damaged.clone() }));
    team.store.reads(&lost, Some(ArtifactError::Absent { sha256: lost.clone() }));
    team.store.reads(&away, Some(ArtifactError::Unavailable { reason: "no such device".to_owned() }));
    team.joins("ken", "skill:law", 10).await;
    assert!(matches!(team.routes().await, Err(EngineError::Artifact(ArtifactError::Unavailable { .. }))));
    for task in ["damaged", "lost", "whole"] {
        assert_eq!(team.holder(task).await.as_deref(), Some("ken"), "{task}");
        let passed_on = team.passed_on(task).await;
        assert_eq!(
            (&passed_on["payload"]["title"], &passed_on["to"]),
            (&json!(task), &json!([{"agent_id": "agent:ken"}]))
        );
    }
    assert!(team.passed_on("whole").await["payload"]["text"].is_string());
    assert!(team.passed_on("damaged").await["payload"]["description"].is_string(), "what the task says of it");
    assert_eq!(team.task("away").await.state, TaskState::Pending);
    team.store.reads(&away, None);
    team.routes().await.unwrap();
    assert_eq!(team.holder("away").await.as_deref(), Some("ken"), "its words are there again, and were waited for");
    assert!(team.passed_on("away").await["payload"]["text"].is_string());
}

#[tokio::test]
async fn what_may_have_been_committed_keeps_its_words() {
    let mut team = Team::new().await;
    team.asks("t", "skill:law", large("t")).await;
    team.joins("ken", "skill:law", 1).await;
    team.store.withhold_next();
    let lost = team.routes().await;
    assert!(matches!(lost, Err(EngineError::Submit(SubmitError::OutcomeUnknown { .. }))), "{lost:?}");
    team.store.arrives().await;
    assert!(team.passed_on("t").await["payload"]["text"].is_string());
    team.routes().await.unwrap();
    assert_eq!(team.told()["task.forwarded"], 1);
}

#[tokio::test]
async fn whoever_hands_a_task_over_is_given_the_next() {
    let mut team = Team::new().await;
    for agent in ["ada", "ken"] {
        team.joins(agent, "skill:law", 1).await;
    }
    team.works("ada", "own").await;
    for task in ["t1", "t2"] {
        team.asks(task, "skill:law", json!({})).await;
    }
    team.routes().await.unwrap();
    assert_eq!((team.holder("t1").await.as_deref(), team.holder("t2").await), (Some("ken"), None));
    team.works("ada", "more").await;
    team.ends("ada", "own").await;
    team.routes().await.unwrap();
    assert_eq!(team.holder("t2").await, None, "ada has another one by now");
    let note = HandoffNote { summary: "half of it".to_owned(), ..HandoffNote::default() };
    let offer = OfferHandoff { id: "h".into(), from: "ada".into(), to: Some("ken".into()), task: "more".into(), note };
    team.does("ada", offer).await;
    team.does("ken", AcceptHandoff { handoff: "h".into(), agent: "ken".into() }).await;
    team.routes().await.unwrap();
    assert_eq!(team.holder("t2").await.as_deref(), Some("ada"));
}
