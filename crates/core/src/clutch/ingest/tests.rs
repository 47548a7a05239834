use crate::traits::AnyReplySource;
use serde_json::{Value, json};

use super::*;
use crate::agents::EndpointGrant;
use crate::clutch::SecretKey;
use crate::contracts::DefineStepContracts;
use crate::groups::SetGroup;
use crate::kernel::limit;
use crate::model::capabilities;
use crate::model::capabilities::{Card, SigningKey};
use crate::model::contract::{ContractBinding, ExpectedPayload, StepContract};
use crate::model::message::{Fate, Standing};
use crate::model::payload_type::PayloadType;
use crate::model::run::RunStatus;
use crate::model::violation::{Violations, missing};
use crate::testing::{World, anna, by, claim, complete, create, ingest, sender as caller, sends, start, with_token};

fn refused(w: &mut World, id: &str, kind: &str, from: &str, more: &Value) -> (Code, String) {
    let head = w.log.len();
    let refusal = w.run(&caller(from), ingest(id, kind, from, more)).unwrap_err();
    assert_eq!(w.log.len(), head);
    (refusal.code, refusal.pointer.unwrap_or_default())
}

fn chat(text: &str) -> Value {
    json!({ "payload": { "text": text } })
}

#[test]
fn sent_again_it_is_the_same_and_with_another_content_it_is_refused() {
    let mut w = World::of(&["ken"]);
    let first = ingest("m", "x.deploy", "ken", &json!({}));
    assert_eq!(w.does(&by("ken"), first.clone()), ["envelope.received"]);
    let again = ingest("m", "x.deploy", "ken", &json!({ "attempt": 2, "trace": { "trace_id": "t" } }));
    let (facts, reply) = w.run(&by("ken"), again).unwrap();
    assert_eq!((facts, reply), (vec![], AnyReplySource::Row(Key::Envelope("m".into()))));
    let other = json!({ "payload": { "more": 1 } });
    assert_eq!(refused(&mut w, "m", "x.deploy", "ken", &other), (Code::AlreadyExists, "/id".to_owned()));
    w.does(&by("ken"), crate::testing::entry("n", "ken", "hello"));
    assert_eq!(refused(&mut w, "n", "x.deploy", "ken", &json!({})), (Code::AlreadyExists, "/id".to_owned()));
}

#[test]
fn nobody_sends_in_anothers_name() {
    let mut w = World::of(&["lead", "ken", "ada"]);
    for (caller, from) in [(by("ada"), "ken"), (by("lead"), "ken"), (anna(), "ken"), (by("ken"), "person:anna")] {
        let code = w.refuses(&caller, ingest("m", "x.y", from, &json!({})));
        assert_eq!(code, Code::Forbidden);
    }
    assert_eq!(sends(&mut w, "m", "x.y", "stranger", &json!({})), ["envelope.received"], "anybody may send");
    assert_eq!(sends(&mut w, "n", "x.y", "person:anna", &json!({})), ["envelope.received"]);
}

#[test]
fn whoever_is_known_gets_it_and_nobody_does_if_one_is_not() {
    let mut w = World::of(&["lead", "ken", "ada"]);
    let to = |names: &[&str]| json!({ "to": names.iter().map(|name| json!({ "agent_id": name })).collect::<Value>() });
    sends(&mut w, "m", "x.y", "ken", &to(&["agent:ada", "ken", "person:anna", "agent:orchestrator", "mcp:browser"]));
    assert_eq!((w.standing("m", "ada"), w.standing("m", "ken")), (Some(Standing::Queued), None));
    sends(&mut w, "n", "x.y", "ken", &to(&["group:workers", "ada"]));
    assert_eq!((w.pending("ada"), w.pending("lead")), (vec!["m", "n"], vec!["n"]));
    for (index, stranger) in ["agent:ghost", "group:ghosts"].into_iter().enumerate() {
        let mut names = vec!["agent:ada"; index + 1];
        names.truncate(1);
        names.push(stranger);
        let told = refused(&mut w, "o", "x.y", "ken", &to(&names));
        assert_eq!(told, (Code::UnknownRecipient, "/to/1/agent_id".to_owned()), "{stranger}");
    }
    let told = refused(&mut w, "o", "task.request", "ken", &to(&["mcp:browser"]));
    assert_eq!(told, (Code::UnknownRecipient, "/to/0/agent_id".to_owned()));
}

#[test]
fn chat_stands_in_its_thread_and_reaches_whom_it_is_to_and_whom_it_mentions() {
    let mut w = World::of(&["lead", "ken", "ada", "bob"]);
    let said = json!({ "to": [{ "agent_id": "agent:ada" }],
                       "payload": { "text": "@bob look", "mentions": ["agent:lead", "bob"] }, "run_id": "run_2" });
    assert_eq!(sends(&mut w, "m", "chat.message", "ken", &said), ["envelope.received", "message.sent"]);
    let header = w.message("m").letter.header.clone();
    assert_eq!((header.thread.as_str(), header.run.as_str(), header.name.as_str()), ("thr_1", "run_2", "ken"));
    let names = |agents: &[AgentId]| agents.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&header.mentions), ["bob", "lead"]);
    for agent in ["ada", "bob", "lead"] {
        assert_eq!(w.standing("m", agent), Some(Standing::Queued), "{agent}");
    }
    assert!(header.wakes);
    for (index, mentions) in [["agent:ghost", "bob"], ["bob", "ghost"]].into_iter().enumerate() {
        let said = json!({ "payload": { "text": "look", "mentions": mentions } });
        let told = refused(&mut w, "g", "chat.message", "ken", &said);
        assert_eq!(told, (Code::UnknownRecipient, format!("/payload/mentions/{index}")));
    }
    let itself = json!({ "payload": { "text": "@ghost", "mentions": ["stranger", "bob"] } });
    sends(&mut w, "g", "chat.message", "stranger", &itself);
    assert_eq!(w.standing("g", "bob"), Some(Standing::Queued));
    sends(&mut w, "n", "chat.system", "ken", &json!({ "to": [{ "agent_id": "ada" }], "payload": { "text": "up" } }));
    assert!(!w.message("n").letter.header.wakes, "a notice wakes nobody");
    assert_eq!(w.message("n").letter.text, "up");
    sends(&mut w, "o", "chat.system", "ken", &json!({ "payload": { "load": 1 } }));
    assert_eq!(w.message("o").letter.text, r#"{"load":1}"#);
}

#[test]
fn a_storm_of_chat_is_held() {
    let mut w = World::of(&["ken", "ada"]);
    let mut rushed = ingest("m", "chat.message", "ken", &chat("@ada"));
    if let Act::Say { guard, .. } = &mut rushed.act {
        guard.per_minute = 1;
    }
    let again =
        Ingest { received: EnvelopeReceived { message: "n".into(), ..rushed.received.clone() }, ..rushed.clone() };
    w.does(&by("ken"), rushed);
    assert_eq!(w.does(&by("ken"), again), ["envelope.received", "message.held"]);
    assert!(matches!(w.message("n").fate, Fate::Held(_)));
}

#[test]
fn cards_come_in_by_envelopes_too() {
    let mut w = World::of(&["lead"]);
    let card = json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "capabilities": [{ "id": "skill:law" }] });
    let facts = sends(&mut w, "m", "agent.register", "ken", &json!({ "payload": card }));
    assert_eq!(facts, ["envelope.received", "agent.registered"]);
    let change = json!({ "payload": { "limits": { "max_concurrency": 3 } } });
    assert_eq!(sends(&mut w, "n", "agent.update", "ken", &change), ["envelope.received", "agent.updated"]);
    assert_eq!(w.agent("ken").profile.capabilities, ["law"]);
    let stranger = json!({ "payload": { "card": card } });
    assert_eq!(
        refused(&mut w, "o", "agent.register", "ada", &stranger),
        (Code::Forbidden, "/from/agent_id".to_owned())
    );
}

/// A request by `ui`, as far along as the state says, with `ken` as its worker.
fn requested(state: TaskState) -> World {
    let mut w = World::of(&["lead", "ken", "ada"]);
    let facts = sends(&mut w, "req", "task.request", "ui", &json!({ "payload": { "title": "Find out" } }));
    assert_eq!(facts, ["envelope.received", "task.created"]);
    w.does(&by("lead"), crate::testing::assign("t", "ken"));
    if state != TaskState::Pending {
        sends(&mut w, "acc", "task.accept", "ken", &json!({}));
    }
    match state {
        TaskState::Completed => drop(sends(&mut w, "res", "task.result", "ken", &json!({}))),
        TaskState::Failed => drop(sends(&mut w, "err", "task.error", "ken", &json!({}))),
        TaskState::Cancelled => drop(sends(&mut w, "can", "task.cancel", "ui", &json!({}))),
        _ => {}
    }
    assert_eq!(w.task("t").state, state);
    w
}

#[test]
fn every_type_by_everybody_in_every_state() {
    let no_code: Option<Code> = None;
    for kind in ["task.accept", "task.progress", "task.result", "task.error", "task.cancel"] {
        for state in
            [TaskState::Pending, TaskState::InProgress, TaskState::Completed, TaskState::Failed, TaskState::Cancelled]
        {
            for from in ["ken", "ada", "lead", "ui", "stranger", "person:anna"] {
                if kind == "task.accept" && from == "person:anna" {
                    continue; // Refused when it is read.
                }
                let expected = match (kind, from, state) {
                    (_, _, TaskState::Completed | TaskState::Failed | TaskState::Cancelled) => {
                        Some(Code::InvalidTransition)
                    }
                    ("task.progress", "ken" | "lead" | "person:anna", TaskState::Pending) => {
                        Some(Code::InvalidTransition)
                    }
                    (_, "ken", _) | ("task.cancel", "ui" | "lead" | "person:anna", _) => no_code,
                    ("task.progress" | "task.result" | "task.error", "lead" | "person:anna", _) => no_code,
                    ("task.accept", _, TaskState::Pending) => Some(Code::ReservedForOther),
                    ("task.accept", _, _) => Some(Code::AlreadyClaimed),
                    _ => Some(Code::NotHolder),
                };
                let mut w = requested(state);
                let outcome = w.run(&caller(from), ingest("m", kind, from, &json!({})));
                let code = outcome.as_ref().err().map(|refusal| refusal.code);
                assert_eq!(code, expected, "{kind} by {from}, {state:?}");
                match outcome {
                    Ok((facts, _)) => assert_eq!(facts[0].kind(), "envelope.received"),
                    Err(refusal) => {
                        let is_ended = code == Some(Code::InvalidTransition);
                        let pointer = if is_ended { "/task_id" } else { "/from/agent_id" };
                        assert_eq!(refusal.pointer.as_deref(), Some(pointer), "{kind} by {from}, {state:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_about_an_unknown_task_or_another_run_is_refused() {
    for kind in ["task.accept", "task.progress", "task.result", "task.error", "task.cancel"] {
        let mut w = requested(TaskState::InProgress);
        let unknown = refused(&mut w, "m", kind, "ken", &json!({ "task_id": "ghost" }));
        assert_eq!(unknown, (Code::TaskNotFound, "/task_id".to_owned()), "{kind}");
        let elsewhere = refused(&mut w, "m", kind, "ken", &json!({ "run_id": "run_2" }));
        assert_eq!(elsewhere, (Code::Invalid, "/run_id".to_owned()), "{kind}");
    }
    let mut w = requested(TaskState::InProgress);
    assert_eq!(refused(&mut w, "m", "task.request", "ui", &json!({})), (Code::AlreadyExists, "/task_id".to_owned()));
}

#[test]
fn a_request_keeps_where_it_belongs_and_on_what_terms() {
    let mut w = World::of(&["ken"]);
    let said = json!({
        "payload": { "query": "who?", "deadline": "2026-02-01T13:20:11.123Z", "max_attempts": 2 },
        "limits": { "max_runtime_sec": 60 }, "requires": ["skill:law"], "domain": "law",
    });
    sends(&mut w, "m", "task.request", "ken", &said);
    let task = w.task("t");
    assert_eq!((task.title.as_str(), task.description.as_str(), task.assigned_by.as_str()), ("who?", "who?", "ken"));
    let terms = task.origin.terms.as_ref().unwrap();
    assert_eq!((terms.max_runtime_sec, terms.max_attempts, terms.deadline.is_some()), (Some(60), Some(2), true));
    assert_eq!((terms.requires.len(), terms.domain.as_deref(), terms.request.as_str()), (1, Some("law"), "m"));
    assert_eq!(task.origin.thread.as_ref().map(|thread| thread.as_str()), Some("thr_1"));
    assert_eq!(w.run_row("run_1").status, RunStatus::Ready);
}

#[test]
fn results_and_errors_say_what_came_of_it() {
    let mut w = requested(TaskState::InProgress);
    let payload = json!({ "title": "Done", "findings": ["a"] });
    let facts = sends(&mut w, "m", "task.result", "ken", &json!({ "payload": payload }));
    assert_eq!(facts, ["envelope.received", "task.completed", "run.status_set"]);
    let task = w.task("t");
    assert_eq!((task.outcome.as_deref(), task.outcome_detail.as_ref()), (Some("Done"), Some(&payload)));
    assert_eq!(w.run_row("run_1").status, RunStatus::Completed);
    let mut w = requested(TaskState::Pending);
    let failed = json!({ "payload": { "code": "TOOL_UNAVAILABLE", "message": "no browser", "retryable": true } });
    let facts = sends(&mut w, "m", "task.error", "ken", &failed);
    assert_eq!(facts[..4], ["envelope.received", "task.claimed", "run.status_set", "task.started"]);
    assert_eq!((&facts[4..], w.task("t").state), (&["task.failed", "task.retried"][..], TaskState::Pending));
    assert_eq!(w.task("t").reason.as_deref(), Some("TOOL_UNAVAILABLE: no browser"));
    assert_eq!((w.task("t").last_holder.as_ref().map(AgentId::as_str), w.agent("ken").holding), (Some("ken"), 0));
}

#[test]
fn tasks_of_other_faces_are_the_same_tasks() {
    let mut w = World::of(&["lead", "ken"]);
    w.does(&Caller::anonymous(), create("t", &[]));
    let own = json!({ "run_id": "run_default" });
    assert_eq!(
        sends(&mut w, "m", "task.accept", "ken", &own),
        ["envelope.received", "task.claimed", "task.started"],
        "what belongs to nobody can be taken"
    );
    assert_eq!(sends(&mut w, "n", "task.result", "ken", &own), ["envelope.received", "task.completed"]);
    sends(&mut w, "o", "task.request", "ken", &json!({ "task_id": "u" }));
    assert_eq!(w.does(&by("lead"), claim("lead", "u"))[0], "task.claimed");
    w.does(&by("lead"), start(None, "u"));
    assert_eq!(w.does(&by("lead"), complete("u"))[0], "task.completed");
}

#[test]
fn cancelling_takes_along_all_that_is_part_of_it() {
    let mut w = requested(TaskState::InProgress);
    let part = |w: &mut World, id: &str, parent: &str| {
        let said = json!({ "task_id": id, "parent_task_id": parent });
        sends(w, &format!("m{id}"), "task.request", "ken", &said);
    };
    part(&mut w, "a", "t");
    part(&mut w, "b", "a");
    part(&mut w, "c", "b");
    part(&mut w, "d", "t");
    w.does(&by("ada"), start(Some("ada"), "b"));
    w.does(&by("lead"), start(Some("lead"), "d"));
    w.does(&by("lead"), complete("d"));
    assert_eq!(w.agent("ada").holding, 1);
    let facts = sends(&mut w, "m", "task.cancel", "ui", &json!({ "payload": { "reason": "enough" } }));
    assert_eq!(facts.iter().filter(|kind| **kind == "task.cancelled").count(), 4);
    for id in ["t", "a", "b", "c"] {
        assert_eq!((w.task(id).state, w.task(id).reason.as_deref()), (TaskState::Cancelled, Some("enough")), "{id}");
    }
    assert_eq!((w.task("d").state, w.agent("ada").holding), (TaskState::Completed, 0));
    assert_eq!((w.run_row("run_1").status, w.run_row("run_1").unfinished), (RunStatus::Completed, 0));
    assert_eq!(w.rebuilt(), *w.rows());
    let late = json!({ "task_id": "e", "parent_task_id": "t" });
    assert_eq!(refused(&mut w, "n", "task.request", "ken", &late), (Code::InvalidState, "/parent_task_id".to_owned()));
}

#[test]
fn the_end_of_the_whole_ends_its_parts_and_that_of_a_part_does_not() {
    let mut w = requested(TaskState::InProgress);
    for (id, parent) in [("a", "t"), ("b", "a")] {
        let said = json!({ "task_id": id, "parent_task_id": parent });
        sends(&mut w, id, "task.request", "ken", &said);
    }
    w.does(&by("ada"), start(Some("ada"), "a"));
    w.does(&by("ada"), complete("a"));
    assert_eq!(w.task("b").state, TaskState::Pending);
    sends(&mut w, "m", "task.result", "ken", &json!({}));
    assert_eq!((w.task("b").state, w.run_row("run_1").status), (TaskState::Cancelled, RunStatus::Completed));
}

#[test]
fn a_part_must_fit_into_the_whole() {
    let mut w = requested(TaskState::InProgress);
    let under = |id: &str, parent: &str| json!({ "task_id": id, "parent_task_id": parent });
    let unknown = refused(&mut w, "m", "task.request", "ken", &under("a", "ghost"));
    assert_eq!(unknown, (Code::TaskNotFound, "/parent_task_id".to_owned()));
    let elsewhere = json!({ "task_id": "a", "parent_task_id": "t", "run_id": "run_2" });
    assert_eq!(refused(&mut w, "m", "task.request", "ken", &elsewhere), (Code::Invalid, "/run_id".to_owned()));
    let mut parent = "t".to_owned();
    for level in 1..=limit::TASK_LEVELS {
        let id = format!("l{level}");
        sends(&mut w, &id, "task.request", "ken", &under(&id, &parent));
        parent = id;
    }
    let deeper = refused(&mut w, "m", "task.request", "ken", &under("deep", &parent));
    assert_eq!(deeper, (Code::TooLarge, "/parent_task_id".to_owned()));
}

fn key(kid: &str, seed: u8) -> SigningKey {
    SecretKey::new(kid, [seed; 32]).public()
}

fn card(keys: &[SigningKey], more: Value) -> Value {
    let mut card = json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "security": { "keys": keys } });
    card.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    card
}

/// `ken` with these keys, and `ada` with none.
fn keyed(keys: &[SigningKey]) -> World {
    let mut w = World::of(&["lead", "ada"]);
    sends(&mut w, "reg", "agent.register", "ken", &json!({ "payload": card(keys, json!({})) }));
    w
}

/// An envelope whose signature was found to be by this key.
fn signed(policy: SigningPolicy, by: Option<&SigningKey>, kind: &str, from: &str, more: &Value) -> Ingest {
    Ingest { signing: Signing { policy, by: by.cloned() }, ..ingest("m", kind, from, more) }
}

#[test]
fn what_must_be_signed_depends_on_the_policy_and_on_whether_there_are_keys() {
    use SigningPolicy::{All, Off, Sensitive};
    let own = key("k1", 1);
    let update = json!({ "payload": { "limits": { "max_concurrency": 1 } } });
    let prod = json!({ "security": { "policy": { "trust_level": "prod" } }, "to": [{ "agent_id": "mcp:x" }] });
    let plain = json!({});
    for (kind, more, sensitive) in [
        ("agent.register", &json!({ "payload": card(std::slice::from_ref(&own), json!({})) }), true),
        ("agent.update", &update, true),
        ("task.cancel", &plain, true),
        ("x.handoff", &plain, true),
        ("x.handoff.accept", &plain, true),
        ("tool.call", &prod, true),
        ("tool.call", &json!({ "to": [{ "agent_id": "mcp:x" }] }), false),
        ("x.handoffs", &plain, false),
        ("chat.message", &chat("hi"), false),
        ("task.request", &json!({ "task_id": "new" }), false),
    ] {
        for (policy, from, demanded) in [
            (Off, "ken", false),
            (Sensitive, "ken", sensitive),
            (Sensitive, "ada", false),
            (All, "ken", true),
            (All, "ada", true),
            (All, "stranger", true),
            (All, "person:anna", false),
        ] {
            let mut w = keyed(std::slice::from_ref(&own));
            let command = signed(policy, None, kind, "ken", more);
            let command = Ingest { from: Actor::parse(from), ..command };
            let refusal = w.run(&caller(from), command).err();
            let told = refusal.map(|refusal| (refusal.code, refusal.pointer.unwrap()));
            let unsigned = told == Some((Code::SignatureRequired, "/security/auth".to_owned()));
            assert_eq!(unsigned, demanded, "{kind} from {from}, {policy:?}: {told:?}");
            if from == "ken" {
                let mut w = keyed(std::slice::from_ref(&own));
                let outcome = w.run(&caller(from), signed(policy, Some(&own), kind, from, more));
                let code = outcome.err().map(|refusal| refusal.code);
                assert_ne!(code, Some(Code::SignatureRequired), "{kind} is signed");
            }
        }
    }
}

#[test]
fn a_call_is_for_production_by_what_any_side_says() {
    let own = key("k1", 1);
    let call = json!({ "to": [{ "agent_id": "mcp:deploy" }] });
    let needs = |w: &mut World| {
        let outcome = w.run(&by("ken"), signed(SigningPolicy::Sensitive, None, "tool.call", "ken", &call));
        outcome.err().map(|refusal| refusal.code) == Some(Code::SignatureRequired)
    };
    let mut w = keyed(std::slice::from_ref(&own));
    assert!(!needs(&mut w));
    let mut w = keyed(std::slice::from_ref(&own));
    sends(&mut w, "r", "task.request", "lead", &json!({ "security": { "policy": { "trust_level": "prod" } } }));
    assert!(needs(&mut w), "the task's");
    let mut w = keyed(std::slice::from_ref(&own));
    let live = json!({ "task_id": "live", "security": { "policy": { "trust_level": "prod" } } });
    sends(&mut w, "r", "task.request", "lead", &live);
    assert!(!needs(&mut w), "that of a task which is not ken's and is not named");
    let mut w = keyed(std::slice::from_ref(&own));
    sends(&mut w, "r", "task.request", "lead", &live);
    w.does(&by("lead"), crate::testing::assign("live", "ken"));
    assert!(needs(&mut w), "that of a task that ken has, though the call names another");
    let tools = json!([{ "id": "skill:ship", "tools": ["mcp:deploy"], "trust_level": "prod" }]);
    let mut w = World::of(&["lead"]);
    let said = json!({ "payload": card(&[own], json!({ "capabilities": tools })) });
    sends(&mut w, "reg", "agent.register", "ken", &said);
    assert!(needs(&mut w), "the capability's");
}

#[test]
fn a_key_that_is_not_the_senders_any_more_vouches_for_nothing() {
    let (old, new) = (key("k1", 1), key("k2", 2));
    for policy in [SigningPolicy::Sensitive, SigningPolicy::All] {
        let mut w = keyed(std::slice::from_ref(&new));
        for (by, from) in [(&old, "ken"), (&new, "ada"), (&key("k2", 3), "ken"), (&key("k3", 2), "ken")] {
            let refusal = w.run(&caller(from), signed(policy, Some(by), "x.y", from, &json!({}))).unwrap_err();
            assert_eq!((refusal.code, refusal.pointer.as_deref()), (Code::UnknownKey, Some("/security/auth/kid")));
        }
        assert_eq!(w.does(&by("ken"), signed(policy, Some(&new), "x.y", "ken", &json!({}))), ["envelope.received"]);
    }
}

#[test]
fn whoever_is_new_vouches_with_the_keys_that_it_brings() {
    let (own, other) = (key("k1", 1), key("k2", 2));
    let said = json!({ "payload": card(std::slice::from_ref(&own), json!({})) });
    for policy in [SigningPolicy::Sensitive, SigningPolicy::All] {
        let mut w = World::of(&["lead"]);
        let refusal = w.run(&by("ken"), signed(policy, Some(&other), "agent.register", "ken", &said)).unwrap_err();
        assert_eq!(refusal.code, Code::UnknownKey);
        let facts = w.does(&by("ken"), signed(policy, Some(&own), "agent.register", "ken", &said));
        assert_eq!(facts, ["envelope.received", "agent.registered"]);
    }
}

#[test]
fn keys_are_replaced_by_whoever_has_one_of_them_or_by_lead_and_people() {
    let (old, new) = (key("k1", 1), key("k2", 2));
    let change = json!({ "payload": { "security": { "keys": [&old, &new] } } });
    let replaced = json!({ "payload": card(std::slice::from_ref(&new), json!({})) });
    let sensitive = SigningPolicy::Sensitive;
    let mut w = keyed(std::slice::from_ref(&old));
    for kind in ["agent.update", "agent.register"] {
        let said = if kind == "agent.update" { &change } else { &replaced };
        for policy in [SigningPolicy::Off, sensitive, SigningPolicy::All] {
            let refusal = w.run(&by("ken"), signed(policy, None, kind, "ken", said)).unwrap_err();
            assert_eq!((refusal.code, refusal.pointer.as_deref()), (Code::SignatureRequired, Some("/security/auth")));
        }
        let by_new = w.run(&by("ken"), signed(sensitive, Some(&new), kind, "ken", said)).unwrap_err();
        assert_eq!(by_new.code, Code::UnknownKey, "a new key does not vouch for itself");
    }
    let facts = w.does(&by("ken"), signed(sensitive, Some(&old), "agent.update", "ken", &change));
    assert_eq!(facts, ["envelope.received", "agent.updated"]);
    let last = Ingest {
        received: EnvelopeReceived { message: "n".into(), ..ingest("n", "agent.register", "ken", &replaced).received },
        ..signed(sensitive, Some(&new), "agent.register", "ken", &replaced)
    };
    assert_eq!(w.does(&by("ken"), last), ["envelope.received", "agent.updated"], "rotated: the second is enough");
    let registers = |keys: &[SigningKey]| {
        RegisterAgent::with_card(Card::read(&card(keys, json!({}))).unwrap(), EndpointGrant::Unchanged)
    };
    for caller in [by("ken"), with_token("ken"), by("lead"), by("ada"), Caller::anonymous()] {
        let refusal = w.run(&caller, registers(std::slice::from_ref(&old))).unwrap_err();
        let forbidden = [Code::SignatureRequired, Code::Forbidden].contains(&refusal.code);
        assert!(forbidden, "{:?}: {refusal}", caller.actor);
    }
    assert_eq!(w.does(&anna(), registers(std::slice::from_ref(&old))), ["agent.updated"]);
    assert_eq!(w.does(&with_token("lead"), registers(&[])), ["agent.updated"], "the lead may take them away");
}

#[test]
fn leaving_and_coming_back_does_not_shake_off_the_keys() {
    let own = key("k1", 1);
    let mut w = keyed(std::slice::from_ref(&own));
    w.does(&by("ken"), crate::agents::LeaveTeam { agent: "ken".into() });
    let other = Card::read(&card(&[key("k2", 2)], json!({}))).unwrap();
    assert_eq!(
        w.refuses(&by("ken"), RegisterAgent::with_card(other, EndpointGrant::Unchanged)),
        Code::SignatureRequired
    );
    w.joins("ken", crate::model::agent::AgentRole::Worker);
    assert!(capabilities::same_keys(&Card::of(w.agent("ken")).security.keys, &[own]));
}

/// A task whose answers are bound to a step, in a workflow that expects something there.
fn bound() -> World {
    let mut w = World::of(&["lead", "ken"]);
    defines(&mut w, "findings");
    let said = json!({ "meta": { "workflow": "w", "step": "s" } });
    sends(&mut w, "req", "task.request", "ui", &said);
    w.does(&by("lead"), crate::testing::assign("t", "ken"));
    w
}

fn defines(w: &mut World, required: &str) {
    let payload_type = PayloadType::parse("research.summary.v1").unwrap();
    let required = vec![required.to_owned()];
    let expects = ExpectedPayload { message_type: MessageType::TaskResult, payload_type, required };
    let rules = vec![StepContract { id: "s".to_owned(), expects }];
    w.does(&anna(), DefineStepContracts { workflow: "w".to_owned(), rules });
}

fn result(w: &World, checked: bool, violations: Violations) -> Ingest {
    let defined = match w.rows().get(&Key::StepContracts("w".to_owned())) {
        Some(crate::model::Row::StepContracts(workflow)) => Some(workflow.defined),
        _ => None,
    };
    let bound = ContractBinding { workflow: "w".to_owned(), step: "s".to_owned() };
    let checked = checked.then(|| Box::new(ContractCheck { bound, defined, violations }));
    Ingest { checked, ..ingest("res", "task.result", "ken", &json!({ "payload": { "a": 1 } })) }
}

#[test]
fn what_is_bound_to_a_step_is_held_against_it_as_it_is_now() {
    let mut w = bound();
    assert_eq!(w.refuses(&by("ken"), result(&w, false, Violations::default())), Code::Stale);
    let before = result(&w, true, Violations::default());
    defines(&mut w, "citations");
    assert_eq!(w.refuses(&by("ken"), before), Code::Stale, "it was held against what holds no more");
    let wrong = Violations::of([missing("/payload", "citations")]);
    let refusal = w.run(&by("ken"), result(&w, true, wrong)).unwrap_err();
    assert_eq!((refusal.code, refusal.pointer.as_deref()), (Code::SchemaViolation, Some("/payload/citations")));
    assert_eq!(w.task("t").state, TaskState::Pending, "the step is open still");
    let again = result(&w, true, Violations::default());
    assert!(w.does(&by("ken"), again.clone()).contains(&"task.completed"));
    defines(&mut w, "findings");
    assert_eq!(w.does(&by("ken"), again), [""; 0], "sent again, it is answered as it was");
}

#[test]
fn completing_it_without_a_message_is_held_against_the_step_too() {
    let mut w = bound();
    w.claims("ken", "t");
    w.does(&by("ken"), start(None, "t"));
    let checked = |w: &World, violations| result(w, true, violations).checked.map(|checked| *checked);
    let wrong = Violations::of([missing("/outcome_detail", "citations")]);
    assert_eq!(w.refuses(&by("ken"), complete("t")), Code::Stale);
    let wrongly = CompleteTask { contract: checked(&w, wrong), ..complete("t") };
    assert_eq!(w.refuses(&by("ada"), wrongly.clone()), Code::NotHolder);
    assert_eq!(w.refuses(&by("ken"), wrongly), Code::SchemaViolation);
    let rightly = CompleteTask { contract: checked(&w, Violations::default()), ..complete("t") };
    assert!(w.does(&by("ken"), rightly).contains(&"task.completed"));
}

#[test]
fn whoever_may_not_answer_is_told_that_first() {
    let mut w = bound();
    let wrong = Violations::of([missing("/payload", "citations")]);
    let by_another = Ingest { from: Actor::Agent("ada".into()), ..result(&w, true, wrong) };
    assert_eq!(w.refuses(&by("ada"), by_another), Code::NotHolder);
}

#[test]
fn a_list_of_agents_is_reached_as_far_as_they_are_known() {
    let mut w = World::of(&["lead", "ken", "ada"]);
    let members = vec!["ada".into(), "lead".into(), "ghost".into()];
    w.does(&anna(), SetGroup { group: "team".to_owned(), members });
    let to = json!({ "to": [{ "agent_id": "group:team" }] });
    sends(&mut w, "m", "x.y", "ken", &to);
    assert_eq!((w.pending("ada"), w.pending("lead"), w.pending("ken")), (vec!["m"], vec!["m"], vec![]));
    sends(&mut w, "req", "task.request", "ui", &to);
    let members = &w.task("t").origin.terms.as_ref().unwrap().members;
    assert_eq!(members.iter().map(AgentId::as_str).collect::<Vec<_>>(), ["ada", "ghost", "lead"]);
}
