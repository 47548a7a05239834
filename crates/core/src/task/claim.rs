//! Taking a task: at most one agent holds it at any time.

use serde::{Deserialize, Serialize};

use super::{State, Task, refuse_transition};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::{AgentId, TaskId};
use crate::key::{Ask, Key};
use crate::refusal::{Code, Refusal};
use crate::view::View;

/// Grants the task unless another agent holds it; the holder asking again is told yes, without a new fact.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Claim {
    pub task: TaskId,
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskClaimed {
    pub task: TaskId,
    pub agent: AgentId,
    /// The holder it was handed over by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
}

impl TaskClaimed {
    pub(crate) fn new(task: &Task, agent: &AgentId) -> TaskClaimed {
        let from = task.holder().filter(|holder| *holder != agent).cloned();
        TaskClaimed { task: task.id.clone(), agent: agent.clone(), from }
    }
}

impl Claim {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        super::asks(&self.task, Some(&self.agent))
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let task = view.task_known(&self.task)?;
        let facts = grant(view, caller, task, &self.agent)?;
        Ok(Decision::new(facts, Reply::Row(Key::Task(self.task.clone()))))
    }
}

/// The facts that make `agent` the holder of `task`: none if it is already.
pub(super) fn grant(view: &View, caller: &Caller, task: &Task, agent: &AgentId) -> Result<Vec<Fact>, Halt> {
    view.agent_here(agent)?;
    view.may_speak_for(caller, agent)?;
    if !task.state.is_open() {
        return Err(refuse_transition(task, State::InProgress).into());
    }
    if task.holder() == Some(agent) {
        super::check_fence(caller, task.claim.as_ref().map(|claim| claim.fence))?;
        return Ok(vec![]);
    }
    if task.holder().is_some() {
        return Err(taken(task).into());
    }
    if let Some(other) = task.reserved_for.as_ref().filter(|reserved| *reserved != agent) {
        return Err(Refusal::new(Code::Reserved, format!("task {} is reserved for {other}", task.id))
            .hint("take another task, or have the lead or a person assign it to you")
            .into());
    }
    Ok(vec![Fact::TaskClaimed(TaskClaimed::new(task, agent))])
}

/// Another agent holds the task.
pub(super) fn taken(task: &Task) -> Refusal {
    let holder = task.holder().map_or("another agent", AgentId::as_str);
    Refusal::new(Code::AlreadyClaimed, format!("task {} is claimed by {holder}", task.id))
        .hint("take another task, or ask the holder for a handoff")
}
