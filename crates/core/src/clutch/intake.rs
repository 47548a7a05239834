//! What an envelope asks for, made out of its type and payload: the last that is read before the rules decide.

use serde_json::{Map, Value, json};

use super::excerpt::Whole;
use super::form::{Fields, Read};
use super::place::Place;
use super::{
    Act, Envelope, EnvelopeReceived, Faults, Heartbeat, Ingest, Received, Signing, SigningPolicy, ToolCall, json,
};
use crate::agents::{Announcement, EndpointGrant, RegisterAgent};
use crate::kernel::caller::Actor;
use crate::kernel::hex::hex;
use crate::kernel::id::{AgentId, Timestamp};
use crate::kernel::parse::{FaultCode, Flaw};
use crate::kernel::{limit, parse};
use crate::messages::{Cause, StormGuard, Tone};
use crate::model::addressee;
use crate::model::addressee::{Address, ORCHESTRATOR};
use crate::model::capabilities::{Card, VERSION};
use crate::model::contract::ContractBinding;
use crate::model::message_type::MessageType;
use crate::model::task::{Outcome, RequestTerms};
use crate::tasks::FailureRetry;
use crate::{artifacts, clutch, tasks};

/// What is done with an envelope.
#[derive(Clone, PartialEq, Debug)]
pub enum Taken {
    /// A sign of life, which the log does not keep.
    Heartbeat(Heartbeat),
    Command(Box<Ingest>),
}

/// What each of these asks for, or all that is wrong with what they say.
pub fn take_in(received: &[Received<'_>], guard: StormGuard) -> Result<Vec<Taken>, Faults> {
    let (mut taken, mut faults) = (Vec::with_capacity(received.len()), Faults::default());
    for Received { envelope, index, body } in received {
        let root = Place::Root;
        let place = index.map_or(root, |index| Place::Entry(&root, index));
        taken.extend(one(envelope, &Whole::of(body), guard, &place, &mut faults));
    }
    if faults.is_empty() { Ok(taken) } else { Err(faults) }
}

fn one(
    envelope: &Envelope,
    whole: &Whole<'_>,
    guard: StormGuard,
    place: &Place<'_>,
    faults: &mut Faults,
) -> Read<Taken> {
    if envelope.message_type == MessageType::AgentHeartbeat {
        let empty = Map::new();
        let payload = envelope.payload().as_object().unwrap_or(&empty);
        return agent(envelope, place, faults).map(|agent| Taken::Heartbeat(Heartbeat::read(agent, payload)));
    }
    let act = act(envelope, whole, guard, place, faults)?;
    let artifacts = attached(envelope, place, faults)?;
    let received = EnvelopeReceived {
        message: envelope.id.clone(),
        message_type: envelope.message_type.clone(),
        run: envelope.run.clone(),
        thread: envelope.thread.clone(),
        task: envelope.task.clone(),
        parent: envelope.parent.clone(),
        ts: envelope.ts,
        role: envelope.from.role.clone(),
        to: envelope.to.clone(),
        domain: envelope.domain.clone(),
        payload_type: envelope.payload_type.clone(),
        hash: hex(&envelope.sameness()),
        delivered: vec![],
        signed_by: None,
        denied: None,
        artifacts,
        ui_channel: envelope.meta.ui_channel.clone(),
    };
    Some(Taken::Command(Box::new(Ingest {
        received,
        from: envelope.from.actor.clone(),
        act,
        signing: Signing { policy: SigningPolicy::Off, by: None },
        checked: None,
    })))
}

/// The artifacts that it names. Nobody has to have them: they may be uploaded later.
fn attached(envelope: &Envelope, place: &Place<'_>, faults: &mut Faults) -> Read<Vec<String>> {
    let named = envelope.attachments.iter().filter(|attachment| attachment.artifact().is_some());
    match artifacts::named(named.filter_map(|attachment| attachment.reference.as_deref())) {
        Ok(artifacts) => Some(artifacts),
        Err(refusal) => {
            faults.add(FaultCode::TooLarge, &Place::Field(place, "attachments"), refusal.to_string());
            None
        }
    }
}

fn act(envelope: &Envelope, whole: &Whole<'_>, guard: StormGuard, place: &Place<'_>, faults: &mut Faults) -> Read<Act> {
    let empty = Map::new();
    let payload = envelope.payload().as_object().unwrap_or(&empty);
    let told = |fields: &[&str]| told(payload, fields).map(|text| whole.text(&text));
    Some(match &envelope.message_type {
        MessageType::TaskRequest => Act::Request(Box::new(request(envelope, payload, place, faults)?)),
        MessageType::TaskAccept => Act::Accept(agent(envelope, place, faults)?),
        MessageType::TaskProgress => Act::Progress,
        MessageType::TaskResult => {
            Act::Complete(Outcome { text: told(&OUTCOME), detail: Some(whole.payload(payload)) })
        }
        MessageType::TaskError => Act::Fail { error: whole.text(&error(payload)), retry: failure_retry(payload) },
        MessageType::TaskCancel => Act::Cancel(told(&REASON)),
        MessageType::ChatMessage => {
            let place = Place::Field(place, "payload");
            let (text, mentions) = speech(&mut Fields::new(payload, &place, faults))?;
            Act::Say { text: whole.text(&text), mentions, tone: Tone::Speech, cause: Cause::Nothing, people: vec![], guard }
        }
        MessageType::ChatSystem => Act::Say {
            text: told(&NOTICE).unwrap_or_else(|| whole.text(&written(payload))),
            mentions: vec![],
            tone: Tone::Notice,
            cause: Cause::Nothing,
            people: vec![],
            guard,
        },
        MessageType::AgentRegister => {
            let card = card(payload).map_err(|found| faults.append(found.within(place, "payload"))).ok()?;
            Act::Register(Box::new(RegisterAgent::with_card(card, EndpointGrant::Unchanged)))
        }
        MessageType::AgentUpdate => {
            let change = payload.get("card").and_then(Value::as_object).unwrap_or(payload).clone();
            let agent = agent(envelope, place, faults)?;
            Act::Register(Box::new(RegisterAgent { agent, announcement: Announcement::CardChange(change) }))
        }
        MessageType::ToolCall => Act::Call(ToolCall::of(envelope)),
        MessageType::ToolResult
        | MessageType::ToolError
        | MessageType::Extension(_)
        // What only the daemon sends was refused when it was read.
        | MessageType::AgentHeartbeat
        | MessageType::TaskTimeout
        | MessageType::RoutingDecision
        | MessageType::RoutingFailure => Act::Record,
    })
}

/// The agent that sends it. People do not work on tasks and have no card.
fn agent(envelope: &Envelope, place: &Place<'_>, faults: &mut Faults) -> Read<AgentId> {
    match &envelope.from.actor {
        Actor::Agent(id) => Some(id.clone()),
        other => {
            let from = Place::Field(place, "from");
            let message = format!("'{}' is sent by agents, and '{other}' is none", envelope.message_type);
            faults.add(FaultCode::InvalidField, &Place::Field(&from, "agent_id"), message);
            None
        }
    }
}

/// On what terms a draft of a request asks for work. Whatever else a message needs can be left out of a draft.
pub fn draft_terms(bytes: &[u8]) -> Result<RequestTerms, Faults> {
    let (value, faults) = json::read(bytes, &Place::Root)?;
    let Value::Object(given) = value else {
        return Err(Faults::of(FaultCode::WrongType, &Place::Root, "a draft is an object"));
    };
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut draft = Map::from_iter([
        ("v".to_owned(), Value::from(VERSION)),
        ("ts".to_owned(), Value::from("2026-01-01T00:00:00Z")),
        ("type".to_owned(), Value::from(MessageType::TaskRequest.as_str())),
        ("from".to_owned(), json!({ "agent_id": "draft" })),
        ("to".to_owned(), json!([{ "agent_id": ORCHESTRATOR }])),
        ("payload".to_owned(), json!({})),
    ]);
    for field in ["id", "thread_id", "run_id", "task_id"] {
        draft.insert(field.to_owned(), Value::from("draft"));
    }
    draft.extend(given.into_iter().filter(|(_, value)| !value.is_null()));
    let draft = Envelope::read(&serde_json::to_vec(&draft).unwrap_or_default())?;
    if draft.message_type != MessageType::TaskRequest {
        let place = Place::Field(&Place::Root, "type");
        return Err(Faults::of(FaultCode::InvalidField, &place, "only a 'task.request' is routed"));
    }
    let mut faults = Faults::default();
    match request(&draft, &Map::new(), &Place::Root, &mut faults) {
        Some(request) => Ok(request.terms),
        None => Err(faults),
    }
}

/// The fields of a payload that say in a few words what it is about, the best first.
const TITLE: [&str; 8] = ["title", "query", "text", "goal", "task", "summary", "name", "description"];

const DESCRIPTION: [&str; 6] = ["description", "text", "query", "goal", "instructions", "prompt"];

const OUTCOME: [&str; 5] = ["summary", "title", "text", "message", "outcome"];

const REASON: [&str; 4] = ["reason", "message", "text", "title"];

const NOTICE: [&str; 6] = ["text", "message", "title", "reason", "description", "summary"];

/// The first of some fields that says something.
fn told(payload: &Map<String, Value>, fields: &[&str]) -> Option<String> {
    let texts = fields.iter().filter_map(|field| payload.get(*field).and_then(Value::as_str));
    texts.into_iter().find(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn written(payload: &Map<String, Value>) -> String {
    serde_json::to_string(payload).unwrap_or_default()
}

/// The beginning of a text, whole characters of it.
fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn speech(fields: &mut Fields<'_>) -> Read<(String, Vec<AgentId>)> {
    let text = fields.required("text", "what is said, a string", |value| {
        let text = parse::text(limit::ENVELOPE_BYTES)(value)?;
        if text.trim().is_empty() { Err(Flaw::invalid("must not be empty")) } else { Ok(text) }
    });
    let mentions = fields.list("mentions", |value| match addressee::recipient(value)? {
        Address::Agent(id) => Ok(id),
        other => Err(Flaw::invalid(format!("'{other}' is no agent; only agents are mentioned"))),
    });
    Some((text?.to_owned(), mentions?))
}

/// As `CODE: message`.
fn error(payload: &Map<String, Value>) -> String {
    let code = payload.get("code").and_then(Value::as_str);
    let message = told(payload, &["message", "error", "reason", "text", "title"]);
    match (code, message) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, Some(message)) => message,
        (None, None) => written(payload),
    }
}

/// Whoever tells an error says whether another try may help; who says nothing does not think so.
fn failure_retry(payload: &Map<String, Value>) -> FailureRetry {
    match payload.get("retryable") {
        Some(Value::Bool(true)) => FailureRetry::Backoff(tasks::RETRY_BACKOFF_MILLIS),
        _ => FailureRetry::Never,
    }
}

/// A card that is the payload, or is named in it.
fn card(payload: &Map<String, Value>) -> Result<Card, Faults> {
    match payload.get("card") {
        Some(card) => Card::read(card).map_err(|faults| faults.within(&Place::Root, "card")),
        None => Card::read(&Value::Object(payload.clone())),
    }
}

fn request(
    envelope: &Envelope,
    payload: &Map<String, Value>,
    place: &Place<'_>,
    faults: &mut Faults,
) -> Read<tasks::Request> {
    let limits = limits(&mut Fields::new(envelope.document(), place, faults))?;
    let named = || envelope.payload_type.as_ref().map(ToString::to_string).or(envelope.domain.clone());
    let title = told(payload, &TITLE).or_else(named).unwrap_or_else(|| envelope.task.to_string());
    let description = told(payload, &DESCRIPTION).unwrap_or_else(|| written(payload));
    let create = tasks::CreateTask {
        id: envelope.task.clone(),
        run: envelope.run.clone(),
        title: beginning(&title, limit::TITLE_BYTES).to_owned(),
        description: beginning(&description, limit::TEXT_BYTES).to_owned(),
        assigned_by: envelope.from.actor.to_string(),
        assigned_to: None,
        resources: vec![],
        depends_on: vec![],
    };
    let terms = RequestTerms {
        request: envelope.id.clone(),
        to: envelope.to.clone(),
        requires: envelope.requires.clone(),
        prefers: envelope.prefers.clone(),
        domain: envelope.domain.clone(),
        policy: envelope.security.policy.clone(),
        members: vec![],
        bound: bound(envelope),
        deadline: limits.deadline.or_else(|| payload.get("deadline")?.as_str().and_then(clutch::parse_instant)),
        max_runtime_sec: limits.max_runtime_sec.or_else(|| counted(payload, "max_runtime_sec")),
        max_attempts: limits.max_attempts.or_else(|| counted(payload, "max_attempts")),
        trace: envelope.trace.clone(),
    };
    Some(tasks::Request { create, thread: envelope.thread.clone(), parent: envelope.parent.clone(), terms })
}

fn bound(envelope: &Envelope) -> Option<ContractBinding> {
    let (workflow, step) = (envelope.meta.workflow.clone()?, envelope.meta.step.clone()?);
    Some(ContractBinding { workflow, step })
}

/// What a payload says about its limits counts if it can be understood; payloads are anybody's own.
fn counted(payload: &Map<String, Value>, field: &str) -> Option<u32> {
    let limits = payload.get("limits").and_then(Value::as_object).unwrap_or(payload);
    limits.get(field).and_then(|value| parse::count(value).ok())
}

#[derive(Default)]
struct Limits {
    max_runtime_sec: Option<u32>,
    max_attempts: Option<u32>,
    deadline: Option<Timestamp>,
}

/// `deadline` and `limits`, as cards name them, beside the payload.
fn limits(fields: &mut Fields<'_>) -> Read<Limits> {
    let deadline = fields.optional("deadline", |value| {
        let expected = "must be a time with a zone (RFC 3339), like '2026-02-01T13:20:11.123Z'";
        clutch::parse_instant(parse::string(value)?).ok_or_else(|| Flaw::invalid(expected))
    });
    let limits = fields.optional_object("limits", |limits| {
        let max_runtime_sec = limits.optional("max_runtime_sec", parse::count);
        let max_attempts = limits.optional("max_attempts", parse::count);
        Some(Limits { max_runtime_sec: max_runtime_sec?, max_attempts: max_attempts?, deadline: None })
    });
    Some(Limits { deadline: deadline?, ..limits?.unwrap_or_default() })
}
