//! Giving a task to whom a choice fell on. The choice was made over what the router knew; the rule looks again, over rows.

use serde::{Deserialize, Serialize};

use crate::eligibility::{blockers, load_beside};
use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::event_id;
use crate::kernel::id::{AgentId, MessageId, RunId, TaskId, Timestamp};
use crate::kernel::rejection::Rejection;
use crate::model::envelope::Filed;
use crate::model::message::{AddressedAs, Delivery, Form, Standing};
use crate::model::message_type::MessageType;
use crate::model::routing::{MAX_REROUTE_BACKOFF_MILLIS, RejectionFilter, Routing, RoutingDecision};
use crate::model::task::{AlarmKind, Alarms, Task};
use crate::model::trace::Trace;
use crate::model::{DeliveryId, EventStamp, Key, Lookup, ReadItem, ReadSet, RowWriter, Undecided, View};
use crate::runs;
use crate::tasks::{TaskReserved, doubled};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, NamedArtifacts, ReplySource, Subject};

/// Reserves a task that was asked for by a request for the agent that was chosen, or tells that nobody fits. Refused if it is
/// not so any more: then the router looks again.
#[derive(Clone, PartialEq, Debug)]
pub struct RouteTask {
    pub task: TaskId,
    pub choice: RoutingDecision,
    /// If everybody who fits was asked in vain: how long until they are asked anew. The next time it is twice as long.
    pub pause_millis: u64,
}

/// Passes the request on to the agent that the task was reserved for. Done together with [`RouteTask`], or alone where somebody else
/// reserved it, so that its body, the request as it is passed on, is that of a fact of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfferTask {
    pub task: TaskId,
    pub to: AgentId,
    /// The id of the request as it is passed on.
    pub message: MessageId,
    /// How long the agent has to accept the task.
    pub accept_within_millis: u64,
    /// What is attached to the request as it is passed on.
    pub artifacts: Vec<String>,
}

/// Whom a task was given to, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoutingDecided {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub choice: RoutingDecision,
    /// The trace that the task was asked for in.
    #[serde(default, skip_serializing_if = "Trace::is_none")]
    pub trace: Trace,
}

impl Event for RoutingDecided {
    const KIND: &'static str = "routing.decided";

    fn subject(&self) -> Subject<'_> {
        let trace = Some(&self.trace).filter(|trace| !trace.is_none());
        Subject { trace, ..Subject::task(&self.task, self.run.as_ref()) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![]
    }

    fn apply(&self, _rows: &mut RowWriter<'_>, _stamp: EventStamp) {}
}

/// Why a task was given to nobody. It waits until somebody fits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoutingFailed {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub choice: RoutingDecision,
    /// When those are asked anew who were asked in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Trace::is_none")]
    pub trace: Trace,
}

impl Event for RoutingFailed {
    const KIND: &'static str = "routing.failed";

    fn subject(&self) -> Subject<'_> {
        let trace = Some(&self.trace).filter(|trace| !trace.is_none());
        Subject { trace, ..Subject::task(&self.task, self.run.as_ref()) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Task(self.task.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let fail = |task: &mut Task| task.fail_routing(&self.choice, self.again_at, stamp.seq);
        rows.update(self.task.clone(), fail);
    }
}

/// The request is passed on to the agent that was chosen, who finds it in its inbox.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskForwarded {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub to: AgentId,
    pub message: MessageId,
    /// The message that asked for the task, whose words these are; or the fact that it was created by, as it is shown.
    pub request: MessageId,
    pub attempt: u32,
    /// When it is given to somebody else, if the agent has not accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_by: Option<Timestamp>,
    /// What is attached to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
}

/// Whether it should be told that a choice for a task that waits fell on nobody: told once, and again if there is a reason
/// that was not told yet. How many were rejected is no news.
pub fn is_news(routing: &Routing, clocks: &Alarms, choice: &RoutingDecision) -> bool {
    let told = routing.failed && choice.counts.keys().all(|filter| routing.failed_by.contains(filter));
    // Those who were asked in vain wait for a clock.
    let has_clock = !choice.counts.contains_key(&RejectionFilter::Tried) || clocks.get(AlarmKind::Reroute).is_some();
    !(told && has_clock)
}

impl TaskForwarded {
    pub(crate) fn keys(&self) -> Vec<Key> {
        let delivery = Key::Delivery(DeliveryId { message: self.message.clone(), agent: self.to.clone() });
        vec![Key::Envelope(self.message.clone()), delivery, Key::Task(self.task.clone())]
    }

    fn delivery(&self, stamp: EventStamp) -> Delivery {
        Delivery {
            message: self.message.clone(),
            agent: self.to.clone(),
            standing: Standing::Queued,
            to: AddressedAs::Recipient { form: Form::Envelope, wakes: true },
            sent: stamp.seq,
            queued_at: stamp.at,
            task: Some(self.task.clone()),
            read_at: None,
            acked_at: None,
            dead: None,
            superseded_at: None,
        }
    }
}

impl Event for TaskForwarded {
    const KIND: &'static str = "task.forwarded";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: Some(&self.to), ..Subject::task(&self.task, self.run.as_ref()) }
    }

    fn write_set(&self) -> Vec<Key> {
        self.keys()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.message.clone(), Filed::own(&self.message, MessageType::TaskRequest, stamp.seq));
        let delivery = DeliveryId { message: self.message.clone(), agent: self.to.clone() };
        rows.put(delivery, self.delivery(stamp));
        rows.update(self.task.clone(), |task: &mut Task| {
            task.forward_in(&self.message, &self.to, self.accept_by, stamp.seq);
        });
    }

    fn artifacts(&self) -> Option<NamedArtifacts<'_>> {
        NamedArtifacts::of("message", &self.message, &self.artifacts)
    }
}

impl Command for RouteTask {
    const NAME: &'static str = "RouteTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        let mut read_set: ReadSet = vec![Key::Task(self.task.clone()).into()];
        if let Some(agent) = &self.choice.selected {
            read_set.push(Key::Agent(agent.clone()).into());
            read_set.push(Lookup::tasks_held_by(agent).into());
        }
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        needs_router(cx.caller)?;
        let task = cx.view.task(&self.task)?;
        if task.clocks.get(AlarmKind::Deadline).is_some_and(|deadline| deadline.due <= cx.now) {
            return Err(stale("its deadline is over").into());
        }
        task.to_be_routed().ok_or_else(|| stale("it is not to be routed any more"))?;
        // Nothing to look at again before the run goes on.
        runs::ensure_open(cx.view, task)?;
        let facts = match &self.choice.selected {
            Some(agent) => self.gives(cx.view, task, agent)?,
            None => self.fails(task, cx.now),
        };
        Ok(Decision::new(facts, ReplySource::row(self.task.clone())))
    }
}

impl RouteTask {
    fn gives(&self, view: &View, task: &Task, agent: &AgentId) -> Result<Vec<AnyEvent>, Undecided> {
        let known = view.online_agent(agent).map_err(as_stale)?;
        if task.routing.declined_by.contains(agent) {
            return Err(stale("the agent was asked in vain meanwhile").into());
        }
        if let Some(rejected) = blockers(task, known, load_beside(view, &task.id, agent)?) {
            return Err(stale(&format!("{agent} {}", rejected.reason)).into());
        }
        let (id, run, choice) = (task.id.clone(), task.run_if_named(), self.choice.clone());
        Ok(vec![
            AnyEvent::new(RoutingDecided { task: id.clone(), run, choice, trace: trace_of(task) }),
            AnyEvent::new(TaskReserved { task: id, agent: agent.clone() }),
        ])
    }

    fn fails(&self, task: &Task, now: Timestamp) -> Vec<AnyEvent> {
        if !is_news(&task.routing, &task.clocks, &self.choice) {
            return vec![];
        }
        let (again_at, trace) = (self.again_at(task, now), trace_of(task));
        let (task, run) = (task.id.clone(), task.run_if_named());
        vec![AnyEvent::new(RoutingFailed { task, run, choice: self.choice.clone(), again_at, trace })]
    }

    /// When those who were asked in vain are asked anew, if there are such. Pauses get longer, so that a team that does not
    /// answer does not fill the log.
    fn again_at(&self, task: &Task, now: Timestamp) -> Option<Timestamp> {
        self.choice.counts.get(&RejectionFilter::Tried)?;
        let pause = doubled(self.pause_millis, task.routing.reroutes, MAX_REROUTE_BACKOFF_MILLIS);
        Some(task.clocks.get(AlarmKind::Reroute).map_or_else(|| now.plus_millis(pause), |alarm| alarm.due))
    }
}

fn trace_of(task: &Task) -> Trace {
    task.origin.terms.as_ref().map(|terms| terms.trace.clone()).unwrap_or_default()
}

impl Command for OfferTask {
    const NAME: &'static str = "OfferTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        let keys = [
            Key::Task(self.task.clone()),
            Key::Agent(self.to.clone()),
            Key::Envelope(self.message.clone()),
            Key::Message(self.message.clone()),
        ];
        keys.into_iter().map(ReadItem::from).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        needs_router(cx.caller)?;
        let task = cx.view.task(&self.task)?;
        if task.to_be_passed_on() != Some(&self.to) {
            return Err(stale("the task is not reserved for it, or was passed on already").into());
        }
        // Nobody can accept it before its run goes on, so nobody is asked before.
        runs::ensure_open(cx.view, task)?;
        // Who was given work by another face, and does not speak the protocol, finds it there.
        let speaks = cx.view.find_agent(&self.to)?.is_some_and(|agent| agent.profile.card.is_some());
        if task.origin.terms.is_none() && !speaks {
            return Err(stale("nobody asked by a message, and it has no card").into());
        }
        if cx.view.envelope(&self.message)?.is_some() || cx.view.find_message(&self.message)?.is_some() {
            return Err(stale("the id of its message is taken").into());
        }
        let fact = AnyEvent::new(TaskForwarded {
            task: task.id.clone(),
            run: task.run_if_named(),
            to: self.to.clone(),
            message: self.message.clone(),
            request: task
                .origin
                .terms
                .as_ref()
                .map_or_else(|| MessageId::new(event_id::of(task.created)), |terms| terms.request.clone()),
            attempt: task.attempt,
            accept_by: self.accept_by(task, cx.now),
            artifacts: self.artifacts.clone(),
        });
        Ok(Decision::new(vec![fact], ReplySource::row(self.task.clone())))
    }
}

impl OfferTask {
    /// Only what the router can give to somebody else has to be accepted in time.
    fn accept_by(&self, task: &Task, now: Timestamp) -> Option<Timestamp> {
        let routed = task.origin.terms.as_ref().is_some_and(|terms| terms.is_for_agents());
        routed.then(|| now.plus_millis(self.accept_within_millis))
    }
}

fn needs_router(caller: &Caller) -> Result<(), Rejection> {
    match caller.actor {
        Actor::System => Ok(()),
        _ => Err(Rejection::new(Code::Forbidden, "only the router assigns tasks by routing")),
    }
}

fn stale(why: &str) -> Rejection {
    Rejection::new(Code::Stale, format!("the choice is out of date: {why}"))
}

fn as_stale(halt: Undecided) -> Undecided {
    match halt {
        Undecided::Rejected(refusal) => stale(&refusal.message).into(),
        missing @ Undecided::Missing(_) => missing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::message::Standing;
    use crate::model::task::TaskState;
    use crate::testing::{World, by, claim, release, sends};

    fn card(id: &str, max: u32) -> Value {
        json!({ "payload": { "v": "clutch/0.1", "agent_id": id, "capabilities": [{ "id": "skill:law" }],
                             "limits": { "max_concurrency": max } } })
    }

    /// Agents with a skill that take so many tasks at a time.
    fn team(agents: &[(&str, u32)]) -> World {
        let mut w = World::default();
        for (agent, max) in agents {
            sends(&mut w, &format!("reg_{agent}"), "agent.register", agent, &card(agent, *max));
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

    fn route(w: &World, task: &str) -> RouteTask {
        crate::testing::route(w, task)
    }

    fn routes(w: &mut World, task: &str) -> Vec<&'static str> {
        let route = route(w, task);
        w.does(&Caller::system(), route)
    }

    fn forward(task: &str, to: &str) -> OfferTask {
        let message = format!("fwd_{task}").as_str().into();
        OfferTask { task: task.into(), to: to.into(), message, accept_within_millis: 30_000, artifacts: vec![] }
    }

    const GIVEN: [&str; 2] = ["routing.decided", "task.reserved"];

    #[test]
    fn whoever_was_chosen_gets_the_task_and_the_request() {
        let mut w = team(&[("ken", 1), ("ada", 1)]);
        asks_for(&mut w, "t", &json!({}));
        assert_eq!(routes(&mut w, "t"), GIVEN);
        let chosen = w.task("t").held_by().unwrap().to_string();
        let other = if chosen == "ken" { "ada" } else { "ken" };
        assert_eq!(w.refuses(&Caller::system(), forward("t", other)), Code::Stale);
        assert_eq!(w.refuses(&by(&chosen), forward("t", &chosen)), Code::Forbidden);
        assert_eq!(w.does(&Caller::system(), forward("t", &chosen)), ["task.forwarded"]);
        assert_eq!(w.standing("fwd_t", &chosen), Some(Standing::Queued));
        assert_eq!(w.refuses(&Caller::system(), forward("t", &chosen)), Code::Stale, "its id is taken");
        assert_eq!(w.refuses(&by(other), claim(other, "t")), Code::ReservedForOther);
        sends(&mut w, "acc", "task.accept", &chosen, &json!({ "task_id": "t" }));
        assert_eq!(w.task("t").state, TaskState::InProgress);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn nobody_routes_but_the_router_and_nothing_is_routed_twice() {
        let mut w = team(&[("ken", 2)]);
        asks_for(&mut w, "t", &json!({}));
        let first = route(&w, "t");
        assert_eq!(w.refuses(&by("ken"), first.clone()), Code::Forbidden);
        w.does(&Caller::system(), first.clone());
        assert_eq!(w.refuses(&Caller::system(), first), Code::Stale);
        w.creates("plain", &[]);
        let plain = RouteTask { task: "plain".into(), ..route(&w, "t") };
        assert_eq!(w.refuses(&Caller::system(), plain), Code::Stale, "it was not asked for by a request");
    }

    #[test]
    fn a_choice_that_breaks_a_limit_by_now_is_refused() {
        let mut w = team(&[("ken", 1), ("ada", 1)]);
        asks_for(&mut w, "t", &json!({ "to": [{ "agent_id": "agent:ken" }] }));
        asks_for(&mut w, "u", &json!({ "to": [{ "agent_id": "agent:ken" }] }));
        let (first, second) = (route(&w, "t"), route(&w, "u"));
        w.does(&Caller::system(), first);
        assert_eq!(w.refuses(&Caller::system(), second), Code::Stale, "ken has all that it takes");
        let mut stray = route(&w, "u");
        stray.choice.selected = Some("ada".into());
        assert_eq!(w.refuses(&Caller::system(), stray), Code::Stale, "the request is to ken");
        asks_for(&mut w, "v", &json!({}));
        let to_ada = route(&w, "v");
        w.goes_offline("ada");
        assert_eq!(w.refuses(&Caller::system(), to_ada), Code::Stale);
    }

    #[test]
    fn that_nobody_fits_is_told_once_until_something_changes() {
        let mut w = team(&[]);
        asks_for(&mut w, "t", &json!({}));
        assert_eq!(routes(&mut w, "t"), ["routing.failed"]);
        assert_eq!(routes(&mut w, "t"), [""; 0]);
        for agent in ["lead", "other"] {
            w.joins(agent, crate::model::agent::AgentRole::Worker);
        }
        assert_eq!(routes(&mut w, "t"), ["routing.failed"], "for another reason");
        w.joins("third", crate::model::agent::AgentRole::Worker);
        assert_eq!(routes(&mut w, "t"), [""; 0]);
        sends(&mut w, "reg", "agent.register", "ken", &card("ken", 1));
        assert_eq!(routes(&mut w, "t"), GIVEN);
    }

    #[test]
    fn each_reason_is_told_once_however_often_it_comes_and_goes() {
        let mut w = team(&[("ken", 1)]);
        asks_for(&mut w, "t", &json!({ "requires": ["skill:magic"] }));
        let told = |w: &mut World| routes(w, "t");
        assert_eq!(told(&mut w), ["routing.failed"]);
        for round in 0..3 {
            let other = format!("other{round}");
            w.creates(&other, &[]);
            w.starts("ken", &other);
            let news: &[&str] = if round == 0 { &["routing.failed"] } else { &[] };
            assert_eq!(told(&mut w), *news, "that it has enough to do is told once");
            w.does(&by("ken"), crate::testing::complete(&other));
            assert_eq!(told(&mut w), [""; 0]);
        }
        assert_eq!(w.task("t").routing.failed_by, [RejectionFilter::Concurrency, RejectionFilter::Requires]);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn nothing_of_a_run_at_rest_is_given_to_anybody() {
        for status in [crate::model::run::RunStatus::Paused, crate::model::run::RunStatus::Abandoned] {
            let mut w = team(&[("ken", 1), ("ada", 1)]);
            for task in ["begun", "t"] {
                asks_for(&mut w, task, &json!({}));
            }
            w.claims("ada", "begun");
            let sets = |to| crate::runs::SetRunStatus { run: "run_1".into(), to, reason: None };
            w.does(&crate::testing::anna(), sets(status));
            assert_eq!(w.refuses(&Caller::system(), route(&w, "t")), Code::InvalidState, "{status:?}");
            if status == crate::model::run::RunStatus::Paused {
                w.does(&crate::testing::anna(), sets(crate::model::run::RunStatus::InProgress));
                assert_eq!(routes(&mut w, "t"), GIVEN);
            }
        }
    }

    #[test]
    fn whoever_declines_is_not_asked_again_while_there_is_another() {
        let mut w = team(&[("ken", 1), ("ada", 1)]);
        asks_for(&mut w, "t", &json!({}));
        routes(&mut w, "t");
        let first = w.task("t").held_by().unwrap().clone();
        w.does(&by(first.as_str()), release("t"));
        let again = route(&w, "t");
        assert_ne!(again.choice.selected.as_ref(), Some(&first));
        assert_eq!(w.does(&Caller::system(), again), GIVEN);
    }
}
