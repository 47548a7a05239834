//! Work that will not be done: cancelled or skipped.

use serde::{Deserialize, Serialize};

use super::finish::{ending_asks, may_end};
use super::parts::{dropped, open_parts};
use super::{Task, TaskState, task_keys};
use crate::actor::Caller;
use crate::agent::Agent;
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::event::{AnyEvent, Event, EventStamp, RowWriter, Subject};
use crate::id::{AgentId, RunId, TaskId};
use crate::limit;
use crate::model::{Key, ReadSet, View};
use crate::run::{self, Ended, Run};
use crate::told::{Concerned, Told, asker, holder};

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

impl Event for TaskDropped {
    const KIND: &'static str = "task.dropped";

    fn subject(&self) -> Subject<'_> {
        let holder = self.holder.as_ref().or(self.reserved_for.as_ref());
        Subject { holder, ..Subject::task(&self.task, self.run.as_ref()) }.asked_in(&self.told)
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, self.holder.as_ref(), &self.unblocks, self.run.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let drop = |task: &mut Task| task.drop_as(self.to, self.reason.as_deref(), stamp.at);
        rows.update(self.task.clone(), drop);
        if let Some(holder) = &self.holder {
            rows.update(holder.clone(), |agent: &mut Agent| agent.gave_up(&self.task));
        }
        for dependent in self.unblocks.iter().filter(|dependent| **dependent != self.task) {
            rows.update(dependent.clone(), |dependent: &mut Task| dependent.stop_waiting_for(&self.task));
        }
        if let Some(run) = run::row_id(self.run.as_ref()) {
            rows.update(run, |run: &mut Run| run.drop_task(self.from, stamp.at));
        }
    }

    fn notification(&self) -> Option<&Told> {
        Some(&self.told)
    }

    fn notification_mut(&mut self) -> Option<&mut Told> {
        Some(&mut self.told)
    }

    fn audience(&self, task: &Task) -> Vec<Concerned> {
        asker(task).into_iter().chain(holder(task)).collect()
    }
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
