//! The envelope as JSON Schema (2020-12), for whoever checks messages before sending them.
//!
//! It says what such a schema can: what it cannot is told by the reader alone (fields named twice, ids that are the same in
//! two ways of writing, days that no calendar has, ranges of versions). A test holds both against the same messages.

use serde_json::{Value, json};

use super::{LegacyType, security};
use crate::kernel::limit;
use crate::model::capabilities::VERSION;
use crate::model::message_type::MessageType;
use crate::model::policy::{Network, TrustLevel};

/// No spaces and no control characters.
const NAME: &str = r"^[^\s\u0000-\u001f\u007f-\u009f]+$";

const TIME: &str = r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$";

const NEED: &str = r"^([^\s:@]+|[^\s:@]+:[^\s@]+)(@.+)?$";

pub(super) const KINDS: [&str; 4] = ["agent:", "person:", "group:", "mcp:"];

pub fn envelope() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ClutchMessage",
        "description": "The envelope that every message of the Clutch protocol is sent in. Fields that are not named here are kept.",
        "type": "object",
        "required": ["v", "id", "ts", "thread_id", "run_id", "task_id", "from", "to", "type", "payload"],
        "properties": {
            "v": { "const": VERSION },
            "id": name("Names this message for good: sent again, it is the same message", limit::MESSAGE_ID_BYTES),
            "ts": { "description": "When it was sent, by the sender's clock (RFC 3339, with a zone)", "type": "string",
                    "format": "date-time", "pattern": TIME },
            "thread_id": id("The conversation that it belongs to", "thread:", limit::NAME_BYTES),
            "run_id": id("The execution that it belongs to", "run:", limit::NAME_BYTES),
            "task_id": id("The unit of work that it is about, 'task_none' if it is about none", "task:", limit::TASK_ID_BYTES),
            "parent_task_id": optional(id("The task that this one is part of", "task:", limit::TASK_ID_BYTES)),
            "trace": optional(trace()),
            "from": sender(),
            "to": { "description": "Who gets it, each once", "type": "array", "minItems": 1,
                    "maxItems": limit::LIST_ENTRIES, "items": recipient() },
            "type": message_type(),
            "domain": optional(name("The problem space, like 'research'", limit::NAME_BYTES)),
            "payload_type": optional(json!({
                "description": "The contract that the payload keeps, like 'research.summary.v1'", "type": "string",
                "maxLength": limit::NAME_BYTES, "pattern": r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.v[1-9][0-9]{0,8}$" })),
            "schema_ref": optional(json!({
                "description": "The same contract as a reference, like 'schema://clutch/research/summary@1'",
                "type": "string", "maxLength": limit::NAME_BYTES + "schema://clutch/".len(),
                "pattern": r"^schema://clutch/[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*@[1-9][0-9]{0,8}$" })),
            "payload": { "description": "What the message says, by its type", "type": "object" },
            "requires": optional(needs("What whoever does it must be able to do, all of it")),
            "prefers": optional(needs("What whoever does it had better be able to do")),
            "security": optional(security()),
            "attachments": optional(list(attachment())),
            "idempotency_key": optional(name("Names the command: sent again with another id, it is done once",
                                             limit::IDEMPOTENCY_KEY_BYTES)),
            "attempt": optional(json!({ "description": "Which try this is", "type": "integer", "minimum": 1,
                                        "maximum": u32::MAX, "default": 1 })),
            "meta": optional(meta()),
            "deadline": { "description": "By when a 'task.request' has to be done, written as 'ts' is; after that it has failed" },
            "limits": { "description": "What a 'task.request' may take: 'max_runtime_sec' for an attempt, and 'max_attempts'" },
        },
        "allOf": [limits_of_requests()],
    })
}

/// Only of requests are the limits looked at.
fn limits_of_requests() -> Value {
    let count = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
    json!({
        "if": { "properties": { "type": { "enum": [MessageType::TaskRequest.as_str(), LegacyType::Plan.as_str()] } } },
        "then": { "properties": {
            "deadline": optional(json!({ "type": "string", "format": "date-time", "pattern": TIME })),
            "limits": optional(json!({ "type": "object", "properties": {
                "max_runtime_sec": optional(count.clone()), "max_attempts": optional(count) } })),
        } },
    })
}

/// A request as far as it is written: what it leaves out does not matter for who would get it.
pub fn draft() -> Value {
    let mut draft = envelope();
    if let Some(fields) = draft.as_object_mut() {
        fields.remove("required");
    }
    draft["title"] = json!("TaskDraft");
    draft["description"] = json!("A 'task.request', or as much of one as there is.");
    if let Some(properties) = draft["properties"].as_object_mut() {
        for property in properties.values_mut() {
            *property = optional(property.take());
        }
    }
    draft["properties"]["type"] =
        json!({ "enum": [MessageType::TaskRequest.as_str(), LegacyType::Plan.as_str(), Value::Null] });
    draft
}

/// A message as it is shown: as it was sent, or as it was made from what happened by another surface. Each is valid by
/// [`envelope`] too; this describes what such a message has in the fields that mean something else there.
pub fn shown() -> Value {
    let text = |description: &str| json!({ "description": description, "type": "string" });
    let somebody = json!({ "type": "object", "required": ["agent_id"], "properties": {
        "agent_id": text("'agent:', 'person:', 'group:' or 'mcp:' and a name, or 'system'") } });
    let mut shown = envelope();
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("allOf");
    }
    shown["title"] = json!("ShownMessage");
    shown["description"] = json!(
        "A message as it was sent, or what happened by another face as one. Fields that are not named here are shown as they were sent."
    );
    shown["properties"]["id"] = text("Names this message for good");
    shown["properties"]["thread_id"] = text("The conversation; 'thr_default' for what belongs to none");
    shown["properties"]["run_id"] = text("The execution; 'run_default' for what belongs to none");
    shown["properties"]["task_id"] = text("The unit of work that it is about; 'task_none' if it is about none");
    let mut from = somebody.clone();
    from["properties"]["role"] = optional(text(
        "What it is in the team; of 'system', the part of it: 'watcher', or 'anonymous' for a caller without a name",
    ));
    shown["properties"]["from"] = from;
    shown["properties"]["to"] = json!({ "description": "Who gets it; 'group:all' if it concerns no agent more than others",
        "type": "array", "items": somebody });
    shown["properties"]["type"] = text(
        "A type of the protocol, or one that begins with 'x.': a sender's own, or the kind of an event, like 'x.task.claimed'",
    );
    shown
}

pub(super) fn name(description: &str, most: usize) -> Value {
    json!({ "description": description, "type": "string", "maxLength": most, "pattern": NAME })
}

fn id(description: &str, prefix: &str, most: usize) -> Value {
    json!({ "description": format!("{description}; '{prefix}' in front is left out"), "type": "string",
            "pattern": prefixed(&[prefix], &[prefix], most) })
}

/// A name with one of these kinds in front or none, and with none of those inside. Schemas count characters and the reader
/// bytes, so that a schema is never stricter.
pub(super) fn prefixed(in_front: &[&str], never_inside: &[&str], most: usize) -> String {
    let (in_front, never_inside) = (in_front.join("|"), never_inside.join("|"));
    format!(r"^({in_front})?(?!{never_inside})[^\s\u0000-\u001f\u007f-\u009f]{{1,{most}}}$")
}

/// Null is as good as nothing.
pub(super) fn optional(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

pub(super) fn list(items: Value) -> Value {
    json!({ "type": "array", "maxItems": limit::LIST_ENTRIES, "items": items })
}

fn trace() -> Value {
    json!({
        "description": "Carried through, for tracing across programs", "type": "object",
        "properties": {
            "trace_id": optional(name("The trace", limit::NAME_BYTES)),
            "span_id": optional(name("The span within it", limit::NAME_BYTES)),
        },
    })
}

fn sender() -> Value {
    let pattern = prefixed(&["agent:", "person:"], &KINDS, limit::AGENT_ID_BYTES);
    json!({
        "description": "Who sends it", "type": "object", "required": ["agent_id"],
        "properties": {
            "agent_id": { "description": "An agent, with or without 'agent:' in front, or 'person:' and a name; messages of the daemon may be from 'system'",
                          "type": "string", "pattern": pattern },
            "role": optional(json!({ "description": "What it is in the team", "type": "string",
                                     "maxLength": limit::NAME_BYTES })),
        },
    })
}

fn recipient() -> Value {
    let pattern = prefixed(&KINDS, &KINDS, limit::AGENT_ID_BYTES);
    json!({
        "type": "object", "required": ["agent_id"],
        "properties": {
            "agent_id": {
                "description": "An agent, 'group:' and the name of a group or role, 'person:' and a name, 'mcp:' and a server of tools, or 'agent:orchestrator', who chooses",
                "type": "string", "pattern": pattern },
        },
    })
}

fn message_type() -> Value {
    let of = |internal: bool| {
        MessageType::KNOWN.iter().filter(|known| known.is_internal() == internal).map(MessageType::as_str).collect()
    };
    let (sent, made): (Vec<_>, Vec<_>) = (of(false), of(true));
    let legacy = LegacyType::ALL.map(LegacyType::as_str);
    json!({
        "description": "What it is: a type of the protocol, one from before it, or one of your own that begins with 'x.'",
        "type": "string",
        "anyOf": [
            { "enum": sent },
            { "enum": made, "description": "Only the daemon sends these", "readOnly": true },
            { "enum": legacy, "deprecated": true },
            { "pattern": r"^x(\.[A-Za-z0-9_-]+)+$", "maxLength": limit::NAME_BYTES },
        ],
    })
}

fn needs(description: &str) -> Value {
    json!({
        "description": description, "type": "array", "maxItems": limit::LIST_ENTRIES,
        "items": { "description": "A capability, with a range of versions if not every one will do: 'skill:research@^1.0'",
                   "type": "string", "pattern": NEED },
    })
}

fn security() -> Value {
    json!({
        "type": "object",
        "properties": {
            "auth": optional(json!({
                "description": "A signature of the canonical form (RFC 8785) of the envelope without 'security.auth.sig'",
                "type": "object", "required": ["scheme", "kid", "sig"],
                "properties": {
                    "scheme": { "const": security::SCHEME },
                    "kid": name("Which of the sender's keys", limit::NAME_BYTES),
                    "sig": name("The signature", limit::SIGNATURE_BYTES),
                } })),
            "policy": optional(json!({
                "description": "How the work may be done", "type": "object",
                "properties": {
                    "sandbox": optional(json!({ "type": "boolean" })),
                    "tool_allowlist": optional(list(name("A tool or server, like 'mcp:browser'", limit::NAME_BYTES))),
                    "network": { "enum": with_null(&Network::ALL.map(Network::as_str)) },
                    "trust_level": { "enum": with_null(&TrustLevel::ALL.map(TrustLevel::as_str)) },
                } })),
        },
    })
}

fn with_null(words: &[&str]) -> Vec<Value> {
    words.iter().map(|&word| Value::from(word)).chain([Value::Null]).collect()
}

fn attachment() -> Value {
    json!({
        "type": "object", "required": ["kind"],
        "properties": {
            "kind": name("'artifact_ref' for what the artifact store holds; others are carried through as they are", limit::NAME_BYTES),
            "ref": { "description": "Of an 'artifact_ref': like 'artifact:report_456'" },
        },
        "if": { "properties": { "kind": { "const": "artifact_ref" } } },
        "then": { "required": ["ref"], "properties": { "ref": {
            "type": "string", "maxLength": limit::PATH_BYTES, "pattern": r"^artifact:[^\s\u0000-\u001f\u007f-\u009f]+$" } } },
    })
}

fn meta() -> Value {
    json!({
        "description": "Whatever a framework adds", "type": "object",
        "properties": {
            "framework": { "description": "What the sender is made with, like 'langgraph'" },
            "workflow": optional(name("The workflow whose rules results of this request keep", limit::NAME_BYTES)),
            "step": optional(name("The step of it", limit::NAME_BYTES)),
            "ui_channel": optional(json!({ "description": "The channel that people see it in", "type": "string",
                                           "maxLength": limit::NAME_BYTES })),
        },
    })
}
