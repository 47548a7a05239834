//! Starting or resuming the work on a task; claims the task if no agent holds it.

use serde::{Deserialize, Serialize};

use super::claim::ensure_not_held_by_other;
use super::unblock::ensure_unblocked;
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, Seq, TaskId, Timestamp};
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::notification::{Audience, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::task::{
    AlarmKind, Task, TaskClaim, TaskState, check_transition, ensure_fence, ensure_may_change, refuse_transition,
};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// Starts or resumes a task. A task that no agent holds is claimed first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StartTask {
    pub task: TaskId,
    /// The agent that shall work on it; the caller, if none is named.
    pub agent: Option<AgentId>,
    pub held_by_other: HeldByOther,
}

/// The answer to a start of a task that another agent has, claimed or reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldByOther {
    /// The lead and people start it for its holder; others are rejected.
    KeepHolder,
    /// Everybody is rejected, the lead and people too.
    Reject,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskStarted {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: AgentId,
    pub from: TaskState,
    /// When the attempt must have ended, if that is limited and begins to count now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_by: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for TaskStarted {
    const KIND: &'static str = "task.started";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: Some(&self.holder), ..Subject::task(&self.task, self.run.as_ref()) }
            .requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Task(self.task.clone()), Key::Agent(self.holder.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.start(self.end_by, stamp));
        rows.update(self.holder.clone(), |agent: &mut Agent| agent.works_on(&self.task));
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        // Resuming it after a pause is no news for the requester.
        let begins = matches!(self.from, TaskState::Pending | TaskState::Planning);
        begins.then(|| NotificationRule::to(Audience::Requester))
    }
}

impl Command for StartTask {
    const NAME: &'static str = "StartTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        crate::model::task::read_set(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let task = cx.view.task(&self.task)?;
        let reply = ReplySource::row(self.task.clone());
        if task.state != TaskState::InProgress {
            check_transition(task, TaskState::InProgress)?;
        }
        if let Some(agent) = &self.agent {
            cx.view.ensure_may_act_for(cx.caller, agent)?;
        }
        if self.held_by_other == HeldByOther::Reject {
            ensure_not_held_by_other(task, self.agent.as_ref().or(cx.caller.actor.agent()))?;
        }
        let agent = match &self.agent {
            // Under way: nobody else gets it by being named, the lead neither. To be told yes would be to believe it.
            Some(named) if task.state == TaskState::InProgress => named.clone(),
            _ => self.worker(cx.view, cx.caller, task)?,
        };
        if task.state == TaskState::InProgress {
            if task.holder() == Some(&agent) {
                ensure_may_change(cx.view, cx.caller, task, self.agent.as_ref())?;
            } else {
                crate::tasks::claim::grant(cx.view, cx.caller, task, &agent)?;
            }
            return Ok(Decision::unchanged(reply));
        }
        ensure_unblocked(cx.view, task)?;
        let mut facts = Vec::new();
        if task.holder() == Some(&agent) {
            ensure_may_change(cx.view, cx.caller, task, self.agent.as_ref())?;
        } else {
            facts = crate::tasks::claim::grant(cx.view, cx.caller, task, &agent)?;
        }
        facts.push(start_event(cx, task, &agent)?);
        Ok(Decision::new(facts, reply))
    }
}

impl StartTask {
    /// The agent who will be working: the one named, unless the lead or a person resumes a held task for its holder.
    fn worker(&self, view: &View, caller: &Caller, task: &Task) -> Result<AgentId, Undecided> {
        let named = self.agent.as_ref().or(caller.actor.agent());
        if let Some(holder) = task.holder()
            && (named.is_none() || (named != Some(holder) && view.has_authority(caller)?))
        {
            return Ok(holder.clone());
        }
        named
            .cloned()
            .ok_or_else(|| Rejection::new(Code::Invalid, "agent_id is needed: nobody holds the task yet").into())
    }
}

/// When an attempt that begins now must have ended: as the request, if there is one, and the agent's card say, whichever is
/// sooner. The time of an attempt that goes on is not counted anew.
fn end_by(view: &View, task: &Task, agent: &AgentId, now: Timestamp) -> Result<Option<Timestamp>, Undecided> {
    if task.clocks.get(AlarmKind::Runtime).is_some() {
        return Ok(None);
    }
    let (terms, card) = (task.origin.terms.as_ref(), view.agent_row(agent)?.profile.card.as_ref());
    let limits = [terms.and_then(|terms| terms.max_runtime_sec), card.and_then(|card| card.limits.max_runtime_sec)];
    let seconds = limits.into_iter().flatten().min();
    Ok(seconds.map(|seconds| now.plus_millis(u64::from(seconds) * 1_000)))
}

/// Ensures that the caller may move a task on to `next`, and that the task is claimed and under way. Returns the task as it
/// is then, and the events that bring it there: its holder, or the agent that it is reserved for, may not have started it,
/// or may have paused it.
pub(crate) fn ensure_under_way(
    cx: &DecisionContext<'_>,
    task: &Task,
    agent: Option<&AgentId>,
    next: TaskState,
) -> Result<(Task, Vec<AnyEvent>), Undecided> {
    // A task that has ended gives everybody the same answer.
    if !task.state.is_open() {
        return Err(refuse_transition(task, next).into());
    }
    ensure_fence(cx.caller, task.claim.as_ref().map(|claim| claim.fence))?;
    if let Some(agent) = agent {
        cx.view.ensure_may_act_for(cx.caller, agent)?;
    }
    let Some(holder) = task.held_by() else {
        ensure_unblocked(cx.view, task)?;
        return Err(refuse_transition(task, next).into());
    };
    ensure_may_change(cx.view, cx.caller, task, agent)?;
    let can_start = matches!(task.state, TaskState::Pending | TaskState::Planning | TaskState::Paused);
    if !can_start || (task.claim.is_some() && task.state.may_become(next)) {
        check_transition(task, next)?;
        return Ok((task.clone(), vec![]));
    }
    ensure_unblocked(cx.view, task)?;
    let mut events = match task.claim {
        Some(_) => vec![],
        None => crate::tasks::claim::grant(cx.view, cx.caller, task, holder)?,
    };
    events.push(start_event(cx, task, holder)?);
    let granted = || TaskClaim { holder: holder.clone(), fence: Seq::ZERO, since: cx.now };
    let claim = Some(task.claim.clone().unwrap_or_else(granted));
    Ok((Task { state: TaskState::InProgress, claim, reserved_for: None, ..task.clone() }, events))
}

fn start_event(cx: &DecisionContext<'_>, task: &Task, agent: &AgentId) -> Result<AnyEvent, Undecided> {
    Ok(AnyEvent::new(TaskStarted {
        task: task.id.clone(),
        run: task.run_if_named(),
        end_by: end_by(cx.view, task, agent, cx.now)?,
        holder: agent.clone(),
        from: task.state,
        requested_in: RequestedIn::of(task),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, anna, assign, by, moves, start};

    #[test]
    fn start_of_task_held_by_other_keeps_the_holder_or_is_rejected_as_asked() {
        let paused = || {
            let mut w = World::of(&["lead", "a", "b"]);
            w.creates("t", &[]);
            w.starts("a", "t");
            w.does(&by("a"), moves("t", TaskState::Paused));
            w
        };
        let strict = |agent: &str| StartTask { held_by_other: HeldByOther::Reject, ..start(Some(agent), "t") };
        for (caller, agent) in [(by("lead"), "lead"), (anna(), "b")] {
            let mut w = paused();
            assert_eq!(w.refuses(&caller, strict(agent)), Code::AlreadyClaimed, "{:?}", caller.actor);
            assert_eq!(w.does(&caller, start(Some(agent), "t")), ["task.started"]);
            assert_eq!(w.holder("t"), Some("a"), "{:?}", caller.actor);
        }
        let mut w = paused();
        let rejection = w.run(&by("b"), strict("b")).unwrap_err();
        assert_eq!((rejection.code, rejection.holder), (Code::AlreadyClaimed, Some("a".into())));
        assert_eq!(w.does(&by("a"), strict("a")), ["task.started"]);
        assert_eq!(w.does(&by("a"), strict("a")), [""; 0]);
    }

    #[test]
    fn strict_start_takes_a_free_task_and_no_task_reserved_for_other() {
        let mut w = World::of(&["lead", "a", "b"]);
        let strict = |task: &str| StartTask { held_by_other: HeldByOther::Reject, ..start(Some("b"), task) };
        w.creates("free", &[]);
        assert_eq!(w.does(&by("b"), strict("free")), ["task.claimed", "task.started"]);
        w.creates("reserved", &[]);
        w.does(&by("lead"), assign("reserved", "a"));
        let rejection = w.run(&by("b"), strict("reserved")).unwrap_err();
        assert_eq!((rejection.code, rejection.holder), (Code::ReservedForOther, Some("a".into())));
    }
}
