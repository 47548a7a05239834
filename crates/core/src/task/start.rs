//! Beginning, or going on with, the work on a task; claims it if nobody holds it.

use serde::{Deserialize, Serialize};

use super::{AlarmKind, Task, TaskClaim, TaskState, check_transition, ensure_may_change};
use crate::actor::Caller;
use crate::agent::Agent;
use crate::code::Code;
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::event::{AnyEvent, Event, EventStamp, RowWriter, Subject};
use crate::id::{AgentId, RunId, Seq, TaskId, Timestamp};
use crate::model::{Key, ReadSet, View};
use crate::refusal::Rejection;
use crate::told::{Concerned, Told, asker};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StartTask {
    pub task: TaskId,
    /// Who will hold it; a task that is held already keeps its holder.
    pub agent: Option<AgentId>,
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
    #[serde(default, skip_serializing_if = "Told::is_none")]
    pub told: Told,
}

impl Event for TaskStarted {
    const KIND: &'static str = "task.started";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: Some(&self.holder), ..Subject::task(&self.task, self.run.as_ref()) }.asked_in(&self.told)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Task(self.task.clone()), Key::Agent(self.holder.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.start(self.end_by, stamp));
        rows.update(self.holder.clone(), |agent: &mut Agent| agent.works_on(&self.task));
    }

    fn notification(&self) -> Option<&Told> {
        Some(&self.told)
    }

    fn notification_mut(&mut self) -> Option<&mut Told> {
        Some(&mut self.told)
    }

    /// The asker, unless it goes on after a pause: that is no news to somebody who knows that it was begun.
    fn audience(&self, task: &Task) -> Vec<Concerned> {
        let begins = matches!(self.from, TaskState::Pending | TaskState::Planning);
        asker(task).filter(|_| begins).into_iter().collect()
    }

    fn withdraws_offer(&self, _agent: &AgentId) -> bool {
        false
    }
}

impl Command for StartTask {
    const NAME: &'static str = "StartTask";

    fn read_set(&self) -> ReadSet {
        super::read_set(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        let task = cx.view.task(&self.task)?;
        let reply = Reply::Row(Key::Task(self.task.clone()));
        if task.state != TaskState::InProgress {
            check_transition(task, TaskState::InProgress)?;
        }
        if let Some(agent) = &self.agent {
            cx.view.ensure_may_act_for(cx.caller, agent)?;
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
                super::claim::grant(cx.view, cx.caller, task, &agent)?;
            }
            return Ok(Decision::nothing(reply));
        }
        if task.is_blocked() {
            let names: Vec<&str> = task.waiting_on.iter().map(TaskId::as_str).collect();
            return Err(Rejection::new(
                Code::DependenciesUnfinished,
                format!("task {} waits for {}", task.id, names.join(", ")),
            )
            .hint("it can start when these are done; take another task meanwhile")
            .into());
        }
        let mut facts = Vec::new();
        if task.holder() == Some(&agent) {
            ensure_may_change(cx.view, cx.caller, task, self.agent.as_ref())?;
        } else {
            facts = super::claim::grant(cx.view, cx.caller, task, &agent)?;
        }
        facts.push(AnyEvent::new(TaskStarted {
            task: task.id.clone(),
            run: task.run_if_named(),
            end_by: end_by(cx.view, task, &agent, cx.now)?,
            holder: agent,
            from: task.state,
            told: Told::default(),
        }));
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

/// A task that its agent ends without having said that it began: as it is once it has, and the facts that begin it.
pub(crate) fn begun(
    view: &View,
    caller: &Caller,
    task: &Task,
    agent: &AgentId,
    now: Timestamp,
) -> Result<(Task, Vec<AnyEvent>), Undecided> {
    let unbegun = task.state == TaskState::Pending || (task.state == TaskState::Planning && task.claim.is_none());
    if !unbegun || task.held_by() != Some(agent) {
        return Ok((task.clone(), vec![]));
    }
    let start = StartTask { task: task.id.clone(), agent: Some(agent.clone()) };
    let facts = start.decide(&DecisionContext { view, caller, now })?.events;
    let granted = || TaskClaim { holder: agent.clone(), fence: Seq::ZERO, since: task.created_at };
    let claim = Some(task.claim.clone().unwrap_or_else(granted));
    Ok((Task { state: TaskState::InProgress, claim, reserved_for: None, ..task.clone() }, facts))
}
