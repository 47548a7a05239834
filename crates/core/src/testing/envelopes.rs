//! Envelopes for rule tests, by the words that matter.

use serde_json::{Value, json};

use super::{World, by};
use crate::clutch::{Ingest, Shape, Taken, read_batch, take_in};
use crate::eligibility::{Candidates, RequiredCapability};
use crate::kernel::caller::{Actor, Caller};
use crate::messages::StormGuard;
use crate::routing::RouteTask;

/// An envelope about task `t`, with these fields beside those that every one needs.
pub(crate) fn ingest(id: &str, kind: &str, from: &str, more: &Value) -> Ingest {
    let mut envelope = json!({
        "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11.123Z", "thread_id": "thr_1", "run_id": "run_1",
        "task_id": "t", "from": { "agent_id": from }, "to": [{ "agent_id": "agent:orchestrator" }], "type": kind,
        "payload": {},
    });
    for (field, value) in more.as_object().unwrap() {
        envelope[field] = value.clone();
    }
    let bytes = serde_json::to_vec(&envelope).unwrap();
    let received = read_batch(&bytes, Shape::Json).unwrap();
    match take_in(&received, StormGuard::default()).unwrap().remove(0) {
        Taken::Command(ingest) => *ingest,
        Taken::Heartbeat(beat) => panic!("a heartbeat of {}", beat.agent),
    }
}

/// Whoever sends it, as itself.
pub(crate) fn sender(from: &str) -> Caller {
    match Actor::parse(from) {
        Actor::Person(name) => Caller::person(&name),
        _ => by(from),
    }
}

/// Sends an envelope that must be taken, and tells the kinds of its facts.
pub(crate) fn sends(w: &mut World, id: &str, kind: &str, from: &str, more: &Value) -> Vec<&'static str> {
    w.does(&sender(from), ingest(id, kind, from, more))
}

/// What the router would do now with a task that waits for it.
pub(crate) fn route(w: &World, task: &str) -> RouteTask {
    let mut candidates = Candidates::default();
    for row in &w.log {
        candidates.follow(row);
    }
    let task = w.task(task);
    let choice = candidates.choose_for(&RequiredCapability::of(task, task.origin.terms.as_ref().unwrap()));
    RouteTask { task: task.id.clone(), choice, pause_millis: 30_000 }
}
