//! Any row of the log as a ClutchMessage envelope (`clutch/0.1`).
//!
//! What came in as an envelope is shown as it was sent, in today's words ([`received`]); what followed from one is shown under
//! its own kind ([`following`]), for the protocol's type was the envelope's; any other fact is shown with the protocol's own type
//! where one fits and with `x.` and its kind otherwise. All are in the project's default run and thread if they have none, about
//! [`NO_TASK`] if they are about none, and to everyone if they concern no agent more than others: each is valid by the
//! published schema ([`schema::envelope`](crate::clutch::schema::envelope)).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::clutch::{EnvelopeReceived, ToolDenied, legacy};
use crate::kernel::caller::Actor;
use crate::kernel::event_id;
use crate::kernel::id::{AgentId, MessageId, NO_TASK, RunId, TaskId, ThreadId, Timestamp};
use crate::kernel::time::iso;
use crate::model::addressee::ORCHESTRATOR;
use crate::model::capabilities::VERSION;
use crate::model::message::{Form, Header, Letter, Message, Recipients};
use crate::model::message_type::MessageType;
use crate::model::task::{ReleaseCause, Task};
use crate::registry::EventRef;
use crate::routing::TaskForwarded;
use crate::tasks::{TaskCreated, TimeLimit};
use crate::traits::{AnyEvent, Body, BodyBytes, LogRow};

/// The sender of messages that are by no agent and no person.
const SYSTEM: &str = "system";

/// The recipient of messages that concern everybody.
const EVERYONE: &str = "group:all";

/// In front of kinds that are no types of the protocol.
const EXTENSION: &str = "x.";

/// The types that kinds of facts are shown with where the protocol has none.
static EXTENSIONS: LazyLock<BTreeMap<&'static str, String>> =
    LazyLock::new(|| AnyEvent::KINDS.iter().map(|(kind, _)| (*kind, format!("{EXTENSION}{kind}"))).collect());

/// The type that a fact is shown with if the protocol has none for it, or if an envelope that it follows from has that.
pub fn own_type(event: &AnyEvent) -> &'static str {
    EXTENSIONS.get(event.kind()).map_or("x.event", String::as_str)
}

/// The message type that a fact is shown with.
pub fn message_type(event: &AnyEvent) -> &str {
    match event.typed() {
        EventRef::AgentRegistered(_) => "agent.register",
        EventRef::AgentUpdated(_) => "agent.update",
        EventRef::TaskCreated(_) => "task.request",
        EventRef::TaskStarted(_) => "task.accept",
        EventRef::TaskCompleted(_) => "task.result",
        EventRef::TaskFailed(_) => "task.error",
        EventRef::TaskCancelled(_) => "task.cancel",
        // A notification says what the event before it says, which is shown itself.
        EventRef::MessageSent(sent) => {
            if sent.letter.header.is_notification() {
                own_type(event)
            } else {
                "chat.message"
            }
        }
        EventRef::EnvelopeReceived(fact) => fact.message_type.as_str(),
        EventRef::RoutingDecided(_) => "routing.decision",
        EventRef::RoutingFailed(_) => "routing.failure",
        EventRef::TaskForwarded(_) => "task.request",
        EventRef::TaskTimedOut(_) => "task.timeout",
        EventRef::TaskAttemptsExhausted(_) => "task.error",
        EventRef::ToolDenied(_) => "tool.error",
        _ => own_type(event),
    }
}

/// The types of the protocol that facts are shown with, and the kind of those facts.
const PROTOCOLS_OWN: [(&str, &str); 14] = [
    ("agent.register", "agent.registered"),
    ("agent.update", "agent.updated"),
    ("task.request", "task.created"),
    ("task.accept", "task.started"),
    ("task.result", "task.completed"),
    ("task.error", "task.failed"),
    ("task.cancel", "task.cancelled"),
    ("chat.message", "message.sent"),
    ("task.request", "task.forwarded"),
    ("routing.decision", "routing.decided"),
    ("routing.failure", "routing.failed"),
    ("task.timeout", "task.timed_out"),
    ("task.error", "task.attempts_exhausted"),
    ("tool.error", "tool.denied"),
];

/// A notification as it is delivered: the event that it announces, under the message's id and to its recipients.
pub fn of_notification(message: &Message, event: &LogRow) -> Value {
    let mut shown = shown(event, message_type(&event.event));
    shown["id"] = json!(message.id());
    shown["to"] = everybody_named(message.header());
    shown
}

/// What came in as a message is shown with the type that it has.
const RECEIVED: &str = "envelope.received";

/// The kinds of facts by which the router tells what it does, what time brings about, and that nobody takes a call. It
/// tells that as the orchestrator.
pub const ROUTERS_KINDS: [&str; 7] = [
    "routing.decided",
    "routing.failed",
    "routing.resumed",
    "task.forwarded",
    "task.timed_out",
    "task.attempts_exhausted",
    "tool.denied",
];

/// The kinds of facts that are messages with an id of their own, which a table finds by their type.
pub const FILED_KINDS: [&str; 3] = [RECEIVED, "task.forwarded", "tool.denied"];

/// The kinds of facts that may be shown with this type: where to look for them. Each has to be looked at still, because
/// a kind may be shown with one type or another.
pub fn kinds_shown_as(message_type: &str) -> Vec<&'static str> {
    let own = PROTOCOLS_OWN.iter().filter(|(shown, _)| *shown == message_type).map(|(_, kind)| *kind);
    let same = EXTENSIONS.iter().filter(|(_, shown)| *shown == message_type).map(|(kind, _)| *kind);
    let sent = MessageType::parse(message_type).map(|_| RECEIVED);
    own.chain(same).chain(sent).collect()
}

/// Reads the type of messages that are wanted: one of the protocol, one that begins with `x.`, or the kind of a fact, which is
/// shown with `x.` in front.
pub fn shown_type(text: &str) -> Option<String> {
    if MessageType::parse(text).is_some() {
        return Some(text.to_owned());
    }
    EXTENSIONS.get(text).cloned()
}

/// A row of the log whose body, if it has one, is at hand.
pub fn of(row: &LogRow) -> Value {
    match (&row.event, &row.body) {
        (fact, Some(Body { bytes: BodyBytes::Here(bytes), .. })) if has_own_words(fact) => {
            received(bytes).unwrap_or_else(|| without_words(row))
        }
        (fact, _) if has_own_words(fact) => without_words(row),
        (fact, _) => match fact.typed() {
            EventRef::MessageSent(sent) if !sent.letter.header.is_notification() => {
                named(shown(row, message_type(fact)), &sent.letter.header)
            }
            EventRef::ToolDenied(denied) => answer(row, denied),
            _ => shown(row, message_type(fact)),
        },
    }
}

/// A message that was sent is known by its own id, whoever shows it.
fn named(mut message: Value, header: &Header) -> Value {
    message["id"] = json!(header.message);
    message["task_id"] = task_id(header.task.as_ref());
    message
}

fn task_id(task: Option<&TaskId>) -> Value {
    json!(task.map_or(NO_TASK, TaskId::as_str))
}

/// A message of any face as it is delivered.
pub fn of_message(message: &Message) -> Value {
    let header = &message.letter.header;
    json!({
        "v": VERSION,
        "id": header.message,
        "ts": iso(message.at),
        "thread_id": header.thread,
        "run_id": header.run,
        "task_id": task_id(header.task.as_ref()),
        "parent_task_id": null,
        "from": sender(&Actor::parse(header.from.as_str())),
        "to": everybody_named(header),
        "type": MessageType::ChatMessage,
        "payload": words(&message.letter, json!(message.letter)),
        "meta": { "seq": message.sent, "kind": "message.sent" },
    })
}

/// What a coordination message says is called a description here.
fn words(letter: &Letter, mut payload: Value) -> Value {
    if letter.header.form == Form::Coord {
        payload["description"] = json!(letter.text);
    }
    payload
}

/// Whether a fact is an envelope itself, which its body shows.
pub fn has_own_words(fact: &AnyEvent) -> bool {
    fact.is::<EnvelopeReceived>() || fact.is::<TaskForwarded>()
}

/// Whether the router tells something by it.
pub fn is_of_the_router(fact: &AnyEvent) -> bool {
    ROUTERS_KINDS.contains(&fact.kind())
}

fn without_words(row: &LogRow) -> Value {
    match row.event.typed() {
        EventRef::EnvelopeReceived(fact) => header(row, fact),
        EventRef::TaskForwarded(fact) => {
            let mut left = shown(row, message_type(&row.event));
            left["id"] = json!(fact.message);
            left["payload"] = json!({});
            left
        }
        _ => shown(row, message_type(&row.event)),
    }
}

/// The answer to a call of a tool that came to nothing.
fn answer(row: &LogRow, fact: &ToolDenied) -> Value {
    let mut answer = shown(row, message_type(&row.event));
    answer["id"] = json!(fact.message);
    answer["meta"]["in_reply_to"] = json!(fact.call);
    answer
}

/// A row that follows from an envelope.
pub fn following(row: &LogRow) -> Value {
    shown(row, own_type(&row.event))
}

/// An envelope by its body: as it was sent, in today's words.
pub fn received(body: &[u8]) -> Option<Value> {
    let mut document = serde_json::from_slice::<Map<String, Value>>(body).ok()?;
    legacy::translate(&mut document);
    Some(Value::Object(document))
}

/// What is left of an envelope whose body is gone.
fn header(row: &LogRow, fact: &EnvelopeReceived) -> Value {
    let mut left = shown(row, fact.message_type.as_str());
    left["id"] = json!(fact.message);
    left["ts"] = json!(iso(fact.ts));
    left["parent_task_id"] = json!(fact.parent);
    left["to"] = fact.to.iter().map(|address| json!({ "agent_id": address })).collect();
    left["payload"] = json!({});
    for (field, value) in [("domain", json!(fact.domain)), ("payload_type", json!(fact.payload_type))] {
        if !value.is_null() {
            left[field] = value;
        }
    }
    if let Some(role) = &fact.role {
        left["from"]["role"] = json!(role);
    }
    if let Some(ui_channel) = &fact.ui_channel {
        left["meta"]["ui_channel"] = json!(ui_channel);
    }
    left
}

fn shown(row: &LogRow, message_type: &str) -> Value {
    let run = row.run.clone().unwrap_or_else(RunId::project_default);
    let thread = row.thread.clone().unwrap_or_else(ThreadId::project_default);
    let mut message = json!({
        "v": VERSION,
        "id": event_id::of(row.seq),
        "ts": iso(row.at),
        "thread_id": thread,
        "run_id": run,
        "task_id": task_id(row.task()),
        "parent_task_id": parent(&row.event),
        "from": author(row),
        "to": recipients(&row.event),
        "type": message_type,
        "payload": payload(&row.event),
        "meta": { "seq": row.seq, "kind": row.event.kind(), "version": row.event.version(), "auth": row.auth.as_str(),
                  "via": row.via, "cause": row.cause },
    });
    if let Some(trace) = row.event.trace() {
        message["trace"] = json!(trace);
    }
    message
}

/// What the router tells, it tells as the orchestrator, and so is told what time brings about.
fn author(row: &LogRow) -> Value {
    if is_of_the_router(&row.event) { json!({ "agent_id": ORCHESTRATOR }) } else { sender(&row.actor) }
}

/// Agents and people by their ids. The daemon's parts, and callers without a name, are the system, and their role says which.
fn sender(actor: &Actor) -> Value {
    match actor {
        Actor::Agent(_) => json!({ "agent_id": address(actor) }),
        Actor::Person(_) => json!({ "agent_id": address(actor), "role": "person" }),
        Actor::System => json!({ "agent_id": SYSTEM }),
        Actor::Watcher | Actor::Anonymous => json!({ "agent_id": SYSTEM, "role": actor.to_string() }),
    }
}

fn payload(fact: &AnyEvent) -> Value {
    match fact.typed() {
        EventRef::RoutingDecided(fact) => fact.choice.payload(),
        EventRef::MessageSent(sent) => words(&sent.letter, fact.to_value()),
        EventRef::RoutingFailed(fact) => {
            let mut payload = fact.choice.payload();
            if let Some(again_at) = fact.again_at {
                payload["retry_at"] = json!(iso(again_at));
            }
            payload
        }
        EventRef::TaskTimedOut(fact) => json!({
            "code": fact.limit.code(),
            "message": fact.reason,
            "retryable": fact.limit == TimeLimit::Runtime,
            "details": { "attempt": fact.attempt, "due": iso(fact.due), "holder": agent_address(fact.holder.as_ref()) },
        }),
        EventRef::ToolDenied(fact) => fact.denial.payload(&fact.call),
        EventRef::TaskFailed(failed) => as_error(plain(fact), "TASK_FAILED", failed.error.as_deref()),
        EventRef::TaskAttemptsExhausted(exhausted) => {
            as_error(plain(fact), "ATTEMPTS_EXHAUSTED", exhausted.error.as_deref())
        }
        _ => plain(fact),
    }
}

/// The fields of an event that the envelope around it does not repeat.
fn plain(fact: &AnyEvent) -> Value {
    let mut payload = fact.to_value();
    if let Some(fields) = payload.as_object_mut() {
        fields.remove("requested_in");
    }
    payload
}

/// In the protocol's form of an error, beside what the fact says.
fn as_error(mut payload: Value, code: &str, message: Option<&str>) -> Value {
    payload["code"] = json!(code);
    payload["message"] = json!(message.unwrap_or("it failed, and nobody said why"));
    payload["retryable"] = json!(false);
    payload
}

/// A request as the router passes it on to an agent: in the words of the one who asked, if its body is still there.
pub fn forwarded(request: &[u8], task: &Task, to: &AgentId, id: &MessageId, at: Timestamp) -> Value {
    let mut passed_on = json!({
        "v": VERSION,
        "thread_id": task.origin.thread.clone().unwrap_or_else(ThreadId::project_default),
        "run_id": task.run,
        "task_id": task.id,
        "parent_task_id": task.origin.parent,
        "type": MessageType::TaskRequest,
        "payload": { "title": task.title, "description": task.description },
    });
    if let Some(Value::Object(asked)) = received(request) {
        for (field, value) in asked.into_iter().filter(|(field, _)| !PASSED_ON_ANEW.contains(&field.as_str())) {
            passed_on[field] = value;
        }
    }
    let traced = task.origin.terms.as_ref().and_then(|terms| terms.trace.trace_id.as_ref());
    if let Some(trace_id) = traced.filter(|_| passed_on["trace"]["trace_id"].is_null()) {
        passed_on["trace"]["trace_id"] = json!(trace_id);
    }
    // Who vouched for the request did not vouch for this message.
    if let Some(security) = passed_on.get_mut("security").and_then(Value::as_object_mut) {
        security.remove("auth");
    }
    passed_on["id"] = json!(id);
    passed_on["ts"] = json!(iso(at));
    passed_on["from"] = json!({ "agent_id": ORCHESTRATOR });
    passed_on["to"] = json!([{ "agent_id": format!("agent:{to}") }]);
    passed_on["attempt"] = json!(task.attempt);
    passed_on
}

/// The fields of a request that are not those of the message that passes it on.
const PASSED_ON_ANEW: [&str; 7] = ["v", "id", "ts", "from", "to", "type", "idempotency_key"];

fn parent(event: &AnyEvent) -> Option<&TaskId> {
    event.get::<TaskCreated>()?.origin.parent.as_ref()
}

fn address(actor: &Actor) -> String {
    match actor {
        Actor::Agent(id) => format!("agent:{id}"),
        other => other.to_string(),
    }
}

fn agent_address(agent: Option<&AgentId>) -> Option<String> {
    agent.map(|agent| format!("agent:{agent}"))
}

/// Whom the fact concerns most: the agent that is given something, else everybody.
fn recipients(fact: &AnyEvent) -> Value {
    let to = match fact.typed() {
        EventRef::TaskReserved(fact) => Some(&fact.agent),
        EventRef::TaskReassigned(fact) => Some(&fact.to),
        EventRef::TaskForwarded(fact) => Some(&fact.to),
        EventRef::HandoffInitiated(fact) => fact.to.as_ref(),
        EventRef::HandoffAccepted(fact) => Some(&fact.from),
        EventRef::HandoffRejected(fact) => Some(&fact.from),
        EventRef::ClaimForced(fact) => Some(&fact.loser),
        EventRef::MessageSent(fact) => return everybody_named(&fact.letter.header),
        // Whoever loses it.
        EventRef::TaskTimedOut(_)
        | EventRef::TaskCancelled(_)
        | EventRef::TaskSkipped(_)
        | EventRef::TaskReopened(_) => fact.holder(),
        EventRef::TaskReleased(released) if released.because == ReleaseCause::NotAccepted => fact.holder(),
        EventRef::ToolDenied(fact) => return json!([{ "agent_id": address(&Actor::parse(&fact.to)) }]),
        _ => None,
    };
    match to {
        Some(agent) => json!([{ "agent_id": format!("agent:{agent}") }]),
        None => everyone(),
    }
}

fn everyone() -> Value {
    json!([{ "agent_id": EVERYONE }])
}

fn everybody_named(header: &Header) -> Value {
    match &header.to {
        Recipients::Agents(agents) if !agents.is_empty() => {
            agents.iter().map(|agent| json!({ "agent_id": format!("agent:{agent}") })).collect()
        }
        Recipients::Agents(_) | Recipients::Everyone => everyone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::clutch::schema;
    use crate::kernel::caller::Auth;
    use crate::kernel::id::Seq;
    use crate::model::message::Fate;
    use crate::testing::samples;

    #[test]
    fn every_fact_is_a_whole_envelope() {
        for (actor, from) in [
            (Actor::Agent("ada".into()), "agent:ada"),
            (Actor::Person("anna".to_owned()), "person:anna"),
            (Actor::System, "system"),
        ] {
            for fact in samples() {
                let (kind, task) = (fact.kind(), fact.task().cloned());
                let row = LogRow {
                    seq: Seq(7),
                    at: Timestamp(0),
                    run: None,
                    thread: None,
                    actor: actor.clone(),
                    auth: Auth::Asserted,
                    via: None,
                    cause: Some(Seq(6)),
                    part_index: 0,
                    event: fact,
                    body: None,
                };
                let envelope = of(&row);
                for field in ["v", "id", "ts", "thread_id", "run_id", "task_id", "from", "to", "type", "payload"] {
                    assert!(envelope.get(field).is_some(), "{kind} lacks {field}");
                }
                assert_eq!(envelope["v"], "clutch/0.1");
                let sent =
                    if kind == "envelope.received" { "1970-01-01T00:00:00.005Z" } else { "1970-01-01T00:00:00.000Z" };
                assert_eq!(envelope["ts"], sent);
                let id = envelope["id"].as_str().unwrap();
                assert!(id.starts_with("msg") || id == event_id::of(row.seq), "{id}");
                assert_eq!(
                    (&envelope["run_id"], &envelope["thread_id"]),
                    (&json!("run_default"), &json!("thr_default"))
                );
                assert_eq!(envelope["task_id"], task_id(task.as_ref()));
                let routed = ROUTERS_KINDS.contains(&kind);
                assert_eq!(envelope["from"]["agent_id"], if routed { "agent:orchestrator" } else { from });
                assert!(envelope["to"].as_array().is_some_and(|to| !to.is_empty()), "{kind}");
                assert!(envelope["payload"].is_object(), "{kind}");
                assert_eq!(envelope["meta"]["kind"], kind);
                let shown = envelope["type"].as_str().unwrap();
                assert!(shown.split_once('.').is_some_and(|(noun, past)| !noun.is_empty() && !past.is_empty()));
            }
        }
    }

    #[test]
    fn message_of_every_event_kind_is_valid_by_the_published_schema() {
        let schema = jsonschema::draft202012::options().build(&schema::envelope()).unwrap();
        let valid = |message: &Value, kind: &str| {
            if let Err(error) = schema.validate(message) {
                panic!("{kind}: {error} at {} of {message}", error.instance_path());
            }
            let sender = message["from"]["agent_id"].as_str().unwrap();
            assert!(sender == SYSTEM || sender.starts_with("agent:") || sender.starts_with("person:"), "{kind}");
            let shown = message["type"].as_str().unwrap();
            assert!(MessageType::parse(shown).is_some(), "{kind} is shown as {shown}");
        };
        let mut seen = BTreeSet::new();
        let actors = [Actor::Agent("ada".into()), Actor::Person("anna".to_owned())];
        for actor in actors.into_iter().chain([Actor::System, Actor::Watcher, Actor::Anonymous]) {
            for event in samples() {
                let kind = event.kind();
                seen.insert(kind);
                let row = LogRow {
                    seq: Seq(7),
                    at: Timestamp(0),
                    run: None,
                    thread: None,
                    actor: actor.clone(),
                    auth: Auth::Asserted,
                    via: Some("mcp".to_owned()),
                    cause: Some(Seq(6)),
                    part_index: 0,
                    event,
                    body: None,
                };
                valid(&of(&row), kind);
                valid(&following(&row), kind);
                if let EventRef::MessageSent(sent) = row.event.typed() {
                    for to in [Recipients::Everyone, Recipients::Agents(vec![])] {
                        let mut copy = sent.letter.clone();
                        copy.header.to = to;
                        copy.header.task = None;
                        copy.header.from = AgentId::new(actor.to_string());
                        valid(
                            &of_message(&Message {
                                letter: copy,
                                fate: Fate::Sent,
                                sent: row.seq,
                                at: row.at,
                                repliers: vec![],
                            }),
                            kind,
                        );
                    }
                }
            }
        }
        assert!(AnyEvent::KINDS.iter().all(|(kind, _)| seen.contains(kind)), "every kind has a sample");
    }

    #[test]
    fn what_came_in_is_shown_as_it_was_sent_and_what_followed_under_its_own_kind() {
        let fact = samples().into_iter().find(|fact| fact.kind() == "envelope.received").unwrap();
        let row = |fact: AnyEvent, bytes: BodyBytes| LogRow {
            seq: Seq(7),
            at: Timestamp(0),
            run: Some("run_1".into()),
            thread: Some("thr_1".into()),
            actor: Actor::Agent("ada".into()),
            auth: Auth::Asserted,
            via: None,
            cause: None,
            part_index: 0,
            event: fact,
            body: Some(Body { sha256: "x".to_owned(), bytes }),
        };
        let sent = json!({ "id": "msg_1", "type": "PLAN", "payload": { "a": 1.50 }, "own": [1] });
        let shown = of(&row(fact.clone(), BodyBytes::Here(serde_json::to_vec(&sent).unwrap())));
        assert_eq!((&shown["type"], &shown["meta"]["legacy_type"]), (&json!("task.request"), &json!("PLAN")));
        assert_eq!((&shown["payload"], &shown["own"]), (&json!({ "a": 1.50 }), &json!([1])));
        let left = of(&row(fact, BodyBytes::Gone));
        assert_eq!(
            (&left["id"], &left["type"], &left["payload"]),
            (&json!("msg_1"), &json!("task.request"), &json!({}))
        );
        assert_eq!(left["to"], json!([{ "agent_id": "agent:orchestrator" }, { "agent_id": "mcp:browser" }]));
        assert_eq!((&left["domain"], &left["from"]["role"]), (&json!("research"), &json!("worker")));
        let created = samples().into_iter().find(|fact| fact.kind() == "task.created").unwrap();
        let created = row(created, BodyBytes::Gone);
        assert_eq!(
            (&of(&created)["type"], &following(&created)["type"]),
            (&json!("task.request"), &json!("x.task.created"))
        );
        assert_eq!(of(&created)["parent_task_id"], "task_0");
    }

    #[test]
    fn the_protocols_own_types_are_used_where_one_fits() {
        let samples = samples();
        let shown: Vec<_> = samples.iter().map(message_type).collect();
        for own in [
            "agent.register",
            "agent.update",
            "task.request",
            "task.accept",
            "task.result",
            "task.error",
            "task.cancel",
        ] {
            assert!(shown.contains(&own), "{own}");
        }
    }

    #[test]
    fn every_fact_is_found_by_the_type_it_is_shown_with() {
        for fact in samples() {
            let shown = message_type(&fact);
            assert_eq!(shown_type(shown).as_deref(), Some(shown));
            assert!(kinds_shown_as(shown).contains(&fact.kind()), "{} is shown as {shown}", fact.kind());
        }
        assert_eq!(kinds_shown_as("tool.call"), [RECEIVED]);
        assert_eq!(kinds_shown_as("x.task.claimed"), ["task.claimed", RECEIVED]);
        assert_eq!(shown_type("task.claimed").as_deref(), Some("x.task.claimed"));
        assert_eq!(kinds_shown_as("nobody.knows"), [""; 0]);
        let known = |kind: &str| AnyEvent::KINDS.iter().any(|(known, _)| *known == kind);
        assert!(ROUTERS_KINDS.iter().chain(&FILED_KINDS).all(|kind| known(kind)));
        assert!(shown_type("tool.call").is_some() && shown_type("x.mine").is_some());
        assert_eq!(shown_type("task.requested"), None);
    }

    #[test]
    fn times_are_written_in_iso_8601() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(iso(Timestamp(millis)), text);
        }
    }
}
