//! Asking for work by a request of the Clutch protocol: as creating a task, with where it belongs and on what terms.

use serde::{Deserialize, Serialize};

use super::{CreateTask, Task};
use crate::actor::Caller;
use crate::clutch::{Address, Policy, Requirement, Trace};
use crate::code::Code;
use crate::command::{Command, Undecided};
use crate::contract::ContractBinding;
use crate::event::AnyEvent;
use crate::id::{AgentId, MessageId, TaskId, ThreadId, Timestamp};
use crate::model::{Key, ReadSet, View};
use crate::refusal::Rejection;
use crate::{group, limit};

/// What a request says of who shall do the task, how and until when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestTerms {
    /// The message that asked for it.
    pub request: MessageId,
    /// Whom it was sent to: the router, agents by name, or groups.
    pub to: Vec<Address>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefers: Vec<Requirement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    pub policy: Policy,
    /// Who was in the groups with a list that it was sent to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<AgentId>,
    /// What the messages that answer it are held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<ContractBinding>,
    /// When it is of use to nobody any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime_sec: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The trace that it belongs to: the one that it names, else that of the task that it is part of.
    #[serde(default, skip_serializing_if = "Trace::is_none")]
    pub trace: Trace,
}

impl RequestTerms {
    /// Whether it is for agents to do: a request to people waits for them.
    pub fn is_for_agents(&self) -> bool {
        self.to.iter().any(|address| matches!(address, Address::Orchestrator | Address::Agent(_) | Address::Group(_)))
    }
}

/// Where a task belongs, and on what terms it is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskOrigin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The task that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// How many tasks it is part of, one within the other.
    #[serde(default, skip_serializing_if = "is_top")]
    pub level: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Box<RequestTerms>>,
}

impl TaskOrigin {
    pub(super) fn is_none(&self) -> bool {
        *self == TaskOrigin::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_top(level: &u32) -> bool {
    *level == 0
}

/// A task that is asked for by a message.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    pub create: CreateTask,
    pub thread: ThreadId,
    pub parent: Option<TaskId>,
    pub terms: RequestTerms,
}

impl Request {
    pub(crate) fn read_set(&self) -> ReadSet {
        let mut read_set = self.create.read_set();
        read_set.push(Key::Run(self.create.run.clone()).into());
        read_set.extend(self.parent.iter().map(|parent| Key::Task(parent.clone()).into()));
        read_set
    }

    pub(crate) fn creates(&self, view: &View, caller: &Caller) -> Result<Vec<AnyEvent>, Undecided> {
        let whole = match &self.parent {
            Some(parent) => Some(whole(view, parent)?),
            None => None,
        };
        let terms = RequestTerms {
            members: group::listed(view, &self.terms.to)?,
            trace: self.trace_within(whole),
            ..self.terms.clone()
        };
        let origin = TaskOrigin {
            thread: Some(self.thread.clone()),
            parent: self.parent.clone(),
            level: whole.map_or(Ok(0), |whole| self.fits(whole))?,
            terms: Some(Box::new(terms)),
        };
        self.create.creates(view, caller, origin)
    }

    /// The trace that it names, else the one that the whole belongs to.
    fn trace_within(&self, whole: Option<&Task>) -> Trace {
        let Trace { trace_id, span_id } = self.terms.trace.clone();
        let above = || whole?.origin.terms.as_ref()?.trace.trace_id.clone();
        Trace { trace_id: trace_id.or_else(above), span_id }
    }

    fn fits(&self, parent: &Task) -> Result<u32, Rejection> {
        if parent.run != self.create.run {
            let message = format!("task {} is in run {}, and so are its subtasks", parent.id, parent.run);
            return Err(Rejection::new(Code::Invalid, message).about("/run_id"));
        }
        if !parent.state.is_open() {
            let message = format!("task {} is {} and takes no subtasks", parent.id, parent.state.as_str());
            return Err(Rejection::new(Code::InvalidState, message).about("/parent_task_id"));
        }
        let level = parent.origin.level.saturating_add(1);
        if level > limit::TASK_LEVELS {
            let message = format!("tasks are within each other at most {} levels deep", limit::TASK_LEVELS);
            return Err(Rejection::new(Code::TooLarge, message).about("/parent_task_id"));
        }
        Ok(level)
    }
}

/// The task that another is to be part of.
fn whole<'v>(view: &'v View, parent: &TaskId) -> Result<&'v Task, Undecided> {
    let unknown = || Rejection::new(Code::TaskNotFound, format!("there is no task '{parent}' to be part of"));
    Ok(view.find_task(parent)?.ok_or_else(|| unknown().about("/parent_task_id"))?)
}
