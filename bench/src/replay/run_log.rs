//! A long run of envelopes. The real engine receives it once, and it is kept because that takes long.
//!
//! One task is open during the whole run, and the others are its subtasks. Each is requested, accepted, reported on and
//! completed.

use std::path::PathBuf;
use std::sync::Arc;

use rookery_core::clutch::Shape;
use rookery_engine::Engine;
use rookery_store::{PresenceBoard, Store};
use serde_json::{Value, json};

use crate::ingest::caller;
use crate::{Plan, data, fanout, say, work};

pub(crate) const RUN: &str = "run_long";
/// The version of the log's content. A new version replaces a kept log.
const CONTENT_VERSION: &str = "1";
const AGENTS: u64 = 200;
const ROOT: &str = "task_root";
/// A request, an acceptance, seven progress reports and a result.
const ENVELOPES_OF_A_TASK: u64 = 10;
/// The most envelopes in a call.
const TASKS_AT_ONCE: u64 = 100;

/// A project with such a run.
#[derive(Debug)]
pub(super) struct RunLog {
    pub(super) root: PathBuf,
    pub(super) envelopes: u64,
}

impl RunLog {
    pub(super) async fn get(plan: &Plan) -> anyhow::Result<RunLog> {
        let log = RunLog { root: plan.folder.join(format!("run-{}", plan.events)), envelopes: plan.events };
        data::make_or_reuse(&log.root, CONTENT_VERSION, format_args!("{} envelopes", plan.events), async || {
            let store = Arc::new(work::open(&log.database())?);
            work::announce(store.as_ref(), AGENTS as usize).await?;
            let engine = fanout::engine(plan, store.clone(), Arc::new(PresenceBoard::default()));
            log.fill(&engine).await?;
            store.close().await;
            Ok(())
        })
        .await?;
        Ok(log)
    }

    pub(super) fn database(&self) -> PathBuf {
        data::database(&self.root)
    }

    async fn fill(&self, engine: &Engine) -> anyhow::Result<()> {
        take_in(engine, &[request_envelope(ROOT, None, 0), report_envelope(ROOT, 0, 0, "task.accept", &json!({}))])
            .await?;
        let tasks = self.envelopes / ENVELOPES_OF_A_TASK;
        for first in (0..tasks).step_by(TASKS_AT_ONCE as usize) {
            if first.is_multiple_of((tasks / 10).max(1)) {
                say::note(format_args!("{} %", 100 * first / tasks));
            }
            let upto = tasks.min(first + TASKS_AT_ONCE);
            let envelopes: Vec<Value> = (first..upto).flat_map(life_of).collect();
            take_in(engine, &envelopes).await?;
        }
        Ok(())
    }
}

async fn take_in(engine: &Engine, envelopes: &[Value]) -> anyhow::Result<()> {
    let lines: String = envelopes.iter().map(|envelope| format!("{envelope}\n")).collect();
    engine.intake().ingest(lines.as_bytes(), Shape::Lines, |from| Ok(caller(from))).await?;
    Ok(())
}

/// All envelopes of one task.
fn life_of(at: u64) -> Vec<Value> {
    let task = format!("task_{at:09}");
    let mut envelopes =
        vec![request_envelope(&task, Some(ROOT), at), report_envelope(&task, at, 0, "task.accept", &json!({}))];
    for step in 1..=7 {
        let payload = json!({ "percent": step * 12, "text": "Read the next part of what has to be read." });
        envelopes.push(report_envelope(&task, at, step, "task.progress", &payload));
    }
    let result = json!({ "summary": "All parts are read, and two of them have to be split.", "parts": 7 });
    envelopes.push(report_envelope(&task, at, 8, "task.result", &result));
    envelopes
}

fn request_envelope(task: &str, parent: Option<&str>, at: u64) -> Value {
    let payload = json!({
        "title": format!("Part {at}"),
        "description": "Something that somebody wants to have done, in about as many words as people use.",
    });
    let mut request = envelope(task, "agent:ui", &format!("{at}_request"), "task.request", &payload);
    request["parent_task_id"] = json!(parent);
    request
}

fn report_envelope(task: &str, at: u64, step: u64, kind: &str, payload: &Value) -> Value {
    let from = format!("agent:{}", work::agent((at % AGENTS) as usize));
    envelope(task, &from, &format!("{at}_{step}"), kind, payload)
}

fn envelope(task: &str, from: &str, id: &str, kind: &str, payload: &Value) -> Value {
    json!({
        "v": "clutch/0.1", "id": format!("msg_{task}_{id}"), "ts": "2026-11-16T08:00:00.000Z",
        "thread_id": "thr_long", "run_id": RUN, "task_id": task,
        "from": { "agent_id": from }, "to": [{ "agent_id": "agent:orchestrator" }], "type": kind, "payload": payload,
    })
}
