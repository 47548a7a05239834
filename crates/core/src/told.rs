//! Who is told of what happens to a task without a message.
//!
//! Whoever speaks the Clutch protocol learns by messages what concerns it. What comes in as one is delivered as it was sent; what
//! other faces, people and clocks do to a task is told by the fact itself, which every face can show as a message. Those who are
//! told are part of the fact, so that replaying it opens the same deliveries.

use std::collections::BTreeSet;

use crate::clutch::EnvelopeReceived;
use crate::kernel::caller::Caller;
use crate::kernel::id::{TaskId, Timestamp};
use crate::model::notification::{Over, Told, listening};
use crate::model::task::Task;
use crate::model::{Key, ReadItem, ReadSet, Undecided, View};
use crate::tasks::{TaskAttemptsExhausted, TaskClaimed};
use crate::traits::AnyEvent;

/// Writes down in the facts of one command whom each is told to, and which request it makes void.
pub(crate) fn address(view: &View, caller: &Caller, now: Timestamp, facts: &mut [AnyEvent]) -> Result<(), Undecided> {
    let telling = |fact: &&AnyEvent| fact.notification().is_some();
    let tasks: Vec<TaskId> = facts.iter().filter(telling).filter_map(AnyEvent::task).cloned().collect();
    view.ensure_loaded(tasks.iter().map(|task| Key::Task(task.clone()).into()).collect())?;
    needs_those_concerned(view, facts)?;
    let by_message = facts.first().and_then(AnyEvent::get).map(|received: &EnvelopeReceived| received.task.clone());
    let mut taken: BTreeSet<TaskId> = BTreeSet::new();
    for fact in facts {
        // A task that is made by the same command is nobody's yet.
        let Some(task) = fact.task().filter(|_| fact.notification().is_some()) else { continue };
        let Some(task) = view.find_task(task)? else { continue };
        // A message tells what it does by itself; that no attempt follows is more than it says.
        let is_said = by_message.as_ref() == Some(&task.id) && !fact.is::<TaskAttemptsExhausted>();
        let mut to = if is_said { vec![] } else { listening(view, fact.audience(task))? };
        // Whoever does something knows of it. A caller without a name may be anybody.
        to.retain(|agent| caller.actor.agent() != Some(agent));
        let over = over(fact, task).filter(|_| !taken.contains(&task.id));
        if fact.is::<TaskClaimed>() {
            taken.insert(task.id.clone());
        }
        let thread = task.origin.thread.clone();
        let at = (!to.is_empty()).then_some(now);
        let trace = task.origin.terms.as_ref().map(|terms| terms.trace.clone()).unwrap_or_default();
        if let Some(told) = fact.notification_mut() {
            *told = Told { to, thread, at, over, trace };
        }
    }
    Ok(())
}

/// All at once, because many tasks may end together.
fn needs_those_concerned(view: &View, facts: &[AnyEvent]) -> Result<(), Undecided> {
    let mut read_set: ReadSet = Vec::new();
    for fact in facts.iter().filter(|fact| fact.notification().is_some()) {
        let Some(task) = fact.task().map(|task| view.find_task(task)).transpose()?.flatten() else { continue };
        read_set.extend(fact.audience(task).into_iter().map(|(agent, _)| ReadItem::from(Key::Agent(agent))));
    }
    view.ensure_loaded(read_set)
}

/// The offer that the event withdraws: to the agent that the task was only reserved for.
fn over(event: &AnyEvent, task: &Task) -> Option<Over> {
    let (message, agent) = (task.routing.offered_in.clone()?, task.reserved_for.clone()?);
    event.withdraws_offer(&agent).then_some(Over { message, agent })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::agents::LeaveTeam;
    use crate::envelope;
    use crate::handoffs::{AcceptHandoff, RejectHandoff};
    use crate::kernel::code::Code;
    use crate::kernel::event_id;
    use crate::kernel::id::{AgentId, Seq, ThreadId};
    use crate::model::agent::AgentRole;
    use crate::model::{ColumnValue, DeliveryId};

    use crate::model::task::{AlarmKind, TaskState};
    use crate::registry::EventRef;
    use crate::routing::OfferTask;
    use crate::tasks::{FireAlarm, ReopenTask};
    use crate::testing::{
        World, anna, assign, by, cancel, complete, fail, hand_over, ingest, release, sends, skip, start,
    };

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

    /// What was told since a place: the type, the task, and to whom. Each is in those inboxes and in no other.
    fn told(w: &World, since: usize) -> Vec<String> {
        let telling = w.log[since..].iter().filter(|row| !row.event.tells().is_empty());
        let lines = telling.map(|row| {
            let id = row.event.id_at(row.seq);
            let to: Vec<&str> = row.event.tells().iter().map(AgentId::as_str).collect();
            for agent in ["lead", "ui", "plain", "ken", "ada"] {
                assert_eq!(w.pending(agent).contains(&id.as_str()), to.contains(&agent), "{agent}: {:?}", row.event);
            }
            let shown = envelope::of(row);
            assert_eq!((&shown["id"], &shown["payload"]["told"]), (&json!(id), &Value::Null));
            assert_eq!(shown["to"].as_array().unwrap().len(), to.len());
            format!("{} {} {}", shown["type"].as_str().unwrap(), shown["task_id"].as_str().unwrap(), to.join(","))
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
    fn whoever_is_concerned_and_did_not_do_it_is_told() {
        type Deed = fn(&mut World);
        let table: [(&str, World, Deed, &[&str]); 24] = [
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
                "whoever has no card is not told",
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
            (
                "somebody begins it",
                passed_on(),
                |w| drop(w.does(&by("ken"), start(Some("ken"), "t"))),
                &["task.accept t ui"],
            ),
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
        for (what, mut w, deed, expected) in table {
            let since = w.log.len();
            deed(&mut w);
            assert_eq!(told(&w, since), expected, "{what}");
        }
    }

    #[test]
    fn what_comes_by_a_message_is_told_by_that_and_what_follows_from_it_by_itself() {
        let payload = |retryable: bool| json!({ "payload": { "message": "no browser", "retryable": retryable } });
        for (mut w, kind, from, more, expected) in [
            (begun("ken"), "task.result", "ken", json!({}), vec![]),
            (begun("ken"), "task.error", "ken", payload(false), vec![]),
            (begun("ken"), "task.error", "ken", payload(true), vec!["task.error t ui"]),
            (with_a_part(), "task.cancel", "ui", json!({}), vec!["task.cancel part ken,ada"]),
        ] {
            let since = w.log.len();
            sends(&mut w, "m", kind, from, &more);
            assert_eq!(told(&w, since), expected, "{kind}");
            let other = if from == "ken" { "ui" } else { "ken" };
            assert!(w.pending(other).contains(&"m"), "{kind} reaches {other}");
        }
    }

    #[test]
    fn whomever_a_message_is_to_its_asker_hears_of_the_end() {
        let mut w = begun("ken");
        sends(&mut w, "m", "task.result", "ken", &json!({ "to": [{ "agent_id": "agent:ada" }] }));
        assert_eq!((w.pending("ada"), w.pending("ui").last()), (vec!["m"], Some(&"m")));
        let mut w = begun("ken");
        sends(&mut w, "m", "task.cancel", "ken", &json!({ "to": [{ "agent_id": "agent:ada" }] }));
        assert_eq!((w.pending("ui").last(), w.pending("ken")), (Some(&"m"), vec![]), "nobody is told what it did");
    }

    #[test]
    fn whoever_answers_an_offer_has_seen_it_and_whoever_made_it_is_told() {
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
            assert_eq!(told(&w, since), [expected]);
            assert_eq!(w.pending("ada"), [""; 0], "{expected}");
        }
    }

    #[test]
    fn whatever_is_made_of_a_request_belongs_to_its_trace() {
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
        let passed_on =
            envelope::forwarded(request.as_bytes(), w.task("part"), &"ada".into(), &"m".into(), Timestamp(0));
        assert_eq!(passed_on["trace"], json!({ "own": 1, "trace_id": "tr_1" }));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn what_becomes_of_a_task_is_seen_in_the_thread_that_it_was_asked_for_in() {
        let mut w = team();
        asks_for(&mut w, "t", "stranger", &json!({}));
        w.creates("u", &[]);
        let since = w.log.len();
        for task in ["t", "u"] {
            w.starts("plain", task);
            w.does(&by("plain"), complete(task));
        }
        for fact in w.log[since..].iter().map(|row| &row.event).filter(|fact| fact.notification().is_some()) {
            let thread = fact.thread().map(ThreadId::as_str);
            let expected = (fact.task() == Some(&TaskId::from("t"))).then_some("thr_1");
            assert_eq!((thread, fact.tells()), (expected, &[][..]), "{fact:?}");
        }
    }

    #[test]
    fn nobody_takes_the_id_of_what_is_told() {
        let mut w = begun("ken");
        let next = event_id::message_at(Seq(w.log.len() as u64 + 1));
        assert_eq!(w.refuses(&by("ada"), ingest(next.as_str(), "x.y", "ada", &json!({}))), Code::AlreadyExists);
        let told = event_id::notification_at(Seq(w.log.len() as u64 + 1), Timestamp(w.now));
        assert_eq!(w.refuses(&by("ada"), ingest(told.as_str(), "x.y", "ada", &json!({}))), Code::AlreadyExists);
        let theirs = event_id::message_at(Seq(1 << 50));
        assert_eq!(sends(&mut w, theirs.as_str(), "x.y", "ada", &json!({})), ["envelope.received"]);
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
    fn a_request_is_void_when_the_task_is_not_the_agents_any_more() {
        type Deed = fn(&mut World);
        let table: [(&str, Deed, &str); 10] = [
            ("not accepted in time", |w| fires(w, AlarmKind::Accept), "passed_on"),
            ("over", |w| fires(w, AlarmKind::Deadline), "passed_on"),
            ("given to another", |w| drop(w.does(&anna(), assign("t", "ada"))), "passed_on"),
            ("taken away", |w| drop(w.does(&anna(), release("t"))), "passed_on"),
            ("declined", |w| drop(w.does(&by("ken"), release("t"))), "passed_on"),
            ("cancelled", |w| drop(sends(w, "c", "task.cancel", "ui", &json!({}))), "passed_on"),
            (
                "handed over",
                |w| {
                    w.does(&by("ken"), hand_over("h", "ken", Some("ada"), "t"));
                    w.does(&by("ada"), AcceptHandoff { handoff: "h".into(), agent: "ada".into() });
                },
                "passed_on",
            ),
            (
                "handed over to the agent itself",
                |w| {
                    w.does(&by("ken"), hand_over("h", "ken", Some("ken"), "t"));
                    w.does(&by("ken"), AcceptHandoff { handoff: "h".into(), agent: "ken".into() });
                },
                "acked",
            ),
            ("its agent is silent", |w| drop(w.goes_offline("ken")), "passed_on"),
            ("begun and ended", |w| drop(sends(w, "r", "task.result", "ken", &json!({}))), "acked"),
        ];
        for (what, deed, expected) in table {
            let mut w = passed_on();
            deed(&mut w);
            assert_eq!(state(&w), expected.into(), "{what}");
            assert!(!w.pending("ken").contains(&"fwd"), "{what}");
            assert_eq!(w.rebuilt(), *w.rows(), "{what}");
        }
    }

    #[test]
    fn what_is_void_can_be_acknowledged_late_and_nothing_else() {
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
        assert_eq!(state(&w), "passed_on".into());
        assert_eq!(w.refuses(&Caller::system(), give_up), Code::Stale);
        assert_eq!(w.refuses(&anna(), retry), Code::InvalidState);
        w.reads("ken", &["fwd"]);
        assert_eq!((w.acks("ken", &["fwd"]), state(&w)), (vec!["message.acked"], "acked".into()));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn work_that_others_give_is_passed_on_to_whoever_speaks_the_protocol() {
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
        assert_eq!((&fact.request, fact.accept_by), (&event_id::message_at(created), None), "a person decided it");
        w.creates("first", &[]);
        w.creates("later", &["first"]);
        w.does(&anna(), assign("later", "ada"));
        assert_eq!(w.refuses(&Caller::system(), forward("later", "ada", "early")), Code::Stale);
        assert_eq!(w.rebuilt(), *w.rows());
    }
}
