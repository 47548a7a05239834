//! A task that has ended, as spans: one for the task, and one below it for each agent's work on it.
//!
//! The ids are made from the names of things, so that whoever tells of a task again, or of a part of it elsewhere, means
//! the same span without having to ask.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use rookery_core::Timestamp;
use rookery_core::model::task::TaskState;
use rookery_engine::history::Traced;
use rookery_engine::runs::{TaskAttempt, TaskNode};
use sha2::{Digest, Sha256};

/// How much of a title a span is named by.
const NAME_CHARS: usize = 80;

/// The spans of a task that ended at a time.
pub(super) fn of(traced: &Traced, ended: Timestamp) -> Vec<SpanData> {
    let node = &traced.node;
    let trace = trace_id(traced);
    let own = span_id(&format!("task:{}", node.task.id));
    let mut spans = vec![task_span(traced, trace, own, ended)];
    let attempts = node.attempts.iter().enumerate();
    spans.extend(attempts.map(|(at, attempt)| attempt_span(node, (at, attempt), trace, own, ended)));
    spans
}

fn task_span(traced: &Traced, trace: TraceId, own: SpanId, ended: Timestamp) -> SpanData {
    let task = &traced.node.task;
    let parent = match (&task.origin.parent, &traced.span_id) {
        // What a request says of itself is closer than what it is part of.
        (_, Some(said)) => said_span(said),
        (Some(parent), None) => span_id(&format!("task:{parent}")),
        (None, None) => SpanId::INVALID,
    };
    let title: String = task.title.chars().take(NAME_CHARS).collect();
    let mut attributes = about(&traced.node);
    attributes.push(KeyValue::new("rookery.task.state", task.state.as_str()));
    attributes.push(KeyValue::new("rookery.task.attempts", i64::from(task.attempt)));
    attributes.push(KeyValue::new("rookery.task.assigned_by", task.assigned_by.clone()));
    if let Some(terms) = &task.origin.terms {
        attributes.push(KeyValue::new("messaging.message.id", terms.request.to_string()));
    }
    let status = match task.state {
        TaskState::Completed => Status::Ok,
        TaskState::Failed => Status::error(task.reason.clone().unwrap_or_default()),
        _ => Status::Unset,
    };
    let named = Named { name: format!("task {title}"), kind: SpanKind::Internal };
    span(named, (trace, own, parent), (task.created_at, ended), attributes, status)
}

fn attempt_span(
    node: &TaskNode,
    (at, attempt): (usize, &TaskAttempt),
    trace: TraceId,
    parent: SpanId,
    task_ended: Timestamp,
) -> SpanData {
    let own = span_id(&format!("task:{} {at}", node.task.id));
    let (ended, status) = match &attempt.ended {
        None => (task_ended, Status::Unset),
        Some((when, ending)) => match (ending.as_str(), ending.error()) {
            ("completed", _) => (*when, Status::Ok),
            ("failed" | "timed_out", error) => (*when, Status::error(error.unwrap_or_default().to_owned())),
            _ => (*when, Status::Unset),
        },
    };
    let mut attributes = about(node);
    attributes.push(KeyValue::new("gen_ai.operation.name", "invoke_agent"));
    attributes.push(KeyValue::new("gen_ai.agent.id", attempt.agent.to_string()));
    attributes.push(KeyValue::new("rookery.attempt", i64::from(attempt.number)));
    if let Some((_, ending)) = &attempt.ended {
        attributes.push(KeyValue::new("rookery.attempt.ending", ending.as_str()));
    }
    let named = Named { name: format!("invoke_agent {}", attempt.agent), kind: SpanKind::Client };
    span(named, (trace, own, parent), (attempt.started_at, ended), attributes, status)
}

struct Named {
    name: String,
    kind: SpanKind,
}

fn span(
    named: Named,
    (trace, own, parent): (TraceId, SpanId, SpanId),
    (began, ended): (Timestamp, Timestamp),
    attributes: Vec<KeyValue>,
    status: Status,
) -> SpanData {
    SpanData {
        span_context: SpanContext::new(trace, own, TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: parent,
        parent_span_is_remote: false,
        span_kind: named.kind,
        name: named.name.into(),
        start_time: time(began),
        end_time: time(ended.max(began)),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: InstrumentationScope::builder("rookery").with_version(crate::daemon::VERSION).build(),
    }
}

fn about(node: &TaskNode) -> Vec<KeyValue> {
    let task = &node.task;
    let mut about = vec![
        KeyValue::new("rookery.task.id", task.id.to_string()),
        KeyValue::new("rookery.run.id", task.run.to_string()),
    ];
    if let Some(thread) = &task.origin.thread {
        about.push(KeyValue::new("rookery.thread.id", thread.to_string()));
    }
    about
}

/// The trace that somebody named, else one of the run.
fn trace_id(traced: &Traced) -> TraceId {
    match &traced.trace_id {
        Some(said) => TraceId::from_hex(said)
            .ok()
            .filter(|id| said.len() == 32 && *id != TraceId::INVALID)
            .unwrap_or_else(|| TraceId::from_bytes(hash(&format!("trace:{said}")))),
        None => TraceId::from_bytes(hash(&format!("run:{}", traced.node.task.run))),
    }
}

/// A span as a message names it: by the id that collectors know, or by any name.
fn said_span(said: &str) -> SpanId {
    let known = SpanId::from_hex(said).ok().filter(|id| said.len() == 16 && *id != SpanId::INVALID);
    known.unwrap_or_else(|| span_id(&format!("span:{said}")))
}

fn span_id(name: &str) -> SpanId {
    SpanId::from_bytes(hash(name))
}

fn hash<const BYTES: usize>(name: &str) -> [u8; BYTES] {
    let digest = Sha256::digest(name.as_bytes());
    std::array::from_fn(|at| digest[at])
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or_default())
}
