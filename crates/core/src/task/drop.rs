//! Work that will not be done: cancelled or skipped.

use serde::{Deserialize, Serialize};

use super::finish::{ending_asks, may_end};
use super::parts::{dropped, open_parts};
use super::{Task, TaskState};
use crate::actor::Caller;
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::fact::AnyEvent;
use crate::id::{AgentId, RunId, TaskId};
use crate::limit;
use crate::model::{Key, ReadSet, View};
use crate::run::{self, Ended};
use crate::told::Told;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CancelTask {
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
    /// Whom it was kept for who had not claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<AgentId>,
    pub from: TaskState,
    /// `cancelled` or `skipped`.
    pub to: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unblocks: Vec<TaskId>,
    #[serde(default, skip_serializing_if = "Told::is_none")]
    pub told: Told,
}

impl Command for CancelTask {
    const NAME: &'static str = "CancelTask";

    fn read_set(&self) -> ReadSet {
        ending_asks(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        drop(cx.view, cx.caller, &self.task, self.agent.as_ref(), TaskState::Cancelled, self.reason.as_deref())
    }
}

impl Command for Skip {
    const NAME: &'static str = "SkipTask";

    fn read_set(&self) -> ReadSet {
        ending_asks(&self.task, self.agent.as_ref())
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        drop(cx.view, cx.caller, &self.task, self.agent.as_ref(), TaskState::Skipped, self.reason.as_deref())
    }
}

fn drop(
    view: &View,
    caller: &Caller,
    id: &TaskId,
    agent: Option<&AgentId>,
    to: TaskState,
    reason: Option<&str>,
) -> Result<Decision, Undecided> {
    let task = view.task(id)?;
    limit::text("reason", reason.unwrap_or(""), limit::TEXT_BYTES)?;
    may_end(view, caller, task, agent, to)?;
    let facts = match to {
        TaskState::Cancelled => cancelled(view, task, reason)?,
        _ => {
            let mut facts = dropped(view, task, to, reason)?;
            facts.extend(run::roll_up(view, task, Ended::finished(task, 0))?);
            facts
        }
    };
    Ok(Decision::new(facts, Reply::Row(Key::Task(id.clone()))))
}

/// The facts that cancel a task, and with it all that is part of it. Whether somebody may is asked before.
pub(crate) fn cancelled(view: &View, task: &Task, reason: Option<&str>) -> Result<Vec<AnyEvent>, Undecided> {
    let mut facts = dropped(view, task, TaskState::Cancelled, reason)?;
    let parts = open_parts(view, task)?;
    for part in &parts {
        facts.extend(dropped(view, part, TaskState::Cancelled, reason)?);
    }
    facts.extend(run::roll_up(view, task, Ended::finished(task, parts.len()))?);
    Ok(facts)
}
