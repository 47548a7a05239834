//! Taking a task: at most one agent holds it at any time.

use serde::{Deserialize, Serialize};

use super::release::retried;
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, TaskId};
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::notification::{Audience, NotificationRule, OpenOffer};
use crate::model::requested_in::RequestedIn;
use crate::model::task::{Task, TaskState, refuse_transition};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};
use crate::{eligibility, messages, runs};

/// Claims a task for an agent. A failed task is retried first. Claiming a task that the agent already holds succeeds and
/// appends nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClaimTask {
    pub task: TaskId,
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskClaimed {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub agent: AgentId,
    /// The holder it was handed over by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
    /// Whether the task waits for others, so that its holder does not work on it yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl TaskClaimed {
    pub(crate) fn new(task: &Task, agent: &AgentId) -> TaskClaimed {
        let from = task.holder().filter(|holder| *holder != agent).cloned();
        TaskClaimed {
            task: task.id.clone(),
            run: task.run_if_named(),
            agent: agent.clone(),
            from,
            blocked: task.is_blocked(),
            requested_in: RequestedIn::of(task),
        }
    }
}

impl Event for TaskClaimed {
    const KIND: &'static str = "task.claimed";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: Some(&self.agent), ..Subject::task(&self.task, self.run.as_ref()) }
            .requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        let agents = self.from.iter().chain([&self.agent]).cloned().map(Key::Agent);
        std::iter::once(Key::Task(self.task.clone())).chain(agents).collect()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.claim_for(&self.agent, stamp));
        if let Some(from) = &self.from {
            rows.update(from.clone(), |agent: &mut Agent| agent.gave_up(&self.task));
        }
        rows.update(self.agent.clone(), |agent: &mut Agent| agent.took(&self.task, self.blocked));
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        let open_offer = OpenOffer::TakenBy(self.agent.clone());
        Some(NotificationRule { open_offer, ..NotificationRule::to(Audience::Nobody) })
    }
}

impl Command for ClaimTask {
    const NAME: &'static str = "ClaimTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        crate::model::task::read_set(&self.task, Some(&self.agent))
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let task = cx.view.task(&self.task)?;
        let events = if task.state == TaskState::Failed {
            let pending = Task { state: TaskState::Pending, ..task.clone() };
            let grant = grant(cx.view, cx.caller, &pending, &self.agent)?;
            std::iter::once(retried(task)).chain(grant).collect()
        } else {
            grant(cx.view, cx.caller, task, &self.agent)?
        };
        Ok(Decision::new(events, ReplySource::row(self.task.clone())))
    }
}

/// The facts that make `agent` the holder of `task`: none if it is already.
pub(super) fn grant(view: &View, caller: &Caller, task: &Task, agent: &AgentId) -> Result<Vec<AnyEvent>, Undecided> {
    if !task.state.is_open() {
        return Err(refuse_transition(task, TaskState::InProgress).into());
    }
    view.online_agent(agent)?;
    view.ensure_may_act_for(caller, agent)?;
    crate::model::task::ensure_fence(caller, task.claim.as_ref().map(|claim| claim.fence))?;
    if task.holder() == Some(agent) {
        return Ok(vec![]);
    }
    ensure_not_held_by_other(task, Some(agent))?;
    runs::ensure_open(view, task)?;
    view.agent_row(agent)?.takes_work(caller)?;
    if task.reserved_for.is_none() {
        eligibility::ensure_eligible(view, caller, task, agent)?;
    }
    let mut facts = vec![AnyEvent::new(TaskClaimed::new(task, agent))];
    facts.extend(runs::start_run(view, &[task])?);
    facts.extend(ack_request(view, task, agent)?);
    Ok(facts)
}

/// Rejects an agent, or a caller without a name, if the task is claimed by or reserved for another agent.
pub(super) fn ensure_not_held_by_other(task: &Task, agent: Option<&AgentId>) -> Result<(), Rejection> {
    let is_other = |holder: &&AgentId| Some(*holder) != agent;
    if let Some(holder) = task.holder().filter(is_other) {
        return Err(Rejection::new(Code::AlreadyClaimed, format!("task {} is claimed by {holder}", task.id))
            .hint("take another task, or ask the holder for a handoff")
            .with_holder(holder));
    }
    if let Some(other) = task.reserved_for.as_ref().filter(is_other) {
        return Err(Rejection::new(Code::ReservedForOther, format!("task {} is reserved for {other}", task.id))
            .hint("take another task, or have the lead or a person assign it to you")
            .with_holder(other));
    }
    Ok(())
}

/// Whoever takes a task that the router gave it has seen the request, by whichever way it learned of it.
pub(crate) fn ack_request(view: &View, task: &Task, agent: &AgentId) -> Result<Option<AnyEvent>, Undecided> {
    match &task.routing.offered_in {
        Some(request) => messages::noticed(view, request, agent),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::AgentStatus;
    use crate::testing::{World, anna, assign, by, claim, complete, fail, release, start};

    #[test]
    fn one_agent_holds_a_task_and_asking_again_is_no_new_grant() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        assert_eq!(w.claims("a", "t"), ["task.claimed"]);
        let fence = w.task("t").claim.as_ref().unwrap().fence;
        assert_eq!(fence.0 as usize, w.log.len(), "the fence is the grant's place in the log");
        assert_eq!(w.claims("a", "t"), [""; 0]);
        for caller in [by("b"), by("lead"), anna(), Caller::anonymous()] {
            let agent = caller.actor.agent().map_or("b", AgentId::as_str).to_owned();
            assert_eq!(w.refuses(&caller, claim(&agent, "t")), Code::AlreadyClaimed, "{:?}", caller.actor);
        }
        assert_eq!(w.refuses(&by("b"), claim("x", "t")), Code::AgentNotFound, "the agent is checked first");
        assert_eq!(w.refuses(&by("b"), claim("a", "t")), Code::Forbidden);
    }

    #[test]
    fn claim_of_a_blocked_task_leaves_the_agent_idle_until_it_starts() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("first", &[]);
        w.creates("second", &["first"]);
        assert_eq!(w.claims("a", "second"), ["task.claimed"]);
        let now = |w: &World| {
            let agent = w.agent("a");
            (agent.status, agent.current_task.clone(), agent.holding)
        };
        assert_eq!(now(&w), (AgentStatus::Idle, None, 1));
        w.claims("lead", "first");
        w.starts("lead", "first");
        w.does(&by("lead"), complete("first"));
        w.starts("a", "second");
        assert_eq!(now(&w), (AgentStatus::Working, Some("second".into()), 1));
    }

    #[test]
    fn a_reservation_keeps_others_out_and_is_no_claim_yet() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.reserves("t", "a");
        for agent in ["b", "lead"] {
            assert_eq!(w.refuses(&by(agent), claim(agent, "t")), Code::ReservedForOther);
            assert_eq!(w.refuses(&by(agent), start(Some(agent), "t")), Code::ReservedForOther);
        }
        assert_eq!(w.refuses(&by("b"), release("t")), Code::NotHolder);
        assert_eq!(w.claims("a", "t"), ["task.claimed"]);
        assert_eq!((w.holder("t"), w.task("t").reserved_for.as_ref()), (Some("a"), None));
    }

    #[test]
    fn one_may_decline_what_is_reserved() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.reserves("t", "a");
        assert_eq!(w.does(&by("a"), release("t")), ["task.released"]);
        assert_eq!(w.claims("b", "t"), ["task.claimed"]);
    }

    #[test]
    fn starting_claims_and_the_lead_resumes_for_the_holder() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        assert_eq!(w.refuses(&anna(), start(None, "t")), Code::Invalid, "for whom?");
        assert_eq!(w.does(&by("a"), start(None, "t")), ["task.claimed", "task.started"]);
        assert_eq!(w.does(&by("a"), start(None, "t")), [""; 0]);
        assert_eq!(w.refuses(&by("b"), start(Some("b"), "t")), Code::AlreadyClaimed);
        assert_eq!(w.refuses(&by("b"), start(Some("a"), "t")), Code::Forbidden);
        let started = w.task("t").started_at;
        for caller in [by("lead"), anna(), Caller::anonymous()] {
            w.does(&by("a"), crate::testing::moves("t", TaskState::Paused));
            assert_eq!(w.does(&caller, start(None, "t")), ["task.started"]);
            assert_eq!((w.holder("t"), w.task("t").started_at), (Some("a"), started));
        }
    }

    #[test]
    fn the_lead_or_a_person_assigns_to_whom_they_like() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        assert_eq!(w.refuses(&by("a"), assign("t", "a")), Code::Forbidden);
        assert_eq!(w.refuses(&Caller::anonymous(), assign("t", "a")), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), assign("t", "x")), Code::AgentNotFound);
        assert_eq!(w.does(&by("lead"), assign("t", "a")), ["task.reserved"]);
        assert_eq!(w.does(&anna(), assign("t", "a")), [""; 0]);
        assert_eq!(w.does(&anna(), assign("t", "b")), ["task.released", "task.reassigned"], "a reservation moves");
        w.starts("b", "t");
        let file = crate::files::ClaimFile { task: Some("t".into()), ..crate::testing::claim_file("b", "x") };
        w.does(&by("b"), file);
        assert_eq!(w.does(&by("lead"), assign("t", "b")), [""; 0]);
        assert_eq!(w.does(&by("lead"), assign("t", "a")), ["task.released", "task.reassigned", "file.released"]);
        let task = w.task("t");
        assert_eq!((task.state, task.holder(), task.held_by().unwrap().as_str()), (TaskState::Pending, None, "a"));
        assert_eq!((w.agent("b").holding, w.file_holder("x")), (0, None));
        assert_eq!(w.refuses(&by("b"), claim("b", "t")), Code::ReservedForOther);
    }

    #[test]
    fn claim_of_failed_task_retries_it() {
        let mut w = World::of(&["a", "b"]);
        w.creates("t", &[]);
        assert_eq!(w.does(&by("a"), claim("a", "t")), ["task.claimed"]);
        assert_eq!(w.does(&by("a"), claim("a", "t")), [""; 0]);
        w.does(&by("a"), start(None, "t"));
        w.does(&by("a"), fail("t"));
        assert_eq!(w.does(&by("b"), claim("b", "t")), ["task.retried", "task.claimed"]);
        assert_eq!((w.holder("t"), w.task("t").attempt, w.task("t").state), (Some("b"), 2, TaskState::Pending));
        w.does(&by("b"), start(None, "t"));
        w.does(&by("b"), complete("t"));
        assert_eq!(w.refuses(&by("a"), claim("a", "t")), Code::InvalidTransition);
    }

    #[test]
    fn rejected_claim_names_the_holder() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        w.claims("a", "t");
        let rejection = w.run(&by("b"), claim("b", "t")).unwrap_err();
        assert_eq!((rejection.code, rejection.holder), (Code::AlreadyClaimed, Some("a".into())));
        w.creates("u", &[]);
        w.does(&by("lead"), crate::testing::assign("u", "a"));
        let rejection = w.run(&by("b"), claim("b", "u")).unwrap_err();
        assert_eq!((rejection.code, rejection.holder), (Code::ReservedForOther, Some("a".into())));
    }
}
