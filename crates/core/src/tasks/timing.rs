//! What time does to tasks: before it has come, at the very moment, and after it.

use serde_json::{Value, json};

use super::{FireAlarm, ReopenTask};
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, Seq, TaskId};
use crate::model::run::RunStatus;
use crate::model::task::{AlarmKind, TaskState};
use crate::registry::EventRef;
use crate::routing::OfferTask;
use crate::testing::{
    World, anna, by, cancel, claim, complete, create, fail, ingest, moves, release, retry, route, sends, start,
};
use crate::traits::AnyEvent;

const ACCEPT: i64 = 30_000;

/// Agents with a skill that take so many seconds for a task at most.
fn team(agents: &[(&str, Option<u32>)]) -> World {
    let mut w = World::default();
    for (agent, seconds) in agents {
        let mut card = json!({ "v": "clutch/0.1", "agent_id": agent, "capabilities": [{ "id": "skill:law" }] });
        if let Some(seconds) = seconds {
            card["limits"] = json!({ "max_runtime_sec": seconds });
        }
        sends(&mut w, &format!("reg_{agent}"), "agent.register", agent, &json!({ "payload": card }));
    }
    w
}

fn asks_for(w: &mut World, task: &str, more: &Value) {
    let mut said = json!({ "task_id": task, "requires": ["skill:law"] });
    for (field, value) in more.as_object().unwrap() {
        said[field] = value.clone();
    }
    sends(w, &format!("req_{task}"), "task.request", "ui", &said);
}

/// Gives a task to whom the choice falls on, with the request.
fn gives(w: &mut World, task: &str) -> String {
    let routed = route(w, task);
    let to = routed.choice.selected.clone().unwrap();
    w.does(&Caller::system(), routed);
    let message = format!("fwd_{}", w.log.len()).as_str().into();
    let accept_within_millis = ACCEPT.unsigned_abs();
    let forward = OfferTask { task: task.into(), to: to.clone(), message, accept_within_millis, artifacts: vec![] };
    assert_eq!(w.does(&Caller::system(), forward), ["task.forwarded"]);
    to.to_string()
}

/// The next thing happens at this time.
fn at(w: &mut World, time: i64) {
    assert!(time > w.now, "{time} is over, it is {}", w.now);
    w.now = time - 1;
}

fn fire(w: &World, task: &str, clock: AlarmKind) -> FireAlarm {
    let set = w.task(task).clocks.get(clock).map_or(Seq(u64::MAX), |alarm| alarm.set);
    FireAlarm { task: task.into(), clock, set, backoff_millis: 1_000 }
}

fn due(w: &World, task: &str, clock: AlarmKind) -> i64 {
    w.task(task).clocks.get(clock).unwrap().due.0
}

/// A clock does nothing a moment before its time, and what is told at it.
fn goes_off(w: &mut World, task: &str, clock: AlarmKind) -> Vec<&'static str> {
    let (command, due) = (fire(w, task, clock), due(w, task, clock));
    at(w, due - 1);
    assert_eq!(w.refuses(&Caller::system(), command.clone()), Code::Stale, "{clock:?}");
    for stranger in [by("ken"), anna(), Caller::anonymous()] {
        assert_eq!(w.refuses(&stranger, command.clone()), Code::Forbidden);
    }
    w.now = due - 1;
    let told = w.does(&Caller::system(), command.clone());
    // Another node was about to fire the same one.
    assert_eq!(w.refuses(&Caller::system(), command), Code::Stale, "{clock:?}");
    assert_eq!(w.rebuilt(), *w.rows());
    told
}

fn other<'a>(agent: &str, team: [&'a str; 2]) -> &'a str {
    if team[0] == agent { team[1] } else { team[0] }
}

fn accepts(w: &mut World, id: &str, agent: &str, task: &str) -> Result<Vec<AnyEvent>, Code> {
    let accepted = w.run(&by(agent), ingest(id, "task.accept", agent, &json!({ "task_id": task })));
    accepted.map(|(facts, _)| facts).map_err(|refusal| refusal.code)
}

fn errs(w: &mut World, agent: &str, task: &str, retryable: bool) -> Vec<&'static str> {
    let payload = json!({ "code": "TOOL_UNAVAILABLE", "message": "no browser", "retryable": retryable });
    let id = format!("err_{}", w.log.len());
    sends(w, &id, "task.error", agent, &json!({ "task_id": task, "payload": payload }))
}

#[test]
fn what_is_not_accepted_goes_to_the_next_and_the_first_comes_too_late() {
    let mut w = team(&[("ken", None), ("ada", None)]);
    asks_for(&mut w, "t", &json!({}));
    let first = gives(&mut w, "t");
    assert_eq!(goes_off(&mut w, "t", AlarmKind::Accept), ["task.released", "message.sent", "message.superseded"]);
    let task = w.task("t");
    assert_eq!((task.held_by(), task.routing.declined_by.as_slice()), (None, &[AgentId::from(first.as_str())][..]));
    assert!(task.reason.as_ref().is_some_and(|reason| reason.starts_with(&format!("{first} did not accept"))));
    let second = gives(&mut w, "t");
    assert_eq!(second, other(&first, ["ken", "ada"]));
    assert_eq!(accepts(&mut w, "late", &first, "t"), Err(Code::ReservedForOther));
    assert!(accepts(&mut w, "acc", &second, "t").is_ok());
    assert_eq!(w.task("t").clocks.next(), None, "nothing limits it");
    assert_eq!((w.task("t").attempt, w.task("t").routing.declined_by.len()), (1, 0));
}

#[test]
fn a_clock_stops_with_what_it_is_for() {
    type Step = fn(&mut World);
    let ends: [(&str, Step); 6] = [
        ("accept", |w| drop(accepts(w, "acc", "ken", "t").unwrap())),
        ("claim", |w| drop(w.does(&by("ken"), claim("ken", "t")))),
        ("decline", |w| drop(w.does(&by("ken"), release("t")))),
        ("offline", |w| drop(w.goes_offline("ken"))),
        ("cancel", |w| drop(w.does(&anna(), cancel("t")))),
        ("result", |w| drop(sends(w, "res", "task.result", "ken", &json!({})))),
    ];
    for (what, end) in ends {
        let mut w = team(&[("ken", None)]);
        asks_for(&mut w, "t", &json!({}));
        gives(&mut w, "t");
        let (stale, due) = (fire(&w, "t", AlarmKind::Accept), due(&w, "t", AlarmKind::Accept));
        end(&mut w);
        assert_eq!(w.task("t").clocks.get(AlarmKind::Accept), None, "{what}");
        at(&mut w, due + 1);
        assert_eq!(w.refuses(&Caller::system(), stale), Code::Stale, "{what}");
    }
}

#[test]
fn what_is_planned_and_nobody_has_is_given_out_all_the_same() {
    let mut w = team(&[("ken", None), ("ada", None)]);
    asks_for(&mut w, "t", &json!({}));
    w.does(&anna(), moves("t", TaskState::Planning));
    let first = gives(&mut w, "t");
    assert_eq!(
        goes_off(&mut w, "t", AlarmKind::Accept),
        ["task.released", "message.sent", "message.superseded"],
        "it must be accepted in time"
    );
    let second = gives(&mut w, "t");
    assert_eq!(second, other(&first, ["ken", "ada"]));
    // Whoever plans what it was given has seen the request.
    w.does(&by(&second), moves("t", TaskState::Planning));
    assert_eq!((w.task("t").state, w.task("t").clocks.get(AlarmKind::Accept)), (TaskState::Planning, None));
    let told = errs(&mut w, &second, "t", true);
    assert!(["task.claimed", "task.started", "task.failed"].iter().all(|kind| told.contains(kind)), "{told:?}");
    assert_eq!(told.last(), Some(&"task.retried"));
    // The pause before the next attempt is not cut short.
    let rest = due(&w, "t", AlarmKind::RetryBackoff);
    w.does(&anna(), moves("t", TaskState::Planning));
    assert_eq!((due(&w, "t", AlarmKind::RetryBackoff), w.task("t").to_be_routed()), (rest, None));
    goes_off(&mut w, "t", AlarmKind::RetryBackoff);
    assert!(w.task("t").to_be_routed().is_some());
    assert_eq!(w.rebuilt(), *w.rows());
}

#[test]
fn what_nobody_could_accept_is_held_against_nobody() {
    let mut w = team(&[("ken", None)]);
    for task in ["begun", "t"] {
        asks_for(&mut w, task, &json!({}));
    }
    gives(&mut w, "t");
    w.claims("ken", "begun");
    let sets = |to| crate::runs::SetRunStatus { run: "run_1".into(), to, reason: None };
    w.does(&anna(), sets(RunStatus::Paused));
    assert_eq!(goes_off(&mut w, "t", AlarmKind::Accept), ["task.released", "message.sent", "message.superseded"]);
    let task = w.task("t");
    assert_eq!((task.held_by(), task.routing.declined_by.as_slice()), (None, &[][..]));
    assert!(
        task.reason.as_ref().is_some_and(|reason| reason.starts_with("ken could not accept it")),
        "{:?}",
        task.reason
    );
    w.does(&anna(), sets(RunStatus::InProgress));
    w.does(&by("ken"), release("begun"));
    assert_eq!(gives(&mut w, "t"), "ken");
    assert_eq!(w.rebuilt(), *w.rows());
}

#[test]
fn nobody_is_asked_to_accept_what_cannot_be_accepted() {
    let mut w = team(&[("ken", None)]);
    for task in ["begun", "t"] {
        asks_for(&mut w, task, &json!({}));
    }
    w.claims("ken", "begun");
    let sets = |to| crate::runs::SetRunStatus { run: "run_1".into(), to, reason: None };
    w.does(&anna(), sets(RunStatus::Paused));
    w.does(&anna(), crate::testing::assign("t", "ken"));
    let forward = OfferTask {
        task: "t".into(),
        to: "ken".into(),
        message: "fwd".into(),
        accept_within_millis: ACCEPT.unsigned_abs(),
        artifacts: vec![],
    };
    assert_eq!(w.refuses(&Caller::system(), forward.clone()), Code::InvalidState);
    w.does(&anna(), sets(RunStatus::InProgress));
    assert_eq!(w.does(&Caller::system(), forward), ["task.forwarded"]);
    assert_eq!(due(&w, "t", AlarmKind::Accept), w.now + ACCEPT);
}

#[test]
fn those_who_do_not_answer_are_asked_again_after_ever_longer_pauses() {
    let mut w = team(&[("ken", None)]);
    asks_for(&mut w, "t", &json!({}));
    for pause in [30_000, 60_000, 120_000] {
        gives(&mut w, "t");
        goes_off(&mut w, "t", AlarmKind::Accept);
        let failed = route(&w, "t");
        assert_eq!(failed.choice.selected, None);
        assert_eq!(w.does(&Caller::system(), failed.clone()), ["routing.failed"]);
        assert_eq!(due(&w, "t", AlarmKind::Reroute), w.now + pause);
        assert_eq!(w.does(&Caller::system(), failed), [""; 0], "that is told once");
        assert_eq!(goes_off(&mut w, "t", AlarmKind::Reroute), ["routing.resumed"]);
    }
    // Somebody new need not wait for the end of the pause.
    gives(&mut w, "t");
    goes_off(&mut w, "t", AlarmKind::Accept);
    let failed = route(&w, "t");
    w.does(&Caller::system(), failed);
    let card = json!({ "v": "clutch/0.1", "agent_id": "ada", "capabilities": [{ "id": "skill:law" }] });
    sends(&mut w, "reg_ada", "agent.register", "ada", &json!({ "payload": card }));
    assert_eq!(gives(&mut w, "t"), "ada");
    assert_eq!(w.task("t").clocks.get(AlarmKind::Reroute), None);
    accepts(&mut w, "acc", "ada", "t").unwrap();
    assert_eq!(w.task("t").routing.reroutes, 0);
}

#[test]
fn an_agent_that_was_asked_in_vain_is_not_chosen_by_an_older_choice() {
    let mut w = team(&[("ken", None)]);
    asks_for(&mut w, "t", &json!({}));
    let old = route(&w, "t");
    gives(&mut w, "t");
    goes_off(&mut w, "t", AlarmKind::Accept);
    assert_eq!(w.refuses(&Caller::system(), old), Code::Stale);
}

#[test]
fn the_sooner_of_both_limits_ends_an_attempt() {
    for (card, request, seconds) in
        [(Some(60), Some(5), 5), (Some(5), Some(60), 5), (None, Some(7), 7), (Some(8), None, 8)]
    {
        let mut w = team(&[("ken", card)]);
        let limits = request.map_or(json!({}), |seconds: u32| json!({ "limits": { "max_runtime_sec": seconds } }));
        asks_for(&mut w, "t", &limits);
        gives(&mut w, "t");
        accepts(&mut w, "acc", "ken", "t").unwrap();
        assert_eq!(due(&w, "t", AlarmKind::Runtime), w.now + seconds * 1_000, "{card:?} {request:?}");
    }
}

#[test]
fn a_card_limits_also_what_no_request_asked_for() {
    let mut w = team(&[("ken", Some(5)), ("ada", None)]);
    for (task, agent) in [("plain", "ken"), ("free", "ada")] {
        w.creates(task, &[]);
        w.starts(agent, task);
    }
    assert_eq!(w.task("free").clocks.next(), None, "nothing limits it");
    assert_eq!(due(&w, "plain", AlarmKind::Runtime), w.now - 2 + 5_000);
    let file = crate::files::ClaimFile { task: Some("plain".into()), ..crate::testing::claim_file("ken", "x") };
    w.does(&by("ken"), file);
    assert_eq!(goes_off(&mut w, "plain", AlarmKind::Runtime), ["task.timed_out", "message.sent", "file.released"]);
    let task = w.task("plain");
    assert_eq!(
        (task.state, task.held_by(), task.clocks.next()),
        (TaskState::Failed, None, None),
        "and not tried again"
    );
    assert!(task.reason.as_ref().is_some_and(|reason| reason.starts_with("RUNTIME_EXCEEDED: ")), "{:?}", task.reason);
}

#[test]
fn whoever_a_task_is_assigned_to_has_as_long_to_take_it_as_whom_the_router_asks() {
    let assigns = |w: &mut World, task: &str, to: &str| {
        w.does(&anna(), crate::testing::assign(task, to));
        let message = format!("fwd_{}", w.log.len()).as_str().into();
        let accept_within_millis = ACCEPT.unsigned_abs();
        let forward = OfferTask { task: task.into(), to: to.into(), message, accept_within_millis, artifacts: vec![] };
        assert_eq!(w.does(&Caller::system(), forward), ["task.forwarded"]);
    };
    let mut w = team(&[("ken", None), ("ada", None)]);
    asks_for(&mut w, "t", &json!({}));
    assigns(&mut w, "t", "ken");
    assert_eq!(due(&w, "t", AlarmKind::Accept), w.now + ACCEPT);
    assigns(&mut w, "t", "ada");
    assert_eq!(due(&w, "t", AlarmKind::Accept), w.now + ACCEPT, "it is counted anew");
    assert_eq!(goes_off(&mut w, "t", AlarmKind::Accept), ["task.released", "message.sent", "message.superseded"]);
    assert_eq!(gives(&mut w, "t"), "ken", "who was asked before is not asked first");
    // Whoever claims it has accepted it, though it does not begin at once: it may wait for something, or do others first.
    assigns(&mut w, "t", "ada");
    w.claims("ada", "t");
    assert_eq!(w.task("t").clocks.next(), None);
    // What the router has no part in is kept for whom it was given to.
    w.creates("plain", &[]);
    assigns(&mut w, "plain", "ken");
    assert_eq!(w.task("plain").clocks.next(), None);
    asks_for(&mut w, "errand", &json!({ "to": [{ "agent_id": "person:anna" }] }));
    assigns(&mut w, "errand", "ken");
    assert_eq!(w.task("errand").clocks.next(), None);
}

#[test]
fn an_attempt_that_takes_too_long_is_ended_and_tried_elsewhere() {
    let mut w = team(&[("ken", None), ("ada", None)]);
    asks_for(&mut w, "t", &json!({ "limits": { "max_runtime_sec": 10 } }));
    let first = gives(&mut w, "t");
    accepts(&mut w, "acc", &first, "t").unwrap();
    let began = due(&w, "t", AlarmKind::Runtime);
    w.does(&by(&first), crate::testing::moves("t", TaskState::Paused));
    w.does(&by(&first), start(None, "t"));
    assert_eq!(due(&w, "t", AlarmKind::Runtime), began, "a pause gives no more time");
    assert_eq!(goes_off(&mut w, "t", AlarmKind::Runtime), ["task.timed_out", "message.sent", "task.retried"]);
    let task = w.task("t");
    assert_eq!((task.state, task.attempt, task.held_by()), (TaskState::Pending, 2, None));
    assert!(task.reason.as_ref().is_some_and(|reason| reason.starts_with("RUNTIME_EXCEEDED: ")), "{:?}", task.reason);
    assert_eq!((w.agent(&first).holding, w.agent(&first).recent.successes()), (0, 0));
    assert_eq!(w.agent(&first).recent.count(), 1);
    let late = w.run(&by(&first), ingest("res", "task.result", &first, &json!({})));
    assert_eq!(late.unwrap_err().code, Code::InvalidTransition, "nobody has it");
    goes_off(&mut w, "t", AlarmKind::RetryBackoff);
    assert_eq!(gives(&mut w, "t"), other(&first, ["ken", "ada"]));
}

#[test]
fn a_deadline_ends_a_task_wherever_it_is() {
    for (state, holder) in [("waiting", None), ("given", None), ("accepted", Some("ken")), ("resting", None)] {
        let agents: &[(&str, Option<u32>)] = if state == "waiting" { &[] } else { &[("ken", None)] };
        let mut w = team(agents);
        asks_for(&mut w, "t", &json!({ "deadline": "1970-01-01T00:01:00Z" }));
        if state == "waiting" {
            let failed = route(&w, "t");
            w.does(&Caller::system(), failed);
        } else {
            gives(&mut w, "t");
        }
        if matches!(state, "accepted" | "resting") {
            accepts(&mut w, "acc", "ken", "t").unwrap();
        }
        if state == "resting" {
            at(&mut w, 58_500);
            assert_eq!(errs(&mut w, "ken", "t", true), ["envelope.received", "task.failed", "task.retried"]);
        }
        assert_eq!(due(&w, "t", AlarmKind::Deadline), 60_000, "{state}");
        if state == "given" {
            w.task("t").clocks.get(AlarmKind::Accept).unwrap();
        }
        let appended = goes_off(&mut w, "t", AlarmKind::Deadline);
        let to_inboxes: &[&str] = match state {
            "given" => &["message.sent", "message.superseded"],
            "accepted" => &["message.sent"],
            _ => &[],
        };
        assert_eq!(appended, [&["task.timed_out"], to_inboxes, &["run.status_set"]].concat(), "{state}");
        let task = w.task("t");
        assert_eq!((task.state, task.clocks.next(), task.held_by()), (TaskState::Failed, None, None), "{state}");
        let EventRef::TaskTimedOut(fact) = w.log[w.log.len() - appended.len()].event.typed() else { panic!("{state}") };
        assert_eq!(fact.holder.as_ref().map(AgentId::as_str), holder, "{state}");
        assert!(fact.reason.starts_with("DEADLINE_EXCEEDED: "), "{}", fact.reason);
        assert_eq!(fact.reserved_for.is_some(), state == "given");
        // Whoever wants it all the same gets it.
        w.does(&anna(), retry("t"));
        assert_eq!((w.task("t").state, w.task("t").clocks.next()), (TaskState::Pending, None));
    }
}

#[test]
fn a_deadline_takes_along_what_is_part_of_the_task() {
    let mut w = team(&[("ken", None), ("ada", None)]);
    asks_for(&mut w, "t", &json!({ "deadline": "1970-01-01T00:01:00Z" }));
    let holder = gives(&mut w, "t");
    accepts(&mut w, "acc", &holder, "t").unwrap();
    for (task, parent) in [("a", "t"), ("b", "a")] {
        asks_for(&mut w, task, &json!({ "parent_task_id": parent, "limits": { "max_runtime_sec": 600 } }));
    }
    let given = gives(&mut w, "a");
    let told = goes_off(&mut w, "t", AlarmKind::Deadline);
    assert_eq!(
        told,
        [
            "task.timed_out",
            "message.sent",
            "task.cancelled",
            "message.sent",
            "message.superseded",
            "task.cancelled",
            "run.status_set"
        ]
    );
    assert_eq!(w.run_row("run_1").status, RunStatus::Failed);
    for part in ["a", "b"] {
        assert_eq!((w.task(part).state, w.task(part).clocks.next()), (TaskState::Cancelled, None), "{part}");
    }
    let told = w.log.iter().rev().find_map(|row| match row.event.typed() {
        EventRef::TaskCancelled(fact) if fact.task == TaskId::from("a") => fact.reserved_for.clone(),
        _ => None,
    });
    assert_eq!(told, Some(given.as_str().into()), "who was asked for it is told");
}

#[test]
fn nothing_is_given_to_anybody_after_its_deadline() {
    let mut w = team(&[("ken", None)]);
    asks_for(&mut w, "t", &json!({ "deadline": "1970-01-01T00:01:00Z" }));
    let late = route(&w, "t");
    at(&mut w, 60_000);
    assert_eq!(w.refuses(&Caller::system(), late), Code::Stale);
}

#[test]
fn an_error_that_may_mend_is_tried_again_later_and_by_another() {
    let mut w = team(&[("ken", None), ("ada", None)]);
    asks_for(&mut w, "t", &json!({}));
    let first = gives(&mut w, "t");
    accepts(&mut w, "acc", &first, "t").unwrap();
    assert_eq!(errs(&mut w, &first, "t", true), ["envelope.received", "task.failed", "task.retried"]);
    assert_eq!(due(&w, "t", AlarmKind::RetryBackoff), w.now + 1_000);
    assert!(w.task("t").to_be_routed().is_none(), "it rests");
    assert_eq!(w.refuses(&Caller::system(), route(&w, "t")), Code::Stale);
    assert_eq!(goes_off(&mut w, "t", AlarmKind::RetryBackoff), ["routing.resumed"]);
    let second = gives(&mut w, "t");
    assert_eq!(second, other(&first, ["ken", "ada"]));
    let EventRef::TaskForwarded(forwarded) = w.log.last().unwrap().event.typed() else {
        panic!("it was not passed on")
    };
    assert_eq!(forwarded.attempt, 2);
    accepts(&mut w, "acc2", &second, "t").unwrap();
    errs(&mut w, &second, "t", true);
    assert_eq!(due(&w, "t", AlarmKind::RetryBackoff), w.now + 2_000);
    goes_off(&mut w, "t", AlarmKind::RetryBackoff);
    let third = gives(&mut w, "t");
    accepts(&mut w, "acc3", &third, "t").unwrap();
    let told = errs(&mut w, &third, "t", true);
    assert_eq!(told, ["envelope.received", "task.failed", "task.attempts_exhausted", "run.status_set"]);
    let task = w.task("t");
    assert_eq!((task.state, task.attempt, task.clocks.next()), (TaskState::Failed, 3, None));
    assert_eq!(w.run_row("run_1").status, RunStatus::Failed);
    // Asked for once more, it has all its attempts again.
    w.does(&anna(), retry("t"));
    assert_eq!(w.run_row("run_1").status, RunStatus::InProgress);
    let again = gives(&mut w, "t");
    accepts(&mut w, "acc4", &again, "t").unwrap();
    assert_eq!(errs(&mut w, &again, "t", true).last(), Some(&"task.retried"));
    assert_eq!(w.task("t").attempt, 5);
}

#[test]
fn how_often_it_is_tried_is_as_the_request_says() {
    for (max, outcome) in [(1, "task.attempts_exhausted"), (2, "task.retried")] {
        let mut w = team(&[("ken", None)]);
        asks_for(&mut w, "t", &json!({ "limits": { "max_attempts": max } }));
        gives(&mut w, "t");
        assert!(errs(&mut w, "ken", "t", true).contains(&outcome), "{max}");
    }
    let mut w = team(&[("ken", None)]);
    asks_for(&mut w, "t", &json!({}));
    gives(&mut w, "t");
    assert_eq!(errs(&mut w, "ken", "t", false)[5..], ["task.failed", "run.status_set"]);
    assert_eq!((w.task("t").state, w.task("t").attempt), (TaskState::Failed, 1));
    // The only one who fits gets it again, after the pause.
    let mut w = team(&[("ken", None)]);
    asks_for(&mut w, "t", &json!({}));
    gives(&mut w, "t");
    errs(&mut w, "ken", "t", true);
    goes_off(&mut w, "t", AlarmKind::RetryBackoff);
    assert_eq!(gives(&mut w, "t"), "ken");
}

#[test]
fn there_is_no_attempt_after_the_deadline() {
    let mut w = team(&[("ken", None)]);
    asks_for(&mut w, "t", &json!({ "deadline": "1970-01-01T00:01:00Z" }));
    gives(&mut w, "t");
    accepts(&mut w, "acc", "ken", "t").unwrap();
    at(&mut w, 59_000);
    assert_eq!(errs(&mut w, "ken", "t", true), ["envelope.received", "task.failed", "run.status_set"]);
    assert_eq!((w.task("t").state, w.task("t").clocks.next()), (TaskState::Failed, None));
}

#[test]
fn what_rests_can_be_taken_or_cancelled() {
    for end in ["claim", "cancel"] {
        let mut w = team(&[("ken", None)]);
        asks_for(&mut w, "t", &json!({}));
        gives(&mut w, "t");
        errs(&mut w, "ken", "t", true);
        match end {
            "claim" => w.does(&by("ken"), claim("ken", "t")),
            _ => sends(&mut w, "can", "task.cancel", "ui", &json!({})),
        };
        assert_eq!(w.task("t").clocks.next(), None, "{end}");
    }
}

fn retry_part(run: &str, task: &str) -> ReopenTask {
    ReopenTask { run: run.into(), task: task.into() }
}

#[test]
fn a_part_of_a_run_is_tried_again_with_all_that_went_on_from_it() {
    let mut w = World::of(&["lead", "a"]);
    w.plans("wf", &[("one", &[]), ("two", &["one"]), ("three", &["two"]), ("four", &[]), ("five", &["four"])]);
    for task in ["tk_one", "tk_two", "tk_three", "tk_four"] {
        w.starts("a", task);
        if task != "tk_three" {
            w.does(&by("a"), complete(task));
        }
    }
    w.does(&by("a"), complete("tk_three"));
    w.starts("a", "tk_five");
    w.does(&by("a"), complete("tk_five"));
    assert_eq!(w.run_row("wf").status, RunStatus::Completed);
    let told = w.does(&anna(), retry_part("wf", "tk_one"));
    assert_eq!(told, ["task.reopened", "task.reopened", "task.reopened", "run.status_set"]);
    for (task, attempt, waits) in [("tk_one", 2, 0), ("tk_two", 2, 1), ("tk_three", 2, 1)] {
        let task = w.task(task);
        assert_eq!(
            (task.state, task.attempt, task.waiting_on.len()),
            (TaskState::Pending, attempt, waits),
            "{}",
            task.id
        );
        assert_eq!((&task.outcome, task.completed_at), (&None, None));
    }
    assert_eq!((w.task("tk_four").state, w.task("tk_five").state), (TaskState::Completed, TaskState::Completed));
    assert_eq!((w.run_row("wf").status, w.run_row("wf").unfinished), (RunStatus::InProgress, 3));
    assert_eq!(w.rebuilt(), *w.rows());
    for task in ["tk_one", "tk_two", "tk_three"] {
        w.starts("a", task);
        w.does(&by("a"), complete(task));
    }
    assert_eq!(w.run_row("wf").status, RunStatus::Completed);
}

#[test]
fn whoever_works_on_what_went_on_from_it_begins_anew_too() {
    let mut w = World::of(&["lead", "a", "b"]);
    w.plans("wf", &[("one", &[]), ("two", &["one"]), ("three", &["one"]), ("four", &["two"])]);
    w.starts("a", "tk_one");
    w.does(&by("a"), complete("tk_one"));
    w.starts("b", "tk_two");
    w.does(&anna(), retry_part("wf", "tk_one"));
    assert_eq!((w.holder("tk_two"), w.agent("b").holding, w.task("tk_two").attempt), (None, 0, 2));
    for untouched in ["tk_three", "tk_four"] {
        assert_eq!((w.task(untouched).attempt, w.task(untouched).waiting_on.len()), (1, 1), "{untouched}");
    }
    assert_eq!(w.refuses(&by("b"), start(Some("b"), "tk_three")), Code::DependenciesUnfinished);
}

#[test]
fn a_request_is_tried_again_with_its_subtasks() {
    let mut w = team(&[("ken", None), ("ada", None)]);
    asks_for(&mut w, "t", &json!({}));
    let holder = gives(&mut w, "t");
    accepts(&mut w, "acc", &holder, "t").unwrap();
    asks_for(&mut w, "a", &json!({ "parent_task_id": "t" }));
    let part = gives(&mut w, "a");
    sends(&mut w, "res_a", "task.result", &part, &json!({ "task_id": "a" }));
    sends(&mut w, "res_t", "task.result", &holder, &json!({ "task_id": "t" }));
    assert_eq!(w.run_row("run_1").status, RunStatus::Completed);
    // Only a subtask: what it is part of stays as it is.
    assert_eq!(w.does(&by("ui"), retry_part("run_1", "a")), ["task.reopened", "run.status_set"]);
    assert_eq!((w.task("t").state, w.run_row("run_1").status), (TaskState::Completed, RunStatus::InProgress));
    let part = gives(&mut w, "a");
    sends(&mut w, "res_a2", "task.result", &part, &json!({ "task_id": "a" }));
    assert_eq!(w.run_row("run_1").status, RunStatus::Completed);
    let told = w.does(&by("ui"), retry_part("run_1", "t"));
    assert_eq!(told, ["task.reopened", "task.reopened", "run.status_set"]);
    assert_eq!((w.task("t").attempt, w.task("a").attempt), (2, 3));
    assert!(w.task("t").to_be_routed().is_some() && w.task("a").to_be_routed().is_some());
}

#[test]
fn what_a_part_of_a_run_is_must_be_right() {
    let mut w = World::of(&["lead", "a", "b"]);
    w.does(&by("a"), crate::testing::create_run("wf"));
    w.does(&by("a"), crate::testing::plan("wf", &[("one", &[]), ("two", &[])]));
    w.starts("b", "tk_one");
    w.creates("plain", &[]);
    let refused = |w: &mut World, caller: &Caller, command: ReopenTask| {
        let refusal = w.run(caller, command).unwrap_err();
        (refusal.code, refusal.pointer.unwrap_or_default())
    };
    let at_task = |code| (code, "/task_id".to_owned());
    assert_eq!(refused(&mut w, &anna(), retry_part("wf_x", "tk_one")), (Code::WorkflowNotFound, String::new()));
    assert_eq!(refused(&mut w, &anna(), retry_part("wf", "ghost")), at_task(Code::TaskNotFound));
    assert_eq!(refused(&mut w, &anna(), retry_part("wf", "plain")), at_task(Code::Invalid));
    for open in ["tk_one", "tk_two"] {
        assert_eq!(refused(&mut w, &anna(), retry_part("wf", open)), at_task(Code::InvalidTransition), "{open}");
    }
    w.does(&by("b"), fail("tk_one"));
    assert_eq!(refused(&mut w, &by("b"), retry_part("wf", "tk_one")), (Code::Forbidden, String::new()));
    assert_eq!(w.does(&by("a"), retry_part("wf", "tk_one")), ["task.reopened"]);
    assert_eq!(w.run_row("wf").unfinished, 2, "a failed task was left to do before");
    w.does(&anna(), crate::runs::SetRunStatus { run: "wf".into(), to: RunStatus::Abandoned, reason: None });
    w.does(&anna(), cancel("tk_one"));
    assert_eq!(refused(&mut w, &anna(), retry_part("wf", "tk_one")).0, Code::InvalidState);
    w.starts("b", "plain");
    w.does(&by("b"), complete("plain"));
    assert_eq!(w.does(&by("b"), retry_part("run_default", "plain")), ["task.reopened"]);
}

#[test]
fn what_others_did_is_not_undone_by_anybody() {
    let mut w = World::of(&["lead", "a", "b", "c"]);
    let asked = |id: &str, run: &str, by: &str| crate::tasks::CreateTask {
        run: run.into(),
        assigned_by: by.to_owned(),
        ..create(id, &[])
    };
    // The default run has nobody who steers it, and neither has one that a stranger opened.
    for (task, run) in [("t", "run_default"), ("u", "wf")] {
        w.does(&by("ui"), asked(task, run, "ui"));
        w.starts("b", task);
        w.does(&by("b"), complete(task));
        let refusal = w.run(&by("c"), retry_part(run, task)).unwrap_err();
        assert_eq!((refusal.code, refusal.pointer.as_deref()), (Code::Forbidden, Some("/task_id")), "{task}");
        assert_eq!(refusal.message, format!("task {task} is completed: ui asked for it, and b had it"));
        assert_eq!(refusal.hint.as_deref(), Some("ask ui, the lead or a person to have it tried again"));
        for caller in [by("ui"), by("b"), by("lead"), anna(), Caller::anonymous()] {
            assert!(w.does(&caller, retry_part(run, task)).contains(&"task.reopened"), "{task} by {:?}", caller.actor);
            w.starts("b", task);
            w.does(&by("b"), complete(task));
        }
        w.does(&by("ui"), retry_part(run, task));
        w.starts("b", task);
        w.does(&by("b"), fail(task));
        assert!(w.does(&by("c"), retry_part(run, task)).contains(&"task.reopened"), "it is anybody's, as by a claim");
    }
}

#[test]
fn nobody_without_authority_takes_away_what_others_work_on() {
    let mut w = World::of(&["lead", "a", "b"]);
    w.does(&by("a"), crate::testing::create_run("wf"));
    w.does(&by("a"), crate::testing::plan("wf", &[("one", &[]), ("two", &["one"]), ("three", &["one"])]));
    w.starts("a", "tk_one");
    w.does(&by("a"), complete("tk_one"));
    w.starts("a", "tk_two");
    w.starts("b", "tk_three");
    for caller in [by("a"), Caller::anonymous()] {
        let refusal = w.run(&caller, retry_part("wf", "tk_one")).unwrap_err();
        if caller == by("a") {
            assert_eq!((refusal.code, refusal.pointer.as_deref()), (Code::AlreadyClaimed, Some("/task_id")));
            assert!(refusal.message.ends_with(": tk_three (held by b)"), "{refusal}");
            assert!(refusal.hint.unwrap().contains("the lead or a person"));
        }
    }
    assert_eq!((w.holder("tk_two"), w.holder("tk_three")), (Some("a"), Some("b")), "nothing is done by halves");
    w.does(&by("b"), release("tk_three"));
    let told = w.does(&by("a"), retry_part("wf", "tk_one"));
    assert_eq!(told, ["task.reopened", "task.reopened"], "its own it may take");
    w.starts("a", "tk_one");
    w.does(&by("a"), complete("tk_one"));
    w.starts("b", "tk_three");
    w.does(&by("lead"), retry_part("wf", "tk_one"));
    assert_eq!((w.holder("tk_three"), w.agent("b").holding), (None, 0));
}

#[test]
fn whoever_opens_a_part_of_one_run_must_steer_the_others_that_go_on_from_it() {
    let mut w = World::of(&["lead", "a", "b"]);
    for (agent, run, task, deps) in [("a", "wf_a", "t", &[][..]), ("b", "wf_b", "u", &["t"][..])] {
        w.does(&by(agent), crate::testing::create_run(run));
        let created = crate::tasks::CreateTask { run: run.into(), assigned_by: agent.to_owned(), ..create(task, deps) };
        w.does(&by(agent), created);
        w.starts(agent, task);
        w.does(&by(agent), complete(task));
    }
    assert_eq!(w.refuses(&by("a"), retry_part("wf_a", "t")), Code::Forbidden, "b steers wf_b");
    assert_eq!(w.task("t").state, TaskState::Completed);
    w.does(&by("lead"), retry_part("wf_a", "t"));
    assert_eq!((w.task("t").attempt, w.task("u").attempt), (2, 2));
    assert_eq!(w.rebuilt(), *w.rows());
}

#[test]
fn long_chains_and_other_runs_go_on_from_it_too() {
    let mut w = World::of(&["lead", "a"]);
    let names: Vec<String> = (0..60).map(|n| format!("s{n}")).collect();
    w.does(&anna(), crate::testing::create_run("wf"));
    for (at, name) in names.iter().enumerate() {
        let before: Vec<TaskId> = at.checked_sub(1).map(|before| names[before].as_str().into()).into_iter().collect();
        let task = crate::tasks::CreateTask { run: "wf".into(), depends_on: before, ..create(name, &[]) };
        w.does(&Caller::anonymous(), task);
        w.starts("a", name);
        w.does(&by("a"), complete(name));
    }
    w.creates("beyond", &["s59"]);
    w.starts("a", "beyond");
    w.does(&by("a"), complete("beyond"));
    let told = w.does(&anna(), retry_part("wf", "s0"));
    assert_eq!(told.iter().filter(|kind| **kind == "task.reopened").count(), 61);
    assert_eq!(w.rebuilt(), *w.rows());
    let mut w = World::of(&["lead", "a"]);
    for at in 0..8 {
        let before = if at == 0 { vec![] } else { vec![format!("d{}", at - 1)] };
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        w.creates(&format!("d{at}"), &before);
        w.starts("a", &format!("d{at}"));
        w.does(&by("a"), complete(&format!("d{at}")));
    }
    assert_eq!(w.refuses(&anna(), retry_part("run_default", "d0")), Code::TooLarge, "that is too far to look");
    w.does(&anna(), retry_part("run_default", "d3"));
}
