//! Asking for work by a request of the Clutch protocol: as creating a task, with where it belongs and on what terms.

use super::CreateTask;
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{TaskId, ThreadId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::task::{RequestTerms, Task, TaskOrigin};
use crate::model::trace::Trace;
use crate::model::{Key, ReadSet, Undecided, View, group};
use crate::traits::{AnyEvent, Command};

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
