//! Work that came to an end, well or badly. Either way the claim ends and the task's files are freed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{State, Task, check_fence, check_transition, may_change};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::{FileReleased, ReleaseReason};
use crate::id::{AgentId, TaskId};
use crate::key::{Ask, Key, Lookup};
use crate::limit;
use crate::view::View;

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Complete {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub outcome: Outcome,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fail {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub error: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskCompleted {
    pub task: TaskId,
    pub holder: Option<AgentId>,
    pub from: State,
    pub outcome: Outcome,
    /// The tasks that waited for this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unblocks: Vec<TaskId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskFailed {
    pub task: TaskId,
    pub holder: Option<AgentId>,
    pub from: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Complete {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        ending_asks(&self.task, self.agent.as_ref())
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let task = view.task_known(&self.task)?;
        limit::text("outcome", self.outcome.text.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        may_end(view, caller, task, self.agent.as_ref(), State::Completed)?;
        let mut facts = vec![Fact::TaskCompleted(TaskCompleted {
            task: task.id.clone(),
            holder: task.holder().cloned(),
            from: task.state,
            outcome: self.outcome.clone(),
            unblocks: dependents(view, task)?,
        })];
        facts.extend(freed_files(view, task, ReleaseReason::TaskEnded)?);
        Ok(Decision::new(facts, Reply::Row(Key::Task(self.task.clone()))))
    }
}

impl Fail {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        ending_asks(&self.task, self.agent.as_ref())
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let task = view.task_known(&self.task)?;
        limit::text("error", self.error.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        may_end(view, caller, task, self.agent.as_ref(), State::Failed)?;
        let mut facts = vec![Fact::TaskFailed(TaskFailed {
            task: task.id.clone(),
            holder: task.holder().cloned(),
            from: task.state,
            error: self.error.clone(),
        })];
        facts.extend(freed_files(view, task, ReleaseReason::TaskEnded)?);
        Ok(Decision::new(facts, Reply::Row(Key::Task(self.task.clone()))))
    }
}

pub(super) fn ending_asks(task: &TaskId, agent: Option<&AgentId>) -> Vec<Ask> {
    let mut asks = super::asks(task, agent);
    asks.push(Lookup::Dependents(task.clone()).into());
    asks.push(Lookup::FilesOfTask(task.clone()).into());
    asks
}

pub(super) fn may_end(
    view: &View,
    caller: &Caller,
    task: &Task,
    agent: Option<&AgentId>,
    next: State,
) -> Result<(), Halt> {
    // That its grant has ended is what a zombie must hear first; a finished task answers the same to everybody.
    if task.state.is_open() {
        check_fence(caller, task.claim.as_ref().map(|claim| claim.fence))?;
    }
    check_transition(task, next)?;
    if let Some(agent) = agent {
        view.may_speak_for(caller, agent)?;
    }
    may_change(view, caller, task, agent)
}

/// The tasks that wait for this one and are still open to be told.
pub(super) fn dependents(view: &View, task: &Task) -> Result<Vec<TaskId>, Halt> {
    Ok(view.dependents(&task.id)?.into_iter().map(|edge| edge.task.clone()).collect())
}

pub(super) fn freed_files(view: &View, task: &Task, reason: ReleaseReason) -> Result<Vec<Fact>, Halt> {
    let files = view.files_of_task(&task.id)?;
    Ok(files.into_iter().flat_map(|file| FileReleased::facts(file, reason)).collect())
}
