//! The lead or a person decides who shall do a task, whoever has it now.

use serde::{Deserialize, Serialize};

use super::finish::freed_files;
use super::{Because, State, Task, TaskReserved, released};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Now, Reply};
use crate::fact::Fact;
use crate::file::ReleaseReason;
use crate::id::{AgentId, TaskId, Timestamp};
use crate::key::{Ask, Key, Lookup};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Assign {
    pub task: TaskId,
    pub to: AgentId,
    /// How long the agent has to take a task that was asked for by a request, before the router gives it to somebody else.
    pub accept_within_millis: Option<u64>,
}

/// The task was taken from one agent and reserved for another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskReassigned {
    pub task: TaskId,
    pub from: AgentId,
    pub to: AgentId,
    /// When it goes to somebody else, if the agent has not taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_by: Option<Timestamp>,
}

impl Assign {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let mut asks = super::asks(&self.task, Some(&self.to));
        asks.push(Lookup::FilesOfTask(self.task.clone()).into());
        asks
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller, now: &Now) -> Result<Decision, Halt> {
        let task = view.task_known(&self.task)?;
        if !task.state.is_open() {
            return Err(super::refuse_transition(task, State::Pending).into());
        }
        view.needs_authority(caller, "assign a task")?;
        view.agent_live(&self.to)?;
        let reply = Reply::Row(Key::Task(self.task.clone()));
        if task.held_by() == Some(&self.to) {
            return Ok(Decision::nothing(reply));
        }
        let (id, to, accept_by) = (self.task.clone(), self.to.clone(), self.accept_by(task, now));
        let Some(from) = task.held_by() else {
            let fact = Fact::TaskReserved(TaskReserved { task: id, agent: to, accept_by });
            return Ok(Decision::new(vec![fact], reply));
        };
        let reassigned = TaskReassigned { task: id, from: from.clone(), to, accept_by };
        let mut facts = vec![released(task, Because::Reassigned), Fact::TaskReassigned(reassigned)];
        facts.extend(freed_files(view, task, ReleaseReason::Reassigned)?);
        Ok(Decision::new(facts, reply))
    }

    /// Only what the router can give to somebody else does not wait for ever.
    fn accept_by(&self, task: &Task, now: &Now) -> Option<Timestamp> {
        let terms = task.origin.terms.as_ref()?;
        self.accept_within_millis.filter(|_| terms.is_for_agents()).map(|millis| now.at.plus_millis(millis))
    }
}
