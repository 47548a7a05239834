use serde_json::{Value, json};

use super::*;
use crate::agents::LeaveTeam;
use crate::envelope;
use crate::handoffs::{AcceptHandoff, RejectHandoff};
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::event_id;
use crate::kernel::id::{AgentId, MessageId, Seq, TaskId, ThreadId, Timestamp};
use crate::model::agent::AgentRole;
use crate::model::{ColumnValue, DeliveryId};

use crate::model::task::{AlarmKind, TaskState};
use crate::registry::EventRef;
use crate::routing::OfferTask;
use crate::tasks::{FireAlarm, ReopenTask};
use crate::testing::{World, anna, assign, by, cancel, complete, fail, hand_over, ingest, release, sends, skip, start};

/// `ui` asks by messages; `ken` and `ada` have cards; `plain` joined by another face, as did `lead`.
fn team() -> World {
    let mut w = World::default();
    for (agent, role) in [("lead", AgentRole::Lead), ("ui", AgentRole::Worker), ("plain", AgentRole::Worker)] {
        w.joins(agent, role);
    }
    for agent in ["ken", "ada"] {
        let card = json!({ "v": "clutch/0.1", "agent_id": agent, "capabilities": [{ "id": "skill:law" }] });
        sends(&mut w, &format!("reg_{agent}"), "agent.register", agent, &json!({ "payload": card }));
    }
    w
}

fn asks_for(w: &mut World, task: &str, asker: &str, more: &Value) {
    let mut said = json!({ "task_id": task });
    said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    sends(w, &format!("req_{task}"), "task.request", asker, &said);
}

/// A task that `ui` asked for, and an agent is at it.
fn begun(holder: &str) -> World {
    let mut w = team();
    asks_for(&mut w, "t", "ui", &json!({ "limits": { "max_runtime_sec": 60, "max_attempts": 1 } }));
    w.does(&anna(), assign("t", holder));
    w.does(&by(holder), start(Some(holder), "t"));
    w
}

/// The same, with a part that its holder asked `ada` for.
fn with_a_part() -> World {
    let mut w = begun("ken");
    asks_for(&mut w, "part", "ken", &json!({ "parent_task_id": "t" }));
    w.does(&anna(), assign("part", "ada"));
    w
}

/// The notifications since a position: the type, the task and the recipients. Each is in those inboxes and in no other.
fn notifications(w: &World, since: usize) -> Vec<String> {
    let rows = w.log.iter().zip(&w.log[1..]).skip(since.saturating_sub(1));
    let lines = rows.filter_map(|(event, row)| {
        let EventRef::MessageSent(sent) = row.event.typed() else { return None };
        let header = &sent.letter.header;
        assert_eq!(header.announces.as_deref(), Some(event.event.kind()));
        let message = w.message(header.message.as_str());
        assert_eq!(message.source(), Some(event.seq));
        let Recipients::Agents(to) = &header.to else { panic!("{header:?}") };
        for agent in ["lead", "ui", "plain", "ken", "ada"] {
            let is_recipient = to.iter().any(|to| to.as_str() == agent);
            assert_eq!(w.pending(agent).contains(&header.message.as_str()), is_recipient, "{agent}: {header:?}");
        }
        let shown = envelope::of_notification(message, event);
        assert_eq!((&shown["id"], &shown["payload"]["requested_in"]), (&json!(header.message), &Value::Null));
        assert_eq!(shown["to"].as_array().unwrap().len(), to.len());
        let to: Vec<&str> = to.iter().map(AgentId::as_str).collect();
        Some(format!("{} {} {}", shown["type"].as_str().unwrap(), shown["task_id"].as_str().unwrap(), to.join(",")))
    });
    let lines = lines.collect();
    assert_eq!(w.rebuilt(), *w.rows());
    lines
}

fn fires(w: &mut World, clock: AlarmKind) {
    let alarm = w.task("t").clocks.get(clock).unwrap();
    w.now = alarm.due.0;
    let fire = FireAlarm { task: "t".into(), clock, set: alarm.set, backoff_millis: 1 };
    w.does(&Caller::system(), fire);
}

#[test]
fn event_notifies_the_agents_that_it_concerns_except_its_author() {
    type Act = fn(&mut World);
    let table: [(&str, World, Act, &[&str]); 24] = [
        ("the holder ends it", begun("ken"), |w| drop(w.does(&by("ken"), complete("t"))), &["task.result t ui"]),
        (
            "so does one without a card",
            begun("plain"),
            |w| drop(w.does(&by("plain"), complete("t"))),
            &["task.result t ui"],
        ),
        (
            "a caller without a name",
            begun("ken"),
            |w| drop(w.does(&Caller::anonymous(), complete("t"))),
            &["task.result t ui,ken"],
        ),
        ("a person does", begun("ken"), |w| drop(w.does(&anna(), complete("t"))), &["task.result t ui,ken"]),
        ("it fails", begun("ken"), |w| drop(w.does(&by("ken"), fail("t"))), &["task.error t ui"]),
        ("it is cancelled", begun("ken"), |w| drop(w.does(&anna(), cancel("t"))), &["task.cancel t ui,ken"]),
        (
            "an agent without a card gets no notification",
            begun("plain"),
            |w| drop(w.does(&anna(), cancel("t"))),
            &["task.cancel t ui"],
        ),
        (
            "it is skipped",
            begun("ken"),
            |w| {
                w.does(&by("ken"), fail("t"));
                w.does(&anna(), skip("t"));
            },
            &["task.error t ui", "x.task.skipped t ui"],
        ),
        (
            "its parts go with it",
            with_a_part(),
            |w| drop(w.does(&anna(), cancel("t"))),
            &["task.cancel t ui,ken", "task.cancel part ken,ada"],
        ),
        (
            "its parts are of no use",
            with_a_part(),
            |w| drop(w.does(&by("ken"), complete("t"))),
            &["task.result t ui", "task.cancel part ada"],
        ),
        (
            "its time is over",
            begun("ken"),
            |w| fires(w, AlarmKind::Runtime),
            &["task.timeout t ui,ken", "task.error t ui"],
        ),
        ("it is given back", begun("ken"), |w| drop(w.does(&by("ken"), release("t"))), &[]),
        ("it is taken away", begun("ken"), |w| drop(w.does(&anna(), release("t"))), &["x.task.released t ken"]),
        (
            "it is given to another",
            begun("ken"),
            |w| drop(w.does(&anna(), assign("t", "ada"))),
            &["x.task.released t ken"],
        ),
        ("its holder is silent", begun("ken"), |w| drop(w.goes_offline("ken")), &["x.task.released t ken"]),
        ("its holder leaves", begun("ken"), |w| drop(w.does(&by("ken"), LeaveTeam { agent: "ken".into() })), &[]),
        (
            "it is opened again",
            begun("ken"),
            |w| {
                w.does(&by("ken"), complete("t"));
                w.does(&anna(), ReopenTask { run: "run_1".into(), task: "t".into() });
            },
            &["task.result t ui", "x.task.reopened t ui"],
        ),
        (
            "its asker has left",
            begun("ken"),
            |w| {
                w.does(&by("ui"), LeaveTeam { agent: "ui".into() });
                w.does(&by("ken"), complete("t"));
            },
            &[],
        ),
        (
            "another face made it",
            team(),
            |w| {
                w.creates("u", &[]);
                w.starts("ken", "u");
                w.does(&anna(), cancel("u"));
            },
            &["task.cancel u ken"],
        ),
        ("it is started", passed_on(), |w| drop(w.does(&by("ken"), start(Some("ken"), "t"))), &["task.accept t ui"]),
        (
            "it goes on after a pause",
            begun("ken"),
            |w| {
                w.does(&by("ken"), crate::testing::moves("t", TaskState::Paused));
                w.does(&by("ken"), start(Some("ken"), "t"));
            },
            &[],
        ),
        (
            "it is offered to a colleague",
            begun("ken"),
            |w| drop(w.does(&by("ken"), hand_over("h", "ken", Some("ada"), "t"))),
            &["x.handoff.initiated t ada"],
        ),
        (
            "it is offered to everybody, and taken by one without a card",
            begun("plain"),
            |w| {
                w.does(&by("plain"), hand_over("h", "plain", None, "t"));
                w.does(&by("lead"), AcceptHandoff { handoff: "h".into(), agent: "lead".into() });
            },
            &[],
        ),
        (
            "no message has to do with it",
            team(),
            |w| {
                w.creates("u", &[]);
                w.starts("plain", "u");
                w.does(&anna(), cancel("u"));
            },
            &[],
        ),
    ];
    for (what, mut w, act, expected) in table {
        let since = w.log.len();
        act(&mut w);
        assert_eq!(notifications(&w, since), expected, "{what}");
    }
}

#[test]
fn act_announced_by_its_message_notifies_only_of_further_consequences() {
    let payload = |retryable: bool| json!({ "payload": { "message": "no browser", "retryable": retryable } });
    for (mut w, kind, from, more, expected) in [
        (begun("ken"), "task.result", "ken", json!({}), vec![]),
        (begun("ken"), "task.error", "ken", payload(false), vec![]),
        (begun("ken"), "task.error", "ken", payload(true), vec!["task.error t ui"]),
        (with_a_part(), "task.cancel", "ui", json!({}), vec!["task.cancel part ken,ada"]),
    ] {
        let since = w.log.len();
        sends(&mut w, "m", kind, from, &more);
        assert_eq!(notifications(&w, since), expected, "{kind}");
        let other = if from == "ken" { "ui" } else { "ken" };
        assert!(w.pending(other).contains(&"m"), "{kind} reaches {other}");
    }
}

#[test]
fn result_addressed_to_others_also_reaches_the_requester() {
    let mut w = begun("ken");
    sends(&mut w, "m", "task.result", "ken", &json!({ "to": [{ "agent_id": "agent:ada" }] }));
    assert_eq!((w.pending("ada"), w.pending("ui").last()), (vec!["m"], Some(&"m")));
    let mut w = begun("ken");
    sends(&mut w, "m", "task.cancel", "ken", &json!({ "to": [{ "agent_id": "agent:ada" }] }));
    assert_eq!(
        (w.pending("ui").last(), w.pending("ken")),
        (Some(&"m"), vec![]),
        "the author of an act gets no notification of it"
    );
}

#[test]
fn handoff_answer_acks_the_offer_and_notifies_its_author() {
    type Answer = fn(&mut World) -> Vec<&'static str>;
    let answers: [(Answer, &str); 2] = [
        (
            |w| w.does(&by("ada"), AcceptHandoff { handoff: "h".into(), agent: "ada".into() }),
            "x.handoff.accepted t ken",
        ),
        (
            |w| {
                let reason = "too much to do".to_owned();
                w.does(&by("ada"), RejectHandoff { handoff: "h".into(), agent: "ada".into(), reason })
            },
            "x.handoff.rejected t ken",
        ),
    ];
    for (answer, expected) in answers {
        let mut w = begun("ken");
        w.does(&by("ken"), hand_over("h", "ken", Some("ada"), "t"));
        assert_eq!(w.pending("ada").len(), 1);
        let since = w.log.len();
        assert!(answer(&mut w).contains(&"message.acked"), "{expected}");
        assert_eq!(notifications(&w, since), [expected]);
        assert_eq!(w.pending("ada"), [""; 0], "{expected}");
    }
}

#[test]
fn events_of_a_requested_task_have_the_trace_of_the_request() {
    let mut w = team();
    let trace = json!({ "trace_id": "tr_1", "span_id": "sp_1" });
    asks_for(&mut w, "t", "ui", &json!({ "trace": trace }));
    let since = w.log.len();
    w.does(&anna(), assign("t", "ken"));
    w.does(&by("ken"), start(Some("ken"), "t"));
    asks_for(&mut w, "part", "ken", &json!({ "parent_task_id": "t" }));
    w.does(&anna(), cancel("t"));
    let traced = |kind: &str, task: &str| {
        let mut rows = w.log[since..].iter().map(envelope::following);
        let shown = rows.find(|shown| shown["type"] == kind && shown["task_id"] == task).unwrap();
        shown["trace"].clone()
    };
    for kind in ["x.task.claimed", "x.task.started", "x.task.cancelled"] {
        assert_eq!(traced(kind, "t"), trace, "{kind}");
    }
    // A part belongs to the trace of the whole, and is a span of its own.
    for kind in ["x.task.created", "x.task.cancelled"] {
        assert_eq!(traced(kind, "part"), json!({ "trace_id": "tr_1" }), "{kind}");
    }
    let request = json!({ "type": "task.request", "trace": { "own": 1 } }).to_string();
    let passed_on = envelope::forwarded(request.as_bytes(), w.task("part"), &"ada".into(), &"m".into(), Timestamp(0));
    assert_eq!(passed_on["trace"], json!({ "own": 1, "trace_id": "tr_1" }));
    assert_eq!(w.rebuilt(), *w.rows());
}

#[test]
fn events_of_a_requested_task_are_in_the_thread_of_the_request() {
    let mut w = team();
    asks_for(&mut w, "t", "stranger", &json!({}));
    w.creates("u", &[]);
    let since = w.log.len();
    for task in ["t", "u"] {
        w.starts("plain", task);
        w.does(&by("plain"), complete(task));
    }
    for fact in w.log[since..].iter().map(|row| &row.event).filter(|event| event.notification_rule().is_some()) {
        let thread = fact.thread().map(ThreadId::as_str);
        let expected = (fact.task() == Some(&TaskId::from("t"))).then_some("thr_1");
        assert_eq!(thread, expected, "{fact:?}");
    }
}

#[test]
fn id_of_an_event_or_notification_is_refused_to_senders() {
    let mut w = begun("ken");
    for id in [event_id::of(Seq(7)), event_id::notification_of(Seq(7), Timestamp(1)).to_string()] {
        assert_eq!(w.refuses(&by("ada"), ingest(&id, "x.y", "ada", &json!({}))), Code::AlreadyExists);
    }
}

/// A task that is reserved for `ken`, who has the request.
fn passed_on() -> World {
    let mut w = team();
    asks_for(&mut w, "t", "ui", &json!({ "deadline": "1970-01-01T01:00:00Z" }));
    w.does(&anna(), assign("t", "ken"));
    w.does(&Caller::system(), forward("t", "ken", "fwd"));
    assert_eq!(w.pending("ken"), ["fwd"]);
    w
}

fn forward(task: &str, to: &str, message: &str) -> OfferTask {
    OfferTask {
        task: task.into(),
        to: to.into(),
        message: message.into(),
        accept_within_millis: 30_000,
        artifacts: vec![],
    }
}

fn state(w: &World) -> ColumnValue {
    w.rows().get(&Key::Delivery(DeliveryId { message: "fwd".into(), agent: "ken".into() })).unwrap().columns()[3]
        .clone()
}

#[test]
fn request_is_superseded_when_the_agent_loses_the_task() {
    type Act = fn(&mut World);
    let table: [(&str, Act, &str); 10] = [
        ("not accepted in time", |w| fires(w, AlarmKind::Accept), "superseded"),
        ("over", |w| fires(w, AlarmKind::Deadline), "superseded"),
        ("given to another", |w| drop(w.does(&anna(), assign("t", "ada"))), "superseded"),
        ("taken away", |w| drop(w.does(&anna(), release("t"))), "superseded"),
        ("declined", |w| drop(w.does(&by("ken"), release("t"))), "superseded"),
        ("cancelled", |w| drop(sends(w, "c", "task.cancel", "ui", &json!({}))), "superseded"),
        (
            "handed over",
            |w| {
                w.does(&by("ken"), hand_over("h", "ken", Some("ada"), "t"));
                w.does(&by("ada"), AcceptHandoff { handoff: "h".into(), agent: "ada".into() });
            },
            "superseded",
        ),
        (
            "handed over to the agent itself",
            |w| {
                w.does(&by("ken"), hand_over("h", "ken", Some("ken"), "t"));
                w.does(&by("ken"), AcceptHandoff { handoff: "h".into(), agent: "ken".into() });
            },
            "acked",
        ),
        ("its agent is silent", |w| drop(w.goes_offline("ken")), "superseded"),
        ("begun and ended", |w| drop(sends(w, "r", "task.result", "ken", &json!({}))), "acked"),
    ];
    for (what, act, expected) in table {
        let mut w = passed_on();
        act(&mut w);
        assert_eq!(state(&w), expected.into(), "{what}");
        assert!(!w.pending("ken").contains(&"fwd"), "{what}");
        assert_eq!(w.rebuilt(), *w.rows(), "{what}");
    }
}

#[test]
fn superseded_delivery_accepts_only_a_late_ack() {
    let mut w = passed_on();
    let give_up = crate::messages::GiveUpDelivery {
        message: "fwd".into(),
        agent: "ken".into(),
        attempts: 9,
        error: "it is down".to_owned(),
    };
    let retry = crate::messages::RetryDelivery { message: "fwd".into(), agent: "ken".into() };
    w.does(&Caller::system(), give_up.clone());
    assert_eq!(state(&w), "dead".into());
    w.does(&anna(), assign("t", "ada"));
    assert_eq!(state(&w), "superseded".into());
    assert_eq!(w.refuses(&Caller::system(), give_up), Code::Stale);
    assert_eq!(w.refuses(&anna(), retry), Code::InvalidState);
    w.reads("ken", &["fwd"]);
    assert_eq!((w.acks("ken", &["fwd"]), state(&w)), (vec!["message.acked"], "acked".into()));
    assert_eq!(w.rebuilt(), *w.rows());
}

#[test]
fn task_assigned_over_another_surface_is_offered_to_agents_with_capabilities() {
    let mut w = passed_on();
    assert!(w.task("t").clocks.get(AlarmKind::Accept).is_some(), "the router can give it to another");
    assert_eq!(w.refuses(&Caller::system(), forward("t", "ken", "again")), Code::Stale, "it has it already");
    w.does(&anna(), assign("t", "ada"));
    assert_eq!(w.refuses(&Caller::system(), forward("t", "ken", "late")), Code::Stale);
    assert_eq!(w.does(&Caller::system(), forward("t", "ada", "fwd_ada")), ["task.forwarded"]);
    w.creates("u", &[]);
    w.does(&anna(), assign("u", "plain"));
    assert_eq!(w.refuses(&Caller::system(), forward("u", "plain", "no")), Code::Stale, "it has no card");
    w.does(&anna(), assign("u", "ada"));
    assert_eq!(w.does(&Caller::system(), forward("u", "ada", "fwd_u")), ["task.forwarded"]);
    let created = w.task("u").created;
    let Some(EventRef::TaskForwarded(fact)) = w.log.last().map(|row| row.event.typed()) else { panic!() };
    assert_eq!((&fact.request, fact.accept_by), (&MessageId::new(event_id::of(created)), None), "a person decided it");
    w.creates("first", &[]);
    w.creates("later", &["first"]);
    w.does(&anna(), assign("later", "ada"));
    assert_eq!(w.refuses(&Caller::system(), forward("later", "ada", "early")), Code::Stale);
    assert_eq!(w.rebuilt(), *w.rows());
}
