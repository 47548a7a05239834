//! The lead or a person decides who shall do a task, whoever has it now.

use serde::{Deserialize, Serialize};

use super::finish::freed_files;
use super::{ReleaseCause, TaskReserved, TaskState, released};
use crate::actor::Caller;
use crate::command::{Decision, Reply, Undecided};
use crate::fact::AnyEvent;
use crate::file::ReleaseReason;
use crate::id::{AgentId, TaskId};
use crate::key::{Ask, Key, Lookup};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AssignTask {
    pub task: TaskId,
    pub to: AgentId,
}

/// The task was taken from one agent and reserved for another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskReassigned {
    pub task: TaskId,
    pub from: AgentId,
    pub to: AgentId,
}

impl AssignTask {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let mut asks = super::asks(&self.task, Some(&self.to));
        asks.push(Lookup::FilesOfTask(self.task.clone()).into());
        asks
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Undecided> {
        let task = view.task(&self.task)?;
        if !task.state.is_open() {
            return Err(super::refuse_transition(task, TaskState::Pending).into());
        }
        view.ensure_authority(caller, "assign a task")?;
        view.online_agent(&self.to)?;
        let reply = Reply::Row(Key::Task(self.task.clone()));
        if task.held_by() == Some(&self.to) {
            return Ok(Decision::nothing(reply));
        }
        let Some(from) = task.held_by() else {
            let fact = AnyEvent::TaskReserved(TaskReserved { task: self.task.clone(), agent: self.to.clone() });
            return Ok(Decision::new(vec![fact], reply));
        };
        let reassigned = TaskReassigned { task: self.task.clone(), from: from.clone(), to: self.to.clone() };
        let mut facts = vec![released(task, ReleaseCause::Reassigned), AnyEvent::TaskReassigned(reassigned)];
        facts.extend(freed_files(view, task, ReleaseReason::Reassigned)?);
        Ok(Decision::new(facts, reply))
    }
}
