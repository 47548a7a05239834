//! Work that will not be done: cancelled or skipped.

use serde::{Deserialize, Serialize};

use super::State;
use super::finish::{dependents, ending_asks, freed_files, may_end};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::ReleaseReason;
use crate::id::{AgentId, RunId, TaskId};
use crate::key::{Ask, Key};
use crate::limit;
use crate::run;
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cancel {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Skip {
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskDropped {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    pub from: State,
    /// `cancelled` or `skipped`.
    pub to: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unblocks: Vec<TaskId>,
}

impl Cancel {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        ending_asks(&self.task, self.agent.as_ref())
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        drop(view, caller, &self.task, self.agent.as_ref(), State::Cancelled, self.reason.as_deref())
    }
}

impl Skip {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        ending_asks(&self.task, self.agent.as_ref())
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        drop(view, caller, &self.task, self.agent.as_ref(), State::Skipped, self.reason.as_deref())
    }
}

fn drop(
    view: &View,
    caller: &Caller,
    id: &TaskId,
    agent: Option<&AgentId>,
    to: State,
    reason: Option<&str>,
) -> Result<Decision, Halt> {
    let task = view.task_known(id)?;
    limit::text("reason", reason.unwrap_or(""), limit::TEXT_BYTES)?;
    may_end(view, caller, task, agent, to)?;
    let mut facts = vec![Fact::TaskDropped(TaskDropped {
        task: id.clone(),
        run: task.workflow(),
        holder: task.holder().cloned(),
        from: task.state,
        to,
        reason: reason.map(str::to_owned),
        unblocks: dependents(view, task)?,
    })];
    facts.extend(freed_files(view, task, ReleaseReason::TaskEnded)?);
    facts.extend(run::ends(view, task)?);
    Ok(Decision::new(facts, Reply::Row(Key::Task(id.clone()))))
}
