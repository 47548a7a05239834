//! The lead or a person decides who shall do a task, whoever has it now.

use serde::{Deserialize, Serialize};

use super::complete::freed_files;
use super::{TaskReserved, released};
use crate::kernel::id::{AgentId, TaskId};
use crate::model::agent::Agent;
use crate::model::file::ReleaseReason;
use crate::model::task::{ReleaseCause, Task, TaskState};
use crate::model::{EventStamp, Key, Lookup, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

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

impl Event for TaskReassigned {
    const KIND: &'static str = "task.reassigned";

    fn subject(&self) -> Subject<'_> {
        Subject::task(&self.task, None)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Task(self.task.clone()), Key::Agent(self.to.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.reassign_to(&self.to));
        rows.update(self.to.clone(), |agent: &mut Agent| agent.note_assigned(stamp.seq));
    }
}

impl Command for AssignTask {
    const NAME: &'static str = "AssignTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        let mut read_set = crate::model::task::read_set(&self.task, Some(&self.to));
        read_set.push(Lookup::files_of_task(&self.task).into());
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let task = cx.view.task(&self.task)?;
        if !task.state.is_open() {
            return Err(crate::model::task::refuse_transition(task, TaskState::Pending).into());
        }
        cx.view.ensure_authority(cx.caller, "assign a task")?;
        cx.view.online_agent(&self.to)?;
        let reply = ReplySource::row(self.task.clone());
        if task.held_by() == Some(&self.to) {
            return Ok(Decision::unchanged(reply));
        }
        let Some(from) = task.held_by() else {
            let fact = AnyEvent::new(TaskReserved { task: self.task.clone(), agent: self.to.clone() });
            return Ok(Decision::new(vec![fact], reply));
        };
        let reassigned = TaskReassigned { task: self.task.clone(), from: from.clone(), to: self.to.clone() };
        let mut facts = vec![released(task, ReleaseCause::Reassigned), AnyEvent::new(reassigned)];
        facts.extend(freed_files(cx.view, task, ReleaseReason::Reassigned)?);
        Ok(Decision::new(facts, reply))
    }
}
