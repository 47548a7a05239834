//! Random envelopes: about tasks, to other agents, and agent cards.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use rookery_core::clutch::{Act, AnswerCall, EnvelopeRejected, NoteRejected, Shape, Taken, read_batch, take_in};
use rookery_core::eligibility::{Candidates, RequiredCapability, TaskDemand};
use rookery_core::kernel::caller::{Actor, Caller};
use rookery_core::messages::StormGuard;
use rookery_core::model::message_type::MessageType;
use rookery_core::model::task::{AlarmKind, Task};
use rookery_core::model::trace::Trace;
use rookery_core::routing::{OfferTask, RouteTask};
use rookery_core::tasks::{FailureRetry, FireAlarm};
use rookery_core::traits::LogRow;
use rookery_core::{AnyCommand, Code, Key, MessageId, Row};
use serde_json::{Value, json};

use crate::contracts::{STEP, WORKFLOW};
use crate::steps::{AGENTS, STALE, TASKS};
use crate::team::NOW;

pub(crate) const ENVELOPES: [&str; 12] = ["e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9", "e10", "e11"];
/// Tasks that exist only after a request for them.
const REQUESTED_TASKS: [&str; 3] = ["t4", "t5", "q0"];
const KINDS: [&str; 12] = [
    "task.request",
    "task.accept",
    "task.progress",
    "task.result",
    "task.error",
    "task.cancel",
    "chat.message",
    "chat.system",
    "x.note",
    "agent.register",
    "agent.update",
    "tool.call",
];

type Request = (Caller, AnyCommand);

/// Few ids, so that duplicates and conflicting ids occur.
fn id() -> impl Strategy<Value = MessageId> {
    prop_oneof![6 => select(&ENVELOPES[..]), 1 => select(vec!["m0", "m1"])].prop_map(MessageId::from)
}

pub(crate) fn random_request() -> BoxedStrategy<Request> {
    let from = prop_oneof![8 => select(&AGENTS[..]), 1 => Just("person:anna"), 1 => Just("stranger")];
    let to = prop_oneof![
        3 => Just("agent:orchestrator"),
        3 => select(&AGENTS[..]),
        1 => Just("group:workers"),
        1 => Just("group:team"),
        1 => Just("agent:ghost"),
        1 => Just("mcp:browser"),
    ];
    let run = prop_oneof![3 => Just("run_default"), 1 => Just("r0")];
    let parent = prop::option::weighted(0.5, select(&TASKS[..]));
    let meta = prop_oneof![2 => Just(json!({})), 1 => Just(json!({ "workflow": WORKFLOW, "step": STEP }))];
    let task = prop_oneof![1 => select(&TASKS[..]), 1 => select(&REQUESTED_TASKS[..])];
    let sent = (id(), select(&KINDS[..]), from, to, task, run, parent, (meta, limits())).prop_filter_map(
        "an envelope",
        |(id, kind, from, to, task, run, parent, (meta, limits))| {
            let envelope = json!({
                "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11Z", "thread_id": "thr_default", "run_id": run,
                "task_id": task, "parent_task_id": parent.filter(|parent| *parent != task && kind == "task.request"),
                "from": { "agent_id": from }, "to": [{ "agent_id": to }], "type": kind, "payload": payload(kind, from),
                "meta": meta,
                "attachments": [{ "kind": "artifact_ref", "ref": format!("artifact:sha256-{}", "f".repeat(64)) }],
            });
            ingest(&envelope, limits)
        },
    );
    let answered = (select(&ENVELOPES[..]), select(&AGENTS[..])).prop_map(|(call, to)| tool_answer(call, to));
    let rejected = (id(), select(&AGENTS[..])).prop_map(|(id, from)| rejected_envelope(id, from));
    prop_oneof![12 => sent, 1 => answered, 1 => rejected].boxed()
}

/// The daemon records that it rejected a message with a bad signature.
fn rejected_envelope(message: MessageId, from: &str) -> Request {
    let rejected = EnvelopeRejected {
        message,
        message_type: MessageType::TaskCancel,
        from: from.to_owned(),
        kid: Some("key_01".to_owned()),
        code: Code::UnknownKey,
        pointer: "/security/auth/kid".to_owned(),
        others: 0,
    };
    (Caller::system(), NoteRejected { rejected }.into())
}

/// Limits that expire at once, so that their alarms can fire at any later step.
#[derive(Clone, Copy, Debug)]
struct Limits {
    deadline: bool,
    runtime: bool,
    max_attempts: Option<u32>,
    retryable: bool,
}

fn limits() -> impl Strategy<Value = Limits> {
    let attempts = prop_oneof![1 => Just(None), 4 => Just(Some(1)), 1 => Just(Some(2))];
    (prop::bool::weighted(0.2), prop::bool::weighted(0.8), attempts, prop::bool::weighted(0.8))
        .prop_map(|(deadline, runtime, max_attempts, retryable)| Limits { deadline, runtime, max_attempts, retryable })
}

fn limit(act: &mut Act, limits: Limits) {
    match act {
        Act::Request(request) => {
            request.terms.deadline = limits.deadline.then_some(NOW);
            request.terms.max_runtime_sec = limits.runtime.then_some(0);
            request.terms.max_attempts = limits.max_attempts;
        }
        Act::Fail { retry, .. } if limits.retryable => *retry = FailureRetry::Backoff(0),
        _ => {}
    }
}

/// The daemon's answer to a call of a missing tool.
fn tool_answer(call: &str, to: &str) -> Request {
    let answer = AnswerCall {
        call: call.into(),
        message: format!("answer-{call}").as_str().into(),
        to: Actor::Agent(to.into()),
        run: "run_default".into(),
        thread: "thr_default".into(),
        task: TASKS[0].into(),
        trace: Trace::default(),
    };
    (Caller::system(), answer.into())
}

fn payload(kind: &str, from: &str) -> Value {
    match kind {
        "agent.register" => json!({ "v": "clutch/0.1", "agent_id": from, "capabilities": [{ "id": "skill:law" }] }),
        "agent.update" => json!({ "limits": { "max_concurrency": 2 } }),
        "tool.call" => json!({ "tool": "mcp:browser" }),
        _ => json!({ "text": "@a look", "title": "one" }),
    }
}

fn ingest(envelope: &Value, limits: Limits) -> Option<Request> {
    let bytes = serde_json::to_vec(envelope).ok()?;
    let received = read_batch(&bytes, Shape::Json).ok()?;
    // A strict guard, so that holds are common.
    let taken = take_in(&received, StormGuard { per_minute: 2, hops: 0 }).ok()?.pop()?;
    let Taken::Command(mut ingest) = taken else { return None };
    limit(&mut ingest.act, limits);
    let caller = match &ingest.from {
        Actor::Person(name) => Caller::person(name),
        sender => Caller::asserted(sender.agent()?.clone()),
    };
    Some((caller, AnyCommand::from(*ingest)))
}

/// The router's decision about a task that waits for it, or about another task.
pub(crate) fn route(log: &[LogRow], rows: &BTreeMap<Key, Row>, pick: &Index) -> (RouteTask, Option<OfferTask>) {
    let all: Vec<&Task> =
        rows.values().filter_map(|row| if let Row::Task(task) = row { Some(task) } else { None }).collect();
    let waiting: Vec<&Task> = all.iter().copied().filter(|task| task.to_be_routed().is_some()).collect();
    let task = pick.get(if waiting.is_empty() { &all } else { &waiting });
    let mut candidates = Candidates::default();
    for row in log {
        candidates.follow(row);
    }
    let terms = task.origin.terms.as_ref();
    let choice = terms.map_or_else(
        || candidates.choose(&TaskDemand::default()),
        |terms| candidates.choose_for(&RequiredCapability::of(task, terms)),
    );
    let (id, message) = (task.id.clone(), MessageId::new(format!("f{}", log.len())));
    let artifacts = vec!["f".repeat(64)];
    let forward = |to| OfferTask { task: id.clone(), to, message, accept_within_millis: 0, artifacts };
    let forward = choice.selected.clone().map(forward);
    (RouteTask { task: id, choice, pause_millis: 0 }, forward)
}

/// Fires an alarm of one of the tasks, as set now or with a stale version.
pub(crate) fn alarm_command(rows: &BTreeMap<Key, Row>, pick: &Index, late: bool) -> FireAlarm {
    let clocks = |row: &Row| match row {
        Row::Task(task) => task.clocks.iter().map(|(clock, alarm)| (task.id.clone(), clock, alarm.set)).collect(),
        _ => vec![],
    };
    let set: Vec<_> = rows.values().flat_map(clocks).collect();
    let (task, clock, set) = match set.is_empty() {
        true => (TASKS[0].into(), AlarmKind::Accept, STALE),
        false => pick.get(&set).clone(),
    };
    FireAlarm { task, clock, set: if late { STALE } else { set }, backoff_millis: 0 }
}
