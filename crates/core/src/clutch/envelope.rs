//! The envelope, read strictly from JSON: all that the protocol names is checked, everything else is kept.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::form::{Fields, Read};
use super::place::Place;
use super::{Attachment, Faults, LegacyType, Security, attachment, canon, json, legacy, security};
use crate::clutch;
use crate::kernel::caller::Actor;
use crate::kernel::id::{MessageId, NO_TASK, RunId, TaskId, ThreadId, Timestamp};
use crate::kernel::parse::{FaultCode, Flaw, quoted};
use crate::kernel::{limit, parse};
use crate::model::addressee::Address;
use crate::model::capabilities::VERSION;
use crate::model::message_type::MessageType;
use crate::model::payload_type::PayloadType;
use crate::model::requirement::Requirement;
use crate::model::trace::Trace;
use crate::model::{addressee, message_type, payload_type, requirement};

/// A message in the words of the protocol. Ids are without the kind in front of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Envelope {
    pub id: MessageId,
    /// The sender's time, which orders nothing.
    pub ts: Timestamp,
    pub thread: ThreadId,
    pub run: RunId,
    pub task: TaskId,
    pub parent: Option<TaskId>,
    pub trace: Trace,
    pub from: Sender,
    /// At least one, each once, in the order they were named.
    pub to: Vec<Address>,
    /// In today's words.
    pub message_type: MessageType,
    /// The word that was sent, if it was one of before the protocol.
    pub legacy: Option<LegacyType>,
    pub domain: Option<String>,
    /// From `payload_type`, else from `schema_ref`.
    pub payload_type: Option<PayloadType>,
    pub requires: Vec<Requirement>,
    pub prefers: Vec<Requirement>,
    pub security: Security,
    pub attachments: Vec<Attachment>,
    pub idempotency_key: Option<String>,
    pub attempt: u32,
    pub meta: Meta,
    document: Map<String, Value>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    /// An agent or a person, as it says.
    pub actor: Actor,
    pub role: Option<String>,
}

/// The parts of `meta` that mean something here.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Meta {
    pub workflow: Option<String>,
    pub step: Option<String>,
    /// The channel that people see it in.
    pub ui_channel: Option<String>,
}

impl Envelope {
    pub fn read(bytes: &[u8]) -> Result<Envelope, Faults> {
        Envelope::read_at(bytes, &Place::Root)
    }

    /// One of several, whose faults are told with its place among them.
    pub(super) fn read_at(bytes: &[u8], place: &Place<'_>) -> Result<Envelope, Faults> {
        check_size(bytes, place)?;
        let (value, mut faults) = json::read(bytes, place)?;
        let document = match value {
            Value::Object(document) => document,
            other => {
                faults.add(
                    FaultCode::WrongType,
                    place,
                    format!("an envelope is an object, not {}", parse::kind(&other)),
                );
                return Err(faults);
            }
        };
        let read = envelope(&mut Fields::new(&document, place, &mut faults));
        if document_is_signed(&document) {
            exact_numbers(&document, place, &mut faults);
        }
        match read {
            Some(envelope) if faults.is_empty() => Ok(Envelope { document, ..envelope }),
            _ => Err(faults),
        }
    }

    /// An object.
    pub fn payload(&self) -> &Value {
        self.document.get("payload").unwrap_or(&Value::Null)
    }

    /// All that was sent, also what the protocol does not know.
    pub fn document(&self) -> &Map<String, Value> {
        &self.document
    }

    /// As it is shown: as it was sent, in today's words.
    pub fn shown(&self) -> Value {
        let mut document = self.document.clone();
        legacy::translate(&mut document);
        Value::Object(document)
    }

    /// The bytes that `security.auth.sig` is a signature of.
    pub fn signing_form(&self) -> Vec<u8> {
        canon::signing_form(&self.document)
    }

    /// Two messages with one id are the same message if these hashes are the same.
    pub fn sameness(&self) -> [u8; 32] {
        canon::sameness(&self.document)
    }

    /// Two messages with one idempotency key are the same command if these hashes are the same.
    pub fn command_hash(&self) -> [u8; 32] {
        canon::command_hash(&self.document)
    }
}

fn check_size(bytes: &[u8], place: &Place<'_>) -> Result<(), Faults> {
    let most = limit::ENVELOPE_BYTES;
    if bytes.len() <= most {
        return Ok(());
    }
    let message = format!(
        "a message of {} bytes; at most {most} are taken: store what is large as an artifact and attach its reference",
        bytes.len()
    );
    Err(Faults::of(FaultCode::TooLarge, place, message))
}

/// Every field is read before any that is missing ends it.
fn envelope(fields: &mut Fields<'_>) -> Read<Envelope> {
    let version = fields.required("v", "'clutch/0.1'", version);
    let id = fields.required("id", "a string that names this message for good", parse::name(limit::MESSAGE_ID_BYTES));
    let ts = fields.required("ts", "a time, like '2026-02-01T13:20:11.123Z'", time);
    let thread = fields.required("thread_id", "the id of a thread, a string", parse::id("thread:", limit::NAME_BYTES));
    let run = fields.required("run_id", "the id of a run, a string", parse::id("run:", limit::NAME_BYTES));
    let task = fields.required("task_id", "the id of a task, a string", parse::id("task:", limit::TASK_ID_BYTES));
    let parent = parent(fields, task);
    let trace = fields.optional_object("trace", trace);
    let from = fields.required_object("from", "an object with the sender's 'agent_id'", sender);
    let to = recipients(fields);
    let kind = fields.required("type", "the message's type, like 'task.result'", kind);
    let domain = fields.optional("domain", parse::name(limit::NAME_BYTES));
    let payload_type = payload_type(fields);
    let payload = fields.required("payload", "an object", parse::object);
    let requires = fields.list("requires", requirement::read);
    let prefers = fields.list("prefers", requirement::read);
    let security = fields.optional_object("security", security::read);
    let attachments = fields.objects("attachments", attachment::read);
    let key = fields.optional("idempotency_key", parse::name(limit::IDEMPOTENCY_KEY_BYTES));
    let attempt = fields.optional("attempt", parse::count);
    let meta = fields.optional_object("meta", meta);
    version?;
    let (message_type, legacy) = match kind? {
        Kind::Today(message_type) => (message_type, None),
        Kind::Legacy(legacy) => (legacy.equivalent(payload), Some(legacy)),
    };
    payload?;
    if message_type == MessageType::TaskRequest && task == Some(NO_TASK) {
        let message = format!("'{NO_TASK}' means that a message is about no task; choose another id for this one");
        fields.fault("task_id", Flaw::new(FaultCode::ReservedName, message));
        return None;
    }
    let implied = |field: &str| {
        let implied = legacy.and_then(LegacyType::implies);
        implied.filter(|(implied, _)| *implied == field).map(|(_, value)| value)
    };
    Some(Envelope {
        id: MessageId::from(id?),
        ts: ts?,
        thread: ThreadId::from(thread?),
        run: RunId::from(run?),
        task: TaskId::from(task?),
        parent: parent?,
        trace: trace?.unwrap_or_default(),
        from: from?,
        to: to?,
        message_type,
        legacy,
        domain: domain?.or(implied("domain")).map(str::to_owned),
        payload_type: payload_type?.or(implied("payload_type").and_then(PayloadType::parse)),
        requires: requires?,
        prefers: prefers?,
        security: security?.unwrap_or_default(),
        attachments: attachments?,
        idempotency_key: key?.map(str::to_owned),
        attempt: attempt?.unwrap_or(1),
        meta: meta?.unwrap_or_default(),
        document: Map::new(),
    })
}

fn version(value: &Value) -> Result<(), Flaw> {
    match parse::string(value)? {
        VERSION => Ok(()),
        other => Err(Flaw::new(
            FaultCode::UnsupportedVersion,
            format!("{} is not spoken here: expected '{VERSION}'", quoted(other)),
        )),
    }
}

fn time(value: &Value) -> Result<Timestamp, Flaw> {
    let text = parse::string(value)?;
    clutch::parse_instant(text).ok_or_else(|| {
        let expected = "must be a time with a zone (RFC 3339), like '2026-02-01T13:20:11.123Z'";
        Flaw::invalid(format!("{} {expected}", quoted(text)))
    })
}

fn parent(fields: &mut Fields<'_>, task: Option<&str>) -> Read<Option<TaskId>> {
    let parent = fields.optional("parent_task_id", parse::id("task:", limit::TASK_ID_BYTES))?;
    if parent.is_some() && parent == task {
        fields.fault(
            "parent_task_id",
            Flaw::invalid("is the task itself; expected the task that it is part of, or null"),
        );
        return None;
    }
    Some(parent.map(TaskId::from))
}

fn trace(fields: &mut Fields<'_>) -> Read<Trace> {
    let trace_id = fields.optional("trace_id", parse::name(limit::NAME_BYTES));
    let span_id = fields.optional("span_id", parse::name(limit::NAME_BYTES));
    Some(Trace { trace_id: trace_id?.map(str::to_owned), span_id: span_id?.map(str::to_owned) })
}

fn sender(fields: &mut Fields<'_>) -> Read<Sender> {
    let actor = fields.required("agent_id", "the sender's id, like 'agent:ken'", addressee::sender);
    let role = fields.optional("role", parse::text(limit::NAME_BYTES));
    Some(Sender { actor: actor?, role: role?.map(str::to_owned) })
}

fn recipients(fields: &mut Fields<'_>) -> Read<Vec<Address>> {
    const EXPECTED: &str = "a list of recipients, like [{\"agent_id\": \"agent:orchestrator\"}]";
    let mut named = BTreeSet::new();
    let to = fields.required_objects("to", EXPECTED, |entry| {
        let address = entry.required("agent_id", "a recipient, like 'agent:ken'", addressee::recipient)?;
        if !named.insert(address.clone()) {
            let message = format!("names {} a second time", quoted(&address.to_string()));
            entry.fault("agent_id", Flaw::new(FaultCode::DuplicateRecipient, message));
        }
        Some(address)
    })?;
    if to.is_empty() {
        fields.fault("to", Flaw::invalid(format!("must not be empty: expected {EXPECTED}")));
    }
    Some(to)
}

enum Kind {
    Today(MessageType),
    Legacy(LegacyType),
}

fn kind(value: &Value) -> Result<Kind, Flaw> {
    let word = parse::string(value)?;
    match LegacyType::parse(word) {
        Some(legacy) => Ok(Kind::Legacy(legacy)),
        None => message_type::incoming(word).map(Kind::Today),
    }
}

/// From either field; both must name the same.
fn payload_type(fields: &mut Fields<'_>) -> Read<Option<PayloadType>> {
    let named = fields.optional("payload_type", payload_type::read);
    let referred = fields.optional("schema_ref", payload_type::read_ref);
    match (named?, referred?) {
        (Some(named), Some(referred)) if named != referred => {
            let message = format!("is '{referred}', but payload_type is '{named}': expected '{}'", named.schema_ref());
            fields.fault("schema_ref", Flaw::new(FaultCode::SchemaRefMismatch, message));
            None
        }
        (named, referred) => Some(named.or(referred)),
    }
}

fn meta(fields: &mut Fields<'_>) -> Read<Meta> {
    let workflow = fields.optional("workflow", parse::name(limit::NAME_BYTES));
    let step = fields.optional("step", parse::name(limit::NAME_BYTES));
    let ui_channel = fields.optional("ui_channel", parse::text(limit::NAME_BYTES));
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Some(Meta { workflow: owned(workflow?), step: owned(step?), ui_channel: owned(ui_channel?) })
}

fn document_is_signed(document: &Map<String, Value>) -> bool {
    document.get("security").and_then(|security| security.get("auth")).is_some_and(|auth| !auth.is_null())
}

/// The signing form writes numbers as doubles. A whole number that is none would be signed as its neighbour, and a message
/// with that neighbour would be signed as well.
fn exact_numbers(object: &Map<String, Value>, place: &Place<'_>, faults: &mut Faults) {
    for (name, value) in object {
        exact_number(value, &Place::Field(place, name), faults);
    }
}

fn exact_number(value: &Value, place: &Place<'_>, faults: &mut Faults) {
    match value {
        Value::Number(number) if !canon::is_exact(number) => {
            let message = format!("{number} cannot be signed, because it is no double: write it as a string");
            faults.add(FaultCode::InexactNumber, place, message);
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                exact_number(entry, &Place::Entry(place, index), faults);
            }
        }
        Value::Object(object) => exact_numbers(object, place, faults),
        _ => {}
    }
}
